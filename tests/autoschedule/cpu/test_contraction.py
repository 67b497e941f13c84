"""Contractions and convolutions as products of matrices: which axes are rows and columns, and that no bit depends on it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te, topi
from tilewright.autoschedule import schedule, scheduler
from tilewright.autoschedule.forms.contraction import match_contraction
from tilewright.autoschedule.plan import Candidate

HASWELL = "llvm -mcpu=haswell"


def contraction(text: str, extents: dict[str, int]) -> tuple[list[te.Tensor], te.Tensor]:
    """text: axes of the result, and of what is multiplied."""
    result, left, right = text.split("-")
    given = [
        te.placeholder(tuple(extents[letter] for letter in operand), name=name)
        for operand, name in ((left, "A"), (right, "B"))
    ]
    reduced = {letter: te.reduce_axis((0, extents[letter]), letter) for letter in extents if letter not in result}

    def element(*at: te.Expr) -> te.Expr:
        index = dict(zip(result, at, strict=True)) | reduced
        factors = [
            tensor(*(index[letter] for letter in operand)) for tensor, operand in zip(given, (left, right), strict=True)
        ]
        return te.sum(factors[0] * factors[1], list(reduced.values()))

    return given, te.compute(tuple(extents[letter] for letter in result), element, name="C")


def convolution(
    channels: int,
    outputs: int,
    size: tuple[int, int],
    taps: tuple[int, int],
    stride: int,
    dilation: int,
    pad: int,
) -> tuple[list[te.Tensor], te.Tensor]:
    out = [(extent + 2 * pad - dilation * (tap - 1) - 1) // stride + 1 for extent, tap in zip(size, taps, strict=True)]
    x, w = te.placeholder((channels, *size), name="X"), te.placeholder((outputs, channels, *taps), name="W")
    c, p, q = (te.reduce_axis((0, extent), name) for extent, name in ((channels, "c"), (taps[0], "p"), (taps[1], "q")))
    padded = (
        x
        if not pad
        else te.compute(
            (channels, size[0] + 2 * pad, size[1] + 2 * pad),
            lambda k, y, z: te.if_then_else(
                te.all(y >= pad, y < size[0] + pad, z >= pad, z < size[1] + pad), x[k, y - pad, z - pad], 0.0
            ),
            name="padded",
        )
    )
    return [x, w], te.compute(
        (outputs, *out),
        lambda o, y, z: te.sum(
            padded[c, y * stride + p * dilation, z * stride + q * dilation] * w[o, c, p, q], [c, p, q]
        ),
        name="Y",
    )


def compare(inputs: list[te.Tensor], output: te.Tensor, note: str = "") -> None:
    """Asserts that the chosen schedule gives what the program without one does, bit for bit unless another rule has it."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(tuple(int(str(extent)) for extent in tensor.shape)).astype("float32") for tensor in inputs
    ]
    results: list[np.ndarray] = []
    chosen = schedule([output])
    for s in (chosen, te.create_schedule(output.op)):
        results.append(np.full(tuple(int(str(extent)) for extent in output.shape), np.nan, "float32"))
        tw.build(s, [*inputs, output])(*arrays, results[-1])
    assert chosen.is_exact or chosen.plan[0].description == "as any sum" or chosen.plan[0].rule != "contraction"
    if chosen.is_exact:
        np.testing.assert_array_equal(*results, err_msg=note)
    else:
        np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4, err_msg=note)


@pytest.mark.parametrize("target", ["llvm -mcpu=skylake-avx512", HASWELL])
@pytest.mark.parametrize(
    ("text", "extents"),
    drawn.part(
        [
            ("abcd-ea-ebcd", (13, 7, 19, 67, 17)),
            ("abc-da-dbc", (25, 31, 301, 33)),
            ("abc-adb-dac", (3, 31, 9001, 9)),
            ("abcd-aeb-ecd", (3, 17, 143, 67, 1)),
        ],
        2,
    ),
)
def test_panels_that_are_copied_together_change_no_bit(text: str, extents: tuple[int, ...], target: str) -> None:
    inputs, output = contraction(text, dict(zip(sorted({*text} - {"-"}), extents, strict=True)))

    def wide(name: str, ways: Sequence[Candidate]) -> int:
        return next((at for at, way in enumerate(ways) if "packed together" in way.description), 0)

    chosen = scheduler.schedule([output], target, chooser=wide)
    assert any("packed together" in row.description for row in chosen.plan), str(chosen.plan)
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(tuple(int(str(extent)) for extent in tensor.shape)).astype("float32") for tensor in inputs
    ]
    results: list[np.ndarray] = []
    for s in (chosen, te.create_schedule(output.op)):
        results.append(np.full(tuple(int(str(extent)) for extent in output.shape), np.nan, "float32"))
        tw.build(s, [*inputs, output], target=runnable(HASWELL, "llvm")[0])(*arrays, results[-1])
    assert chosen.is_exact, "reduce loops keep their order"
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("turned", "swapped", "head"), [(True, False, False), (False, True, False), (True, True, True)]
)
def test_a_tensor_times_itself_is_copied_by_rows_and_by_columns(turned: bool, swapped: bool, head: bool) -> None:
    a = te.placeholder((43, 37) if turned else (37, 43), name="A")
    b = te.compute(a.shape, lambda *at: te.max(a(*at), 0.0), name="B") if head else a
    k = te.reduce_axis((0, 43), "k")

    def term(i: te.Expr, j: te.Expr) -> te.Expr:
        rows, columns = (b[k, i], b[k, j]) if turned else (b[i, k], b[j, k])
        return te.sum(columns * rows if swapped else rows * columns, k)

    c = te.compute((37, 37), term, name="C")
    assert schedule(c, HASWELL).plan[0].rule == "contraction"
    compare([a], c)


