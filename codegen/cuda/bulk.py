"""Device functions of the copy engine (sm_90a): boxes of a tensor that one thread asks for, and barriers in shared memory that
count arrivals and bytes.

A barrier goes through phases: one ends when as many threads have arrived as it was made for, and as many bytes have come as they
said. A wait names the parity of the phase whose end it waits for. See the PTX ISA, "Parallel Synchronization and Communication
Instructions: mbarrier" and "Asynchronous copy: cp.async.bulk.tensor".

In the emulator boxes are there when the end of their phase is waited for. Where TW_UNALIGNED is defined, for tensors that lie where
the engine takes none, the one thread copies them itself.
"""

from __future__ import annotations

__all__ = ["BULK_ROWS"]

_SHARED = "(unsigned int)__cvta_generic_to_shared"


def _simple(name: str, said: str, parameters: str, instruction: str, operands: str, emulated: str) -> str:
    return f"""
// {said}
static __device__ __forceinline__ void {name}({parameters}) {{
#ifdef __CUDACC__
  asm volatile("{instruction}" : : {operands} "memory");
#else
  {emulated};
#endif
}}"""


def _copy(rank: int) -> str:
    places = ", ".join(f"int c{i}" for i in range(rank))
    given, operands = ", ".join(f"c{i}" for i in range(rank)), ", ".join(f'"r"(c{i})' for i in range(rank))
    registers = ", ".join(f"%{i + 3}" for i in range(rank))
    return f"""
template <class T>
static __device__ __forceinline__ void tw_bulk_copy_{rank}(T *to, const tw_tensor_map &map, unsigned long long *barrier,
                                                           {places}) {{
#if defined(__CUDACC__) && !defined(TW_UNALIGNED)
  asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {{{registers}}}], [%2];"
               : : "r"({_SHARED}(to)), "l"(&map), "r"({_SHARED}(barrier)), {operands} : "memory");
#else
  const int at[5] = {{{given}}};
#ifdef TW_UNALIGNED
  tw_bulk_copied_by_hand(to, map, barrier, at);
#else
  tw_emulated_box(to, map.words, barrier, at);
#endif
#endif
}}"""


def _store(rank: int) -> str:
    places = ", ".join(f"int c{i}" for i in range(rank))
    given, operands = ", ".join(f"c{i}" for i in range(rank)), ", ".join(f'"r"(c{i})' for i in range(rank))
    registers = ", ".join(f"%{i + 2}" for i in range(rank))
    return f"""
template <class T>
static __device__ __forceinline__ void tw_bulk_store_{rank}(const T *from, const tw_tensor_map &map, {places}) {{
#if defined(__CUDACC__) && !defined(TW_UNALIGNED)
  asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%0, {{{registers}}}], [%1];"
               : : "l"(&map), "r"({_SHARED}(from)), {operands} : "memory");
#else
  const int at[5] = {{{given}}};
#ifdef TW_UNALIGNED
  tw_bulk_visit(const_cast<T *>(from), map, at, [](T *own, T *there) {{
    if (there) *there = *own;
  }});
#else
  tw_emulated_store_box(from, map.words, at);
#endif
#endif
}}"""


