"""Systems of linear equations and inequalities over integer variables, solved for them.

Equations: by column operations without fractions (as for Hermite's normal form), which give the variables as sums of fewer, free
ones. Inequalities: by elimination of one variable after the other (Fourier and Motzkin), which gives each variable bounds in those
after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base import dataclass, field
from ..arith import Analyzer, LinearForm
from ..arith.linear import single
from ..expr import EQ, GE, GT, LE, LT, Expr, Range, Var
from ..ops import const, floordiv, floormod, maximum, minimum
from ..visit import substitute
from .linear import expression, linear, occurs

__all__ = ["Constraints", "Transform", "deskew", "solve_equations", "solve_inequalities"]


@dataclass(frozen=True)
class Constraints:
    """Variables, what is known of where they lie, and conditions that hold beside."""

    variables: Sequence[Var]
    ranges: Mapping[Var, Range] = field(default_factory=dict[Var, Range])
    relations: Sequence[Expr] = ()


@dataclass(frozen=True)
class Transform:
    """One system as another: src_to_dst gives each variable of `src` in those of `dst`, dst_to_src the other way."""

    src: Constraints
    dst: Constraints
    src_to_dst: Mapping[Var, Expr]
    dst_to_src: Mapping[Var, Expr]


# Equations


class _Columns:
    """The coefficients of equations, in columns that are added to each other until each equation determines one more. values: of
    the first ones. rows, basis, inverse: of what the columns stand for now, in the old variables and back."""

    def __init__(self, rows: list[list[int]], size: int) -> None:
        self.rows = rows
        self.basis = [[int(i == j) for j in range(size)] for i in range(size)]
        self.inverse = [row[:] for row in self.basis]
        self.values: list[LinearForm] = []

    def add(self, source: int, target: int, factor: int) -> None:
        """target += factor * source."""
        for row in (*self.rows, *self.basis):  # the inverse is kept alongside, so that no matrix has to be inverted
            row[target] += factor * row[source]
        for at, value in enumerate(self.inverse[target]):
            self.inverse[source][at] -= factor * value

    def swap(self, a: int, b: int) -> None:
        """Exchanges two columns."""
        for row in (*self.rows, *self.basis):
            row[a], row[b] = row[b], row[a]
        self.inverse[a], self.inverse[b] = self.inverse[b], self.inverse[a]

    def negate(self, at: int) -> None:
        """Negate the sign of one."""
        for row in (*self.rows, *self.basis):
            row[at] = -row[at]
        self.inverse[at] = [-value for value in self.inverse[at]]

    def known(self, row: Sequence[int]) -> LinearForm:
        """Return the value of a row for the columns that are determined."""
        total = LinearForm({})
        for factor, value in zip(row, self.values, strict=False):
            total = total.plus(value, factor)
        return total


def solve_equations(src: Constraints) -> Transform:
    """The variables in fewer, free ones, for which the equations among the relations hold. Where they hold for none, the relation
    of the result is false. Relations that are no linear equations stay."""
    variables, forms, others = list(src.variables), list[LinearForm](), list[Expr]()
    for relation in src.relations:
        # relations that are no equations are carried over
        form = _form(relation, variables) if isinstance(relation, EQ) else None
        forms += [form] if form is not None else []
        others += [relation] if form is None else []
    columns = _Columns([[form.coefficient(var) for var in variables] for form in forms], len(variables))
    dtype = variables[0].dtype
    for row, form in zip(columns.rows, forms, strict=True):
        rest = LinearForm({atom: factor for atom, factor in form.coeffs.items() if atom not in variables}, form.const)
        left = _determine(columns, row, rest, others, variables)
        if left.is_const and left.const:  # 0 = c with c other than 0: there is no solution
            none = Constraints((), {}, (const(False, "bool"),))
            return Transform(src, none, dict.fromkeys(variables, const(0, dtype)), {})
    first = len(columns.values)
    for at in range(first, len(variables)):
        # free variables grow with the old ones where possible
        if next(row[at] for row in columns.basis if row[at]) < 0:
            columns.negate(at)
    free = [Var(f"n{number}", dtype) for number in range(len(variables) - first)]
    columns.values += [single(var) for var in free]
    analyzer = Analyzer()
    to_new = {
        var: analyzer.simplify(expression(columns.known(row), dtype))
        for var, row in zip(variables, columns.basis, strict=True)
    }
    sums = [
        LinearForm({old: factor for old, factor in zip(variables, row, strict=True) if factor})
        for row in columns.inverse[first:]
    ]
    to_old = {var: analyzer.simplify(expression(form, dtype)) for var, form in zip(free, sums, strict=True)}
    return Transform(src, _carry_facts(src, free, others, to_new, to_old), to_new, to_old)


def _determine(
    columns: _Columns, row: list[int], rest: LinearForm, others: list[Expr], variables: Sequence[Var]
) -> LinearForm:
    """Has an equation determine one more column; what has to be 0 where none is left for it."""
    first = len(columns.values)
    while len(left := [at for at in range(first, len(row)) if row[at]]) > 1:  # Euclid's algorithm on the columns
        least = min(left, key=lambda at: abs(row[at]))
        for at in left:
            if at != least:
                columns.add(least, at, -(row[at] // row[least]))
    total = rest.plus(columns.known(row)).scale(-1)
    dtype = variables[0].dtype
    if not left:
        if not total.is_const:
            others.append(EQ(expression(total, dtype), const(0, dtype)))
        return total
    columns.swap(first, left[0])
    pivot = row[first]
    total = total.scale(1 if pivot > 0 else -1)
    size = abs(pivot)
    if all(factor % size == 0 for factor in (*total.coeffs.values(), total.const)):
        columns.values.append(total.divided(size))
        return LinearForm({})
    if total.is_const:  # not divisible: no integer solution
        return LinearForm({}, 1)
    value = expression(total, dtype)
    # divisibility becomes a condition of its own
    others.append(EQ(floormod(value, const(size, dtype)), const(0, dtype)))
    columns.values.append(linear(floordiv(value, const(size, dtype))))
    return LinearForm({})


def _form(relation: Expr, variables: Sequence[Var]) -> LinearForm | None:
    """The left side less the right one; None where it is not linear in the variables."""
    # only linear conditions take part
    if not isinstance(relation, (EQ, LE, LT, GE, GT)) or not relation.a.dtype.is_integer:
        return None
    form = linear(Analyzer().simplify(relation.a - relation.b))
    return None if any(occurs(var, form) for var in variables) else form


def _carry_facts(
    src: Constraints,
    free: Sequence[Var],
    others: Sequence[Expr],
    to_new: Mapping[Var, Expr],
    to_old: Mapping[Var, Expr],
) -> Constraints:
    """Carry over the facts about the free variables: where they lie, and what else follows from where the old ones do."""
    analyzer, old = Analyzer(), Analyzer()
    for var, within in src.ranges.items():
        old.bind(var, within)
    ranges: dict[Var, Range] = {}
    for var in free:
        low, high = old.interval(to_old[var])
        if low is not None and high is not None and all(var_ in src.ranges for var_ in src.variables):
            ranges[var] = Range(const(low, var.dtype), const(high - low + 1, var.dtype))
            analyzer.bind(var, ranges[var])
    relations = [substitute(relation, to_new) for relation in others]
    for var, within in src.ranges.items():
        if var in to_new:  # the old ranges are conditions on the new variables
            relations += [within.begin <= to_new[var], to_new[var] < within.begin + within.extent]
    kept = [analyzer.simplify(relation) for relation in relations if not analyzer.can_prove(relation)]
    return Constraints(tuple(free), ranges, tuple(kept))


# Inequalities


@dataclass(frozen=True)
class _Bounds:
    """Bounds of a variable: it is at least each of `low` and at most each of `high`, a form over its factor."""

    low: list[tuple[int, LinearForm]]
    high: list[tuple[int, LinearForm]]


def solve_inequalities(src: Constraints) -> Constraints:
    """Each variable within bounds in the variables after it. Where the inequalities hold nowhere, the relation of the result is
    false. Relations that are not linear stay, and so do the bounds of a variable that has them on one side alone."""
    variables = list(src.variables)
    forms, others = list[LinearForm](), list[Expr]()
    bounded = [
        condition
        for var, within in src.ranges.items()
        for condition in (var >= within.begin, var < within.begin + within.extent)
    ]
    for relation in (*src.relations, *bounded):
        form = _form(relation, variables)
        if form is None:
            others.append(relation)
        else:
            forms += _bound_by_zero(relation, form)
    bounds: dict[Var, _Bounds] = {}
    for var in variables:
        bounds[var], forms = _eliminate(var, forms)
    if any(form.is_const and form.const > 0 for form in forms):  # 0 < 0: the inequalities hold nowhere
        return Constraints(tuple(variables), {}, (const(False, "bool"),))
    dtype = variables[0].dtype
    others += [expression(form, dtype) <= const(0, dtype) for form in forms if not form.is_const]
    return _convert_to_ranges(variables, bounds, others)


def deskew(src: Constraints) -> Transform:
    """The same with a variable in the place of each that begins at 0."""
    solved = solve_inequalities(src)
    analyzer, ranges = Analyzer(), dict[Var, Range]()
    to_new: dict[Var, Expr] = {}
    to_old: dict[Var, Expr] = {}
    fresh: list[Var] = []
    for var in reversed(solved.variables):  # later variables first: bounds speak of them
        within = solved.ranges.get(var)
        new = Var(var.name, var.dtype) if within is not None else var
        fresh.insert(0, new)
        to_new[var], to_old[new] = new, var
        if within is not None:
            ranges[new] = Range(const(0, var.dtype), analyzer.simplify(substitute(within.extent, to_new)))
            to_old[new] = analyzer.simplify(var - within.begin)
            to_new[var] = analyzer.simplify(new + substitute(within.begin, to_new))
    relations = tuple(substitute(relation, to_new) for relation in solved.relations)
    moved = Constraints(tuple(fresh), {var: ranges[var] for var in fresh if var in ranges}, relations)
    return Transform(src, moved, to_new, to_old)


def _bound_by_zero(relation: Expr, form: LinearForm) -> list[LinearForm]:
    """The condition as forms that are at most 0."""
    if isinstance(relation, (LE, LT)):
        return [form.shift(int(isinstance(relation, LT)))]  # a < b is a <= b - 1 over integers
    if isinstance(relation, (GE, GT)):
        return [form.scale(-1).shift(int(isinstance(relation, GT)))]
    return [form, form.scale(-1)]


def _eliminate(var: Var, forms: Sequence[LinearForm]) -> tuple[_Bounds, list[LinearForm]]:
    """The bounds of a variable, and what they say of the others together."""
    bounds, rest = _Bounds([], []), dict[tuple[object, int], LinearForm]()
    for form in forms:
        factor = form.coefficient(var)
        if factor > 0:
            bounds.high.append((factor, form.without(var).scale(-1)))
        elif factor < 0:
            bounds.low.append((-factor, form.without(var)))
        else:
            rest[form.key, form.const] = form
    for below, low in bounds.low:
        for above, high in bounds.high:
            form = low.scale(above).plus(high, -below)
            size = form.content  # divided by the common factor, the constant may be rounded
            form = _divide(form, size) if size > 1 else form
            rest[form.key, form.const] = form
    return bounds, list(rest.values())


def _divide(form: LinearForm, size: int) -> LinearForm:
    """Divide a form that is at most 0 by a divisor of its coefficients: the constant is rounded up."""
    return LinearForm({atom: factor // size for atom, factor in form.coeffs.items()}, -(-form.const // size))


def _convert_to_ranges(variables: Sequence[Var], bounds: Mapping[Var, _Bounds], others: Sequence[Expr]) -> Constraints:
    analyzer, ranges, relations = Analyzer(), dict[Var, Range](), list(others)
    for var in reversed(variables):
        low = [_divide_expression(form.shift(factor - 1), factor, var) for factor, form in bounds[var].low]
        high = [_divide_expression(form, factor, var) for factor, form in bounds[var].high]
        if low and high:
            least, most = low[0], high[0]  # several lower bounds: the greatest counts
            for other in low[1:]:
                least = analyzer.simplify(maximum(least, other))
            for other in high[1:]:
                most = analyzer.simplify(minimum(most, other))
            ranges[var] = Range(least, analyzer.simplify(most - least + 1))
            analyzer.bind(var, ranges[var])
        else:
            relations += [*(var >= one for one in low), *(var <= one for one in high)]
    return Constraints(tuple(variables), {var: ranges[var] for var in variables if var in ranges}, tuple(relations))


def _divide_expression(form: LinearForm, factor: int, var: Var) -> Expr:
    value = expression(form, var.dtype)
    return Analyzer().simplify(value if factor == 1 else floordiv(value, const(factor, var.dtype)))
