"""matricize: sums of products as products of matrices, with every bit of the program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule import errors


def contraction() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """d is read along B alone, and stays outside; a and b are rows, c columns."""
    A, B = te.placeholder((5, 3, 7, 2), name="A"), te.placeholder((2, 3, 9, 4), name="B")
    e, f = te.reduce_axis((0, 3), "e"), te.reduce_axis((0, 2), "f")
    C = te.compute((9, 5, 7, 4), lambda d, a, b, c: te.sum(A[a, e, b, f] * B[f, e, d, c], axis=[e, f]), name="C")
    return A, B, C


@pytest.mark.parametrize(
    ("padding", "turned", "shapes"),
    [
        ((1, 1, 1), (False, False), [(35, 6), (9, 6, 4), (9, 35, 4)]),
        ((16, 8, 16), (True, True), [(16, 48), (9, 8, 16), (9, 48, 8)]),
        ((4, 3, 5), (False, True), [(36, 10), (9, 6, 10), (9, 36, 6)]),
    ],
)
def test_the_matrices_are_padded_with_zeros_and_every_bit_stays(
    padding: Sequence[int],
    turned: Sequence[bool],
    shapes: list[tuple[int, ...]],
) -> None:
    A, B, C = contraction()
    s = te.create_schedule(C.op)
    _, a, b, c = C.op.axis
    made = s.matricize(C, [a, b], [c], padding, turned)
    assert [tuple(int(extent) for extent in matrix.shape) for matrix in made] == shapes and s.is_exact
    rng = np.random.default_rng(0)
    left, right = (
        rng.standard_normal((5, 3, 7, 2)).astype("float32"),
        rng.standard_normal((2, 3, 9, 4)).astype("float32"),
    )
    found, expected = np.zeros((9, 5, 7, 4), "float32"), np.zeros((9, 5, 7, 4), "float32")
    tw.build(s, [A, B, C])(left, right, found)
    tw.build(te.create_schedule(C.op), [A, B, C])(left, right, expected)
    np.testing.assert_array_equal(found, expected)
    assert str(te.Schedule.replay(s.trace, [C.op])) == str(s)
    namespace: dict[str, object] = {"te": te, "ops": [C.op]}
    exec(s.as_python(), namespace)
    assert str(namespace["s"]) == str(s), "all three matrices have names in the text"


def test_factors_may_be_converted_and_stand_in_any_order() -> None:
    A, B = te.placeholder((7, 5), "int8", name="A"), te.placeholder((5, 9), "int8", name="B")
    k = te.reduce_axis((0, 5), "k")
    C = te.compute((7, 9), lambda i, j: te.sum(B[k, j].astype("int32") * A[i, k].astype("int32"), axis=k), name="C")
    s = te.create_schedule(C.op)
    rows, columns, _ = s.matricize(C, [C.op.axis[0]], [C.op.axis[1]], (4, 4, 4))
    assert rows.name == "A.matrix" and columns.name == "B.matrix"
    left, right = np.arange(35, dtype="int8").reshape(7, 5), np.arange(45, dtype="int8").reshape(5, 9)
    found = np.zeros((7, 9), "int32")
    tw.build(s, [A, B, C])(left, right, found)
    np.testing.assert_array_equal(found, left.astype("int32") @ right.astype("int32"))


def test_what_is_inlined_into_factors_is_computed_once_and_kept_as_it_is_stored() -> None:
    A, B = te.placeholder((7, 5), "float16", name="A"), te.placeholder((5, 9), "float16", name="B")
    k = te.reduce_axis((0, 5), "k")
    D = te.compute(
        (8, 5), lambda i, m: te.if_then_else(i < 7, A[i, m], te.const(0, "float16")).astype("float32"), name="D"
    )
    C = te.compute((8, 9), lambda i, j: te.sum(D[i, k] * B[k, j].astype("float32"), axis=k), name="C")
    s = te.create_schedule(C.op)
    s[D].compute_inline()
    rows, columns, _ = s.matricize(C, [C.op.axis[0]], [C.op.axis[1]], (8, 8, 8))
    assert rows.dtype == columns.dtype == "float16" and [*rows.op.input_tensors] == [A]
    left, right = (np.random.default_rng(3).standard_normal(shape).astype("float16") for shape in ((7, 5), (5, 9)))
    found, expected = np.zeros((8, 9), "float32"), np.zeros((8, 9), "float32")
    tw.build(s, [A, B, C])(left, right, found)
    tw.build(te.create_schedule(C.op), [A, B, C])(left, right, expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("converted", [False, True])
def test_elements_are_converted_where_they_are_multiplied_or_once_each(converted: bool) -> None:
    A, B = te.placeholder((5, 7), "float16", name="A"), te.placeholder((7, 3), "int8", name="B")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((5, 3), lambda i, j: te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k), name="C")
    s = te.create_schedule(C.op)
    a, b, _ = s.matricize(C, [C.op.axis[0]], [C.op.axis[1]], (4, 2, 1), converted=converted)
    assert [(each.name, str(each.dtype)) for each in (a, b)] == [
        ("A.matrix", "float32" if converted else "float16"),
        ("B.matrix", "float32" if converted else "int8"),
    ]
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((5, 7)).astype("float16"), rng.integers(-9, 9, (7, 3)).astype("int8")
    found, expected = np.zeros((5, 3), "float32"), np.zeros((5, 3), "float32")
    tw.build(s, [A, B, C])(left, right, found)
    tw.build(te.create_schedule(C.op), [A, B, C])(left, right, expected)
    np.testing.assert_array_equal(found, expected)
    assert str(te.Schedule.replay(s.trace, [C.op])) == str(s)


@pytest.mark.parametrize("dtypes", [("int8", "uint8"), ("int16", "int8")])
def test_bytes_may_be_widened(dtypes: tuple[str, str]) -> None:
    A, B = te.placeholder((5, 7), dtypes[0], name="A"), te.placeholder((7, 3), dtypes[1], name="B")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((5, 3), lambda i, j: te.sum(A[i, k].astype("int32") * B[k, j].astype("int32"), axis=k), name="C")
    s = te.create_schedule(C.op)
    a, b, _ = s.matricize(C, [C.op.axis[0]], [C.op.axis[1]], (4, 2, 4), converted="int16")
    assert [str(each.dtype) for each in (a, b)] == ["int16", "int16"]
    left, right = (np.arange(-90, 90)[:size].astype(dtype) for size, dtype in zip((35, 21), dtypes, strict=True))
    found = np.zeros((5, 3), "int32")
    tw.build(s, [A, B, C])(left.reshape(5, 7), right.reshape(7, 3), found)
    np.testing.assert_array_equal(found, left.reshape(5, 7).astype("int32") @ right.reshape(7, 3).astype("int32"))
    assert str(te.Schedule.replay(s.trace, [C.op])) == str(s)


@pytest.mark.parametrize("turned", [(False, False), (True, True)])
def test_factors_that_compute_are_matrices_of_what_they_are(turned: Sequence[bool]) -> None:
    A, d, B = te.placeholder((3, 7, 5), name="A"), te.placeholder((5,), name="d"), te.placeholder((5, 9), name="B")
    k = te.reduce_axis((0, 5), "k")
    C = te.compute((3, 7, 9), lambda n, i, j: te.sum(te.exp(A[n, i, k]) * d[k] * (B[k, j] - 1.0), axis=k), name="C")
    s = te.create_schedule(C.op)
    _, i, j = C.op.axis
    rows, columns, whole = s.matricize(C, [i], [j], (4, 8, 3), turned)
    assert [rows.name, columns.name, whole.name] == ["C.a.matrix", "C.b.matrix", "C.matrix"] and s.is_exact
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype("float32") for shape in ((3, 7, 5), (5,), (5, 9))]
    found, expected = np.zeros((3, 7, 9), "float32"), np.zeros((3, 7, 9), "float32")
    tw.build(s, [A, d, B, C])(*given, found)
    tw.build(te.create_schedule(C.op), [A, d, B, C])(*given, expected)
    np.testing.assert_array_equal(found, expected)
    assert str(te.Schedule.replay(s.trace, [C.op])) == str(s)


def test_what_is_no_product_of_matrices_is_refused_and_leaves_the_schedule_as_it_was() -> None:
    A, B, C = contraction()
    D = te.compute((5, 3), lambda i, j: A[i, j, 0, 0] + 1, name="D")
    s = te.create_schedule([C.op, D.op])
    d, a, b, c = C.op.axis
    before = str(s)
    for call, reason in (
        (lambda: s.matricize(D, [D.op.axis[0]], [D.op.axis[1]]), "not a sum of products"),
        (lambda: s.matricize(C, [a, a], [c]), "a is given for rows"),
        (lambda: s.matricize(C, [a], [b]), "given for"),
        (lambda: s.matricize(C, [a, b], [c], (16, 0, 16)), "it is padded to"),
        (lambda: s.matricize(C, [a, b], [c], converted="int16"), "not bytes that are converted"),
        (lambda: s.matricize(C, [a, b], [c], converted="int32"), "are to be converted to int32"),
    ):
        with pytest.raises(errors.BadMatrix, match=rf"TW0231(?s:.*){reason}"):
            call()
        assert str(s) == before
    s[C].split(d, 3)
    with pytest.raises(errors.BadMatrix, match="its loops are scheduled already"):
        s.matricize(C, [a, b], [c])
