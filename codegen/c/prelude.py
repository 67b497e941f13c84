"""Functions that kernels call, as C11 text. One row each, those for several types made from one template; a kernel's text
holds those that it uses.
"""

from __future__ import annotations

import re

__all__ = ["FUNCTIONS", "HEADER"]

HEADER = """\
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__clang__)
#define TW_VECTORIZE _Pragma("clang loop vectorize(enable)")
#elif defined(__GNUC__)
#define TW_VECTORIZE _Pragma("GCC ivdep")
#else
#define TW_VECTORIZE
#endif
"""


def _wrapping(bits: int) -> str:
    """A type whose sums wrap. The vectorizer of gcc 12 makes wrong sums of those that are converted to unsigned and back, so that
    they are signed where the compiler is told that these wrap."""
    return f"""
#ifdef TW_WRAPV  /* given with -fwrapv */
typedef int{bits}_t tw_wrap{bits};
#else
typedef uint{bits}_t tw_wrap{bits};
#endif"""


_ROWS = {
    "tw_wrap32": _wrapping(32),
    "tw_wrap64": _wrapping(64),
    "tw_bits_of": """
static inline uint32_t tw_bits_of(float value) {
  union { float value; uint32_t bits; } both = {value};
  return both.bits;
}""",
    "tw_float_of": """
static inline float tw_float_of(uint32_t bits) {
  union { uint32_t bits; float value; } both = {bits};
  return both.value;
}""",
    "tw_bits_of_double": """
static inline uint64_t tw_bits_of_double(double value) {
  union { double value; uint64_t bits; } both = {value};
  return both.bits;
}""",
    "tw_double_of": """
static inline double tw_double_of(uint64_t bits) {
  union { uint64_t bits; double value; } both = {bits};
  return both.value;
}""",
    "tw_nan": """
static inline float tw_nan(void) { return tw_float_of(0x7fc00000u); }""",
    "tw_infinity": """
static inline float tw_infinity(void) { return tw_float_of(0x7f800000u); }""",
    "tw_from_half": """
static inline float tw_from_half(uint16_t half) {
  uint32_t sign = (half & 0x8000u) << 16, size = half & 0x7fffu;
  if (size >= 0x7c00u) return tw_float_of(sign | 0x7f800000u | (size & 0x3ffu) << 13);
  if (size < 0x400u) {  /* zero, or subnormal: so many times 2^-24 */
    float small = (float)size * 5.9604644775390625e-08f;
    return sign ? -small : small;
  }
  return tw_float_of(sign | ((size << 13) + 0x38000000u));
}""",
    "tw_to_half": """
/* To nearest, ties to even. */
static inline uint16_t tw_to_half(float value) {
  uint32_t bits = tw_bits_of(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (size >> 13 & 0x3ffu));
  if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (size < 0x38800000u)  /* adding 1/2 rounds at 2^-24, the least of float16 */
    return (uint16_t)(sign | (tw_bits_of(tw_float_of(size) + 0.5f) - 0x3f000000u));
  return (uint16_t)(sign | ((size + 0xfffu + (size >> 13 & 1u) - 0x38000000u) >> 13));
}""",
    "tw_round_half": """
static inline float tw_round_half(float value) { return tw_from_half(tw_to_half(value)); }""",
    "tw_from_bfloat16": """
static inline float tw_from_bfloat16(uint16_t bits) { return tw_float_of((uint32_t)bits << 16); }""",
    "tw_to_bfloat16": """
/* To nearest, ties to even. */
static inline uint16_t tw_to_bfloat16(float value) {
  uint32_t bits = tw_bits_of(value);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}""",
    "tw_round_bfloat16": """
static inline float tw_round_bfloat16(float value) { return tw_from_bfloat16(tw_to_bfloat16(value)); }""",
    "tw_round_to_odd": """
/* Towards zero, with the last bit set where that is inexact: a second rounding then cannot go wrong. */
static inline float tw_round_to_odd(double value) {
  float nearest = (float)value;
  if ((double)nearest == value || value != value) return nearest;
  uint32_t bits = tw_bits_of(nearest);
  if (fabs((double)nearest) > fabs(value)) --bits;
  return tw_float_of(bits | 1u);
}""",
    "tw_sum_to_odd": """
/* a + b, moved by its last bit towards the exact sum where it is inexact and that bit is clear. */
static inline double tw_sum_to_odd(double a, double b) {
  double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
  union { double value; uint64_t bits; } both = {sum};
  if ((error < 0 || error > 0) && !(both.bits & 1u)) both.bits = (error > 0) == (sum > 0) ? both.bits + 1u : both.bits - 1u;
  return both.value;
}""",
    "tw_exp10f": """
static inline float tw_exp10f(float value) { return (float)pow(10.0, (double)value); }""",
    "tw_exp10": """
static inline double tw_exp10(double value) { return pow(10.0, value); }""",
    "tw_sigmoidf": """
static inline float tw_sigmoidf(float value) { return 1.0f / (1.0f + expf(-value)); }""",
    "tw_sigmoid": """
static inline double tw_sigmoid(double value) { return 1.0 / (1.0 + exp(-value)); }""",
    "tw_popcount": """
static inline int tw_popcount(uint64_t value) {
  value -= value >> 1 & 0x5555555555555555u;
  value = (value & 0x3333333333333333u) + (value >> 2 & 0x3333333333333333u);
  return (int)(((value + (value >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
}""",
    "tw_clz": """
static inline int tw_clz(uint64_t value, int bits) {
  int zeros = bits;
  for (; value; value >>= 1) --zeros;
  return zeros;
}""",
    "tw_prefetch": """
#if defined(__GNUC__)
#define tw_prefetch(address, locality) __builtin_prefetch(address, 0, locality)
#else
#define tw_prefetch(address, locality) ((void)0)
#endif""",
    "tw_allocate": """
/* Aligned to a cache line; freed by free. */
static inline void *tw_allocate(int64_t bytes) {
  return aligned_alloc(64, bytes < 1 ? 64 : ((size_t)bytes + 63) / 64 * 64);
}""",
}

