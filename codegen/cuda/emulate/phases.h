// Barriers in shared memory that count arrivals and bytes, and boxes that the copy engine copies.
//
// A box is there when the end of the phase of its barrier is waited for, no earlier; until then it is in flight. Who waited for the end
// of a phase knows what those did before who arrived in it: what a thread knows of others is a clock for each of them, which count their
// arrivals (Lamport, "Time, Clocks, and the Ordering of Events"; Flanagan and Freund, "FastTrack").
#pragma once

struct Box {
  char *to;
  uint64_t words[16];
  int at[5];
  int bytes, thread;
  uint64_t place;
};

struct Phased {
  uint64_t address, place;
  int arrivals, missing, maker;
  int64_t expected, begun;  // bytes
  uint32_t ended;           // phases
  uint8_t lanes[MOST_THREADS / 32];  // of each warp, that have released it
  bool known;               // whether the maker has told the copy engine
  List<Box> boxes;
  uint32_t *pending, *past;  // clocks of who arrived, in the phase that goes on and in those before
  uint32_t pending_seen[MOST_PHASED], past_seen[MOST_PHASED];  // likewise, which phases they had waited for
};

static Phased phased[MOST_PHASED];
static int phased_count;
static uint32_t clocks[MOST_THREADS][MOST_THREADS];
static uint32_t *read_ticks;  // by parts of 16 bytes of shared memory, and threads
static size_t read_parts;

// Of a block's shared memory, of whose threads alone it is read.
static uint32_t *readers_of(const Buffer &buffer, uint64_t address, int *from) {
  *from = (int)(cluster > 1 && tw_cluster_memory ? (address - (uint64_t)tw_cluster_memory) / BLOCK_SHARED : 0) * block_threads;
  return read_ticks + (address - buffer.begin) / 16 * block_threads;
}

static bool knows(int self, int other, uint32_t tick) { return phased_count && other < threads && clocks[self][other] >= tick; }

static void note_read(const Buffer &buffer, uint64_t address) {
  if (!phased_count || !buffer.shared) return;
  int from;
  uint32_t *row = readers_of(buffer, address, &from);
  if (running >= from && running < from + block_threads) row[running - from] = ticks[running];
}

// Whether a thread knows of all that others have read there.
static bool knows_readers(const Buffer &buffer, uint64_t address, int *unknown) {
  if (!phased_count || !buffer.shared) return false;
  int from;
  const uint32_t *row = readers_of(buffer, address, &from);
  for (int other = from; other < from + block_threads; ++other)
    if (other != running && row[other - from] && clocks[running][other] < row[other - from]) return *unknown = other, false;
  return true;
}

// So many threads know of each other.
static void know_all(int from, int count) {
  if (!phased_count) return;
  for (int self = from; self < from + count; ++self) memcpy(clocks[self] + from, ticks + from, count * sizeof(uint32_t));
  for (int self = from; self < from + count; ++self) ++ticks[self];
}

static void join(uint32_t *into, const uint32_t *from, int count) {
  for (int i = 0; i < count; ++i)
    if (from[i] > into[i]) into[i] = from[i];
}

static void arrive(Phased &of) {
  join(of.pending, clocks[running], threads);
  join(of.pending_seen, seen[running], MOST_PHASED);
  of.pending[running] = ticks[running]++;
}

static void forget_phases() {
  for (int i = 0; i < phased_count; ++i) {
    for (int box = 0; box < phased[i].boxes.count; ++box) mark(phased[i].boxes.items[box].to, phased[i].boxes.items[box].bytes, 0, 0);
    phased[i].boxes.count = 0;
    free(phased[i].pending), free(phased[i].past);
  }
  if (phased_count) {
    for (int i = 0; i < threads; ++i) memset(clocks[i], 0, threads * sizeof(uint32_t));
    memset(seen, 0, threads * sizeof seen[0]), memset(read_ticks, 0, read_parts * block_threads * sizeof(uint32_t));
  }
  for (int i = 0; i < threads; ++i) ticks[i] = 1;
  phased_count = 0;
}

static Phased *phased_at(uint64_t address, uint64_t place) {
  for (int i = 0; i < phased_count; ++i)
    if (phased[i].address == address) {
      access_at(address, 8, false, true, place, false);
      if (!phased[i].known) fault.other_place = phased[i].place, unordered(7, place, phased[i].maker, phased[i].place);
      return &phased[i];
    }
  unordered(3, place, 0, 0);
  return nullptr;
}

