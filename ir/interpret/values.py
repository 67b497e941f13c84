"""Source of values: expressions and accesses to memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..buffer import Buffer
from ..dtype import DType
from ..errors import NotWellFormed
from ..expr import (
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Node,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from ..visit import children, post_order
from . import scalars
from .extern_calls import OutsideCalls, checked_result
from .source import MAX_NESTING, Code, Memory, Race

__all__ = ["ValueWriter"]


class ValueWriter(OutsideCalls):
    """Write expressions."""

    def __init__(
        self,
        function_name: str,
        symbols: Mapping[Var, int],
        externs: Mapping[str, Callable[..., Any] | int],
    ) -> None:
        super().__init__()
        self.function_name, self.externs = function_name, externs
        self.values: dict[Var, Code] = {var: Code(_number(value), 0, value, value) for var, value in symbols.items()}
        self.memories: dict[Buffer, Memory] = {}
        self.races: list[Race] = []
        self.shared: set[int] = set()
        self.done: dict[tuple[int, bool], Code] = {}
        self.quiet = False
        """Within a value that is not chosen: unwritten elements may be read."""
        self.select_depth = 0

    def variable(self, var: Var) -> str:
        name = self.name("v")
        self.values[var] = Code(name)
        return name

    def outline(self, write: Callable[[], str | None]) -> str:
        """Write the code of `write` as a function of its own; return the source of its call. It may return a value's source."""
        name, parameters = self.name("f"), list(self.live)
        before, self.done = self.done, {}
        self.open_function(name, parameters)
        result = write()
        if result is not None:
            self.line(f"return {result}")
        self.close_function()
        self.done = before
        call = f"{name}({', '.join(parameters)})"
        if result is None:
            self.line(call)
        return call

    # Memory

    def reach(self, buffer: Buffer) -> Memory:
        memory = self.memories.get(buffer)
        if memory is None:
            raise NotWellFormed(
                f"buffer '{buffer.name}' is used where it has no memory", reason=f"in function {self.function_name}"
            )
        return memory

    def place(self, memory: Memory, indices: tuple[Expr, ...], pointed: bool = False) -> Code:
        """Source of an element's offset, after checking that it lies within the buffer. pointed: that is only pointed to,
        so that the first may be missing."""
        nesting = 1
        terms = [] if memory.first == "0" else [memory.first]
        names: list[str] = []
        tests: list[str] = []
        for index, extent, stride in zip(indices, memory.extents, memory.strides, strict=True):
            code = self.exact(index)
            safe = (
                code.lo is not None
                and code.hi is not None
                and extent.isdigit()
                and code.lo >= 0
                and code.hi < int(extent)
            )
            text = code.text if safe else self.atom(code)
            nesting = max(nesting, code.nesting + 1)
            if not safe:
                tests.append(f"0 <= {text} < {f'max({extent}, 1)' if pointed else extent}")
            names.append(text)
            terms.append(text if stride == "1" else f"{text} * {stride}")
        if tests:
            details = f"({', '.join(names)},), ({', '.join(memory.extents)},)"
            self.line(f"if not ({' and '.join(tests)}): fault('bounds', {memory.number}, {details})")
        return Code(" + ".join(terms) or "0", nesting)

    def places(self, memory: Memory, indices: tuple[Expr, ...], predicate: Expr | None, lanes: int) -> str:
        """A name for the list of the lanes' offsets."""
        mask = "None" if predicate is None else self.exact(predicate).text
        inside = "".join(self.exact(index).text + ", " for index in indices)
        extents, strides = "".join(e + ", " for e in memory.extents), "".join(s + ", " for s in memory.strides)
        layout = f"({extents}), ({strides}), {memory.first}"
        return self.spill(f"offsets({memory.number}, ({inside}), {layout}, {lanes}, {mask})")

    def check_races(self, buffer: Buffer, place: str, kind: str, vector: bool = False) -> None:
        for race in self.races:
            if buffer in race.shadows:
                writers, readers = race.shadows[buffer]
                number = self.memories[buffer].number
                each, one = (f"for x in {place}: ", "x") if vector else ("", place)
                self.line(f"{each}{kind}({writers}, {readers}, {one}, {race.var}, {number})")

    def load(self, node: BufferLoad) -> Code:
        memory = self.reach(node.buffer)
        lanes = node.dtype.lanes
        if lanes > 1 or node.predicate is not None:
            places = self.places(memory, node.indices, node.predicate, lanes)
            self.check_races(node.buffer, places, "read", vector=True)
            zero = self.literal(node.dtype, scalars.zero_value(node.dtype))
            tracked = memory.tracked and not self.quiet
            text = f"load_lanes({memory.data}, {places}, {zero}, {memory.number}, {tracked})"
            return Code(self.spill(text if lanes > 1 else text + "[0]"))
        place = self.place(memory, node.indices)
        if memory.constant and not memory.tracked:
            return Code(f"{memory.data}[{place.text}]", place.nesting)
        if not memory.tracked and not self.races:
            return Code(self.spill(f"{memory.data}[{place.text}]"))
        place = self.spill(place.text)
        self.check_races(node.buffer, place, "read")
        value = self.spill(f"{memory.data}[{place}]")
        if memory.tracked:
            zero = self.literal(node.dtype, scalars.zero_value(node.dtype))
            action = f"{value} = {zero}" if self.quiet else f"fault('unwritten', {memory.number}, {place})"
            self.line(f"if {value} is None: {action}")
        return Code(value)

    # Expressions

    def alone(self, node: Expr) -> Code:
        """The value of an expression that stands by itself, in the range of its dtype."""
        self.begin(node)
        code = self.exact(node)
        return Code(self.atom(code), 0, code.lo, code.hi)

    def begin(self, root: Node) -> None:
        """Forget what the statement before computed, and find which nodes stand in several places of this one."""
        seen: set[int] = set()
        self.shared, self.done = set(), {}
        stack: list[Node] = [root]
        while stack:
            node = stack.pop()
            if id(node) in seen:
                self.shared.add(id(node))
                continue
            seen.add(id(node))
            if not isinstance(node, (Var, IntImm, FloatImm)):
                stack.extend(children(node))

    def exact(self, node: Expr) -> Code:
        """Source of a value in the range of its dtype."""
        code = self.value(node)
        if code.raw:
            return Code(scalars.wrap_text(code.text, node.dtype), code.nesting + 1)
        return code

    def atom(self, code: Code) -> str:
        return code.text if code.is_atom else self.spill(code.text)

    def value(self, node: Expr) -> Code:
        """Source of a value; an integer may be raw."""
        key = (id(node), self.quiet)
        written = self.done.get(key)
        if written is not None:
            return written
        method: Any = self.binary if isinstance(node, BinaryOp) else getattr(self, type(node).__name__, None)
        if method is None:
            method = self.Var if isinstance(node, Var) else self.no_value
        code = method(node)
        if code.lo is not None and code.lo == code.hi and not code.is_atom:
            code = Code(_number(code.lo), 0, code.lo, code.hi)
        if code.nesting > MAX_NESTING or (id(node) in self.shared and not code.is_atom):
            code = Code(self.spill(code.text), 0, code.lo, code.hi, code.raw)
        if id(node) in self.shared:
            self.done[key] = code
        return code

    def no_value(self, node: Expr) -> Code:
        raise NotWellFormed(f"{type(node).__name__} cannot be run", reason=f"`{node}` belongs to tensor expressions")

    def literal(self, dtype: DType, value: Any) -> str:
        if not dtype.is_float:
            return _number(value)
        rounded = scalars.FLOAT_TYPES[dtype.element](value)
        return self.constant(rounded, (str(dtype.element), np.float64(value).tobytes()))

    def Var(self, node: Var) -> Code:
        code = self.values.get(node)
        if code is None:
            raise NotWellFormed(
                f"'{node.name}' is used where it has no value", reason=f"in function {self.function_name}"
            )
        return code

    def IntImm(self, node: IntImm) -> Code:
        return Code(_number(node.value if not node.dtype.is_bool else bool(node.value)), 0, node.value, node.value)

    def FloatImm(self, node: FloatImm) -> Code:
        return Code(self.literal(node.dtype, node.value))

    def StringImm(self, node: StringImm) -> Code:
        return Code(self.constant(node.value, ("string", node.value)))

    def binary(self, node: BinaryOp) -> Code:
        dtype = node.a.dtype
        if dtype.lanes > 1:
            return self.lanewise(node, (node.a, node.b))
        text, wraps, repeated = scalars.binary_text(type(node), dtype)
        self.need_float_functions(text, dtype)
        if wraps and type(node) in (Add, Sub, Mul):
            a, b = self.value(node.a), self.value(node.b)
        else:
            a, b = self.exact(node.a), self.exact(node.b)
        if type(node) in (FloorDiv, FloorMod) and b.lo is not None and b.lo == b.hi and b.lo > 0 and not dtype.is_float:
            text, wraps, repeated = f"({{a}} {node.symbol} {{b}})", False, False
        if repeated:
            a, b = Code(self.atom(a), 0, a.lo, a.hi), Code(self.atom(b), 0, b.lo, b.hi)
        lo, hi = (None, None) if dtype.is_float or isinstance(node, (CompareOp, And, Or)) else _bounds(type(node), a, b)
        if lo is not None and hi is not None and dtype.least <= lo and hi <= dtype.greatest:
            wraps = False
        elif wraps:
            lo = hi = None
        return Code(text.replace("{a}", a.text).replace("{b}", b.text), max(a.nesting, b.nesting) + 1, lo, hi, wraps)

    def need_float_functions(self, text: str, dtype: DType) -> None:
        for name in ("trunc", "fmod"):
            if f"{name}_" in text:
                self.space.setdefault(f"{name}_{dtype.element}", scalars.intrinsic_function(name, dtype.element))

    def lanewise(self, node: BinaryOp, operands: tuple[Expr, ...]) -> Code:
        dtype = operands[0].dtype.element
        text, wraps, _ = scalars.binary_text(type(node), dtype)
        self.need_float_functions(text, dtype)
        text = text.replace("{a}", "x").replace("{b}", "y")
        if wraps:
            text = scalars.wrap_text(text, dtype)
        a, b = (self.exact(operand).text for operand in operands)
        return Code(self.spill(f"[{text} for x, y in zip({a}, {b}, strict=True)]"))

    def Not(self, node: Not) -> Code:
        code = self.exact(node.value)
        if node.dtype.lanes > 1:
            return Code(self.spill(f"[not x for x in {code.text}]"))
        return Code(f"(not {code.text})", code.nesting + 1)

    def Cast(self, node: Cast) -> Code:
        source, target = node.value.dtype.element, node.dtype.element
        code = self.exact(node.value)
        scalar = node.dtype.lanes == 1
        if scalar and source.is_integer and target.is_integer:
            fits = source.least >= target.least and source.greatest <= target.greatest
            if not fits and code.lo is not None and code.hi is not None:
                fits = code.lo >= target.least and code.hi <= target.greatest
            return Code(code.text, code.nesting, code.lo, code.hi) if fits else Code(code.text, code.nesting, raw=True)
        function = self.constant(scalars.cast_function(source, target), ("cast", str(source), str(target)))
        if not scalar:
            return Code(self.spill(f"[{function}(x) for x in {code.text}]"))
        bounds = (0, 1) if source.is_bool and target.is_integer else (None, None)
        return Code(f"{function}({code.text})", code.nesting + 1, *bounds)

    def Select(self, node: Select) -> Code:
        condition = self.atom(self.exact(node.condition))
        if node.condition.dtype.lanes > 1:
            a, b = self.unchosen(node.true_value), self.unchosen(node.false_value)
            return Code(self.spill(f"[x if c else y for c, x, y in zip({condition}, {a}, {b}, strict=True)]"))
        careful = not self.quiet and self.select_depth < 6 and self.reads_tracked(node)
        if not careful:
            a, b = self.exact(node.true_value), self.exact(node.false_value)
            bounds = _hull(a, b)
            return Code(f"({a.text} if {condition} else {b.text})", max(a.nesting, b.nesting) + 1, *bounds)
        self.select_depth += 1
        result = self.branches(
            condition,
            lambda: (self.unchosen(node.false_value), self.exact(node.true_value).text)[1],
            lambda: (self.unchosen(node.true_value), self.exact(node.false_value).text)[1],
        )
        self.select_depth -= 1
        return result

    def unchosen(self, node: Expr) -> str:
        """Source of a value that may not be the chosen one: its loads stay within bounds, but may read anything."""
        before, self.quiet = self.quiet, True
        code = self.exact(node)
        self.quiet = before
        return code.text

    def reads_tracked(self, node: Select) -> bool:
        return any(
            isinstance(inner, BufferLoad) and self.memories[inner.buffer].tracked
            for value in (node.true_value, node.false_value)
            for inner in post_order(value)
        )

    def branches(self, condition: str, chosen: Callable[[], str], otherwise: Callable[[], str]) -> Code:
        """A value computed in one of two blocks."""
        result = self.name("t")
        for header, write in ((f"if {condition}:", chosen), ("else:", otherwise)):
            before, self.done = self.done, dict(self.done)
            with self.block(header):
                text = self.outline(write) if self.depth > MAX_NESTING else write()
                self.line(f"{result} = {text}")
            self.done = before
        return Code(result)

    def IfThenElse(self, node: IfThenElse) -> Code:
        if node.condition.dtype.lanes > 1:
            raise NotWellFormed(
                "if_then_else by lanes cannot be run",
                reason=f"`{node}`: only a whole value can be left out",
                fix="use select, with predicates on the loads",
            )
        condition = self.atom(self.exact(node.condition))
        return self.branches(
            condition, lambda: self.exact(node.true_value).text, lambda: self.exact(node.false_value).text
        )

    def Let(self, node: Let) -> Code:
        code = self.exact(node.value)
        name = self.variable(node.var)
        self.line(f"{name} = {code.text}")
        self.values[node.var] = Code(name, 0, code.lo, code.hi)
        self.live.append(name)
        body = self.exact(node.body)
        text = self.atom(body)
        self.live.remove(name)
        return Code(text, 0, body.lo, body.hi)

    def Ramp(self, node: Ramp) -> Code:
        base, stride, dtype = self.exact(node.base).text, self.exact(node.stride).text, node.dtype.element
        return Code(self.spill(f"ramp({base}, {stride}, {node.lanes}, {dtype.bits}, {dtype.kind == 'int'})"))

    def Broadcast(self, node: Broadcast) -> Code:
        return Code(self.spill(f"[{self.exact(node.value).text}] * {node.lanes}"))

    def Shuffle(self, node: Shuffle) -> Code:
        joined = self.spill(f"[{', '.join(f'*iterate_lanes({self.exact(v).text})' for v in node.vectors)}]")
        picked = [f"{joined}[{index}]" for index in node.indices]
        return Code(self.spill(picked[0] if len(picked) == 1 else f"[{', '.join(picked)}]"))

    def BufferLoad(self, node: BufferLoad) -> Code:
        return self.load(node)

    def Call(self, node: Call) -> Code:
        if node.name == "likely":
            return self.value(node.args[0])
        if node.name == "target_has":
            return Code(repr(getattr(node.args[0], "value", "") == "interpreter"))
        if node.name == "prefetch":
            return Code("0")
        if node.name == "unaligned_elements":  # where memory begins decides it: any number there may be
            return Code("1")
        if node.name == "access_ptr":
            return self.pointer(node)
        if node.name in ("packed_array", "trace") or node.name.startswith("call_"):
            return self.call_code(node)
        operands = [self.exact(argument) for argument in node.args]
        if node.name == "reinterpret":
            source, target = node.args[0].dtype, node.dtype
            function = self.constant(_reinterpretation(source, target), ("reinterpret", str(source), str(target)))
            return Code(self.spill(f"{function}({operands[0].text})"))
        dtype = node.args[0].dtype if node.args else node.dtype
        implementation = (
            scalars.intrinsic_function(node.name, dtype.element) if dtype.kind not in ("bool", "handle") else None
        )
        if implementation is None:
            return self.call_code(node)
        function = self.constant(implementation, (node.name, str(dtype.element)))
        texts = [code.text for code in operands]
        if dtype.lanes == 1:
            return Code(f"{function}({', '.join(texts)})", max(code.nesting for code in operands) + 1)
        return Code(self.spill(f"[{function}(*x) for x in zip({', '.join(texts)})]"))

    def pointer(self, node: Call) -> Code:
        """A Pointer to an element, which is not read."""
        load, offset, mode = node.args
        assert isinstance(load, BufferLoad)
        memory = self.reach(load.buffer)
        place = self.place(memory, load.indices, pointed=True).text
        tracked = memory.tracked and not self.quiet
        held = self.constant(checked_result(load.dtype), ("result", str(load.dtype)))
        first = f"{place} + {self.exact(offset).text}"
        dtype = self.constant(scalars.numpy_dtype(load.dtype), ("numpy", str(load.dtype)))
        parts = f"{memory.data}, {first}, {memory.number}, {self.exact(mode).text}, {tracked}, {held}, {dtype}"
        return Code(self.spill(f"Pointer({parts})"))


