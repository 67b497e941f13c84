"""tw.lower, tw.build and the calls of kernels, sentence by sentence of the public contract."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen.errors import ArgumentNotBuildable, NameNotAllowed, UnknownTargetKind
from tilewright.runtime.errors import NoSuchKernel, NoSuchSource, UnknownDevice, WrongDType, WrongShape, WrongTiming


def increment(by: float = 1, n: int = 8, dtype: str = "float32") -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    A = te.placeholder((n,), dtype, name="A")
    B = te.compute((n,), lambda i: A[i] + by, name="B")
    return te.create_schedule(B), A, B


def ran(f: Callable[..., None], *inputs: Any, shape: tuple[int, ...] = (8,), dtype: Any = "float32") -> np.ndarray:
    out = np.zeros(shape, dtype)
    f(*inputs, out)
    return out


ONES = np.ones(8, "float32")


# What can be built


def test_a_dict_of_schedules_functions_and_lists_gives_a_module() -> None:
    (s, A, B), (s2, A2, B2) = increment(), increment(2)
    module = tw.build({"one": (s, [A, B]), "two": tw.lower(s2, [A2, B2], "elsewhere"), "three": [A2, B2]})
    assert isinstance(module, tw.Module)
    assert list(module) == ["one", "two", "three"]
    assert len(module) == 3
    assert "two" in module
    assert [ran(module[name], ONES)[0] for name in module] == [2, 3, 3]
    assert [module[name].name for name in module] == ["one", "two", "three"]
    with pytest.raises(KeyError, match=r"TW0526: the module has no kernel 'four'\n.*\n  allowed: one, two, three"):
        module["four"]
    with pytest.raises(NoSuchKernel, match="none: it is empty"):
        tw.build({})["main"]


def test_a_kernel_outlives_its_module() -> None:
    s, A, B = increment()
    call = tw.build({"one": (s, [A, B]), "two": (s, [A, B])})["two"]
    gc.collect()
    assert ran(call, ONES)[0] == 2


def test_a_list_of_tensors_is_inputs_then_outputs() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    C = te.compute((8,), lambda i: B[i] * 2, name="C")
    iota = te.compute((8,), lambda i: i * 3, name="iota")
    assert ran(tw.build([A, C]), ONES).tolist() == [4] * 8
    b, c = np.zeros(8, "float32"), np.zeros(8, "float32")
    tw.build([A, B, C])(ONES, b, c)
    assert (b[0], c[0]) == (2, 4)
    c, i = np.zeros(8, "float32"), np.zeros(8, "int32")
    tw.build((A, C, iota))(ONES, c, i)
    assert c[0] == 4
    assert i.tolist() == list(range(0, 24, 3))
    assert ran(tw.build([iota]), dtype="int32").tolist() == list(range(0, 24, 3))


def test_a_lowered_function_prints_and_builds_under_its_name() -> None:
    s, A, B = increment()
    function = tw.lower(s, [A, B], "shifted")
    assert "def shifted(A: float32[8], B: out float32[8]):" in str(function)
    f = tw.build(function)
    assert (f.name, f.entry_name) == ("shifted", "shifted")
    assert ran(f, ONES)[0] == 2


@pytest.mark.parametrize(
    ("what", "args", "told"),
    [
        ("schedule", None, "a schedule needs the list of its arguments"),
        ("schedule", "tensor", "a schedule needs the list of its arguments, and got Tensor"),
        ("nothing", None, "got NoneType"),
        ("empty", None, "got list"),
    ],
)
def test_what_cannot_be_built(what: str, args: str | None, told: str) -> None:
    s, _, B = increment()
    with pytest.raises(ArgumentNotBuildable, match=f"TW0420: cannot build 'main'\n  {told}\n"):
        tw.build({"schedule": s, "nothing": None, "empty": []}[what], B if args else None)


def test_a_list_without_a_result_is_no_kernel_of_nothing() -> None:
    _, A, B = increment()
    with pytest.raises(
        ArgumentNotBuildable, match=r"TW0420: 'main' would compute nothing\n  every tensor .* given: A +\("
    ):
        tw.build([A])
    with pytest.raises(ArgumentNotBuildable, match="'forgotten' would compute nothing"):
        tw.build({"whole": [A, B], "forgotten": [A]})


@pytest.mark.parametrize("name", ["a b", "a-b", "größe", "", 'a"b', "1st", 3, None])
def test_a_name_is_an_identifier(name: Any) -> None:
    s, A, B = increment()
    for build in (
        lambda: tw.build(s, [A, B], name=name),
        lambda: tw.lower(s, [A, B], name),
        lambda: tw.build({name: (s, [A, B])}),
    ):
        with pytest.raises(NameNotAllowed, match="TW0422: no function can be called"):
            build()


@pytest.mark.parametrize("name", ["main", "malloc", "memcpy", "tw_alloc", "llvm", "define", "_", "x" * 300])
def test_a_name_is_nobody_elses_symbol(name: str) -> None:
    s, A, B = increment()
    assert ran(tw.build(s, [A, B], name=name), ONES)[0] == 2


@pytest.mark.parametrize("target", ["gpu", "", None, 3, "LLVM"])
def test_an_unknown_target_lists_the_known(target: Any) -> None:
    s, A, B = increment()
    with pytest.raises(UnknownTargetKind, match=r"unknown target .*\n.*\n  allowed: llvm \("):
        tw.build(s, [A, B], target=target)


# Scalars


def test_scalars_of_every_type_in_call_order() -> None:
    kinds = [
        "float32",
        "float64",
        "float16",
        "bfloat16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ]
    scalars = [te.var(f"s_{kind}", kind) for kind in kinds]
    flag = te.var("flag", "bool")
    X = te.placeholder((8,), name="X")
    total = sum((scalar.astype("float64") for scalar in scalars), te.const(0.0, "float64"))
    Y = te.compute((8,), lambda i: te.if_then_else(flag, X[i].astype("float64") + total, 0.0), name="Y")
    f = tw.build(te.create_schedule(Y), [*scalars, flag, X, Y])
    values = [2.0, 3.5, 0.5, 0.25, -8, -300, -70000, -(2**40), 200, 60000, 2**31, 2**63]
    expected = 1 + sum(map(float, values))
    assert ran(f, *values, True, ONES, dtype="float64")[3] == expected
    as_numpy = [
        np.dtype(kind if kind != "bfloat16" else ml_dtypes.bfloat16).type(v)
        for kind, v in zip(kinds, values, strict=True)
    ]
    assert ran(f, *as_numpy, np.bool_(True), ONES, dtype="float64")[3] == expected
    assert ran(f, *values, False, ONES, dtype="float64")[3] == 0


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (300, "it must lie in -128 to 127"),
        (-129, "it must lie in"),
        (1.0, "a float, not a number that int8 takes"),
        ("1", "a str"),
        (None, "None"),
        (np.ones(2, "int8"), "ndarray"),
        (2**70, "it must lie in"),
    ],
)
def test_a_wrong_scalar_is_named(value: Any, told: str) -> None:
    k = te.var("k", "int8")
    Y = te.compute((8,), lambda i: k + 0, name="Y")
    f = tw.build(te.create_schedule(Y), [k, Y])
    with pytest.raises(tw.CallError, match=rf"'k' \(argument 1 of main\) is .*{told}"):
        f(value, np.zeros(8, "int8"))


def test_a_symbol_may_be_passed_and_told_by_a_shape() -> None:
    n = te.var("n")
    X = te.placeholder((n,), name="X")
    Y = te.compute((n,), lambda i: X[i] + n, name="Y")
    f = tw.build(te.create_schedule(Y), [n, X, Y])
    assert ran(f, 8, ONES)[0] == 9
    with pytest.raises(tw.CallError, match=r"'X' .* has 8 .*n = 7 is expected"):
        f(7, ONES, np.zeros(8, "float32"))


# Timing and source


def test_time_gives_statistics_of_seconds_a_call() -> None:
    s, A, B = increment()
    f = tw.build(s, [A, B])
    found = f.time(ONES, np.zeros(8, "float32"), number=2, repeat=4, min_repeat_ms=0.5)
    assert len(found.results) == 4
    assert 0 < found.min <= found.median <= found.max < 0.1
    assert found.std == pytest.approx(np.std(found.results))
    assert found.number * found.max >= 0.4e-3
    assert f.time(ONES, np.zeros(8, "float32"), number=7, repeat=1, min_repeat_ms=0).number == 7
    assert f.time(ONES, np.zeros(8, "float32"), number=np.int64(3), repeat=1, min_repeat_ms=0).number == 3
    for wrong in ({"repeat": 0}, {"number": -1}, {"number": 2.5}, {"number": "3"}, {"min_repeat_ms": float("nan")}):
        with pytest.raises(WrongTiming, match=f"cannot time with .*{next(iter(wrong))}="):
            f.time(ONES, np.zeros(8, "float32"), **wrong)
    with pytest.raises(tw.CallError, match="takes 2 arguments, 1 were given"):
        f.time(ONES)


def test_source_is_the_text_at_each_level() -> None:
    s, A, B = increment()
    f = tw.build(s, [A, B], name="visible")
    assert "def visible(" in f.source("ir")
    assert "define" in f.source("llvm")
    assert "visible" in f.source("asm")
    for kind in ("cuda", "ptx", "sass", "", "LLVM"):
        with pytest.raises(NoSuchSource, match="allowed: ir, llvm, asm"):
            f.source(kind)


# Options


@pytest.mark.parametrize("kind", ["serial", "vectorize", "parallel", "unroll"])
@pytest.mark.parametrize("target", ["llvm", "interpret"])
def test_bounds_check_catches_indices_from_data(kind: str, target: str) -> None:
    index, table = te.placeholder((4,), "int32", name="index"), te.placeholder((8,), name="table")
    out = te.compute((4,), lambda i: table[index[i]], name="out")
    s = te.create_schedule(out)
    if kind != "serial":
        getattr(s[out], kind)(out.op.axis[0])
    f = tw.build(s, [table, index, out], target=target, bounds_check=True)
    values = np.arange(8, dtype="float32")
    assert ran(f, values, np.array([0, 7, 3, 1], "int32"), shape=(4,)).tolist() == [0, 7, 3, 1]
    for bad in (8, -1, 2**31 - 1, -(2**31)):
        with pytest.raises(tw.TilewrightError, match=r"table.* out of (range|bounds)"):
            ran(f, values, np.array([0, 7, bad, 1], "int32"), shape=(4,))


@pytest.mark.parametrize("choose", [te.if_then_else, te.select])
def test_bounds_check_lets_what_is_not_chosen_be(choose: Callable[..., Any]) -> None:
    index, table = te.placeholder((4,), "int32", name="index"), te.placeholder((8,), name="table")
    out = te.compute((4,), lambda i: choose(te.all(index[i] >= 0, index[i] < 8), table[index[i]], -1.0), name="out")
    given = np.array([0, 2**30, -(2**30), 1], "int32")
    for bounds_check in (True, False):
        f = tw.build(te.create_schedule(out), [table, index, out], bounds_check=bounds_check)
        assert ran(f, np.arange(8, dtype="float32"), given, shape=(4,)).tolist() == [0, -1, -1, 1]


def test_fast_math_reassociates_and_keeps_nan() -> None:
    k = te.reduce_axis((0, 100_000), "k")
    X = te.placeholder((100_000,), name="X")
    total = te.compute((1,), lambda i: te.sum(X[k], axis=k), name="total")
    x = np.random.default_rng(0).random(100_000, dtype="float32")
    exact, fast = (tw.build(te.create_schedule(total), [X, total], fast_math=fast) for fast in (False, True))
    assert "reassoc" not in exact.source("llvm")
    assert "reassoc" in fast.source("llvm")
    assert ran(exact, x, shape=(1,))[0] == np.add.accumulate(x)[-1]  # one after the other, as written
    assert ran(fast, x, shape=(1,))[0] == pytest.approx(x.sum(dtype="float64"), rel=1e-5)
    Y = te.compute((100_000,), lambda i: te.isnan(X[i]).astype("int32"), name="Y")
    x[5] = np.nan
    found = ran(tw.build(te.create_schedule(Y), [X, Y], fast_math=True), x, shape=(100_000,), dtype="int32")
    assert np.flatnonzero(found).tolist() == [5]


# Arrays


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: tw.empty((-2,)), WrongShape, r"shape \(-2,\)"),
        (lambda: tw.empty((2.5,)), WrongShape, r"shape \(2\.5,\)"),
        (lambda: tw.empty("ab"), WrongShape, "shape 'ab'"),
        (lambda: tw.array([[1], [1, 2]]), WrongShape, "this list has no one shape"),
        (lambda: tw.array(["a"]), WrongDType, "unknown dtype"),
        (lambda: tw.array(None), WrongDType, "unknown dtype 'object'"),
        (lambda: tw.empty(2, "complex64"), WrongDType, "unknown dtype 'complex64'"),
        (lambda: tw.array([1.0], "cpu"), UnknownDevice, "'cpu' is not a device"),
        (lambda: tw.empty(2, device=0), UnknownDevice, "0 is not a device"),
    ],
)
def test_arrays_that_cannot_be_made(make: Callable[[], Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        make()


def test_extents_are_any_integers() -> None:
    A = te.placeholder((3, 4), name="A")
    for shape in (A.shape, [3, 4], np.array([3, 4]), (np.int64(3), np.uint8(4))):
        assert tw.empty(shape).shape == (3, 4)
    assert tw.empty(np.int32(5)).shape == (5,)
    assert tw.empty(()).shape == ()


# Threads, processes, lifetimes


def parallel_kernel(n: int) -> Any:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2 + 1, name="B")
    s = te.create_schedule(B)
    outer, inner = s[B].split(B.op.axis[0], 64)
    s[B].parallel(outer)
    s[B].vectorize(inner)
    return tw.build(s, [A, B])


def in_threads(count: int, work: Callable[[int], None]) -> int:
    """Runs `work` of 0, 1 ... in as many threads; raises what one of them raised, or returns the count."""
    with ThreadPoolExecutor(count) as threads:
        return len(list(threads.map(work, range(count))))


def test_one_kernel_called_and_refusing_from_several_threads() -> None:
    n = 50_000
    f = parallel_kernel(n)

    def work(seed: int) -> None:
        rng, out = np.random.default_rng(seed), np.zeros(n, "float32")
        for _ in range(20):
            x = rng.integers(0, 1000, n).astype("float32")
            f(x, out)
            np.testing.assert_array_equal(out, x * 2 + 1)
            with pytest.raises(tw.CallError, match="has 10 "):
                f(x[:10], out)

    assert in_threads(6, work) == 6


def test_building_in_several_threads() -> None:
    def work(at: int) -> None:
        s, A, B = increment(at, n=10 + at)
        assert ran(tw.build(s, [A, B]), np.zeros(10 + at, "float32"), shape=(10 + at,)).tolist() == [at] * (10 + at)

    assert in_threads(6, work) == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_calls_parallel_kernels() -> None:
    n = 50_000
    f = parallel_kernel(n)
    assert ran(f, np.ones(n, "float32"), shape=(n,))[0] == 3
    child = os.fork()
    if child == 0:
        os._exit(0 if (ran(f, np.ones(n, "float32"), shape=(n,)) == 3).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_call_held_back_outlives_its_kernel() -> None:
    s, A, B = increment()
    call = tw.build(s, [A, B]).__call__
    gc.collect()
    assert ran(call, ONES)[0] == 2


# Other libraries' tensors


def torch_or_skip() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64"]
)
def test_torch_tensors_are_read_and_written_in_place(dtype: str) -> None:
    torch = torch_or_skip()
    A = te.placeholder((100,), dtype, name="A")
    B = te.compute((100,), lambda i: ~A[i] if dtype == "bool" else A[i] * 2 + 1, name="B")
    f = tw.build(te.create_schedule(B), [A, B])
    kind = getattr(torch, dtype)
    a = (torch.arange(100) % 50).to(kind)
    b = torch.zeros(100, dtype=kind)
    f(a, b)
    assert torch.equal(b, ~a if dtype == "bool" else (a * 2 + 1).to(kind))
    offset = torch.zeros(101, dtype=kind)[1:]  # aligned to one element
    f(a, offset)
    assert torch.equal(offset, b)


def test_torch_tensors_that_cannot_be_taken() -> None:
    torch = torch_or_skip()
    s, A, B = increment()
    f = tw.build(s, [A, B])
    x, y = torch.rand(8), torch.zeros(8)
    for wrong, told in (
        (x.clone().requires_grad_(True), "gradient"),
        (torch.rand(16)[::2], "stride"),
        (x.double(), "float64"),
        (y, "shares memory with"),
        (torch.zeros(8).to_sparse(), "memory"),
        (torch.zeros(8, device="meta"), "memory"),
        (torch.zeros(8, dtype=torch.complex64), "complex64"),
        (torch.zeros(9), "9"),
        (torch.zeros(2, 4), "dimensions"),
    ):
        with pytest.raises(tw.CallError, match=rf"(?s)'A' .*{told}|{told} .*'A' "):
            f(wrong, y)
    assert not y.any()


def test_our_arrays_become_torch_tensors_and_back_without_a_copy() -> None:
    torch = torch_or_skip()
    for dtype in ("float32", "bfloat16"):
        ours = tw.empty((8,), dtype)
        s, A, B = increment(dtype=dtype)
        tw.build(s, [A, B])(torch.ones(8, dtype=getattr(torch, dtype)), ours)
        theirs = torch.from_dlpack(ours)
        assert theirs.dtype == getattr(torch, dtype)
        assert (theirs == 2).all()
        theirs[0] = 99
        assert float(ours[0]) == 99
        copy = tw.array(theirs)
        assert isinstance(copy, tw.Array)
        assert copy.dtype == ours.dtype
        theirs[1] = 98
        assert float(copy[1]) == 2
        del ours
        gc.collect()
        assert theirs[1] == 98


def test_bfloat16_arrays_are_those_of_ml_dtypes() -> None:
    s, A, B = increment(dtype="bfloat16")
    f = tw.build(s, [A, B])
    x = np.linspace(0, 4, 8).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(ran(f, x, dtype=ml_dtypes.bfloat16), x + ml_dtypes.bfloat16(1))
    with pytest.raises(tw.CallError, match=r"'A' .* has dtype uint16; bfloat16 is expected"):
        f(x.view(np.uint16), np.zeros(8, ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("name", "combine"),
    [
        ("horner", lambda x, y: x * 3 + y),
        ("both", lambda x, y: x + y + x * y),
        ("last", lambda x, y: te.select(y > 1, y, x)),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_a_reduction_that_llvm_cannot_turn_into_vectors_prints_nothing(
    name: str,
    combine: Any,
    dtype: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    reducer = te.comm_reducer(combine, lambda kind: te.const(0, kind), name)
    A, k = te.placeholder((100,), dtype, "A"), te.reduce_axis((0, 100), "k")
    tw.build([A, te.compute((1,), lambda i: reducer(A[k], axis=k))])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["acosh", "asinh", "atanh", "erf", "expm1", "log1p"])
def test_a_function_of_single_numbers_prints_nothing(name: str, dtype: str, capfd: pytest.CaptureFixture[str]) -> None:
    A = te.placeholder((100,), dtype, "A")
    B = te.compute((100,), lambda i: getattr(te, name)(A[i]), "B")
    tw.build(te.create_schedule(B), [A, B])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_the_first_least_integer_prints_nothing(dtype: str, capfd: pytest.CaptureFixture[str]) -> None:
    def first(x: Any, y: Any) -> Any:
        stays = te.any(x[1] < y[1], te.all(x[1].equal(y[1]), x[0] < y[0]))
        return te.select(stays, x[0], y[0]), te.select(stays, x[1], y[1])

    argmin = te.comm_reducer(first, lambda place, value: (te.max_value(place), te.max_value(value)), "argmin")
    A, k = te.placeholder((1, 31), dtype, "A"), te.reduce_axis((0, 31), "k")
    tw.build([A, *te.compute((1,), lambda i: argmin((k.var, A[i, k]), axis=k), "best")])
    assert capfd.readouterr() == ("", "")
