"""te.call_packed: Python functions that kernels call, and what becomes of what they raise; te.trace."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen.errors import PackedNotRegistered
from tilewright.codegen.export.errors import CallsPython
from tilewright.ir import packed_functions
from tilewright.ir.errors import CallbackFailed, FunctionNameTaken, UnknownOutsideCode
from tilewright.te import errors as te_errors

BOTH = ("llvm", "interpret")


@pytest.fixture(autouse=True)
def own_functions() -> Iterator[None]:
    """What a test registers goes with it."""
    before = dict(packed_functions._FUNCTIONS)
    yield
    packed_functions._FUNCTIONS.clear()
    packed_functions._FUNCTIONS.update(before)


def calls(name: str, *more: Any, shape: Any = (4,), dtype: str = "float32") -> tuple[te.Tensor, te.Tensor]:
    """A placeholder, and what the function `name` makes of it."""
    A = te.placeholder(shape, dtype, "A")
    return A, te.extern(shape, [A], lambda ins, outs: te.call_packed(name, ins[0], outs[0], *more), name="C")


@pytest.mark.parametrize("target", BOTH)
def test_what_a_function_gets(target: str) -> None:
    seen: list[Any] = []

    @tw.register_func("look")
    def look(x: Any, y: Any, *rest: Any) -> int:
        seen.append((type(x), x.dtype, x.shape, x.flags.writeable, y.flags.writeable, rest))
        y[...] = x * 2
        return 7

    n, k = te.size_var("n"), te.var("k", "uint64")
    A, C = calls("look", n, 2.5, "text", True, k, te.const(-3, "int8"), te.const(0.1, "float32"), shape=(n, 3))
    f = tw.build(te.create_schedule(C.op), [A, k, C], target=target)
    a = np.arange(6, dtype="float32").reshape(2, 3)
    c = np.zeros_like(a)
    f(a, 2**64 - 1, c)
    np.testing.assert_array_equal(c, a * 2)
    kind, dtype, shape, reads, writes, rest = seen[0]
    assert (kind, dtype, shape, reads, writes) == (np.ndarray, np.float32, (2, 3), False, True)
    assert rest == (2, 2.5, "text", True, 2**64 - 1, -3, np.float32(0.1))
    f(np.zeros((0, 3), "float32"), 0, np.zeros((0, 3), "float32"))
    assert seen[1][2] == (0, 3)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64"])
def test_views_of_every_kind_of_element(dtype: str) -> None:
    tw.register_func("copy", lambda x, y: np.copyto(y, x))
    A, C = calls("copy", dtype=dtype, shape=(2, 3))
    D = te.compute((2, 3), lambda i, j: C[i, j], name="D")
    for target in BOTH:
        a = np.array([[0, 1, 1], [1, 0, 1]]).astype(tw.empty((1,), dtype).dtype)
        d = np.zeros_like(a)
        tw.build(te.create_schedule(D.op), [A, D], target=target)(a, d)
        np.testing.assert_array_equal(d, a)


def test_views_of_padded_memory() -> None:
    steps: list[Any] = []

    @tw.register_func("strided")
    def strided(x: Any, y: Any) -> None:
        steps.append(x.strides)
        y[...] = x.sum(1)

    A = te.placeholder((5, 6), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] + 1, name="B")
    seen = te.decl_buffer(B.shape, B.dtype, "B", strides=[te.var("s0"), te.var("s1")])
    C = te.extern((5,), [B], lambda ins, outs: te.call_packed("strided", ins[0], outs[0]), name="C", in_buffers=[seen])
    s = te.create_schedule(C.op)
    s[B].storage_align(B.op.axis[0], 8, 1)
    a = np.random.default_rng(0).random((5, 6), np.float32)
    for target in BOTH:
        c = np.zeros(5, np.float32)
        tw.build(s, [A, C], target=target)(a, c)
        np.testing.assert_allclose(c, (a + 1).sum(1), rtol=1e-5)
    assert steps[0] == (9 * 4, 4)


def test_its_result_is_a_value() -> None:
    tw.register_func("twice", lambda x: 2 * x)
    C = te.compute((5,), lambda i: te.call_packed("twice", i) + 1, name="C")
    for target in BOTH:
        c = np.zeros(5, "int32")
        tw.build([C], target=target)(c)
        np.testing.assert_array_equal(c, [1, 3, 5, 7, 9])


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("raised", [KeyError("x"), SystemExit(3), ValueError("no")])
def test_an_exception_is_the_cause_of_a_call_error(target: str, raised: BaseException) -> None:
    def fail(*_: Any) -> None:
        raise raised

    tw.register_func("fail", fail)
    A, C = calls("fail")
    f = tw.build([A, C], target=target)
    for _ in range(2):
        with pytest.raises(CallbackFailed, match=rf"(?s)TW0527: .* 'fail' raised.*{type(raised).__name__}") as caught:
            f(np.zeros(4, "float32"), np.zeros(4, "float32"))
        assert isinstance(caught.value, tw.CallError) and caught.value.__cause__ is raised


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("raised", [KeyboardInterrupt("struck"), KeyError("struck")])
def test_an_interruption_passes_as_it_is(target: str, raised: BaseException) -> None:
    def handle(signal: int, frame: Any) -> None:
        raise raised

    def fail(*_: Any) -> None:
        handle(14, sys._getframe())  # as Python calls a signal handler

    tw.register_func("fail", fail, override=True)
    A, C = calls("fail")
    f = tw.build([A, C], target=target)
    with pytest.raises(type(raised), match="struck") as caught:
        f(np.zeros(4, "float32"), np.zeros(4, "float32"))
    assert caught.value is raised


def test_after_an_exception_nothing_more_runs() -> None:
    ran: list[int] = []

    @tw.register_func("third")
    def third(i: int) -> int:
        ran.append(i)
        if i == 3:
            raise RuntimeError("third")
        return i

    C = te.compute((8,), lambda i: te.call_packed("third", i), name="C")
    with pytest.raises(CallbackFailed, match="RuntimeError: third"):
        tw.build([C])(np.zeros(8, "int32"))
    assert ran == [0, 1, 2, 3]
    A, C = calls("doubled")
    tw.register_func("doubled", lambda x, y: np.add(x, x, out=y))  # returns y, which counts as nothing
    c = np.zeros(4, "float32")
    tw.build([A, C])(np.ones(4, "float32"), c)
    np.testing.assert_array_equal(c, 2)
    tw.register_func("text", lambda i: "text")
    f = tw.build([te.compute((8,), lambda i: te.call_packed("text", i), name="C")])
    with pytest.raises(CallbackFailed, match="cannot be interpreted as an integer"):
        f(np.zeros(8, "int32"))


def test_calls_from_threads() -> None:
    """Iterations of a parallel loop call on threads of their own while the caller waits without the lock."""
    tw.register_func("square", lambda i: i * i)
    C = te.compute((64,), lambda i: te.call_packed("square", i), name="C")
    s = te.create_schedule(C.op)
    s[C].parallel(C.op.axis[0])
    f = tw.build(s, [C])
    wanted, found = np.arange(64) ** 2, list[bool]()

    def call() -> None:
        c = np.zeros(64, "int32")
        f(c)
        found.append(bool((c == wanted).all()))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [True] * 4

    @tw.register_func("square", override=True)
    def odd(i: int) -> int:
        raise ValueError(i)

    call()  # what was built before keeps its function
    with pytest.raises(CallbackFailed, match="ValueError"):
        tw.build(s, [C])(np.zeros(64, "int32"))


def test_a_kernel_holds_its_functions_no_longer_than_itself() -> None:
    class Held:
        def __call__(self, x: Any, y: Any) -> None:
            y[...] = x

    held = Held()
    tw.register_func("held", held)
    A, C = calls("held")
    f = tw.build([A, C])
    del packed_functions._FUNCTIONS["held"]
    gone = weakref.ref(held)
    del held
    f(np.zeros(4, "float32"), np.zeros(4, "float32"))
    assert gone() is not None
    del f
    for _ in range(20):  # of a collection that another thread has begun this one would see nothing
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.05)
    assert gone() is None


# Names


def test_registering() -> None:
    @tw.register_func
    def plain() -> None: ...

    assert packed_functions.find_func("plain") is plain
    assert tw.register_func("named", plain) is plain
    with pytest.raises(
        FunctionNameTaken, match=r"(?s)TW0108: a function named 'named' is registered already.*override=True"
    ):
        tw.register_func("named", len)
    tw.register_func("named", len, override=True)
    assert packed_functions.find_func("named") is len


def test_a_function_that_nobody_registered() -> None:
    A, C = calls("nobody's")
    with pytest.raises(
        PackedNotRegistered, match=r"(?s)TW0423: the program calls the packed function \"nobody's\".*register_func"
    ):
        tw.build([A, C])
    with pytest.raises(UnknownOutsideCode, match="no function of this name is registered"):
        tw.build([A, C], target="interpret")(np.zeros(4, "float32"), np.zeros(4, "float32"))


def test_what_cannot_be_passed() -> None:
    A = te.placeholder((4,), name="A")
    with pytest.raises(te_errors.BadOutsideCall, match=r"(?s)TW0134.*takes buffers, pointers into.*the buffer itself"):
        te.extern((4,), [A], lambda ins, outs: te.call_packed("f", ins[0].vload(0, "float32x4"), outs[0]))
    with pytest.raises(te_errors.BadOutsideCall, match="needs the function's name, and gives an integer"):
        te.call_packed("f", dtype="float32")


def test_where_python_is_not(tmp_path: Path) -> None:
    tw.register_func("copy", lambda x, y: np.copyto(y, x))
    A, C = calls("copy")
    f = tw.build([A, C])
    with pytest.raises(CallsPython, match=r"(?s)TW0709: cannot export main.*'copy', which is in this process alone"):
        f.export(tmp_path / "libpacked.so")
    assert not list(tmp_path.iterdir())
    for target in ("cuda -arch=sm_90", "cuda -emulate"):
        with pytest.raises(
            tw.CudaError, match=r"(?s)TW0816: cannot build main for a GPU.*'copy', which runs on the host"
        ):
            tw.build([A, C], target=target)


# Traces


def traced() -> tuple[te.Tensor, te.Tensor]:
    A = te.placeholder((4,), name="A")
    return A, te.compute((4,), lambda i: te.trace([i, "is", A[i]], "A 100%") + 1, name="C")


A0 = np.array([0.5, 1, -2, 1 / 3], "float32")


@pytest.mark.parametrize("target", BOTH)
def test_traces_are_printed_by_python(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    A, C = traced()
    c = np.zeros(4, "float32")
    tw.build([A, C], target=target)(A0, c)
    np.testing.assert_array_equal(c, A0 + 1)
    assert capsys.readouterr().out.splitlines() == [f"A 100%: {i} is {A0[i]!s}" for i in range(4)]


def test_traces_under_schedules(capsys: pytest.CaptureFixture[str]) -> None:
    A, C = traced()
    for kind in ("vectorize", "parallel", "unroll"):
        s = te.create_schedule(C.op)
        getattr(s[C], kind)(C.op.axis[0])
        c = np.zeros(4, "float32")
        tw.build(s, [A, C])(A0, c)
        np.testing.assert_array_equal(c, A0 + 1)
        assert sorted(capsys.readouterr().out.splitlines()) == [f"A 100%: {i} is {A0[i]!s}" for i in range(4)]


def test_traces_are_printed_by_c(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    A, C = traced()
    wanted = [f"A 100%: {i} is {float(A0[i]):.9g}" for i in range(4)]
    tw.build([A, C]).export(tmp_path / "libtraced.so")
    c = np.zeros(4, "float32")
    capfd.readouterr()
    tw.load(tmp_path / "libtraced.so")(A0, c)
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    f = tw.build(s, [A, C], target="cuda -emulate")
    f(A0, c)
    ctypes.CDLL(None).fflush(None)
    np.testing.assert_array_equal(c, A0 + 1)
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(wanted * 2)
    assert r'printf("A 100%%: %lld is %.9g\n"' in f.source("cuda")


def test_what_is_not_traced_when_it_is_not_reached(capsys: pytest.CaptureFixture[str]) -> None:
    A = te.placeholder((4,), name="A")
    C = te.compute((4,), lambda i: te.if_then_else(A[i] > 0.9, te.trace([A[i]], "large"), 0), name="C")
    for target in BOTH:
        tw.build([A, C], target=target)(A0, np.zeros(4, "float32"))
        assert capsys.readouterr().out == "large: 1.0\n"


def test_bad_traces() -> None:
    A = te.placeholder((4,), name="A")
    for args, match in (
        ([], "nothing to print"),
        (["text"], "its last argument, which it gives, is a string"),
        ([te.const(1).astype("int32x4")], "is a vector"),
    ):
        with pytest.raises(te_errors.BadOutsideCall, match=f"(?s)cannot trace.*{match}"):
            te.trace(args)
    with pytest.raises(te_errors.BadOutsideCall, match="its tag is 3"):
        te.trace([A[0]], 3)  # type: ignore[arg-type]
