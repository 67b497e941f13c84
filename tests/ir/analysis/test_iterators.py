"""Maps of iterators: what is accepted is compared with every iteration; what is refused stands in examples."""

from __future__ import annotations

import random
from itertools import product

import pytest
from tilewright import te
from tilewright.ir.analysis.iterators import detect
from tilewright.ir.analysis.mixed_radix import IterSum, inverse, normalize
from tilewright.ir.analysis.subspaces import subspace_divide
from tilewright.ir.expr import Range, Var
from tilewright.ir.ops import const
from tilewright.ir.text.parser import parse_expression


def _drawn(draw: random.Random, extents: dict[str, int]) -> list[tuple[str, int]]:
    """Loops, some of them fused and split, as (text, extent)."""
    pool = list(extents.items())
    for _ in range(draw.randint(0, 3)):
        if draw.random() < 0.5 and len(pool) > 1:
            (a, m), (b, n) = (pool.pop(draw.randrange(len(pool))) for _ in range(2))
            pool.append((f"({a} * {n} + {b})", m * n))
        else:
            text, extent = pool.pop(draw.randrange(len(pool)))
            even = [factor for factor in range(2, extent + 1) if extent % factor == 0] or [3]
            factor = draw.choice(even) if draw.random() < 0.8 else draw.randint(2, 5)
            pool += [(f"({text} // {factor})", -(-extent // factor)), (f"({text} % {factor})", factor)]
    draw.shuffle(pool)
    return pool


@pytest.mark.parametrize("seed", range(3))
def test_what_is_accepted_holds_for_every_iteration(seed: int) -> None:
    draw, accepted = random.Random(seed), 0
    for _ in range(16):
        extents = {name: draw.choice([1, 2, 3, 4, 6, 9]) for name in "xyz"[: draw.randint(1, 3)]}
        pool = _drawn(draw, extents)
        texts = [draw.choice(["{}", "{}", "{} + 3", "{} * 2"]).format(text) for text, _ in pool[: draw.randint(1, 3)]]
        text, extent = draw.choice(pool)
        condition = draw.choice(
            [None, f"{text} < {draw.randint(1, extent)}", f"{text} >= {draw.randint(0, extent - 1)}"]
        )
        accepted += _check(extents, texts, condition, draw)
    assert accepted > 6, "most of what is drawn is a map"


def _check(extents: dict[str, int], texts: list[str], condition: str | None, draw: random.Random) -> bool:
    names = {name: te.var(name) for name in extents}
    ranges = {names[name]: Range(const(0), const(extent)) for name, extent in extents.items()}
    indices = [parse_expression(text, **names) for text in texts]
    given = None if condition is None else parse_expression(condition, **names)
    steps = [dict(zip(names, at, strict=True)) for at in product(*map(range, extents.values()))]
    runs = [step for step in steps if condition is None or eval(condition, dict(step))]
    values = [tuple(eval(text, dict(step)) for text in texts) for step in runs]
    program = (extents, texts, condition)
    if not runs:
        return False
    found = detect(indices, ranges, given)
    assert not found or set(product(*map(_span, found))) == set(values), program
    for each, column in zip(found, zip(*values, strict=True), strict=bool(found)):
        assert [eval(str(normalize(each)), dict(step)) for step in runs] == list(column), program
    exact = detect(indices, ranges, given, bijective=True)
    if exact:
        assert len(set(values)) == len(runs), program
        back = inverse(exact, [te.var(f"o{at}") for at in range(len(texts))])
        for step, value in zip(runs, values, strict=True):
            outputs = {f"o{at}": each for at, each in enumerate(value)}
            assert all(eval(str(expr), dict(outputs)) == step[var.name] for var, expr in back.items()), program
    inside = [name for name in names if draw.random() < 0.5]
    divided = subspace_divide(indices, ranges, [names[name] for name in inside], given)
    for (outer, inner), text in zip(divided, texts, strict=False):
        for step in runs:
            high, low = (eval(str(normalize(mark.source)), dict(step)) for mark in (outer, inner))
            assert high * _value(inner.extent) + low == eval(text, dict(step)), (program, inside)
        assert _value(outer.extent) == 1 or not set(inside) & {*map(str, _variables(outer.source))}, (program, inside)
    return bool(found)


def _value(extent: object) -> int:
    return int(str(extent))


def _variables(source: Var | IterSum) -> list[Var]:
    return (
        [source]
        if isinstance(source, Var)
        else [var for split in source.args for var in _variables(split.source.source)]
    )


def _span(total: IterSum) -> range:
    begin = _value(total.base)
    if not total.args:
        return range(begin, begin + 1)
    scale, extent = _value(total.args[0].scale), _value(total.args[0].extent)
    return range(begin, begin + scale * extent, scale)


def _loops(**extents: int) -> tuple[list[Var], dict[Var, Range]]:
    variables = {te.var(name): Range(const(0), const(extent)) for name, extent in extents.items()}
    return list(variables), variables


def test_indices_that_do_not_move_independently_are_no_map() -> None:
    (x, y), ranges = _loops(x=3, y=10)
    assert not detect([x, x], ranges), "both move with x"
    assert not detect([x * 10 + y // 5, y % 5], ranges), "y // 5 leaves gaps under x * 10"
    assert not detect([x, y], ranges, x * 10 + y < 28), "how far y runs depends on x"
    assert not detect([x * y], ranges), "a product is not a sum of digits"
    assert detect([y % 5], ranges) and not detect([y % 5], ranges, bijective=True), (
        "every value is reached, by several iterations"
    )


def test_conditions_that_lie_in_each_other_shorten_the_fused_iterator() -> None:
    (i, j, k), ranges = _loops(i=11, j=5, k=2)
    inner, whole = j * 2 + k, i * 6 + j * 2 + k
    (found,) = detect([whole], ranges, te.all(inner >= 2, inner < 8, whole >= 3, whole < 18))
    assert (_value(found.args[0].extent), _value(found.base)) == (15, 3)


def test_extents_may_be_symbols() -> None:
    n = te.var("n")
    x, y = te.var("x"), te.var("y")
    ranges = {x: Range(const(0), n), y: Range(const(0), const(4))}
    (found,) = detect([x * 4 + y], ranges, bijective=True)
    assert str(found.args[0].extent) == "n * 4"
    (outer, inner), _ = subspace_divide([x * 4 + y], ranges, [y])
    assert (str(normalize(outer.source)), str(normalize(inner.source))) == ("x", "y")


def test_a_condition_is_given_to_the_side_that_it_speaks_of() -> None:
    (i, j, k), ranges = _loops(i=3, j=4, k=5)
    *_, (outer, inner) = subspace_divide([i * 4 + j, k], ranges, [k], te.all(k < 3, i * 4 + j < 7))
    assert (str(outer.extent), str(inner.extent)) == ("i * 4 + j < 7", "k < 3")
