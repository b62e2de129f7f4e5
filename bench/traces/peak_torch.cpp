/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a trace through PyTorch's own CUDA caching allocator and prints what it reserves: the reference for the model
 * in src/replay/caching.c. The allocator is the one in PyTorch's libraries; the few functions of the CUDA runtime that
 * it calls are replaced here, so no GPU is needed. Memory consists of addresses only; the first argument limits its
 * size.
 *
 *   T=/tmp/torchvenv/lib/python3.11/site-packages
 *   g++ -std=c++17 -rdynamic -D_GLIBCXX_USE_CXX11_ABI=1 bench/traces/peak_torch.cpp -o /tmp/peak_torch
 *     -I$T/torch/include -I$T/nvidia/cuda_runtime/include -L$T/torch/lib -lc10_cuda -lc10 -Wl,-rpath,$T/torch/lib
 *     $T/nvidia/cuda_runtime/lib/libcudart.so.12
 *   zcat bench/traces/train.txt.gz | /tmp/peak_torch [CAP_BYTES]
 *
 * Prints the peak of reserved bytes, the calls of cudaMalloc and cudaFree, and the refused requests. */
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

static uint64_t cap_bytes = uint64_t{1} << 40, next_address = uint64_t{1} << 32, taken_bytes, n_calls;
static std::unordered_map<void *, uint64_t> segments;

extern "C" {
cudaError_t cudaMalloc(void **p, size_t bytes) {
  if (bytes > cap_bytes - taken_bytes) return cudaErrorMemoryAllocation;
  *p = reinterpret_cast<void *>(next_address);
  next_address += (bytes + 0x1fffff) & ~uint64_t{0x1fffff};
  segments[*p] = bytes;
  taken_bytes += bytes;
  ++n_calls;
  return cudaSuccess;
}
cudaError_t cudaFree(void *p) {
  const auto found = segments.find(p);
  if (found == segments.end()) return cudaSuccess;
  taken_bytes -= found->second;
  segments.erase(found);
  ++n_calls;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  *free_bytes = cap_bytes - taken_bytes;
  *total = cap_bytes;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *n) { return *n = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status) {
  return *status = cudaStreamCaptureStatusNone, cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = *greatest = 0, cudaSuccess; }
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) { return cudaSuccess; }
}

int main(int argc, char **argv) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  if (argc > 1) cap_bytes = std::strtoull(argv[1], nullptr, 10);
  allocator::init(1);
  std::unordered_map<uint64_t, void *> blocks;
  uint64_t id, bytes, n_refused = 0;
  char line[128], kind;
  while (std::fgets(line, sizeof line, stdin)) {
    const int n = std::sscanf(line, "%c %lu %lu", &kind, &id, &bytes);
    if (n == 3 && kind == 'a') {
      try {
        blocks[id] = allocator::raw_alloc(bytes);
      } catch (const c10::OutOfMemoryError &) {
        ++n_refused;
      }
    } else if (n == 2 && kind == 'f' && blocks.count(id)) {
      allocator::raw_delete(blocks[id]);
      blocks.erase(id);
    }
  }
  std::printf("{\"reserved_bytes\": %ld, \"calls\": %lu, \"refused\": %lu}\n",
              allocator::getDeviceStats(0).reserved_bytes[0].peak, n_calls, n_refused);
  std::fflush(stdout);
  std::_Exit(0); /* PyTorch's exit handlers need a GPU */
}