BULK_ROWS = {
    "tw_tensor_map": """
struct alignas(64) tw_tensor_map { unsigned long long words[16]; };""",
    "tw_bulk_init": _simple(
        "tw_bulk_init",
        "A barrier whose phases end with so many arrivals.",
        "unsigned long long *barrier, int arrivals",
        "mbarrier.init.shared::cta.b64 [%0], %1;",
        f'"r"({_SHARED}(barrier)), "r"(arrivals) :',
        "tw_emulated_init(barrier, arrivals)",
    ),
    "tw_bulk_begin": _simple(
        "tw_bulk_begin",
        "Barriers that this thread has made, the copy engine sees from here on.",
        "",
        "fence.mbarrier_init.release.cluster;",
        ":",
        "tw_emulated_made()",
    ),
    "tw_bulk_expect": _simple(
        "tw_bulk_expect",
        "Arrives, and says how many bytes will come before the phase ends.",
        "unsigned long long *barrier, int bytes",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
        f'"r"({_SHARED}(barrier)), "r"(bytes) :',
        "tw_emulated_arrive(barrier, bytes)",
    ),
    "tw_bulk_parity": """
// Until the phase of this parity has ended.
static __device__ __forceinline__ void tw_bulk_parity(unsigned long long *barrier, unsigned int parity) {
#ifdef __CUDACC__
  unsigned int ended;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(ended) : "r"((unsigned int)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
  } while (!ended);
#else
  tw_emulated_parity(barrier, parity);
#endif
}""",
    "tw_bulk_wait": """
// Until what was asked for last at a place has come. phases: how often, modulo two, this thread has waited for each place.
static __device__ __forceinline__ void tw_bulk_wait(unsigned long long *barrier, unsigned int *phases, int place) {
  tw_bulk_parity(barrier, *phases >> place & 1u);
  *phases ^= 1u << place;
}""",
    "tw_bulk_ready": """
// As tw_bulk_wait, where nothing else orders what the threads do.
static __device__ __forceinline__ void tw_bulk_ready(unsigned long long *barrier, unsigned int *phases, int place) {
  tw_bulk_wait(barrier, phases, place);
}""",
    "tw_bulk_release": """
// A warp arrives: it needs no longer what is there.
static __device__ __forceinline__ void tw_bulk_release(unsigned long long *barrier) {
#ifdef __CUDACC__
  __syncwarp();
  if (tw_thread() % 32 == 0)
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"((unsigned int)__cvta_generic_to_shared(barrier)) : "memory");
#else
  tw_emulated_release(barrier);
#endif
}""",
    "tw_computes": """
// Whether this is one of so many threads that compute; four more warps ask for copies.
static __device__ __forceinline__ bool tw_computes(int threads) { return tw_thread() < threads; }""",
    "tw_leads": """
// Whether this is the first thread behind those that compute.
static __device__ __forceinline__ bool tw_leads(int threads) { return tw_thread() == threads; }""",
    "tw_barrier_of": """
// A barrier of the threads that compute.
#ifdef __CUDACC__
static __device__ __forceinline__ void tw_barrier_of(int threads) { asm volatile("bar.sync 1, %0;" : : "r"(threads) : "memory"); }
#else
#define tw_barrier_of(threads) (({ TW_OTHERS_RUN(); tw_emulated_barrier_of(threads); TW_OTHERS_RUN(); }))
#endif""",
    **{
        f"tw_{word}_registers": f"""
// The threads of each four warps give away registers, or wait until there are so many.
template <int registers>
static __device__ __forceinline__ void tw_{word}_registers() {{
#ifdef __CUDACC__
  asm volatile("setmaxnreg.{way}.sync.aligned.u32 %0;" : : "n"(registers));
#endif
}}"""
        for word, way in (("more", "inc"), ("fewer", "dec"))
    },
    "tw_bulk_visit": """
// What the engine looks at: elements of a box, parts of 16 bytes exchanged by row, and where the tensor has them, if it does.
template <class T, class Visit>
static __device__ __forceinline__ int tw_bulk_visit(T *to, const tw_tensor_map &map, const int *at, Visit visit) {
  const unsigned long long *words = map.words, *extents = words + 2, *strides = words + 7, *box = words + 11;
  const int rank = (int)(words[1] & 255), swizzle = (int)(words[1] >> 16);
  char *from = reinterpret_cast<char *>(words[0]);
  int count = 1;
  for (int d = 0; d < rank; ++d) count *= (int)box[d];
  for (int number = 0; number < count; ++number) {
    int rest = number;
    long long offset = 0;
    bool there = true;
    for (int d = 0; d < rank; ++d) {
      const long long place = at[d] + rest % (int)box[d];
      rest /= (int)box[d];
      there = there && place >= 0 && place < (long long)extents[d];
      offset += place * (d ? (long long)strides[d - 1] : (long long)sizeof(T));
    }
    unsigned long long address = reinterpret_cast<unsigned long long>(to + number);
    if (swizzle) address ^= (address >> 7 & (swizzle / 16 - 1)) << 4;
    visit(reinterpret_cast<T *>(address), there ? reinterpret_cast<T *>(from + offset) : nullptr);
  }
  return count;
}""",
    "tw_bulk_copied_by_hand": """
template <class T>
static __device__ __forceinline__ void tw_bulk_copied_by_hand(T *to, const tw_tensor_map &map, unsigned long long *barrier,
                                                              const int *at) {
  const int count = tw_bulk_visit(to, map, at, [](T *own, const T *there) { *own = there ? *there : T{}; });
#ifdef __CUDACC__
  asm volatile("{.reg .b64 there; cvta.to.shared::cluster.u64 there, %0; fence.acq_rel.cluster; fence.proxy.async; "
               "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [there], %1;}"
               : : "l"(barrier), "r"(count * (int)sizeof(T)) : "memory");
#else
  tw_emulated_proxy_fence();
  tw_emulated_complete(barrier, count * (int)sizeof(T));
#endif
}""",
    **{f"tw_bulk_copy_{rank}": _copy(rank) for rank in range(1, 6)},
    **{f"tw_bulk_store_{rank}": _store(rank) for rank in range(1, 6)},
    "tw_bulk_store_commit": _simple(
        "tw_bulk_store_commit",
        "The boxes that this thread has stored since the last one are a group.",
        "",
        "cp.async.bulk.commit_group;",
        ":",
        "tw_emulated_store_commit()",
    ),
    "tw_bulk_store_wait": _simple(
        "tw_bulk_store_wait",
        "Until the engine has read all boxes that this thread has stored.",
        "",
        "cp.async.bulk.wait_group.read 0;",
        ":",
        "tw_emulated_store_wait()",
    ),
}
