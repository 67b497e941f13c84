// How often the loads and stores of warps go through memory, from the addresses of a run.
//
// Every thread notes what it accesses, and between two barriers the notes of a warp's lanes are laid side by side: of the places that
// the lanes stand at, the first in the code comes next, and all who stand there go together, as after a branch that some of them took.
//
// Shared memory has 32 banks of 4 bytes. A pass takes 32 lanes of up to 4 bytes, 16 of 8, or 8 of 16, and takes as long as its fullest
// bank has words that differ. Global memory comes in sectors of 32 bytes.
#pragma once

struct Note {
  uint64_t address;
  uint32_t place;
  uint16_t size;
  uint8_t shared, stores;
};

// Of a place in the code: instructions of warps, what they took, and what their bytes need at least.
struct Traffic {
  uint64_t instructions, transactions, least;
  uint32_t place;
  uint16_t size;
  uint8_t shared, stores;
};

const int WARP = 32, BANKS = 32, WORD = 4, SECTOR = 32, MOST_PLACES = 4096;

static Note *notes[MOST_THREADS];
static uint32_t noted[MOST_THREADS], room[MOST_THREADS];
static Traffic traffic[MOST_PLACES];  // by a hash of the place

static void note(int thread, uint64_t address, uint32_t place, size_t size, uint32_t shared, bool stores) {
  if (noted[thread] == room[thread]) {
    uint32_t more = room[thread] ? 2 * room[thread] : 64;
    Note *grown = (Note *)realloc(notes[thread], more * sizeof(Note));
    if (!grown) return;  // what no memory holds is not counted
    notes[thread] = grown, room[thread] = more;
  }
  notes[thread][noted[thread]++] = {address, place, (uint16_t)size, (uint8_t)shared, (uint8_t)stores};
}

static void sort(uint64_t *items, int count) {
  for (int i = 1; i < count; ++i) {
    uint64_t item = items[i];
    int at = i;
    for (; at && items[at - 1] > item; --at) items[at] = items[at - 1];
    items[at] = item;
  }
}

// The passes of one instruction over shared memory, by all lanes of a warp but those that are null.
static void count_shared(const Note *const *lanes, int size, Traffic &row) {
  int at_once = size <= WORD ? WARP : WARP * WORD / size, words = size <= WORD ? 1 : size / WORD;
  for (int first = 0; first < WARP; first += at_once) {
    uint64_t met[BANKS][WARP];
    int full[BANKS] = {}, different = 0, fullest = 0;
    for (int lane = first; lane < first + at_once; ++lane)
      for (int part = 0; lanes[lane] && part < words; ++part) {
        uint64_t word = lanes[lane]->address / WORD + part;
        int bank = (int)(word % BANKS), at = 0;
        while (at < full[bank] && met[bank][at] != word) ++at;
        if (at < full[bank]) continue;
        met[bank][full[bank]++] = word;
        ++different;
        if (full[bank] > fullest) fullest = full[bank];
      }
    row.transactions += fullest;
    row.least += (different + BANKS - 1) / BANKS;
  }
}

// The sectors of one instruction over global memory, by all lanes of a warp but those that are null.
static void count_global(const Note *const *lanes, int size, Traffic &row) {
  uint64_t begins[WARP];
  int count = 0;
  for (int lane = 0; lane < WARP; ++lane)
    if (lanes[lane]) begins[count++] = lanes[lane]->address;
  sort(begins, count);
  uint64_t bytes = 0, sectors = 0, done = 0, next = 0;  // up to where bytes and sectors are counted
  for (int lane = 0; lane < count; ++lane) {
    uint64_t begin = begins[lane], end = begin + size;
    if (end > done) bytes += end - (begin > done ? begin : done), done = end;
    uint64_t from = begin / SECTOR, to = (end - 1) / SECTOR + 1;
    if (to > next) sectors += to - (from > next ? from : next), next = to;
  }
  row.transactions += sectors;
  row.least += (bytes + SECTOR - 1) / SECTOR;
}

static Traffic *row_of(const Note &of) {
  for (uint32_t tried = 0, at = of.place * 2654435761u; tried < MOST_PLACES; ++tried, ++at) {
    Traffic &row = traffic[at % MOST_PLACES];
    if (!row.instructions) row.place = of.place, row.size = of.size, row.shared = of.shared, row.stores = of.stores;
    if (row.place == of.place && row.size == of.size && row.shared == of.shared) return &row;
  }
  return nullptr;
}

// What the threads have noted since the last barrier.
static void count_traffic(int threads) {
  for (int first = 0; first < threads; first += WARP) {
    int lanes = threads - first < WARP ? threads - first : WARP;
    uint32_t at[WARP] = {};
    for (;;) {
      const Note *next = nullptr, *together[WARP] = {};
      for (int lane = 0; lane < lanes; ++lane) {
        const Note *own = notes[first + lane] + at[lane];
        if (at[lane] < noted[first + lane] && (!next || own->place < next->place)) next = own;
      }
      if (!next) break;
      for (int lane = 0; lane < lanes; ++lane) {
        const Note *own = notes[first + lane] + at[lane];
        if (at[lane] < noted[first + lane] && own->place == next->place && own->size == next->size &&
            own->shared == next->shared)
          together[lane] = own, ++at[lane];
      }
      Traffic *row = row_of(*next);
      if (!row) continue;
      ++row->instructions;
      (next->shared ? count_shared : count_global)(together, next->size, *row);
    }
    for (int lane = 0; lane < lanes; ++lane) noted[first + lane] = 0;
  }
}

static void forget_traffic() {
  memset(traffic, 0, sizeof traffic);
  memset(noted, 0, sizeof noted);
}

// The rows of the last launch, into room for MOST_PLACES. Returns how many.
EXPORT int tw_traffic(Traffic *out) {
  int count = 0;
  for (const Traffic &row : traffic)
    if (row.instructions) out[count++] = row;
  return count;
}
