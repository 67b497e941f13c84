// The emulated GPU: fibers, barriers, warp exchanges and the checks of every access. Not instrumented itself.
//
// Blocks run one after the other in an order drawn from the seed, and so do the fibers of a block between two barriers.
// A thread runs until it waits or ends, so what a missing barrier would leave to chance is found by the race checker:
// every barrier begins an epoch, and two accesses of one element in one epoch by two threads, one of them storing, race.
// Accesses of two blocks of one launch race likewise, whatever their epochs. What the lanes of a warp do at one place is one
// instruction, whose addresses tell how often it goes through memory: see traffic.h.
//
// What is asynchronous is done at the wait for it, no earlier: see asynchronous.h.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

struct Index { unsigned int x, y, z; };
extern "C" {
Index tw_thread_index, tw_block_index, tw_block_extent, tw_grid_extent;
int tw_emulated_rank;  // of the block of the thread that runs, in its cluster
extern char tw_cluster_memory[] __attribute__((weak, visibility("hidden")));
extern char __start_tw_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_tw_shared[] __attribute__((weak, visibility("hidden")));
extern char __ehdr_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
}

enum Kind { NONE, RACE, OUT_OF_BOUNDS, BARRIER, SHUFFLE, MISALIGNED, ASSERTION, ARRAY_BOUNDS, IN_FLIGHT, UNORDERED, DEADLOCK };

// What went wrong, as Python reads it.
struct Fault {
  int32_t kind, thread, other_thread, stores, other_stores, buffer, across_blocks, detail;
  int64_t element;
  uint64_t place, other_place;  // code addresses, from the beginning of this library; of barriers, lines
  uint32_t block[3];
  uint32_t size;
};

struct Cell {
  uint32_t written, read, read_before;  // epochs; the last of a read by an earlier block
  uint16_t writer, reader;
  uint32_t writer_place, reader_place;
  uint32_t copier;  // the thread whose copy to it has begun and is not waited for, from 1; 0 where there is none
  uint32_t copied_at;
  uint32_t fences;  // of the writer, when it stored
  uint32_t tick, read_tick;  // of the writer and the reader; of the copy engine, the phase
  uint16_t held;    // by how many threads, for products that read it
  uint16_t landed;  // by the copy engine, for the barrier that `writer` is the number of: 1 and the bytes of its exchange; else 0
};

struct Buffer {
  uint64_t begin, end;
  uint32_t granule, shared;
  Cell *cells;
};

const uint16_t SEVERAL = 0xffff;
const size_t STACK = 256 * 1024;
const int MOST_THREADS = 2048;  // of a cluster
const int MOST_BLOCKS = 16;

template <class T>
struct List {
  T *items;
  int count, room;
  void add(const T &item) {
    if (count == room) {
      room = room ? 2 * room : 16;
      items = (T *)realloc(items, room * sizeof(T));
    }
    items[count++] = item;
  }
};

struct Copy {
  void *to;
  const void *from;
  int bytes, group;
  uint64_t place;
};

// Of a warpgroup: sums of 64 by `columns`, of which a thread has half as many as there are columns. kind: float16, bfloat16, int8, uint8,
// float8_e4m3fn, float8_e5m2.
// turned: rows are terms. panel: the bytes from one panel to the next; row: of a row of one.
struct Product {
  void *c;
  const char *a, *b;
  int columns, kind, a_turned, b_turned, a_panel, b_panel, a_row, b_row, group;
  uint64_t place;
  const void *held;  // A in registers, of which `rows` are the two of this thread
  char rows[2][32];
};

enum State { READY, AT_BARRIER, AT_SHUFFLE, AT_PHASE, AT_NAMED, AT_CLUSTER, DONE };

