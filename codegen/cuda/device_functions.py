"""Device functions that kernels call by name, as CUDA C text. One row each; a kernel's text holds those that it uses.

What only the hardware can do has a PTX body, or the compiler's own function, where __CUDACC__ is defined, and a C++ body
for the emulator elsewhere. Everything else is plain C++ that means the same on both.
"""

from __future__ import annotations

from .bulk import BULK_ROWS
from .clusters import CLUSTER_ROWS
from .copies import COPY_ROWS
from .tensor_core import TENSOR_CORE_ROWS
from .warpgroup import WARPGROUP_ROWS

__all__ = ["DEVICE_FUNCTIONS"]

_ROWS = {
    "tw_half": """
struct tw_half { unsigned short bits; };""",
    "tw_bfloat16": """
struct tw_bfloat16 { unsigned short bits; };""",
    "tw_float8_e4m3fn": """
struct tw_float8_e4m3fn { unsigned char bits; };""",
    "tw_float8_e5m2": """
struct tw_float8_e5m2 { unsigned char bits; };""",
    "tw_bits_of": """
static __device__ __forceinline__ unsigned int tw_bits_of(float value) {
  union { float value; unsigned int bits; } both;
  both.value = value;
  return both.bits;
}""",
    "tw_float_of": """
static __device__ __forceinline__ float tw_float_of(unsigned int bits) {
  union { float value; unsigned int bits; } both;
  both.bits = bits;
  return both.value;
}""",
    "tw_nan": """
static __device__ __forceinline__ float tw_nan() { return tw_float_of(0x7fc00000u); }""",
    "tw_infinity": """
static __device__ __forceinline__ float tw_infinity() { return tw_float_of(0x7f800000u); }""",
    "tw_from_half": """
static __device__ __forceinline__ float tw_from_half(tw_half half) {
#ifdef __CUDACC__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
  return value;
#else
  unsigned int sign = (half.bits & 0x8000u) << 16, rest = half.bits & 0x7fffu;
  if (rest >= 0x7c00u) return tw_float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest < 0x400u) return tw_float_of(sign) + (sign ? -1.0f : 1.0f) * (float)rest * 5.9604644775390625e-08f;
  return tw_float_of(sign | ((rest << 13) + 0x38000000u));
#endif
}""",
    "tw_to_half": """
static __device__ __forceinline__ tw_half tw_to_half(float value) {
  tw_half half;
#ifdef __CUDACC__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
#else
  unsigned int bits = tw_bits_of(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) {
    half.bits = 0x7fffu;
  } else if (size >= 0x477ff000u) {
    half.bits = (unsigned short)(sign | 0x7c00u);
  } else if (size < 0x38800000u) {
    half.bits = (unsigned short)(sign | (tw_bits_of(tw_float_of(size) + 0.5f) - 0x3f000000u));
  } else {
    half.bits = (unsigned short)(sign | ((size + 0xfffu + (size >> 13 & 1u) - 0x38000000u) >> 13));
  }
#endif
  return half;
}""",
    "tw_round_half": """
static __device__ __forceinline__ float tw_round_half(float value) { return tw_from_half(tw_to_half(value)); }""",
    "tw_from_bfloat16": """
static __device__ __forceinline__ float tw_from_bfloat16(tw_bfloat16 value) {
  return tw_float_of((unsigned int)value.bits << 16);
}""",
    "tw_to_bfloat16": """
static __device__ __forceinline__ tw_bfloat16 tw_to_bfloat16(float value) {
  unsigned int bits = tw_bits_of(value);
  tw_bfloat16 made;
  if (value != value) {
    made.bits = (unsigned short)(bits >> 16 | 0x40u);
  } else {
    made.bits = (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
  return made;
}""",
    "tw_round_bfloat16": """
static __device__ __forceinline__ float tw_round_bfloat16(float value) { return tw_from_bfloat16(tw_to_bfloat16(value)); }""",
    "tw_round_to_odd": """
static __device__ __forceinline__ float tw_round_to_odd(double value) {
  float nearest = (float)value;
  if ((double)nearest == value || value != value) return nearest;
  unsigned int bits = tw_bits_of(nearest);
  if (fabs((double)nearest) > fabs(value)) --bits;
  return tw_float_of(bits | 1u);
}""",
    "tw_sum_to_odd": """
static __device__ __forceinline__ double tw_sum_to_odd(double a, double b) {
  double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
  union { double value; unsigned long long bits; } both;
  both.value = sum;
  if ((error < 0 || error > 0) && !(both.bits & 1u)) both.bits = (error > 0) == (sum > 0) ? both.bits + 1u : both.bits - 1u;
  return both.value;
}""",
    "tw_min": """
template <class T>
static __device__ __forceinline__ T tw_min(T a, T b) { return a < b || a != a ? a : b; }
// Of floats -0 is less than +0.
template <> __device__ __forceinline__ double tw_min<double>(double a, double b) {
  return a < b || a != a || (a == b && copysign(1.0, b) > 0) ? a : b;
}
template <> __device__ __forceinline__ float tw_min<float>(float a, float b) {
#ifdef __CUDACC__
  float least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
#else
  return a < b || a != a || (a == b && copysign(1.0, b) > 0) ? a : b;
#endif
}""",
    "tw_max": """
template <class T>
static __device__ __forceinline__ T tw_max(T a, T b) { return a > b || a != a ? a : b; }
// Of floats -0 is less than +0.
template <> __device__ __forceinline__ double tw_max<double>(double a, double b) {
  return a > b || a != a || (a == b && copysign(1.0, b) < 0) ? a : b;
}
template <> __device__ __forceinline__ float tw_max<float>(float a, float b) {
#ifdef __CUDACC__
  float greatest;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(greatest) : "f"(a), "f"(b));
  return greatest;
#else
  return a > b || a != a || (a == b && copysign(1.0, b) < 0) ? a : b;
#endif
}""",
    "tw_truncdiv": """
template <class T>
static __device__ __forceinline__ T tw_truncdiv(T a, T b) {
  if (b == 0) return 0;
  return b == (T)-1 && (T)-1 < 0 ? (T)(0 - (unsigned long long)a) : (T)(a / b);
}""",
    "tw_truncmod": """
template <class T>
static __device__ __forceinline__ T tw_truncmod(T a, T b) {
  return b == 0 || (b == (T)-1 && (T)-1 < 0) ? (T)0 : (T)(a % b);
}""",
    "tw_floordiv": """
template <class T>
static __device__ __forceinline__ T tw_floordiv(T a, T b) {
  T quotient = tw_truncdiv(a, b), rest = tw_truncmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? (T)(quotient - 1) : quotient;
}""",
    "tw_floormod": """
template <class T>
static __device__ __forceinline__ T tw_floormod(T a, T b) {
  T rest = tw_truncmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;
}""",
    "tw_float_floormod": """
template <class T>
static __device__ __forceinline__ T tw_float_floormod(T a, T b) {
  T rest = fmod(a, b);
  if (rest == 0) return copysign((T)0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    "tw_float_floordiv": """
template <class T>
static __device__ __forceinline__ T tw_float_floordiv(T a, T b) {
  if (b == 0) return a / b;
  T rest = fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  return rint(quotient);
}""",
    "tw_to_integer": """
template <class T>
static __device__ __forceinline__ T tw_to_integer(double value, T least, T greatest) {
  if (value != value) return 0;
  if (value <= (double)least) return least;
  if (value >= (double)greatest) return greatest;
  return (T)value;
}""",
    "tw_absolute": """
template <class T>
static __device__ __forceinline__ T tw_absolute(T value) { return value < 0 ? (T)(0 - (unsigned long long)value) : value; }""",
    "tw_popcount": """
static __device__ __forceinline__ int tw_popcount(unsigned long long value) {
#ifdef __CUDACC__
  return __popcll(value);
#else
  return __builtin_popcountll(value);
#endif
}""",
    "tw_clz": """
static __device__ __forceinline__ int tw_clz(unsigned long long value, int bits) {
#ifdef __CUDACC__
  return __clzll((long long)value) - (64 - bits);
#else
  return (value ? __builtin_clzll(value) : 64) - (64 - bits);
#endif
}""",
    "tw_reinterpret": """
template <class To, class From>
static __device__ __forceinline__ To tw_reinterpret(From value) {
  union { From from; To to; } both;
  both.from = value;
  return both.to;
}""",
    "tw_sigmoid": """
template <class T>
static __device__ __forceinline__ T tw_sigmoid(T value) { return (T)1 / ((T)1 + exp(-value)); }""",
    "tw_flushed_exp2": """
// 2 ** value, or 0 where that is below 2 ** -126.
static __device__ __forceinline__ float tw_flushed_exp2(float value) {
#ifdef __CUDACC__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value));
  return power;
#else
  const float power = exp2f(value);
  return power < 0x1p-126f ? 0.0f : power;
#endif
}""",
    "tw_thread": """
// The number of a thread in its block, by which all else tells its warp, its lane and its warpgroup.
static __device__ __forceinline__ int tw_thread() {
  return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}""",
    "tw_group_mask": """
// The lanes of the aligned group of `width` lanes that this thread is in.
static __device__ __forceinline__ unsigned int tw_group_mask(int width) {
  unsigned int lane = tw_thread() & 31u;
  return width == 32 ? 0xffffffffu : ((1u << width) - 1u) << (lane & ~(width - 1u));
}""",
    "tw_shuffle_down": """
template <class T>
static __device__ __forceinline__ T tw_shuffle_down(T value, int distance, int width) {
  return __shfl_down_sync(tw_group_mask(width), value, distance, width);
}""",
    "tw_shuffle": """
template <class T>
static __device__ __forceinline__ T tw_shuffle(T value, int lane, int width) {
  return __shfl_sync(tw_group_mask(width), value, lane, width);
}""",
    "tw_warp_shuffle_down": """
template <class T>
static __device__ __forceinline__ T tw_warp_shuffle_down(T value, int distance, int width) {
  return __shfl_down_sync(0xffffffffu, value, distance, width);
}""",
    "tw_warp_shuffle": """
template <class T>
static __device__ __forceinline__ T tw_warp_shuffle(T value, int lane, int width) {
  return __shfl_sync(0xffffffffu, value, lane, width);
}""",
    "tw_vector": """
// TW_UNALIGNED is defined for arguments that are aligned to their elements alone.
#ifdef TW_UNALIGNED
template <class T, int lanes> struct tw_vector { T lane[lanes]; };
#else
template <class T, int lanes> struct alignas(sizeof(T) * lanes) tw_vector { T lane[lanes]; };
#endif""",
    "tw_load": """
template <int lanes, class T>
static __device__ __forceinline__ tw_vector<T, lanes> tw_load(const T *from) {
  return *reinterpret_cast<const tw_vector<T, lanes> *>(from);
}""",
    "tw_store": """
template <class T, int lanes>
static __device__ __forceinline__ void tw_store(T *to, tw_vector<T, lanes> value) {
  *reinterpret_cast<tw_vector<T, lanes> *>(to) = value;
}""",
    "tw_dynamic_shared": """
#ifdef __CUDACC__
extern __shared__ __align__(16) unsigned char tw_dynamic_shared[];
#else
__shared__ __align__(16) unsigned char tw_dynamic_shared[232448];
#endif""",
    "tw_dynamic_panels": """
#ifdef __CUDACC__
extern __shared__ __align__(1024) unsigned char tw_dynamic_panels[];
#else
__shared__ __align__(1024) unsigned char tw_dynamic_panels[232448];
#endif""",
    "tw_fail": """
// A condition that the program asserts does not hold.
static __device__ __forceinline__ void tw_fail(int message) {
#ifdef __CUDACC__
  asm volatile("trap;");
#elif defined(TW_EMULATED)
  tw_emulated_failure(message);
#else
  __builtin_trap();
#endif
}""",
}

DEVICE_FUNCTIONS: dict[str, str] = {
    name: text.strip()
    for name, text in {**_ROWS, **COPY_ROWS, **BULK_ROWS, **CLUSTER_ROWS, **TENSOR_CORE_ROWS, **WARPGROUP_ROWS}.items()
}
"""By name, each after those that it needs."""
