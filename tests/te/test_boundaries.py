"""Tensors continued beyond their shape: what is read where, against numpy.pad, under schedules that are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te

MODES: dict[str, tuple[Callable[[te.Tensor], te.Extended], dict[str, Any]]] = {
    "clamped": (te.clamped, {"mode": "edge"}),
    "mirrored": (te.mirrored, {"mode": "symmetric"}),
    "wrapped": (te.wrapped, {"mode": "wrap"}),
    "padded": (lambda A: te.padded(A, 7), {"mode": "constant", "constant_values": 7}),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_every_index_is_an_element(mode: str, symbolic: bool) -> None:
    """Indices several times as far outside as the tensor is long, of a dimension of one element too."""
    continued, pad = MODES[mode]
    n, m = (te.size_var("n"), te.size_var("m")) if symbolic else (1, 5)
    A = te.placeholder((n, m), "int32", name="A")
    B = te.compute((n + 22, m + 22), lambda i, j: continued(A)[i - 11, j - 11], name="B")
    f = tw.build(te.create_schedule(B.op), [A, B])
    for shape in ((1, 5), (3, 1), (4, 7)) if symbolic else ((1, 5),):
        a = np.arange(shape[0] * shape[1], dtype="int32").reshape(shape) - 3
        b = np.empty((shape[0] + 22, shape[1] + 22), "int32")
        f(a, b)
        np.testing.assert_array_equal(b, np.pad(a, 11, **pad))


@pytest.mark.parametrize("mode", MODES)
def test_constant_indices_and_rank_0(mode: str) -> None:
    continued, pad = MODES[mode]
    A = te.placeholder((5,), "int32", name="A")
    S = te.placeholder((), "int32", name="S")
    B = te.compute(
        (3,), lambda i: continued(A)[-2] * 100 + continued(A)[2] * 10 + continued(A)(6) + continued(S)(), name="B"
    )
    a, b = np.arange(1, 6, dtype="int32"), np.empty(3, "int32")
    tw.build(te.create_schedule(B.op), [A, S, B])(a, np.array(1000, "int32"), b)
    beyond = np.pad(a, 2, **pad)
    assert (b == beyond[0] * 100 + beyond[4] * 10 + beyond[8] + 1000).all()


def test_an_index_that_is_read_from_memory_never_leaves() -> None:
    A, I = te.placeholder((5,), name="A"), te.placeholder((9,), "int32", name="I")
    B = te.compute((9,), lambda i: te.clamped(A)[I[i]] + te.wrapped(A)[I[i]], name="B")
    a, b = np.arange(5, dtype="float32"), np.empty(9, "float32")
    at = np.array([-1000, -6, -1, 0, 4, 5, 11, 1000, 2**30], "int32")
    tw.build(te.create_schedule(B.op), [A, I, B], bounds_check=True)(a, at, b)
    np.testing.assert_array_equal(b, a[np.clip(at, 0, 4)] + a[at % 5])


def test_nothing_is_read_of_an_empty_tensor_but_the_padding() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((5,), lambda i: te.padded(A, -1.5)[i - 2], name="B")
    b = np.empty(5, "float32")
    f = tw.build(te.create_schedule(B.op), [A, B], bounds_check=True)
    f(np.empty(0, "float32"), b)
    assert (b == -1.5).all()


def test_what_is_indexed_has_the_face_of_the_tensor() -> None:
    n = te.size_var("n")
    A = te.placeholder((n, 4), "float16", name="A")
    E = te.mirrored(A)
    assert (E.shape, E.dtype, E.ndim, E.name, E.tensor) == (A.shape, A.dtype, 2, "A", A)
    assert "A: float16[n, 4]" in repr(E)
    assert te.padded(A, 1)[n, 0].dtype == "float16"


def test_errors() -> None:
    A = te.placeholder((4, 4), name="A")
    with pytest.raises(tw.TensorExpressionError, match=r"te\.clamped continues a tensor") as caught:
        te.clamped(A[0, 0])  # type: ignore[arg-type]
    assert caught.value.code == "TW0127"
    with pytest.raises(tw.TensorExpressionError, match="2 dimensions and was read with 1 index") as caught:
        te.wrapped(A)[0]
    assert caught.value.code == "TW0112"
    with pytest.raises(tw.TensorExpressionError, match="index 1 of A is not an integer") as caught:
        te.padded(A, 0)[0, 0.5]
    assert caught.value.code == "TW0113"
    with pytest.raises(tw.TensorExpressionError, match="300") as caught:
        te.padded(te.placeholder((4,), "int8", name="B"), 300)
    assert caught.value.code == "TW0105"


def test_the_interior_is_read_by_whole_vectors() -> None:
    """Where a clamp or a fold may do something, vectors would be gathered; the loop over the interior has none."""
    for mode, (continued, _) in MODES.items():
        A = te.placeholder((300,), name="A")
        E = continued(A)
        B = te.compute((300,), lambda i, E=E: E[i - 1] + E[i + 1], name="B")
        s = te.create_schedule(B.op)
        s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
        interior = next(
            line for line in tw.build(s, [A, B]).source("ir").splitlines() if "i.outer" in line and "for" not in line
        )
        assert "select" not in interior, mode
        assert "min(" not in interior, mode
        assert interior.count("A[ramp(") == 2, mode


@pytest.mark.parametrize("case", range(drawn.count(4, 1500)))
def test_chains_of_stencils_under_drawn_schedules(case: int) -> None:
    """Two to four stages, each a stencil over the one before, computed at drawn loops of the last, vectorized and in
    parallel, at odd sizes."""
    rng = drawn.rng("boundaries", case)
    rank = int(rng.integers(1, 3))
    shape = tuple(int(rng.choice([1, 2, 3, 5, 17, 31, 33, 64, 65])) for _ in range(rank))
    symbolic = bool(rng.random() < 0.5)
    extents = tuple(te.size_var(f"n{at}") for at in range(rank)) if symbolic else shape
    stages = [te.placeholder(extents, "int32", name="A")]
    a = rng.integers(-9, 10, shape).astype("int32")
    expected = a
    for number in range(int(rng.integers(2, 5))):
        continued, pad = MODES[str(rng.choice([*MODES]))]
        reach = int(rng.choice([1, 1, 2, 5]))
        offsets = [tuple(int(o) for o in rng.integers(-reach, reach + 1, rank)) for _ in range(int(rng.integers(1, 4)))]
        E, wide = continued(stages[-1]), np.pad(expected, reach, **pad)
        stages.append(
            te.compute(
                extents,
                lambda *at, E=E, offsets=offsets: sum(
                    (
                        E(*(i + o for i, o in zip(at, offset, strict=True))) * (k + 1)
                        for k, offset in enumerate(offsets)
                    ),
                    te.const(number),
                ),
                name=f"S{number}",
            )
        )
        expected = (
            sum(
                (k + 1) * wide[tuple(slice(reach + o, reach + o + n) for o, n in zip(offset, shape, strict=True))]
                for k, offset in enumerate(offsets)
            )
            + number
        )
    last = stages[-1]
    s = te.create_schedule(last.op)
    outer, inner = zip(*(s[last].split(axis, int(rng.choice([1, 3, 4, 8, 16]))) for axis in last.op.axis), strict=True)
    s[last].reorder(*outer, *inner)
    place = rank - 1
    for stage in reversed(stages[1:-1]):
        if rng.random() < 0.4:
            place = int(rng.integers(-1, place + 1))
        if place >= 0:
            s[stage].compute_at(s[last], outer[place])
        if rng.random() < 0.5:
            s[stage].vectorize(s[stage].split(stage.op.axis[-1], int(rng.choice([4, 8])))[1])
    if rng.random() < 0.7:
        s[last].vectorize(inner[-1])
    if rng.random() < 0.5:
        s[last].parallel(outer[0])
    f = tw.build(s, [stages[0], last], bounds_check=bool(rng.random() < 0.5))
    out = np.empty(shape, "int32")
    f(a, out)
    np.testing.assert_array_equal(out, expected, err_msg=f"{shape} {s.as_python()}")
