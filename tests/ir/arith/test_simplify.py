"""What schedules leave behind, and what it simplifies to."""

from __future__ import annotations

import math
import time

import pytest
from tilewright.ir.arith import Analyzer, detect_stride, linear, simplify
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import BOOL, DType
from tilewright.ir.expr import (
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Let,
    Mul,
    Not,
    Ramp,
    Range,
    Select,
    SizeVar,
    Sub,
    Var,
)
from tilewright.ir.ops import (
    FALSE,
    TRUE,
    call,
    cast,
    ceildiv,
    const,
    index_ceildiv,
    likely,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    select,
)
from tilewright.ir.structural import equal

i, j, k, f = (Var(name) for name in "ijkf")
n, m = SizeVar("n"), Var("m")
x, y = Var("x", DType("float32")), Var("y", DType("float32"))
c = Var("c", BOOL)
A = Buffer("A", (const(64),), DType("int32"))
a = BufferLoad(A, (i,))


def zero(dtype: str = "int32"):
    return const(0, dtype)


CASES = {
    # split and fuse; i in [0, 32), j in [0, 4), k in [0, 8), f in [0, 1024)
    "split-div": ((i * 4 + j) // 4, i),
    "split-mod": ((i * 4 + j) % 4, j),
    "split-twice-div": ((i * 32 + k * 4 + j) // 32, i),
    "split-twice-mod-div": ((i * 32 + k * 4 + j) % 32 // 4, k),
    "split-twice-mod-mod": ((i * 32 + k * 4 + j) % 32 % 4, j),
    "partial-block": ((i * 8 + k) // 32, i // 4),
    "partial-block-mod": ((i * 8 + k) % 32, (i % 4) * 8 + k),
    "fuse-roundtrip": (f // 32 * 32 + f % 32, f),
    "fuse-roundtrip-thirds": ((i * 32 + f) // 3 * 3 + (i * 32 + f) % 3, i * 32 + f),
    "fuse-other-remainder": ((i * 32 + f) // 3 * 6 + (i * 5 + f + 3) % 3 * 2 + k, i * 64 + f * 2 + k),
    "fuse-digits": ((i * 32 + f) // 9 * 9 + (i * 32 + f) // 3 % 3 * 3 + (i * 2 + f) % 3, i * 32 + f),
    "fuse-upper-digits": ((i * 32 + f) // 45 * 5 + (i * 32 + f) // 9 % 5, (i * 32 + f) // 9),
    "fuse-no-roundtrip": ((i * 32 + f) // 3 * 3 + (f + i) % 3, (i * 32 + f) // 3 * 3 + (f + i) % 3),
    "fuse-three": ((f // 64) * 64 + (f // 8 % 8) * 8 + f % 8, f),
    "fuse-symbol": ((i * m + j) // m, (i * m + j) // m),
    "div-of-div": (m // 4 // 8, m // 32),
    "mod-of-mod": (m % 32 % 8, m % 8),
    "mod-from-div": (m - m // 4 * 4, m % 4),
    "mod-drops-multiples": ((m * 8 + i * 4 + j) % 4, j),
    "div-known": ((i * 4 + j) // 256, zero()),
    "ceildiv": (ceildiv(m, 4) - index_ceildiv(m, 4) + ceildiv(m, n) - (m + n - 1) // n, const(0)),
    "ceildiv-less-one": (ceildiv(m, 32) - (m - 1) // 32, const(1)),
    "negative-terms": ((m * 4 - j) // 4, m + Sub(const(0), j) // 4),
    # sums
    "cancel": (m + i - m - i, zero()),
    "collect": (m + m + m, m * 3),
    "factors": ((m + 1) * n - n * m, n),
    "order": (j + i * 32, i * 32 + j),
    # min and max
    "tail": (minimum(i * 32 + 32, m) - i * 32, minimum(m - i * 32, 32)),
    "min-plus-max": (minimum(m, n) + maximum(m, n), m + n),
    "min-common": (minimum(m + i, m + j), m + minimum(i, j)),
    "min-decided": (minimum(i, 31), i),
    "max-decided": (maximum(i - 40, zero()), zero()),
    "min-factor": (minimum(m * 4, n * 4), minimum(m, n) * 4),
    # comparisons
    "always": (i * 4 + j < 128, TRUE),
    "never": (i * 4 + j >= 128, FALSE),
    "open": (i * 32 + j < 1000, TRUE),
    "likely-proved": (likely(i < 32), TRUE),
    "likely-stays": (likely(i < 31), likely(i < 31)),
    "common-sides": (m + i < m + j, i < j),
    "common-factor": (m * 4 < n * 8, m < n * 2),
    "parity": ((m * 4).equal(n * 2 + 1), FALSE),
    "turned": (m > 5, const(6) <= m),
    "div-guard": (m // 4 < 8, m < 32),
    # logic
    "contradiction": (logical_and(m < 5, m >= 5), FALSE),
    "tautology": (logical_or(m < 5, m >= 5), TRUE),
    "implied-after": (logical_and(m < 5, m < 7), m < 5),
    "implied-before": (logical_and(m < 7, m < 5), m < 5),
    "de-morgan": (logical_not(logical_and(m < 5, c)), (const(5) <= m) | Not(c)),
    "not-float": (logical_not(x < y), Not(x < y)),
    # choices
    "branch-knows": (select(m < 5, minimum(m, 5), m), m),
    "select-truth": (Select(c, TRUE, FALSE), c),
    "if-known": (IfThenElse(i < 32, a, zero()), a),
    "let-constant": (Let(m, const(3), m + i), i + 3),
    # data wraps
    "wrapping-stays": ((a * 4) // 4, (a * 4) // 4),
    "ring": (a + i - a, i),
    "byte-fits": (cast(cast(cast(a, "uint8"), "int32"), "int64") // 256, zero("int64")),
    "cast-splits": (cast(i * 32 + j, "int64") * 8, cast(i, "int64") * 256 + cast(j, "int64") * 8),
    # floats
    "float-one": (x * 1.0, x),
    "float-zero-stays": (x * 0.0, x * 0.0),
    "float-plus-zero-stays": (x + 0.0, x + 0.0),
    "float-order-stays": (x + y - x, x + y - x),
    # vectors
    "ramp-shift": (Ramp(i, const(1), 4) + Broadcast(j, 4), Ramp(i + j, const(1), 4)),
    "ramp-div": (FloorDiv(Ramp(i * 4, const(1), 4), Broadcast(const(4), 4)), Broadcast(i, 4)),
    "ramp-mod": (FloorMod(Ramp(i * 4, const(1), 4), Broadcast(const(4), 4)), Ramp(zero(), const(1), 4)),
    "broadcasts": (Broadcast(i, 4) * Broadcast(j, 4), Broadcast(i * j, 4)),
    "ramp-guard": (Ramp(i * 4, const(1), 4) < Broadcast(const(128), 4), Broadcast(TRUE, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_simplifies_to(name: str) -> None:
    given, expected = CASES[name]
    analyzer = Analyzer()
    for var, extent in ((i, 32), (j, 4), (k, 8), (f, 1024)):
        analyzer.bind(var, Range(const(0), const(extent)))
    found = analyzer.simplify(given)
    assert equal(found, expected), f"{given}\n became {found}\n not    {expected}"


def test_unchanged_is_the_same_object() -> None:
    expr = i * 32 + j
    assert simplify(expr) is expr
    assert simplify(m) is m
    for like in (
        minimum(n // 3, m // 5),
        minimum(m // 5, n // 3),
    ):  # whose order nothing tells but which was seen first
        assert simplify(like) is like


def test_symbolic_split_and_fuse() -> None:
    analyzer = Analyzer()
    analyzer.bind(i, Range(const(0), n))
    analyzer.bind(j, Range(const(0), m))
    assert equal(analyzer.simplify((i * m + j) // m), i)
    assert equal(analyzer.simplify((i * m + j) % m), j)


def test_float_constants_fold_in_their_own_precision() -> None:
    third = FloatImm(0.3333333432674408, DType("float32"))
    assert simplify(Mul(Mul(x, const(-1.0, "float32")), const(-1.0, "float32"))) is x
    assert isinstance(simplify(Add(x, third)), Add)


def test_effects_stay() -> None:
    effect = Call("call_extern", (i,), DType("int32"))
    assert equal(simplify(Sub(effect, effect)), Sub(effect, effect))
    assert equal(simplify(Mul(effect, zero())), Mul(effect, zero()))


def test_pure_calls_are_merged() -> None:
    assert equal(simplify(call("abs", m) - call("abs", m)), zero())


def test_a_condition_on_memory_is_forgotten() -> None:
    analyzer = Analyzer()
    with analyzer.constraint(a < 5):
        assert not analyzer.can_prove(BufferLoad(A, (i,)) < 5)


def test_indices_of_loads_stay_good_where_both_sides_are_evaluated() -> None:
    """Under i < n the clamp is not a change of value, but a Select or an And may read beside it all the same."""
    clamped = BufferLoad(A, (minimum(m, 63),))
    analyzer = Analyzer()
    for expr in (Select(m < 64, clamped, zero()), And(m < 64, clamped < 5), Select(m >= 64, zero(), clamped)):
        assert "min(m, 63)" in str(analyzer.simplify(expr))
    assert "min(m, 63)" not in str(analyzer.simplify(IfThenElse(m < 64, clamped, zero())))


def test_linear() -> None:
    form = linear(m * 4 + (n + 3) * 2 - m)
    assert form is not None
    assert form.coeffs == {m: 3, n: 2}
    assert form.const == 6
    assert linear(x) is None
    assert linear(a + a) is None


def test_detect_stride() -> None:
    stride, base = detect_stride(i * 4 + (n + j) * 2, i) or (None, None)
    assert stride == 4
    assert equal(base, n * 2 + j * 2) or equal(base, j * 2 + n * 2)
    assert detect_stride(i * n, i) is None
    assert detect_stride(i // 2 + i, i) is None


def test_long_chains_take_linear_time() -> None:
    """Ten thousand nodes deep, and sixty doublings wide."""
    symbols = [Var(f"v{at}") for at in range(10_000)]
    total, guard, mixed = symbols[0], symbols[0] < 5, x
    for symbol in symbols[1:]:
        total, guard, mixed = Add(total, symbol), And(guard, symbol < 5), Add(Mul(mixed, y), x)
    doubled = m
    for _ in range(60):
        doubled = Add(doubled, doubled)
    for expr in (total, guard, mixed, doubled):
        started = time.thread_time()
        analyzer = Analyzer()
        assert analyzer.simplify(analyzer.simplify(expr)).dtype == expr.dtype
        assert time.thread_time() - started < 20


def test_time_of_typical_indices(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, not judged."""
    spent, rounds = 0.0, 200
    for _ in range(rounds):
        io, ii, ko, ki = (Var(name) for name in ("io", "ii", "ko", "ki"))
        analyzer = Analyzer()
        for var, extent in ((io, 32), (ii, 32), (ko, 64), (ki, 16)):
            analyzer.bind(var, Range(const(0), const(extent)))
        expr = (io * 32 + ii) // 32 * 1024 + (ko * 16 + ki) % 16 * 4 + ki
        started = time.thread_time()
        assert equal(analyzer.simplify(expr), io * 1024 + ki * 5)
        spent += time.thread_time() - started
    with capsys.disabled():
        print(f"\nsimplify of a 19-node index: {spent / rounds * 1e6:.0f} us")


@pytest.mark.parametrize(("through", "greatest"), [("float16", 2048), ("bfloat16", 256), ("float32", 1 << 24)])
def test_an_integer_that_a_float_has_comes_back_as_it_was(through: str, greatest: int) -> None:
    for last, folds in ((greatest, True), (greatest + 1, False)):
        analyzer, i = Analyzer(), Var("i", DType("int32"))
        analyzer.bind(i, Range(const(0), const(last + 1)))
        found = analyzer.simplify(Cast(Cast(i, DType(through)), DType("uint32")))
        assert isinstance(found, Cast)
        assert (found.value is i) == folds, (through, last, found)
    analyzer, i = Analyzer(), Var("i", DType("int32"))
    analyzer.bind(i, Range(const(-1), const(9)))
    negative = analyzer.simplify(Cast(Cast(i, DType(through)), DType("uint32")))
    assert isinstance(negative, Cast), "what is negative saturates"
    assert negative.value is not i


def test_nans_keep_their_signs() -> None:
    nans = [FloatImm(float("nan")), FloatImm(-float("nan"))]
    both = IfThenElse(i < 3, *nans)
    simple = simplify(both)
    assert [math.copysign(1, branch.value) for branch in (simple.true_value, simple.false_value)] == [1.0, -1.0]


def test_an_index_that_fits_goes_by_way_of_fewer_bits_unchanged() -> None:
    """A loop in 64 bits reads a dimension in 32: both are one index, or the region of what it reads were everything."""
    c, wide = Var("c", DType("int64")), Var("wide", DType("int64"))
    analyzer = Analyzer()
    analyzer.bind(c, Range(const(0, DType("int64")), const(1 << 21, DType("int64"))))
    narrow = [Cast(Cast(var, DType("int32")), DType("int64")) for var in (c, wide)]
    assert analyzer.simplify(narrow[0]) is c
    assert str(analyzer.simplify(narrow[1])) == "int64(int32(wide))"
