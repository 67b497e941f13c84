"""online: sums weighted by a softmax, chunk by chunk, against numpy and the schedule without it."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.schedule.errors import BadOnline, UnknownStage


class Attention:
    """Y[i, e] = sum over j of softmax(A B')[i, j] * C[j, e]."""

    def __init__(
        self, rows: int = 5, terms: int = 11, depth: int = 3, width: int = 4, seen: Any = None, scale: float = 1.0
    ) -> None:
        self.A, self.B = te.placeholder((rows, depth), name="A"), te.placeholder((terms, depth), name="B")
        self.C = te.placeholder((terms, width), name="C")
        d, self.j = te.reduce_axis((0, depth), "d"), te.reduce_axis((0, terms), "j")
        k, m = te.reduce_axis((0, terms), "k"), te.reduce_axis((0, terms), "m")
        self.S = te.compute((rows, terms), lambda i, n: te.sum(self.A[i, d] * self.B[n, d], axis=d), name="S")

        def score(i: Any, n: Any) -> Any:
            own = self.S[i, n] if scale == 1.0 else self.S[i, n] * scale
            return own if seen is None else te.select(seen(i, n), own, te.const(-np.inf, "float32"))

        self.X = te.compute((rows, terms), score, name="X")
        self.peak = te.compute((rows,), lambda i: te.max(self.X[i, k], axis=k), name="peak")
        self.weight = te.compute((rows, terms), lambda i, n: te.exp(self.X[i, n] - self.peak[i]), name="weight")
        self.total = te.compute((rows,), lambda i: te.sum(self.weight[i, m], axis=m), name="total")
        self.P = te.compute((rows, terms), lambda i, n: self.weight[i, n] / self.total[i], name="P")
        self.Y = te.compute(
            (rows, width), lambda i, e: te.sum(self.P[i, self.j] * self.C[self.j, e], axis=self.j), name="Y"
        )
        self.s = te.create_schedule(self.Y.op)

    def run(self, s: Any, target: str = "llvm") -> np.ndarray:
        rng = np.random.default_rng(3)
        arrays = [
            rng.standard_normal([int(each) for each in tensor.shape], "float32") for tensor in (self.A, self.B, self.C)
        ]
        result = np.empty([int(extent) for extent in self.Y.shape], "float32")
        tw.build(s, [self.A, self.B, self.C, self.Y], target=target)(*arrays, result)
        return result


@pytest.mark.parametrize("factor", drawn.part([1, 4, 11, 64], 2))
@pytest.mark.parametrize("target", ["llvm", "interpret"])
def test_chunks_of_any_length_give_what_the_whole_gives(factor: int, target: str) -> None:
    p = Attention()
    expected = p.run(te.create_schedule(p.Y.op))
    made = p.s.online(p.Y, factor)
    names = "scores", "peak", "weight", "total", "factor", "part", "merged"
    assert [tensor.op.name for tensor in made] == [f"Y.{name}" for name in names]
    np.testing.assert_allclose(p.run(p.s, target), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 0.7])
def test_rows_of_which_no_term_counts_are_not_a_number_as_before(scale: float) -> None:
    """The maximum of scaled scores is that of the others, scaled."""
    p = Attention(
        seen=lambda i, n: (n <= i - 1) & (n > i - 4), scale=scale
    )  # none in the first row, and in whole chunks
    expected = p.run(te.create_schedule(p.Y.op))
    scores, *_ = p.s.online(p.Y, 2)
    assert (p.X.op in p.s) == (scale == 1.0) and str(scale) not in str(scores.op.body)
    result = p.run(p.s)
    assert np.isnan(expected[0]).all() and not np.isnan(expected[1:]).any()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_what_was_between_is_gone_and_comes_back() -> None:
    p = Attention()
    before = str(p.s)
    with p.s.attempt() as attempt:
        p.s.online(p.Y, 4)
        names = [stage.name for stage in p.s.stages]
        assert not {"peak", "weight", "total", "P"} & {*names} and {"S", "X"} <= {*names}
        with pytest.raises(UnknownStage, match="weight is computed no longer"):
            p.s[p.weight]
        assert p.weight not in p.s
        assert [stage.name for stage in p.s.copy().stages] == names
    p.s.undo(attempt)
    assert str(p.s) == before and p.weight in p.s


def test_records_make_the_same_chunks_of_other_operations() -> None:
    p, q = Attention(), Attention(terms=8)
    p.s.online(p.Y, 4)
    assert not p.s.is_exact and "chunk by chunk" in str(p.s.is_exact)
    s = te.Schedule.replay(p.s.records, [q.Y.op])
    np.testing.assert_allclose(q.run(s), q.run(q.s), rtol=1e-5, atol=1e-6)


