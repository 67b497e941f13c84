"""Simplification, intervals and remainders of random expressions against brute force."""

from __future__ import annotations

import drawn
import numpy
import pytest
from arith_cases import Drawer, evaluate, grid
from tilewright.ir.arith import Analyzer
from tilewright.ir.arith.floats import truncated_ends
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import DType
from tilewright.ir.expr import LT, Add, BufferLoad, Call, Expr, Max, Min, Mul, Range, Select, SizeVar, Sub, Var
from tilewright.ir.interpret.interpreter import Interpreter
from tilewright.ir.interpret.scalars import FLOAT_TYPES
from tilewright.ir.ops import cast, const, maximum, minimum
from tilewright.ir.stmt import BufferStore, Function, Seq

INDEX_CONSTANTS = (-8, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 8, 16, 32)
BYTE_CONSTANTS = (-128, -127, -4, -2, -1, 0, 1, 2, 3, 4, 8, 64, 127, 128, 255)


def check(analyzer: Analyzer, expr, env, wraps: bool = True) -> None:
    """The simplified expression has the same values; bounds and remainders hold for all of them."""
    simple = analyzer.simplify(expr)
    expected = evaluate(expr, env, wraps)
    numpy.testing.assert_array_equal(evaluate(simple, env, wraps), expected, err_msg=f"{expr}\n  became {simple}")
    assert analyzer.simplify(simple) is simple, f"{simple} is simplified further on a second pass"
    if expr.dtype.is_integer and expr.dtype.lanes > 1:
        lo, hi = analyzer.interval(expr)
        assert (lo is None or lo <= expected.min()) and (hi is None or expected.max() <= hi), (str(expr), lo, hi)
    elif expr.dtype.is_integer:
        lo, hi = analyzer.interval(expr)
        assert (lo is None or lo <= expected.min()) and (hi is None or expected.max() <= hi), (str(expr), lo, hi)
        coeff, base = analyzer.modular(expr)
        assert (expected == base).all() if coeff == 0 else (expected % coeff == base).all(), (str(expr), coeff, base)


@pytest.mark.parametrize("case", range(drawn.count(150, 8000)))
def test_index_expressions_over_constant_ranges(case: int) -> None:
    rng = drawn.rng("arith-index", case)
    i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n", DType("int64"))
    analyzer = Analyzer()
    ranges = {}
    for var in (i, j, k, n):
        begin, extent = int(rng.integers(-5, 6)) * int(rng.integers(2)), int(rng.choice([1, 2, 3, 4, 5, 8]))
        ranges[var] = range(begin, begin + extent)
        analyzer.bind(var, Range(const(begin, var.dtype), const(extent, var.dtype)))
    draw = Drawer(rng, list(ranges), INDEX_CONSTANTS, casts=("int32", "int64", "int8", "uint8"))
    dtype = DType(str(rng.choice(["int32", "int32", "int64"])))
    expr = draw.number(dtype, 5) if rng.random() < 0.75 else draw.condition(dtype, 5)
    check(analyzer, expr, grid(ranges))


@pytest.mark.parametrize("case", range(drawn.count(100, 6000)))
def test_index_expressions_over_the_integers(case: int) -> None:
    """Nothing is known of the symbols, or their ranges are symbolic: arithmetic is that of the integers."""
    rng = drawn.rng("arith-symbols", case)
    n, m, i, j = SizeVar("n"), Var("m"), Var("i"), Var("j")
    analyzer = Analyzer()
    analyzer.bind(i, Range(const(0), n))
    analyzer.bind(j, Range(m, const(4)))
    points = numpy.array(
        [(a, b, c, d) for a in range(9) for b in range(-4, 5) for c in range(a) for d in range(b, b + 4)]
    )
    env = {var: points[:, at] for at, var in enumerate((n, m, i, j))}
    draw = Drawer(rng, [n, m, i, j], INDEX_CONSTANTS)
    expr = draw.number(DType("int32"), 4) if rng.random() < 0.7 else draw.condition(DType("int32"), 4)
    check(analyzer, expr, env, wraps=False)


