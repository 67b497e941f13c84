"""Device functions of warpgroups (sm_90a): wgmma, products of 64 by n sums by four warps together, of matrices in shared memory,
the first of them in registers, too.

A matrix lies in panels of rows of 128 bytes, whose 16-byte parts are exchanged by row, and a descriptor says where; see the PTX
ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout". Which thread holds which sums is as in mma.sync, 16 rows a warp.

The instructions are asynchronous: begun after a fence, committed as a group, waited for. In the emulator a product is done at the
wait for it; until then nobody may store to what it reads, or touch its sums.
"""

from __future__ import annotations

import re

from ...ir.dtype import DType
from ...ir.fragments import HELD, K_BYTES
from .tensor_core import sums_stored
from .types import FLOAT8_OPERANDS, storage_type

__all__ = ["DESCRIBED", "EMULATED_KINDS", "PRODUCT", "WARPGROUP_ROWS", "product_rows"]

DESCRIBED = 16
"""Bytes in units of which descriptors say where a matrix begins."""
PRODUCT = rf"tw_wgmma_({HELD})?([a-z]+\d+\w*)_(\d+)"
"""The names of products."""


def _product(held: bool, dtype: str, columns: int) -> str:
    """The device function of one product. held: whether A lies in registers. Constant steps between matrices are added to descriptors,
    so that a loop makes one of each memory."""
    (sums, operation), kind = _KINDS[dtype], storage_type(DType(dtype))
    count, code = columns // 2, [*_KINDS].index(dtype)
    registers = ", ".join(f"%{place}" for place in range(count))
    operands = ", ".join(f'"+{"f" if sums == "float" else "r"}"(c[{place}])' for place in range(count))
    size = DType(dtype).bytes
    turns, depth = size == 2, K_BYTES // size  # others lie along k
    said = ["b_turned"] if held else ["a_turned", "b_turned"]
    left = (
        [f'"r"(tw_register(a, {at}))' for at in range(4)]
        if held
        else ['"l"(tw_descriptor<a_turned>(a, a_panel, a_row) + a_step)']
    )
    inputs = [
        *left,
        '"l"(tw_descriptor<b_turned>(b, b_panel, b_row) + b_step)',
        *(f'"n"({each})' for each in said if turns),
    ]
    places = [f"%{count + at}" for at in range(len(inputs))]
    a, b, turned = places[: len(left)], places[len(left)], places[len(left) + 1 :]
    taken = ", ".join(["{" + ", ".join(a) + "}" if held else a[0], b])
    more = "".join(f", {each}" for each in (["1", "1"] if sums == "float" else []) + turned)  # scales of floats
    sides = "int b_panel, int b_row = 128" if held else "int a_panel, int b_panel, int a_row = 128, int b_row = 128"
    a_at, b_at = (f"{side} + {side}_step * {DESCRIBED} / (int)sizeof(*{side})" for side in "ab")
    emulated = (
        f"held_product(c, a, {b_at}, {columns}, {code}, b_turned, b_panel, b_row)"
        if held
        else f"product(c, {a_at}, {b_at}, {columns}, {code}, a_turned, b_turned, a_panel, b_panel, a_row, b_row)"
    )
    return f"""
template <{", ".join(f"int {each}" for each in [*said, *(["b_step"] if held else ["a_step", "b_step"])])}>
static __device__ __forceinline__ void tw_wgmma_{HELD if held else ""}{dtype}_{columns}({sums} *c, const {kind} *a, const {kind} *b,
                                                         {sides}) {{
#ifdef __CUDACC__
  asm volatile("{{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{operation} "
               "{{{registers}}}, {taken}, p{more};}}"
               : {operands}
               : {", ".join(inputs)}
               : "memory");
#else
  tw_emulated_{emulated};
#endif
}}"""


_KINDS = {
    "float16": ("float", "f32.f16.f16"),
    "bfloat16": ("float", "f32.bf16.bf16"),
    "int8": ("int", "s32.s8.s8"),
    "uint8": ("int", "s32.u8.u8"),
    **{kind: ("float", f"f32.{name}.{name}") for kind, name in FLOAT8_OPERANDS.items()},
    "float32": ("float", "f32.tf32.tf32"),
}
"""By dtype: the C type of sums, and the instruction's types."""
EMULATED_KINDS = {dtype: f"KIND_{dtype.upper()}" for dtype in _KINDS}
"""The emulator's names of the dtypes of products, numbered in this order."""


def _one_line(name: str, instruction: str, emulated: str, said: str, template: str = "", operand: str = "") -> str:
    return f"""
// {said}
{template}static __device__ __forceinline__ void {name}() {{
#ifdef __CUDACC__
  asm volatile("{instruction}" : : {operand}: "memory");
#else
  {emulated};
#endif
}}"""


WARPGROUP_ROWS = {
    "tw_descriptor": """
// Of a matrix in panels of rows of 128, 64 or 32 bytes: where it begins, and how far apart panels, and groups of 8 rows, are.
template <int turned, class T>
static __device__ __forceinline__ unsigned long long tw_descriptor(const T *from, int panel, int row) {
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(from) >> 4;  // 32 bits: half of the instructions
  return place | (unsigned long long)(turned ? panel >> 4 : 1) << 16 | (unsigned long long)(row >> 1) << 32 |
         (row == 128 ? 1ull : row == 64 ? 2ull : 3ull) << 62;
}""",
    "tw_proxy_fence": _one_line(
        "tw_proxy_fence",
        "fence.proxy.async.shared::cta;",
        "tw_emulated_proxy_fence()",
        "What this thread has stored, tensor cores and the copy engine see after the next barrier.",
    ),
    "tw_wgmma_fence": _one_line(
        "tw_wgmma_fence",
        "wgmma.fence.sync.aligned;",
        "tw_emulated_product_fence()",
        "What this thread has done with the registers of sums comes before the next products.",
    ),
    "tw_wgmma_commit": _one_line(
        "tw_wgmma_commit",
        "wgmma.commit_group.sync.aligned;",
        "tw_emulated_product_commit()",
        "The products that were begun since the last one are a group.",
    ),
    "tw_wgmma_wait": _one_line(
        "tw_wgmma_wait",
        "wgmma.wait_group.sync.aligned %0;",
        "tw_emulated_product_wait(groups)",
        "Until all groups of products are done but for the last `groups`.",
        "template <int groups>\n",
        '"n"(groups) ',
    ),
    "tw_wgmma_fill": """
template <int count, class C>
static __device__ __forceinline__ void tw_wgmma_fill(C *c) {
#pragma unroll
  for (int i = 0; i < count; ++i) c[i] = 0;
}""",
    **sums_stored("tw_wgmma_store", "row", "tw_thread() % 128 / 32 * 16 + tw_thread() % 32 / 4", "tw_thread() % 4 * 2"),
}


def product_rows(text: str) -> dict[str, str]:
    """The device functions of the products that a text calls; there are 336 in all."""
    called = sorted(set(re.findall(rf"\b{PRODUCT}\b", text)))
    return {
        f"tw_wgmma_{held}{dtype}_{columns}": _product(bool(held), dtype, int(columns)).strip()
        for held, dtype, columns in called
    }
