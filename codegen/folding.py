"""Constant folding: values made from constants alone are computed while a kernel is built.

    def main(x, y: out, w):                          def main(x, y: out, panel):
        # w is a constant                                # panel is a constant
        panel: float32[...]
        for ...: panel[...] = w[...]           →
        for ...: y[...] += x[...] * panel[...]           for ...: y[...] += x[...] * panel[...]

Statements at the root that read nothing but constants, and memory that only such statements write, become a function of their
own, which runs at once: the same loops by the same passes, so that it gives the same bits. What is computed within the
loops of something else stays there: a schedule says by compute_root what is to be stored whole.

Constants that are open come later: then the function runs, and what it computed is passed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import prod

from ..base import dataclass, field, replace
from ..ir import Allocate, Assert, Buffer, BufferLoad, BufferStore, Call, Expr, Function, IntImm, Seq, Stmt
from ..ir.constant import Constant, aligned_zeros
from ..ir.intrinsics import INTRINSICS, is_pure
from ..ir.pointers import WRITES, pointed_buffer
from ..ir.visit import free_vars, seq, walk
from ..runtime.array import numpy_dtype
from .result import Opening

__all__ = ["OF_ANOTHER_TARGET", "Folded", "fold", "open_constants"]

_HINTS = ("access_ptr", "prefetch")
"""Calls that are not pure and have no effect by themselves."""
OF_ANOTHER_TARGET = (
    "call_pure_extern",
    "call_llvm_intrinsic",
    *(row.name for row in INTRINSICS.values() if row.approximate),
)
"""Calls that another target may not have, or whose last bits it has otherwise."""


@dataclass(frozen=True)
class Folded:
    """Function without what constants decide.

    function: what remains to be done in each call. made: computes `results`, in the order of its arguments; None where
    nothing is computed from constants alone. Results of constants that are open are open too.
    """

    function: Function
    made: Function | None = None
    results: tuple[Constant, ...] = ()


@dataclass
class _Step:
    """A statement at the root, and the root's memory that it uses. pure: whether it does nothing else than write there."""

    stmt: Stmt
    reads: set[Buffer] = field(default_factory=set[Buffer])
    writes: set[Buffer] = field(default_factory=set[Buffer])
    pure: bool = True


def fold(function: Function, refused: Collection[str] = (), opening: bool = False) -> Folded:
    """`function`, of stage "loops", without what is computed from its constants alone.

    refused: calls of which that is not to consist, those of outside code where another machine computes it. opening: results are
    open, whatever they are made of.
    """
    if not function.constants:
        return Folded(function)
    steps, memory = _split_root(function.body)
    for step in steps:
        _look(step, refused)
    known = _find_known(steps, memory, function)
    done = _worth(steps, known, function)
    rest = [step for step in steps if step not in done]
    still = {buffer for step in rest for buffer in step.reads}
    made = [
        buffer
        for buffer in memory
        if buffer in known and buffer in still and any(buffer in step.writes for step in done)
    ]
    if not made:
        return Folded(function)
    held = function.constant_buffers
    is_open = opening or any(held[buffer].is_open for step in done for buffer in step.reads if buffer in held)
    results = tuple(_allocate_constant(buffer, is_open) for buffer in made)
    body = _wrap(seq(*(step.stmt for step in done)), (b for b in memory if b not in made and _used(b, done)))
    before = Function(f"{function.name}_constants", tuple(made), body, tuple(made), function.attrs)
    after = replace(
        function,
        params=function.arguments,
        constants=(),
        body=_wrap(seq(*(step.stmt for step in rest)), (b for b in memory if b not in made and _used(b, rest))),
    )
    return Folded(
        _substitute_constants(after, {**held, **dict(zip(made, results, strict=True))}, still),
        _substitute_constants(before, held, {buffer for step in done for buffer in step.reads}),
        results,
    )


def open_constants(function: Function, refused: Collection[str] = ()) -> tuple[Function, Function | None, Opening]:
    """`function` as fold leaves it, what computes the rest, and what they take: both with the constants that are open as their last
    arguments."""
    folded = fold(function, refused, opening=True)
    rest, read = _taking(folded.function)
    reads = tuple(folded.results.index(held) if held in folded.results else held.name for held in read)
    if folded.made is None:
        return rest, None, Opening(reads)
    made, sources = _taking(folded.made)
    text = " ".join([str(replace(made, name="packing")), *(constant.digest for constant in made.constants)])
    digest = hashlib.sha256(text.encode()).hexdigest()
    results = tuple((str(held.data.dtype), held.data.shape) for held in folded.results)
    return rest, made, Opening(reads, results, tuple(held.name for held in sources), digest)


