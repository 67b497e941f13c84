"""Windows in shared memory: the bits of the program without a schedule, and what the texts are made of."""

from __future__ import annotations

from typing import Any

import drawn
import gpu_choices
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

EXTENTS = (1, 2, 7, 13, 16, 28, 31, 33, 56, 64, 65)


def depthwise(rng: np.random.Generator) -> Any:
    """With a border or without, of several images or one, strided and dilated, and a tail."""
    channels, height, width = int(rng.choice([1, 3, 4, 8])), int(rng.choice(EXTENTS)), int(rng.choice(EXTENTS))
    window, stride, dilation = int(rng.choice([1, 2, 3, 5])), int(rng.choice([1, 1, 2])), int(rng.choice([1, 1, 2]))
    padding = int(rng.integers(0, 3)) + dilation * (window - 1) // 2
    reach = dilation * (window - 1) + 1
    if min(height, width) + 2 * padding < reach:
        padding = reach
    image = te.placeholder((int(rng.choice([1, 2])), channels, height, width), name="image")
    weights = te.placeholder((channels, 1, window, window), name="weights")
    made = topi.nn.depthwise_conv2d(image, weights, stride, padding, dilation)
    return topi.nn.relu(made) if rng.integers(2) else made


def grouped(rng: np.random.Generator) -> Any:
    """Channels in groups: which of the image's a result reads is not a sum of axes."""
    groups, each, results = (int(rng.choice(some)) for some in ([1, 2, 3], [1, 2, 5], [1, 2, 3]))
    height, width = (int(rng.choice(EXTENTS[2:])) for _ in range(2))
    image = te.placeholder((int(rng.choice([1, 2])), groups * each, height, width), name="image")
    weights = te.placeholder((groups * results, each, 3, 3), name="weights")
    return topi.nn.group_conv2d_nchw(image, weights, int(rng.choice([1, 2])), 1, 1, groups)


def pool(rng: np.random.Generator) -> Any:
    height, width = (int(rng.choice(EXTENTS[2:])) for _ in range(2))
    dtype = str(rng.choice(["float32", "float16", "int8"]))
    image = te.placeholder((1, int(rng.choice([1, 4, 5])), height, width), dtype, name="image")
    window, stride = int(rng.choice([2, 3])), int(rng.choice([1, 2]))
    kind = topi.nn.max_pool2d if dtype != "float32" or rng.integers(2) else topi.nn.avg_pool2d
    return kind(image, window, stride, int(rng.integers(0, 2)))


def stencil(rng: np.random.Generator) -> Any:
    """Of one to three dimensions, written by hand, with whatever places; sometimes of another stencil."""
    ndim = int(rng.integers(1, 4))
    shape = [int(rng.choice(EXTENTS[:8] if ndim == 3 else EXTENTS)) + 4 for _ in range(ndim)]
    shape[-1] = int(rng.choice([68, 132, 71])) if ndim == 1 else shape[-1]
    dtype = str(rng.choice(["float32", "float32", "float64", "int16", "uint8"]))
    image = te.placeholder(shape, dtype, name="image")

    def around(source: Any, name: str) -> Any:
        places = [tuple(int(each) for each in rng.integers(0, 3, ndim)) for _ in range(int(rng.integers(2, 8)))]
        extents = [int(extent) - 2 for extent in source.shape]

        def term(*at: Any) -> Any:
            parts = [source[tuple(i + by for i, by in zip(at, place, strict=True))] for place in places]
            total = parts[0] * 3
            for part in parts[1:]:
                total = total - part
            return total

        return te.compute(extents, term, name=name)

    made = around(image, "first")
    return around(made, "second") if rng.integers(2) else made


@pytest.mark.parametrize("at", range(drawn.count(2, 100)))
@pytest.mark.parametrize("draw", [depthwise, grouped, pool, stencil])
def test_drawn_windows_keep_every_bit_in_every_way_that_there_is(draw: Any, at: int) -> None:
    rng = drawn.rng(f"gpu {draw.__name__}", at)
    assert gpu_choices.differs(draw(rng), rng, lambda ways: int(rng.integers(len(ways))), bool(rng.integers(2))) == ""


