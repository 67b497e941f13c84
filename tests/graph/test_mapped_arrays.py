"""Parameters lie in files that are mapped: the memory of a process holds what kernels read, and not what that was packed from."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder
from tilewright.graph.mapped_arrays import paged_copy, release

SMAPS = Path("/proc/self/smaps")


def resident(array: np.ndarray) -> int:
    """Kilobytes of the mapping that an array lies in which are in memory."""
    inside = False
    for line in SMAPS.read_text().splitlines():
        head, *rest = line.split()
        if "-" in head and len(rest) > 3:
            begin, end = (int(part, 16) for part in head.split("-"))
            inside = begin <= array.ctypes.data < end
        elif inside and head == "Rss:":
            return int(rest[0])
    return 0


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("shape", [(), (3, 5), (257, 1021)])
def test_a_copy_is_compact_aligned_and_nobodys_to_change(shape: tuple[int, ...]) -> None:
    given = numbers(*shape)
    held = paged_copy(given)
    np.testing.assert_array_equal(held, given)
    assert held.dtype == given.dtype
    assert held.shape == shape
    assert held.ctypes.data % 64 == 0
    assert not held.flags.writeable
    release(held)
    np.testing.assert_array_equal(held, given)


def test_what_is_given_back_is_what_nobody_else_has() -> None:
    plain = numbers(300, 301)
    before = plain.copy()
    release(plain)
    np.testing.assert_array_equal(plain, before, "memory that is not a file's stays as it is")


def test_a_view_keeps_the_file() -> None:
    given = numbers(513, 511)
    row = paged_copy(given).T[3]
    gc.collect()
    np.testing.assert_array_equal(row, given.T[3])


def test_a_full_disk_leaves_the_array_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    given = numbers(513, 511)
    np.testing.assert_array_equal(paged_copy(given), given)


@pytest.mark.skipif(not SMAPS.exists(), reason="only Linux says what is in memory")
def test_weights_that_were_packed_take_no_memory_until_they_are_asked_for() -> None:
    b = Builder("wide")
    x = b.input("x", (33, 513))
    weight = numbers(513, 511)
    b.output("y", b.node("matmul", x, b.param("w", weight)))
    g = b.graph()
    m = tw.build(g)
    given = numbers(33, 513)
    m(given)
    raw = g.params["w"]
    assert resident(raw) == 0, "only what it was packed to was read"
    assert m.verify(given)
    np.testing.assert_array_equal(raw, weight)
    assert resident(raw) >= raw.nbytes // 1024


@pytest.mark.skipif(not SMAPS.exists(), reason="only Linux says what is in memory")
def test_weights_that_a_pass_laid_in_blocks_take_no_memory_as_they_were() -> None:
    b = Builder("convolved")
    h = b.input("x", (1, 3, 9, 9))
    h = b.node("conv", h, b.param("v", numbers(96, 3, 1, 1)))
    h = b.node("conv", h, b.param("w", numbers(96, 96, 3, 3)))
    b.output("y", b.node("mean", h, axes=(2, 3), keepdims=False))
    g = b.graph()
    assert "conv_in_blocks" in str(g.transform())
    assert resident(g.params["w"]) == 0, "what is computed with lies elsewhere"