@pytest.mark.parametrize("case", range(drawn.count(100, 6000)))
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bytes_wrap(dtype: str, case: int) -> None:
    rng = drawn.rng(f"arith-{dtype}", case)
    kind = DType(dtype)
    a, b = Var("a", kind), BufferLoad(Buffer("B", (const(4),), kind), (const(0),))
    every = range(kind.least, kind.greatest + 1)
    env = grid({a: every, b: every[:: int(rng.integers(1, 8))]})
    draw = Drawer(rng, [a, b], BYTE_CONSTANTS, casts=("int8", "uint8", "int32", "int16"))
    expr = draw.number(kind, 4) if rng.random() < 0.7 else draw.condition(kind, 4)
    check(Analyzer(), expr, env)


@pytest.mark.parametrize("case", range(drawn.count(100, 4000)))
def test_words_wrap(case: int) -> None:
    rng = drawn.rng("arith-words", case)
    kind = DType("int32")
    ends = [kind.least, kind.least + 1, -70000, -32, -5, -1, 0, 1, 3, 31, 65536, kind.greatest - 1, kind.greatest]
    i, load = Var("i"), BufferLoad(Buffer("B", (const(4),), kind), (const(0),))
    analyzer = Analyzer()
    analyzer.bind(i, (0, 7))
    draw = Drawer(
        rng,
        [i, load],
        (*INDEX_CONSTANTS, kind.least, kind.greatest, 65536),
        casts=("int32", "uint8", "uint32", "int16"),
    )
    expr = draw.number(kind, 4) if rng.random() < 0.7 else draw.condition(kind, 4)
    check(analyzer, expr, grid({i: range(8), load: ends}))


@pytest.mark.parametrize("case", range(drawn.count(100, 6000)))
@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_vectors(dtype: str, case: int) -> None:
    rng = drawn.rng(f"arith-vectors-{dtype}", case)
    kind = DType(dtype)
    i, j = Var("i", kind), Var("j", kind)
    analyzer = Analyzer()
    ranges = {i: range(8), j: range(-3, 5)} if dtype == "int32" else {i: range(-128, 128, 3), j: range(-128, 128, 7)}
    if dtype == "int32":
        for var, values in ranges.items():
            analyzer.bind(var, (values[0], values[-1]))
    draw = Drawer(rng, [i, j], (-4, -2, -1, 0, 1, 2, 4, 8))
    expr = draw.vector(kind, 4, 3) if rng.random() < 0.7 else draw.lanes_condition(kind, 4, 3)
    check(analyzer, expr, grid(ranges))


@pytest.mark.parametrize("case", range(drawn.count(100, 4000)))
def test_constraints(case: int) -> None:
    """What is simplified under a condition agrees wherever the condition holds."""
    rng = drawn.rng("arith-constraints", case)
    i, j, n = Var("i"), Var("j"), Var("n")
    ranges = {i: range(6), j: range(-2, 5), n: range(-4, 9)}
    analyzer = Analyzer()
    for var in (i, j):
        analyzer.bind(var, (ranges[var][0], ranges[var][-1]))
    draw = Drawer(rng, list(ranges), (-4, -2, -1, 0, 1, 2, 3, 4, 8))
    first, second = draw.condition(DType("int32"), 3), draw.condition(DType("int32"), 2)
    expr = draw.number(DType("int32"), 4) if rng.random() < 0.5 else draw.condition(DType("int32"), 3)
    env = grid(ranges)
    before = analyzer.simplify(expr)
    for conditions in ((first,), (first, second)):
        holds = numpy.ones(len(env[i]), dtype=bool)
        for condition in conditions:
            holds &= evaluate(condition, env, wraps=False) != 0
        with analyzer.constraint(first):
            if len(conditions) == 1:
                simple, bounds = analyzer.simplify(expr), analyzer.interval(expr)
            else:
                with analyzer.constraint(second):
                    simple, bounds = analyzer.simplify(expr), analyzer.interval(expr)
        expected = evaluate(expr, env, wraps=False)[holds]
        found = evaluate(simple, env, wraps=False)[holds]
        numpy.testing.assert_array_equal(found, expected, err_msg=f"{expr}\n became {simple}\n under {conditions}")
        if expected.size and expr.dtype.is_integer:
            assert (bounds.lo is None or bounds.lo <= expected.min()) and (
                bounds.hi is None or expected.max() <= bounds.hi
            )
    assert analyzer.simplify(expr) is before


