// What goes on while threads go on: copies of a thread in groups, products of warpgroups; copies of boxes: see phases.h.
//
// All of it is done at the wait for it, no earlier. From its beginning on nobody may touch what it writes, or store to what it reads.
// What threads stored themselves, tensor cores and the copy engine see behind a fence of theirs.
#pragma once

// What is known of the place of a copy: that `copier` has begun it, or that it is there.
static void mark(const void *to, int bytes, uint32_t copier, uint64_t place) {
  for (int i = 0; checking && i < buffer_count; ++i) {
    Buffer &buffer = buffers[i];
    if ((uint64_t)to < buffer.begin || (uint64_t)to >= buffer.end) continue;
    for (int at = 0; at < bytes; at += (int)buffer.granule) {
      Cell &cell = buffer.cells[((uint64_t)to + at - buffer.begin) / buffer.granule];
      cell.copier = copier;
      if (copier) cell.copied_at = (uint32_t)place;
      else cell.written = epoch_at(buffer, (uint64_t)to + at), cell.writer = (uint16_t)running, cell.writer_place = (uint32_t)place, cell.landed = 0,
           cell.fences = fibers[running].fences, cell.tick = ticks[running];
    }
  }
}

static void begin_copy(void *to, const void *from, int bytes, void *code) {
  if (from) access((uint64_t)from, (size_t)bytes, false, true, code);
  access((uint64_t)to, (size_t)bytes, true, true, code);
  Fiber &own = fibers[running];
  own.copies.add({to, from, bytes, own.groups, place_of(code)});
  memset(to, 0xff, (size_t)bytes);
  mark(to, bytes, (uint32_t)running + 1, place_of(code));
}

static void finish_copies(int left) {
  Fiber &own = fibers[running];
  int kept = 0;
  for (int i = 0; i < own.copies.count; ++i) {
    Copy copy = own.copies.items[i];
    if (copy.group >= own.groups - left) {
      own.copies.items[kept++] = copy;
      continue;
    }
    if (copy.from) memcpy(copy.to, copy.from, (size_t)copy.bytes);
    else memset(copy.to, 0, (size_t)copy.bytes);
    mark(copy.to, copy.bytes, 0, copy.place);
  }
  own.copies.count = kept;
}

#define CODE __builtin_return_address(0)
extern "C" void tw_emulated_copy(void *to, const void *from, int bytes) { begin_copy(to, from, bytes, CODE); }
extern "C" void tw_emulated_commit() { ++fibers[running].groups; }
extern "C" void tw_emulated_wait(int groups) { finish_copies(groups); }
extern "C" void tw_emulated_proxy_fence() { ++fibers[running].fences; }

// Products of warpgroups

const int WARPGROUP = 128, PANEL = 128, PART = 16, ROWS = 8, HELD = 16;

// Where the hardware finds what would lie at `address` if the parts of rows were not exchanged.
static inline uint64_t exchanged(uint64_t address, int row) { return address ^ (address / PANEL % (uint64_t)(row / PART) * PART); }

// The parts of 16 bytes of a matrix: `across` of its own side by the terms of one instruction, which are 32 bytes.
static int parts_of(int across, int bytes) { return across * bytes * (32 / bytes) / PART; }

static uint64_t part_of(const char *from, int turned, int panel, int whole, int bytes, int part, int across) {
  if (!turned) return exchanged((uint64_t)from + part / 2 * whole + part % 2 * PART, whole);
  int in_row = across * bytes / PART, row = part / in_row, at = part % in_row * PART;
  return exchanged((uint64_t)from + at / PANEL * (uint64_t)panel + row * PANEL + at % PANEL, whole);
}

static uint64_t element_of(const char *from, int turned, int panel, int whole, int bytes, int own, int term) {
  if (!turned) return exchanged((uint64_t)from + own * whole + term * bytes, whole);
  return exchanged((uint64_t)from + own * bytes / PANEL * (uint64_t)panel + term * PANEL + own * bytes % PANEL, whole);
}

static int bytes_of(int kind) { return kind == KIND_FLOAT32 ? 4 : kind == KIND_FLOAT16 || kind == KIND_BFLOAT16 ? 2 : 1; }

