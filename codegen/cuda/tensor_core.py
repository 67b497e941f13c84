"""Device functions of tensor cores: mma.sync on 16-bit floats (m16n8k16), 8-bit integers (m16n8k32) and TF32 (m16n8k8), its
fragments, and dp4a.

Which lane holds which elements is as the PTX ISA draws it (sections "Matrix Fragments for mma"): of its group (lane / 4) and its
place in it (lane % 4), the group is a row of A and C and a column of B. A register of 32 bits holds neighbours along k, so that
fragments differ by the size of elements alone. All lanes of a warp call these functions together; in the emulator they meet in
shuffles.
"""

from __future__ import annotations

from .types import FLOAT8_OPERANDS

__all__ = ["TENSOR_CORE_ROWS", "sums_stored"]


def sums_stored(name: str, called: str, row: str, place: str) -> dict[str, str]:
    """The device functions that store a thread's four sums, two beside each other in each of two rows, as they are or as elements of
    16 bits: `row` is the first of these, by the name `called`, `place` where they begin in it."""
    return {
        name: _store_function(name, "C", "", called, row, place),
        f"{name}_float16": _store_function(f"{name}_float16", "tw_half", "tw_to_half", called, row, place),
        f"{name}_bfloat16": _store_function(f"{name}_bfloat16", "tw_bfloat16", "tw_to_bfloat16", called, row, place),
    }


def _store_function(name: str, to: str, converted: str, called: str, row: str, place: str) -> str:
    """One of these. to: the type that is stored; converted: by what function, if any."""
    also, exchanged = "", ""
    if name.startswith("tw_wgmma"):
        also, exchanged = " 2: in swizzled rows.", "\n    if (pairs == 2) to = tw_exchanged(to, stride);"
    low, high = (f"{converted}({each})" if converted else each for each in ("c[2 * i]", "c[2 * i + 1]"))
    return f"""
// pairs: the tile and the stride are of whole pairs of elements.{also}
template <class C>
static __device__ __forceinline__ void {name}({to} *tile, const C *c, int stride, int pairs) {{
  const int {called} = {row}, place = {place};
  for (int i = 0; i < 2; ++i) {{
    {to} *to = tile + ({called} + i * 8) * stride + place;{exchanged}
    if (pairs) {{
      const tw_vector<{to}, 2> both = {{{{{low}, {high}}}}};
      tw_store(to, both);
    }} else {{
      to[0] = {low}, to[1] = {high};
    }}
  }}
}}"""


def _mma(kind: str, shape: str, c: str, types: tuple[str, str], operation: str, exact: str) -> str:
    """The device function of one product. types: of the factors; operation: of the PTX instruction; exact: the type that the
    emulator adds up in."""
    sums = {"float": "f", "int": "r"}[c]
    taken = "tw_tf32_register" if kind == "tf32" else "tw_register"
    halves = 1 if kind.endswith("_k8") else 2
    left, right = (
        ", ".join(f'"r"({taken}({side}, {at}))' for at in range(count * halves)) for side, count in (("a", 2), ("b", 1))
    )
    places = [f"%{at}" for at in range(4, 4 + 3 * halves)]
    fragments = f"{{{', '.join(places[: 2 * halves])}}}, {{{', '.join(places[2 * halves :])}}}"
    return f"""
static __device__ __forceinline__ void tw_mma_{kind}({c} *c, const {types[0]} *a, const {types[1]} *b) {{
#ifdef __CUDACC__
  asm volatile("mma.sync.aligned.{shape}.row.col.{operation} {{%0, %1, %2, %3}}, {fragments}, "
               "{{%0, %1, %2, %3}};"
               : "+{sums}"(c[0]), "+{sums}"(c[1]), "+{sums}"(c[2]), "+{sums}"(c[3])
               : {left},
                 {right});
#else
  tw_mma_emulated<{exact}, {halves}>(c, a, b);
#endif
}}"""


