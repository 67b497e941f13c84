"""Matrices of weights stored in 8 or in 4 bits, each 32 of them along the sum with a scale of their own: what is read of memory for
each word that a language model makes becomes a quarter, or an eighth.

    input x: float32[2, 32]
    param w: float32[1, 32] = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    y: float32[2, 1] = matmul(x, w, transpose_a=false, transpose_b=true)
    output y

becomes

    input x: float32[2, 32]
    param v2: uint8[1, 1, 8, 16, 4] = sha256:c535669c99d2e6db4d289ec36941c473
    param v3: float16[1, 1, 16] = (0.00787353515625, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    y: float32[2, 1] = weight_only_matmul(x, v2, v3, outs=1, bits=8)
    output y

Weights are off by up to half a scale, and x is rounded to 8 bits in such groups too: products of random numbers differ by about one
part in a hundred with 8 bits and one in ten with 4 (`topi.nn.weight_only_dense` has the bounds). So these passes run where they are
asked for by name alone, `g.transform("weights_int8")`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import topi
from ...topi.nn.weight_only import GROUP
from ..node import Node, Parts
from .moves import transpose_axes
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["WEIGHTS_INT4", "WEIGHTS_INT8"]


def _pack_weights(r: Rewriter, node: Node, bits: int) -> str | None:
    if node.operator != "matmul" or node.attributes["transpose_a"]:
        return None
    x, weights = r.type(node.inputs[0]), _matrix(r, node.inputs[1])
    if (
        weights is None
        or weights.ndim != 2
        or weights.dtype.kind != "f"
        or len(x.shape) < 2
        or not np.isfinite(weights).all()
    ):
        return None
    rows = weights if node.attributes["transpose_b"] else weights.T
    outs, depth = rows.shape
    if depth < GROUP:
        return None
    levels, scales = topi.nn.quantize_groups(rows.astype(np.float32), bits)
    return r.node(
        "weight_only_matmul",
        node.inputs[0],
        r.constant(levels),
        r.constant(scales),
        outputs=node.outputs,
        outs=outs,
        bits=bits,
    )


def _matrix(r: Rewriter, value: str) -> NDArray[Any] | None:
    """A parameter, also behind a transpose: a table of words has its rows in both orders, for looking up and for scores."""
    turned = r.maker(value, "transpose")
    source = value if turned is None else turned.inputs[0]
    if not r.is_known(source):
        return None
    return r.known(source) if turned is None else r.known(source).transpose(transpose_axes(turned))


def _weights(g: Parts, bits: int) -> Parts:
    return rewrite(g, lambda r, node: _pack_weights(r, node, bits))


_IN_8 = """uint8[1, 1, 8, 16, 4] = sha256:c535669c99d2e6db4d289ec36941c473
    param v3: float16[1, 1, 16] = (0.00787353515625,"""
_IN_4 = """uint8[1, 1, 4, 16, 4] = sha256:20e14408ec6fd5113ea28be4829d5bca
    param v3: float16[1, 1, 16] = (0.142822265625,"""
"""Of the page: what 4 bits are told by in place of 8."""


def _row(bits: int) -> GraphPass:
    page = (__doc__ or "") if bits == 8 else (__doc__ or "").replace(_IN_8, _IN_4).replace("bits=8", "bits=4")
    return GraphPass(
        f"weights_int{bits}",
        f"matrices of weights are stored in {bits} bits, with a scale for each {GROUP}",
        "asked",
        partial(_weights, bits=bits),
        page,
    )


WEIGHTS_INT8, WEIGHTS_INT4 = _row(8), _row(4)