@pytest.mark.parametrize("case", range(drawn.count(30, 4000)))
def test_floats_that_become_integers(case: int) -> None:
    """The bounds of what is computed in floats and made an integer hold, of NaN and infinities too."""
    rng = drawn.rng("arith-floats", case)
    dtype, target = (
        DType(str(rng.choice(["float32", "float64", "float16", "bfloat16"]))),
        DType(str(rng.choice(["int32", "int64", "uint8"]))),
    )
    i = Var("i")
    data = BufferLoad(Buffer("D", (const(4),), dtype), (const(0),))
    begin, extent = int(rng.integers(-40, 40)), int(rng.integers(1, 60))
    drawn_float = _draw_float(rng, i, data, dtype, 5)
    ends = truncated_ends(drawn_float, i.dtype)
    numbers = [cast(drawn_float, target), *(cast(end, target) for end in ends if end is not None)]
    buffer = Buffer("R", (const(len(numbers)),), target)
    stores = [BufferStore(buffer, number, (const(at),)) for at, number in enumerate(numbers)]
    call = Interpreter(Function("k", (data.buffer, buffer, i), Seq(tuple(stores)), (buffer,)))
    analyzer = Analyzer()
    analyzer.bind(i, Range(const(begin), const(extent)))
    lo, hi = analyzer.interval(numbers[0])
    result = numpy.zeros(len(numbers), str(target))
    for value in range(begin, begin + extent, 3):
        for number in (0.0, -0.0, 1.75, float("nan"), float("inf"), float("-inf"), 6e4, -2.5):
            call(numpy.full(4, number, FLOAT_TYPES[dtype]), result, value)
            text = (str(drawn_float), value, number, result)
            assert lo <= result[0] <= hi, (lo, hi, *text)
            if len(numbers) == 3 and target != "uint8":  # where ends below 0 are others
                assert result[1] <= result[0] <= result[2], text


def _draw_float(rng: numpy.random.Generator, i: Var, data: BufferLoad, dtype: DType, depth: int) -> Expr:
    def below() -> Expr:
        return _draw_float(rng, i, data, dtype, depth - 1)

    kind = (
        str(rng.choice(["leaf", "+", "-", "*", "min", "max", "clamp", "select", "round", "convert"]))
        if depth
        else "leaf"
    )
    if kind == "leaf":
        leaves = [cast(i, dtype), data, const(float(rng.choice([0.5, -1.5, 3.0, 0.1, 100.25])), dtype)]
        return leaves[int(rng.choice([0, 0, 1, 2]))]
    if kind == "clamp":
        low = float(rng.integers(-9, 9))
        return maximum(minimum(below(), const(low + float(rng.choice([0.0, 3.5, 20.0])), dtype)), const(low, dtype))
    if kind == "select":
        return Select(LT(i, const(int(rng.integers(-9, 9)))), below(), below())
    if kind == "round":
        return Call(str(rng.choice(["floor", "ceil", "trunc", "nearbyint", "round"])), (below(),), dtype)
    if kind == "convert":
        return cast(cast(below(), DType(str(rng.choice(["float32", "float16"])))), dtype)
    operators = {"+": Add, "-": Sub, "*": Mul, "min": Min, "max": Max}
    return operators[kind](below(), below())