def test_rows_are_what_one_side_alone_is_read_along_and_columns_the_last_axes_of_the_other() -> None:
    _, c = contraction("abcd-aebf-fdec", {"a": 3, "b": 5, "c": 7, "d": 11, "e": 2, "f": 3})
    found = match_contraction(c.op)
    assert found is not None
    assert [axis.name for axis in (*found.rows, *found.columns)] == ["i0", "i1", "i2", "i3"] and not found.outer
    assert (found.a.producer.name, found.b.producer.name) == ("A", "B")


def test_axes_between_rows_and_columns_are_loops_around() -> None:
    _, c = contraction("abcd-ebad-ce", {"a": 3, "b": 5, "c": 7, "d": 11, "e": 2})
    found = match_contraction(c.op)
    assert found is not None
    assert [[axis.name for axis in axes] for axes in (found.outer, found.rows, found.columns)] == [
        ["i0", "i1"],
        ["i2"],
        ["i3"],
    ]


def test_a_sum_over_what_one_side_is_not_read_along_is_none() -> None:
    _, c = contraction("ab-acd-bc", {"a": 3, "b": 5, "c": 7, "d": 11})
    assert match_contraction(c.op) is None


def test_channels_that_each_have_weights_of_their_own_are_no_product_of_matrices() -> None:
    x, w = te.placeholder((8, 20, 20), name="X"), te.placeholder((8, 3, 3), name="W")
    p, q = te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    y = te.compute((8, 18, 18), lambda c, i, j: te.sum(x[c, i + p, j + q] * w[c, p, q], [p, q]), name="Y")
    assert match_contraction(y.op) is None, "no row: each channel has its own"


@pytest.mark.parametrize("length", [1, 7])
def test_one_row_times_itself_is_no_product_of_two_sides(length: int) -> None:
    """Where a row is its own column, both factors are one element: a copy of one would be that of the other too."""
    A = te.placeholder((1, length), name="A")
    k = te.reduce_axis((0, length), "k")
    C = te.compute((1, 1), lambda i, j: te.sum(A[i, k] * A[j, k], axis=k), name="C")
    assert match_contraction(C.op) is None
    a, c = np.arange(1, length + 1, dtype="float32")[None], np.zeros((1, 1), "float32")
    tw.build([A, C])(a, c)
    assert c[0, 0] == (a * a).sum()


@pytest.mark.parametrize(("wide", "columns"), [(3, "y z"), (56, "z")])
def test_columns_are_places_of_a_row_unless_rows_leave_lanes_empty(wide: int, columns: str) -> None:
    _, y = convolution(16, 40, (7, wide), (3, 3), 1, 1, 1)
    (decision, *_) = schedule([y], HASWELL).plan
    assert decision.rule == "contraction" and f"columns {columns}:" in decision.description


@pytest.mark.parametrize("seed", drawn.part(range(6), 3))
def test_bits_of_drawn_contractions(seed: int) -> None:
    draw = random.Random(seed)
    rows, columns, summed, both = (draw.randint(1, most) for most in (3, 2, 2, 1))
    letters = iter("abcdefghij")
    m, n, k, g = ([next(letters) for _ in range(count)] for count in (rows, columns, summed, both * draw.randint(0, 1)))
    extents = {letter: draw.choice((1, 2, 3, 5, 7, 8, 9, 13, 17)) for letter in (*m, *n, *k, *g)}
    extents[n[-1]] = draw.choice((8, 13, 17, 31, 33))
    sides = [draw.sample(each, len(each)) for each in ([*m, *k, *g], [*n, *k, *g], [*m, *n[:-1], *g])]
    text = f"{''.join(sides[2])}{n[-1]}-{''.join(sides[0])}-{''.join(sides[1])}"
    compare(*contraction(text, dict(sorted(extents.items()))), f"{text} {extents}")


