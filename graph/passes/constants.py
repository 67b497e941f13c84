"""Nodes whose inputs are known, computed at once by the reference, as long as the result is not much larger than what it is made
of.

    input x: float32[4, 3]
    param w: float32[2, 3] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    t: float32[3, 2] = transpose(w, axes=(1, 0))
    y: float32[4, 2] = matmul(x, t)
    output y

becomes

    input x: float32[4, 3]
    param t: float32[3, 2] = (1.0, 4.0, 2.0, 5.0, 3.0, 6.0)
    y: float32[4, 2] = matmul(x, t)
    output y

This pass has the operators that the reference rounds as machine code does: what moves elements, integers, and the arithmetic of
IEEE 754. The rest, where the reference computes in float64 and rounds once, has the pass `folded`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..node import Node, Parts
from ..operators import row_of
from ..reference import run_node
from ..types import array_dtype, is_open
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["CONSTANTS", "folds"]

_MOST_BYTES = 1 << 16
"""A result of so many bytes is always kept; a larger one where it is not larger than its inputs."""

_GROW = frozenset(("dequantize",))
"""What is computed at once however large it becomes: no call should do it again."""

_ARITHMETIC = frozenset(
    (
        "add",
        "subtract",
        "multiply",
        "divide",
        "sqrt",
        "negative",
        "abs",
        "floor",
        "ceil",
        "trunc",
        "nearbyint",
        "square",
        "isnan",
        "isinf",
        "isfinite",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "where",
    )
)
_OF_INTEGERS = frozenset(
    (
        "maximum",
        "minimum",
        "floor_divide",
        "trunc_divide",
        "floor_mod",
        "trunc_mod",
        "clip",
        "relu",
        "sign",
        "sum",
        "max",
        "min",
        "prod",
        "logical_and",
        "logical_or",
        "logical_not",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
        "all",
        "any",
    )
)
_MOVES = frozenset(("identity", "split", "shape"))


def folds(g: Parts, rounds: bool) -> Parts:
    """The graph with what is known as parameters. rounds: also where the reference may round otherwise than kernels do."""

    def visit(r: Rewriter, node: Node) -> Sequence[str] | None:
        if node.bodies:
            return None
        # open shapes are not known before the call
        if not all(kind.is_static for kind in node.types) or any(name and not r.is_known(name) for name in node.inputs):
            # a shape alone is known, even of a tensor that is not
            if node.operator != "shape" or not r.type(node.inputs[0]).is_static:
                return None
            return [r.constant(np.asarray(r.type(node.inputs[0]).shape, np.int64))]
        if any(map(is_open, node.attributes.values())):
            return None  # an attribute with a symbol is bound at the call
        inputs = [r.known(name) if name else None for name in node.inputs]
        if node.operator not in _GROW and _bytes(node) > max(
            # a small result may replace large inputs, never the other way round
            _MOST_BYTES,
            sum(data.nbytes for data in inputs if data is not None),
        ):
            return None
        if not rounds and not _is_exact(node, inputs):
            return None
        results = run_node(node, inputs, {})
        return [
            # an output keeps its name as a parameter, if it is not taken
            r.constant(result) if name in r.types else r.param(name, result)
            for name, result in zip(node.outputs, results, strict=True)
        ]

    return rewrite(g, visit)


def _bytes(node: Node) -> int:
    return sum(math.prod(map(int, kind.shape)) * array_dtype(kind.dtype).itemsize for kind in node.types)


def _is_exact(node: Node, inputs: Sequence[NDArray[Any] | None]) -> bool:
    kinds = {str(data.dtype) for data in inputs if data is not None} | {kind.dtype for kind in node.types}
    if row_of(node.operator).fusion == "injective" or node.operator in _MOVES:  # moving elements rounds nothing
        return True
    if node.operator == "cast":
        (data,) = inputs
        # casts from floats to narrow ones round, in the reference as well
        return data is not None and (data.dtype.kind in "iub" or node.types[0].dtype in ("float32", "float64", "bool"))
    if all(kind == "bool" or "int" in kind for kind in kinds):
        return node.operator in _ARITHMETIC | _OF_INTEGERS  # integers wrap alike everywhere
    # float16 would be rounded from float64 by the reference
    return node.operator in _ARITHMETIC and all(kind in ("float32", "float64", "bool") for kind in kinds)


CONSTANTS = GraphPass(
    "constants",
    "compute constant nodes once, where the reference has the kernels' bits",
    "exact",
    lambda g: folds(g, rounds=False),
    __doc__,
)
