// Blocks of a cluster run together: their fibers are one set, and each has shared memory of its own, at the same distance from the next.
//
// Shared memory has the epochs of its own block, whoever touches it; a barrier of the cluster orders all.
#pragma once

const uint64_t BLOCK_SHARED = 232448;  // from the shared memory of one block to the next's

static uint32_t cluster_epoch;  // since all blocks met
struct Reached { bool any; int thread; uint64_t place; };
static Reached reached;  // another block's memory, since all blocks met

static int rank_at(const Buffer &buffer, uint64_t address) {
  bool placed = cluster > 1 && buffer.shared && tw_cluster_memory && address >= (uint64_t)tw_cluster_memory;
  return placed ? (int)((address - (uint64_t)tw_cluster_memory) / BLOCK_SHARED) : running / block_threads;
}

static uint32_t epoch_at(const Buffer &buffer, uint64_t address) { return epochs[rank_at(buffer, address)]; }

// Whether no barrier stands between that and what the thread that runs does there: in another block's memory, none of the cluster.
static bool is_recent(const Buffer &buffer, uint64_t address, uint32_t when) {
  int rank = rank_at(buffer, address);
  return rank == running / block_threads ? when == epochs[rank] : when >= cluster_epoch;
}

// A block that has ended has no memory any more. Whether all reached each other before a barrier of the cluster; if not, that is recorded.
static bool blocks_end_well() {
  if (!reached.any) return true;
  fault.detail = 9;
  return record(UNORDERED, reached.thread, reached.place), false;
}

// Whether a thread of another block of the cluster touched global memory.
static bool is_beside(const Buffer &buffer, int thread, uint32_t when) {
  return cluster > 1 && !buffer.shared && when >= block_epoch && thread != SEVERAL && thread / block_threads != running / block_threads;
}

// What lies in another block as `address` does in that of the thread that runs.
static uint64_t in_block(uint64_t address, int rank, uint64_t place) {
  if (rank != running / block_threads) reached = {true, running, place};
  return address + (uint64_t)(rank - running / block_threads) * BLOCK_SHARED;
}

static void know_all(int from, int count);
static bool products_agree();
static void let_go(int from, int count, State state) {
  for (int thread = from; thread < from + count; ++thread)
    if (fibers[thread].state == state) fibers[thread].state = READY, ready[ready_count++] = thread;
}

// Goes on with blocks whose threads are all at one barrier, or with all at a barrier of the cluster. Whether there are any.
static bool release_blocks() {
  int at_cluster = 0, done = 0;
  count_traffic(threads);
  if (!products_agree()) return false;
  for (int from = 0; from < threads; from += block_threads) {
    int waiting = 0;
    for (int thread = from; thread < from + block_threads; ++thread) {
      const Fiber &fiber = fibers[thread];
      waiting += fiber.state == AT_BARRIER && fiber.place == fibers[from].place;
      at_cluster += fiber.state == AT_CLUSTER, done += fiber.state == DONE;
    }
    if (waiting < block_threads) continue;
    epochs[from / block_threads] = ++epoch;
    know_all(from, block_threads);
    let_go(from, block_threads, AT_BARRIER);
  }
  if (at_cluster && at_cluster + done == threads) {
    ++epoch;
    for (uint32_t &own : epochs) own = epoch;
    cluster_epoch = epoch;
    if (!done) reached = {};  // who has ended did not wait for the others
    know_all(0, threads);
    let_go(0, threads, AT_CLUSTER);
  }
  if (ready_count) shuffle_order(ready, ready_count);
  return ready_count > 0;
}

extern "C" void tw_emulated_cluster_barrier() {
  Fiber &own = fibers[running];
  own.state = AT_CLUSTER, own.place = place_of(__builtin_return_address(0));
  to_scheduler();
}
