"""tw.jit: functions that declare, called on arrays."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.driver.jit import CacheInfo
from tilewright.ir.stmt import Function


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * 10).astype(dtype)


def scaling() -> Any:
    @tw.jit
    def scaled(x: Any, y: Any, factor: float = 2.0) -> Any:
        """x times factor, and y."""
        return te.compute(x.shape, lambda *i: x(*i) * factor + y(*i), name="scaled")

    return scaled


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (0, 4), (2, 3, 1)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_results_are_new_arrays_of_the_declared_shape_and_dtype(shape: tuple[int, ...], dtype: str) -> None:
    f = tw.jit(lambda x, y: te.compute(x.shape, lambda *i: x(*i) * 3 + y(*i)))
    x, y = numbers(*shape, dtype=dtype, seed=1), numbers(*shape, dtype=dtype, seed=2)
    got = f(x, y)
    assert type(got) is np.ndarray and got.shape == shape and got.dtype == dtype
    np.testing.assert_allclose(got, x * np.asarray(3, dtype) + y, rtol=1e-6)
    assert f(x, y) is not got


def test_one_kernel_for_each_combination_of_shapes_dtypes_and_values() -> None:
    f = scaling()
    x = numbers(8)
    for factor in (2.0, 3.0, 2, True, -0.0, 0.0, float("nan"), float("nan")):
        f(x, x, factor)
    assert f.cache_info() == CacheInfo(1, 7, 7)  # the second nan is the first
    assert np.signbit(f(np.ones(4, np.float32), -np.zeros(4, np.float32), -0.0)).all()
    f(numbers(9), numbers(9), 2.0)
    f(numbers(8, dtype="float64"), numbers(8, dtype="float64"), 2.0)
    assert f.cache_info().misses == 10
    f.cache_clear()
    assert f.cache_info() == CacheInfo(0, 0, 0)


def test_keywords_and_defaults_mean_what_they_mean_in_python() -> None:
    f = scaling()
    x, y = numbers(5, seed=1), numbers(5, seed=2)
    for got in (f(x, y), f(x, y=y), f(y=y, x=x), f(x, y, factor=2.0), f(x, y, 2.0)):
        np.testing.assert_array_equal(got, f(x, y))
    np.testing.assert_array_equal(f(x, factor=np.float32(0.5), y=y), (x * np.float32(0.5) + y))
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        f(x=x)
    assert f.__name__ == "scaled" and f.__doc__ == "x times factor, and y." and "scaled(x: 'Any'" in repr(f)


def test_keyword_only_arguments_and_positional_ones_without_number() -> None:
    @tw.jit
    def total(*parts: Any, weight: Any, sign: int = 1) -> Any:
        sum_ = parts[0]
        for part in parts[1:]:
            sum_ = sum_ + part
        return te.compute(sum_.shape, lambda i: sum_[i] * weight[i] * sign)

    x, w = numbers(6, seed=1), numbers(6, seed=2)
    np.testing.assert_allclose(total(x, x, x, weight=w), 3 * x * w, rtol=1e-6)
    np.testing.assert_allclose(total(x, weight=w, sign=-1), -x * w, rtol=1e-6)
    assert total.cache_info().misses == 2


def test_numpy_scalars_are_passed_by_each_call() -> None:
    f = tw.jit(lambda x, a: te.compute(x.shape, lambda i: x[i] * a))
    x = numbers(5)
    for value in (0.5, 3.0, -1.0):
        np.testing.assert_array_equal(f(x, np.float32(value)), x * np.float32(value))
    assert f.cache_info() == CacheInfo(2, 1, 1)
    np.testing.assert_array_equal(f(numbers(5, dtype="int32"), np.int32(7)), numbers(5, dtype="int32") * 7)


def test_tuples_and_lists_of_arrays_are_tuples_and_lists_of_tensors() -> None:
    @tw.jit
    def f(parts: Any, options: tuple[int, str] = (1, "a")) -> Any:
        assert isinstance(parts, list) and isinstance(parts[1], tuple)
        return parts[0] + options[0], parts[1][0]

    x, y = numbers(4, seed=1), numbers(3, seed=2)
    first, second = f([x, (y,)])
    np.testing.assert_array_equal(first, x + 1)
    np.testing.assert_array_equal(second, y)  # an input that is returned is copied
    assert second is not y
    assert f([x, (y,)], (2, "a"))[0][0] == x[0] + 2


def test_a_result_returned_twice_is_two_arrays() -> None:
    @tw.jit
    def f(x: Any) -> Any:
        y = te.compute(x.shape, lambda i: x[i] + 1)
        return [y, y, x]

    x = numbers(4)
    a, b, c = f(x)
    assert not np.shares_memory(a, b)
    np.testing.assert_array_equal(a, x + 1)
    np.testing.assert_array_equal(b, x + 1)
    np.testing.assert_array_equal(c, x)


def test_out_is_written_to_and_returned() -> None:
    f = scaling()
    x, out = numbers(6), np.empty(6, np.float32)
    assert f(x, x, out=out) is out
    np.testing.assert_array_equal(out, f(x, x))
    pair = tw.jit(lambda x: (x + 1, x + 2))
    outs = [np.empty(6, np.float32), np.empty(6, np.float32)]
    assert pair(x, out=outs) is outs
    np.testing.assert_array_equal(outs[1], x + 2)
    with pytest.raises(tw.CallError, match="has 2 outputs, and out= gives 1"):
        pair(x, out=outs[:1])
    with pytest.raises(tw.CallError, match="dtype float64"):
        f(x, x, out=np.empty(6))
    with pytest.raises(tw.CallError, match="memory"):
        f(x, x, out=x)


def test_a_function_may_bring_its_schedule() -> None:
    @tw.jit
    def f(x: Any) -> Any:
        y = te.compute(x.shape, lambda i: x[i] * 2, name="y")
        s = te.create_schedule(y)
        s[y].vectorize(s[y].split(y.op.axis[0], 4)[1])
        return s, y

    x = numbers(12)
    np.testing.assert_array_equal(f(x), x * 2)
    lowered = f.lower(x)
    assert isinstance(lowered, Function) and "vectorized(4)" in str(lowered)
    kernel = f.kernel(x)
    out = np.empty(12, np.float32)
    kernel(x, out)
    assert (out == x * 2).all() and "y" in kernel.source("ir") and kernel.name == "f"
    assert f.cache_info().currsize == 1


def test_other_libraries_arrays_come_in_by_dlpack() -> None:
    torch = pytest.importorskip("torch")
    f = scaling()
    x, y = numbers(5, 3, seed=1), numbers(5, 3, seed=2)
    got = f(torch.from_numpy(x), torch.from_numpy(y))
    assert type(got) is torch.Tensor
    np.testing.assert_array_equal(got, f(x, y))
    assert type(f(x, torch.from_numpy(y))) is torch.Tensor
    into = torch.empty(5, 3)
    assert f(tw.array(x), torch.from_numpy(y), out=into) is into
    np.testing.assert_array_equal(into.numpy(), got)


def test_jitted_functions_compose() -> None:
    f = scaling()
    both = tw.jit(lambda x, y: f(f(x, y=y), x, 3.0))
    x, y = numbers(5, seed=1), numbers(5, seed=2)
    np.testing.assert_allclose(both(x, y), (x * 2 + y) * 3 + x, rtol=1e-5)
    assert f.cache_info().misses == 0


def test_operators_of_topi_are_scheduled() -> None:
    product = tw.jit(fast_math=True)(lambda a, b: topi.matmul(a, b))
    for m, k, n in ((3, 4, 5), (17, 33, 65)):
        a, b = numbers(m, k, seed=1), numbers(k, n, seed=2)
        np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-4, atol=1e-3)
    assert product.kernel(a, b).name == "main"  # a lambda has no name


@pytest.mark.parametrize("target", ["interpret", "cuda -emulate"])
def test_targets_are_handed_on(target: str) -> None:
    f = tw.jit(target=target)(lambda x: te.compute(x.shape, lambda i: x[i] + 1))
    x = numbers(5)
    np.testing.assert_array_equal(f(x), x + 1)


def test_bounds_are_checked_where_that_is_asked_for() -> None:
    gather = tw.jit(bounds_check=True)(lambda x, at: te.compute(at.shape, lambda i: x[at[i]]))
    x, at = numbers(5), np.array([4, 0], np.int32)
    np.testing.assert_array_equal(gather(x, at), x[at])
    with pytest.raises(tw.CallError, match="x"):
        gather(x, np.array([5, 0], np.int32))


def test_many_threads_build_one_kernel() -> None:
    f, x = scaling(), numbers(1000)
    wanted, wrong, start = x * 2 + x, [], threading.Barrier(8)

    def work() -> None:
        start.wait()
        for _ in range(50):
            if not np.allclose(f(x, x), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert f.cache_info() == CacheInfo(399, 1, 1)


def test_an_error_in_the_function_leaves_no_kernel() -> None:
    @tw.jit
    def f(x: Any, fail: bool) -> Any:
        if fail:
            raise KeyError("the user's own")
        return x + 1

    with pytest.raises(KeyError, match="the user's own"):
        f(numbers(3), True)
    assert f.cache_info().currsize == 0
    assert f(numbers(3), False).shape == (3,)


@pytest.mark.parametrize("result", [None, 3, [], ["x"], np.ones(3)])
def test_what_is_no_tensor_is_refused(result: Any) -> None:
    with pytest.raises(tw.CallError, match=r"TW0531.*returns nothing that could be computed"):
        tw.jit(lambda x: result)(numbers(3))


def test_a_shape_that_nobody_knows_is_refused() -> None:
    with pytest.raises(tw.CallError, match=r"TW0531.*the shape of y, which main returns, is not known"):
        tw.jit(lambda x: te.compute((te.var("n"),), lambda i: x[0], name="y"))(numbers(3))


def test_what_has_no_hash_is_refused() -> None:
    f = scaling()
    for call in (
        lambda: f(numbers(3), numbers(3), {"factor": 2}),
        lambda: f(numbers(3), factor={2}, y=numbers(3)),
        lambda: f.kernel(numbers(3), numbers(3), bytearray(2)),
    ):
        with pytest.raises(tw.CallError, match="cannot specialise scaled by an argument of type"):
            call()


def test_arrays_that_kernels_refuse_are_refused_by_name() -> None:
    f = scaling()
    x = numbers(6, 4)
    with pytest.raises(tw.CallError, match=r"'x' .*stride|stride.*'x'"):
        f(x[:, ::2], x[:, ::2])
    with pytest.raises(tw.CallError, match="byte order"):
        f(x.astype(">f4"), x)
