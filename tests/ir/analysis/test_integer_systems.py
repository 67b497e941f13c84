"""Systems of linear equations and inequalities: solved, and tried on every point of a box."""

from __future__ import annotations

import itertools
from typing import Any

import drawn
import pytest
from tilewright import te
from tilewright.compat import tvm
from tilewright.compat.tvm import arith, tir
from tilewright.ir.analysis.integer_systems import Constraints, Transform, deskew, solve_equations, solve_inequalities
from tilewright.ir.arith import Analyzer
from tilewright.ir.expr import Expr, IntImm, Range, Var
from tilewright.ir.visit import substitute

x, y, z = te.var("x"), te.var("y"), te.var("z")
equal = tvm.testing.assert_prim_expr_equal


def value(expr: Expr, at: dict[Var, int]) -> int:
    found = Analyzer().simplify(substitute(expr, {var: IntImm(number, var.dtype) for var, number in at.items()}))
    assert isinstance(found, IntImm), found
    return found.value


def box(ranges: dict[Var, Range]) -> list[dict[Var, int]]:
    """Its points."""
    sides = [range(value(within.begin, {}), value(within.begin + within.extent, {})) for within in ranges.values()]
    return [dict(zip(ranges, point, strict=True)) for point in itertools.product(*sides)]


def holds(system: Constraints, at: dict[Var, int]) -> bool:
    inside = all(
        value(within.begin, at) <= at[var] < value(within.begin + within.extent, at)
        for var, within in system.ranges.items()
    )
    return inside and all(value(relation, at) for relation in system.relations)


def test_a_unique_solution_leaves_no_variable() -> None:
    solution = arith.solve_linear_equations([tir.EQ(x + y, 20), tir.EQ(x - y, 10)], [x, y])
    assert list(solution.dst.variables) == [] and list(solution.dst.relations) == []
    equal(solution.src_to_dst[x], 15)
    equal(solution.src_to_dst[y], 5)


def test_fewer_equations_than_variables_leave_free_ones() -> None:
    solution = arith.solve_linear_equations([tir.EQ(x + y + z, 15), tir.EQ(x + y, 10)], [x, y, z])
    (n,) = solution.dst.variables
    equal(solution.src_to_dst[x], n + 10)
    equal(solution.src_to_dst[y], -n)
    equal(solution.src_to_dst[z], 5)
    equal(substitute(solution.dst_to_src[n], solution.src_to_dst), n)


def test_where_the_free_variables_lie_follows_from_where_the_old_ones_do() -> None:
    ranges = {x: Range(*map(te.const, (-5, 10))), y: Range(*map(te.const, (0, 10)))}
    solution = arith.solve_linear_equations(tir.EQ(x + y, 0), [x, y], ranges)
    (n,) = solution.dst.variables
    equal(solution.src_to_dst[x], n)
    equal(solution.src_to_dst[y], -n)
    equal(solution.dst.ranges[n].min, -9)
    equal(solution.dst.ranges[n].extent, 10)
    (relation,) = solution.dst.relations
    assert str(relation) == f"-5 <= {n}"


def test_equations_that_exclude_each_other_have_no_solution() -> None:
    for equations in ([tir.EQ(x + y, 0), tir.EQ(x + y, 10)], [tir.EQ(x * 2, 5)]):
        solution = arith.solve_linear_equations(equations, [x, y])
        assert [str(relation) for relation in solution.dst.relations] == ["False"] and list(
            solution.dst.variables
        ) == []


def test_symbols_that_are_no_variables_stay_in_the_solution() -> None:
    n = te.var("n")
    solution = arith.solve_linear_equations([tir.EQ(x * 3 + y, n * 3 + 1), tir.EQ(y, 1), tir.EQ(x * x, 4)], [x, y])
    equal(solution.src_to_dst[x], n)
    assert len(solution.dst.relations) == 1, "what is not linear is a condition on the result"


def drawn_system(rng: Any, equations: bool) -> Constraints:
    ranges = {var: Range(te.const(int(rng.integers(-4, 2))), te.const(int(rng.integers(1, 8)))) for var in (x, y, z)}
    relations: list[Expr] = []
    for _ in range(int(rng.integers(1, 4))):
        a, b, c, d = (int(number) for number in rng.integers(-3, 4, 4))
        left = x * a + y * b + z * c
        relations.append(tir.EQ(left, d) if equations else left <= d)
    return Constraints((x, y, z), ranges, tuple(relations))


def same(transform: Transform, points: list[dict[Var, int]]) -> None:
    """Every point that satisfies the one system stands for one of the other, and back."""
    for at in points:
        if not holds(transform.src, at):
            continue
        there = {var: value(expr, at) for var, expr in transform.dst_to_src.items()}
        assert holds(transform.dst, there), (transform, at)
        assert {var: value(expr, there) for var, expr in transform.src_to_dst.items()} == at


@pytest.mark.parametrize("number", range(drawn.count(6, 200)))
def test_solutions_of_equations_are_those_of_the_box(number: int) -> None:
    system = drawn_system(drawn.rng(f"equations {number}"), equations=True)
    solution = solve_equations(system)
    points = box(dict(system.ranges))
    same(solution, points)
    for at in box(dict(solution.dst.ranges)) if len(solution.dst.ranges) == len(solution.dst.variables) else ():
        if holds(solution.dst, at):
            assert holds(system, {var: value(expr, at) for var, expr in solution.src_to_dst.items()}), (system, at)


@pytest.mark.parametrize("number", range(drawn.count(4, 200)))
def test_bounds_of_inequalities_hold_every_solution_of_the_box(number: int) -> None:
    system = drawn_system(drawn.rng(f"inequalities {number}"), equations=False)
    solved, moved = solve_inequalities(system), deskew(system)
    same(moved, box(dict(system.ranges))[::3])
    for at in box(dict(system.ranges))[::3]:
        assert not holds(system, at) or holds(solved, at), (system, solved, at)


def test_bounds_in_the_variables_after_it() -> None:
    ranges = {x: tvm.ir.Range(-100, 100), y: tvm.ir.Range(0, 10)}
    solved = arith.solve_linear_inequalities([x + y <= 20, x - y >= 10], [x, y], ranges)
    assert not solved.relations
    for within, begin, extent in ((solved.ranges[x], y + 10, 11 - 2 * y), (solved.ranges[y], 0, 6)):
        equal(within.min, begin)
        equal(within.extent, extent)
    nothing = arith.solve_linear_inequalities([x <= 1, x >= 2], [x])
    assert [str(relation) for relation in nothing.relations] == ["False"]
    half = arith.solve_linear_inequalities([x * 2 >= 5], [x])
    assert not half.ranges and [str(relation) for relation in half.relations] == [str(x >= 3)]
