"""Pooling against torch and numpy."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.tools.fuzz.references import pool as reference
from tilewright.topi.nn.window import BadWindow


def run(make: Any, x: Any, dtype: Any = None) -> Any:
    a = te.placeholder(x.shape, str(x.dtype), name="x")
    y = make(a)
    got = np.zeros([extent.value for extent in y.shape], dtype or x.dtype)
    tw.build(topi.schedule(y), [a, y])(x, got)
    return got


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CASES = {
    "2x2": ((2, 3, 14, 14), (2, 2), (2, 2), (0, 0, 0, 0)),
    "3x3 stride 2": ((1, 5, 27, 29), (3, 3), (2, 2), (1, 1, 1, 1)),
    "3x3": ((1, 5, 9, 40), (3, 3), (1, 1), (1, 1, 1, 1)),
    "large": ((1, 2, 30, 31), (7, 9), (3, 2), (3, 4, 2, 1)),
    "one": ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    "nothing": ((0, 3, 5, 5), (2, 2), (1, 1), (0, 0, 0, 0)),
}


@pytest.mark.parametrize(
    ("case", "layout"),
    drawn.part([*((case, "NCHW") for case in CASES), *((case, "NHWC") for case in ("3x3 stride 2", "large"))], 2),
)
def test_windows(case: str, layout: str) -> None:
    shape, kernel, stride, pads = CASES[case]
    x = draw(*shape)
    there = (lambda v: np.ascontiguousarray(v.transpose(0, 2, 3, 1))) if layout == "NHWC" else (lambda v: v)
    got = run(lambda a: topi.nn.max_pool2d(a, kernel, stride, pads, layout=layout), there(x))
    np.testing.assert_array_equal(got, there(reference(x, "max", kernel, stride, pads)).astype(np.float32))
    for include in (True, False):
        got = run(
            lambda a, include=include: topi.nn.avg_pool2d(
                a, kernel, stride, pads, count_include_pad=include, layout=layout
            ),
            there(x),
        )
        bound = kernel[0] * kernel[1] * 2.0**-24 * reference(abs(x), "avg", kernel, stride, pads, include=include)
        wanted = reference(x, "avg", kernel, stride, pads, include=include)
        assert (abs(got - there(wanted)) <= there(bound) + 1e-30).all()


def test_drawn() -> None:
    for case in range(drawn.count(4, 300)):
        rng = drawn.rng("pool", case)
        kernel, stride, dilation = (tuple(int(v) for v in rng.integers(1, top, 2)) for top in (5, 4, 3))
        pads = tuple(int(rng.integers(0, kernel[d % 2] // 2 + 1)) for d in range(4))
        shape = tuple(int(rng.integers(1, 4)) for _ in range(2)) + tuple(
            int(rng.integers((kernel[d] - 1) * dilation[d] + 1, 35)) for d in range(2)
        )
        ceil, include = bool(rng.integers(2)), bool(rng.integers(2))
        print("pool", drawn.SEED, case, shape, kernel, stride, pads, dilation, ceil, include)
        x = draw(*shape, seed=case)
        got = run(lambda a, h=(kernel, stride, pads, dilation, ceil): topi.nn.max_pool2d(a, *h), x)
        np.testing.assert_array_equal(got, reference(x, "max", kernel, stride, pads, dilation, ceil).astype(np.float32))
        got = run(
            lambda a, h=(kernel, stride, dilation, pads, "avg", ceil), i=include: topi.nn.pool2d(
                a, *h, count_include_pad=i
            ),
            x,
        )
        np.testing.assert_allclose(
            got, reference(x, "avg", kernel, stride, pads, dilation, ceil, include), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("include", [False, True])
def test_as_torch(ceil: bool, include: bool) -> None:
    torch = pytest.importorskip("torch")
    x = draw(2, 3, 17, 20)
    ours = run(lambda a: topi.nn.avg_pool2d(a, 3, 2, 1, ceil, include), x)
    theirs = torch.nn.functional.avg_pool2d(torch.from_numpy(x), 3, 2, 1, ceil, include).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    ours = run(lambda a: topi.nn.max_pool2d(a, 3, 2, 1, 1, ceil), x)
    np.testing.assert_array_equal(ours, torch.nn.functional.max_pool2d(torch.from_numpy(x), 3, 2, 1, 1, ceil).numpy())


@pytest.mark.parametrize("shape", [(2, 40, 7, 7), (1, 5, 1, 1), (3, 4, 33, 19)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_whole_images(shape: tuple[int, ...], layout: str) -> None:
    x = draw(*shape)
    axes = (2, 3) if layout == "NCHW" else (1, 2)
    got = run(lambda a: topi.nn.global_avg_pool2d(a, layout), x)
    wanted = x.astype(np.float64).mean(axes, keepdims=True)
    bound = shape[axes[0]] * shape[axes[1]] * 2.0**-24 * abs(x).mean(axes, keepdims=True)
    assert (abs(got - wanted) <= bound + 1e-30).all()
    if shape[0] == 3:
        np.testing.assert_array_equal(
            run(lambda a: topi.nn.global_max_pool2d(a, layout), x), x.max(axes, keepdims=True)
        )


@pytest.mark.parametrize("out", [1, (4, 5), (12, 2)])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adaptive(out: Any, kind: str) -> None:
    torch = pytest.importorskip("torch")
    x = draw(2, 3, 7, 9)
    there = getattr(torch.nn.functional, f"adaptive_{kind}_pool2d")(torch.from_numpy(x), out).numpy()
    np.testing.assert_allclose(run(lambda a: topi.nn.adaptive_pool(a, out, kind), x), there, rtol=1e-5, atol=1e-6)


def test_bytes_do_not_wrap() -> None:
    x = np.random.default_rng(0).integers(100, 256, (1, 2, 33, 35)).astype(np.uint8)
    got = run(lambda a: topi.nn.avg_pool2d(a, 3, 1, 0), x)
    means, greatest = (reference(x, kind, (3, 3), (1, 1), (0, 0, 0, 0)) for kind in ("avg", "max"))
    np.testing.assert_array_equal(got, np.trunc(means))
    np.testing.assert_array_equal(run(lambda a: topi.nn.max_pool2d(a, 3, 1, 0), x), greatest)


def test_other_layouts_and_symbols() -> None:
    x = draw(9, 3, 12)
    got = run(lambda a: topi.nn.max_pool2d(a, 2, layout="HCW"), x)
    np.testing.assert_array_equal(got, x[:8].reshape(4, 2, 3, 6, 2).max((1, 4)))
    n, h = te.size_var("n"), te.size_var("h")
    a = te.placeholder((n, 4, h, 20), name="x")
    y = topi.nn.avg_pool2d(a, 3, 1, 1)
    f = tw.build(topi.schedule(y), [a, y])
    for batch, high in ((1, 1), (2, 11)):
        x, got = draw(batch, 4, high, 20), np.zeros((batch, 4, high, 20), np.float32)
        f(x, got)
        np.testing.assert_allclose(got, reference(x, "avg", (3, 3), (1, 1), (1, 1, 1, 1)), rtol=1e-4, atol=1e-5)


def test_refusals() -> None:
    x = te.placeholder((1, 3, 9, 9), name="x")
    with pytest.raises(BadWindow, match="pooling 'min'"):
        topi.nn.pool2d(x, 2, 2, 1, 0, "min")
    with pytest.raises(BadWindow, match="pooling 'min'"):
        topi.nn.adaptive_pool(x, 2, "min")
    with pytest.raises(BadWindow, match="is not 'NHC'"):
        topi.nn.max_pool2d(x, 2, layout="NHC")
    with pytest.raises(BadWindow, match="does not fit"):
        topi.nn.max_pool2d(x, 12)
    with pytest.raises(BadWindow, match="not a constant"):
        topi.nn.max_pool2d(te.placeholder((1, 3, te.var("h"), 9), name="x"), 2, ceil_mode=True)
