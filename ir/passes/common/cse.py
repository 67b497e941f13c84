"""Values that a statement computes more than once, computed once.

    C[i] = exp(A[i]) / (1.0 + exp(A[i]))      →      cse: float32 = exp(A[i])
                                                     C[i] = cse / (1.0 + cse)

A value is bound before its statement where the statement is sure to evaluate it, and within the branch of an
if_then_else where only that branch does. Loads are values too, since nothing is stored while a statement's right side
is computed. Index arithmetic is left alone: flatten and vectorize read it, and it costs little.

It stands after simplify, which makes equal things look equal, and before everything that walks or copies statements: a
chain of inlined stages is small while its values are shared, and huge written out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...analysis.linear import is_index
from ...dtype import DType
from ...expr import (
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Not,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    TruncDiv,
    TruncMod,
    Var,
)
from ...intrinsics import is_pure
from ...stmt import BufferStore, Function, LetStmt, Stmt
from ...structural import constructor_key
from ...visit import children, post_order, rebuild, rewrite
from .let_names import with_own_lets

__all__ = ["MIN_COST", "share_subexpressions"]

MIN_COST = 3
"""What a value must cost, in simple operations, to be worth a name."""
_CALL_COST, _DIVISION_COST = 8, 3


def share_subexpressions(function: Function) -> Function:
    """`function` with repeated values of each statement bound to variables."""

    def rule(node: Any) -> Stmt | None:
        return _shared_store(node) if isinstance(node, BufferStore) else None

    return function.with_body(with_own_lets(rewrite(function.body, rule)))  # branches that share a choice share it each for itself


def _shared_store(store: BufferStore) -> Stmt | None:
    bindings, value = _share(store.value)
    if value is store.value:
        return None
    shared: Stmt = replace(store, value=value)
    for var, bound in reversed(bindings):
        shared = LetStmt(var, bound, shared)
    return shared


@dataclass(slots=True)
class _Value:
    """A value by number: where it was first met, what it costs, and whether it may be named at all."""

    expr: Expr
    operands: tuple[int, ...]
    cost: int
    nameable: bool
    uses: int = 0


class _Numbering:
    """Equal numbers for expressions that are equal in structure."""

    def __init__(self) -> None:
        self.values: list[_Value] = []
        self._known: dict[object, int] = {}
        self._of: dict[int, int] = {}
        self._alive: list[Expr] = []

    def number(self, expr: Expr) -> int:
        known = self._of.get(id(expr))
        if known is not None:
            return known
        for node in post_order(expr):
            if id(node) not in self._of:
                assert isinstance(node, Expr)
                self._of[id(node)] = self._enter(node)
                self._alive.append(node)
        return self._of[id(expr)]

    def _enter(self, node: Expr) -> int:
        operands = tuple([self._of[id(child)] for child in children(node)])
        key = (type(node), _own_key(node), operands)
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = len(self.values)
            parts = [self.values[operand] for operand in operands]
            nameable = all(part.nameable for part in parts) and not isinstance(node, (Let, Ramp, Broadcast, Shuffle)) \
                and not (isinstance(node, Call) and not is_pure(node.name))
            self.values.append(_Value(node, operands, _cost(node, parts), nameable))
        return place


def _own_key(node: Expr) -> object:
    if isinstance(node, (Var, FloatImm, IntImm, StringImm)):
        return constructor_key(node)
    if isinstance(node, BufferLoad):
        return (node.buffer, node.predicate is None)
    if isinstance(node, Call):
        return (node.name, node.dtype)
    if isinstance(node, Let):
        return node.var
    if isinstance(node, Shuffle):
        return node.indices
    return node.dtype


def _cost(node: Expr, parts: list[_Value]) -> int:
    """Simple operations on data; index arithmetic is free."""
    if isinstance(node, BufferLoad):
        return 1
    own = 0
    if isinstance(node, Call):
        own = 0 if node.name == "likely" else _CALL_COST
    elif isinstance(node, (Div, FloorDiv, FloorMod, TruncDiv, TruncMod)):
        own = _DIVISION_COST if any(part.cost for part in parts) else 0
    elif isinstance(node, (BinaryOp, Cast, Not, Select, IfThenElse)):
        own = 1 if any(part.cost for part in parts) else 0
    return min(own + sum(part.cost for part in parts), 1 << 20)


def _share(root: Expr) -> tuple[list[tuple[Var, Expr]], Expr]:
    """Bindings, in order, and `root` over them."""
    numbering = _Numbering()
    top = numbering.number(root)
    bound_by_lets = {node.var for node in post_order(root) if isinstance(node, Let)}
    sure = _counted(numbering, top)
    chosen = [
        number for number in sorted(sure)
        if (value := numbering.values[number]).uses > 1 and value.nameable and value.cost >= MIN_COST
        and not isinstance(value.expr, BufferLoad) and not _mentions(value.expr, bound_by_lets)
    ]
    bound, names = dict[int, Var](), dict[int, Expr]()
    for number in chosen:
        bound[number], names[number] = _name(numbering.values[number].expr)
    build = _Builder(numbering, names, sure)
    bindings = [(var, _as(build.definition(number), var.dtype)) for number, var in bound.items()]
    return bindings, build(top)


def _name(value: Expr) -> tuple[Var, Expr]:
    """(a name, the value by it). A variable of int32 or int64 counts as index arithmetic, which does not overflow; data does,
    so it goes by a name of its bits."""
    dtype = value.dtype
    if dtype.kind != "int" or dtype.bits < 32 or is_index(value):
        var = Var("cse", dtype)
        return var, var
    var = Var("cse", DType(f"u{dtype}"))
    return var, _as(var, dtype)


def _as(value: Expr, dtype: DType) -> Expr:
    return value if value.dtype == dtype else Call("reinterpret", (value,), dtype)


def _mentions(expr: Expr, variables: set[Var]) -> bool:
    return bool(variables) and any(node in variables for node in post_order(expr) if isinstance(node, Var))


def _counted(numbering: _Numbering, top: int) -> set[int]:
    """Counts how often each value is an operand; returns the numbers of those that are sure to be evaluated."""
    sure: set[int] = set()
    stack = [top]
    while stack:
        number = stack.pop()
        if number in sure:
            continue
        sure.add(number)
        value = numbering.values[number]
        if isinstance(value.expr, IfThenElse):
            stack.append(value.operands[0])
        else:
            stack.extend(value.operands)
    reached: set[int] = set()
    stack = [top]
    while stack:
        number = stack.pop()
        if number in reached or isinstance(numbering.values[number].expr, BufferLoad):
            continue
        reached.add(number)
        for operand in numbering.values[number].operands:
            numbering.values[operand].uses += 1
            stack.append(operand)
    return sure


class _Builder:
    """Builds values over the names that were given to some. Branches of an if_then_else share within themselves."""

    def __init__(self, numbering: _Numbering, names: dict[int, Expr], sure: set[int]) -> None:
        self.numbering, self.names, self.sure = numbering, names, sure
        self.built: dict[int, Expr] = {}

    def __call__(self, number: int) -> Expr:
        return self.names[number] if number in self.names else self.definition(number)

    def definition(self, number: int) -> Expr:
        """The value itself, over names. Iterates: expressions may be deep."""
        stack = [number]
        while stack:
            at = stack[-1]
            value = self.numbering.values[at]
            missing = [part for part in self._built_operands(value) if part not in self.built and part not in self.names]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if at not in self.built:
                self.built[at] = self._assemble(value)
        return self.built[number]

    def _built_operands(self, value: _Value) -> tuple[int, ...]:
        if isinstance(value.expr, BufferLoad):
            return ()
        return value.operands

    def _assemble(self, value: _Value) -> Expr:
        parts: list[Any] = [
            self.names[part] if part in self.names else self.built[part] for part in self._built_operands(value)
        ]
        if not parts:
            return value.expr
        if isinstance(value.expr, IfThenElse):
            parts[1:] = [self._branch(part) for part in parts[1:]]
        return rebuild(value.expr, parts)

    def _branch(self, branch: Expr) -> Expr:
        bindings, value = _share(branch)
        for var, bound in reversed(bindings):
            value = Let(var, bound, value)
        return value