struct Fiber {
#if defined(__x86_64__)
  void *stack_pointer;
#else
  ucontext_t context;
#endif
  State state;
  uint64_t place;  // a line at barriers, else a code address
  unsigned int mask;
  int meeting, amount, width;
  unsigned long long value;
  List<Copy> copies;  // not waited for, in order
  int groups;
  List<Product> products;  // likewise
  int product_groups;
  uint32_t begun;  // products, ever
  Product last;    // that is done
  bool fenced;     // whether products may begin
  uint32_t fences;
};

static Fiber fibers[MOST_THREADS];
static char *stacks;
static int running, threads, block_threads, cluster;  // threads: of all blocks of a cluster, which run together
static bool faulted, checking;
static Fault fault;
static Buffer buffers[256];
static int buffer_count, last_hit;
static uint32_t epoch = 1, block_epoch, launch_epoch;
static uint32_t epochs[MOST_BLOCKS];  // of the blocks of a cluster
static Index first_block;
static uint64_t random_state;
static void (*entry)(void **);
static void **arguments;
static int ready[MOST_THREADS], ready_count;

static uint64_t draw() {
  random_state += 0x9e3779b97f4a7c15u;
  uint64_t z = random_state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

template <class T>
static void shuffle_order(T *items, size_t count) {
  for (size_t i = count; i > 1; --i) {
    size_t other = (draw() >> 32) * i >> 32;
    T kept = items[i - 1];
    items[i - 1] = items[other];
    items[other] = kept;
  }
}

// Fibers

#if defined(__x86_64__)
asm(R"(
.text
.local tw_switch
tw_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
extern "C" void tw_switch(void **save, void *load);
static void *scheduler;
static void to_scheduler() { tw_switch(&fibers[running].stack_pointer, scheduler); }
static void to_fiber(int thread) { tw_switch(&scheduler, fibers[thread].stack_pointer); }
#else
static ucontext_t scheduler;
static void to_scheduler() { swapcontext(&fibers[running].context, &scheduler); }
static void to_fiber(int thread) { swapcontext(&scheduler, &fibers[thread].context); }
#endif

static void run_fiber() {
  entry(arguments);
  fibers[running].state = DONE;
  to_scheduler();
}

static void begin_fiber(int thread) {
  Fiber &fiber = fibers[thread];
  fiber.state = READY;
  fiber.copies.count = fiber.groups = fiber.products.count = fiber.product_groups = 0;
  fiber.begun = fiber.fences = 0, fiber.fenced = false, fiber.last = {};
  char *top = stacks + (size_t)(thread + 1) * STACK;
#if defined(__x86_64__)
  void **place = (void **)(top - 64);
  *--place = nullptr;  // where run_fiber would return to: it never does; keeps the stack aligned as after a call
  *--place = (void *)run_fiber;
  for (int i = 0; i < 6; ++i) *--place = nullptr;
  fiber.stack_pointer = place;
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = top - STACK;
  fiber.context.uc_stack.ss_size = STACK;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, run_fiber, 0);
#endif
}

static Index indices[MOST_THREADS];

static void set_thread(int thread) {
  running = thread;
  tw_thread_index = indices[thread];
  if (cluster == 1) return;
  tw_emulated_rank = thread / block_threads;
  tw_block_index.x = first_block.x + (unsigned int)tw_emulated_rank;
}

static void number_threads() {
  for (unsigned int thread = 0; thread < (unsigned int)threads; ++thread) {
    unsigned int own = thread % (unsigned int)block_threads;
    indices[thread] = {own % tw_block_extent.x, own / tw_block_extent.x % tw_block_extent.y,
                       own / tw_block_extent.x / tw_block_extent.y};
  }
}

// Faults

static uint64_t place_of(void *code) { return (uint64_t)code - (uint64_t)__ehdr_start; }

static void record(Kind kind, int thread, uint64_t place) {
  faulted = true;
  fault.kind = kind;
  fault.thread = thread;
  fault.place = place;
  fault.block[0] = first_block.x + thread / block_threads, fault.block[1] = first_block.y, fault.block[2] = first_block.z;
}

static void fail(Kind kind, uint64_t place) {
  record(kind, running, place);
  to_scheduler();  // and never come back
}

// Barriers and warps

extern "C" void tw_emulated_barrier(int line) {
  fibers[running].state = AT_BARRIER;
  fibers[running].place = (uint64_t)line;
  to_scheduler();
}

extern "C" void tw_emulated_failure(int message) {
  fault.detail = message;
  fail(ASSERTION, place_of(__builtin_return_address(0)));
}

// What lanes meet for: a register of another lane, a product of the warp, or memory of each for all.
enum Meeting { FROM_LANE, FROM_BELOW, PRODUCT, SHARE };

// A lane's part of sums of 16 by 8 (two neighbours of row lane / 4, and of the row 8 further), of the two rows of A, and of a
// column of B (lane / 4): of each `terms` neighbours, the ones of lane % 4.
struct LaneProduct { void *sums; const void *left, *right; };

const int MOST_TERMS = 8;

template <class Sum>
static void multiply(int first, int terms) {
  Sum a[16][4 * MOST_TERMS], b[4 * MOST_TERMS][8];
  for (int lane = 0; lane < 32; ++lane) {
    const LaneProduct &own = *(const LaneProduct *)fibers[first + lane].value;
    for (int i = 0; i < terms; ++i) {
      int term = lane % 4 * terms + i;
      a[lane / 4][term] = ((const Sum *)own.left)[i], a[lane / 4 + 8][term] = ((const Sum *)own.left)[terms + i];
      b[term][lane / 4] = ((const Sum *)own.right)[i];
    }
  }
  for (int row = 0; row < 16; ++row) {
    Sum sums[8];
    for (int column = 0; column < 8; ++column)
      sums[column] = ((Sum *)((LaneProduct *)fibers[first + row % 8 * 4 + column / 2].value)->sums)[row / 8 * 2 + column % 2];
    for (int term = 0; term < 4 * terms; ++term)
      for (int column = 0; column < 8; ++column) sums[column] += a[row][term] * b[term][column];
    for (int column = 0; column < 8; ++column)
      ((Sum *)((LaneProduct *)fibers[first + row % 8 * 4 + column / 2].value)->sums)[row / 8 * 2 + column % 2] = sums[column];
  }
}

// Memory of a lane, and where it gets that of all 32.
struct LaneShare { void *all; const void *own; };

const int MOST_SHARED = 16;

static void share(int first, int bytes) {
  char all[32 * MOST_SHARED];
  for (int lane = 0; lane < 32; ++lane) memcpy(all + bytes * lane, ((const LaneShare *)fibers[first + lane].value)->own, bytes);
  for (int lane = 0; lane < 32; ++lane) memcpy(((const LaneShare *)fibers[first + lane].value)->all, all, 32 * bytes);
}

static bool exchange(int first, unsigned int mask) {
  unsigned long long results[32] = {};
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    Fiber &fiber = fibers[first + lane];
    int group = lane & ~(fiber.width - 1);
    int source = fiber.meeting == FROM_BELOW ? lane + fiber.amount : group + (fiber.amount & (fiber.width - 1));
    if (source >= group + fiber.width) source = lane;
    if (!(mask >> source & 1)) {
      fault.detail = source;
      record(SHUFFLE, first + lane, fiber.place);
      return false;
    }
    results[lane] = fibers[first + source].value;
  }
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) fibers[first + lane].value = results[lane];
  return true;
}

