/* SPDX-License-Identifier: Apache-2.0 */
/* Replays one trace through one allocator twice, from an empty heap and once more, in a process of its own. Prints one
 * line of JSON: ns per event; or the peaks of committed and live bytes and, where known, the number of calls for
 * memory.
 *
 *   bench_alloc_replay_trace time|space TRACE NAME      NAME: as in `cannon replay`, or mimalloc, glibc, or (time)
 * aclrt */
#include <stdio.h>
#include <string.h>

#include "peers.h"
#include "replay/replay.h"

typedef struct {
  uint64_t committed_bytes, live_bytes, n_calls;
} peaks;

static void note(const replay_step *s, void *argument) {
  peaks *p = argument;
  if (s->footprint.committed_bytes > p->committed_bytes) p->committed_bytes = s->footprint.committed_bytes;
  if (s->live_bytes > p->live_bytes) p->live_bytes = s->live_bytes;
  p->n_calls = s->footprint.n_calls;
}

static int usage(void) {
  fprintf(stderr, "usage: bench_alloc_replay_trace time|space TRACE NAME\n");
  return 2;
}

int main(int argc, char **argv) {
  char error[256];
  trace t;
  if (argc != 4) return usage();
  const bool space = strcmp(argv[1], "space") == 0;
  if (!space && strcmp(argv[1], "time") != 0) return usage();
  const allocator *a = allocator_find(argv[3]);
  if (!a) {
    const heap_calls *calls = heap_calls_find(argv[3]);
    if (calls && !(space && strcmp(calls->name, "aclrt") == 0)) a = peer_allocator(calls, space);
  }
  if (!a) {
    fprintf(stderr, "bench_alloc_replay_trace: there is no %s of %s here\n", argv[1], argv[3]);
    return 3;
  }
  if (!trace_read(argv[2], 0, &t, error)) {
    fprintf(stderr, "bench_alloc_replay_trace: %s: %s\n", argv[2], error);
    return 1;
  }
  const uint64_t cap_bytes = replay_roomy_cap(&t);
  if (space) {
    peaks p = {0};
    if (!replay_walk(a, &t, cap_bytes, note, &p)) return 1;
    printf("{\"committed_bytes\": %ju, \"live_bytes\": %ju", (uintmax_t)p.committed_bytes, (uintmax_t)p.live_bytes);
    if (p.n_calls != UNKNOWN_CALLS) printf(", \"calls\": %ju", (uintmax_t)p.n_calls);
    printf("}\n");
  } else {
    replay_times times;
    if (!replay_time(a, &t, cap_bytes, 1, &times)) return 1;
    printf("{\"cold_ns\": %.2f, \"warm_ns\": %.2f, \"cold_call_ns\": %.2f, \"warm_call_ns\": %.2f}\n", times.cold_ns,
           times.warm_ns, times.cold_call_ns, times.warm_call_ns);
  }
  trace_free(&t);
  return 0;
}
