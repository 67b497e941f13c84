"""Axes that are read as digits: groups of convolutions, and what else divides an index."""

from __future__ import annotations

import re

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.autoschedule import schedule
from tilewright.autoschedule.cpu.quotient_axes import find_digits
from tilewright.ir.stmt import Allocate
from tilewright.ir.visit import post_order

HASWELL = "llvm -mcpu=haswell"


def groups(number: int, results: int, channels: int, wide: int, stride: int) -> tuple[list[te.Tensor], te.Tensor]:
    """A convolution along rows of which each group of results reads channels of its own."""
    x = te.placeholder((number * channels, 7, wide), name="X")
    w = te.placeholder((number * results, channels, 3, 3), name="W")
    c, p, q = (te.reduce_axis((0, extent), name) for extent, name in ((channels, "c"), (3, "p"), (3, "q")))
    return [x, w], te.compute(
        (number * results, (7 - 3) // stride + 1, (wide - 3) // stride + 1),
        lambda o, y, z: te.sum(
            x[o // results * channels + c, y * stride + p, z * stride + q] * w[o, c, p, q], [c, p, q]
        ),
        name="Y",
    )


@pytest.mark.parametrize(
    ("number", "results", "channels", "wide", "stride", "tail"),
    [(3, 7, 5, 23, 1, False), (2, 17, 3, 35, 2, True), (5, 16, 2, 41, 1, True)],
)
def test_groups_are_products_of_matrices_bit_for_bit(
    number: int,
    results: int,
    channels: int,
    wide: int,
    stride: int,
    tail: bool,
) -> None:
    inputs, conv = groups(number, results, channels, wide, stride)
    output = te.compute(conv.shape, lambda *at: te.max(conv(*at) + 0.5, 0.0), name="T") if tail else conv
    rng = np.random.default_rng(number)
    arrays = [
        rng.standard_normal(tuple(int(str(extent)) for extent in tensor.shape)).astype("float32") for tensor in inputs
    ]
    chosen, got = schedule(output), list[np.ndarray]()
    assert chosen.plan[0].rule == "contraction" and chosen.is_exact
    assert chosen.plan[0].anchor == "Y" and re.match(r"rows o\S*inner, ", chosen.plan[0].description)
    for s in (chosen, te.create_schedule(output.op)):
        got.append(np.full(tuple(int(str(extent)) for extent in output.shape), np.nan, "float32"))
        tw.build(s, [*inputs, output])(*arrays, got[-1])
    np.testing.assert_array_equal(*got)


def test_axes_of_one_value_do_not_keep_groups_from_being_products() -> None:
    """A batch of one image: its index is the constant 0 once axes are digits."""
    x, w = te.placeholder((1, 16, 15, 15), name="X"), te.placeholder((64, 4, 3, 1), name="W")
    c, p, q = (te.reduce_axis((0, extent), name) for extent, name in ((4, "c"), (3, "p"), (1, "q")))
    conv = te.compute(
        (1, 64, 7, 15),
        lambda n, o, y, z: te.sum(x[n, o // 16 * 4 + c, y * 2 + p, z + q] * w[o, c, p, q], [c, p, q]),
        name="Y",
    )
    chosen = schedule(conv)
    assert chosen.plan[0].rule in ("contraction", "conv2d_nchw"), "each result by itself would cost eight times as much"
    rng, got = np.random.default_rng(0), list[np.ndarray]()
    arrays = [rng.standard_normal(shape).astype("float32") for shape in ((1, 16, 15, 15), (64, 4, 3, 1))]
    for s in (chosen, te.create_schedule(conv.op)):
        got.append(np.full((1, 64, 7, 15), np.nan, "float32"))
        tw.build(s, [x, w, conv])(*arrays, got[-1])
    np.testing.assert_array_equal(*got)


def test_an_axis_is_digits_where_one_divisor_divides_its_extent() -> None:
    _, conv = groups(3, 7, 5, 23, 1)
    assert find_digits(conv.op) == {0: 7}
    a = te.placeholder((64,), name="A")
    k = te.reduce_axis((0, 2), "k")
    twice = te.compute((12,), lambda i: te.sum(a[i // 3 + k] * a[i // 4 + k], k), name="twice")
    uneven = te.compute((13,), lambda i: te.sum(a[i // 3 + k] * a[i % 3], k), name="uneven")
    assert find_digits(twice.op) == {} and find_digits(uneven.op) == {}


def test_what_no_product_of_matrices_comes_of_stays_as_it_was() -> None:
    a = te.placeholder((24, 33), name="A")
    k = te.reduce_axis((0, 33), "k")
    thin = te.compute((24, 4), lambda i, j: te.sum(a[i // 2 * 2 + j // 2, k] * a[i, k], k), name="thin")
    s = schedule(thin, HASWELL)
    assert s.plan[0].rule != "contraction" and not any(record.primitive == "transform_layout" for record in s.records)


@pytest.mark.parametrize("factor", [3, 5, 8])
def test_a_region_read_in_digits_ends_where_guards_of_splits_do(factor: int) -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4, 8), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((32,), lambda o: B[o // 8, o % 8] + 1.0, name="C")
    s = te.create_schedule(C.op)
    _, digit = s[C].split(C.op.axis[0], factor=8)
    some, _ = s[C].split(digit, factor=factor)
    s[B].compute_at(s[C], some)
    (memory,) = [node.buffer for node in post_order(tw.lower(s, [A, C]).body) if isinstance(node, Allocate)]
    assert [str(extent) for extent in memory.shape] == ["1", str(factor)], (
        "no part of the row behind, however uneven the split is"
    )
    a, c = np.random.default_rng(0).standard_normal((4, 8), "float32"), np.full(32, np.nan, "float32")
    tw.build(s, [A, C])(a, c)
    np.testing.assert_array_equal(c, (2 * a + 1).reshape(32))


@pytest.mark.parametrize("step", drawn.part([2, 3, 5], 2))
@pytest.mark.parametrize("tail", [False, True])
def test_several_axes_in_digits_are_one_product_of_matrices(step: int, tail: bool) -> None:
    """A transposed convolution whose windows do not overlap: tiles took whole rows of quotients, each for few results."""
    x, w = te.placeholder((16, 7, 11), name="X"), te.placeholder((16, 10, step, step), name="W")
    k = te.reduce_axis((0, 16), "k")
    sums = te.compute(
        (10, 7 * step, 11 * step),
        lambda o, i, j: te.sum(x[k, i // step, j // step] * w[k, o, i % step, j % step], k),
        name="sums",
    )
    result = te.compute(sums.shape, lambda *at: te.max(sums(*at), 0), name="result") if tail else sums
    s = schedule(result, f"{HASWELL} -cores=1")  # a machine of few cores has one thread for each row of windows
    assert re.match(r"rows i\S+ j\S+, columns o\S* i\S+ j\S+: tile", s.plan[0].description)
    rng, got = np.random.default_rng(0), list[np.ndarray]()
    values = [rng.standard_normal([int(str(extent)) for extent in tensor.shape]).astype("float32") for tensor in (x, w)]
    for each in (s, te.create_schedule(result.op)):
        got.append(np.full([int(str(extent)) for extent in result.shape], np.nan, "float32"))
        tw.build(each, [x, w, result])(*values, got[-1])
    np.testing.assert_array_equal(*got)


@pytest.mark.parametrize(
    ("rows", "columns"), [((3, 5), (7, 29)), ((2, 4), (3, 8)), ((5, 1), (1, 17)), ((1, 9), (4, 3))]
)
def test_what_lies_side_by_side_between_quotients_is_read_in_runs(
    rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    """The product of Kronecker: each row of B is multiplied by one element of A, where lanes were gathered one by one."""
    a, b = te.placeholder((rows[0], columns[0]), name="A"), te.placeholder((rows[1], columns[1]), name="B")
    product = te.compute(
        (rows[0] * rows[1], columns[0] * columns[1]),
        lambda i, j: a[i // rows[1], j // columns[1]] * b[i % rows[1], j % columns[1]],
        name="product",
    )
    s = schedule(product, HASWELL)
    assert (f"in runs of {columns[1]}" in s.plan[0].description) == (columns[0] > 1 and columns[1] >= 4)
    if columns[1] >= 8:
        assert "gather" not in tw.build(s, [a, b, product], target=HASWELL).source("asm")
    rng, got = np.random.default_rng(0), np.full((rows[0] * rows[1], columns[0] * columns[1]), np.nan, "float32")
    x, y = (rng.standard_normal(shape).astype("float32") for shape in ((rows[0], columns[0]), (rows[1], columns[1])))
    tw.build(s, [a, b, product])(x, y, got)
    np.testing.assert_array_equal(got, np.kron(x, y))
