"""Equal pieces of a graph have one form, and are looked at once."""

from __future__ import annotations

from typing import Any

import pytest
import tilewright as tw
from tilewright import te
from tilewright.autoschedule.groups import Group
from tilewright.autoschedule.structure import structure_key


def of(tensor: Any) -> Any:
    return structure_key(tensor.op.values[0], tensor.op.axis)


def product(A: Any, B: Any, n: int, m: int, k: int, name: str = "C", combine: Any = te.sum) -> Any:
    r = te.reduce_axis((0, k), f"r{name}")
    return te.compute((n, m), lambda i, j: combine(A[i, r] * B[r, j], axis=r), name=name)


def test_names_do_not_count_and_all_else_does() -> None:
    A, B, C = (te.placeholder((33, 33), name=name) for name in "ABC")
    same = of(product(A, B, 33, 33, 33))
    assert of(product(B, C, 33, 33, 33, "D")) == same
    assert of(product(A, A, 33, 33, 33)) != same, "one tensor is read twice"
    assert of(product(A, B, 33, 31, 33)) != same, "another extent"
    assert of(product(A, B, 33, 33, 31)) != same, "another depth"
    assert of(product(A, B, 33, 33, 33, combine=te.max)) != same, "another combiner"
    assert of(product(A, te.placeholder((33, 33), "float64", name="B").astype("float32"), 33, 33, 33)) == same
    assert of(product(A, te.placeholder((33, 65), name="B"), 33, 33, 33)) != same, "other rows in memory"
    n = te.size_var("n")
    X, Y = te.placeholder((n,), name="X"), te.placeholder((te.size_var("n"),), name="Y")
    assert of(te.compute((n,), lambda i: X[i] + 1.0)) != of(te.compute(Y.shape, lambda i: Y[i] + 1.0)), (
        "symbols are themselves"
    )


def test_where_a_read_begins_does_not_count_and_how_far_reads_lie_apart_does() -> None:
    A, k = te.placeholder((64, 64), name="A"), te.reduce_axis((0, 3), "k")

    def window(*offsets: int) -> Any:
        return of(te.compute((9, 31), lambda i, j: te.sum(sum(A[i, j + k + offset] for offset in offsets), axis=k)))

    assert window(0, 1) == window(4, 5) and window(0) == window(7)
    assert window(0, 1) != window(0, 2) and window(0, 0) != window(0, 1) and window(0, 1) != window(1, 0)
    assert of(te.compute((9, 31), lambda i, j: A[i, j])) != of(te.compute((9, 31), lambda i, j: A[i, j + 1])), (
        "the axis itself"
    )
    assert of(te.compute((9, 31), lambda i, j: A[i, j * 2])) != of(te.compute((9, 31), lambda i, j: A[i, j])), (
        "another step"
    )
    assert of(te.compute((9,), lambda i: A[i, i // 2])) != of(te.compute((9,), lambda i: A[i, i // 3])), (
        "more than sums"
    )


def largest(name: str) -> Any:
    return product(te.placeholder((96, 97), name="A"), te.placeholder((97, 96), name="B"), 96, 96, 97, name, te.max)


def contracted(name: str) -> Any:
    A, B = te.placeholder((8, 6, 8, 5), name="A"), te.placeholder((6, 24, 5, 9), name="B")
    e, f = te.reduce_axis((0, 6), "e"), te.reduce_axis((0, 5), "f")
    return te.compute((8, 8, 24, 9), lambda a, b, c, d: te.sum(A[a, e, b, f] * B[e, c, f, d], axis=[e, f]), name=name)


@pytest.mark.parametrize("piece", [largest, contracted])
def test_equal_pieces_are_estimated_once(monkeypatch: pytest.MonkeyPatch, piece: Any) -> None:
    calls: list[int] = []
    draft = Group.draft
    monkeypatch.setattr(Group, "draft", lambda *args, **more: calls.append(1) or draft(*args, **more))
    described = [row.description for row in tw.autoschedule.schedule([piece("C")]).plan]
    once = len(calls)
    assert once > 1
    calls.clear()
    plan = tw.autoschedule.schedule([piece(f"C{number}") for number in range(3)]).plan
    assert len(calls) == once
    assert [row.description for row in plan] == described * 3
