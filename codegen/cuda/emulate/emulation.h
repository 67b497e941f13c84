// What CUDA C text needs to be compiled by a C++ compiler for the emulator.
#pragma once
#include <cmath>

#define __global__ __attribute__((noinline))
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__ static __attribute__((section("tw_shared")))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define threadIdx tw_thread_index
#define blockIdx tw_block_index
#define blockDim tw_block_extent
#define gridDim tw_grid_extent
#define TW_UNCHECKED __attribute__((no_sanitize("thread", "undefined")))

struct tw_uint3 { unsigned int x, y, z; };

extern "C" {
extern tw_uint3 tw_thread_index, tw_block_index, tw_block_extent, tw_grid_extent;
void tw_emulated_barrier(int line);
unsigned long long tw_emulated_shuffle(unsigned int mask, unsigned long long value, int kind, int amount, int width);
void tw_emulated_failure(int message);
}

// The compiler must not keep shared memory in registers while other threads run. By line, because it may make two calls of
// one barrier.
#define TW_OTHERS_RUN() __asm__ volatile("" ::: "memory")
#define __syncthreads() (({ TW_OTHERS_RUN(); tw_emulated_barrier(__LINE__); TW_OTHERS_RUN(); }))

template <class T>
static TW_UNCHECKED inline __attribute__((always_inline)) T tw_exchange(unsigned int mask, T value, int kind, int amount, int width) {
  union { T value; unsigned long long bits; } both;
  both.bits = 0;
  both.value = value;
  TW_OTHERS_RUN();
  both.bits = tw_emulated_shuffle(mask, both.bits, kind, amount, width);
  TW_OTHERS_RUN();
  return both.value;
}

template <class T>
static TW_UNCHECKED inline __attribute__((always_inline)) T __shfl_sync(unsigned int mask, T value, int lane, int width = 32) {
  return tw_exchange(mask, value, 0, lane, width);
}

template <class T>
static TW_UNCHECKED inline __attribute__((always_inline)) T __shfl_down_sync(unsigned int mask, T value, int delta, int width = 32) {
  return tw_exchange(mask, value, 1, delta, width);
}
