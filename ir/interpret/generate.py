"""Python source for a function of the loop IR, and what running it needs.

One Python statement is written for about each expression that stands alone; text nests a few levels only, and what
lies deep becomes functions of its own, because Python limits how deep brackets and blocks may nest. Shape symbols are
constants here: the source is written for the shapes of one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...base.dataclass import dataclass
from ..accesses import written_buffers
from ..atomics import added
from ..buffer import Buffer
from ..expr import BufferLoad, Expr, Var
from ..stmt import Allocate, Assert, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt, While
from ..visit import post_order
from .scalars import unwritten
from .source import MAX_NESTING, SOURCE_NAME, Code, Memory, Race
from .values import ValueWriter

__all__ = ["GeneratedProgram", "generate"]


@dataclass(slots=True)
class GeneratedProgram:
    """The result: `run(*lists, *scalars)` by name in `space`."""

    source: str
    space: dict[str, Any]
    buffers: list[Buffer]
    """By the numbers that faults carry."""
    variables: dict[str, Var]
    """Which name of the source is which loop variable."""
    layouts: dict[int, tuple[list[str], list[str], str]]
    """By buffer number: extents, strides and first element, as the source has them."""

    def element(self, number: int, place: int) -> str:
        """`C[1, 2]` for a place in memory; `C[(element 7)]` where the extents are not constant."""
        extents, strides, first = self.layouts[number]
        name = self.buffers[number].name
        if not all(text.isdigit() for text in (*extents, *strides, first)):
            return f"{name}[(element {place} in memory)]"
        rest, index = place - int(first), list[str]()
        for stride, extent in zip(map(int, strides), map(int, extents), strict=True):
            at = min(rest // stride if stride else 0, extent - 1)
            index.append(str(at))
            rest -= at * stride
        return f"{name}[{', '.join(index) or '()'}]"


def generate(
    function: Function,
    symbols: Mapping[Var, int],
    externs: Mapping[str, Callable[..., Any] | int],
    check: bool,
    strides: Mapping[Buffer, tuple[int, ...]],
) -> GeneratedProgram:
    """The program for shapes in which `symbols` have these values. `strides` are those of the parameters' memory."""
    writer = FunctionWriter(function, symbols, externs, check)
    names = [writer.name("B") if isinstance(p, Buffer) else writer.variable(p) for p in function.params]
    writer.live += names
    writer.open_function("run", names)
    for parameter, name in zip(function.params, names, strict=True):
        if isinstance(parameter, Buffer):  # within the function: extents may be computed from its scalars
            memory = writer.memory(parameter, strides[parameter], name)
            memory.tracked = check and parameter in function.outputs
    writer.statement(function.body)
    writer.close_function()
    source = "\n".join(line for lines in writer.finished for line in lines)
    exec(compile(source, SOURCE_NAME, "exec"), writer.space)
    layouts = {m.number: (m.extents, m.strides, m.first) for m in writer.memories.values()}
    return GeneratedProgram(source, writer.space, writer.buffers, writer.loop_names, layouts)


