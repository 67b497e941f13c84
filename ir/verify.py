"""Check that a function is well formed, and that it keeps the spec of the stage that it claims to be at.

What holds at every stage is a table by node class, `NODE_RULES`; what each stage adds is a row of `STAGES`. Names are
checked on the way: everything is defined before it is used, nothing is bound twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

from ..base import BEYOND_MEMORY, dataclass, user_source
from . import expr as E
from .buffer import SCOPES, Buffer, is_scope
from .errors import NotWellFormed
from .expr import BufferLoad, Call, Expr, Node, Var
from .intrinsics import INTRINSICS
from .pointers import WRITES, pointed_buffer
from .rounding import round_float
from .stmt import Allocate, Assert, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt, While
from .text.expr_printer import call_dtype
from .text.printer import excerpt, shape_symbols, to_text
from .visit import children

__all__ = ["NODE_RULES", "STAGES", "NodeRule", "Stage", "verify"]


@dataclass(frozen=True, slots=True)
class NodeRule:
    """`holds` of every node of a class; `text` says what it demands."""

    text: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Stage:
    """Conditions of a stage, beside those that always hold: which loops and intrinsics no longer occur, and whether buffers have one
    dimension."""

    loops: tuple[LoopKind, ...] = ()
    intrinsics: tuple[str, ...] = ()
    flat: bool = False


STAGES: dict[str, Stage] = {
    "loops": Stage(),
    "flat": Stage(flat=True),
    "final": Stage(
        loops=(LoopKind.VECTORIZED, LoopKind.UNROLLED, LoopKind.THREAD), intrinsics=("likely", "target_has"), flat=True
    ),
}
"""By attrs["stage"]. A function that claims no stage is held to what always holds."""


# Rules by class


def _scalar_bool(value: Expr) -> bool:
    return value.dtype.kind == "bool" and value.dtype.lanes == 1


def _scalar_integer(value: Expr) -> bool:
    return value.dtype.is_integer and value.dtype.lanes == 1


def _access_lanes(node: BufferLoad | BufferStore) -> int:
    return node.indices[-1].dtype.lanes if node.indices else 1


def _predicate_fits(node: BufferLoad | BufferStore) -> bool:
    predicate = node.predicate
    return predicate is None or (predicate.dtype.kind == "bool" and predicate.dtype.lanes == _access_lanes(node))


def _is_pointer(node: Call) -> bool:
    if node.name != "access_ptr" or len(node.args) != 3:
        return node.name != "access_ptr"
    load, offset, mode = node.args
    return (
        isinstance(load, BufferLoad)
        and load.dtype.lanes == 1
        and _scalar_integer(offset)
        and isinstance(mode, E.IntImm)
        and mode.value in (0, 1, 2, 3)
        and node.dtype.kind == "handle"
    )


def _operands_fit(node: Call) -> bool:
    row = INTRINSICS.get(node.name)
    if row is None or row.result == "given":
        return True
    return all(
        (row.operands == "any" or (a.dtype.is_float if row.operands == "float" else a.dtype.is_integer))
        and a.dtype.kind != "handle"
        and a.dtype == node.args[0].dtype
        for a in node.args
    )


def _call_type_fits(node: Call) -> bool:
    if node.name == "reinterpret":
        return node.args[0].dtype.bytes == node.dtype.bytes
    return node.name not in INTRINSICS or not node.args or call_dtype(node.name, node.args) in (None, node.dtype)


def _arity_fits(node: Call) -> bool:
    row = INTRINSICS.get(node.name)
    return row is None or row.arity in (-1, len(node.args))


def _choice_condition(node: E.Select) -> bool:
    dtype = node.condition.dtype
    return dtype.kind == "bool" and dtype.lanes in (1, node.dtype.lanes)


_ACCESS = (
    NodeRule("as many indices as the buffer has dimensions", lambda n: len(n.indices) == n.buffer.ndim),
    NodeRule("indices are integers", lambda n: all(i.dtype.is_integer for i in n.indices)),
    NodeRule(
        "the lanes of the indices agree with the last one's",
        lambda n: all(i.dtype.lanes in (1, _access_lanes(n)) for i in n.indices),
    ),
    NodeRule("the predicate is a bool with the lanes of the access", _predicate_fits),
)
_SAME_TYPES = NodeRule("both operands have the same type", lambda n: n.a.dtype == n.b.dtype)
_ARITHMETIC = (_SAME_TYPES, NodeRule("arithmetic takes numbers", lambda n: n.a.dtype.is_integer or n.a.dtype.is_float))
_ORDER = (_SAME_TYPES, NodeRule("only numbers and bools have an order", lambda n: n.a.dtype.kind != "handle"))
_LOGIC = (_SAME_TYPES, NodeRule("logic takes bool", lambda n: n.a.dtype.kind == "bool"))
_BINDING = (NodeRule("the value has the variable's type", lambda n: n.value.dtype == n.var.dtype),)

NODE_RULES: dict[type[Node], tuple[NodeRule, ...]] = {
    E.IntImm: (
        NodeRule(
            "a constant is in the range of its type",
            lambda n: (
                n.dtype.kind == "handle"
                or (not n.dtype.is_float and n.dtype.lanes == 1 and n.dtype.least <= n.value <= n.dtype.greatest)
            ),
        ),
    ),
    E.FloatImm: (
        NodeRule(
            "a constant is rounded to its type",
            lambda n: (
                n.dtype.is_float
                and n.dtype.lanes == 1
                and (n.value != n.value or round_float(n.value, n.dtype) == n.value)
            ),
        ),
    ),
    **dict.fromkeys((E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.TruncDiv, E.TruncMod), _ARITHMETIC),
    E.Div: (_SAME_TYPES, NodeRule("`/` divides floats", lambda n: n.a.dtype.is_float)),
    **dict.fromkeys((E.Min, E.Max, E.LT, E.LE, E.GT, E.GE, E.EQ, E.NE), _ORDER),
    **dict.fromkeys((E.And, E.Or), _LOGIC),
    E.Not: (NodeRule("logic takes bool", lambda n: n.value.dtype.kind == "bool"),),
    E.Cast: (NodeRule("a cast keeps the lanes", lambda n: n.dtype.lanes == n.value.dtype.lanes),),
    E.Select: (
        NodeRule("both values have the same type", lambda n: n.true_value.dtype == n.false_value.dtype),
        NodeRule("the condition is a bool, scalar or with the values' lanes", _choice_condition),
    ),
    E.IfThenElse: (
        NodeRule("both values have the same type", lambda n: n.true_value.dtype == n.false_value.dtype),
        NodeRule(
            "the condition is a scalar bool (lanes cannot be left out: use select and predicates)",
            lambda n: _scalar_bool(n.condition),
        ),
    ),
    E.Let: _BINDING,
    LetStmt: _BINDING,
    Call: (
        NodeRule("as many operands as the intrinsic takes", _arity_fits),
        NodeRule("operands of one type that the intrinsic takes", _operands_fit),
        NodeRule("access_ptr takes an element, an offset and a mode, 0 to 3", _is_pointer),
        NodeRule("the call's type follows from its operands", _call_type_fits),
    ),
    E.Ramp: (
        NodeRule(
            "base and stride are scalar integers of one type",
            lambda n: _scalar_integer(n.base) and n.base.dtype == n.stride.dtype,
        ),
        NodeRule("a vector has at least 2 lanes", lambda n: n.lanes > 1),
    ),
    E.Broadcast: (
        NodeRule("what is broadcast is a scalar", lambda n: n.value.dtype.lanes == 1),
        NodeRule("a vector has at least 2 lanes", lambda n: n.lanes > 1),
    ),
    E.Shuffle: (
        NodeRule("vectors of one element type", lambda n: len({v.dtype.element for v in n.vectors}) == 1),
        NodeRule(
            "lanes that the vectors have",
            lambda n: all(0 <= i < sum(v.dtype.lanes for v in n.vectors) for i in n.indices),
        ),
    ),
    BufferLoad: _ACCESS,
    BufferStore: (
        *_ACCESS,
        NodeRule(
            "the value has the type of the elements",
            lambda n: n.value.dtype == n.buffer.dtype.with_lanes(_access_lanes(n)),
        ),
    ),
    For: (
        NodeRule(
            "begin and extent have the variable's type, an integer",
            lambda n: _scalar_integer(n.var) and n.begin.dtype == n.var.dtype == n.extent.dtype,
        ),
        NodeRule(
            "a thread loop, and no other, has a thread tag", lambda n: (n.kind is LoopKind.THREAD) == bool(n.thread)
        ),
    ),
    If: (NodeRule("the condition is a scalar bool", lambda n: _scalar_bool(n.condition)),),
    While: (NodeRule("the condition is a scalar bool", lambda n: _scalar_bool(n.condition)),),
    Assert: (NodeRule("the condition is a scalar bool", lambda n: _scalar_bool(n.condition)),),
    Evaluate: (),
    Attr: (),
    Allocate: (),
    Seq: (),
    E.StringImm: (),
}


def _has_room(buffer: Buffer) -> bool:
    extents = [extent.value for extent in buffer.shape if isinstance(extent, E.IntImm)]
    return all(extent >= 0 for extent in extents) and math.prod(extents) * buffer.dtype.bytes < BEYOND_MEMORY


_BUFFER_RULES = (
    NodeRule("elements are scalars", lambda b: b.dtype.lanes == 1 and b.dtype.kind != "handle"),
    NodeRule(f"the scope is one of {', '.join(SCOPES)}, or an accelerator's", lambda b: is_scope(b.scope)),
    NodeRule("extents and strides are scalar integers", lambda b: all(map(_scalar_integer, (*b.shape, *b.strides)))),
    NodeRule("constant extents are 0 or more, and what they span is within memory", _has_room),
    NodeRule("a stride for each dimension, or none", lambda b: len(b.strides) in (0, len(b.shape))),
    NodeRule(
        "the alignment is a power of two, or 0", lambda b: b.alignment >= 0 and b.alignment & (b.alignment - 1) == 0
    ),
)
_FLAT_RULE = NodeRule(
    "buffers have one dimension and no strides once flattened",
    lambda b: b.ndim == 1 and not b.strides and b.elem_offset is None,
)


class _Leave:
    """End of a scope of bound names."""

    __slots__ = ("things",)

    def __init__(self, *things: Var | Buffer) -> None:
        self.things = things


Sound = dict[int, tuple[Expr, frozenset[Var | Buffer]]]
"""Expressions that keep the rules of a stage wherever all that they use is visible, by identity, with what they use."""


class _Verifier:
    def __init__(self, function: Function, name: str, sound: Sound) -> None:
        self.function, self.name, self.sound = function, name, sound
        self.stage = STAGES.get(name, Stage())
        self.visible: set[Var | Buffer] = set()
        self.ever: set[Var | Buffer] = set()
        self.statement: Stmt | None = None
        self.writable: set[Buffer] = set(function.outputs)

    def fail(self, rule: str, subject: object, details: str = "") -> NoReturn:
        stage = f" at stage '{self.name}'" if self.name else ""
        text = subject if isinstance(subject, str) else _first_line(subject)
        raise NotWellFormed(
            f"{self.function.name} is not well formed{stage}: {rule}",
            reason=f"in `{text}`{details}",
            called=user_source(),
            loops=excerpt(self.function, self.statement),
            fix=f"change what is marked with > so that this holds: {rule}",
        )

    def define(self, thing: Var | Buffer) -> None:
        if thing in self.ever:
            self.fail("nothing is bound twice", f"{thing.name}")
        self.ever.add(thing)
        self.visible.add(thing)

    # Declarations

    def signature(self) -> None:
        function = self.function
        for symbol in shape_symbols(function):
            self.define(symbol)
        for parameter in function.params:
            self.define(parameter)
            if isinstance(parameter, Buffer):
                self.buffer(parameter)
        for buffer in function.outputs:
            if buffer not in self.visible:
                self.fail("outputs are parameters", buffer)

    def buffer(self, buffer: Buffer) -> None:
        for rule in _BUFFER_RULES:
            if not rule.holds(buffer):
                self.fail(rule.text, buffer)
        if self.stage.flat and not _FLAT_RULE.holds(buffer):
            self.fail(_FLAT_RULE.text, buffer)
        if buffer.data is not None:
            self.define(buffer.data)

    # Statements and expressions

    def body(self) -> None:
        stack: list[Stmt | _Leave] = [self.function.body]
        while stack:
            node = stack.pop()
            if isinstance(node, _Leave):
                self.visible.difference_update(node.things)
                continue
            self.statement = node
            bodies = self.parts(node)  # the expressions first: what is wrong there makes the statement wrong
            self.node(node)
            stack.extend(reversed(bodies))

    def parts(self, node: Stmt) -> list[Stmt | _Leave]:
        """Check the expressions of a statement; the statements within, with what leaves scope after them."""
        bodies: list[Stmt | _Leave] = []
        for child in children(node):
            if isinstance(child, Stmt):
                bodies.append(child)
            elif isinstance(child, Expr):
                self.expression(child)
        match node:
            case For():
                for _, value in node.pragmas:
                    self.expression(value)
                self.define(node.var)
                bodies.append(_Leave(node.var))
            case LetStmt():
                self.define(node.var)
                bodies.append(_Leave(node.var))
            case Allocate():
                for value in (*node.buffer.shape, *node.buffer.strides):
                    self.expression(value)
                self.buffer(node.buffer)
                self.define(node.buffer)
                self.writable.add(node.buffer)
                bodies.append(_Leave(node.buffer))
            case Attr() if isinstance(node.subject, (Var, Buffer)):
                self.used(node.subject, node)
            case BufferStore():
                self.used(node.buffer, node)
                if node.buffer not in self.writable:
                    self.fail("only outputs and allocated buffers are written", node)
            case _:
                pass
        return bodies

    def expression(self, root: Expr) -> None:
        """Every node below, shared ones once; nothing below an expression that is known to be sound."""
        known = self.sound.get(id(root))
        if known is not None and known[1] <= self.visible:
            return
        seen: set[int] = set()
        things: set[Var | Buffer] = set()
        anywhere = True
        stack: list[Any] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, Var):
                self.used(node, root)
                things.add(node)
            elif isinstance(node, _Leave):
                self.visible.difference_update(node.things)
            elif isinstance(node, _Enter):
                self.visible.add(node.var)
            elif id(node) not in seen:
                seen.add(id(node))
                self.node(node)
                if isinstance(node, E.Let):
                    anywhere = False  # what it binds must not be bound before
                    if node.var in self.ever:
                        self.fail("nothing is bound twice", node.var.name)
                    self.ever.add(node.var)
                    stack += [_Leave(node.var), node.body, _Enter(node.var), node.value]
                    continue
                if isinstance(node, BufferLoad):
                    self.used(node.buffer, node)
                    things.add(node.buffer)
                anywhere &= not self.pointer(node)
                stack.extend(reversed(children(node)))
        if anywhere:
            self.sound[id(root)] = root, frozenset(things)

    def pointer(self, node: Node) -> bool:
        """Return whether it is a pointer to write through. What is written so may be written, and the call that does it is
        a statement, or what one asserts or asks."""
        pointed = pointed_buffer(node)
        writes = pointed is not None and bool(pointed[1] & WRITES)
        if pointed is not None and writes:
            if pointed[0] not in self.writable:
                self.fail("only outputs and allocated buffers are written", node)
            if not isinstance(self.statement, (Evaluate, Assert, If)):
                self.fail("a pointer that is written through stands in a call for its effect", node)
        return writes

    def used(self, thing: Var | Buffer, where: object) -> None:
        if thing not in self.visible:
            what = "the variable" if isinstance(thing, Var) else "the buffer"
            ended = "its scope has ended" if thing in self.ever else "nothing defines it"
            self.fail("everything is defined before it is used", where, f": {what} '{thing.name}', {ended}")

    def node(self, node: Node) -> None:
        rules = NODE_RULES.get(type(node))
        if rules is None:
            self.fail(f"{type(node).__name__} does not occur in functions", node)
        for rule in rules:
            if not rule.holds(node):
                self.fail(rule.text, node, _types(node))
        stage = self.stage
        if isinstance(node, For) and node.kind in stage.loops:
            self.fail(f"{node.kind.value} loops do not occur", node)
        if isinstance(node, Call) and node.name in stage.intrinsics:
            self.fail(f"{node.name} does not occur", node)


class _Enter:
    __slots__ = ("var",)

    def __init__(self, var: Var) -> None:
        self.var = var


def _types(node: Node) -> str:
    """The types of the expressions directly below, which most rules are about."""
    types = [f"`{_first_line(child)}` is {child.dtype}" for child in children(node) if isinstance(child, Expr)]
    return ": " + ", ".join(types[:4]) if types else ""


def _first_line(subject: Any) -> str:
    text = to_text(subject).partition("\n")[0]
    return text if len(text) <= 100 else text[:97] + "..."


def verify(function: Function, stage: str | None = None, sound: dict[str, Sound] | None = None) -> None:
    """Raise NotWellFormed (TW0302), naming the rule, the node and the text around it, where `function` breaks a rule.

    stage: the stage to hold it to, by default the one that its attributes claim. sound: what verified functions have in common with
    this one, by stage, which is not looked at again; this function's is added.
    """
    name = str(function.attrs.get("stage", "")) if stage is None else stage
    if name and name not in STAGES:
        raise NotWellFormed(
            f"{function.name} claims the unknown stage '{name}'",
            called=user_source(),
            allowed=", ".join(STAGES),
            fix='function.with_attrs(stage="loops")',
        )
    verifier = _Verifier(function, name, {} if sound is None else sound.setdefault(name, {}))
    verifier.signature()
    verifier.body()