static void finish_meeting(int first, unsigned int mask) {
  const Fiber &any = fibers[running];
  if (any.meeting == SHARE) share(first, any.amount);
  else if (any.meeting == PRODUCT && any.width) multiply<int>(first, any.amount);
  else if (any.meeting == PRODUCT) multiply<double>(first, any.amount);
  else if (!exchange(first, mask)) return;
  int woken[32], count = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) fibers[first + lane].state = READY, woken[count++] = first + lane;
  shuffle_order(woken, count);
  for (int i = 0; i < count; ++i) ready[ready_count++] = woken[i];
}

// Wait for the lanes of `mask`, of which the last to come does what they meet for.
static void meet(unsigned int mask, Meeting meeting, unsigned long long value, int amount, int width, uint64_t place) {
  int lane = running & 31, first = running - lane;
  int lanes = threads - first < 32 ? threads - first : 32;
  fault.detail = lane;
  if (!(mask >> lane & 1) || (lanes < 32 && mask >> lanes)) fail(SHUFFLE, place);
  Fiber &own = fibers[running];
  own.mask = mask, own.value = value, own.meeting = meeting, own.amount = amount, own.width = width, own.place = place;
  own.state = AT_SHUFFLE;
  bool all = true;
  for (int other = 0; all && other < lanes; ++other) {
    if (!(mask >> other & 1)) continue;
    Fiber &fiber = fibers[first + other];
    all = fiber.state == AT_SHUFFLE && fiber.mask == mask && fiber.meeting == meeting &&
          (meeting < PRODUCT || (fiber.amount == amount && fiber.width == width));
  }
  if (all) finish_meeting(first, mask);
  to_scheduler();
}

