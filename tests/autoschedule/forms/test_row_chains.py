"""Chains of reductions over the same axes are recognised by what they read, whoever declared them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.cpu.rules import RULES
from tilewright.autoschedule.forms import rows
from tilewright.autoschedule.group_partition import cut
from tilewright.autoschedule.partition import ROWS, Fusion, Piece

APART_BUT_ROWS = Fusion(
    lambda reader, producer: None, lambda reduction: False, lambda readers, producer: False, lambda output, beside: None
)


def pieces_of(output: te.Tensor) -> list[Piece]:
    return cut(te.create_schedule(output.op), RULES, APART_BUT_ROWS)


def softmax(x: te.Tensor, keepdims: bool) -> te.Tensor:
    """Over the last of two axes, without a tag."""
    n, m = x.shape
    k, q = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "q")
    kept = (n, 1) if keepdims else (n,)
    row: Callable[..., tuple[Any, ...]] = (lambda i: (i, 0)) if keepdims else (lambda i: (i,))
    largest = te.compute(kept, lambda i, *_: te.max(x[i, k], axis=k), "largest")
    power = te.compute((n, m), lambda i, j: te.exp(x[i, j] - largest[row(i)]), "power")
    total = te.compute(kept, lambda i, *_: te.sum(power[i, q], axis=q), "total")
    return te.compute((n, m), lambda i, j: power[i, j] / total[row(i)], "softmax")


@pytest.mark.parametrize("keepdims", [False, True])
def test_a_softmax_by_hand_is_one_chain(keepdims: bool) -> None:
    x = te.placeholder((7, 33), name="x")
    (piece,) = pieces_of(softmax(x, keepdims))
    assert piece.tag == ROWS
    assert [part.name for part in piece.parts] == ["largest", "power", "total"]


def test_what_follows_element_by_element_ends_the_chain() -> None:
    x, w = te.placeholder((7, 33), name="x"), te.placeholder((33,), name="w")
    y = topi.nn.relu(topi.multiply(softmax(x, True), w))
    (piece,) = pieces_of(y)
    assert piece.tag == ROWS and piece.anchor is y.op


@pytest.mark.parametrize("operator", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_operators_are_chains_without_their_tags(operator: str) -> None:
    x = te.placeholder((7, 33), name="x")
    (piece,) = pieces_of(getattr(topi.nn, operator)(x))
    assert piece.tag == ROWS
    (piece,) = pieces_of(topi.nn.instance_norm(te.placeholder((2, 3, 5, 7), name="x"), None, None))
    assert piece.tag == ROWS and not piece.heads


def test_a_variance_and_sums_of_the_same_elements_are_chains() -> None:
    x = te.placeholder((7, 33), name="x")
    k, q = te.reduce_axis((0, 33), "k"), te.reduce_axis((0, 33), "q")
    total = te.compute((7,), lambda i: te.sum(x[i, k], axis=k), "total")
    distance = te.compute(
        (7,), lambda i: te.sum((x[i, q] - total[i] / 33.0) * (x[i, q] - total[i] / 33.0), axis=q), "distance"
    )
    (piece,) = pieces_of(distance)
    assert piece.tag == ROWS and [part.name for part in piece.parts] == ["total"]
    squares = te.compute((7,), lambda i: te.sum(x[i, q] * x[i, q], axis=q), "squares")
    (piece,) = pieces_of(te.compute((7,), lambda i: squares[i] - total[i] * total[i], "spread"))
    assert piece.tag == ROWS and {part.name for part in piece.parts} == {"total", "squares"}


def test_reductions_that_share_nothing_are_no_chain() -> None:
    x, y = te.placeholder((7, 33), name="x"), te.placeholder((7, 33), name="y")
    difference = topi.subtract(topi.sum(x, 1), topi.sum(y, 1))
    assert ROWS not in [piece.tag for piece in pieces_of(difference)]


def test_products_stay_anchors_of_their_own() -> None:
    a, b = te.placeholder((33, 33), name="a"), te.placeholder((33, 33), name="b")
    product = topi.matmul(a, b)
    normed = pieces_of(topi.nn.softmax(product))
    assert [piece.tag for piece in normed] == [ROWS, ""], "the product's elements are read, its terms are not"
    k = te.reduce_axis((0, 33), "k")
    length = te.compute((33,), lambda i: te.sum(a[i, k], axis=k), "length")
    scaled = te.compute((33, 33), lambda i, j: product[i, j] / length[i], "scaled")
    assert ROWS not in [piece.tag for piece in pieces_of(scaled)], "nothing of a row is looked at twice"


def test_chains_over_other_axes_stay_apart() -> None:
    x = te.placeholder((9, 33), name="x")
    inner, outer = sorted(
        pieces_of(softmax(topi.transpose(softmax(topi.transpose(x), False)), False)),
        key=lambda piece: piece.anchor.name == "softmax",
    )[:2]
    assert inner.tag == outer.tag == ROWS


def test_a_part_that_is_an_output_too_is_stored() -> None:
    x = te.placeholder((7, 33), name="x")
    y = softmax(x, False)
    total = y.op.input_tensors[1]
    s = tw.autoschedule.schedule([y, total])
    assert s[total].attach_type == "root"


def test_looking_for_chains_takes_time_in_proportion_to_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    follow = rows._Walk.follow

    def counted(*arguments: Any) -> None:
        nonlocal looks
        looks += 1
        follow(*arguments)

    monkeypatch.setattr(rows._Walk, "follow", counted)
    x = te.placeholder((7, 33), name="x")
    y = topi.sum(x, 1, keepdims=True)
    for _ in range(100):
        y = topi.add(y, 1.0)
    pieces_of(y)
    assert 100 <= looks <= 300