class FunctionWriter(ValueWriter):
    """Write statements."""

    def __init__(
        self,
        function: Function,
        symbols: Mapping[Var, int],
        externs: Mapping[str, Callable[..., Any] | int],
        check: bool,
    ) -> None:
        super().__init__(function.name, symbols, externs)
        self.check = check
        self.buffers: list[Buffer] = []
        self.loop_names: dict[str, Var] = {}
        self.written = written_buffers(function.body)

    def memory(self, buffer: Buffer, strides: tuple[int, ...] | None = None, data: str = "") -> Memory:
        """Declare how a buffer is reached; its extents are evaluated here. `data` names its list, if it has a name."""
        data = data or self.name("B")
        extents = [self.extent(extent) for extent in buffer.shape]
        if strides is not None:
            steps = [str(stride) for stride in strides]
        elif buffer.strides:
            steps = [self.extent(stride) for stride in buffer.strides]
        else:
            steps, step = list[str](), "1"
            for extent in reversed(extents):
                steps.insert(0, step)
                known = step.isdigit() and extent.isdigit()
                step = str(int(step) * int(extent)) if known else self.keep(f"{step} * {extent}")
        first = "0" if buffer.elem_offset is None else self.extent(buffer.elem_offset)
        memory = Memory(len(self.buffers), data, extents, steps, first, self.check, buffer not in self.written)
        self.buffers.append(buffer)
        self.memories[buffer] = memory
        if buffer.data is not None:
            self.values[buffer.data] = Code(data)
        return memory

    def extent(self, value: Expr) -> str:
        """A size as a constant or as a name that lives on in everything within."""
        code = self.alone(value)
        return code.text if code.text.isdigit() else self.keep(code.text)

    def statement(self, node: Stmt) -> None:
        if self.depth > MAX_NESTING:
            self.outline(lambda: self.statement(node))
            return
        getattr(self, type(node).__name__)(node)

    def Seq(self, node: Seq) -> None:
        for inner in node.body:
            self.statement(inner)

    def Attr(self, node: Attr) -> None:
        self.statement(node.body)

    def Evaluate(self, node: Evaluate) -> None:
        self.line(self.alone(node.value).text)

    def Assert(self, node: Assert) -> None:
        condition = self.alone(node.condition).text
        self.line(f"if not {condition}: fault('assert', {node.message!r})")

    def If(self, node: If) -> None:
        condition = self.alone(node.condition).text
        if condition in ("True", "False"):  # decided: what is for other targets need not be known here
            chosen = node.then_body if condition == "True" else node.else_body
            if chosen is not None:
                self.statement(chosen)
            return
        with self.block(f"if {condition}:"):
            self.statement(node.then_body)
        if node.else_body is not None:
            with self.block("else:"):
                self.statement(node.else_body)

    def While(self, node: While) -> None:
        with self.block("while True:"):
            condition = self.alone(node.condition).text  # and what it takes to compute it, each time
            self.line(f"if not {condition}: break")
            self.statement(node.body)

    def LetStmt(self, node: LetStmt) -> None:
        code = self.alone(node.value)
        name = self.variable(node.var)
        self.line(f"{name} = {code.text}")
        self.values[node.var] = Code(name, 0, code.lo, code.hi)
        self.live.append(name)
        self.statement(node.body)
        self.live.remove(name)

    def Allocate(self, node: Allocate) -> None:
        kept = len(self.live)
        memory = self.memory(node.buffer)
        if not node.buffer.strides:
            size = " * ".join(memory.extents) or "1"
        else:
            size = " + ".join(["1", *(f"({e} - 1) * {s}" for e, s in zip(memory.extents, memory.strides, strict=True))])
            size = f"({size}) * ({' and '.join(f'{e} > 0' for e in memory.extents)})"
        fill = "None" if self.check else self.literal(node.buffer.dtype, unwritten(node.buffer.dtype))
        self.line(f"{memory.data} = allocate({fill}, {memory.first} + {size}, {node.buffer.dtype.bytes})")
        self.live.append(memory.data)
        self.statement(node.body)
        del self.live[kept:]

    def For(self, node: For) -> None:
        begin, extent = self.alone(node.begin), self.alone(node.extent)
        kept = len(self.live)
        name = self.variable(node.var)
        self.loop_names[name] = node.var
        if begin.lo is not None and begin.hi is not None and extent.hi is not None and extent.hi > 0:
            self.values[node.var] = Code(name, 0, begin.lo, begin.hi + extent.hi - 1)
        parallel = node.kind is LoopKind.PARALLEL and self.check
        if parallel:
            self.races.append(Race(name, self.shadows(node.body)))
        span = extent.text if begin.text == "0" else f"{begin.text}, {begin.text} + {extent.text}"
        self.live.append(name)
        with self.block(f"for {name} in range({span}):"):
            self.statement(node.body)
        if parallel:
            self.races.pop()
        del self.live[kept:]

    def shadows(self, body: Stmt) -> dict[Buffer, tuple[str, str]]:
        """Empty shadow memory for what the loop writes and does not itself allocate."""
        shadows: dict[Buffer, tuple[str, str]] = {}
        for node in post_order(body):
            if isinstance(node, BufferStore) and node.buffer in self.memories and node.buffer not in shadows:
                shadows[node.buffer] = (self.spill("{}"), self.spill("{}"))
                self.live += shadows[node.buffer]
        return shadows

    def BufferStore(self, node: BufferStore) -> None:
        value = added(node)
        if value is not None:  # in one step, so that other iterations may do the same
            races, self.races = self.races, []
            self.BufferStore(
                BufferStore(node.buffer, BufferLoad(node.buffer, node.indices) + value, node.indices, node.predicate)
            )
            self.races = races
            return
        self.begin(node)
        value = self.exact(node.value)
        memory = self.reach(node.buffer)
        lanes = node.indices[-1].dtype.lanes if node.indices else 1
        if lanes > 1 or node.predicate is not None:
            places = self.places(memory, node.indices, node.predicate, lanes)
            self.check_races(node.buffer, places, "write", vector=True)
            self.line(f"store_lanes({memory.data}, {places}, iterate_lanes({value.text}))")
            return
        place = self.place(memory, node.indices).text
        if any(node.buffer in race.shadows for race in self.races):
            place = self.spill(place)
            self.check_races(node.buffer, place, "write")
        self.line(f"{memory.data}[{place}] = {value.text}")
