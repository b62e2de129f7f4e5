/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of gloo over TCP on the loopback interface, as PyTorch uses it between processes of a machine.
 * usage: bench_comm_gloo --ranks N [options of harness.h] */
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include <gloo/algorithm.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "harness.h"

static std::shared_ptr<gloo::rendezvous::Context> context;

/* gloo's reduction to one part per rank is an object bound to its buffer, in which it works; the largest is kept. */
typedef gloo::ReduceScatterHalvingDoubling<float> reduce_scatter;
static std::unique_ptr<reduce_scatter> reducer;
static std::pair<float *, size_t> reducer_of;

static void *gloo_allocate(size_t bytes) {
  void *const buffer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!buffer) harness_fail("out of memory");
  return buffer;
}

static void gloo_release(void *buffer) {
  if (reducer_of.first == buffer) reducer.reset(), reducer_of = {nullptr, 0};
  free(buffer);
}

static void gloo_write(void *to, const float *from, size_t n) { memcpy(to, from, n * sizeof *from); }
static void gloo_read(float *to, const void *from, size_t n) { memcpy(to, from, n * sizeof *to); }

static void gloo_all_reduce(float *in, float *out, size_t n) {
  gloo::AllreduceOptions options(context);
  options.setInput(in, n);
  options.setOutput(out, n);
  options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
  gloo::allreduce(options);
}

static void gloo_reduce_scatter(float *in, float *out, size_t n) {
  const size_t whole = n * static_cast<size_t>(context->size);
  if (reducer_of != std::make_pair(in, whole)) {
    reducer.reset(new reduce_scatter(context, {in}, static_cast<int>(whole),
                                     std::vector<int>(static_cast<size_t>(context->size), static_cast<int>(n))));
    reducer_of = {in, whole};
  }
  reducer->run();
  memcpy(out, in, n * sizeof *out);
}

static void gloo_start(operation op, float *in, float *out, size_t n, int root) {
  const size_t whole = n * static_cast<size_t>(context->size);
  switch (op) {
  case ALL_REDUCE: gloo_all_reduce(in, out, n); break;
  case ALL_GATHER: {
    gloo::AllgatherOptions options(context);
    options.setInput(in, n);
    options.setOutput(out, whole);
    gloo::allgather(options);
    break;
  }
  case REDUCE_SCATTER: gloo_reduce_scatter(in, out, n); break;
  case BROADCAST: {
    gloo::BroadcastOptions options(context);
    options.setOutput(out, n);
    options.setRoot(root);
    gloo::broadcast(options);
    break;
  }
  default: {
    gloo::AlltoallOptions options(context);
    options.setInput(in, whole);
    options.setOutput(out, whole);
    gloo::alltoall(options);
    break;
  }
  }
}

static void gloo_wait() {}

int main(int argc, char **argv) {
  const library gloo_library = {gloo_allocate, gloo_release, gloo_write, gloo_read, gloo_start, gloo_wait};
  const place p = harness_launch(argc, argv);
  harness_pin(p.rank, argc, argv);
  try {
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
    gloo::rendezvous::FileStore store(p.folder);
    context = std::make_shared<gloo::rendezvous::Context>(p.rank, p.n_ranks);
    context->connectFullMesh(store, device);
    harness_measure(&gloo_library, p, argc, argv);
  } catch (const std::exception &e) {
    harness_fail("gloo: %s", e.what());
  }
  return 0;
}
