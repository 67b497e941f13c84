"""tvm.arith."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Any, NamedTuple

from ...base.arguments import to_list
from ...ir import DType, Expr, Range, Var, free_vars, ops
from ...ir.analysis import iterators, mixed_radix, subspaces
from ...ir.analysis.bounds import symbolic_bounds
from ...ir.analysis.integer_systems import Constraints as IntConstraints
from ...ir.analysis.integer_systems import Transform as IntConstraintsTransform
from ...ir.analysis.integer_systems import deskew, solve_equations, solve_inequalities
from ...ir.analysis.mixed_radix import IterMark
from ...ir.analysis.mixed_radix import IterSplit as IterSplitExpr
from ...ir.analysis.mixed_radix import IterSum as IterSumExpr
from ...ir.analysis.region_cover import covered_box
from ...ir.analysis.solved_bound import collect_coefficients, solved_bound
from ...ir.arith import Analyzer as _Analyzer
from ...ir.arith.modular import Modular
from ...ir.ops import integer_value

__all__ = [
    "Analyzer",
    "ConstIntBound",
    "IntConstraints",
    "IntConstraintsTransform",
    "IntSet",
    "IntervalSet",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "ModularSet",
    "deduce_bound",
    "detect_iter_map",
    "detect_linear_equation",
    "estimate_region_lower_bound",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "neg_inf",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "pos_inf",
    "solve_linear_equations",
    "solve_linear_inequalities",
    "subspace_divide",
]

ModularSet = Modular
_NEG_INF, _POS_INF = Var("neg_inf", DType("int64")), Var("pos_inf", DType("int64"))


class ConstIntBound(NamedTuple):
    """The least and the greatest value that an expression may have; ±(2**63 - 1) where nothing bounds it."""

    min_value: int
    max_value: int

    POS_INF = 2**63 - 1
    NEG_INF = -(2**63 - 1)


def neg_inf() -> Var:
    """Return the infinite lower end of a set."""
    return _NEG_INF


def pos_inf() -> Var:
    """Return the infinite upper end of a set."""
    return _POS_INF


class IntSet:
    """tvm.arith.IntSet: a set of integers, which here is an interval."""

    min_value: Expr
    max_value: Expr

    @staticmethod
    def vector(vec: Any) -> IntervalSet:
        """Return the lanes of a ramp."""
        return IntervalSet(vec.base, vec.base + vec.stride * (vec.dtype.lanes - 1))

    @staticmethod
    def single_point(point: Any) -> IntervalSet:
        """One value."""
        return IntervalSet(point, point)

    def is_everything(self) -> bool:
        """Return whether neither end is bounded."""
        return self.min_value is _NEG_INF and self.max_value is _POS_INF

    def is_nothing(self) -> bool:
        """Return whether it is surely empty."""
        if self.min_value is _POS_INF or self.max_value is _NEG_INF:
            return True
        open_ended = self.min_value is _NEG_INF or self.max_value is _POS_INF
        return not open_ended and _Analyzer().can_prove(self.max_value < self.min_value)


class IntervalSet(IntSet):
    """The integers from min_value to max_value, both included; either may be an expression."""

    def __init__(self, min_value: Any, max_value: Any) -> None:
        self.min_value, self.max_value = ops.convert(min_value), ops.convert(max_value)

    def __repr__(self) -> str:
        return f"IntervalSet[{self.min_value}, {self.max_value}]"


class Analyzer(_Analyzer):
    """Our analyzer with TVM's names beside its own."""

    def bind(self, var: Var, value: Any) -> None:
        """`var` lies in a range or equals an expression, also an integer."""
        super().bind(var, ops.const(value, var.dtype) if isinstance(value, int) else value)

    def update(self, var: Var, info: ConstIntBound, override: bool = False) -> None:
        """`var` lies within known bounds."""
        del override
        super().bind(var, (info.min_value, info.max_value))

    def const_int_bound(self, expr: Expr) -> ConstIntBound:
        """Bounds of the value of an integer expression."""
        lo, hi = self.interval(expr)
        return ConstIntBound(ConstIntBound.NEG_INF if lo is None else lo, ConstIntBound.POS_INF if hi is None else hi)

    def int_set(self, expr: Expr, dom_map: Mapping[Var, IntervalSet] | None = None) -> IntervalSet:
        """The interval that `expr` stays in while the variables of `dom_map` run over their sets; its ends are expressions of
        the others."""
        within = self.copy()
        for var, domain in (dom_map or {}).items():
            lo, hi = domain.min_value, domain.max_value
            if lo is _NEG_INF or hi is _POS_INF:
                within.bind(var, (integer_value(lo), integer_value(hi)))
            else:
                within.bind(var, Range(lo, hi - lo + 1))
        lo, hi = symbolic_bounds(within, expr, dom_map or {})
        return IntervalSet(_NEG_INF if lo is None else lo, _POS_INF if hi is None else hi)

    def modular_set(self, expr: Expr) -> Modular:
        """.coeff and .base: the expression is base + k * coeff."""
        return self.modular(expr)

    def constraint_scope(self, constraint: Expr) -> AbstractContextManager[None]:
        """Assume the constraint within a `with` block."""
        return self.constraint(constraint)

    def rewrite_simplify(self, expr: Expr) -> Expr:
        """Simplify, as `simplify` does."""
        return self.simplify(expr)

    canonical_simplify = rewrite_simplify

    def can_prove_greater_equal(self, expr: Expr, lower_bound: int) -> bool:
        """Return whether expr >= lower_bound is proved."""
        return self.can_prove(expr >= lower_bound)

    def can_prove_less(self, expr: Expr, upper_bound: int) -> bool:
        """Return whether expr < upper_bound is proved."""
        return self.can_prove(expr < upper_bound)