TENSOR_CORE_ROWS = {
    "tw_exchanged": """
// Where swizzled memory has an element, in rows of so many.
template <class T>
static __device__ __forceinline__ T *tw_exchanged(T *to, int row) {
  const int place = (int)(reinterpret_cast<unsigned long long>(to) & 1023);
  const int other = place ^ (place >> 7 & (row * (int)sizeof(T) / 16 - 1)) << 4;
  return to + (other - place) / (int)sizeof(T);  // an index, by which the compiler still knows what memory it is
}""",
    "tw_lane": """
static __device__ __forceinline__ int tw_lane() { return tw_thread() & 31; }""",
    "tw_register": """
// The elements of one register of a fragment.
template <class T>
static __device__ __forceinline__ unsigned int tw_register(const T *fragment, int place) {
  return reinterpret_cast<const unsigned int *>(fragment)[place];
}""",
    "tw_tf32": """
// Rounded to 10 bits of mantissa, halves away from zero.
static __device__ __forceinline__ float tw_tf32(float value) {
#ifdef __CUDACC__
  unsigned int bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return tw_float_of(bits);
#else
  return value == value ? tw_float_of((tw_bits_of(value) + 0x1000u) & 0xffffe000u) : value;
#endif
}""",
    "tw_tf32_register": """
static __device__ __forceinline__ unsigned int tw_tf32_register(const float *fragment, int place) {
  return tw_bits_of(tw_tf32(fragment[place]));
}""",
    "tw_value_of": """
static __device__ __forceinline__ double tw_value_of(tw_half value) { return (double)tw_from_half(value); }
static __device__ __forceinline__ double tw_value_of(tw_bfloat16 value) { return (double)tw_from_bfloat16(value); }
static __device__ __forceinline__ int tw_value_of(signed char value) { return (int)value; }
static __device__ __forceinline__ int tw_value_of(unsigned char value) { return (int)value; }
static __device__ __forceinline__ double tw_value_of(float value) { return (double)tw_tf32(value); }""",
    "tw_float8_sum": """
// In which the emulator adds up products of 8-bit floats.
typedef double tw_float8_sum;
static __device__ __forceinline__ double tw_value_of(tw_float8_e5m2 value) {
  return (double)tw_from_half(tw_half{(unsigned short)(value.bits << 8)});
}
static __device__ __forceinline__ double tw_value_of(tw_float8_e4m3fn value) {
  const unsigned short half = (unsigned short)((value.bits & 0x80) << 8 | (value.bits & 0x7f) << 7);
  return (value.bits & 0x7f) == 0x7f ? (double)tw_nan() : 256.0 * (double)tw_from_half(tw_half{half});
}""",
    "tw_mma_emulated": """
#ifndef __CUDACC__
// The values of fragments, which no other thread sees: of rows `group` and `group` + 8 of A, and of a column of B.
template <class Sum, int terms, class A, class B>
#ifdef TW_EMULATED
TW_UNCHECKED
#endif
static void tw_values_of(Sum (*left)[terms], Sum *right, const A *a, const B *b) {
  constexpr int each = 4 / (int)sizeof(A);
  for (int i = 0; i < terms; ++i) {
    const int at = i / each * 2 * each + i % each;
    left[0][i] = (Sum)tw_value_of(a[at]), left[1][i] = (Sum)tw_value_of(a[at + each]), right[i] = (Sum)tw_value_of(b[i]);
  }
}

// c += a b of the emulator, which rounds once; a tensor core's sums of floats differ from that in their last bits.
// halves: of 32 bytes of terms.
template <class Sum, int halves, class C, class A, class B>
static inline void tw_mma_emulated(C *c, const A *a, const B *b) {
  constexpr int terms = halves * 4 / (int)sizeof(A);
  Sum sums[4] = {(Sum)c[0], (Sum)c[1], (Sum)c[2], (Sum)c[3]}, left[2][terms], right[terms];
  tw_values_of<Sum, terms>(left, right, a, b);
#ifdef TW_EMULATED
  TW_OTHERS_RUN();
  tw_emulated_warp_product(sums, left, right, terms, (Sum)0.5 == 0);
  TW_OTHERS_RUN();
#else
  for (int i = 0; i < 4 * terms; ++i) {
    const int from = i / terms, at = i % terms;  // the lanes of a row have some of its terms each, and so those of a column
    for (int which = 0; which < 4; ++which) {
      const Sum own = __shfl_sync(0xffffffffu, left[which / 2][at], tw_lane() / 4 * 4 + from);
      sums[which] += own * __shfl_sync(0xffffffffu, right[at], (tw_lane() % 4 * 2 + which % 2) * 4 + from);
    }
  }
#endif
  for (int which = 0; which < 4; ++which) c[which] = (C)sums[which];
}
#endif""",
    "tw_ldmatrix": """
// Matrices of 8 rows of 16 bytes from shared memory, a register of each lane for each; the row that a lane points to is one of
// theirs, aligned to 16 bytes. transposed: of elements of 2 bytes.
template <int count, bool transposed, class T>
static __device__ __forceinline__ void tw_ldmatrix(T *to, const T *row) {
#ifdef __CUDACC__
  unsigned int *found = reinterpret_cast<unsigned int *>(to);
  unsigned int place = (unsigned int)__cvta_generic_to_shared(row);
  if constexpr (count == 4 && transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3]) : "r"(place) : "memory");
  else if constexpr (count == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3]) : "r"(place) : "memory");
  else if constexpr (count == 1 && transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(found[0]) : "r"(place) : "memory");
  else if constexpr (count == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(found[0]) : "r"(place) : "memory");
  else if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(found[0]), "=r"(found[1]) : "r"(place) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(found[0]), "=r"(found[1]) : "r"(place) : "memory");
#else
  const int group = tw_lane() / 4, place = tw_lane() % 4;
  const tw_vector<T, 16 / (int)sizeof(T)> loaded = tw_load<16 / (int)sizeof(T)>(row);
  const tw_vector<unsigned int, 4> own = tw_reinterpret<tw_vector<unsigned int, 4>>(loaded);
  unsigned int all[32][4];
#ifdef TW_EMULATED
  TW_OTHERS_RUN();
  tw_emulated_share(all, own.lane, 16);
  TW_OTHERS_RUN();
#else
  for (int lane = 0; lane < 32; ++lane)
    for (int part = 0; part < 4; ++part) all[lane][part] = __shfl_sync(0xffffffffu, own.lane[part], lane);
#endif
  for (int i = 0; i < count; ++i) {
    unsigned int parts[2] = {0, 0};
    for (int half = 0; half < (transposed ? 2 : 1); ++half)  // a row each, where lanes hold parts of columns
      parts[half] = transposed ? all[i * 8 + place * 2 + half][group / 2] : all[i * 8 + group][place];
    const unsigned int low = (parts[0] & 0xffffu) | parts[1] << 16, high = parts[0] >> 16 | (parts[1] & 0xffff0000u);
    const unsigned int found = !transposed ? parts[0] : group % 2 ? high : low;
    const tw_vector<T, 4 / (int)sizeof(T)> elements = tw_reinterpret<tw_vector<T, 4 / (int)sizeof(T)>>(found);
    for (int at = 0; at < 4 / (int)sizeof(T); ++at) to[i * 4 / (int)sizeof(T) + at] = elements.lane[at];
  }
#endif
}""",
    "tw_mma_load_a": """
// A row for each m. aligned: in shared memory, each row and the stride in units of 16 bytes.
template <class T>
static __device__ __forceinline__ void tw_mma_load_a(T *to, const T *tile, int stride, int aligned) {
  constexpr int each = 4 / (int)sizeof(T);
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * each;
  if (aligned) {
    tw_ldmatrix<4, false>(to, tile + (lane & 15) * stride + lane / 16 * 4 * each);
  } else {
    for (int i = 0; i < 4 * each; ++i)
      to[i] = tile[(group + i / each % 2 * 8) * stride + place + i / each / 2 * 4 * each + i % each];
  }
}""",
    "tw_mma_load_at": """
// A row for each k.
template <class T>
static __device__ __forceinline__ void tw_mma_load_at(T *to, const T *tile, int stride, int aligned) {
  constexpr int each = 4 / (int)sizeof(T);
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * each;
  if (aligned && each == 2) {
    tw_ldmatrix<4, true>(to, tile + ((lane & 7) + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
  } else {
    for (int i = 0; i < 4 * each; ++i)
      to[i] = tile[(place + i / each / 2 * 4 * each + i % each) * stride + group + i / each % 2 * 8];
  }
}""",
    "tw_mma_load_b": """
// A row for each k.
template <class T>
static __device__ __forceinline__ void tw_mma_load_b(T *to, const T *tile, int stride, int aligned) {
  constexpr int each = 4 / (int)sizeof(T);
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * each;
  if (aligned && each == 2) {
    tw_ldmatrix<2, true>(to, tile + (lane & 15) * stride);
  } else {
    for (int i = 0; i < 2 * each; ++i) to[i] = tile[(place + i / each * 4 * each + i % each) * stride + group];
  }
}""",
    "tw_mma_load_bt": """
// A row for each n.
template <class T>
static __device__ __forceinline__ void tw_mma_load_bt(T *to, const T *tile, int stride, int aligned) {
  constexpr int each = 4 / (int)sizeof(T);
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * each;
  if (aligned) {
    tw_ldmatrix<2, false>(to, tile + (lane & 7) * stride + lane / 8 % 2 * 4 * each);
  } else {
    for (int i = 0; i < 2 * each; ++i) to[i] = tile[group * stride + place + i / each * 4 * each + i % each];
  }
}""",
    "tw_mma_load_b_pair": """
// Two tiles with a row for each k, `apart` elements from each other, aligned.
template <class T>
static __device__ __forceinline__ void tw_mma_load_b_pair(T *to, const T *tile, int stride, int apart) {
  tw_ldmatrix<4, true>(to, tile + (tw_lane() & 15) * stride + tw_lane() / 16 * apart);
}""",
    "tw_mma_load_bt_pair": """
// Two tiles with a row for each n, `apart` elements from each other, aligned.
template <class T>
static __device__ __forceinline__ void tw_mma_load_bt_pair(T *to, const T *tile, int stride, int apart) {
  tw_ldmatrix<4, false>(to, tile + (tw_lane() & 7) * stride + tw_lane() / 8 % 2 * 8 + tw_lane() / 16 * apart);
}""",
    "tw_mma_load_a8": """
// 8 terms of 2 bytes, here and in the three that follow.
template <class T>
static __device__ __forceinline__ void tw_mma_load_a8(T *to, const T *tile, int stride, int aligned) {
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * 2;
  if (aligned) {
    tw_ldmatrix<2, false>(to, tile + (lane & 15) * stride);
  } else {
    for (int i = 0; i < 4; ++i) to[i] = tile[(group + i / 2 * 8) * stride + place + i % 2];
  }
}""",
    "tw_mma_load_at8": """
template <class T>
static __device__ __forceinline__ void tw_mma_load_at8(T *to, const T *tile, int stride, int aligned) {
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * 2;
  if (aligned) {
    tw_ldmatrix<2, true>(to, tile + (lane & 7) * stride + lane / 8 % 2 * 8);
  } else {
    for (int i = 0; i < 4; ++i) to[i] = tile[(place + i % 2) * stride + group + i / 2 * 8];
  }
}""",
    "tw_mma_load_b8": """
template <class T>
static __device__ __forceinline__ void tw_mma_load_b8(T *to, const T *tile, int stride, int aligned) {
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * 2;
  if (aligned) {
    tw_ldmatrix<1, true>(to, tile + (lane & 7) * stride);
  } else {
    for (int i = 0; i < 2; ++i) to[i] = tile[(place + i) * stride + group];
  }
}""",
    "tw_mma_load_bt8": """
template <class T>
static __device__ __forceinline__ void tw_mma_load_bt8(T *to, const T *tile, int stride, int aligned) {
  const int lane = tw_lane(), group = lane / 4, place = lane % 4 * 2;
  if (aligned) {
    tw_ldmatrix<1, false>(to, tile + (lane & 7) * stride);
  } else {
    for (int i = 0; i < 2; ++i) to[i] = tile[group * stride + place + i];
  }
}""",
    "tw_mma_fill": """
template <class C>
static __device__ __forceinline__ void tw_mma_fill(C *c) { c[0] = c[1] = c[2] = c[3] = 0; }""",
    "tw_mma_float16": _mma("float16", "m16n8k16", "float", ("tw_half", "tw_half"), "f32.f16.f16.f32", "double"),
    "tw_mma_bfloat16": _mma(
        "bfloat16", "m16n8k16", "float", ("tw_bfloat16", "tw_bfloat16"), "f32.bf16.bf16.f32", "double"
    ),
    **{
        f"tw_mma_{kind}": _mma(kind, "m16n8k32", "int", types, f"s32.{operands}.s32", "int")
        for kind, types, operands in (
            ("int8", ("signed char", "signed char"), "s8.s8"),
            ("uint8", ("unsigned char", "unsigned char"), "u8.u8"),
            ("uint8_int8", ("unsigned char", "signed char"), "u8.s8"),
            ("int8_uint8", ("signed char", "unsigned char"), "s8.u8"),
        )
    },
    **{
        f"tw_mma_{left if left == right else f'{left}_{right}'}": _mma(
            left if left == right else f"{left}_{right}",
            "m16n8k32",
            "float",
            (f"tw_{left}", f"tw_{right}"),
            f"f32.{FLOAT8_OPERANDS[left]}.{FLOAT8_OPERANDS[right]}.f32",
            "tw_float8_sum",
        )
        for left in FLOAT8_OPERANDS
        for right in FLOAT8_OPERANDS
    },
    "tw_mma_tf32": _mma("tf32", "m16n8k8", "float", ("float", "float"), "f32.tf32.tf32.f32", "double"),
    **{
        f"tw_mma_{kind}_k8": _mma(
            f"{kind}_k8", "m16n8k8", "float", (c_type, c_type), f"f32.{operand}.{operand}.f32", "double"
        )
        for kind, c_type, operand in (("float16", "tw_half", "f16"), ("bfloat16", "tw_bfloat16", "bf16"))
    },
    **sums_stored("tw_mma_store", "group", "tw_lane() / 4", "tw_lane() % 4 * 2"),
    "tw_dp4a": """
// c += the products of 4 neighbours.
static __device__ __forceinline__ void tw_dp4a(int *c, const signed char *a, const signed char *b, int aligned) {
#ifdef __CUDACC__
  if (aligned) {
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(*c) : "r"(*(const int *)a), "r"(*(const int *)b));
    return;
  }
#endif
  for (int i = 0; i < 4; ++i) *c += (int)a[i] * (int)b[i];
}""",
}
