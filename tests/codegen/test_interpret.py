"""target="interpret": called like any kernel, checked while it runs."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def gather():
    n = te.var("n")
    A, I = te.placeholder((10,), name="A"), te.placeholder((n,), "int32", name="I")
    scale = te.var("scale", "float32")
    B = te.compute((n,), lambda i: A[I[i]] * scale, name="B")
    return tw.build(te.create_schedule(B), [A, I, scale, B], target="interpret")


def test_results_are_those_of_the_compiled_kernel_for_symbolic_shapes_and_scalars() -> None:
    f = gather()
    a = np.arange(10, dtype="float32")
    for count in (0, 1, 7):
        out = np.empty(count, "float32")
        f(a, np.arange(count, dtype="int32"), 0.5, out)
        np.testing.assert_array_equal(out, a[:count] * 0.5)


def test_a_data_dependent_index_out_of_range_is_caught() -> None:
    with pytest.raises(tw.TilewrightError, match=r"A\b.*10"):
        gather()(np.zeros(10, "float32"), np.array([3, 10], "int32"), 1.0, np.empty(2, "float32"))


def test_arguments_are_checked_as_for_compiled_kernels() -> None:
    with pytest.raises(tw.CallError, match="'I'"):
        gather()(np.zeros(10, "float32"), np.zeros(2, "int64"), 1.0, np.empty(2, "float32"))


def test_half_precision_scalars_and_arrays_arrive_whole() -> None:
    A, x = te.placeholder((3,), "float16", name="A"), te.var("x", "float16")
    B = te.compute((3,), lambda i: A[i] * x, name="B")
    out = np.empty(3, "float16")
    tw.build(te.create_schedule(B), [A, x, B], target="interpret")(np.array([1, 2, 3], "float16"), 1.5, out)
    np.testing.assert_array_equal(out, np.array([1.5, 3, 4.5], "float16"))


def test_its_source_is_the_loops() -> None:
    f = gather()
    assert "for i in n" in f.source("ir")
    with pytest.raises(tw.CallError, match="no source 'asm'"):
        f.source("asm")


# TILEWRIGHT_INTERPRET=1


def out_of_range(target: str = "llvm") -> tw.Kernel:
    A, I = te.placeholder((10,), name="A"), te.placeholder((4,), "int32", name="I")
    B = te.compute((4,), lambda i: A[I[i]], name="B")
    return tw.build(te.create_schedule(B), [A, I, B], target=target)


@pytest.mark.parametrize("target", ["llvm", "cuda -emulate", "interpret"])
def test_the_environment_runs_kernels_of_any_target_in_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", "1")
    f = out_of_range(target)
    out = np.empty(4, "float32")
    f(np.arange(10, dtype="float32"), np.array([3, 1, 9, 0], "int32"), out)
    np.testing.assert_array_equal(out, [3, 1, 9, 0])
    with pytest.raises(tw.TilewrightError, match=r"A\[10\], out of bounds"):
        f(np.arange(10, dtype="float32"), np.array([3, 10, 9, 0], "int32"), out)


def test_it_interprets_every_kernel_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", "1")
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i] + 1, name="B")
    module = tw.build({"one": [A, B], "two": (te.create_schedule(B), [A, B])})
    for name in ("one", "two"):
        with pytest.raises(tw.CallError, match="interpreted kernel has no source 'asm'"):
            module[name].source("asm")


@pytest.mark.parametrize("value", ["", "0"])
def test_an_empty_or_zero_setting_changes_nothing(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", value)
    assert "ret" in out_of_range().source("asm")


def test_a_target_that_does_not_exist_is_refused_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", "1")
    with pytest.raises(tw.CodegenError, match="unknown target 'lllvm'"):
        out_of_range("lllvm")