def detect_linear_equation(expr: Expr, var_list: Sequence[Var]) -> list[Expr]:
    """The coefficient of each variable and then the rest, [c0, c1, ..., base]: expr = c0 * var_list[0] + ... + base. Empty
    where it is no such sum."""
    over = set(var_list)
    form = collect_coefficients(expr, over)
    return [] if form is None else [form.get(var, ops.const(0, expr.dtype)) for var in (*var_list, None)]


def deduce_bound(
    var: Var,
    cond: Expr,
    hint_map: Mapping[Var, IntervalSet],
    relax_map: Mapping[Var, IntervalSet],
) -> IntervalSet:
    """The values of `var` for which the comparison holds, for all values of the variables in relax_map; nothing where there are
    none, or where it is not linear in `var`. hint_map: what coefficients lie within."""
    analyzer = Analyzer()
    for each, domain in {**hint_map, **relax_map}.items():
        analyzer.bind(each, (integer_value(domain.min_value), integer_value(domain.max_value)))
    found = solved_bound(var, cond, analyzer, relax_map)
    if found is None:
        return IntervalSet(_POS_INF, _NEG_INF)
    low, high = found
    return IntervalSet(_NEG_INF if low is None else low, _POS_INF if high is None else high)


def estimate_region_lower_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: Any = True,
) -> list[IntervalSet] | None:
    """Return a region that is covered for all values of the variables: the box of it, where every dimension moves by variables of its
    own and leaves nothing out; None where that is not so."""
    if not isinstance(predicate, bool) and not _Analyzer().can_prove(predicate) or predicate is False:
        return None
    boxes = covered_box(region, var_dom)
    return None if boxes is None else [IntervalSet(low, high) for low, high in boxes]


def solve_linear_equations(
    equations: Any,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
) -> IntConstraintsTransform:
    """The variables in fewer, free ones, for which the equations hold: of one or several, or of IntConstraints."""
    return solve_equations(_system(equations, variables, ranges))


