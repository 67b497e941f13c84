"""Depthwise convolutions against a sum written out in float64."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.cpu.depthwise import best_rows
from tilewright.tools.fuzz.references import depthwise as reference
from tilewright.topi.nn.window import BadConvolution, BadWindow


def check(
    x: Any, w: Any, stride: Any = (1, 1), pads: Any = (0, 0, 0, 0), dilation: Any = (1, 1), layout: str = "NCHW"
) -> None:
    wanted, bound = reference(x, w, stride, pads, dilation)
    if layout == "NHWC":
        x, w = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(w.transpose(2, 3, 0, 1))
    a, b = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
    y = topi.nn.depthwise_conv2d(a, b, stride, pads, dilation, layout)
    got = np.full([extent.value for extent in y.shape], np.nan, np.float32)
    tw.build(topi.schedule(y), [a, b, y])(x, w, got)
    if layout == "NHWC":
        got = got.transpose(0, 3, 1, 2)
    assert got.shape == wanted.shape
    assert (abs(got - wanted) <= bound + 1e-30).all(), abs(got - wanted).max()


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CASES = {
    "3x3": ((1, 16, 28, 28), (16, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "3x3 stride 2": ((1, 9, 56, 56), (9, 1, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "long rows": ((1, 2, 5, 173), (2, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "long rows, stride 2": ((1, 2, 9, 171), (2, 1, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "7 by 7": ((1, 33, 7, 7), (33, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "multiplier": ((2, 3, 14, 14), (3, 4, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "5x5": ((1, 4, 15, 17), (4, 1, 5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    "5x5 stride 2": ((1, 4, 15, 17), (4, 1, 5, 5), (2, 2), (2, 2, 2, 2), (1, 1)),
    "dilated": ((1, 4, 19, 23), (4, 1, 3, 3), (1, 1), (2, 2, 2, 2), (2, 2)),
    "one of everything": ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "nothing is round": ((3, 5, 17, 19), (5, 2, 3, 2), (2, 3), (0, 2, 1, 3), (1, 2)),
    "no image": ((0, 5, 17, 19), (5, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "more padding than image": ((1, 3, 2, 3), (3, 1, 5, 5), (1, 1), (4, 4, 4, 4), (1, 1)),
}


@pytest.mark.parametrize(
    ("case", "layout"),
    drawn.part(
        [
            *((case, "NCHW") for case in CASES),
            *((case, "NHWC") for case in ("3x3 stride 2", "multiplier", "nothing is round")),
        ],
        7,
    ),
)
def test_against_numpy(case: str, layout: str) -> None:
    x, w, *how = CASES[case]
    check(draw(*x), draw(*w, seed=1), *how, layout=layout)


def test_drawn() -> None:
    for case in range(drawn.count(4, 200)):
        rng = drawn.rng("depthwise", case)
        n, c, m, kh, kw = (int(rng.integers(1, top)) for top in (3, 9, 3, 5, 5))
        stride = tuple(int(s) for s in rng.integers(1, 4, 2))
        dilation = tuple(int(s) for s in rng.integers(1, 3, 2))
        pads = tuple(int(s) for s in rng.integers(0, 3, 4))
        h = int(rng.integers((kh - 1) * dilation[0] + 1, 40))
        w = int(rng.integers((kw - 1) * dilation[1] + 1, 40))
        layout = ("NCHW", "NHWC")[int(rng.integers(2))]
        print("depthwise", drawn.SEED, case, (n, c, h, w), (m, kh, kw), stride, pads, dilation, layout)
        check(draw(n, c, h, w, seed=case), draw(c, m, kh, kw, seed=case + 1), stride, pads, dilation, layout)


def test_windows_as_torch_lists_them() -> None:
    x, w = draw(1, 4, 9, 9), draw(8, 1, 3, 3, seed=1)
    a, b = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
    y = topi.nn.depthwise_conv2d(a, b, 1, "SAME")
    got = np.empty((1, 8, 9, 9), np.float32)
    tw.build(topi.schedule(y), [a, b, y])(x, w, got)
    wanted, bound = reference(x, w.reshape(4, 2, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1))
    assert (abs(got - wanted) <= bound).all()


@pytest.mark.parametrize("shape", [(1, 8, 14, 14), (1, 3, 30, 45)])
def test_tail_is_written_with_the_sums(shape: tuple[int, ...]) -> None:
    x, w, bias = draw(*shape), draw(shape[1], 1, 3, 3, seed=1), draw(shape[1], seed=2)
    a, b, d = (
        te.placeholder(x.shape, name="x"),
        te.placeholder(w.shape, name="w"),
        te.placeholder(bias.shape, name="bias"),
    )
    y = topi.nn.depthwise_conv2d(a, b, 1, 1)
    z = te.compute(y.shape, lambda n, c, i, j: te.min(te.max(y[n, c, i, j] + d[c], 0.0), 6.0), name="z")
    s = topi.schedule(z)
    got = np.empty(shape, np.float32)
    f = tw.build(s, [a, b, d, z])
    f(x, w, bias, got)
    wanted, bound = reference(x, w, (1, 1), (1, 1, 1, 1), (1, 1))
    assert (abs(got - np.clip(wanted + bias[:, None, None], 0, 6)) <= bound + 1e-6).all()
    assert str(tw.lower(s, [a, b, d, z])).count("parallel") <= 1


def test_batch_and_size_that_the_call_decides() -> None:
    n, h = te.size_var("n"), te.size_var("h")
    a, b = te.placeholder((n, 6, h, 33), name="x"), te.placeholder((6, 1, 3, 3), name="w")
    y = topi.nn.depthwise_conv2d(a, b, 1, 1)
    f = tw.build(topi.schedule(y), [a, b, y])
    for batch, high in ((1, 1), (2, 9), (0, 5), (3, 16)):
        x, w = draw(batch, 6, high, 33), draw(6, 1, 3, 3, seed=1)
        got = np.full((batch, 6, high, 33), np.nan, np.float32)
        f(x, w, got)
        wanted, bound = reference(x, w, (1, 1), (1, 1, 1, 1), (1, 1))
        assert (abs(got - wanted) <= bound).all()


def test_sums_stay_in_registers() -> None:
    """Of one ragged row vector: as many multiply-adds as taps and rows, and no accumulator in memory."""
    a, b = te.placeholder((1, 64, 14, 14), name="x"), te.placeholder((64, 1, 3, 3), name="w")
    y = topi.nn.depthwise_conv2d(a, b, 1, 1)
    target = "llvm -mcpu=znver4"
    assembly = tw.build(topi.schedule(y, target), [a, b, y], target).source("asm")
    task = assembly[assembly.index("_chunk,@function") :].split(".Lfunc_end")[0]
    assert 14 * 9 - 6 <= task.count("vfmadd") <= 14 * 9
    assert "gather" not in task and task.count("(%rsp)") == 0


def test_padding_of_rows_is_stored_for_each_task_where_lanes_have_no_masks() -> None:
    a, b = te.placeholder((1, 64, 14, 14), name="x"), te.placeholder((64, 1, 3, 3), name="w")
    y = topi.nn.depthwise_conv2d(a, b, 1, 1)
    for processor, stored in (("haswell", True), ("znver4", False)):
        text = str(topi.schedule(y, f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={processor}"))
        assert ("pad_temp: float32[1, 1, 16, 16]" in text) == stored
        sums = [line for line in text.splitlines() if "mul_add(" in line]
        assert sums and all(("if_then_else" in line) != stored for line in sums), "no tap looks for padding"


@pytest.mark.parametrize(("extent", "rows"), [(7, 7), (14, 7), (28, 7), (56, 8), (112, 8), (5, 5), (1, 1), (0, 8)])
def test_rows_divide_the_image(extent: int, rows: int) -> None:
    assert best_rows(extent, 3, 1, 19) == rows


def test_gpu_code() -> None:
    x, w = draw(1, 4, 9, 9), draw(4, 1, 3, 3, seed=1)
    a, b = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
    y = topi.nn.depthwise_conv2d(a, b, 1, 1)
    got = np.empty((1, 4, 9, 9), np.float32)
    tw.build(topi.schedule(y, "cuda -emulate"), [a, b, y], "cuda -emulate")(x, w, got)
    wanted, bound = reference(x, w, (1, 1), (1, 1, 1, 1), (1, 1))
    assert (abs(got - wanted) <= bound).all()


def test_refusals() -> None:
    x, w = te.placeholder((1, 4, 9, 9), name="x"), te.placeholder((4, 1, 3, 3), name="w")
    with pytest.raises(BadConvolution, match="layout 'NWHC'"):
        topi.nn.depthwise_conv2d(x, w, 1, 1, layout="NWHC")
    with pytest.raises(BadConvolution, match="windows for 5"):
        topi.nn.depthwise_conv2d(x, te.placeholder((5, 1, 3, 3), name="w"), 1, 1)
    with pytest.raises(BadConvolution, match="3 dimensions"):
        topi.nn.depthwise_conv2d(x, te.placeholder((4, 3, 3), name="w"), 1, 1)
    with pytest.raises(BadConvolution, match="not a constant"):
        topi.nn.depthwise_conv2d(x, te.placeholder((4, 1, te.var("k"), 3), name="w"), 1, 1)
    with pytest.raises(BadWindow, match="does not fit"):
        topi.nn.depthwise_conv2d(x, te.placeholder((4, 1, 11, 11), name="w"), 1, 0)