// Elements of a box: where shared memory has them, and the tensor, which has none beyond its extents.
template <class Visit>
static void visit_box(const Box &box, Visit visit) {
  int rank = (int)(box.words[1] & 255), size = (int)(box.words[1] >> 8 & 255), swizzle = (int)(box.words[1] >> 16);
  for (int element = 0; element < box.bytes / size; ++element) {
    int rest = element;
    int64_t offset = 0;
    bool there = true;
    for (int d = 0; d < rank; ++d) {
      int64_t place = box.at[d] + rest % (int)box.words[11 + d];
      rest /= (int)box.words[11 + d];
      there = there && place >= 0 && place < (int64_t)box.words[2 + d];
      offset += place * (d ? (int64_t)box.words[6 + d] : size);
    }
    uint64_t to = (uint64_t)box.to + (uint64_t)element * size;
    if (swizzle) to ^= (to >> 7 & (uint64_t)(swizzle / 16 - 1)) << 4;
    visit((char *)to, there ? (char *)box.words[0] + offset : nullptr, size);
  }
}

static void land(const Box &box, int number) {
  int swizzle = (int)(box.words[1] >> 16);
  visit_box(box, [](char *own, const char *there, int size) { there ? memcpy(own, there, size) : memset(own, 0, size); });
  int count;
  Cell *cells = cells_at((uint64_t)box.to, box.bytes, &count);
  for (int i = 0; cells && i < count; ++i) {
    Cell &cell = cells[i];
    cell.copier = 0, cell.written = epoch_at(buffers[buffer_count - 1], (uint64_t)box.to), cell.writer = (uint16_t)number, cell.landed = (uint16_t)(1 + swizzle), cell.tick = phased[number].ended;
    cell.writer_place = (uint32_t)box.place;
  }
}

// Ends the phase where all have arrived and all bytes come.
static bool end_phase(Phased &of) {
  if (of.missing || of.expected != of.begun) return false;
  ++of.ended;
  for (int i = 0; i < of.boxes.count; ++i) land(of.boxes.items[i], (int)(&of - phased));
  of.boxes.count = 0, of.missing = of.arrivals, of.expected = of.begun = 0;
  memcpy(of.past, of.pending, threads * sizeof(uint32_t)), memcpy(of.past_seen, of.pending_seen, sizeof of.past_seen);
  return true;
}

static bool has_ended(Phased &of, unsigned parity) { return (of.ended & 1) != parity || (end_phase(of) && (of.ended & 1) != parity); }

// Fibers that wait for each other by a barrier of so many go on where all have come.
static bool wake_named(int from) {
  int first = -1, waiting = 0, end = from + block_threads;
  for (int thread = from; thread < end; ++thread)
    if (fibers[thread].state == AT_NAMED) first = first < 0 ? thread : first, ++waiting;
  if (first < 0 || waiting != fibers[first].amount) return false;
  uint32_t *all = (uint32_t *)calloc(threads, sizeof(uint32_t)), all_seen[MOST_PHASED] = {};
  for (int thread = from; thread < end; ++thread)
    if (fibers[thread].state == AT_NAMED)
      join(all, clocks[thread], threads), join(all_seen, seen[thread], MOST_PHASED), all[thread] = ticks[thread];
  for (int thread = from; thread < end; ++thread)
    if (fibers[thread].state == AT_NAMED) {
      join(clocks[thread], all, threads), join(seen[thread], all_seen, MOST_PHASED);
      ++ticks[thread];
      fibers[thread].state = READY, ready[ready_count++] = thread;
    }
  free(all);
  return true;
}

// Fibers whose phase has ended go on. Whether there are any.
static bool wake_phases() {
  bool any = false;
  for (int from = 0; from < threads; from += block_threads) any = wake_named(from) || any;
  for (int thread = 0; thread < threads; ++thread) {
    Fiber &fiber = fibers[thread];
    if (fiber.state != AT_PHASE || !has_ended(phased[fiber.amount], fiber.mask)) continue;
    fiber.state = READY, ready[ready_count++] = thread, any = true;
  }
  if (any) shuffle_order(ready, ready_count);
  return any;
}

// Whether nobody waits for a phase that cannot end; if somebody does, that is recorded.
static bool phases_end() {
  for (int thread = 0; thread < threads; ++thread) {
    if (fibers[thread].state == AT_NAMED) {
      fault.detail = -1, fault.size = (uint32_t)fibers[thread].amount;
      return record(DEADLOCK, thread, fibers[thread].place), false;
    }
    if (fibers[thread].state != AT_PHASE) continue;
    const Phased &of = phased[fibers[thread].amount];
    fault.detail = of.missing ? of.missing : 0;
    fault.element = of.expected, fault.size = (uint32_t)of.begun, fault.other_thread = of.maker, fault.other_place = of.place;
    return record(DEADLOCK, thread, fibers[thread].place), false;
  }
  return true;
}

