"""The host's part: buffers get their places, loops are run, and what comes out is one stream of instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...base import dataclass, field, replace, user_source
from ...ir.analysis.linear import linear, terms
from ...ir.buffer import Buffer
from ...ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    StringImm,
    Sub,
    Var,
)
from ...ir.stmt import Allocate, Assert, Attr, Evaluate, For, If, LetStmt, LoopKind, Seq, Stmt
from .errors import NotOnAccelerator, ScratchpadOverflow
from .instructions import DRAM, Instruction, Operand, Place
from .machine import ALU_COUNTERS, COUNTERS, MACHINE
from .select import buffer_strides
from .threads import Kept

__all__ = ["Expansion", "expand"]

_MOST_INSTRUCTIONS = 500_000
_OPERATORS: dict[type[BinaryOp], Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Min: min,
    Max: max,
    FloorDiv: lambda a, b: a // b if b else 0,
    FloorMod: lambda a, b: a % b if b else 0,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    And: lambda a, b: a and b,
    Or: lambda a, b: a or b,
}


@dataclass(slots=True)
class Expansion:
    """Instruction stream of a function.

    stream: the instructions in program order. places: of buffers. sizes: of each memory that is used, in elements.
    """

    places: dict[Buffer, Place] = field(default_factory=dict[Buffer, Place])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    stream: list[Instruction] = field(default_factory=list[Instruction])


def expand(body: Stmt, given: Mapping[Buffer, str], kept: Mapping[str, Kept]) -> Expansion:
    """The stream of `body`, in which nests are calls (see select). given: the buffers that callers pass, with their names. kept:
    which buffers stood under virtual threads, by name. Each thread's part is a place of its own; what they share takes turns.

    Raises ScratchpadOverflow (TW0440) and NotOnAccelerator (TW0441).
    """
    host = _Host(kept)
    for buffer, name in given.items():
        host.place_in_dram(buffer, name)
    host.run(body, {})
    return host.expansion


@dataclass(frozen=True, slots=True)
class _Index:
    """A number that changes with loops: a sum of them, and of what else has to be worked out."""

    constant: int
    loops: tuple[tuple[Var, int], ...]
    others: tuple[tuple[Expr, int], ...]

    def at(self, values: Mapping[Var, int]) -> int:
        total = self.constant + sum(factor * values[var] for var, factor in self.loops)
        return total + sum(factor * _number(expr, values) for expr, factor in self.others)


@dataclass(frozen=True, slots=True)
class _Template:
    """An instruction whose operands begin where loops say."""

    op: str
    extents: tuple[int, ...]
    operands: tuple[tuple[Buffer, _Index, tuple[int, ...]], ...]
    numbers: tuple[int, ...]


class _Host:
    def __init__(self, kept: Mapping[str, Kept]) -> None:
        self.kept = kept
        self.turns: dict[str, int] = {}
        self.expansion = Expansion(
            sizes={scope: pad.bytes // np.dtype(pad.dtype).itemsize for scope, pad in MACHINE.scratchpads.items()}
        )
        self.used = dict.fromkeys(MACHINE.scratchpads, 0)
        self.held: list[Place] = []
        self.templates: dict[Evaluate, _Template] = {}

    def place_in_dram(self, buffer: Buffer, name: str) -> None:
        size = 1 + sum(
            (extent - 1) * stride for extent, stride in zip(_extents(buffer), buffer_strides(buffer), strict=True)
        )
        memory = f"{DRAM}:{name}"
        self.expansion.sizes[memory] = size = size if all(_extents(buffer)) else 0
        self.expansion.places[buffer] = Place(name, memory, 0, size, str(buffer.dtype))

    def run(self, node: Stmt, values: dict[Var, int]) -> None:
        """Do what the host does of a statement, `values` being what loops and names are now."""
        if isinstance(node, Seq):
            for inner in node.body:
                self.run(inner, values)
        elif isinstance(node, For):
            self._loop(node, values)
        elif isinstance(node, Evaluate):
            self._emit(node, values)
        elif isinstance(node, Allocate):
            self._allocate(node, values)
        elif isinstance(node, LetStmt):
            self.run(node.body, {**values, node.var: _number(node.value, values)})
        elif isinstance(node, Attr):
            self.run(node.body, values)
        elif isinstance(node, If):
            chosen = node.then_body if _number(node.condition, values) else node.else_body
            if chosen is not None:
                self.run(chosen, values)
        elif not isinstance(node, Assert) or not _number(node.condition, values):
            raise _refuse(
                f"`{str(node).strip()[:200]}`",
                "the host of the accelerator runs loops and conditions over them",
                "compute it as a stage of its own, on another target",
            )

    def _loop(self, node: For, values: dict[Var, int]) -> None:
        if node.kind is LoopKind.THREAD:
            raise _refuse(
                f"a loop bound to {node.thread}",
                "it has no threads but virtual ones",
                's[T].bind(axis, te.thread_axis("vthread"))',
            )
        begin = _number(node.begin, values)
        inner = dict(values)
        for value in range(begin, begin + _number(node.extent, values)):
            inner[node.var] = value
            self.run(node.body, inner)

    def _allocate(self, node: Allocate, values: dict[Var, int]) -> None:
        buffer, scratchpad = node.buffer, MACHINE.scratchpads.get(node.buffer.scope)
        if scratchpad is None:
            self.place_in_dram(buffer, f"{buffer.name}.{len(self.expansion.sizes)}")
            self.run(node.body, values)
            return
        if buffer.dtype != scratchpad.dtype:
            raise _refuse(
                f"{buffer.name} of {buffer.dtype} in {buffer.scope}",
                f"that memory holds {scratchpad.dtype}",
                "copy int8 tensors to vdla.inp_buffer and vdla.wgt_buffer, and keep int32 in vdla.acc_buffer",
            )
        size, begin = prod(_extents(buffer)), self.used[buffer.scope]
        known = self.kept.get(buffer.name)
        turns = known.threads // self._parts(buffer) if known is not None else 1
        self._check_room(buffer, turns, begin * buffer.dtype.bytes, scratchpad.bytes)
        turn = self.turns[buffer.name] = (self.turns.get(buffer.name, -1) + 1) % turns
        self.expansion.places[buffer] = Place(
            f"{buffer.name}.{turn}" if turns > 1 else buffer.name,
            buffer.scope,
            begin + turn * size,
            size,
            scratchpad.dtype,
        )
        self.held.append(Place(buffer.name, buffer.scope, begin, size * turns, scratchpad.dtype))
        self.used[buffer.scope] += size * turns
        self.run(node.body, values)
        self.used[buffer.scope] -= size * turns
        self.held.pop()

    def _check_room(self, buffer: Buffer, turns: int, used: int, capacity: int) -> None:
        needed = turns * prod(_extents(buffer)) * buffer.dtype.bytes
        if used + needed <= capacity:
            return
        others = ", ".join(
            f"{place.name} ({place.size * buffer.dtype.bytes} bytes)"
            for place in self.held
            if place.memory == buffer.scope
        )
        beside = f" beside {others}" if others else ""
        shape = " x ".join(map(str, _extents(buffer))) + (f", {turns} times" if turns > 1 else "")
        raise ScratchpadOverflow(
            f"stage {buffer.name} does not fit into {buffer.scope}",
            called=user_source(),
            reason=f"it takes {needed} bytes ({shape} {buffer.dtype}){beside}, and there are {capacity}",
            fix=f"split the loops around it by smaller factors, or compute_at a loop further in for {buffer.name}",
        )

    def _emit(self, node: Evaluate, values: Mapping[Var, int]) -> None:
        template = self.templates.get(node)
        if template is None:
            template = self.templates[node] = _template(node)
        places = self.expansion.places
        operands = [
            (*self._part(buffer, places[buffer], index.at(values)), strides)
            for buffer, index, strides in template.operands
        ]
        most = COUNTERS.get(template.op, ALU_COUNTERS)
        outer = max(len(template.extents) - most, 0)
        if 0 in template.extents:
            return
        for point in product(*map(range, template.extents[:outer])):
            self.expansion.stream.append(
                Instruction(
                    template.op,
                    template.extents[outer:],
                    tuple(
                        Operand(
                            place,
                            first + sum(at * stride for at, stride in zip(point, strides, strict=False)),
                            strides[outer:],
                        )
                        for place, first, strides in operands
                    ),
                    template.numbers,
                )
            )
        if len(self.expansion.stream) > _MOST_INSTRUCTIONS:
            raise _refuse(
                f"a stream of more than {_MOST_INSTRUCTIONS} instructions",
                "the host would send nothing else",
                "let one copy, and one tensorized nest, do more: compute_at loops further out, with larger tiles",
            )

    def _parts(self, buffer: Buffer) -> int:
        """Return the number of virtual threads that have a part of a buffer of their own, which is what its first dimensions are for."""
        known = self.kept.get(buffer.name)
        return prod(_extents(buffer)[: buffer.ndim - known.rank]) if known is not None else 1

    def _part(self, buffer: Buffer, place: Place, offset: int) -> tuple[Place, int]:
        """The place of the virtual thread to which an element belongs, and where the element is there."""
        parts = self._parts(buffer)
        if parts == 1 or place.is_dram:
            return place, offset
        size = place.size // parts
        part = offset // size
        return replace(place, name=f"{place.name}.{part}", begin=place.begin + part * size, size=size), offset % size


def _refuse(what: str, reason: str, fix: str) -> NotOnAccelerator:
    return NotOnAccelerator(f"the accelerator cannot do {what}", reason=reason, called=user_source(), fix=fix)


def _extents(buffer: Buffer) -> list[int]:
    buffer_strides(buffer)
    return [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]


# Calls as templates


def _template(node: Evaluate) -> _Template:
    """Return the template of a call (see select), with loops that go on in one stride joined."""
    assert isinstance(node.value, Call)
    args = iter(node.value.args)
    op = next(args)
    assert isinstance(op, StringImm)
    extents = [_require_number(args) for _ in range(_require_number(args))]
    operands: list[tuple[Buffer, _Index, list[int]]] = []
    for _ in range(_require_number(args)):
        pointer = next(args)
        assert isinstance(pointer, Call) and isinstance(pointer.args[0], BufferLoad)
        load = pointer.args[0]
        operands.append((load.buffer, _index(load), [_require_number(args) for _ in extents]))
    numbers = tuple(arg.value for arg in args if isinstance(arg, IntImm))
    kept = 3 if op.value == "gemm" else 0
    if op.value == "dma_copy2d":
        extents, operands = _rows(extents, operands)
    _join(extents, [strides for _, _, strides in operands], len(extents) - kept)
    known = tuple((buffer, index, tuple(strides)) for buffer, index, strides in operands)
    return _Template(op.value, tuple(extents), known, numbers)


def _require_number(args: Iterator[Expr]) -> int:
    arg = next(args)
    assert isinstance(arg, IntImm)
    return arg.value


def _rows(
    extents: list[int],
    operands: list[tuple[Buffer, _Index, list[int]]],
) -> tuple[list[int], list[tuple[Buffer, _Index, list[int]]]]:
    """The loops of a copy so that what lies side by side in DRAM is innermost."""
    dram = next(strides for buffer, _, strides in operands if buffer.scope not in MACHINE.scratchpads)
    order = sorted(range(len(extents)), key=lambda at: -dram[at])
    return [extents[at] for at in order], [
        (buffer, index, [strides[at] for at in order]) for buffer, index, strides in operands
    ]


def _join(extents: list[int], strides: list[list[int]], end: int) -> None:
    """Drop loops of one step, and make one loop of two, before `end`, where every operand goes on by the same stride."""
    for at in reversed(range(end)):
        if extents[at] == 1:
            end -= 1
        elif at + 1 < end and all(each[at] == each[at + 1] * extents[at + 1] for each in strides):
            extents[at + 1] *= extents[at]
            end -= 1
        else:
            continue
        for row in (extents, *strides):
            del row[at]


def _index(load: BufferLoad) -> _Index:
    """Index of an element in its buffer."""
    constant, loops, others = 0, dict[Var, int](), list[tuple[Expr, int]]()
    for index, stride in zip(load.indices, buffer_strides(load.buffer), strict=True):
        form = linear(index)
        constant += form.const * stride
        for atom, factor in terms(form):
            if isinstance(atom, Var):
                loops[atom] = loops.get(atom, 0) + factor * stride
            else:
                others.append((atom, factor * stride))
    return _Index(constant, tuple(loops.items()), tuple(others))


def _number(value: Expr, values: Mapping[Var, int]) -> int:
    """Evaluate an expression over loops for the present iteration."""
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, Var) and value in values:
        return values[value]
    if isinstance(value, Cast):
        return _number(value.value, values)
    if isinstance(value, Not):
        return not _number(value.value, values)
    if isinstance(value, Call) and value.name == "likely":
        return _number(value.args[0], values)
    operator: Any = _OPERATORS.get(type(value)) if isinstance(value, BinaryOp) else None
    if operator is None or not isinstance(value, BinaryOp):
        raise _refuse(
            f"a loop over `{value}`",
            "the host knows loops and numbers, and no data",
            "give extents as numbers, and keep conditions on data out of what the accelerator computes",
        )
    return operator(_number(value.a, values), _number(value.b, values))
