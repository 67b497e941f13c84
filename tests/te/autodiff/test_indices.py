"""Reads turned round: which output elements an input element reaches, for every way of indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from gradient_check import check_gradient, draw, evaluate, placeholder
from tilewright import te
from tilewright.ir.expr import IntImm


def over(*extents: Any) -> list[te.IterVar]:
    """Reduce axes from 0."""
    return [te.reduce_axis((0, extent), "rstuvw"[at]) for at, extent in enumerate(extents)]


def clamp(index: Any, extent: int) -> Any:
    return te.min(te.max(index, 0), extent - 1)


A, P = placeholder("A", 5, 7), placeholder("P", 6)
INDEX, COUNT, FIRST = (te.placeholder((n,), "int32", name) for n, name in ((9, "INDEX"), (4, "COUNT"), (4, "FIRST")))


def reduced(body: Callable[..., Any], *extents: Any) -> Any:
    axes = over(*extents)
    return te.sum(body(*axes), axis=axes)


CASES: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "transposed and reversed": ((7, 5), lambda i, j: A[j, i] * A[4 - j, 6 - i]),
    "reshaped": ((7, 5), lambda i, j: A[(i * 5 + j) // 7, (i * 5 + j) % 7]),
    "flattened and cut": ((3, 11), lambda i, j: A[(i * 11 + j) // 7, (i * 11 + j) % 7] * P[i]),
    "broadcast": ((5, 7), lambda i, j: A[i, 0] * P[2] * A[0, j]),
    "strided": ((3,), lambda i: P[i * 2 + 1]),
    "repeated": ((12,), lambda i: P[i // 2] * P[i % 6]),
    "diagonal": ((5,), lambda i: A[i, i] * A[i, i + 2]),
    "clamped": ((9,), lambda i: P[clamp(i - 2, 6)]),
    "mirrored": ((9,), lambda i: P[te.if_then_else(i < 6, i, 11 - i)]),
    "wrapped round": ((9,), lambda i: P[(i + 4) % 6]),
    "edge blur": (
        (5, 7),
        lambda y, x: reduced(lambda r, s: A[clamp(y + r - 1, 5), clamp(x + s - 1, 7)] * (r * 1.5 + s), 3, 3),
    ),
    "dilated": ((11,), lambda i: te.if_then_else(te.all(i % 2 == 0, i > 1), P[i // 2], 0.0)),
    "padded": ((4, 13), lambda i, j: te.if_then_else(te.all(j >= 3, j < 10, te.any(i == 0, i > 2)), A[i, j - 3], 2.0)),
    "windows": ((2,), lambda i: reduced(lambda r: P[i * 2 + r] * P[i + r // 2], 4)),
    "stride 3, dilation 2": ((2,), lambda i: reduced(lambda r: A[0, i * 3 + r * 2] * P[r], 2)),
    "stride 4, dilation 6": ((2,), lambda i: reduced(lambda r: P[(i * 4 + r * 6) // 2], 2)),
    "two equations": ((2, 2), lambda i, j: reduced(lambda r: A[i * 2 + j, (j * 6 + i * 4 + r * 3) // 3], 2)),
    "three unknowns": ((2, 2), lambda i, j: reduced(lambda r: A[(i * 2 + j * 3 + r) // 3, (i + j + r) % 7], 5)),
    "outer product": ((6, 5), lambda i, j: P[i] * P[j]),
    "correlation": ((4,), lambda i: reduced(lambda r: P[r] * P[r + i], 3)),
    "triangular": ((6,), lambda i: reduced(lambda r: P[r] * P[i - r], i + 1)),
    "from the diagonal on": ((5,), lambda i: (lambda r: te.sum(A[i, r] * P[r], axis=r))(te.reduce_axis((i, 6), "r"))),
    "gather": ((9,), lambda i: P[INDEX[i]] * P[i // 2]),
    "gather of rows": ((9, 7), lambda i, j: A[INDEX[i], j]),
    "shifted by data": ((4,), lambda i: A[i, i + INDEX[0]]),
    "chosen by data": ((6,), lambda i: te.if_then_else(INDEX[i] > 0, P[i], P[5 - i] * 2.0)),
    "ragged": ((4,), lambda i: reduced(lambda r: P[r] * P[r], COUNT[i])),
    "rows of a sparse matrix": (
        (4,),
        lambda i: (lambda r: te.sum(P[r] * P[r], axis=r))(te.reduce_axis((FIRST[i], FIRST[i] + COUNT[i]), "r")),
    ),
    "ragged, shifted": ((4,), lambda i: reduced(lambda r: P[r + FIRST[i]] * A[i, r], COUNT[i])),
    "ragged, every second row": ((2,), lambda i: reduced(lambda r: A[i * 2, r], COUNT[i * 2])),
    "ragged, divided": ((3,), lambda i: reduced(lambda r: A[i, r] * P[i + r // 2], COUNT[i])),
    "ragged, skewed": ((4,), lambda i: reduced(lambda r: P[(i + r * 2) // 3], COUNT[i])),
    "one element": ((1,), lambda i: A[i + 3, i * 2]),
    "of no element": ((0, 3), lambda i, j: P[i] * P[j]),
    "over no element": ((3,), lambda i: reduced(lambda r: P[i] * P[r], 0)),
    "of rank 0": ((), lambda: reduced(lambda r: P[r] * P[5 - r], 6)),
}
VALUES = {
    A: draw(A),
    P: draw(P),
    INDEX: np.array([2, 0, 1, 5, 2, 0, 3, 1, 4], "int32")[:9],
    COUNT: np.array([0, 3, 2, 6], "int32"),
    FIRST: np.array([0, 1, 4, 0], "int32"),
}
VALUES[INDEX][0] = 2
"""Row i + 2 of the five exists for each i that is shifted by it."""


@pytest.mark.parametrize("name", drawn.part(CASES, 9))
def test_every_way_of_indexing(name: str) -> None:
    shape, body = CASES[name]
    y = te.compute(shape, body, "y")
    used = [tensor for tensor in VALUES if tensor in y.op.input_tensors]
    values = {tensor: VALUES[tensor] % 5 if tensor is INDEX and A in used else VALUES[tensor] for tensor in used}
    check_gradient(y, values, interpret="ragged" in name or "clamped" in name, jacobian=len(name) % 4 == 0)


def test_a_permutation_needs_no_loop_in_its_gradient() -> None:
    for name in ("transposed and reversed", "reshaped", "strided", "dilated", "padded"):
        shape, body = CASES[name]
        y = te.compute(shape, body, "y")
        read = next(tensor for tensor in (A, P) if tensor in y.op.input_tensors)
        made = te.gradient(y, read, te.placeholder(shape, "float64", "head"))
        stages = [made[0].op, *(t.op for t in made[0].op.input_tensors)]
        assert not [stage.name for stage in stages if stage.reduce_axis], name


@pytest.mark.parametrize("rows, kind", [(16, "compute"), (17, "hybrid"), (50, "hybrid")])
def test_a_gathers_gradient_is_a_scatter_unless_there_are_few_elements(rows: int, kind: str) -> None:
    x, index = placeholder("x", rows), te.placeholder((20,), "int32", "index")
    y = te.compute((20,), lambda i: x[index[i]], "y")
    (made,) = te.gradient(y, x, te.placeholder((20,), "float64", "head"))
    assert made.op.kind == kind
    loops = made.op.axis if kind == "hybrid" else (*made.op.axis, *made.op.reduce_axis)
    assert [int(axis.dom.extent) for axis in loops] == ([20] if kind == "hybrid" else [16, 20])
    values = np.arange(20, dtype="int32") % 7
    head = next(tensor for tensor in made.op.input_tensors if tensor.name == "head")
    weights = np.random.default_rng(0).standard_normal(20)
    (got,) = evaluate([made], {index: values, head: weights})
    want = np.zeros(rows)
    np.add.at(want, values, weights)
    np.testing.assert_allclose(got, want)


def _embedding() -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor]:
    table, index = placeholder("table", 33, 5), te.placeholder((19,), "int32", "index")
    weights = placeholder("weights", 19, 5)
    chosen = te.compute(
        (19, 5), lambda i, j: te.if_then_else(index[i] > 3, table[index[i], j] * weights[i, j], 0.0), "chosen"
    )
    y = te.compute((19, 5), lambda i, j: chosen[i, j] * chosen[i, j] + table[i, j], "y")
    return table, index, weights, y


def test_a_scatter_adds_to_what_other_reads_give() -> None:
    table, index, weights, y = _embedding()
    rng = np.random.default_rng(7)
    check_gradient(
        y,
        {index: rng.integers(0, 33, 19).astype("int32"), table: draw(table), weights: draw(weights)},
        interpret=True,
        jacobian=True,
    )


def test_the_gradient_goes_through_a_scatter() -> None:
    """The derivative of the table's gradient by the weights, which is a gather again."""
    table, index, weights, y = _embedding()
    head, again = placeholder("head", 19, 5), placeholder("again", 33, 5)
    (first,) = te.gradient(y, table, head)
    (second,) = te.gradient(first, weights, again)
    values = {tensor: draw(tensor) for tensor in (table, weights, head, again)} | {
        index: np.random.default_rng(8).integers(0, 33, 19).astype("int32")
    }
    (got,) = evaluate([second], values)
    at = values[index]
    rows = values[table][at]
    want = np.where(at[:, None] > 3, 4 * rows * values[weights] * values[head] * values[again][at], 0.0)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_loop_of_a_scatter_whose_steps_may_meet_is_not_made_parallel() -> None:
    table, index, _, y = _embedding()
    (made,) = te.gradient(te.compute((19, 5), lambda i, j: table[index[i], j], "rows"), table)
    s = te.create_schedule(made)
    i, j = made.op.axis[-2:]
    with pytest.raises(tw.ScheduleError, match=r"TW0280.*cannot make parallel 'i'"):
        s[made].parallel(i)
    s[made].parallel(j)


