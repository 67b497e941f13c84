"""Which of the loops that a schedule left scalar LLVM shall turn into vectors, and of how many lanes.

    for i in n:                                  for i in n:
        B[i] = A[i] * 2.0 + 1.0                      B[A[i]] = B[2 * i]
    plain: a register of lanes                   not plain: stays as it is

LLVM's own choice of a width compares two models of cost, and where they disagree a build of LLVM with assertions, such
as llvmlite's, ends the process. With one width given there is nothing to compare; loops that are not plain are closed to
its vectorizer, which would gather and scatter in them at best.
"""

from __future__ import annotations

from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Call, Expr, IfThenElse, Let, Var
from ...ir.passes.linear import Key, expr_key, linear
from ...ir.stmt import Allocate, Assert, BufferStore, Evaluate, For, If
from ...ir.visit import post_order

__all__ = ["plain_lanes"]

_NOT_PLAIN = (For, If, Allocate, Assert, Evaluate, IfThenElse, Let)
_OUTSIDE_CODE = ("call_extern", "call_pure_extern", "call_llvm_intrinsic", "access_ptr", "call_packed", "trace")


def plain_lanes(loop: For, vector_bits: int, fast_math: bool) -> int:
    """The lanes in which LLVM shall run `loop`, of stage "final"; 0 where it is not plain.

    Plain are innermost loops without branches over scalars whose accesses are to neighbours or stay where they are, and
    which read what they write in the same iteration only. A sum of floats is plain with fast_math alone: a width, given,
    allows LLVM to reassociate it.
    """
    nodes = list(post_order(loop.body))
    if any(isinstance(node, _NOT_PLAIN) or isinstance(node, Expr) and node.dtype.lanes > 1 for node in nodes):
        return 0
    if any(isinstance(node, Call) and node.name in _OUTSIDE_CODE for node in nodes):
        return 0
    accesses = [node for node in nodes if isinstance(node, (BufferLoad, BufferStore))]
    stored: dict[Buffer, Key] = {n.buffer: expr_key(n.indices[0]) for n in accesses if isinstance(n, BufferStore)}
    for access in accesses:
        index = access.indices[0]
        stride = _stride(index, loop.var)
        if access.predicate is not None or stride not in (0, 1):
            return 0
        if isinstance(access, BufferStore) and stride == 0 and access.buffer.dtype.is_float and not fast_math:
            return 0
        if stored.get(access.buffer, expr_key(index)) != expr_key(index):
            return 0
    widest = max((access.buffer.dtype.bits for access in accesses), default=0)
    return max(vector_bits // max(widest, 8), 2) if widest else 0


def _stride(index: Expr, var: Var) -> int | None:
    """How far apart in the buffer iterations next to each other look; None where that varies."""
    form = linear(index)
    if any(atom is not var and any(node is var for node in post_order(atom)) for atom, _ in form.atoms()):
        return None
    return form.coefficient(var)