extern "C" unsigned long long tw_emulated_shuffle(unsigned int mask, unsigned long long value, int below, int amount, int width) {
  int self = running;
  meet(mask, below ? FROM_BELOW : FROM_LANE, value, amount, width, place_of(__builtin_return_address(0)));
  return fibers[self].value;
}

// sums += left right of the warp, see LaneProduct. integers: of int, else of double, term after term.
extern "C" void tw_emulated_warp_product(void *sums, const void *left, const void *right, int terms, int integers) {
  LaneProduct own = {sums, left, right};
  meet(0xffffffffu, PRODUCT, (unsigned long long)&own, terms, integers, place_of(__builtin_return_address(0)));
}

// `bytes` of each lane, by their order, to `all` of each.
extern "C" void tw_emulated_share(void *all, const void *own, int bytes) {
  LaneShare both = {all, own};
  meet(0xffffffffu, SHARE, (unsigned long long)&both, bytes, 0, place_of(__builtin_return_address(0)));
}

#include "traffic.h"

// Accesses

static void race(Buffer &buffer, uint64_t address, bool stores, uint64_t place, bool with_writer, Cell &cell, bool blocks) {
  fault.stores = stores;
  fault.other_stores = with_writer;
  fault.other_thread = with_writer ? cell.writer : cell.reader;
  fault.other_place = with_writer ? cell.writer_place : cell.reader_place;
  fault.buffer = (int)(&buffer - buffers);
  fault.element = (int64_t)((address - buffer.begin) / buffer.granule);
  fault.across_blocks = blocks;
  fail(RACE, place);
}

static inline bool elsewhere(const Buffer &buffer, uint32_t when) {
  return !buffer.shared && when >= launch_epoch && when < block_epoch;
}

#include "clusters.h"

static void early(Buffer &buffer, uint64_t address, bool stores, uint64_t place, const Cell &cell) {
  fault.stores = stores;
  fault.other_thread = (int)cell.copier - 1;
  fault.other_place = cell.copied_at;
  fault.detail = cell.copier ? 0 : 1;
  fault.buffer = (int)(&buffer - buffers);
  fault.element = (int64_t)((address - buffer.begin) / buffer.granule);
  fail(IN_FLIGHT, place);
}

static bool knows(int self, int other, uint32_t tick);
static bool is_recent(const Buffer &buffer, uint64_t address, uint32_t when);
static void note_read(const Buffer &buffer, uint64_t address);
static bool knows_readers(const Buffer &buffer, uint64_t address, int *unknown);
static void unordered(int what, uint64_t place, int other_thread, uint64_t other_place);
const int MOST_PHASED = 64;
static uint32_t ticks[MOST_THREADS], seen[MOST_THREADS][MOST_PHASED];