def solve_linear_inequalities(
    equations: Any,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
    deskew_range: bool = False,
) -> IntConstraints | IntConstraintsTransform:
    """Each variable within bounds in those after it; with deskew_range, by variables of their own that begin at 0."""
    system = _system(equations, variables, ranges)
    return deskew(system) if deskew_range else solve_inequalities(system)


def _system(relations: Any, variables: Sequence[Var] | None, ranges: Mapping[Var, Range] | None) -> IntConstraints:
    if isinstance(relations, IntConstraints):
        return relations
    conditions = to_list(relations)
    found = list(dict.fromkeys(var for condition in conditions for var in free_vars(condition)))
    return IntConstraints(tuple(found if variables is None else variables), ranges or {}, tuple(conditions))


class IterMapLevel(IntEnum):
    """Demands on a map: that no two iterations share a value, that every value is reached, or nothing."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3


class IterMapResult(list[IterSumExpr]):
    """The sums of detect_iter_map, empty where the indices are no map; also by the name that later releases gave them."""

    @property
    def indices(self) -> list[IterSumExpr]:
        """The sums."""
        return list(self)

    @property
    def errors(self) -> list[str]:
        """Reasons for which there are none."""
        return [] if self else ["the indices are not sums of digits of the iterators that move independently"]

    @property
    def padding_predicate(self) -> Expr:
        """Never: nothing is padded."""
        return ops.const(False)


def _is_bijective(require_bijective: bool, check_level: Any) -> bool:
    names = {level.name.lower(): level for level in IterMapLevel}
    level = names.get(check_level.lower()) if isinstance(check_level, str) else check_level
    return require_bijective or level == IterMapLevel.Bijective


def _condition(predicate: Any) -> Expr | None:
    return None if predicate is True else ops.truth(predicate)


def detect_iter_map(
    indices: Any,
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    require_bijective: bool = False,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """Each index as a sum of digits of the iterators, all of which move independently; empty where they are no such map."""
    del simplify_trivial_iterators
    if check_level == IterMapLevel.NoCheck or check_level == "nocheck":
        sums = [iterators.digits(ops.convert(index), input_iters) for index in to_list(indices)]
        return IterMapResult(each for each in sums if each is not None) if None not in sums else IterMapResult()
    bijective = _is_bijective(require_bijective, check_level)
    return IterMapResult(
        iterators.detect([*map(ops.convert, to_list(indices))], input_iters, _condition(predicate), bijective)
    )


def normalize_to_iter_sum(index: Expr, input_iters: Mapping[Var, Range]) -> IterSumExpr:
    """The index as a sum of digits of the iterators, the greatest scale first; what is none is part of the base."""
    found = iterators.digits(index, input_iters)
    return IterSumExpr((), index) if found is None else found


def normalize_iter_map_to_expr(expr: Any) -> Expr:
    """The expression of a sum of digits."""
    return mixed_radix.normalize(expr)


def iter_map_simplify(
    indices: Sequence[Expr],
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[Expr]:
    """The indices in the form of the map that they are, or as they were where they are none."""
    found = detect_iter_map(indices, input_iters, predicate, False, check_level, simplify_trivial_iterators)
    return [_Analyzer().simplify(mixed_radix.normalize(each)) for each in found] or list(indices)


def subspace_divide(
    bindings: Sequence[Expr],
    input_iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: Any = True,
    require_bijective: bool = False,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[tuple[IterMark, IterMark]]:
    """Each index as an iterator outside and one of sub_iters, then the conditions of either as extents; empty where it is none."""
    del simplify_trivial_iterators
    bijective = _is_bijective(require_bijective, check_level)
    return subspaces.subspace_divide(
        [*map(ops.convert, bindings)], input_iters, sub_iters, _condition(predicate), bijective
    )


def inverse_affine_iter_map(iter_map: Sequence[IterSumExpr], outputs: Sequence[Expr]) -> dict[Var, Expr]:
    """The iterators by the values of the indices of a bijective map."""
    return mixed_radix.inverse(iter_map, outputs)
