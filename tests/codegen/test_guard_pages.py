"""Every kind of operation at extents of 0, 1 and 2, its arrays against pages that nobody may touch: a call computes, or is refused
before anything is written. In a process of its own, so that a fault is seen as such."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from exported import as_dlpack
from tilewright import te, topi
from tilewright.runtime.errors import KernelAssertion, SymbolDisagrees
from tilewright.te.hybrid import allocate, output_tensor
from tilewright.tools.fuzz.guard import Guarded

Shapes = Callable[[int, int], list[Any]]
Program = tuple[te.Schedule, list[Any], Shapes]
PROGRAMS: dict[str, Callable[[Any, Any], Program]] = {}


def program(declare: Callable[[Any, Any], Program]) -> Callable[[Any, Any], Program]:
    PROGRAMS[declare.__name__] = declare
    return declare


def scheduled(*outputs: te.Tensor) -> te.Schedule:
    return te.create_schedule([output.op for output in outputs])


def recurrence(steps: Any, time: Any, X: te.Tensor | None = None) -> te.Tensor:
    """state[t] = state[t - 1] + 1, or + X[t], after `steps` first rows of 7."""
    state = te.placeholder((time, 3), name="state")
    init = te.compute((steps, 3), lambda t, i: te.const(7.0), name="init")

    def before(t: Any, i: Any) -> Any:
        return state[t - 1, i] if isinstance(steps, int) else te.if_then_else(t >= 1, state[t - 1, i], 0.0)

    update = te.compute((time, 3), lambda t, i: before(t, i) + (1.0 if X is None else X[t, i]), name="update")
    return te.scan(init, update, state, inputs=[X] if X is not None else [], name="S")


@program
def scan(n: Any, m: Any) -> Program:
    S = recurrence(2, m)
    return scheduled(S), [S], lambda n, m: [(m, 3)]


@program
def scan_of_unknown_first_steps(n: Any, m: Any) -> Program:
    S = recurrence(n, m)
    return scheduled(S), [n, S], lambda n, m: [n, (m, 3)]


@program
def scan_that_is_read(n: Any, m: Any) -> Program:
    X = te.placeholder((m, 3), name="X")
    S = recurrence(2, m, X)
    B = te.compute((m, 3), lambda t, i: S[t, i] * 2, name="B")
    return scheduled(B), [X, B], lambda n, m: [(m, 3), (m, 3)]


@program
def negative_intermediate(n: Any, m: Any) -> Program:
    A = te.placeholder((n,), name="A")
    T = te.compute((n - 2, m - 2), lambda i, j: A[i] + j, name="T")
    B = te.compute((n, m), lambda i, j: te.if_then_else(te.all(i < n - 2, j < m - 2), T[i, j], 0.0), name="B")
    s = scheduled(B)
    s[T].parallel(s[T].fuse(*T.op.axis))
    return s, [A, B], lambda n, m: [(n,), (n, m)]


@program
def negative_sums(n: Any, m: Any) -> Program:
    A = te.placeholder((n, m), name="A")
    k, l = te.reduce_axis((0, n - 2), "k"), te.reduce_axis((0, m - 2), "l")
    B = te.compute((1,), lambda i: te.sum(A[k, l], axis=[k, l]), name="B")
    s = scheduled(B)
    s[B].fuse(k, l)
    return s, [A, B], lambda n, m: [(n, m), (1,)]


@program
def factored_negative_sum(n: Any, m: Any) -> Program:
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((2, n), "k")
    B = te.compute((m,), lambda i: te.sum(A[k, i], axis=k), name="B")
    s = scheduled(B)
    s.rfactor(B, s[B].split(k, 4)[1])
    return s, [A, B], lambda n, m: [(n, m), (m,)]


@program
def quotients(n: Any, m: Any) -> Program:
    A = te.placeholder((n,), name="A")
    B = te.compute((n // 2,), lambda i: A[2 * i] + A[2 * i + 1], name="B")
    C = te.compute((n // m,), lambda i: A[i], name="C")
    return scheduled(B, C), [A, m, B, C], lambda n, m: [(n,), m, (n // 2,), (n // m if m else 0,)]


def split(cut: Callable[[te.Schedule, te.Tensor, Any], Any]) -> Callable[[Any, Any], Program]:
    def declare(n: Any, m: Any) -> Program:
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] + 1, name="B")
        s = scheduled(B)
        cut(s, B, m)
        return s, [A, m, B], lambda n, m: [(n,), m, (n,)]

    return declare


PROGRAMS |= {
    "split_by_a_symbol": split(lambda s, B, m: s[B].split(B.op.axis[0], m)),
    "split_into_parts": split(lambda s, B, m: s[B].split(B.op.axis[0], nparts=m)),
    "split_by_less": split(lambda s, B, m: s[B].parallel(s[B].split(B.op.axis[0], m - 1)[0])),
    "split_without_guard": split(lambda s, B, m: s[B].split(B.op.axis[0], 4, disable_predication=True)),
}


@program
def extern(n: Any, m: Any) -> Program:
    A = te.placeholder((n,), name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = tw.ir_builder()
        with ib.for_range(0, n - 1) as i:
            ib.emit(outs[0].vstore([i], ins[0].vload([i + 1])))
        ib.emit(outs[0].vstore([n - 1], ins[0].vload([1])))
        return ib.get()

    B = te.extern((n,), [A], body, "B")
    return scheduled(B), [A, B], lambda n, m: [(n,), (n,)]


@program
def extern_of_vectors(n: Any, m: Any) -> Program:
    A = te.placeholder((n,), name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = tw.ir_builder()
        with ib.for_range(0, te.ceildiv(n, 2)) as i:
            ib.emit(outs[0].vstore([i * 2], ins[0].vload([i * 2], "float32x2")))
        return ib.get()

    B = te.extern((n,), [A], body, "B")
    return scheduled(B), [A, B], lambda n, m: [(n,), (n,)]


@program
def script(n: Any, m: Any) -> Program:
    @te.hybrid.script
    def shifted(a: Any) -> Any:
        b = output_tensor((a.shape[0],), "float32")
        t = allocate((a.shape[0] - 1,), "float32")
        for i in range(a.shape[0] - 1):
            t[i] = a[i + 1]
        for i in range(a.shape[0] - 1):
            b[i] = t[i]
        b[0] = a[1]
        return b

    A = te.placeholder((n,), name="A")
    B = shifted(A)
    return scheduled(B), [A, B], lambda n, m: [(n,), (n,)]


@program
def boundaries(n: Any, m: Any) -> Program:
    A = te.placeholder((n,), name="A")
    kinds = (te.wrapped(A), te.mirrored(A), te.clamped(A), te.padded(A, 1.0))
    outs = [te.compute((m,), lambda i, E=E, at=at: E[i - 3] + E[i + 2], name=f"B{at}") for at, E in enumerate(kinds)]
    return scheduled(*outs), [A, *outs], lambda n, m: [(n,), *[(m,)] * 4]


@program
def constant_index(n: Any, m: Any) -> Program:
    A = te.placeholder((n,), name="A")
    B = te.compute((m,), lambda i: A[1] + A[n - 2], name="B")
    return scheduled(B), [A, B], lambda n, m: [(n,), (m,)]


@program
def tiled_stencil(n: Any, m: Any) -> Program:
    A = te.placeholder((n + 2, m + 2), name="A")
    T = te.compute((n + 2, m + 2), lambda i, j: A[i, j] * 2, name="T")
    B = te.compute((n, m), lambda i, j: T[i, j] + T[i + 2, j + 2], name="B")
    s = scheduled(B)
    _, outer, _, inner = s[B].tile(*B.op.axis, 4, 4)
    s[T].compute_at(s[B], outer)
    s[B].vectorize(inner)
    return s, [A, B], lambda n, m: [(n + 2, m + 2), (n, m)]


def add_one() -> Any:
    a = te.placeholder((4,), name="a")
    c = te.compute((4,), lambda i: a[i] + 1, name="c")

    def body(ins: Any, outs: Any) -> Any:
        return outs[0].vstore([0], ins[0].vload([0], "float32x4") + te.const(1.0, "float32x4"))

    return te.decl_tensor_intrin(c.op, body, "add_one")


@program
def tensor_compute(n: Any, m: Any) -> Program:
    A, intrinsic = te.placeholder((m,), name="A"), add_one()
    B = te.compute((n, 4), lambda i: intrinsic(A[i : i + 4]), name="B")
    return scheduled(B), [A, B], lambda n, m: [(m,), (n, 4)]


@program
def tensorized(n: Any, m: Any) -> Program:
    A = te.placeholder((n * 4,), name="A")
    B = te.compute((n * 4,), lambda i: A[i] + 1, name="B")
    s = scheduled(B)
    s[B].tensorize(s[B].split(B.op.axis[0], 4)[1], add_one())
    return s, [A, B], lambda n, m: [(n * 4,), (n * 4,)]


@program
def scatter(n: Any, m: Any) -> Program:
    A, I, V = te.placeholder((m,), name="A"), te.placeholder((n,), "int32", name="I"), te.placeholder((n,), name="V")
    B = topi.scatter_elements(A, I, V, axis=0)
    return scheduled(B), [A, I, V, B], lambda n, m: [(m,), (n,), (n,), (m,)]


@program
def argmax(n: Any, m: Any) -> Program:
    A = te.placeholder((n, m), name="A")
    B = topi.argmax(A, axis=1)
    return scheduled(B), [A, B], lambda n, m: [(n, m), (n,)]


def run(target: str) -> None:
    """Calls every program; prints its name first, so that the last one is the one that ended the process."""
    for name, declare in PROGRAMS.items():
        print(name, flush=True)
        s, args, shapes = declare(te.var("n"), te.var("m"))
        f = tw.build(s, args, target=target)
        for values, at_end in itertools.product(itertools.product(range(3), range(3)), (True, False)):
            arrays = [
                shape
                if isinstance(shape, int)
                else Guarded(np.zeros(shape, str(arg.dtype)), at_end, arg.op.kind != "placeholder")
                for arg, shape in zip(args, shapes(*values), strict=True)
            ]
            guarded = [array for array in arrays if isinstance(array, Guarded)]
            refused = True
            try:
                f(*(array.view if isinstance(array, Guarded) else array for array in arrays))
                refused = False
            except (KernelAssertion, SymbolDisagrees):
                pass
            for array in guarded:
                assert not array.complaint(), (name, values, array.complaint())
                if refused and array.written:
                    assert set(array.view.tobytes()) <= {0xA5}, f"{name} at {values} wrote before it was refused"


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_nothing_outside_is_touched(target: str) -> None:
    path = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, __file__, target], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, f"{done.stdout[-200:]}{done.stderr[-2000:]}"


@pytest.mark.parametrize("target", ["interpret", "llvm", "c", "cuda -emulate"])
def test_a_scan_of_fewer_steps_than_it_begins_with_is_refused(target: str) -> None:
    """`f(np.empty((0, W)))` wrote two rows past its output."""
    S = recurrence(2, te.var("m"))
    s = te.create_schedule(S.op)
    if target.startswith("cuda"):
        s[S].env_threads([te.thread_axis((0, 3), "threadIdx.x")])
    f = tw.build(s, [S], target=target)
    memory = np.full((4, 3), 5, "float32")
    for steps in (0, 1):
        with pytest.raises(tw.TilewrightError, match=r"S takes m steps, fewer than the 2 that it begins with"):
            f(memory[:steps])
        assert (memory == 5).all()
    f(memory[:2])
    assert (memory[:2] == 7).all() and (memory[2:] == 5).all()


def test_an_exported_scan_checks_its_steps(tmp_path: Path) -> None:
    S = recurrence(2, te.var("m"))
    tw.build(te.create_schedule(S.op), [S], name="steps").export(tmp_path / "libsteps.so")
    library = ctypes.CDLL(str(tmp_path / "libsteps.so"))
    library.steps_error.restype = ctypes.c_char_p
    memory = np.full((4, 3), 5, "float32")
    status = library.steps_checked(ctypes.byref(as_dlpack(memory[:1])))
    assert b"fewer than the 2" in library.steps_error(status)
    assert (memory == 5).all()


if __name__ == "__main__":
    run(sys.argv[1])
