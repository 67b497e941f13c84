"""Zeros of bytes, taken off sums instead of terms, so that bytes are multiplied as they are.

    input x: uint8[1, 2, 1]
    param w: int8[1, 1, 2] = (1, -4)
    param z: uint8[] = (7)
    y: int32[1, 2, 1] = integer_conv(x, w, z, stride=(), padding=(1, 0), dilation=(), groups=1, quads=false)
    output y

becomes, where the target has an instruction for products of uint8 and int8,

    input x: uint8[1, 2, 1]
    param w: int8[1, 1, 2] = (1, -4)
    param v5: int32[1] = (21)
    v3: uint8[1, 3, 1] = pad(x, before=(0, 1, 0), after=(0, 0, 0), value=7)
    v4: int32[1, 2, 1] = integer_conv(v3, w, stride=(), padding=(0, 0), dilation=(), groups=1, quads=true)
    y: int32[1, 2, 1] = add(v4, v5)
    output y

What is padded is the zero, and the sums of weights times the zero are known. Sums of int32 wrap, so that not a bit changes. Pairs of 16
bits, of which zeros are taken off before, are multiplied half as fast.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...codegen.target import Target
from ...te.intrinsics.arm_dots import I8MM
from ...te.intrinsics.dot_u8i8 import FEATURE
from ..node import Node, Parts
from ..types import TensorType
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["BYTE_ZEROS", "target_byte_zeros"]


def _offsets(w: NDArray[Any], zero: int) -> NDArray[np.int32]:
    """Sums of the weights of each channel times the zero, which wrap."""
    return (-zero * w.sum(tuple(range(1, w.ndim)), np.int64)).astype(np.int32)


def _visit(r: Rewriter, node: Node) -> str | None:
    how = node.attributes
    if node.operator != "integer_conv" or how["quads"] or how["groups"] != 1:
        return None
    x, w, zero, other = (*node.inputs, "", "")[:4]
    if r.type(x).dtype != "uint8" or r.type(w).dtype != "int8" or not r.is_known(w):
        return None
    if zero and not r.is_known(zero) or other and (not r.is_known(other) or r.known(other).any()):
        return None
    value = int(r.known(zero).reshape(())) if zero else 0
    padding = cast("tuple[int, ...]", how["padding"])
    if value and any(padding):
        half = len(padding) // 2
        x = r.node("pad", x, before=(0, *padding[:half], 0), after=(0, *padding[half:], 0), value=value)
        padding = (0,) * len(padding)
    like: dict[str, Any] = {name: how[name] for name in ("stride", "dilation", "groups")}
    sums = r.node("integer_conv", x, w, outputs=() if value else node.outputs, padding=padding, quads=True, **like)
    if not value:
        return sums
    offsets = r.computed(TensorType((r.type(w).shape[0],), "int32"), _offsets, w, more=(value,))
    return r.node("add", sums, offsets, outputs=node.outputs)


def _keep(g: Parts) -> Parts:
    return g


def target_byte_zeros(target: Target) -> GraphPass:
    """Return the pass for a processor, which changes nothing where it multiplies bytes by pairs."""
    has_quads = any(target.backend.has(target, one) for one in (FEATURE, I8MM))
    return BYTE_ZEROS if has_quads else replace(BYTE_ZEROS, apply=_keep)


BYTE_ZEROS = GraphPass(
    "byte_zeros",
    "zeros of bytes are taken off sums, where bytes are multiplied as they are",
    "exact",
    lambda g: rewrite(g, _visit),
    __doc__,
    late=True,
)
