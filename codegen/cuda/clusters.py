"""Device functions of clusters (sm_90a): blocks that run beside each other on one part of the GPU, and reach each other's shared
memory. What lies at a place in one block lies at the same place in all.

A box that all of them read comes once from the L2 cache: each block asks for a part of it, for all (multicast). See the PTX ISA,
"cp.async.bulk.tensor", "mapa" and "barrier.cluster".
"""

from __future__ import annotations

__all__ = ["CLUSTER_ROWS"]

_SHARED = "(unsigned int)__cvta_generic_to_shared"


def _copy(rank: int) -> str:
    places = ", ".join(f"int c{i}" for i in range(rank))
    given, operands = ", ".join(f"c{i}" for i in range(rank)), ", ".join(f'"r"(c{i})' for i in range(rank))
    registers = ", ".join(f"%{i + 4}" for i in range(rank))
    return f"""
// To the same place in each of so many blocks, whose barriers all count it.
template <class T>
static __device__ __forceinline__ void tw_bulk_copy_{rank}_to_all(T *to, const tw_tensor_map &map, unsigned long long *barrier,
                                                                  int blocks, {places}) {{
#if defined(__CUDACC__) && !defined(TW_UNALIGNED)
  asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
               "[%1, {{{registers}}}], [%2], %3;"
               : : "r"({_SHARED}(to)), "l"(&map), "r"({_SHARED}(barrier)), "h"((unsigned short)((1 << blocks) - 1)), {operands}
               : "memory");
#else
  const int at[5] = {{{given}}};
#ifdef TW_UNALIGNED
  for (int rank = 0; rank < blocks; ++rank)
    tw_bulk_copied_by_hand(tw_in_block(to, rank), map, tw_in_block(barrier, rank), at);
#else
  tw_emulated_box_to_all(to, map.words, barrier, at, blocks);
#endif
#endif
}}"""


CLUSTER_ROWS = {
    "tw_cluster_panels": """
#ifdef __CUDACC__
extern __shared__ __align__(1024) unsigned char tw_cluster_panels[];
#else
extern "C" {
__attribute__((section("tw_shared"), visibility("hidden"))) __align__(1024) unsigned char tw_cluster_memory[8 * 232448];
}
#define tw_cluster_panels (tw_cluster_memory + tw_emulated_rank * 232448)
#endif""",
    "tw_cluster_barrier": """
// All threads of all blocks of the cluster meet.
static __device__ __forceinline__ void tw_cluster_barrier() {
#ifdef __CUDACC__
  asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" : : : "memory");
#else
  TW_OTHERS_RUN();
  tw_emulated_cluster_barrier();
  TW_OTHERS_RUN();
#endif
}""",
    "tw_block_rank": """
// The number of the block in its cluster.
static __device__ __forceinline__ int tw_block_rank() {
#ifdef __CUDACC__
  unsigned int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
#else
  return tw_emulated_rank;
#endif
}""",
    "tw_in_block": """
// What lies there in another block of the cluster.
template <class T>
static __device__ __forceinline__ T *tw_in_block(T *place, int rank) {
#ifdef __CUDACC__
  T *there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(place), "r"(rank));
  return there;
#else
  return reinterpret_cast<T *>(reinterpret_cast<char *>(place) + (rank - tw_emulated_rank) * 232448LL);
#endif
}""",
    "tw_bulk_release_all": """
// A warp arrives in so many blocks: it needs no longer what is there, which it has only read.
static __device__ __forceinline__ void tw_bulk_release_all(unsigned long long *barrier, int blocks) {
#ifdef __CUDACC__
  __syncwarp();
  if (tw_thread() % 32 < blocks)
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
                 "mbarrier.arrive.shared::cluster.b64 _, [there];}"
                 : : "r"((unsigned int)__cvta_generic_to_shared(barrier)), "r"(tw_thread() % 32) : "memory");
#else
  tw_emulated_release_all(barrier, blocks);
#endif
}""",
    **{f"tw_bulk_copy_{rank}_to_all": _copy(rank) for rank in range(1, 6)},
}
