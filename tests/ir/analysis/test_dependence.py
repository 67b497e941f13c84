"""Dependences of drawn accesses against every pair of iterations of small loops; answers of known programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product

import drawn
import pytest
from tilewright.ir.analysis.dependence import Dependence, Iterations, Meets, accesses_of
from tilewright.ir.analysis.dependence.equations import solve
from tilewright.ir.arith.analyzer import Analyzer
from tilewright.ir.arith.interval import Interval
from tilewright.ir.arith.linear import LinearForm
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import INT32
from tilewright.ir.expr import BufferLoad, Expr, Range, Var
from tilewright.ir.ops import const, minimum
from tilewright.ir.stmt import For
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import walk

NEVER, UNKNOWN = Dependence(Meets.NEVER), Dependence(Meets.MAYBE)
ALWAYS = Dependence(Meets.ALWAYS)


def always(distance: int) -> Dependence:
    return Dependence(Meets.ALWAYS, distance)


def maybe(distance: int) -> Dependence:
    return Dependence(Meets.MAYBE, distance)


# Equations


def test_equations_leave_the_solutions_within_the_bounds() -> None:
    narrowed = 0
    for case in range(drawn.count(300, 20_000)):
        rng = drawn.rng("equations", case)
        names = "abcd"[: rng.integers(1, 5)]
        bounds = {
            ("x", name): Interval(int(low := rng.integers(-4, 2)), int(low + rng.integers(0, 6))) for name in names
        }
        equations = [
            LinearForm({unknown: int(factor) for unknown in bounds if (factor := rng.integers(-9, 10))}, int(constant))
            for constant in rng.integers(-12, 13, rng.integers(1, 3))
        ]
        points = [
            dict(zip(bounds, values, strict=True))
            for values in product(*(range(b.lo, b.hi + 1) for b in bounds.values()))
        ]
        solutions = [
            at
            for at in points
            if all(
                sum(factor * at[unknown] for unknown, factor in equation.coeffs.items()) + equation.const == 0
                for equation in equations
            )
        ]
        answer = solve(equations, bounds)
        if answer is None:
            assert not solutions, (equations, bounds, drawn.SEED, case)
        else:
            assert all(at[unknown] in answer[unknown] for at in solutions for unknown in at), (
                equations,
                bounds,
                drawn.SEED,
                case,
            )
            narrowed += answer != bounds
    assert narrowed > 10


@pytest.mark.parametrize(
    "terms, constant, bounds, expected",
    [
        ({"d": 16, "e": 1}, 0, {"d": (-3, 3), "e": (-15, 15)}, {"d": (0, 0), "e": (0, 0)}),  # digits
        ({"d": 16, "e": 1}, 0, {"e": (-15, 15)}, {"d": (0, 0), "e": (0, 0)}),  # the greatest has no bounds
        ({"d": 2, "e": 4}, 1, {}, None),  # an odd constant
        ({"d": 1}, 20, {"d": (-15, 15)}, None),  # out of reach
        (
            {"x": 1, "y": 4, "z": 13},
            0,
            {"x": (-1, 1), "y": (-2, 2), "z": (-3, 3)},
            {"x": (0, 0), "y": (0, 0), "z": (0, 0)},
        ),
        ({"d": 4, "e": 1}, -9, {"e": (0, 3)}, {"d": (2, 2), "e": (1, 1)}),
    ],
)
def test_an_equation_is_taken_apart(terms: dict, constant: int, bounds: dict, expected: dict | None) -> None:
    answer = solve(
        [LinearForm({("", name): factor for name, factor in terms.items()}, constant)],
        {("", name): Interval(*ends) for name, ends in bounds.items()},
    )
    assert answer == (None if expected is None else {("", name): Interval(*ends) for name, ends in expected.items()})


# Every pair of iterations


@dataclass(frozen=True)
class Question:
    """A drawn question. shared, loop, own: variables with their ranges, which may speak of what stands before."""

    shared: dict[Var, Range]
    loop: dict[Var, Range]
    own: dict[Var, Range]
    first: tuple[Expr, ...]
    second: tuple[Expr, ...]

    def answer(self) -> Dependence:
        analyzer = Analyzer()
        for var, within in (*self.shared.items(), *self.loop.items(), *self.own.items()):
            if isinstance(within.extent, Var):
                analyzer.bind(within.extent, (0, None))
            analyzer.bind(var, within)
        iterations = Iterations(next(iter(self.loop)), {**self.loop, **self.own}, shared=self.shared, analyzer=analyzer)
        return iterations.between(self.first, self.second)


def value(expr: Expr, at: dict[str, int]) -> int:
    return eval(str(expr), {"min": min, "max": max}, at)  # integers: written as Python writes them


def places(ranges: dict[Var, Range], at: dict[str, int]):
    """Every assignment of the variables, on top of `at`."""
    if not ranges:
        yield at
        return
    (var, within), *rest = ranges.items()
    begin = value(within.begin, at)
    for i in range(begin, begin + max(value(within.extent, at), 0)):
        yield from places(dict(rest), {**at, var.name: i})


def drawn_index(rng, variables: list[Var]) -> Expr:
    index: Expr = const(int(rng.integers(0, 5)) if rng.random() < 0.4 else 0)
    for var in variables:
        if rng.random() < 0.7:
            index = index + var * int(rng.choice([1, 1, 2, 3, 4, 8, -1]))
    kind = rng.random()
    if kind < 0.12:
        return index % int(rng.integers(2, 9))
    return index // int(rng.integers(2, 5)) if kind < 0.2 else index


def drawn_question(case: int, symbol: Var | None) -> Question:
    rng = drawn.rng("dependence", case)
    loop, shared, j, k = (Var(name) for name in ("i", "s", "j", "k"))

    def extent() -> Expr:
        return const(int(rng.integers(1, 5)))

    ranges = {j: Range(const(int(rng.integers(0, 3))), extent())}
    if rng.random() < 0.5:
        kind = rng.random()
        begin = const(0) if kind < 0.4 else j * 2 if kind < 0.6 else shared + 1 if kind < 0.8 else loop * 1
        ranges[k] = Range(begin, symbol if symbol is not None else extent())
    around, over = {shared: Range(const(0), extent())}, {loop: Range(const(int(rng.integers(0, 2))), extent())}
    variables = [shared, loop, *ranges, *([symbol] if symbol is not None else [])]
    if rng.random() < 0.2:  # a fused index taken apart
        fused, size = (
            sum((var * int(rng.choice([1, 2, 4])) for var in (loop, *ranges)), const(0)),
            int(rng.integers(2, 6)),
        )
        first: tuple[Expr, ...] = (fused // size, fused % size)
    else:
        first = tuple(drawn_index(rng, variables) for _ in range(rng.integers(1, 3)))
    alike = rng.random()
    second = (
        first
        if alike < 0.3
        else tuple(index + int(rng.integers(-3, 6)) for index in first)
        if alike < 0.5
        else tuple(drawn_index(rng, variables) for _ in first)
    )
    return Question(around, over, ranges, first, second)


def truth(question: Question, at: dict[str, int]) -> tuple[Counter, Counter]:
    """For each distance, how many pairs of iterations meet, and how many there are."""
    meeting, pairs = Counter(), Counter()
    for around in places(question.shared, at):
        both = list(places({**question.loop, **question.own}, around))
        first, second = (
            [tuple(value(index, one) for index in indices) for one in both]
            for indices in (question.first, question.second)
        )
        for (one, a), (other, b) in product(zip(both, first, strict=True), zip(both, second, strict=True)):
            pairs[other["i"] - one["i"]] += 1
            meeting[other["i"] - one["i"]] += a == b
    return meeting, pairs


def check(question: Question, answer: Dependence, at: dict[str, int], where: object) -> bool:
    """Whether different iterations do meet; raises where the answer is not true."""
    meeting, pairs = truth(question, at)
    if answer.meets is Meets.NEVER:
        assert not meeting.total(), (question, where)
    elif answer.distance is not None:
        assert all(not number for distance, number in meeting.items() if distance != answer.distance), (question, where)
        assert answer.meets is Meets.MAYBE or meeting[answer.distance] == pairs[answer.distance], (question, where)
    else:
        assert answer.meets is Meets.MAYBE or meeting == pairs, (question, where)
    return any(number for distance, number in meeting.items() if distance)


def test_answers_hold_for_every_pair_of_iterations() -> None:
    tally = Counter()
    for case in range(drawn.count(200, 20_000)):
        question = drawn_question(case, None)
        answer = question.answer()
        carried = check(question, answer, {}, (answer, drawn.SEED, case))
        tally[answer.meets, answer.distance is None, carried] += 1
    independent = sum(number for (*_, carried), number in tally.items() if not carried)
    unknown = tally[Meets.MAYBE, True, False]
    print(
        f"{tally.total()} questions: {independent} of independent iterations, of which {unknown} are not proved",
        dict(tally),
    )
    assert unknown < 0.2 * independent
    answers = (drawn_question(case, None).answer() for case in range(5_000))
    assert any(answer.meets is Meets.ALWAYS and answer.distance is not None for answer in answers), "one of a hundred"


def test_answers_hold_for_every_value_of_a_symbol() -> None:
    for case in range(drawn.count(60, 5_000)):
        symbol = Var("n")
        question = drawn_question(case, symbol)
        answer = question.answer()
        for size in range(4):
            check(question, answer, {"n": size}, (answer, size, drawn.SEED, case))


# Known answers

i, j, s, n = (Var(name) for name in "ijsn")


@pytest.mark.parametrize(
    "first, second, expected",
    [
        ((i,), (i,), always(0)),
        ((i,), (i - 1,), always(1)),
        ((i + 2,), (i,), always(2)),
        ((i,), (i + 64,), NEVER),
        ((s,), (s,), ALWAYS),
        ((s,), (s + 1,), NEVER),
        ((s,), (n,), UNKNOWN),
        ((i * 16 + j,), (i * 16 + j,), maybe(0)),
        ((i * 16 + j,), (i * 16 + j - 16,), maybe(1)),
        ((i * 8 + j,), (i * 8 + j,), UNKNOWN),
        ((i * 2,), (i * 2 + 1,), NEVER),
        ((i + j, j), (i + j, j), maybe(0)),
        ((i // 16, i % 16), (i // 16, i % 16), maybe(0)),
        ((i // 16, i % 16), (i // 8, i % 8), UNKNOWN),  # 16 and 8 are at [1, 0]
        ((n * 4 + i,), (i + 4 * n,), always(0)),
        ((j, s % 2), (j, (s + 1) % 2), NEVER),  # halves that take turns
        ((i % 64,), (i % 64,), maybe(0)),
        ((i % 8,), (i % 8,), UNKNOWN),
        ((i * n,), (i * n,), UNKNOWN),
        ((i * 3,), (i,), UNKNOWN),
        ((i * 3,), (i + 200,), NEVER),
    ],
)
def test_known_answers(first: tuple, second: tuple, expected: Dependence) -> None:
    own = {i: Range(const(0), const(64)), j: Range(const(0), const(16))}
    assert Iterations(i, own).between(first, second) == expected


def test_ranges_that_are_symbols() -> None:
    own = {i: Range(const(0), n), j: Range(const(0), minimum(n - s * 16, 16))}
    positive = Analyzer()
    positive.bind(n, (0, None))
    for var, within in own.items():
        positive.bind(var, within)
    assert Iterations(i, own, analyzer=positive).between((i * 16 + j,), (i * 16 + j,)) == maybe(0)
    assert Iterations(i, own, analyzer=positive).between((i,), (i + n,)) == NEVER


def test_what_is_read_from_memory_is_each_iterations_own() -> None:
    table = Buffer("table", (const(64),), INT32)
    at = BufferLoad(table, (s,))
    own = {i: Range(const(0), const(64))}
    assert Iterations(i, own).between((at * 64 + i,), (at * 64 + i,)) == UNKNOWN
    assert Iterations(i, own, constant=[table]).between((at * 64 + i,), (at * 64 + i,)).distance == 0


def test_accesses_of_a_statement() -> None:
    function = parse("""
def f(A: float32[64], B: int32[64], C: out float32[64]):
    for i in vectorized(8):
        t: int32 = i * 8
        for j in 8:
            u: int32 = B[j]
            C[t + j] = A[t + j] + A[u]
""")
    loop = next(node for node in walk(function.body) if isinstance(node, For))
    accesses = accesses_of(loop.body)
    (stored,) = accesses.stored.values()
    assert [str(index) for (index,) in stored] == ["i * 8 + j"]
    assert [within is None for within in accesses.bound.values()] == [False, True] and not accesses.opaque
    own = {loop.var: Range(loop.begin, loop.extent), **accesses.bound}
    assert accesses.meeting(Iterations(loop.var, own)) is None
    assert accesses.meeting(Iterations(loop.var, {**own, **dict.fromkeys(accesses.bound)})) is not None