_MIN_MAX = """
static inline T tw_min_NAME(T a, T b) { return a < b || a != a ? a : b; }"""
_FLOAT_MIN_MAX = """
/* -0 is less than +0. */
static inline T tw_min_NAME(T a, T b) { return a < b || a != a || (a == b && !signbit(b)) ? a : b; }"""
_INTEGERS = {
    "tw_truncdiv": """
static inline T tw_truncdiv_NAME(T a, T b) { return b == 0 ? 0 : (T)(a / b); }""",
    "tw_truncmod": """
static inline T tw_truncmod_NAME(T a, T b) { return b == 0 ? 0 : (T)(a % b); }""",
    "tw_floordiv": """
static inline T tw_floordiv_NAME(T a, T b) { return tw_truncdiv_NAME(a, b); }""",
    "tw_floormod": """
static inline T tw_floormod_NAME(T a, T b) { return tw_truncmod_NAME(a, b); }""",
    "tw_to_integer": """
static inline T tw_to_integer_NAME(double value, T least, T greatest) {
  if (value != value) return 0;
  if (value <= (double)least) return least;
  if (value >= (double)greatest) return greatest;
  return (T)value;
}""",
}
_SIGNED = {
    "tw_truncdiv": """
static inline T tw_truncdiv_NAME(T a, T b) {
  if (b == 0) return 0;
  return b == -1 ? (T)(0 - (uUINT)a) : (T)(a / b);
}""",
    "tw_truncmod": """
static inline T tw_truncmod_NAME(T a, T b) { return b == 0 || b == -1 ? 0 : (T)(a % b); }""",
    "tw_floordiv": """
static inline T tw_floordiv_NAME(T a, T b) {
  T quotient = tw_truncdiv_NAME(a, b), rest = tw_truncmod_NAME(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? (T)(quotient - 1) : quotient;
}""",
    "tw_floormod": """
static inline T tw_floormod_NAME(T a, T b) {
  T rest = tw_truncmod_NAME(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;
}""",
    "tw_absolute": """
static inline T tw_absolute_NAME(T value) { return value < 0 ? (T)(0 - (uUINT)value) : value; }""",
}
_FLOATS = {
    "tw_float_floormod": """
static inline T tw_float_floormod_NAME(T a, T b) {
  T rest = fmodF(a, b);
  if (rest == 0) return copysignF(0, b);
  return rest == rest && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    "tw_float_floordiv": """
static inline T tw_float_floordiv_NAME(T a, T b) {
  T plain = a / b;
  if (b == 0) return plain;
  T rest = fmodF(a, b), quotient = (a - rest) / b;
  if (rest != 0 && rest == rest && (rest < 0) != (b < 0)) quotient -= 1;
  quotient = rintF(quotient);
  return quotient == 0 ? copysignF(0, plain) : quotient;
}""",
}


def _write_rows(table: dict[str, str], name: str, kind: str, short: str = "") -> dict[str, str]:
    """The rows of a table for one type. short: what the C library's functions of it end in."""
    # spelt out, as suffixes of types and functions differ
    spelt = {"uUINT": "uint64_t" if "64" in kind else "uint32_t", "_NAME": f"_{name}", "F(": f"{short}("}
    functions: dict[str, str] = {}
    for function, text in table.items():
        for written, meant in spelt.items():
            text = text.replace(written, meant)
        functions[f"{function}_{name}"] = re.sub(r"\bT\b", kind, text)  # T as a word of its own alone
    return functions


def _functions() -> dict[str, str]:
    functions = dict(_ROWS)
    extrema = {"tw_min": _MIN_MAX, "tw_max": _MIN_MAX.replace("min", "max").replace("<", ">")}
    float_extrema = {  # min's text turned around: +0 is the greater
        "tw_min": _FLOAT_MIN_MAX,
        "tw_max": _FLOAT_MIN_MAX.replace("tw_min", "tw_max").replace("a < b", "a > b").replace("!signbit", "signbit"),
    }
    for bits in (8, 16, 32, 64):
        for sign, table in (("", {**_INTEGERS, **_SIGNED}), ("u", _INTEGERS)):
            functions |= _write_rows({**extrema, **table}, f"{sign}int{bits}", f"{sign}int{bits}_t")
    for kind, short in (("float", "f"), ("double", "")):
        functions |= _write_rows({**float_extrema, **_FLOATS}, kind, kind, short)
    functions |= _write_rows(extrema, "bool", "bool")  # bools have an order too, but no arithmetic
    return {name: text.strip() for name, text in functions.items()}


FUNCTIONS = _functions()
"""By name, each after those that it needs."""