@pytest.mark.parametrize(
    ("channels", "outputs", "size", "taps", "stride", "dilation", "pad"),
    drawn.part(
        [
            (3, 17, (9, 31), (3, 3), 1, 1, 1),
            (5, 23, (7, 7), (3, 3), 1, 1, 1),
            (1, 31, (19, 23), (5, 3), 2, 1, 2),
            (7, 33, (17, 21), (3, 3), 1, 2, 2),
            (13, 9, (11, 13), (1, 1), 1, 1, 0),
            (2, 65, (13, 40), (7, 7), 2, 1, 3),
            (4, 1, (9, 9), (3, 3), 1, 1, 1),
        ],
        4,
    ),
)
def test_bits_of_convolutions(
    channels: int,
    outputs: int,
    size: tuple[int, int],
    taps: tuple[int, int],
    stride: int,
    dilation: int,
    pad: int,
) -> None:
    compare(*convolution(channels, outputs, size, taps, stride, dilation, pad))


@pytest.mark.parametrize("extents", [(1, 5, 33, 19, 1), (3, 1, 17, 1, 8), (1, 7, 1, 9, 2), (2, 1, 31, 1, 1)])
def test_axes_of_one_value(extents: tuple[int, ...]) -> None:
    compare(*contraction("abc-adeb-ecd", dict(zip("abcde", extents, strict=True))))
    compare(*contraction("abc-deab-ced", dict(zip("abcde", extents, strict=True))))


def test_rows_of_several_axes_of_one_value_are_one_row() -> None:
    inputs, sums = contraction("abcde-abfc-dcef", {"a": 1, "b": 1, "c": 3, "d": 9, "e": 5, "f": 5})
    compare(inputs, te.compute(sums.shape, lambda *at: sums[at] * 2.0, name="D"))


def test_what_follows_a_contraction_is_computed_as_its_tiles_are_stored() -> None:
    (a, b), c = contraction("abc-bda-cd", {"a": 7, "b": 5, "c": 33, "d": 19})
    bias = te.placeholder((33,), name="bias")
    d = te.compute(c.shape, lambda i, j, k: te.max(c[i, j, k] + bias[k], 0.0), name="D")
    s = schedule([d], HASWELL)
    assert s.plan[0].rule == "contraction" and s.plan[0].fused == ("D",)
    compare([a, b, bias], d)


def test_sums_keep_their_order_where_bits_are_to_stay() -> None:
    _, c = contraction("abcd-aebf-fdec", {"a": 13, "b": 5, "c": 7, "d": 11, "e": 9, "f": 13})
    s = schedule([c], HASWELL, exact=True)
    assert s.is_exact and s.plan[0].rule == "contraction", (
        "as many columns as fit, and every sum from the first term on"
    )


@pytest.mark.parametrize("target", runnable("llvm", HASWELL))
@pytest.mark.parametrize(("groups", "filters", "channels", "high", "wide"), [(1, 70, 17, 9, 33), (2, 64, 17, 9, 33)])
def test_what_is_read_under_a_guard_is_copied_with_it(
    groups: int,
    filters: int,
    channels: int,
    high: int,
    wide: int,
    target: str,
) -> None:
    """A convolution whose padding stands in the sum: it was asked about at each term, or was no product of matrices."""
    x = te.placeholder((1, groups * channels, high, wide), name="x")
    w = te.placeholder((groups * filters, channels, 3, 3), name="w")
    c, p, q = (te.reduce_axis((0, extent), name) for extent, name in ((channels, "c"), (3, "p"), (3, "q")))
    image = te.padded(x, 0.5)
    conv = te.compute(
        (1, groups * filters, high, wide),
        lambda n, f, y, z: te.sum(
            image[n, (f // filters * channels if groups > 1 else 0) + c, y + p - 1, z + q - 1] * w[f, c, p, q],
            [c, p, q],
        ),
        name="conv",
    )
    chosen = schedule([conv], target)
    assert chosen.plan[0].rule == "contraction" and chosen.plan[0].description.startswith("rows f")
    rng, got = np.random.default_rng(0), list[np.ndarray]()
    arrays = [rng.standard_normal([int(str(extent)) for extent in each.shape]).astype("float32") for each in (x, w)]
    for s in (chosen, te.create_schedule(conv.op)):
        got.append(np.full([int(str(extent)) for extent in conv.shape], np.nan, "float32"))
        tw.build(s, [x, w, conv], target=target)(*arrays, got[-1])
    np.testing.assert_array_equal(*got)


def test_a_long_sum_is_taken_in_blocks() -> None:
    given, c = contraction("abc-dab-cde", {"a": 7, "b": 9, "c": 17, "d": 3, "e": 1})
    assert match_contraction(c.op) is None, "e is summed, and A is not read along it"
    given, c = contraction("abc-adeb-ecd", {"a": 5, "b": 7, "c": 40, "d": 97, "e": 131})
    compare(given, c)


def test_topi_and_hand_written_products_are_the_same() -> None:
    a, b = te.placeholder((70, 90), name="A"), te.placeholder((90, 50), name="B")
    s = topi.schedule(topi.matmul(a, b), HASWELL)
    assert s.plan[0].rule == "contraction"