def _taking(function: Function) -> tuple[Function, tuple[Constant, ...]]:
    """`function`, which takes the constants that are open as its last arguments, and these."""
    held = function.constant_buffers
    taken = {buffer: constant for buffer, constant in held.items() if constant.is_open}
    own = {buffer: constant for buffer, constant in held.items() if not constant.is_open}
    params = (*function.arguments, *taken, *own)
    return replace(function, params=params, constants=tuple(own.values())), tuple(taken.values())


def _substitute_constants(function: Function, held: dict[Buffer, Constant], used: Collection[Buffer]) -> Function:
    wanted = {buffer: constant for buffer, constant in held.items() if buffer in used}
    return replace(function, params=(*function.params, *wanted), constants=tuple(wanted.values()))


def _split_root(body: Stmt) -> tuple[list[_Step], list[Buffer]]:
    """The statements, in order, and the memory that is allocated around them."""
    steps: list[_Step] = []
    memory: list[Buffer] = []
    stack = [body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, Seq):
            stack.extend(reversed(stmt.body))
        elif isinstance(stmt, Allocate):
            memory.append(stmt.buffer)
            stack.append(stmt.body)
        else:
            steps.append(_Step(stmt))
    return steps, memory


def _look(step: _Step, refused: Collection[str]) -> None:
    own = {node.buffer for node in walk(step.stmt) if isinstance(node, Allocate)}
    for node in walk(step.stmt):
        pointed = pointed_buffer(node)
        if isinstance(node, BufferLoad):
            step.reads.add(node.buffer)
        elif isinstance(node, BufferStore):
            step.writes.add(node.buffer)
        elif isinstance(node, Assert):
            step.pure = False
        elif pointed is not None and pointed[1] & WRITES:
            step.writes.add(pointed[0])
        elif isinstance(node, Call) and (node.name in refused or not is_pure(node.name) and node.name not in _HINTS):
            step.pure = False
    step.reads -= own
    step.writes -= own
    step.pure = step.pure and not free_vars(step.stmt)


def _find_known(steps: Sequence[_Step], memory: Sequence[Buffer], function: Function) -> set[Buffer]:
    """The memory whose contents are the same in every call."""
    known = {
        *function.constant_buffers,
        # integers of 4 bits are packed as constants, and not as intermediates
        *(b for b in memory if b.scope == "global" and b.dtype.bits != 4 and _numbers(b)),
    }
    while True:
        others = (step for step in steps if not (step.pure and known.issuperset(step.reads | step.writes)))
        lost = {buffer for step in others for buffer in step.writes}
        if known.isdisjoint(lost):
            return known
        known -= lost


def _worth(steps: Sequence[_Step], known: Collection[Buffer], function: Function) -> list[_Step]:
    """Return those that compute it from constants, or for those that do: what is made of nothing is rather made anew than kept."""
    able = [step for step in steps if step.pure and step.writes and (step.reads | step.writes).issubset(known)]
    grown = set(function.constant_buffers)
    while True:
        more = {buffer for step in able if not grown.isdisjoint(step.reads) for buffer in step.writes} - grown
        if not more:
            break
        grown |= more
    wanted = {step_writes for step in able if not grown.isdisjoint(step.reads) for step_writes in step.writes}
    while True:
        more = {buffer for step in able if not wanted.isdisjoint(step.writes) for buffer in step.reads} - wanted
        if not more:
            break
        wanted |= more
    return [step for step in able if not wanted.isdisjoint(step.writes)]


def _numbers(buffer: Buffer) -> list[int]:
    """The extents and strides, where they are numbers, and 1 for none; else nothing."""
    values: tuple[Expr, ...] = (*buffer.shape, *buffer.strides)
    return (
        [value.value for value in values if isinstance(value, IntImm)] or [1]
        if all(isinstance(value, IntImm) for value in values)
        else []
    )


def _allocate_constant(buffer: Buffer, is_open: bool) -> Constant:
    """Memory for what is computed, none yet where that is open; that of a buffer with gaps, which hold 0, has one dimension."""
    shape = tuple(_numbers(buffer)[: buffer.ndim]) if buffer.ndim else ()
    if buffer.strides:
        steps = _numbers(buffer)[buffer.ndim :]
        shape = (1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) if prod(shape) else 0,)
    dtype = numpy_dtype(str(buffer.dtype))
    return Constant.open(buffer.name, shape, dtype) if is_open else Constant(buffer.name, aligned_zeros(shape, dtype))


def _used(buffer: Buffer, steps: Iterable[_Step]) -> bool:
    return any(buffer in step.reads or buffer in step.writes for step in steps)


def _wrap(body: Stmt, buffers: Iterator[Buffer]) -> Stmt:
    for buffer in reversed(list(buffers)):
        body = Allocate(buffer, body)
    return body