// What a thread looks after of the operands of a product, for all that take part in it: parts, and the bytes of rows exchanged there.
template <class Visit>
static void own_parts(const Product &product, Visit visit) {
  int bytes = bytes_of(product.kind);
  for (int part = running % WARPGROUP; !product.held && part < parts_of(64, bytes); part += WARPGROUP)
    visit(part_of(product.a, product.a_turned, product.a_panel, product.a_row, bytes, part, 64), product.a_row);
  for (int part = running % WARPGROUP; part < parts_of(product.columns, bytes); part += WARPGROUP)
    visit(part_of(product.b, product.b_turned, product.b_panel, product.b_row, bytes, part, product.columns), product.b_row);
}

static Cell *cells_at(uint64_t address, int bytes, int *count) {
  Buffer &buffer = buffers[buffer_count - 1];  // shared memory is the last
  *count = bytes / (int)buffer.granule;
  return checking ? buffer.cells + (address - buffer.begin) / buffer.granule : nullptr;
}

static void hold(const Product &product, int by) {
  own_parts(product, [&](uint64_t part, int) {
    int count;
    Cell *cells = cells_at(part, PART, &count);
    for (int i = 0; cells && i < count; ++i) cells[i].held += by;
  });
}

static void unordered(int what, uint64_t place, int other_thread, uint64_t other_place) {
  fault.detail = what, fault.other_thread = other_thread, fault.other_place = other_place;
  fail(UNORDERED, place);
}

// Of 128 bytes at most in the first of 8 rows: where the exchange begins.
static bool begins_well(const char *from, int row) { return (uint64_t)from % (uint64_t)(ROWS * row) < (uint64_t)row; }

static void begin_product(const Product &product) {
  Fiber &own = fibers[running];
  if (!own.fenced) unordered(0, product.place, 0, 0);
  bool a_well = product.held || begins_well(product.a, product.a_row);
  if (!a_well || !begins_well(product.b, product.b_row)) {
    fault.size = ROWS * (a_well ? product.b_row : product.a_row), fault.buffer = buffer_count - 1, fault.stores = 0;
    fault.element = (int64_t)(((uint64_t)(a_well ? product.b : product.a) - buffers[buffer_count - 1].begin)
                              / buffers[buffer_count - 1].granule);
    fail(MISALIGNED, product.place);
  }
  own_parts(product, [&](uint64_t part, int row) {
    access_at(part, PART, false, true, product.place, false);
    int count;
    Cell *cells = cells_at(part, PART, &count);
    for (int i = 0; cells && i < count; ++i) {
      const Cell &cell = cells[i];
      if (!cell.landed && cell.written >= block_epoch && cell.fences == fibers[cell.writer].fences)
        unordered(1, product.place, cell.writer, cell.writer_place);
      if (cell.landed && cell.landed != 1 + row) fault.size = cell.landed - 1u, fault.element = row, unordered(8, product.place, 0, cell.writer_place);
    }
  });
  hold(product, 1);
  ++own.begun;
  own.products.add(product);
}

static float of_bits(uint32_t bits) {
  union { uint32_t bits; float value; } both = {bits};
  return both.value;
}

static double half_of(uint32_t bits) {
  uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) return of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest < 0x400u) return (sign ? -1.0 : 1.0) * rest * 5.9604644775390625e-08;
  return of_bits(sign | ((rest << 13) + 0x38000000u));
}

static double value_at(uint64_t address, int kind) {
  const uint8_t byte = *(const uint8_t *)address;
  // TF32: bits that are dropped, not rounded
  if (kind == KIND_FLOAT32) return of_bits(*(const uint32_t *)address & 0xffffe000u);
  if (kind == KIND_INT8) return (int8_t)byte;
  if (kind == KIND_UINT8) return byte;
  if (kind == KIND_FLOAT8_E4M3FN && (byte & 0x7f) == 0x7f) return of_bits(0x7fc00000u);
  if (kind == KIND_FLOAT8_E4M3FN) return 256.0 * half_of((byte & 0x80u) << 8 | (byte & 0x7fu) << 7);
  if (kind == KIND_FLOAT8_E5M2) return half_of((uint32_t)byte << 8);
  uint32_t bits = *(const uint16_t *)address;
  return kind == KIND_BFLOAT16 ? (double)of_bits(bits << 16) : half_of(bits);
}

