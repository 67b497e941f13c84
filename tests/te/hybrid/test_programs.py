# ruff: noqa: F821
"""Programs whose control flow depends on data, as hybrid scripts: non-maximum suppression, sorting, histograms.

Each is compared with numpy as Python, in the interpreter and as native code, at odd sizes, 0, 1 and primes."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from hybrid_run import agree
from tilewright import te

SIZES = (0, 1, 2, 3, 7, 13, 31)


# Non-maximum suppression


@te.hybrid.script
def suppress(boxes, scores, threshold):
    """Boxes (y0, x0, y1, x1) by falling score; a box goes where one that stays overlaps it by more than the threshold."""
    n = boxes.shape[0]
    order = output_tensor((n,), "int32")
    keep = output_tensor((n,), "int32")
    for i in range(n):  # the place of each box: how many are better, or as good and earlier
        rank = 0
        for j in range(n):
            if scores[j] > scores[i] or (scores[j] == scores[i] and j < i):
                rank += 1
        order[rank] = i
    for i in range(n):
        a = order[i]
        area = (boxes[a, 2] - boxes[a, 0]) * (boxes[a, 3] - boxes[a, 1])
        stays = 1
        for j in range(i):
            b = order[j]
            if keep[j] == 1 and stays == 1:
                height = max(min(boxes[a, 2], boxes[b, 2]) - max(boxes[a, 0], boxes[b, 0]), 0.0)
                width = max(min(boxes[a, 3], boxes[b, 3]) - max(boxes[a, 1], boxes[b, 1]), 0.0)
                other = (boxes[b, 2] - boxes[b, 0]) * (boxes[b, 3] - boxes[b, 1])
                if height * width > threshold * (area + other - height * width):
                    stays = 0
        keep[i] = stays
    return order, keep


def suppressed(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-scores, kind="stable").astype("int32")
    keep = np.zeros(len(order), "int32")
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for at, i in enumerate(order):
        kept = order[:at][keep[:at] == 1]
        low, high = np.maximum(boxes[kept, :2], boxes[i, :2]), np.minimum(boxes[kept, 2:], boxes[i, 2:])
        overlap = np.prod(np.maximum(high - low, 0), axis=1)
        keep[at] = not np.any(overlap > threshold * (area[kept] + area[i] - overlap))
    return order, keep


def boxes_and_scores(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    corner, size = rng.integers(0, 12, (n, 2)), rng.integers(1, 9, (n, 2))
    return np.concatenate([corner, corner + size], axis=1).astype("float32"), (rng.integers(0, 9, n) / 8).astype(
        "float32"
    )


@pytest.mark.parametrize("n", SIZES)
def test_suppression_of_boxes(n: int) -> None:
    boxes, scores = boxes_and_scores(n)
    expected = suppressed(boxes, scores, 0.25)
    agree(suppress, [boxes, scores, 0.25], expected)
    if n == 31:
        assert 5 < expected[1].sum() < 26  # some stay and some go


def test_suppression_of_any_number_of_boxes() -> None:
    for n in (5, 17):
        boxes, scores = boxes_and_scores(n)
        agree(suppress, [boxes, scores, 0.25], suppressed(boxes, scores, 0.25), targets=("llvm",), symbolic=True)


def test_a_loop_that_needs_its_earlier_iterations_is_split_and_not_made_parallel() -> None:
    boxes, scores = boxes_and_scores(29)

    def schedule(s, outputs):
        loops = {axis: outputs[0].op.declared_loops.loop(axis) for axis in outputs[0].op.axis}
        first, last = [axis for axis in loops if axis.name in ("i", "i_1")][::-1]
        with pytest.raises(tw.ScheduleError, match=r"TW0280[\s\S]*keep\[i_1\] and keep\[j_1\]"):
            s[outputs[0]].parallel(last)
        s[outputs[0]].split(first, 4)
        s[outputs[0]].split(last, 5)

    agree(suppress, [boxes, scores, 0.5], suppressed(boxes, scores, 0.5), schedule)


# Sorting networks


@te.hybrid.script
def odd_even_sort(values):
    """Odd-even transposition (Knuth, volume 3, 5.3.4): n rounds in which neighbours trade places."""
    n = values.shape[0]
    out = output_tensor((n,), values.dtype)
    for i in range(n):
        out[i] = values[i]
    for step in range(n):
        for i in range((n - step % 2) // 2):
            if out[2 * i + step % 2] > out[2 * i + step % 2 + 1]:
                out[2 * i + step % 2], out[2 * i + step % 2 + 1] = out[2 * i + step % 2 + 1], out[2 * i + step % 2]
    return out


@te.hybrid.script
def bitonic_sort(values, stages):
    """Batcher's bitonic network over 2 ** stages values; the place that i is compared with differs in one bit."""
    n = values.shape[0]
    out = output_tensor((n,), values.dtype)
    for i in range(n):
        out[i] = values[i]
    for stage in const_range(stages):
        for step in const_range(stage + 1):
            for i in range(n):
                other = i ^ (1 << (stage - step))
                if other > i:
                    up = (i & (1 << (stage + 1))) == 0
                    if (out[i] > out[other]) == up:
                        low, high = out[i], out[other]
                        out[i] = high
                        out[other] = low
    return out


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_odd_even_sort(n: int, dtype: str) -> None:
    values = np.random.default_rng(n).integers(-50, 50, n).astype(dtype)
    agree(
        odd_even_sort, [values], np.sort(values), targets=("interpret", "llvm") if n in (0, 1, 13) else ("interpret",)
    )