extern "C" void tw_emulated_init(void *barrier, int arrivals) {
  uint64_t address = (uint64_t)barrier, place = place_of(CODE);
  access_at(address, 8, true, true, place, false);
  for (int i = 0; i < phased_count; ++i)
    if (phased[i].address == address) unordered(4, place, phased[i].maker, phased[i].place);
  if (!phased_count) {
    const Buffer &shared = buffers[buffer_count - 1];
    size_t parts = (shared.end - shared.begin) / 16 + 1;
    read_ticks = (uint32_t *)realloc(read_ticks, parts * block_threads * sizeof(uint32_t));
    read_parts = parts;
    memset(read_ticks, 0, parts * block_threads * sizeof(uint32_t));
  }
  Phased &made = phased[phased_count++];
  made.address = address, made.place = place, made.arrivals = made.missing = arrivals, made.maker = running, made.known = false;
  memset(made.lanes, 0, sizeof made.lanes), memset(made.pending_seen, 0, sizeof made.pending_seen);
  memset(made.past_seen, 0, sizeof made.past_seen);
  made.expected = made.begun = 0, made.ended = 0, made.boxes.count = 0;
  made.pending = (uint32_t *)calloc(threads, sizeof(uint32_t)), made.past = (uint32_t *)calloc(threads, sizeof(uint32_t));
}

extern "C" void tw_emulated_made() {
  for (int i = 0; i < phased_count; ++i) phased[i].known = phased[i].known || phased[i].maker == running;
}

extern "C" void tw_emulated_arrive(void *barrier, int bytes) {
  uint64_t place = place_of(CODE);
  Phased &of = *phased_at((uint64_t)barrier, place);
  if (!of.missing && !end_phase(of)) unordered(5, place, of.maker, of.place);
  arrive(of);
  of.expected += bytes;
  if (!--of.missing && !of.boxes.count) end_phase(of);
}

static void release(uint64_t barrier, uint64_t place) {
  Phased &of = *phased_at(barrier, place);
  if (!of.missing && !end_phase(of)) unordered(5, place, of.maker, of.place);
  arrive(of);
  uint8_t &lanes = of.lanes[running / 32];
  if (++lanes < 32 && running / 32 * 32 + lanes < threads) return;
  lanes = 0;
  if (!--of.missing && !of.boxes.count) end_phase(of);
}

extern "C" void tw_emulated_release(void *barrier) { release((uint64_t)barrier, place_of(CODE)); }

// Of the same place in so many blocks.
extern "C" void tw_emulated_release_all(void *barrier, int blocks) {
  for (int rank = 0; rank < blocks; ++rank) release(in_block((uint64_t)barrier, rank, place_of(CODE)), place_of(CODE));
}

extern "C" void tw_emulated_barrier_of(int count) {
  Fiber &own = fibers[running];
  own.state = AT_NAMED, own.amount = count, own.place = place_of(CODE);
  to_scheduler();
}

extern "C" void tw_emulated_complete(void *barrier, int bytes) {
  Phased &of = *phased_at((uint64_t)barrier, place_of(CODE));
  arrive(of);
  of.begun += bytes;
}

extern "C" void tw_emulated_parity(void *barrier, unsigned parity) {
  Phased &of = *phased_at((uint64_t)barrier, place_of(CODE));
  int self = running;
  if (!has_ended(of, parity)) {
    Fiber &own = fibers[self];
    own.state = AT_PHASE, own.amount = (int)(&of - phased), own.mask = parity, own.place = place_of(CODE);
    to_scheduler();
  }
  join(clocks[self], of.past, threads), join(seen[self], of.past_seen, MOST_PHASED);
  seen[self][&of - phased] = of.ended;
}