// The sums of this thread: rounded once a product.
static void finish_product(const Product &product) {
  bool whole = product.kind == KIND_INT8 || product.kind == KIND_UINT8;
  int bytes = bytes_of(product.kind), terms = 32 / bytes, lane = running % WARPGROUP;
  for (int i = 0; i < product.columns / 2; ++i) {
    int row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    double sum = whole ? (double)((int32_t *)product.c)[i] : (double)((float *)product.c)[i];
    for (int term = 0; term < terms; ++term)
      sum += value_at(product.held ? (uint64_t)(product.rows[i / 2 % 2] + term * bytes)
                                   : element_of(product.a, product.a_turned, product.a_panel, product.a_row, bytes, row, term),
                      product.kind) *
             value_at(element_of(product.b, product.b_turned, product.b_panel, product.b_row, bytes, column, term), product.kind);
    if (whole) ((int32_t *)product.c)[i] = (int32_t)(int64_t)sum;
    else ((float *)product.c)[i] = (float)sum;
  }
  hold(product, -1);
  own_parts(product, [&](uint64_t part, int) { note_read(buffers[buffer_count - 1], part); });  // up to now it has read
}

static void finish_products(int left) {
  Fiber &own = fibers[running];
  int done = 0;
  while (done < own.products.count && own.products.items[done].group < own.product_groups - left) finish_product(own.products.items[done++]);
  if (done) own.last = own.products.items[done - 1];
  memmove(own.products.items, own.products.items + done, (own.products.count - done) * sizeof(Product));
  own.products.count -= done;
}

static bool within(const Product &product, uint64_t address, bool stores) {
  return (address >= (uint64_t)product.c && address < (uint64_t)product.c + product.columns / 2 * 4) ||
         (product.held && stores && address >= (uint64_t)product.held && address < (uint64_t)product.held + HELD);
}

// A thread accesses memory of its own, which may be the sums of a product, or stores to what it multiplies.
static void touch_own(uint64_t address, bool stores, void *code) {
  Fiber &own = fibers[running];
  for (int i = 0; i < own.products.count; ++i)
    if (within(own.products.items[i], address, stores)) {
      fault.stores = stores, fault.detail = 2, fault.buffer = -1, fault.other_thread = running;
      fault.other_place = own.products.items[i].place;
      fail(IN_FLIGHT, place_of(code));
    }
  if (own.last.columns && within(own.last, address, stores)) own.fenced = false;
}

extern "C" void tw_emulated_product(void *c, const void *a, const void *b, int columns, int kind, int a_turned, int b_turned, int a_panel,
                                    int b_panel, int a_row, int b_row) {
  begin_product({c, (const char *)a, (const char *)b, columns, kind, a_turned, b_turned, a_panel, b_panel, a_row, b_row,
                 fibers[running].product_groups, place_of(CODE), nullptr, {}});
}

// A in registers, as the lanes of a warp have it, of which each gets the rows of its sums.
extern "C" void tw_emulated_held_product(void *c, const void *a, const void *b, int columns, int kind, int b_turned, int b_panel, int b_row) {
  Product product = {c, nullptr, (const char *)b, columns, kind, 0, b_turned, 0, b_panel, 0, b_row,
                     fibers[running].product_groups, place_of(CODE), a, {}};
  char all[32][HELD];
  tw_emulated_share(all, a, HELD);
  for (int at = 0; at < HELD * 4; at += 4)  // registers of four lanes: rows, then the other half of the terms
    memcpy(product.rows[at / 16 % 2] + at / 32 * 16 + at / 4 % 4 * 4, all[running % 32 / 4 * 4 + at / 4 % 4] + at / 16 * 4, 4);
  begin_product(product);
}
extern "C" void tw_emulated_product_fence() { fibers[running].fenced = true; }
extern "C" void tw_emulated_product_commit() { ++fibers[running].product_groups; }
extern "C" void tw_emulated_product_wait(int groups) { finish_products(groups); }

// Whether the threads of each warpgroup have begun as many products; if not, that is recorded.
static bool products_agree() {
  for (int thread = 0; thread < threads; ++thread) {
    int first = thread / WARPGROUP * WARPGROUP;
    if (fibers[thread].begun == fibers[first].begun) continue;
    fault.detail = 2, fault.other_thread = first;
    return record(UNORDERED, thread, 0), false;
  }
  return true;
}
