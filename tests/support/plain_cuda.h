// CUDA C as its manual says, for a C++ compiler: a context for each thread of a block, blocks one after the other. It was written
// without the emulator of the package, and knows none of its names.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct dim3 { unsigned int x, y, z; };

namespace plain {

enum Waits { RUNS, AT_BARRIER, AT_SHUFFLE, ENDED };

struct Thread {
  ucontext_t context;
  std::vector<char> stack;
  dim3 index;
  Waits waits;
  uint64_t value, result;
  unsigned int mask;
  int source;
};

static std::vector<Thread> threads;
static ucontext_t scheduler;
static Thread *now;
static dim3 block_index, block_extent, grid_extent;
static std::function<void()> kernel;

static void wait(Waits reason) {
  now->waits = reason;
  swapcontext(&now->context, &scheduler);
}

static void body() {
  kernel();
  wait(ENDED);
}

static uint64_t exchanged(unsigned int mask, uint64_t value, int source) {
  now->value = value, now->mask = mask, now->source = source;
  wait(AT_SHUFFLE);
  return now->result;
}

// The lanes of a warp whose mask has all arrived go on with each other's values.
static bool shuffled(size_t first) {
  bool any = false;
  for (size_t at = first; at < first + 32 && at < threads.size(); ++at) {
    Thread &lane = threads[at];
    if (lane.waits != AT_SHUFFLE) continue;
    bool all = true;
    for (int other = 0; other < 32; ++other)
      if (lane.mask >> other & 1) all = all && first + other < threads.size() && threads[first + other].waits == AT_SHUFFLE;
    if (!all) continue;
    const unsigned int mask = lane.mask;
    for (int other = 0; other < 32; ++other)
      if (mask >> other & 1) threads[first + other].result = threads[first + threads[first + other].source].value;
    for (int other = 0; other < 32; ++other)
      if (mask >> other & 1) threads[first + other].waits = RUNS;
    any = true;
  }
  return any;
}

// One block; whether it came to its end.
static bool run_block() {
  const unsigned int count = block_extent.x * block_extent.y * block_extent.z;
  threads.resize(count);
  for (unsigned int at = 0; at < count; ++at) {
    Thread &thread = threads[at];
    thread.stack.resize(1 << 17);
    thread.index = {at % block_extent.x, at / block_extent.x % block_extent.y, at / (block_extent.x * block_extent.y)};
    thread.waits = RUNS;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = thread.stack.size();
    makecontext(&thread.context, body, 0);
  }
  while (true) {
    bool ran = false;
    for (Thread &thread : threads) {
      if (thread.waits != RUNS) continue;
      now = &thread, ran = true;
      swapcontext(&scheduler, &thread.context);
    }
    for (size_t first = 0; first < threads.size(); first += 32) ran = shuffled(first) || ran;
    size_t waiting = 0, ended = 0;
    for (Thread &thread : threads) waiting += thread.waits == AT_BARRIER, ended += thread.waits == ENDED;
    if (ended == threads.size()) return true;
    if (waiting && waiting + ended == threads.size()) {
      if (ended) return false;  // which no barrier of a block may meet
      for (Thread &thread : threads) thread.waits = RUNS;
    } else if (!ran) {
      return false;
    }
  }
}

static int launch(dim3 grid, dim3 block, std::function<void()> what) {
  kernel = what, grid_extent = grid, block_extent = block;
  for (unsigned int z = 0; z < grid.z; ++z)
    for (unsigned int y = 0; y < grid.y; ++y)
      for (unsigned int x = 0; x < grid.x; ++x) {
        block_index = {x, y, z};
        if (!run_block()) return 1;
      }
  return 0;
}

static int lane() {
  return (int)((now->index.x + block_extent.x * (now->index.y + block_extent.y * now->index.z)) & 31u);
}

template <class T>
static T shuffle(unsigned int mask, T value, int source) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchanged(mask, bits, source);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace plain

#define threadIdx (plain::now->index)
#define blockIdx plain::block_index
#define blockDim plain::block_extent
#define gridDim plain::grid_extent
#define __syncthreads() plain::wait(plain::AT_BARRIER)

template <class T>
static T __shfl_sync(unsigned int mask, T value, int source, int width = 32) {
  const int first = plain::lane() & ~(width - 1);
  return plain::shuffle(mask, value, first + (source & (width - 1)));
}

template <class T>
static T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
  const int own = plain::lane(), source = own + (int)delta;
  return plain::shuffle(mask, value, source < (own & ~(width - 1)) + width ? source : own);
}

template <class T>
static T atomicAdd(T *place, T value) {
  const T before = *place;
  *place = before + value;
  return before;
}