// A box that the thread asks for, whose elements of the tensor are looked at.
static Box asked_box(uint64_t to, const unsigned long long *words, const int *at, bool stores, uint64_t place) {
  Box box = {(char *)to, {}, {}, (int)(words[1] >> 8 & 255), running, place};
  int rank = (int)(words[1] & 255), size = box.bytes, rows = 1;
  for (int i = 0; i < 16; ++i) box.words[i] = words[i];
  for (int d = 0; d < rank; ++d) {
    box.at[d] = at[d], box.bytes *= (int)words[11 + d];
    if (d) rows *= (int)words[11 + d];
  }
  if (to % PANEL) {
    fault.size = PANEL, fault.buffer = buffer_count - 1, fault.stores = 1;
    fault.element = (int64_t)((to - buffers[buffer_count - 1].begin) / buffers[buffer_count - 1].granule);
    fail(MISALIGNED, place);
  }
  for (int row = 0; row < rows; ++row) {
    int rest = row;
    int64_t offset = 0, first = at[0] < 0 ? 0 : at[0], last = at[0] + (int64_t)words[11];
    bool there = true;
    for (int d = 1; d < rank; ++d) {
      int64_t place_in = at[d] + rest % (int)words[11 + d];
      rest /= (int)words[11 + d];
      there = there && place_in >= 0 && place_in < (int64_t)words[2 + d];
      offset += place_in * (int64_t)words[6 + d];
    }
    if (last > (int64_t)words[2]) last = (int64_t)words[2];
    for (int64_t i = first; there && i < last; ++i) access_at(words[0] + offset + i * size, size, stores, false, place, false);
  }
  return box;
}

static void begin_box(uint64_t to, const unsigned long long *words, uint64_t barrier, const int *at, uint64_t place) {
  Phased &of = *phased_at(barrier, place);
  Box box = asked_box(to, words, at, false, place);
  for (int part = 0; part < box.bytes; part += PART) access_at(to + part, PART, true, true, place, false);
  mark((void *)to, box.bytes, (uint32_t)running + 1, place);
  of.boxes.add(box);
  of.begun += box.bytes;
}

extern "C" void tw_emulated_box(void *to, const unsigned long long *words, void *barrier, const int *at) {
  begin_box((uint64_t)to, words, (uint64_t)barrier, at, place_of(CODE));
}

// To the same place in so many blocks, which all count it.
extern "C" void tw_emulated_box_to_all(void *to, const unsigned long long *words, void *barrier, const int *at, int blocks) {
  uint64_t place = place_of(CODE);
  for (int rank = 0; rank < blocks; ++rank)
    begin_box(in_block((uint64_t)to, rank, place), words, in_block((uint64_t)barrier, rank, place), at, place);
}

// Boxes that are stored: what lies in shared memory is read at the wait for it, no earlier, and the tensor has it from there on.
static List<Box> stored[MOST_THREADS];  // by thread, in order; not waited for
static int committed[MOST_THREADS];     // of these

static void hold_box(const Box &box, int by) {
  int count;
  Cell *cells = cells_at((uint64_t)box.to, box.bytes, &count);
  for (int i = 0; cells && i < count; ++i) cells[i].held += by;
}

static void forget_stores() {
  for (int thread = 0; thread < MOST_THREADS; ++thread) {
    for (int i = 0; i < stored[thread].count; ++i) hold_box(stored[thread].items[i], -1);
    stored[thread].count = committed[thread] = 0;
  }
}

extern "C" void tw_emulated_store_box(const void *from, const unsigned long long *words, const int *at) {
  uint64_t place = place_of(CODE);
  Box box = asked_box((uint64_t)from, words, at, true, place);
  for (int part = 0; part < box.bytes; part += PART) {
    access_at((uint64_t)from + part, PART, false, true, place, false);
    int count;
    Cell *cells = cells_at((uint64_t)from + part, PART, &count);
    for (int i = 0; cells && i < count; ++i)
      if (!cells[i].landed && cells[i].written >= block_epoch && cells[i].fences == fibers[cells[i].writer].fences)
        unordered(10, place, cells[i].writer, cells[i].writer_place);
  }
  hold_box(box, 1);
  stored[running].add(box);
}

extern "C" void tw_emulated_store_commit() { committed[running] = stored[running].count; }

extern "C" void tw_emulated_store_wait() {
  List<Box> &own = stored[running];
  for (int i = 0; i < committed[running]; ++i) {
    const Box &box = own.items[i];
    visit_box(box, [](const char *from, char *there, int size) { if (there) memcpy(there, from, size); });
    hold_box(box, -1);
    for (int part = 0; part < box.bytes; part += PART) note_read(buffers[buffer_count - 1], (uint64_t)box.to + part);
  }
  memmove(own.items, own.items + committed[running], (own.count - committed[running]) * sizeof(Box));
  own.count -= committed[running], committed[running] = 0;
}

// Whether no thread has ended before what it stores was read; if not, that is recorded.
static bool boxes_are_read() {
  for (int thread = 0; thread < threads; ++thread)
    if (stored[thread].count) return fault.detail = 11, fault.other_thread = thread, record(UNORDERED, thread, stored[thread].items[0].place), false;
  return true;
}