def test_a_block_loads_its_window_once_by_16_bytes_and_pads_it_on_its_way() -> None:
    image, weights = te.placeholder((1, 16, 128, 128), name="image"), te.placeholder((16, 1, 3, 3), name="weights")
    output = topi.nn.depthwise_conv2d(image, weights, 1, 1)
    s = tw.autoschedule.schedule([output], "cuda -emulate")
    assert s.plan[0].rule == "windows" and s.is_exact
    f = tw.build(s, [image, weights, output], target="cuda -emulate")
    given = np.random.default_rng(1).random((1, 16, 128, 128), "float32")
    f(given, np.ones((16, 1, 3, 3), "float32"), np.zeros((1, 16, 128, 128), "float32"))
    (kernel,) = f.kernels
    wide = [row for row in kernel.traffic if row.memory == "global" and row.bytes == 16]
    assert kernel.bank_conflicts == 0 and wide and all(not row.stores for row in wide)
    read = sum(row.least for row in wide) * 32
    assert given.nbytes <= read <= 1.7 * given.nbytes, "the halo is all that is loaded again"
    assert {row.bytes for row in kernel.traffic if row.memory == "shared" and row.stores} == {16}


def test_channels_that_lie_side_by_side_leave_no_sector_in_parts() -> None:
    image, weights = te.placeholder((1, 18, 18, 64), name="image"), te.placeholder((3, 3, 64), name="weights")
    r, q = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "q")
    output = te.compute(
        (1, 16, 16, 64), lambda n, y, x, c: te.sum(image[n, y + r, x + q, c] * weights[r, q, c], axis=[r, q]), "dw"
    )
    s = tw.autoschedule.schedule([output], "cuda -emulate")
    assert s.plan[0].rule == "windows" and s.plan[0].reason == ""
    f = tw.build(s, [image, weights, output], target="cuda -emulate")
    f(
        np.ones((1, 18, 18, 64), "float32"),
        np.ones((3, 3, 64), "float32"),
        found := np.zeros((1, 16, 16, 64), "float32"),
    )
    assert (found == 9).all() and f.kernels[0].uncoalesced == 0 and f.kernels[0].bank_conflicts == 0


@pytest.mark.parametrize("arch", drawn.part(["sm_80", "sm_90a", "sm_100"], 1))
def test_machine_code_spills_nothing_and_shares_what_rows_read(arch: str) -> None:
    image = te.placeholder((1024, 1024), name="image")
    blurred = te.compute(
        (1022, 1022),
        lambda y, x: (
            sum((image[y + dy, x + dx] for dy in range(3) for dx in range(3)), te.const(0.0, "float32")) * (1 / 9)
        ),
        name="blurred",
    )
    s = tw.autoschedule.schedule([blurred], f"cuda -arch={arch}")
    (kernel,) = tw.build(s, [image, blurred], target=f"cuda -arch={arch}").kernels
    assert kernel.spilled_bytes == 0 and kernel.occupancy.share >= 0.75
    text = gpu_choices.text_of(s, blurred)
    assert "tw_load<4>(&image[" in text and s.plan[0].description.endswith("4 rows a thread")
    assert kernel.instructions["LDS.32"] <= 0.75 * 9 * 8, "two copies of 4 rows, which share what they read"


def test_groups_of_channels_have_windows_of_their_own() -> None:
    image, weights = te.placeholder((1, 16, 28, 28), name="image"), te.placeholder((32, 4, 3, 3), name="weights")
    output = topi.nn.group_conv2d_nchw(image, weights, 1, 1, 1, 4)
    s = tw.autoschedule.schedule([output], "cuda -emulate")
    assert s.plan[0].rule == "windows" and s.is_exact
    f = tw.build(s, [image, weights, output], target="cuda -emulate")
    f(
        np.ones((1, 16, 28, 28), "float32"),
        np.ones((32, 4, 3, 3), "float32"),
        found := np.zeros((1, 32, 28, 28), "float32"),
    )
    assert found[0, 0, 1, 1] == 36 and found[0, 0, 0, 0] == 16
    moved = sum(row.transactions for row in f.kernels[0].traffic if row.memory == "global") * 32
    assert moved < 16 * (16 * 784 + 32 * 36 + 32 * 784) * 4, (
        "each group's eight results read its channels, and little more"
    )


@pytest.mark.parametrize("at", [0, 1])
def test_a_window_of_any_output_of_a_stage_is_the_one_that_is_kept(at: int) -> None:
    image = te.placeholder((40, 68), name="image")
    read = te.compute(image.shape, lambda *i: (te.exp(image[i]), image[i] * 2.0), "pair")[at]
    output = te.compute((38, 66), lambda i, j: read[i, j] + read[i + 1, j + 2] * read[i + 2, j + 1], "around")
    assert [decision.rule for decision in tw.autoschedule.schedule([output], "cuda -emulate").plan].count(
        "windows"
    ) == 1
    assert gpu_choices.differs(output, drawn.rng("outputs", at), bits=False) == ""