// What the copy engine wrote, a thread sees that waited for its phase; what another wrote, one that knows of it.
static bool unseen(const Buffer &buffer, uint64_t address, const Cell &cell, int self) {
  if (!is_recent(buffer, address, cell.written)) return false;
  if (cell.landed) return seen[self][cell.writer] < cell.tick;
  return cell.writer != self && !knows(self, cell.writer, cell.tick);
}

static void check_cell(Buffer &buffer, uint64_t address, bool stores, uint64_t place) {
  Cell &cell = buffer.cells[(address - buffer.begin) / buffer.granule];
  uint16_t self = (uint16_t)running;
  uint32_t now = epoch_at(buffer, address);
  if (cell.copier || (stores && cell.held)) early(buffer, address, stores, place, cell);
  if (cell.landed && unseen(buffer, address, cell, self)) unordered(6, place, self, cell.writer_place);
  bool beside = is_beside(buffer, cell.writer, cell.written);
  if (unseen(buffer, address, cell, self) || elsewhere(buffer, cell.written) || beside)
    race(buffer, address, stores, place, true, cell, beside || !is_recent(buffer, address, cell.written));
  if (stores) {
    bool by_block = elsewhere(buffer, cell.read) || elsewhere(buffer, cell.read_before) || is_beside(buffer, cell.reader, cell.read);
    int reader = cell.reader;
    bool unknown = is_recent(buffer, address, cell.read) && reader != self && !knows_readers(buffer, address, &reader);
    if (unknown) cell.reader = (uint16_t)reader;
    if (unknown || by_block) race(buffer, address, stores, place, false, cell, by_block);
    cell.written = now, cell.writer = self, cell.writer_place = (uint32_t)place, cell.landed = 0, cell.fences = fibers[self].fences;
    cell.tick = ticks[self];
    return;
  }
  note_read(buffer, address);
  if (cell.read == now) {
    if (cell.reader != self) cell.reader = SEVERAL;
  } else {
    if (elsewhere(buffer, cell.read)) cell.read_before = cell.read;
    cell.read = now, cell.reader = self, cell.reader_place = (uint32_t)place;
  }
}

extern "C" const unsigned long tw_widest_alignment;  // of the kernel's unit: see emulation.h

static void touch_own(uint64_t address, bool stores, void *code);

// counted: whether a thread does it by an instruction of its own.
static void access_at(uint64_t address, size_t size, bool stores, bool aligned, uint64_t place, bool counted) {
  int found = -1;
  if (last_hit < buffer_count && address >= buffers[last_hit].begin && address < buffers[last_hit].end) found = last_hit;
  for (int i = 0; found < 0 && i < buffer_count; ++i)
    if (address >= buffers[i].begin && address < buffers[i].end) found = i;
  if (found < 0 && address >= (uint64_t)__ehdr_start && address < (uint64_t)_end) {
    bool in_shared = __start_tw_shared && address >= (uint64_t)__start_tw_shared && address < (uint64_t)__stop_tw_shared;
    if (!in_shared) return;  // constants and indices
  }
  fault.stores = stores;
  fault.size = (uint32_t)size;
  if (found < 0 || address + size > buffers[found].end) {
    int nearest = found < 0 ? 0 : found;
    for (int i = 0; found < 0 && i < buffer_count; ++i)
      if (buffers[i].begin <= address && (buffers[nearest].begin > address || buffers[i].begin > buffers[nearest].begin)) nearest = i;
    fault.buffer = buffer_count ? nearest : -1;
    fault.element = buffer_count ? (int64_t)(address - buffers[nearest].begin) / (int64_t)buffers[nearest].granule : 0;
    fail(OUT_OF_BOUNDS, place);
  }
  last_hit = found;
  if (aligned && address % (size < tw_widest_alignment ? size : tw_widest_alignment)) {
    fault.buffer = found;
    fault.element = (int64_t)((address - buffers[found].begin) / buffers[found].granule);
    fail(MISALIGNED, place);
  }
  if (counted) note(running, address, (uint32_t)place, size, buffers[found].shared, stores);
  if (!checking) return;
  Buffer &buffer = buffers[found];
  for (size_t at = 0; at < size; at += buffer.granule) check_cell(buffer, address + at, stores, place);
}

