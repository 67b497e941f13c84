"""Conditions of vectors whose lanes are all alike speak of the first.

    for v in vectorized(4):                                     for v in vectorized(4):
        if block * 64 + thread * 4 + v < 1000:  B[..] = ..  →       if block * 64 + thread * 4 < 1000:  B[..] = ..

Where what is left up to the limit is a multiple of the lanes, a vector lies within it or beyond it, so that it is one access of
memory or none. Of choices within choices that have the same constant otherwise, a condition that those within imply is dropped
first: it may differ from lane to lane where theirs do not.

    (A[y, x - 4] if 4 <= x < 60 else 0) if 3 <= x < 61 else 0       →       A[y, x - 4] if 4 <= x < 60 else 0

It stands before loops become vectors.
"""

from __future__ import annotations

from ...arith.analyzer import Analyzer
from ...arith.linear import LinearForm
from ...expr import GE, GT, LE, LT, BufferLoad, Call, Expr, FloatImm, IfThenElse, IntImm, Node, Range, Var
from ...ops import conjunction, conjuncts, const
from ...stmt import For, Function, LoopKind
from ...structural import structural_key
from ...visit import free_vars, rewrite, substitute, walk
from ..common.simplify import build_analyzer

__all__ = ["share_lane_guards"]


def share_lane_guards(function: Function, whole: Function) -> Function:
    """`function`, a kernel of `whole`, with conditions of vectorized loops that all lanes share."""
    analyzer = build_analyzer(whole)
    for node in walk(function.body):
        if isinstance(node, For):
            analyzer.bind(node.var, Range(node.begin, node.extent))

    def loops(node: Node) -> Node | None:
        if not isinstance(node, For) or node.kind is not LoopKind.VECTORIZED or not isinstance(node.extent, IntImm):
            return None
        lane, lanes = node.var, node.extent.value
        begins = isinstance(node.begin, IntImm) and node.begin.value == 0
        if not begins:  # another begin moves the lanes against the multiples
            return None
        plain = rewrite(node, lambda inner: _merge(inner, analyzer))
        return rewrite(plain, lambda inner: _share_comparison(inner, lane, lanes, analyzer))

    return function.with_body(rewrite(function.body, loops))


def _merge(node: Node, analyzer: Analyzer) -> Expr | None:
    """A choice within choices as one, of conditions that the others do not imply."""
    if not isinstance(node, IfThenElse) or not isinstance(node.false_value, (IntImm, FloatImm)):
        return None
    conditions: list[Expr] = []
    value: Expr = node
    while isinstance(value, IfThenElse) and structural_key(value.false_value) == structural_key(node.false_value):
        conditions += conjuncts(value.condition)
        value = value.true_value
    read = (each for condition in conditions for each in walk(condition) if isinstance(each, (BufferLoad, Call)))
    if value is node.true_value or any(True for _ in read):  # a read may be guarded by the condition before it
        return None
    return IfThenElse(conjunction(*_strictest(conditions, analyzer)), value, node.false_value)


def _strictest(conditions: list[Expr], analyzer: Analyzer) -> list[Expr]:
    """The conditions, without those that another implies: of limits of one sum the strictest, of what is said twice once."""
    kept: dict[object, tuple[int, Expr]] = {}
    for condition in conditions:
        form = _bound_by_zero(condition, analyzer)
        key, slack = (structural_key(condition), 0) if form is None else (form.key, form.const)
        # of limits of one sum, that with the least slack implies the others
        if key not in kept or slack < kept[key][0]:
            kept.pop(key, None)
            kept[key] = slack, condition
    return [condition for _, condition in kept.values()]


def _bound_by_zero(condition: Expr, analyzer: Analyzer) -> LinearForm | None:
    """Return the expression that is 0 or more where a comparison of integers holds; None of anything else, and of sums that may wrap."""
    if not isinstance(condition, (LT, LE, GT, GE)):
        return None
    less, more = (condition.a, condition.b) if isinstance(condition, (LT, LE)) else (condition.b, condition.a)
    low, high = analyzer.linear(less), analyzer.linear(more)
    return (
        None if low is None or high is None else high.plus(low, -1).shift(-1 if isinstance(condition, (LT, GT)) else 0)
    )


def _share_comparison(node: Node, lane: Var, lanes: int, analyzer: Analyzer) -> Expr | None:
    """A comparison by its first lane, where the others say the same."""
    if (
        not isinstance(node, (LT, LE, GT, GE))
        or not node.a.dtype.is_integer
        or not any(each is lane for each in walk(node))
    ):
        return None
    if any(isinstance(each, (BufferLoad, Call)) for each in walk(node)):
        return None
    less = node.b - node.a if isinstance(node, (LT, LE)) else node.a - node.b  # must be above 0, or not below
    forms = [analyzer.linear(each) for each in (less, node.a, node.b)]
    form = forms[0]
    if form is None or None in forms:  # a sum that wraps may be in range again
        return None  # a sum that may wrap says nothing of how far the limit is
    step = form.coefficient(lane)
    # lanes that are not neighbours pass the limit at several places
    if abs(step) != 1 or any(lane in free_vars(atom) for atom in form.coeffs if atom is not lane):
        return None
    first = analyzer.simplify(substitute(less, {lane: const(0, lane.dtype)}))
    # how far the first lane lies below the limit, or above it, counted so that whole vectors end there
    strict = first if isinstance(node, (LT, GT)) else first + 1
    if step == 1:
        strict = first + (lanes - 1 if isinstance(node, (LT, GT)) else lanes)
    modular = analyzer.modular(analyzer.simplify(strict))
    # the limit is not a multiple of the lanes away: it may lie within a vector
    if modular.coeff % lanes or modular.base % lanes:
        return None
    return substitute(node, {lane: const(0, lane.dtype)})
