"""Boxes, regions, volumes and correlations, against numpy, under the façade's names where TVM has its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.compat.tvm import topi as theirs
from topi_run import evaluate, floats, placeholders, run


def overlap(one: Any, other: Any) -> float:
    wide, high = (min(one[at + 2], other[at + 2]) - max(one[at], other[at]) for at in (2, 3))
    areas = [(box[4] - box[2]) * (box[5] - box[3]) for box in (one, other)]
    return wide * high / (sum(areas) - wide * high) if wide > 0 and high > 0 else 0.0


def test_of_boxes_that_overlap_the_best_stay() -> None:
    random = np.random.default_rng(3)
    boxes = random.uniform(0, 1, (2, 9, 6)).astype("float32")
    boxes[..., 0], boxes[..., 4:] = random.integers(-1, 2, (2, 9)), boxes[..., 2:4] + 0.5
    given = placeholders(boxes)
    counts, kept, places = evaluate(given, theirs.vision.get_valid_counts(given[0], 0.3), [boxes])
    tensors = placeholders(kept, counts, places)
    found, number = evaluate(
        tensors, theirs.vision.non_max_suppression(*tensors, iou_threshold=0.3), [kept, counts, places]
    )
    for b in range(2):
        valid = (boxes[b, :, 1] > 0.3) & (boxes[b, :, 0] >= 0)
        np.testing.assert_array_equal(kept[b, : counts[b]], boxes[b, valid])
        stay: list[int] = []
        for j in np.flatnonzero(valid)[np.argsort(-boxes[b, valid, 1], kind="stable")]:
            if all(boxes[b, j, 0] != boxes[b, k, 0] or overlap(boxes[b, j], boxes[b, k]) < 0.3 for k in stay):
                stay.append(int(j))
        assert number[b, 0] == len(stay)
        np.testing.assert_array_equal(found[b], [*stay, *[-1] * (9 - len(stay))])


def test_a_correlation_of_displaced_windows() -> None:
    one, other = floats((1, 3, 6, 7)), floats((1, 3, 6, 7), seed=1)
    found = run(lambda a, b: theirs.nn.correlation_nchw(a, b, 3, 2, 1, 2, 2), one, other)
    wide = [np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2))) for x in (one, other)]
    for k, i, j in np.ndindex(*found.shape[1:]):
        y, x = i + 2 + (k // 3 - 1) * 2, j + 2 + (k % 3 - 1) * 2
        want = (wide[0][0, :, i + 2 : i + 5, j + 2 : j + 5] * wide[1][0, :, y : y + 3, x : x + 3]).mean()
        np.testing.assert_allclose(found[0, k, i, j], want, atol=1e-6)


def test_gradients_of_pooling_and_volumes_resized() -> None:
    x = floats((1, 1, 5, 4))
    data, head = te.placeholder(x.shape, name="x"), te.placeholder((1, 1, 2, 2), name="g")
    found = evaluate(
        [head, data], theirs.nn.pool_grad(head, data, 2, 2, 0, "max"), [np.ones((1, 1, 2, 2), "float32"), x]
    )
    blocks = x[0, 0, :4].reshape(2, 2, 2, 2).swapaxes(1, 2)
    expected = (blocks == blocks.max((2, 3), keepdims=True)).swapaxes(1, 2).reshape(4, 4)
    np.testing.assert_array_equal(found[0, 0], np.vstack([expected, np.zeros((1, 4))]))
    volume = floats((1, 2, 2, 3, 1))
    doubled = run(lambda a: theirs.nn.upsampling3d(a, 2, 2, 2, coordinate_transformation_mode="asymmetric"), volume)
    np.testing.assert_array_equal(doubled, volume.repeat(2, 2).repeat(2, 3).repeat(2, 4))


def test_crops_and_regions_of_planes_are_planes() -> None:
    """Of a linear function every sample is its value there."""
    y, x = np.mgrid[:7, :9].astype("float32")
    plane = (2 * y + x)[None, None]
    boxes = np.float32([[0, 0, 1, 1], [0.25, 0.5, 0.75, 1.5]])
    found = run(
        lambda a, b, i: theirs.image.crop_and_resize(a, b, i, (3, 3), extrapolation_value=-7.0),
        plane,
        boxes,
        np.int32([0, 0]),
    )
    np.testing.assert_allclose(found[0, 0], plane[0, 0, ::3, ::4], atol=1e-5)
    np.testing.assert_allclose(found[1, 0, :, 2], -7)
    rois = np.float32([[0, 1, 1, 5, 4]])
    bins = run(lambda a, r: theirs.vision.rcnn.roi_align_nchw(a, r, 2, 1.0, b"avg", 2), plane, rois)
    np.testing.assert_allclose(bins[0, 0], [[2 * 1.75 + 2, 2 * 1.75 + 4], [2 * 3.25 + 2, 2 * 3.25 + 4]], atol=1e-5)


def test_what_cannot_be_is_refused() -> None:
    x, grid = te.placeholder((1, 2, 3, 4, 5)), te.placeholder((1, 3, 1, 1, 1))
    with pytest.raises(tw.TilewrightError, match=r"TW0182: grid_sample of 3 dimensions has no method 'bicubic'"):
        topi.image.grid_sample(x, grid, "bicubic", "NCDHW")
    with pytest.raises(tw.TilewrightError, match=r"TW0181: roi_align: .* are not regions"):
        topi.vision.roi_align(te.placeholder((1, 2, 3, 4)), te.placeholder((5, 4)), 2, 1.0)
    with pytest.raises(tw.TilewrightError, match="TW0190: columns of shape"):
        topi.nn.col2im(te.placeholder((1, 4, 5)), (3, 3), (2, 2))
    with pytest.raises(tw.TilewrightError, match="TW0181: dft along axis"):
        topi.dft(te.placeholder((3,), "int32"), te.placeholder((3,), "int32"))


def test_deformed_taps_with_the_channels_last_and_before_the_image() -> None:
    rng = np.random.default_rng(7)
    x, w, offset = (rng.uniform(-1, 1, shape).astype("float32") for shape in ((1, 5, 4, 3), (1, 1, 3, 2), (1, 5, 4, 2)))
    turned = [x.transpose(0, 3, 1, 2).copy(), (offset * 2).transpose(0, 3, 1, 2).copy(), w.transpose(3, 2, 0, 1).copy()]
    for partial in (True, False):
        first = run(lambda a, o, k, partial=partial: topi.nn.deformable_conv2d_nchw(a, o, k, partial=partial), *turned)
        last = run(
            lambda a, o, k, partial=partial: topi.nn.deformable_conv2d_nhwc(a, o, k, partial=partial), x, offset * 2, w
        )
        np.testing.assert_allclose(last, first.transpose(0, 2, 3, 1), rtol=1e-6, atol=1e-6)
    places = [np.arange(5).reshape(-1, 1) + turned[1][:, 0], np.arange(4) + turned[1][:, 1]]
    outside = (places[0] < 0) | (places[1] < 0)
    assert outside.any()
    assert not first[:, 0][outside].any()


@pytest.mark.parametrize(
    ("offset", "mask"),
    [
        ((1, 8, 4, 5), (1, 8, 4, 5)),
        ((1, 8, 4, 5), (1, 2, 4, 5)),
        ((1, 8, 4, 6), None),
        ((2, 8, 4, 5), None),
        ((1, 16, 4, 5), (1, 4, 4, 5)),
    ],
)
def test_offsets_and_masks_of_other_shapes_than_the_taps_are_refused(offset: tuple[int, ...], mask: Any) -> None:
    x, w = te.placeholder((1, 4, 5, 6)), te.placeholder((2, 2, 2, 2))
    with pytest.raises(tw.TilewrightError, match=r"TW0191.*\n.* is \(1, [48], 4, 5\), [12] for each of 4 taps"):
        topi.nn.deformable_conv2d_nchw(
            x, te.placeholder(offset), w, groups=2, mask=None if mask is None else te.placeholder(mask)
        )