def test_odd_even_sort_of_any_length() -> None:
    values = np.random.default_rng(7).permutation(37).astype("float64")
    agree(odd_even_sort, [values], np.sort(values), symbolic=True)


def test_neighbours_trade_places_in_parallel_within_a_round() -> None:
    """Iterations of a round write elements of their own, which the compiler sees; rounds follow each other."""
    values = np.random.default_rng(8).permutation(43).astype("int32")

    def schedule(s, outputs):
        pairs = next(axis for axis in outputs[0].op.axis if axis.name == "i_1")
        s[outputs[0]].parallel(pairs)

    agree(odd_even_sort, [values], np.sort(values), schedule)


@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4])
def test_bitonic_sort(stages: int) -> None:
    values = np.random.default_rng(stages).integers(0, 99, 1 << stages).astype("int32")
    agree(
        bitonic_sort,
        [values, stages],
        np.sort(values),
        targets=("interpret", "llvm") if stages == 4 else ("interpret",),
    )


# Histograms


@te.hybrid.script
def histogram(values, bins):
    counts = output_tensor((bins,), "int32")
    for i in range(values.shape[0]):
        if 0 <= values[i] < bins:
            counts[values[i]] += 1
    return counts


@te.hybrid.script
def histogram_by_parts(values, bins, parts):
    """Every part counts its own, so that parts run in parallel; then the counts are added."""
    n = values.shape[0]
    counts = output_tensor((bins,), "int32")
    own = allocate((parts, bins), "int32")
    each = ceil_div(n, parts)
    for p in parallel(parts):
        for i in range(each):
            if p * each + i < n and values[p * each + i] >= 0 and values[p * each + i] < bins:
                own[p, values[p * each + i]] += 1
    for b in range(bins):
        total = 0
        for p in range(parts):
            total += own[p, b]
        counts[b] = total
    return counts


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("script", [histogram, histogram_by_parts], ids=lambda script: script.__name__)
def test_histogram(n: int, script) -> None:
    values = np.random.default_rng(n).integers(-3, 14, n).astype("int32")
    expected = np.bincount(values[(values >= 0) & (values < 11)], minlength=11).astype("int32")
    arguments = [values, 11] if script is histogram else [values, 11, 3]
    agree(script, arguments, expected, targets=("interpret", "llvm") if n in (0, 1, 31) else ("interpret",))


def test_histogram_of_any_number_of_values() -> None:
    values = np.random.default_rng(1).integers(0, 5, 101).astype("int32")
    agree(histogram_by_parts, [values, 5, 7], np.bincount(values, minlength=5).astype("int32"), symbolic=True)
