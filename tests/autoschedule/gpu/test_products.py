"""Schedules that rules choose for products on GPUs: the bits of the program without a schedule, on the emulator, and what their
texts are made of."""

from __future__ import annotations

import re
from typing import Any

import drawn
import gpu_choices
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.scheduler import schedule


def contraction(rng: np.random.Generator) -> Any:
    """Axes of either side, of both, and of the sum, in drawn orders."""
    extents = {axis: int(rng.integers(1, 14)) for axis in "abcdef"}
    left, right = list("abef"), list("cdef")
    rng.shuffle(left)
    rng.shuffle(right)
    A = te.placeholder([extents[axis] for axis in left], name="A")
    B = te.placeholder([extents[axis] for axis in right], name="B")
    e, f = te.reduce_axis((0, extents["e"]), "e"), te.reduce_axis((0, extents["f"]), "f")

    def term(*at: Any) -> Any:
        index = {**dict(zip("abcd", at, strict=True)), "e": e, "f": f}
        return te.sum(A[tuple(index[axis] for axis in left)] * B[tuple(index[axis] for axis in right)], axis=[e, f])

    return te.compute([extents[axis] for axis in "abcd"], term, name="C")


def matmul(rows: int, columns: int, terms: int, transposed: bool = False, dtype: str = "float32") -> Any:
    A = te.placeholder((rows, terms), dtype, name="A")
    B = te.placeholder((columns, terms) if transposed else (terms, columns), dtype, name="B")
    k = te.reduce_axis((0, terms), "k")
    return te.compute(
        (rows, columns), lambda i, j: te.sum(A[i, k] * (B[j, k] if transposed else B[k, j]), axis=k), name="C"
    )


def conv2d(rng: np.random.Generator) -> Any:
    size, window, channels, filters = (int(rng.integers(*range_)) for range_ in ((5, 17), (1, 6), (1, 10), (1, 40)))
    image = te.placeholder((int(rng.integers(1, 3)), channels, size, size), name="image")
    weights = te.placeholder((filters, channels, window, window), name="weights")
    return topi.nn.relu(topi.nn.conv2d(image, weights, int(rng.integers(1, 3)), window // 2, 1))


@pytest.mark.parametrize("at", range(drawn.count(2, 200)))
@pytest.mark.parametrize("draw", [contraction, conv2d])
def test_drawn_products_keep_every_bit(draw: Any, at: int) -> None:
    rng = drawn.rng(f"gpu {draw.__name__}", at)
    assert gpu_choices.differs(draw(rng), rng) == ""


@pytest.mark.parametrize("at", range(drawn.count(2, 100)))
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_products_of_odd_sizes_keep_every_bit_in_every_way_that_there_is(dtype: str, at: int) -> None:
    rng = drawn.rng(f"gpu matmul {dtype}", at)
    rows, columns, terms = (int(rng.choice([1, 3, 16, 31, 33, 64, 67])) for _ in range(3))
    output = matmul(rows, columns, terms, bool(rng.integers(2)), dtype)
    assert gpu_choices.differs(output, rng, lambda ways: int(rng.integers(len(ways)))) == ""


@pytest.mark.parametrize("size", [1000, 1024])
def test_large_products_move_16_bytes_at_once_and_compute_without_guards(size: int) -> None:
    """Also where blocks reach beyond the matrices, as long as rows are whole vectors."""
    output = matmul(size, size, size)
    s = tw.autoschedule.schedule([output], target="cuda -arch=sm_80")
    assert s.is_exact and s.plan[0].rule == "product"
    text = gpu_choices.text_of(s, output)
    inner = text[text.index("for (int k_inner_outer") : text.index("tw_store(&C[")]
    assert "fmaf(" in inner and "if (" not in inner[: inner.rindex("fmaf(")]
    assert len(re.findall(r"(tw_load<4>\(|tw_copy<16>\(&._matrix\[.*\], )&[AB]\[", text)) >= 2 and not re.search(
        r"= [AB]\[", text
    )


def test_each_way_says_what_it_takes_and_the_best_is_taken() -> None:
    decision = tw.autoschedule.schedule([matmul(4096, 4096, 4096)], target="cuda -arch=sm_90").plan[0]
    seconds = [estimate.seconds for _, estimate in decision.candidates if estimate is not None]
    assert len(seconds) == len(decision.candidates) > 20 and decision.seconds == min(seconds)
    assert decision.binds in ("fma throughput", "shared memory", "instructions")  # which take about as long
    least = 2 * 4096**3 / (132 * 128 * 2 * 1.76e9)  # as many multiply-adds as the GPU has units for
    assert least <= min(seconds) <= 2 * least


@pytest.mark.parametrize(
    ("rows", "columns", "terms", "transposed"),
    drawn.part(
        [
            (256, 256, 64, False),
            (1024, 64, 16, False),
            (31, 500, 72, False),
            (64, 96, 72, True),
            (67, 131, 65, False),
            (67, 131, 65, True),
        ],
        3,
    ),
)
def test_no_two_lanes_of_a_warp_meet_in_a_bank(rows: int, columns: int, terms: int, transposed: bool) -> None:
    """Where rows are whole sectors, no sector is loaded for a part of it either; else the plan says so."""
    c = matmul(rows, columns, terms, transposed)
    s = tw.autoschedule.schedule([c], target="cuda -emulate")
    a, b = sorted(gpu_choices.inputs_of(c), key=lambda tensor: tensor.name)
    f = tw.build(s, [a, b, c], target="cuda -emulate")
    shape = (columns, terms) if transposed else (terms, columns)
    f(np.ones((rows, terms), "float32"), np.ones(shape, "float32"), found := np.zeros((rows, columns), "float32"))
    assert (found == terms).all() and [kernel.bank_conflicts for kernel in f.kernels] == [0]
    if rows % 8 == columns % 8 == terms % 8 == 0:
        assert f.kernels[0].uncoalesced == 0 and "sectors" not in s.plan[0].reason
    elif columns % 4:
        assert f"B by 4 bytes: rows of {terms if transposed else columns}" in str(s.plan)


def test_weights_of_windows_are_moved_16_bytes_at_once() -> None:
    """9 terms of each channel are not vectors, but those of all channels together are."""
    image, weights = te.placeholder((1, 16, 16, 16), name="image"), te.placeholder((32, 16, 3, 3), name="weights")
    output = topi.nn.conv2d(image, weights, 1, 1, 1)
    s = schedule(
        [output],
        "cuda -arch=sm_80",
        chooser=lambda _, ways: next(at for at, way in enumerate(ways) if way.description.endswith("4 stages")),
    )
    assert re.search(r"tw_copy<16>\(&weights_\w+\[", gpu_choices.text_of(s, output))
    assert s.plan[0].reason.startswith("pad_temp by 4 bytes: windows, or elements apart")
