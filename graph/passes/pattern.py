"""Rules over nodes, written as the graph's text is: `Rule("silu", "multiply(x, sigmoid(x))", "silu(x)")`.

Names of operators are those of the table; other names are values: `x` any, `c...` a parameter that is known. A number is a
parameter all of whose elements are that number. Attributes are written out, or have their defaults; a name in an attribute's
place stands for whatever it is. Operands of operators that commute match in either order. The result's text is read the same way,
or a function of the Rewriter and of what matched gives the value.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...base import dataclass, field
from ..node import Node, Parts
from ..operators import row_of
from ..operators.row import Attribute
from ..types import TensorType
from .rewriter import Rewriter, Visit, rewrite

__all__ = ["Match", "Rule", "rule_pass", "has_float_result", "has_integer_result"]

_COMMUTES = frozenset(
    (
        "add",
        "multiply",
        "maximum",
        "minimum",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    )
)


@dataclass(frozen=True)
class Match:
    """Match of a pattern in a graph.

    values: the graph's by the pattern's names; attributes likewise; nodes: the nodes that matched, the root first.
    """

    r: Rewriter
    values: Mapping[str, str]
    attributes: Mapping[str, Attribute]
    nodes: tuple[Node, ...]

    def __getitem__(self, name: str) -> Any:
        """A value's name, or an attribute, by the name that it has in the pattern."""
        return self.values[name] if name in self.values else self.attributes[name]

    def type(self, name: str) -> TensorType:
        """The type of a value."""
        return self.r.type(self.values[name])

    @property
    def result(self) -> TensorType:
        """The type of what the rule replaces."""
        return self.nodes[0].types[0]

    def known(self, name: str) -> Any:
        """The array that a value of the pattern is known to be."""
        return self.r.known(self.values[name])


@dataclass(frozen=True, eq=False)
class Rule:
    """pattern is replaced by result where `when` holds of the match. whole: the nodes between are read by nobody else."""

    name: str
    pattern: str
    result: str | Callable[[Match], str | None]
    when: Callable[[Match], bool] = field(default=lambda _: True)
    whole: bool = False
    tolerance: float = 0.0
    """How far, relatively, a parameter may be from a number of the pattern."""


