"""What products and convolutions ask the caches for while they compute, and what they read once."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.cpu.gemm_plan import Product, plans
from tilewright.codegen.machine import find_machine
from tilewright.codegen.target import Target

TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids"


@pytest.mark.parametrize(("m", "n"), [(128, 768), (4, 768), (64, 48)])
def test_known_panels_are_asked_for_while_the_one_before_is_multiplied(m: int, n: int) -> None:
    """Where rows pass over a panel often enough, and another one follows."""
    x = te.placeholder((m, 96), name="x")
    y = topi.nn.dense(x, te.constant(np.ones((n, 96), "float32")))
    s = tw.autoschedule.schedule(y, TARGET)
    assert ("offset=1, share=" in s.as_python()) == (m > 4)
    assert bool(re.search(r"prefetch\(int32.*, 2\)", str(tw.lower(s, [x, y])))) == (m == 128)


@pytest.mark.parametrize(("size", "streams"), [(56, True), (14, False)])
def test_images_that_no_cache_keeps_are_asked_for_a_row_ahead(size: int, streams: bool) -> None:
    """Rows of hundreds of channels are more streams than a processor follows."""
    image = te.placeholder((1, 256, size, size), name="image")
    s = tw.autoschedule.schedule(
        topi.nn.conv2d_nchw(image, te.constant(np.ones((64, 256, 1, 1), "float32")), 1, 0, 1), TARGET
    )
    assert ("around=True" in s.as_python()) == streams


@pytest.mark.parametrize(("channels", "known"), [(512, True), (512, False), (16, True)])
def test_known_weights_of_the_next_channels_are_asked_for(channels: int, known: bool) -> None:
    """Where there are next channels, and the weights are there before the call."""
    weights = (
        te.constant(np.ones((channels, 32, 3, 3), "float32"))
        if known
        else te.placeholder((channels, 32, 3, 3), name="w")
    )
    image = te.placeholder((1, 32, 7, 7), name="image")
    y = topi.nn.conv2d_nchw(image, weights, 1, 1, 1)
    text = str(tw.lower(tw.autoschedule.schedule(y, TARGET), [image, *([] if known else [weights]), y]))
    assert bool(re.search(r"prefetch\(int32.*, 2\)", text)) == (known and channels > 16)


@pytest.mark.parametrize(("channels", "asks"), [(256, False), (2048, True)])
def test_bands_of_rows_do_not_each_ask_for_the_weights_that_the_next_one_reads_again(channels: int, asks: bool) -> None:
    """Tasks are whole chunks of channels where these are enough, and share what they ask for among their rows; else nothing is."""
    image = te.placeholder((1, 16, 14, 14, 16), name="image")
    y = topi.nn.conv2d_NCHWc(image, te.constant(np.ones((channels // 16, 16, 3, 3, 16, 16), "float32")), 1, 1, 1)
    s = tw.autoschedule.schedule(y, TARGET)
    assert "1 rows inside" in s.plan[0].description, "a task is a row, or all rows"
    parallel = re.search(r"for \S*outer\S* in parallel\((\d+)\)", str(tw.lower(s, [image, y])))
    assert parallel is not None
    assert ("share=" in s.as_python(), int(parallel[1])) == (asks, channels // 32 * (1 if asks else 14))


@pytest.mark.parametrize(("m", "n", "k"), [(64, 2048, 768), (100, 3072, 512), (61, 4099, 300)])
def test_a_matrix_beyond_the_second_cache_comes_from_there_once(m: int, n: int, k: int) -> None:
    """A task with a few of the rows and all panels would read all of it, and so would the next one."""
    (chosen, *_) = plans(Product(m, n, k, stride=n, in_place=True), find_machine(Target.parse(TARGET)), False, True)
    assert chosen.row_tiles * chosen.tile.rows >= m