def test_a_division_by_a_cell_size_visits_one_cell() -> None:
    """x // 8 == j is solved to x = 8 j + t: eight steps of 800."""
    x = placeholder("x", 100)
    y = te.compute((800,), lambda i: x[i // 8] * x[i // 8], "y")
    (made,) = te.gradient(y, x, te.placeholder((800,), "float64", "head"))
    assert [int(axis.dom.extent) for axis in made.op.reduce_axis] == [8]


@pytest.mark.parametrize("n, m", [(1, 1), (7, 4)])
def test_symbolic_extents(n: int, m: int) -> None:
    rows, columns = te.size_var("rows"), te.size_var("columns")
    x, w = te.placeholder((rows, columns), "float64", "x"), placeholder("w", 3)
    padded = te.compute(
        (rows, columns + 2), lambda i, j: te.if_then_else(te.all(j >= 1, j <= columns), x[i, j - 1], 0.0), "padded"
    )
    r = te.reduce_axis((0, 3), "r")
    y = te.compute((rows, (columns + 1) // 2), lambda i, j: te.sum(padded[i, j * 2 + r] * w[r], axis=r), "y")
    values = {x: draw(x, rows=n, columns=m), w: draw(w)}
    check_gradient(y, values, interpret=False, jacobian=n < 5, rows=n, columns=m)


N, H, W = te.size_var("N"), te.size_var("H"), te.size_var("W")
RESHAPED: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], Callable[..., Any], bool]] = {
    "cut": ((N, H), (N * H,), lambda x, i: x[i // H, i % H], True),
    "cut in three": ((N, H, W), (N * H * W,), lambda x, i: x[i // W // H, i // W % H, i % W], True),
    "cut and transposed": ((W, H, N), (N * H * W,), lambda x, i: x[i % W, i // W % H, i // W // H], True),
    "first two joined": ((N, H, W), (N * H, W), lambda x, i, k: x[i // H, i % H, k], True),
    "flattened": ((N * H,), (N, H), lambda x, i, j: x[i * H + j], True),
    "flattened from three": ((N * H * 4,), (N, H, 4), lambda x, i, j, k: x[(i * H + j) * 4 + k], True),
    "flattened from three symbols": ((N * H * W,), (N, H, W), lambda x, i, j, k: x[(i * H + j) * W + k], True),
    "rows some way apart": ((N * W,), (N, W), lambda x, i, j: x[i * W], False),
    "cut at two places": ((N, H), (N * H * W, W), lambda x, i, j: x[i // H // W, i % H], False),
}
"""Shape, shape after, element, and whether the gradient needs no loop."""


@pytest.mark.parametrize("name", drawn.part(RESHAPED, 4))
def test_symbolic_reshapes_are_turned_round(name: str) -> None:
    shape, after, element, solved = RESHAPED[name]
    x = te.placeholder(shape, "float64", "x")
    y = te.compute(after, lambda *at: element(x, *at) * te.exp(element(x, *at)), "y")
    sizes = {"N": 2, "H": 3, "W": 4}
    (made,) = check_gradient(y, {x: draw(x, **sizes)}, interpret=False, jacobian=not solved, **sizes)
    assert (made.op.reduce_axis == ()) == solved


@pytest.mark.parametrize("case", range(drawn.count(5, 2000)))
def test_drawn_affine_reads(case: int) -> None:
    """Products of reads at random linear indices, quotients and remainders, some guarded, strides and signs mixed."""
    rng = drawn.rng("affine reads", case)
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 3)))
    extents = [int(n) for n in rng.integers(1, 4, rng.integers(0, 3))]
    x = placeholder("x", *(int(n) for n in rng.integers(3, 9, rng.integers(1, 3))))

    def index(axes: list[Any], extent: int) -> tuple[Any, Any]:
        coeffs = [int(c) for c in rng.integers(-4, 5, len(axes))]
        sum_ = sum(
            (axis * c for axis, c in zip(axes, coeffs, strict=True)), te.const(int(rng.integers(-2, 8)), "int32")
        )
        kind = rng.integers(0, 5)
        if isinstance(sum_, IntImm):
            return clamp(sum_, extent), te.const(True)  # a constant outside the shape is refused, guarded or not
        if kind == 0:
            sum_ = sum_ // int(rng.integers(2, 4))
        elif kind == 1:
            sum_ = sum_ % int(rng.integers(1, extent + 1))
        elif kind == 2:
            return clamp(sum_, extent), te.const(True)
        return sum_, te.all(sum_ >= 0, sum_ < extent)

    def body(*axes: Any) -> Any:
        inner = over(*extents)
        value: Any = te.const(1.0, "float64")
        for _ in range(2):
            parts = [index([*axes, *inner], int(extent)) for extent in x.shape]
            read = te.if_then_else(te.all(*(guard for _, guard in parts)), x[tuple(at for at, _ in parts)], 0.5)
            value = value * read
        return te.sum(value, axis=inner) if inner else value

    y = te.compute(shape, body, "y")
    check_gradient(y, {x: draw(x, case)}, interpret=case % 4 == 0, jacobian=case % 4 == 1)
