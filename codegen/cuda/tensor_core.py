"""Device functions of tensor cores: mma.sync m16n8k16 on float16, summed in float32, and its fragments.

Which lane holds which elements is as the PTX ISA draws it (section "Matrix Fragments for mma.m16n8k16"): of its group
(lane / 4) and its place in it (lane % 4), the group is a row of A and C and a column of B. All lanes of a warp call these
functions together; in the emulator they meet in shuffles.
"""

from __future__ import annotations

__all__ = ["TENSOR_CORE_ROWS"]

TENSOR_CORE_ROWS = {
    "tw_lane": """
static __device__ __forceinline__ int tw_lane() { return (int)(threadIdx.x & 31u); }""",
    "tw_pair": """
static __device__ __forceinline__ unsigned int tw_pair(tw_half low, tw_half high) {
  return (unsigned int)low.bits | (unsigned int)high.bits << 16;
}""",
    "tw_four": """
static __device__ __forceinline__ unsigned long long tw_four(const tw_half *from) {
  return (unsigned long long)tw_pair(from[2], from[3]) << 32 | tw_pair(from[0], from[1]);
}""",
    "tw_half_of": """
static __device__ __forceinline__ double tw_half_of(unsigned long long four, int place) {
  tw_half half = {(unsigned short)(four >> (16 * place))};
  return (double)tw_from_half(half);
}""",
    "tw_ldmatrix": """
// Matrices of 8 by 8 from shared memory; the row that each lane points to is one of theirs, aligned to 16 bytes.
template <int count, bool transposed>
static __device__ __forceinline__ void tw_ldmatrix(tw_half *to, const tw_half *row) {
#ifdef __CUDACC__
  unsigned int place = (unsigned int)__cvta_generic_to_shared(row), found[4];
  if constexpr (count == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3]) : "r"(place) : "memory");
  else if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(found[0]), "=r"(found[1]) : "r"(place) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(found[0]), "=r"(found[1]) : "r"(place) : "memory");
  for (int i = 0; i < count; ++i) {
    to[2 * i].bits = (unsigned short)found[i];
    to[2 * i + 1].bits = (unsigned short)(found[i] >> 16);
  }
#else
  const int group = tw_lane() / 4, place = tw_lane() % 4 * 2;
  const tw_vector<tw_half, 8> own = tw_load<8>(row);
  for (int i = 0; i < 2 * count; ++i) {
    const int line = transposed ? place + i % 2 : group, at = transposed ? group : place + i % 2;
    const unsigned long long low = __shfl_sync(0xffffffffu, tw_four(own.lane), i / 2 * 8 + line);
    const unsigned long long high = __shfl_sync(0xffffffffu, tw_four(own.lane + 4), i / 2 * 8 + line);
    to[i].bits = (unsigned short)((at < 4 ? low : high) >> (at % 4 * 16));
  }
#endif
}""",
    "tw_mma_load_a": """
// Rows of 16 elements, `stride` apart. aligned: in shared memory, each row and the stride in units of 16 bytes.
static __device__ __forceinline__ void tw_mma_load_a(tw_half *to, const tw_half *tile, int stride, int aligned) {
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * 2;
  if (aligned) {
    tw_ldmatrix<4, false>(to, tile + (lane & 15) * stride + lane / 16 * 8);
  } else {
    for (int i = 0; i < 8; ++i) to[i] = tile[(group + i / 2 % 2 * 8) * stride + place + i / 4 * 8 + i % 2];
  }
}""",
    "tw_mma_load_b": """
// Rows of 8 elements, one for each k.
static __device__ __forceinline__ void tw_mma_load_b(tw_half *to, const tw_half *tile, int stride, int aligned) {
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * 2;
  if (aligned) {
    tw_ldmatrix<2, true>(to, tile + (lane & 15) * stride);
  } else {
    for (int i = 0; i < 4; ++i) to[i] = tile[(place + i / 2 * 8 + i % 2) * stride + group];
  }
}""",
    "tw_mma_load_bt": """
// Rows of 16 elements, one for each n.
static __device__ __forceinline__ void tw_mma_load_bt(tw_half *to, const tw_half *tile, int stride, int aligned) {
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * 2;
  if (aligned) {
    tw_ldmatrix<2, false>(to, tile + (lane & 7) * stride + lane / 8 % 2 * 8);
  } else {
    for (int i = 0; i < 4; ++i) to[i] = tile[group * stride + place + i / 2 * 8 + i % 2];
  }
}""",
    "tw_mma_fill": """
static __device__ __forceinline__ void tw_mma_fill(float *c) { c[0] = c[1] = c[2] = c[3] = 0.0f; }""",
    "tw_mma_m16n8k16": """
// c += a b. The emulator adds in double and rounds once; a tensor core's sums differ from that in their last bits.
static __device__ __forceinline__ void tw_mma_m16n8k16(float *c, const tw_half *a, const tw_half *b) {
#ifdef __CUDACC__
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(tw_pair(a[0], a[1])), "r"(tw_pair(a[2], a[3])), "r"(tw_pair(a[4], a[5])), "r"(tw_pair(a[6], a[7])),
                 "r"(tw_pair(b[0], b[1])), "r"(tw_pair(b[2], b[3])));
#else
  const int row = tw_lane() / 4 * 4, column = tw_lane() % 4 * 8;  // the first of the lanes that have them
  double sums[4] = {c[0], c[1], c[2], c[3]};
  for (int other = 0; other < 4; ++other) {
    const unsigned long long low = __shfl_sync(0xffffffffu, tw_four(a), row + other);
    const unsigned long long high = __shfl_sync(0xffffffffu, tw_four(a + 4), row + other);
    const unsigned long long left = __shfl_sync(0xffffffffu, tw_four(b), column + other);
    const unsigned long long right = __shfl_sync(0xffffffffu, tw_four(b), column + 4 + other);
    for (int i = 0; i < 4; ++i) {  // k is 2 * other + i % 2 + i / 2 * 8
      const unsigned long long half = i / 2 ? high : low;
      for (int which = 0; which < 4; ++which)
        sums[which] += tw_half_of(half, i % 2 + which / 2 * 2) * tw_half_of(which % 2 ? right : left, i);
    }
  }
  for (int which = 0; which < 4; ++which) c[which] = (float)sums[which];
#endif
}""",
    "tw_mma_store": """
static __device__ __forceinline__ void tw_mma_store(float *tile, const float *c, int stride) {
  const int group = tw_lane() / 4, place = tw_lane() % 4 * 2;
  for (int i = 0; i < 4; ++i) tile[(group + i / 2 * 8) * stride + place + i % 2] = c[i];
}""",
}
