"""Device functions of asynchronous copies, from global to shared memory: begun, committed as a group, waited for.

In the emulator (TW_EMULATED) a copy is done at the wait that it is waited for by: until then its place holds nothing that a program
could use, and touching it is reported. Whatever else compiles the text as C++ copies at once.
"""

from __future__ import annotations

__all__ = ["COPY_ROWS"]

COPY_ROWS = {
    "tw_copy": """
// Begins a copy of 4, 8 or 16 bytes, aligned to as many in both memories; zeros where it is not `there`.
template <int bytes, class T>
static __device__ __forceinline__ void tw_copy(T *to, const T *from, bool there = true) {
#if defined(TW_UNALIGNED) || !(defined(__CUDACC__) || defined(TW_EMULATED))
  for (int i = 0; i < bytes / (int)sizeof(T); ++i) to[i] = there ? from[i] : T{};
#elif defined(__CUDACC__)
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(place), "l"(from), "r"(there ? 16 : 0) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" : : "r"(place), "l"(from), "r"(there ? bytes : 0), "n"(bytes)
                 : "memory");
#else
  tw_emulated_copy(to, there ? from : nullptr, bytes);
#endif
}""",
    "tw_copies_commit": """
// What this thread has begun since the last one is a group.
static __device__ __forceinline__ void tw_copies_commit() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" : : : "memory");
#elif defined(TW_EMULATED)
  tw_emulated_commit();
#endif
}""",
    "tw_copies_wait": """
// Until all groups of this thread are there but for the last `groups`.
template <int groups>
static __device__ __forceinline__ void tw_copies_wait() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
#elif defined(TW_EMULATED)
  tw_emulated_wait(groups);
#endif
}""",
}
