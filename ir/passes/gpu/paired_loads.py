"""Loads of fragments in pairs: two neighbouring tiles of 16 by 8 elements of 2 bytes by one ldmatrix.x4.

    for j in unrolled(8):                                        for j in unrolled(4):
        tw_mma_load_b(&F[j * 4], &B[j * 8], 264, 1)       →          tw_mma_load_b_pair(&F[j * 8], &B[j * 16], 264, 8)

Tiles of the left side fill an instruction alone.
"""

from __future__ import annotations

from ...arith.analyzer import Analyzer
from ...copies import called
from ...expr import BufferLoad, Call, Expr, IntImm, StringImm, Var
from ...ops import const, is_const
from ...stmt import Evaluate, For, Function, LoopKind, Stmt
from ...visit import rewrite_statements, substitute

__all__ = ["pair_loads"]

_PAIRED = {"tw_mma_load_b": "tw_mma_load_b_pair", "tw_mma_load_bt": "tw_mma_load_bt_pair"}
_BYTES, _REGISTERS, _ALIGNED = 2, 4, 8
"""Of an element; elements of a lane of one tile; and elements of 16 bytes, at which rows begin."""


def pair_loads(function: Function) -> Function:
    """`function`, the body of a kernel with flat memory, with such loads."""
    analyzer = Analyzer()

    def rule(node: Stmt) -> Stmt | None:
        return _pair(node, analyzer) if isinstance(node, For) else None

    return function.with_body(rewrite_statements(function.body, rule))


def _pair(loop: For, analyzer: Analyzer) -> Stmt | None:
    """The loop over pairs; None for one that is no such loop."""
    name = _PAIRED.get(called(loop.body))
    even = isinstance(loop.extent, IntImm) and loop.extent.value % 2 == 0
    # an odd tile would be left over, and a loop at run time has no constant step
    if name is None or not even or loop.kind is not LoopKind.UNROLLED or not is_const(loop.begin, 0):
        return None
    assert isinstance(loop.body, Evaluate) and isinstance(loop.body.value, Call) and isinstance(loop.extent, IntImm)
    _, to, tile, stride, aligned = loop.body.value.args
    steps = _step(to, loop.var, analyzer), _step(tile, loop.var, analyzer)
    # a row of a pair begins at 16 bytes, where ldmatrix reads
    if not is_const(aligned, 1) or steps[0] != _REGISTERS or steps[1] is None or steps[1] % _ALIGNED:
        return None
    both: list[Expr] = [substitute(each, {loop.var: loop.var * 2}) for each in (to, tile)]
    call = Call("call_extern", (StringImm(name), *both, stride, const(steps[1])), loop.body.value.dtype)
    return For(loop.var, loop.begin, const(loop.extent.value // 2, loop.extent.dtype), loop.kind, Evaluate(call))


def _step(pointer: Expr, var: Var, analyzer: Analyzer) -> int | None:
    """The constant number of elements from the address of one iteration to that of the next; None where there is none, or elements
    are of another size."""
    assert isinstance(pointer, Call) and isinstance(pointer.args[0], BufferLoad)
    load, offset = pointer.args[0], pointer.args[1]
    # other widths have other register layouts, and indices are flat by now
    if load.buffer.dtype.bytes != _BYTES or len(load.indices) != 1:
        return None
    place = load.indices[0] + offset
    step = analyzer.simplify(substitute(place, {var: var + 1}) - place)
    return step.value if isinstance(step, IntImm) else None
