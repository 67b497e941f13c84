"""Values that a statement computes more than once, computed once.

    C[i] = exp(A[i]) / (1.0 + exp(A[i]))      →      cse: float32 = exp(A[i])
                                                     C[i] = cse / (1.0 + cse)

A value is bound before its statement where the statement is sure to evaluate it, and within the branch of an
if_then_else where only that branch does. Loads are values too, since nothing is stored while a statement's right side
is computed. Index arithmetic is left alone: flatten and vectorize read it, and it costs little. A value that would be huge
written out is large_values' to name.

It stands after simplify, which makes equal things look equal, and before everything that walks or copies statements: a
chain of inlined stages is small while its values are shared, and huge written out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...expr import BufferLoad, Expr, IfThenElse, Let, Var
from ...stmt import BufferStore, Function, LetStmt, Stmt
from ...visit import post_order, rebuild, rewrite_statements
from .large_values import WRITTEN_OUT, name_shared
from .let_names import rename_lets
from .numbering import MIN_COST, Numbering, Value, name_value, operation_cost, reinterpret_bits

__all__ = ["share_subexpressions"]


def share_subexpressions(function: Function) -> Function:
    """`function` with repeated values of each statement bound to variables."""

    def rule(node: Any) -> Stmt | None:
        return _shared_store(node) if isinstance(node, BufferStore) else None

    return function.with_body(
        rename_lets(rewrite_statements(function.body, rule))
    )  # branches that share a choice share it each for itself


def _shared_store(store: BufferStore) -> Stmt | None:
    numbering = Numbering()
    top = numbering.number(store.value)
    if numbering.values[top].size > WRITTEN_OUT:  # sharing every part would be as large as the value itself
        shorter = name_shared(store)
        return None if shorter is store else shorter
    bindings, value = _share(numbering, top, {})
    if value is store.value:
        return None
    shared: Stmt = replace(store, value=value)
    for var, bound in reversed(bindings):  # innermost last, so that each name is known to those after it
        shared = LetStmt(var, bound, shared)
    return shared


def _share(numbering: Numbering, top: int, outer: Mapping[int, Expr]) -> tuple[list[tuple[Var, Expr]], Expr]:
    """Bindings, in order, and the value `top` over them. outer: the names that values around have."""
    values, within = numbering.values, _Within(numbering, top, outer)
    bound, names = dict[int, Var](), dict(outer)
    for number in sorted(within.sure):  # numbers count operands first, hence bindings come in order of use
        value = values[number]
        if (
            within.uses[number] > 1  # a name for what is used once would only lengthen the code
            and value.nameable
            and within.costs[number] >= MIN_COST
            and not isinstance(value.expr, BufferLoad)  # a load costs as much as the variable that would hold it
            and not _mentions(value.expr, within.lets)
        ):
            bound[number], names[number] = name_value(value.expr)
    build = _Builder(numbering, names)
    bindings = [(var, reinterpret_bits(build.definition(number), var.dtype)) for number, var in bound.items()]
    return bindings, build(top)


def _mentions(expr: Expr, variables: set[Var]) -> bool:
    return bool(variables) and any(node in variables for node in post_order(expr) if isinstance(node, Var))


class _Within:
    """Values below a value, down to those that have a name: how often each value is an operand (uses), what it costs over the names,
    which are sure to be evaluated, and what lets bind (lets)."""

    def __init__(self, numbering: Numbering, top: int, names: Mapping[int, Expr]) -> None:
        values, reached = numbering.values, set[int]()
        self.uses: Counter[int] = Counter()
        stack = [top]
        while stack:
            number = stack.pop()
            if number not in reached:
                reached.add(number)
                # below a name nothing is evaluated again
                if number not in names and not isinstance(values[number].expr, BufferLoad):
                    self.uses.update(values[number].operands)
                    stack += values[number].operands
        self.lets = {expr.var for number in reached if isinstance(expr := values[number].expr, Let)}
        self.costs: dict[int, int] = {}
        for number in sorted(reached):  # operands have smaller numbers: their costs are known by now
            value = values[number]
            self.costs[number] = (
                0
                if number in names
                else operation_cost(value.expr, [self.costs.get(part, 0) for part in value.operands])
            )
        self.sure: set[int] = set()
        stack = [top]
        while stack:
            number = stack.pop()
            if number not in self.sure and number not in names:
                self.sure.add(number)
                stack += _sure_operands(values[number])


def _sure_operands(value: Value) -> tuple[int, ...]:
    """The operands that are built, and evaluated, with the value: neither branches nor indices."""
    if isinstance(value.expr, BufferLoad):
        return ()
    return value.operands[:1] if isinstance(value.expr, IfThenElse) else value.operands


class _Builder:
    """Build values over the names that were given to some. Branches of an if_then_else share within themselves."""

    def __init__(self, numbering: Numbering, names: Mapping[int, Expr]) -> None:
        self.numbering, self.names = numbering, names
        self.built: dict[int, Expr] = {}

    def __call__(self, number: int) -> Expr:
        return self.names[number] if number in self.names else self.definition(number)

    def definition(self, number: int) -> Expr:
        """The value itself, over names. Iterates: expressions may be deep."""
        stack = [number]
        while stack:
            at = stack[-1]
            value = self.numbering.values[at]
            missing = [part for part in _sure_operands(value) if part not in self.built and part not in self.names]
            if missing:  # operands first, without recursion
                stack.extend(missing)
                continue
            stack.pop()
            if at not in self.built:
                self.built[at] = self._assemble(value)
        return self.built[number]

    def _assemble(self, value: Value) -> Expr:
        parts: list[Any] = [
            self.names[part] if part in self.names else self.built[part] for part in _sure_operands(value)
        ]
        if not parts:
            return value.expr
        if isinstance(value.expr, IfThenElse):
            parts += map(self._branch, value.operands[1:])
        return rebuild(value.expr, parts)

    def _branch(self, number: int) -> Expr:  # what only a branch evaluates is bound within it, or it would run unasked
        bindings, value = _share(self.numbering, number, self.names)
        for var, bound in reversed(bindings):
            value = Let(var, bound, value)
        return value