def test_what_reads_the_total_beside_the_sum_reads_what_is_merged() -> None:
    x, v = te.placeholder((6, 10), name="x"), te.placeholder((10, 3), name="v")
    j, k, m = (te.reduce_axis((0, 10), name) for name in "jkm")
    peak = te.compute((6,), lambda i: te.max(x[i, k], axis=k), name="peak")
    total = te.compute((6,), lambda i: te.sum(te.exp((x[i, m] - peak[i]) * 0.5), axis=m), name="total")
    sums = te.compute((6, 3), lambda i, e: te.sum(te.exp((x[i, j] - peak[i]) * 0.5) * v[j, e], axis=j), name="sums")
    y = te.compute((6, 3), lambda i, e: sums[i, e] / total[i] + peak[i], name="y")
    s = te.create_schedule(y.op)
    s.online(sums, 4)
    rng = np.random.default_rng(5)
    a, b, result = (
        rng.standard_normal((6, 10), "float32"),
        rng.standard_normal((10, 3), "float32"),
        np.empty((6, 3), "float32"),
    )
    tw.build(s, [x, v, y])(a, b, result)
    weights = np.exp((a - a.max(1, keepdims=True)) / 2)
    np.testing.assert_allclose(
        result, weights / weights.sum(1, keepdims=True) @ b + a.max(1, keepdims=True), rtol=1e-5, atol=1e-6
    )


def test_values_that_columns_share_are_combined_once_in_registers() -> None:
    p = Attention(rows=4, terms=8)
    made = p.s.online(p.Y, 4)
    p.s[made[-1].op].set_scope("local")
    p.s[made[-1].op].compute_at(p.s[p.Y], p.Y.op.axis[0])
    merged = p.s[made[-1].op]
    merged.reorder(merged.op.axis[0], merged.op.reduce_axis[0], merged.op.axis[1])
    text = str(tw.lower(p.s, [p.A, p.B, p.C, p.Y]))
    assert text.count("Y.merged.v0[0, 0] = Y.merged.v0.next") == 1  # and not for each column
    np.testing.assert_allclose(p.run(p.s, "interpret"), p.run(te.create_schedule(p.Y.op)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("tensor", "factor", "reason"),
    [
        ("S", 4, "not a sum over one axis of exp"),
        ("total", 4, "not a sum over one axis of exp"),
        ("Y", 0, "a chunk would have 0 terms"),
    ],
)
def test_what_cannot_be_done_is_said(tensor: str, factor: int, reason: str) -> None:
    p = Attention()
    before = str(p.s)
    with pytest.raises(BadOnline, match=reason):
        p.s.online(getattr(p, tensor), factor)
    assert str(p.s) == before


def test_weights_that_somebody_else_wants_are_not_taken_away() -> None:
    p = Attention()
    s = te.create_schedule([p.Y.op, p.total.op])
    with pytest.raises(BadOnline, match="total is wanted whole, by an output"):
        s.online(p.Y, 4)
    assert s[p.weight].op is p.weight.op


def test_attention_of_topi_has_the_form_too() -> None:
    q, k, v = (te.placeholder((1, 8, 4), name=name) for name in "qkv")
    y = topi.nn.attention(q, k, v, causal=True)
    s = te.create_schedule(y.op)
    value = next(stage for stage in s.stages if stage.name == "attention.value")
    s.online(value.op.output(0), 4)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((1, 8, 4), "float32") for _ in range(3)]
    results = [np.empty((1, 8, 4), "float32") for _ in range(2)]
    for schedule, result in zip((s, te.create_schedule(y.op)), results, strict=True):
        tw.build(schedule, [q, k, v, y])(*arrays, result)
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


def declared_in_chunks(causal: bool) -> tuple[Any, list[Any], Any, Any]:
    """Attention over 2,100 keys, which topi declares in chunks of 1,024; its weighted sum, and what merges the chunks."""
    args: list[Any] = [te.placeholder((1, rows, 4), name=name) for name, rows in (("q", 70), ("k", 2100), ("v", 2100))]
    y = topi.nn.attention(*args, causal=causal, offset=2000)
    s = te.create_schedule(y.op)
    value, merged = (
        next(stage for stage in s.stages if stage.name == f"attention.{name}") for name in ("value", "merged")
    )
    return s, [*args, y], value.op.output(0), merged.op.output(2)


@pytest.mark.parametrize("causal", [False, True])
def test_chunks_of_chunks_are_merged_at_once(causal: bool) -> None:
    s, args, value, merged = declared_in_chunks(causal)
    made = s.online(value, 64, into=merged)
    assert made[-1].op.name == "attention.merged" and "attention.value" not in [stage.name for stage in s.stages]
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal([int(extent) for extent in each.shape], "float32") for each in args[:3]]
    results = [np.empty((1, 70, 4), "float32") for _ in range(3)]
    replayed = te.Schedule.replay(s.records, [args[3].op])
    for schedule, result in zip((te.create_schedule(args[3].op), s, replayed), results, strict=True):
        tw.build(schedule, args)(*arrays, result)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results[2], results[1])


def test_what_does_not_merge_its_chunks_is_refused() -> None:
    s, args, value, merged = declared_in_chunks(False)
    before = str(s)
    for factor, into in ((48, merged), (64, args[3])):  # no divisor of a chunk, and no reduction
        with pytest.raises(BadOnline, match="is not a merger of its chunks"):
            s.online(value, factor, into)
        assert str(s) == before
    p = Attention()
    with pytest.raises(BadOnline, match="Y is not a merger of its chunks"):
        p.s.online(p.Y, 4, p.Y)