@cache
def _parse_text(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _operator(pattern: ast.Call) -> str:
    assert isinstance(pattern.func, ast.Name), "operators are names"
    return pattern.func.id


def has_integer_result(match: Match) -> bool:
    """Return whether a rule's result is of integers."""
    return "int" in match.result.dtype


def has_float_result(match: Match) -> bool:
    """Return whether a rule's result is of floats."""
    return "float" in match.result.dtype


def rule_pass(rules: Sequence[Rule]) -> Callable[[Parts], Parts]:
    """The pass that replaces each node by the first of the rules that matches it."""
    visit = rule_visitor(rules)
    return lambda g: rewrite(g, visit)


def rule_visitor(rules: Sequence[Rule]) -> Visit:
    """Rewrite a node by the first of the rules that matches it."""
    by_root: dict[str, list[Rule]] = {}
    for rule in rules:
        root = _parse_text(rule.pattern)
        assert isinstance(root, ast.Call), "a rule replaces a node"
        by_root.setdefault(_operator(root), []).append(rule)

    def visit(r: Rewriter, node: Node) -> str | None:
        for rule in by_root.get(node.operator, ()):
            for match in matches(r, rule, node):
                mark = r.mark()
                value = rule.result(match) if callable(rule.result) else _build_result(match, rule.result)
                if value is not None and r.type(value) == match.result:
                    return value
                r.undo(mark)  # it broadcasts to another shape, or is of another dtype
        return None

    return visit


def matches(r: Rewriter, rule: Rule, node: Node) -> Iterator[Match]:
    """The ways in which a rule's pattern matches a node."""
    search = _Search(r, rule)
    pattern = _parse_text(rule.pattern)
    assert isinstance(pattern, ast.Call)
    for state in search.node(pattern, node, _State({}, {}, ())):
        if rule.whole and not _is_closed(r, state.nodes):
            continue
        match = Match(r, state.values, state.attributes, state.nodes)
        if rule.when(match):
            yield match


def _is_closed(r: Rewriter, nodes: Sequence[Node]) -> bool:
    """Return whether what lies between the nodes of a match, the root first, is read by none but them."""
    distinct = list({id(node): node for node in nodes}.values())
    return all(
        r.users[name] <= sum(name in reader.inputs for reader in distinct)
        for node in distinct[1:]
        for name in node.outputs
    )


@dataclass(frozen=True)
class _State:
    values: Mapping[str, str]
    attributes: Mapping[str, Attribute]
    nodes: tuple[Node, ...]


class _Search:
    def __init__(self, r: Rewriter, rule: Rule) -> None:
        self.r, self.rule = r, rule

    def value(self, pattern: ast.expr, value: str, state: _State) -> Iterator[_State]:
        if isinstance(pattern, ast.Call):
            node = self.r.maker(value, _operator(pattern))
            if node is not None and node.outputs[0] == value:
                yield from self.node(pattern, node, state)
        elif isinstance(pattern, ast.Name):
            known = pattern.id.startswith("c")
            if pattern.id in state.values:
                if state.values[pattern.id] == value:
                    yield state
            elif value and (not known or self.r.is_known(value)):
                yield _State({**state.values, pattern.id: value}, state.attributes, state.nodes)
        elif self.is_number(ast.literal_eval(pattern), value):
            yield state

    def is_number(self, number: float, value: str) -> bool:
        if not value or not self.r.is_known(value):
            return False
        if not 0 < math.prod(map(int, self.r.type(value).shape)) <= 4096:
            return False
        wide = self.r.known(value).astype(np.float64)
        if self.rule.tolerance:
            return bool((np.abs(wide - number) <= self.rule.tolerance * abs(number)).all())
        return bool((wide == number).all() and (np.signbit(wide) == np.signbit(np.float64(number))).all())

    def node(self, pattern: ast.Call, node: Node, state: _State) -> Iterator[_State]:
        operands = pattern.args
        if len(operands) != len(node.inputs):
            return
        defaults = row_of(node.operator).attributes
        asked = {one.arg: one.value for one in pattern.keywords}
        attributes = dict(state.attributes)
        for name, have in node.attributes.items():
            want = asked.get(name)
            if isinstance(want, ast.Name):
                if attributes.setdefault(want.id, have) != have:
                    return
            elif have != (defaults[name] if want is None else ast.literal_eval(want)):
                return
        below = _State(state.values, attributes, (*state.nodes, node))
        orders = [node.inputs]
        if node.operator in _COMMUTES and node.inputs[0] != node.inputs[1]:
            orders.append(node.inputs[::-1])
        for inputs in orders:
            yield from self.operands(operands, inputs, below)

    def operands(self, patterns: Sequence[ast.expr], values: Sequence[str], state: _State) -> Iterator[_State]:
        if not patterns:
            yield state
            return
        for found in self.value(patterns[0], values[0], state):
            yield from self.operands(patterns[1:], values[1:], found)


def _build_result(match: Match, text: str) -> str:
    """The value that a result's text describes."""
    pattern = _parse_text(text)
    return _value(match, pattern, match.nodes[0].outputs if isinstance(pattern, ast.Call) else ())


def _value(match: Match, pattern: ast.expr, outputs: Sequence[str]) -> str:
    if isinstance(pattern, ast.Name):
        return match.values[pattern.id]
    if not isinstance(pattern, ast.Call):
        return match.r.constant(ast.literal_eval(pattern), match.result.dtype)
    inputs = [_value(match, one, ()) for one in pattern.args]
    attributes: dict[str, Any] = {}
    for one in pattern.keywords:
        asked = one.value
        attributes[str(one.arg)] = (
            match.attributes[asked.id] if isinstance(asked, ast.Name) else ast.literal_eval(asked)
        )
    return match.r.node(_operator(pattern), *inputs, outputs=outputs, **attributes)