def _number(value: Any) -> str:
    return f"({value})" if not isinstance(value, bool) and value < 0 else repr(value)


def _hull(a: Code, b: Code) -> tuple[int | None, int | None]:
    if a.lo is None or b.lo is None or a.hi is None or b.hi is None:
        return None, None
    return min(a.lo, b.lo), max(a.hi, b.hi)


def _bounds(kind: type[BinaryOp], a: Code, b: Code) -> tuple[int | None, int | None]:
    """Bounds of an integer operator's result before it wraps, from those of its operands."""
    if a.lo is None or a.hi is None:
        if kind is FloorMod and b.lo is not None and b.lo == b.hi and b.lo > 0:
            return 0, b.lo - 1
        return None, None
    if b.lo is None or b.hi is None:
        return None, None
    if kind is Add:
        return a.lo + b.lo, a.hi + b.hi
    if kind is Sub:
        return a.lo - b.hi, a.hi - b.lo
    if kind is Mul:
        corners = (a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi)
        return min(corners), max(corners)
    if kind is Min:
        return min(a.lo, b.lo), min(a.hi, b.hi)
    if kind is Max:
        return max(a.lo, b.lo), max(a.hi, b.hi)
    if b.lo == b.hi and b.lo > 0:
        if kind is FloorDiv:
            return a.lo // b.lo, a.hi // b.lo
        if kind is FloorMod:
            return 0, b.lo - 1
    return None, None


def _reinterpretation(source: DType, target: DType) -> Callable[[Any], Any]:
    held, wanted = scalars.numpy_dtype(source), scalars.numpy_dtype(target)

    def reinterpret(value: Any) -> Any:
        seen = np.array(value if isinstance(value, list) else [value], held).view(wanted)
        lanes = list(seen) if target.is_float else seen.tolist()
        return lanes[0] if target.lanes == 1 else lanes

    return reinterpret