static void access(uint64_t address, size_t size, bool stores, bool aligned, void *code) {
  if (faulted) return;
  if (address - (uint64_t)stacks < STACK * MOST_THREADS) {
    const Fiber &own = fibers[running];
    if (own.products.count || own.last.columns) touch_own(address, stores, code);
  } else access_at(address, size, stores, aligned, place_of(code), true);
}

#include "asynchronous.h"
#include "phases.h"

#define HOOKS(bytes)                                                                                                       \
  extern "C" void __tsan_read##bytes(void *a) { access((uint64_t)a, bytes, false, true, CODE); }                           \
  extern "C" void __tsan_write##bytes(void *a) { access((uint64_t)a, bytes, true, true, CODE); }                           \
  extern "C" void __tsan_unaligned_read##bytes(void *a) { access((uint64_t)a, bytes, false, false, CODE); }                \
  extern "C" void __tsan_unaligned_write##bytes(void *a) { access((uint64_t)a, bytes, true, false, CODE); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" void __tsan_read_range(void *a, size_t size) { access((uint64_t)a, size, false, false, CODE); }
extern "C" void __tsan_write_range(void *a, size_t size) { access((uint64_t)a, size, true, false, CODE); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __ubsan_handle_out_of_bounds(void *, void *index) {
  fault.element = (int64_t)index;
  fail(ARRAY_BOUNDS, place_of(CODE));
}

// Launches

// All blocks of a cluster together.
static bool run_block(char *shared, size_t shared_bytes) {
  for (int thread = 0; thread < threads; ++thread)  // of the block before
    for (int i = 0; i < fibers[thread].copies.count; ++i) mark(fibers[thread].copies.items[i].to, fibers[thread].copies.items[i].bytes, 0, 0);
  for (running = 0; running < threads; ++running)
    for (int i = 0; i < fibers[running].products.count; ++i) hold(fibers[running].products.items[i], -1);
  forget_stores(), forget_phases();
  memset(shared, 0xff, shared_bytes);  // every float is NaN, every integer -1 or its greatest
  block_epoch = ++epoch;
  for (uint32_t &own : epochs) own = epoch;
  cluster_epoch = epoch, reached = {};
  ready_count = 0;
  for (int thread = 0; thread < threads; ++thread) begin_fiber(thread), ready[ready_count++] = thread;
  shuffle_order(ready, ready_count);
  for (;;) {
    while (ready_count) {
      int thread = ready[--ready_count];
      set_thread(thread);
      to_fiber(thread);
      if (faulted) return false;
    }
    if (wake_phases() || (cluster > 1 && release_blocks())) continue;
    if (!phases_end()) return false;
    count_traffic(threads);
    int waiting = 0, done = 0, first = -1;
    for (int thread = 0; thread < threads; ++thread) {
      Fiber &fiber = fibers[thread];
      if (fiber.state == AT_SHUFFLE) return fault.detail = thread & 31, record(SHUFFLE, thread, fiber.place), false;
      if (fiber.state == DONE) ++done;
      if (fiber.state == AT_CLUSTER) return fault.detail = -1, fault.size = (uint32_t)threads, record(DEADLOCK, thread, fiber.place), false;
      if (fiber.state == AT_BARRIER && first < 0) first = thread;
      if (fiber.state == AT_BARRIER && fiber.place == fibers[first].place) ++waiting;
    }
    if (!products_agree()) return false;
    if (done == threads) return boxes_are_read() && blocks_end_well();
    if (waiting < threads) {
      fault.detail = waiting;
      for (int thread = 0; thread < threads; ++thread)
        if (fibers[thread].state == DONE || fibers[thread].place != fibers[first].place) {
          fault.other_thread = thread;
          fault.other_place = fibers[thread].state == DONE ? 0 : fibers[thread].place;
          break;
        }
      return record(BARRIER, first, fibers[first].place), false;
    }
    epochs[0] = ++epoch;
    know_all(0, threads);
    for (int thread = 0; thread < threads; ++thread) fibers[thread].state = READY, ready[ready_count++] = thread;
    shuffle_order(ready, ready_count);
  }
}

// Memory: of each buffer its begin, its bytes and the size of an element. checked: whether races are looked for. Returns
// whether all went well; if not, `out` says what.
EXPORT int tw_launch(void (*kernel)(void **), void **kernel_arguments, const uint32_t *grid, const uint32_t *block,
                     const uint64_t *memory, int memory_count, uint32_t shared_granule, int blocks_together, uint64_t seed, int checked,
                     Fault *out) {
  if (!stacks) {
    void *made = mmap(nullptr, STACK * MOST_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return -1;
    stacks = (char *)made;
  }
  char *shared = __start_tw_shared;
  size_t shared_bytes = shared ? __stop_tw_shared - __start_tw_shared : 0;
  buffer_count = 0;
  for (int i = 0; i < memory_count; ++i, ++buffer_count)
    buffers[i] = {memory[3 * i], memory[3 * i] + memory[3 * i + 1], (uint32_t)memory[3 * i + 2], 0, nullptr};
  if (shared_bytes) buffers[buffer_count++] = {(uint64_t)shared, (uint64_t)shared + shared_bytes, shared_granule, 1, nullptr};
  for (int i = 0; checked && i < buffer_count; ++i) {
    buffers[i].cells = (Cell *)calloc((buffers[i].end - buffers[i].begin) / buffers[i].granule + 1, sizeof(Cell));
    if (buffers[i].cells) continue;
    while (i--) free(buffers[i].cells);
    return -1;
  }
  entry = kernel, arguments = kernel_arguments, checking = checked, faulted = false, random_state = seed, last_hit = 0;
  memset(&fault, 0, sizeof fault);
  tw_grid_extent = {grid[0], grid[1], grid[2]};
  tw_block_extent = {block[0], block[1], block[2]};
  block_threads = (int)(block[0] * block[1] * block[2]), cluster = blocks_together, threads = block_threads * cluster;
  if (threads > MOST_THREADS || cluster > MOST_BLOCKS) return -1;
  tw_emulated_rank = 0;
  number_threads();
  launch_epoch = ++epoch;
  for (Fiber &fiber : fibers) fiber.copies.count = fiber.products.count = 0;  // of a launch that failed
  for (List<Box> &own : stored) own.count = 0;
  forget_traffic();
  size_t across = grid[0] / (size_t)cluster, blocks = across * grid[1] * grid[2];
  uint32_t *order = (uint32_t *)malloc(blocks * sizeof(uint32_t));
  for (size_t i = 0; i < blocks; ++i) order[i] = (uint32_t)i;
  shuffle_order(order, blocks);
  bool well = true;
  for (size_t i = 0; well && i < blocks; ++i) {
    uint32_t row = (uint32_t)(order[i] / across);
    tw_block_index = first_block = {(uint32_t)(order[i] % across * cluster), row % grid[1], row / grid[1]};
    well = run_block(shared, shared_bytes);
  }
  free(order);
  for (int i = 0; checked && i < buffer_count; ++i) free(buffers[i].cells);
  if (fault.other_thread != SEVERAL) fault.other_thread %= block_threads;
  fault.thread %= block_threads;
  *out = fault;
  return well;
}
