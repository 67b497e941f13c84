"""The simplifier: sums in linear form, divisions of sums, comparisons by proof, and for the rest the rule tables.

A node is simplified after its children, and what a rule makes is simplified again. Nodes are interned, so that equal
expressions are one object; results are remembered for as long as the knowledge that they came from holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import gcd
from typing import Any

from ..dtype import DType
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
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
    Not,
    Or,
    Ramp,
    Reduce,
    Select,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ..ops import FALSE, TRUE, cast, fold_binary
from ..visit import children, rebuild
from . import facts
from .bounds import exact_form, interval_of, is_exact, value_form
from .divide import divided, divided_by_symbol, remainder
from .linear import LinearForm
from .pattern import WATCHERS, Rule, build, match
from .prove import always_nonzero, nonnegative
from .remainders import form_modular
from .rules import tables_for
from .rules.cast import cast_of_cast
from .scope import IMPURE, Scope
from .sumrules import combined
from .sums import collect, expression_of, keeps_values, narrowable, wrapped

__all__ = ["Simplifier"]

_CONTEXT_DEPTH = 6
"""Branches within branches whose conditions are used. Deeper ones are simplified without, since each use of a
condition starts from an empty memory of results."""
_CONJUNCTS_IN_CONTEXT = 8


class Simplifier:
    """Simplification within a scope."""

    __slots__ = ("_depth", "_effects", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._depth = 0
        self._effects = False

    def visit(self, node: Expr) -> Expr:
        """The simplified, interned form of `node`."""
        found = self.scope.known.results.get(node)
        if found is None:
            self.scope.nodes.adopt(node)
            handler = _HANDLERS.get(type(node), Simplifier._other)
            found = handler(self, node)
            if found.dtype.is_integer and type(found) is not IntImm and found.dtype.lanes == 1:
                bounds = interval_of(self.scope, found)
                if bounds.lo is not None and bounds.lo == bounds.hi and not self._impure(found):
                    found = self.scope.nodes.integer(bounds.lo, found.dtype)
            results = self.scope.known.results
            results[node] = found
            results[found] = found
        return found

    @contextmanager
    def given(self, condition: Expr, holds: bool = True) -> Iterator[None]:
        """Within it, `condition` (simplified) is known to hold, or known not to."""
        known, self._depth = self.scope.known, self._depth + 1
        self.scope.known = known.copy()
        facts.learn(self.scope, condition, holds)
        try:
            yield
        finally:
            self.scope.known, self._depth = known, self._depth - 1

    def _under(self, condition: Expr, node: Expr, holds: bool = True) -> Expr:
        """`node` simplified where `condition` holds, or does not."""
        if self._depth >= _CONTEXT_DEPTH or isinstance(node, Var | IntImm | FloatImm) or condition.dtype.lanes > 1:
            return self.visit(node)
        with self.given(condition, holds):
            return self.visit(node)

    def _impure(self, node: Expr) -> bool:
        return self._effects and bool(self.scope.nodes.traits(node) & IMPURE)

    # Leaves and nodes of no special kind

    def _leaf(self, node: Expr) -> Expr:
        return self.scope.nodes.intern(node)

    def _variable(self, node: Var) -> Expr:
        return self.scope.known.truth.get(node, node)

    def _other(self, node: Expr) -> Expr:
        rebuilt = self._rebuilt(node)
        return self._ruled(rebuilt)

    def _rebuilt(self, node: Expr) -> Expr:
        new: list[Any] = []
        for child in children(node):
            new.append(self.visit(child))  # pyright: ignore[reportArgumentType]
        return self.scope.nodes.intern(rebuild(node, new))

    def _call(self, node: Call) -> Expr:
        found = self._rebuilt(node)
        if not isinstance(found, Call):
            return found
        if found.name == "likely":
            return found.args[0] if isinstance(found.args[0], IntImm | Broadcast) else found
        if self.scope.nodes.traits(found) & IMPURE:
            self._effects = True
        return found

    def _let(self, node: Let) -> Expr:
        value = self.visit(node.value)
        if isinstance(value, IntImm | Var):
            self.scope.known.truth[node.var] = value
            return self.visit(node.body)
        facts.bind_value(self.scope, node.var, value)
        body = self.visit(node.body)
        return rebuild(node, [value, body])

    def _reduce(self, node: Reduce) -> Expr:
        for axis in node.axes:
            if axis.dom is not None and axis not in self.scope.known.bounds:
                facts.bind_range(self.scope, axis, self.visit(axis.dom.begin), self.visit(axis.dom.extent))
        return self._rebuilt(node)

    # Rules

    def _ruled(self, node: Expr) -> Expr:
        """The result of the first rule that matches, simplified in its turn; `node` if none does."""
        tables = tables_for(node)
        if not tables or self._impure(node):
            return node
        for table in tables:
            if table.exact and not is_exact(self.scope, node):
                continue
            for rule, pattern in table.candidates(node):
                bound: dict[str, Any] = {}
                if match(pattern, node, bound) and rule.applies(bound) and self._holds(rule, bound):
                    result = build(rule.result, bound, node, self.scope.nodes)
                    if result is not None:
                        for watcher in WATCHERS:
                            watcher(rule)
                        return self.visit(result)
        return node

    def _holds(self, rule: Rule, bound: dict[str, Any]) -> bool:
        for condition in rule.given:
            stated = build(condition, bound, None, self.scope.nodes)
            if stated is None or not self._proved(stated):
                return False
        return True

    def _proved(self, condition: Expr) -> bool:
        """Whether a comparison of simplified integer scalars is proved."""
        assert isinstance(condition, CompareOp)
        a, b = condition.a, condition.b
        difference = value_form(self.scope, self.visit(b)).plus(value_form(self.scope, self.visit(a)), -1)
        kind = type(condition)
        if kind is NE:
            return always_nonzero(self.scope, difference)
        if kind in (GT, GE):
            difference = difference.scaled(-1)
        return nonnegative(self.scope, difference.shifted(-1) if kind in (LT, GT) else difference)

    # Arithmetic

    def _sum(self, node: BinaryOp) -> Expr:
        dtype = node.dtype
        if not dtype.is_integer or dtype.lanes > 1:
            return self._folded(node)
        form = collect(self.scope, node, self.visit)
        if self._impure(node):
            return self._rebuilt(node)
        return self._settled(form, dtype)

    def _settled(self, form: LinearForm, dtype: DType) -> Expr:
        """The expression of a form after terms that belong together were combined."""
        if len(form.coeffs) > 1 or form.const or any(type(atom) is FloorDiv for atom in form.coeffs):
            better = combined(self.scope, form, dtype, self.visit)
            while better is not None:
                form = wrapped(better, dtype)
                better = combined(self.scope, form, dtype, self.visit) if form.coeffs else None
        return expression_of(self.scope, form, dtype)

    def _folded(self, node: BinaryOp) -> Expr:
        """Operators on floats, vectors and bools: constants folded, then rules."""
        a, b = self.visit(node.a), self.visit(node.b)
        made = self._folded_of(type(node), a, b)
        return made if made is not None else self._ruled(self.scope.nodes.make(type(node), a, b))

    def _folded_of(self, kind: type[BinaryOp], a: Expr, b: Expr) -> Expr | None:
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            found = fold_binary(kind, a, b)
            return None if found is None else self.scope.nodes.intern(found)
        return None

    def _divide(self, node: BinaryOp) -> Expr:
        a, b = self.visit(node.a), self.visit(node.b)
        made = self._folded_of(type(node), a, b)
        if made is not None:
            return made
        dtype = node.dtype
        kind = FloorDiv if type(node) is FloorDiv else FloorMod
        if dtype.is_integer and dtype.lanes == 1 and not self._impure(node):
            form = self.scope.nodes.form(a)
            found = self._divided(kind, form, b, dtype) if exact_form(self.scope, form, dtype) else None
            if found is not None:
                (atom, coeff), *more = found.coeffs.items() or [(a, 0)]
                if more or coeff != 1 or found.const or type(atom) is not kind or atom.dtype is not dtype:
                    return self._settled(self._ruled_atoms(wrapped(found, dtype)), dtype)
                a, b = atom.a, atom.b  # pyright: ignore[reportAttributeAccessIssue]
        return self._ruled(self.scope.nodes.make(kind, a, b))

    def _divided(self, kind: type[BinaryOp], form: LinearForm, divisor: Expr, dtype: DType) -> LinearForm | None:
        if isinstance(divisor, IntImm):
            if divisor.value <= 0:
                return None
            return (divided if kind is FloorDiv else remainder)(self.scope, form, divisor.value, dtype)
        parts = divided_by_symbol(self.scope, form, divisor)
        return None if parts is None else parts[0] if kind is FloorDiv else parts[1]

    def _ruled_atoms(self, form: LinearForm) -> LinearForm:
        """The form with divisions that were just split off simplified by the rules."""
        results = self.scope.known.results
        for atom in [atom for atom in form.coeffs if type(atom) in (FloorDiv, FloorMod)]:
            made = results.get(atom)
            if made is None:
                made = self._ruled(atom)
            if made is not atom:
                form = form.replaced(atom, self.scope.nodes.form(made))
        return form

    def _extremum(self, node: BinaryOp) -> Expr:
        a, b = self.visit(node.a), self.visit(node.b)
        kind = Min if type(node) is Min else Max
        if a is b and not self._impure(node):
            return a
        made = self._folded_of(kind, a, b)
        if made is not None:
            return made
        if node.dtype.is_integer and node.dtype.lanes == 1 and not self._impure(node):
            difference = value_form(self.scope, b).plus(value_form(self.scope, a), -1)
            if nonnegative(self.scope, difference):
                return a if kind is Min else b
            if nonnegative(self.scope, difference.scaled(-1)):
                return b if kind is Min else a
            apart = self._apart(kind, a, b)
            if apart is not None:
                return apart
            if isinstance(a, IntImm) or (not isinstance(b, IntImm) and self.scope.nodes.sort_key(b) < self.scope.nodes.sort_key(a)):
                a, b = b, a
        return self._ruled(self.scope.nodes.make(kind, a, b))

    def _apart(self, kind: type[BinaryOp], a: Expr, b: Expr) -> Expr | None:
        """min(x + s, y + s) as min(x, y) + s, and min(x * k, y * k) as min(x, y) * k."""
        dtype = a.dtype
        left, right = value_form(self.scope, a), value_form(self.scope, b)
        shared = {atom: coeff for atom, coeff in left.coeffs.items() if right.coeffs.get(atom) == coeff}
        common = LinearForm(shared)
        if not shared and (not left.coeffs or not right.coeffs or not right.const):
            common = LinearForm({})
        left, right = left.plus(common, -1), right.plus(common, -1)
        if left.coeffs and right.coeffs and (left.const or right.const):
            offset = right.const if abs(right.const) <= abs(left.const) or not left.const else left.const
            if (left.const and right.const) or shared:
                common = common.shifted(offset)
                left, right = left.shifted(-offset), right.shifted(-offset)
        factor = _common_factor(left, right)
        if common.is_const and not common.const and factor <= 1:
            return None
        left, right = left.divided(factor), right.divided(factor)
        if not all(exact_form(self.scope, form, dtype) for form in (left, right, common)):
            return None
        inner = self.visit(self.scope.nodes.make(kind, expression_of(self.scope, left, dtype), expression_of(self.scope, right, dtype)))
        return self._settled(wrapped(common.plus(self.scope.nodes.form(inner), factor), dtype), dtype)

    # Comparisons

    def _compare(self, node: CompareOp) -> Expr:
        a, b = self.visit(node.a), self.visit(node.b)
        kind = type(node)
        if kind is GT or kind is GE:
            kind, a, b = LT if kind is GT else LE, b, a
        made = self._folded_of(kind, a, b)
        if made is not None:
            return made
        if a.dtype.is_integer and a.dtype.lanes == 1 and not self._impure(node):
            decided = self._decided(kind, a, b)
            if decided is not None:
                return decided
            a, b, kind = self._balanced(kind, a, b)
        elif a.dtype.is_integer and a.dtype.lanes > 1:
            decided = self._decided_lanes(kind, a, b)
            if decided is not None:
                return decided
        made = self.scope.nodes.make(kind, a, b)
        known = self.scope.known.truth.get(made)
        return self._ruled(made) if known is None else known

    def _decided(self, kind: type[CompareOp], a: Expr, b: Expr) -> Expr | None:
        """TRUE or FALSE where a comparison is proved one way or the other."""
        scope = self.scope
        form = value_form(scope, b).plus(value_form(scope, a), -1)
        if kind is LT or kind is LE:
            form = form.shifted(-1) if kind is LT else form
            if nonnegative(scope, form):
                return TRUE
            return FALSE if nonnegative(scope, form.scaled(-1).shifted(-1)) else None
        content = form.content
        if (not form.coeffs and not form.const) or (nonnegative(scope, form) and nonnegative(scope, form.scaled(-1))):
            return TRUE if kind is EQ else FALSE
        if always_nonzero(scope, form) or (content and form.const % content):
            return FALSE if kind is EQ else TRUE
        known = form_modular(scope, form)
        if known.coeff > 1 and known.base % known.coeff:
            return FALSE if kind is EQ else TRUE
        if a.dtype is b.dtype and self._same_modulo(a, b):
            return TRUE if kind is EQ else FALSE
        return None

    def _same_modulo(self, a: Expr, b: Expr) -> bool:
        """Whether two sums that may wrap are equal term by term."""
        form = wrapped(self.scope.nodes.form(a).plus(self.scope.nodes.form(b), -1), a.dtype)
        return not form.coeffs and not form.const

    def _decided_lanes(self, kind: type[CompareOp], a: Expr, b: Expr) -> Expr | None:
        """A comparison of vectors that comes out the same in every lane, by the bounds of both sides."""
        left, right = interval_of(self.scope, a), interval_of(self.scope, b)
        if left.lo is None or left.hi is None or right.lo is None or right.hi is None:
            return None
        lanes = a.dtype.lanes
        always = {LT: left.hi < right.lo, LE: left.hi <= right.lo, EQ: left.is_point and left == right,
                  NE: left.hi < right.lo or right.hi < left.lo}[kind]
        never = {LT: left.lo >= right.hi, LE: left.lo > right.hi, EQ: left.hi < right.lo or right.hi < left.lo,
                 NE: left.is_point and left == right}[kind]
        return self.scope.nodes.make(Broadcast, TRUE if always else FALSE, lanes) if always or never else None

    def _balanced(self, kind: type[CompareOp], a: Expr, b: Expr) -> tuple[Expr, Expr, type[CompareOp]]:
        """A comparison with terms that stand on both sides cancelled and common factors divided out."""
        scope, dtype = self.scope, a.dtype
        left, right = scope.nodes.form(a), scope.nodes.form(b)
        if (left.coeffs.get(a) == 1 and right.coeffs.get(b) == 1) or not (
                exact_form(scope, left, dtype) and exact_form(scope, right, dtype)):
            return a, b, kind
        form = right.plus(left, -1)
        if not form.coeffs:
            return a, b, kind
        form = form.shifted(-1) if kind is LT else form  # ordered: the comparison is form >= 0
        low, high, balanced_kind = _sides(form.divided(form.content), kind)
        if not exact_form(scope, low, dtype) or not exact_form(scope, high, dtype):
            return a, b, kind
        return expression_of(scope, low, dtype), expression_of(scope, high, dtype), balanced_kind

    # Logic and choice

    def _logic(self, node: BinaryOp) -> Expr:
        """A chain of And (or Or): each part is simplified where the parts before it hold (or fail), duplicates go."""
        kind, neutral, absorbing = (And, TRUE, FALSE) if type(node) is And else (Or, FALSE, TRUE)
        parts = _chain(kind, node)
        if node.dtype.lanes > 1:
            return self._folded(node)
        found: dict[Expr, None] = {}
        known, depth = self.scope.known, self._depth
        in_context = len(parts) <= _CONJUNCTS_IN_CONTEXT and depth < _CONTEXT_DEPTH
        try:
            for part in parts:
                made = self.visit(part)
                for inner in _chain(kind, made):
                    if inner is absorbing:
                        return absorbing
                    if inner is neutral or (inner in found and not self._impure(inner)):
                        continue
                    found[inner] = None
                    if in_context and len(parts) > 1:
                        if self.scope.known is known:
                            self.scope.known, self._depth = known.copy(), depth + 1
                        facts.learn(self.scope, inner, kind is And)
        finally:
            self.scope.known, self._depth = known, depth
        return self._joined(kind, self._irredundant(kind, list(found)) if in_context else list(found), neutral)

    def _irredundant(self, kind: type[BinaryOp], parts: list[Expr]) -> list[Expr]:
        """The parts without those that later ones imply."""
        if len(parts) < 2 or not all(isinstance(part, CompareOp) for part in parts):
            return parts
        kept: list[Expr] = [parts[-1]]
        known, depth = self.scope.known, self._depth
        self.scope.known, self._depth = known.copy(), depth + 1
        try:
            for part in reversed(parts[:-1]):
                facts.learn(self.scope, kept[-1], kind is And)
                made = self.visit(part)
                if not isinstance(made, IntImm) or bool(made.value) != (kind is And):
                    kept.append(part)
        finally:
            self.scope.known, self._depth = known, depth
        return kept[::-1]

    def _joined(self, kind: type[BinaryOp], parts: list[Expr], neutral: Expr) -> Expr:
        if not parts:
            return neutral
        result = parts[0]
        for part in parts[1:]:
            result = self.scope.nodes.make(kind, result, part)
            result = self._ruled(result)
        return result

    def _not(self, node: Not) -> Expr:
        value = self.visit(node.value)
        if isinstance(value, IntImm):
            return FALSE if value.value else TRUE
        if isinstance(value, CompareOp) and value.a.dtype.element.is_integer:
            return self.visit(_negated(self.scope, value))
        return self._ruled(self.scope.nodes.make(Not, value))

    def _choice(self, node: Select | IfThenElse) -> Expr:
        condition = self.visit(node.condition)
        if isinstance(condition, IntImm):
            return self.visit(node.true_value if condition.value else node.false_value)
        if isinstance(condition, Broadcast) and isinstance(condition.value, IntImm):
            return self.visit(node.true_value if condition.value.value else node.false_value)
        a, b = self._under(condition, node.true_value), self._under(condition, node.false_value, holds=False)
        if a is b and not self._impure(condition) and not self._impure(a):
            return a
        return self._ruled(self.scope.nodes.make(type(node), condition, a, b))

    # Casts

    def _cast(self, node: Cast) -> Expr:
        value, dtype = self.visit(node.value), node.dtype
        if value.dtype is dtype:
            return value
        if isinstance(value, IntImm | FloatImm):
            return self.scope.nodes.intern(cast(value, dtype))
        if isinstance(value, Broadcast):
            inner = self.visit(self.scope.nodes.make(Cast, value.value, dtype.element))
            return self.scope.nodes.make(Broadcast, inner, dtype.lanes)
        if isinstance(value, Ramp) and keeps_values(value.dtype.element, dtype.element) and is_exact(self.scope, value):
            base, stride = [self.visit(self.scope.nodes.make(Cast, part, dtype.element)) for part in (value.base, value.stride)]
            return self.scope.nodes.make(Ramp, base, stride, value.lanes)
        if isinstance(value, Cast) and cast_of_cast(value.value.dtype.element, value.dtype.element, dtype.element):
            return self.visit(self.scope.nodes.make(Cast, value.value, dtype))
        if dtype.lanes == 1 and value.dtype.is_integer and dtype.is_integer:
            form = narrowable(self.scope, value, dtype)
            if form is not None:
                return expression_of(self.scope, form, dtype)
        return self._ruled(self.scope.nodes.make(Cast, value, dtype))


def _sides(form: LinearForm, kind: type[CompareOp]) -> tuple[LinearForm, LinearForm, type[CompareOp]]:
    """(low, high, comparison) without subtraction, for form >= 0 (from LT and LE) or form == 0 and form != 0."""
    low = LinearForm({atom: -coeff for atom, coeff in form.coeffs.items() if coeff < 0})
    high = LinearForm({atom: coeff for atom, coeff in form.coeffs.items() if coeff > 0})
    const = form.const
    if kind is EQ or kind is NE:
        if not low.coeffs:
            return high, LinearForm({}, -const), kind
        return (low, high.shifted(const), kind) if const >= 0 or not high.coeffs else (low.shifted(-const), high, kind)
    if not low.coeffs:
        return LinearForm({}, -const), high, LE
    if not high.coeffs:
        return low, LinearForm({}, const + 1), LT
    return (low.shifted(-const - 1), high, LT) if const < 0 else (low, high.shifted(const), LE)


def _chain(kind: type[BinaryOp], node: Expr) -> list[Expr]:
    """The operands of nested And (or Or), from left to right."""
    found: list[Expr] = []
    stack = [node]
    while stack:
        inner = stack.pop()
        if type(inner) is kind:
            stack.append(inner.b)  # pyright: ignore[reportAttributeAccessIssue]
            stack.append(inner.a)  # pyright: ignore[reportAttributeAccessIssue]
        else:
            found.append(inner)
    return found


def _negated(scope: Scope, node: CompareOp) -> Expr:
    """The comparison of integers that holds where `node` does not."""
    kind = type(node)
    if kind is EQ or kind is NE:
        return scope.nodes.make(NE if kind is EQ else EQ, node.a, node.b)
    if kind is LT or kind is LE:
        return scope.nodes.make(LE if kind is LT else LT, node.b, node.a)
    return scope.nodes.make(LE if kind is GT else LT, node.a, node.b)


def _common_factor(left: LinearForm, right: LinearForm) -> int:
    """What divides every coefficient and constant of both."""
    return gcd(left.content, left.const, right.content, right.const)


_HANDLERS: dict[type[Expr], Callable[[Simplifier, Any], Expr]] = {
    **dict.fromkeys((Var, *Var.__subclasses__()), Simplifier._variable),
    **dict.fromkeys((IntImm, FloatImm, StringImm), Simplifier._leaf),
    **dict.fromkeys((Add, Sub, Mul), Simplifier._sum),
    **dict.fromkeys((FloorDiv, FloorMod), Simplifier._divide),
    **dict.fromkeys((Div, TruncDiv, TruncMod), Simplifier._folded),
    **dict.fromkeys((Min, Max), Simplifier._extremum),
    **dict.fromkeys((LT, LE, GT, GE, EQ, NE), Simplifier._compare),
    **dict.fromkeys((And, Or), Simplifier._logic),
    **dict.fromkeys((Select, IfThenElse), Simplifier._choice),
    Not: Simplifier._not, Cast: Simplifier._cast, Call: Simplifier._call, Let: Simplifier._let, Reduce: Simplifier._reduce,
}
