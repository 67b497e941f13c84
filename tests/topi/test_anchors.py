"""Anchors, what a network makes of them, and proposals, against loops of numpy, under the façade's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilewright import te
from tilewright.compat.tvm import topi
from tilewright.topi.checks import BadOperand
from topi_run import evaluate, placeholders, run

RANDOM = np.random.default_rng(7)


def test_priors_stand_around_each_place() -> None:
    plane = np.zeros((1, 3, 5, 7), "float32")
    found = run(lambda a: topi.vision.ssd.multibox_prior(a, (0.5, 0.25), (1, 4), offsets=(0.5, 0.25)), plane)
    assert found.shape == (1, 5 * 7 * 3, 4)
    y, x = (2 + 0.5) / 5, (3 + 0.25) / 7
    for at, (size, ratio) in enumerate([(0.5, 1), (0.25, 1), (0.5, 4)]):
        wide, high = size * 5 / 7 * ratio**0.5 / 2, size / ratio**0.5 / 2
        np.testing.assert_allclose(found[0, (2 * 7 + 3) * 3 + at], [x - wide, y - high, x + wide, y + high], rtol=1e-5)


@pytest.mark.parametrize("clip", [True, False])
def test_boxes_of_classes_that_score_come_first(clip: bool) -> None:
    scores, offsets = RANDOM.random((2, 4, 9), "float32"), RANDOM.standard_normal((2, 36), "float32")
    anchors = np.sort(RANDOM.random((1, 9, 4), "float32"), -1)
    given = placeholders(scores, offsets, anchors)
    boxes, counts = evaluate(
        given, topi.vision.ssd.multibox_transform_loc(*given, clip, 0.7), [scores, offsets, anchors]
    )
    for b in range(2):
        rows: list[Any] = []
        for j in range(9):
            kind = 1 + int(np.argmax(scores[b, 1:, j]))
            if scores[b, kind, j] < 0.7:
                continue
            low, high = anchors[0, j, :2], anchors[0, j, 2:]
            centre = offsets[b, 4 * j : 4 * j + 2] * 0.1 * (high - low) + (low + high) / 2
            reach = np.exp(offsets[b, 4 * j + 2 : 4 * j + 4] * 0.2) * (high - low) / 2
            box = np.concatenate([centre - reach, centre + reach])
            rows.append([kind - 1, scores[b, kind, j], *(box.clip(0, 1) if clip else box)])
        assert counts[b] == len(rows)
        np.testing.assert_allclose(boxes[b, : len(rows)], rows, rtol=1e-5, atol=1e-6)
        assert (boxes[b, len(rows) :] == -1).all()


def test_proposals_are_the_best_that_do_not_overlap_again_and_again() -> None:
    scores, deltas = RANDOM.random((2, 4, 3, 4), "float32"), RANDOM.standard_normal((2, 8, 3, 4), "float32") * 0.2
    about = np.asarray([[40, 60, 1], [48, 50, 2]], "float32")
    found = run(
        lambda a, b, c: topi.vision.rcnn.proposal(a, b, c, (1, 2), (1,), 16, 0.3, 20, 6, 8), scores, deltas, about
    )
    for b in range(2):
        boxes, ranks = _moved(deltas[b], scores[b], about[b])
        stay: list[int] = []
        for j in np.argsort(-ranks, kind="stable")[:20]:
            if all(_overlap(boxes[j], boxes[k]) <= 0.3 for k in stay):
                stay.append(int(j))
        expected = (stay * 6)[:6]
        assert (found[6 * b : 6 * b + 6, 0] == b).all()
        np.testing.assert_allclose(found[6 * b : 6 * b + 6, 1:], boxes[expected], rtol=1e-4, atol=1e-3)


def _moved(deltas: Any, scores: Any, about: Any) -> tuple[Any, Any]:
    boxes, ranks = [], []
    for h in range(3):
        for w in range(4):
            for k, scale in enumerate((1, 2)):
                reach = 0.5 * (16 * scale - 1)
                low = np.asarray([w * 16 + 7.5 - reach, h * 16 + 7.5 - reach])
                extent = 16 * scale
                centre = deltas[4 * k : 4 * k + 2, h, w] * extent + low + 0.5 * (extent - 1)
                half = 0.5 * (np.exp(deltas[4 * k + 2 : 4 * k + 4, h, w]) * extent - 1)
                ends = np.asarray([about[1] - 1, about[0] - 1])
                box = np.concatenate([(centre - half).clip(0, ends), (centre + half).clip(0, ends)])
                small = ((box[2:] - box[:2] + 1) < 8 * about[2]).any()
                outside = h >= about[0] / 16 or w >= about[1] / 16
                grown = 8 * about[2] / 2 if small else 0
                boxes.append(box + np.asarray([-grown, -grown, grown, grown]))
                ranks.append(-1 if small or outside else scores[2 + k, h, w])
    return np.asarray(boxes), np.asarray(ranks)


def _overlap(one: Any, other: Any) -> float:
    sides = [min(one[at + 2], other[at + 2]) - max(one[at], other[at]) + 1 for at in (0, 1)]
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (one, other)]
    both = max(sides[0], 0) * max(sides[1], 0)
    return both / (sum(areas) - both)


def test_a_plane_of_symbols_has_no_anchors() -> None:
    with pytest.raises(BadOperand, match="is not known"):
        topi.vision.ssd.multibox_prior(te.placeholder((1, 3, te.var("h"), 4)))
