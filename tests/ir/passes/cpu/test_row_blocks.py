"""Rows of a block go through a matrix together where none of them touches what another one does out of its turn, and keep every bit."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.ir.passes.cpu.row_blocks import ROWS
from tilewright.ir.passes.cpu.unroll_and_jam import JAM, unroll_and_jam
from tilewright.ir.stmt import BufferStore, For
from tilewright.ir.visit import walk
from tilewright.te.hybrid import allocate, output_tensor, script

ROWS_READ = ("above", "below", "any", "others")
COLUMNS = ("all", "from the row on", "up to the row")


def updates(n: int, rows: str, columns: str, both: bool) -> Any:
    """A script: rows that take up rows `above` or `below` them, `any` ones, or those of another matrix. both: and give to them."""
    above, below, own = rows == "above", rows == "below", rows != "others"
    after, before = columns == "from the row on", columns == "up to the row"

    @script
    def update(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        b = output_tensor((n, n), "float32")
        c = output_tensor((n, n), "float32")
        for i in range(n):
            for j in range(n):
                b[i, j] = A[j, i]
                c[i, j] = A[i, j]
        for row in range(n):
            t = allocate((n,), "float32")
            c[row, row] = c[row, row] * 0.5
            for k in range(row + 1 if below else 0, row if above else n):
                for j in range(row if after else 0, row + 1 if before else n):
                    b[row, j] = b[row, j] - A[row, k] * (b[k, j] if own else A[k, j])
                    if both:
                        c[k, j] = c[k, j] + A[row, j] * A[row, k]
                        t[j] = t[j] + A[k, j] * A[row, k]
            for j in range(n):
                b[row, j] = b[row, j] * 0.5 + t[j]
        return b, c

    return update


def blocked(n: int, rows: str, columns: str, both: bool) -> tuple[te.Tensor, list[te.Tensor], te.Schedule]:
    A = te.placeholder((n, n), name="A")
    outs = list(updates(n, rows, columns, both)(A))
    s = te.create_schedule(outs[0].op)
    stage = s[outs[0]]
    stage.pragma(next(axis for axis in stage.leaf_iter_vars if axis.name == "row"), JAM)
    return A, outs, s


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=x86-64-v2"))
def test_drawn_rows_keep_every_bit(target: str) -> None:
    for case in range(drawn.count(4, 300)):
        rng = drawn.rng(f"row blocks {target}", case)
        n, rows, columns = int(rng.choice((1, 3, 4, 5, 9, 19))), str(rng.choice(ROWS_READ)), str(rng.choice(COLUMNS))
        A, outs, s = blocked(n, rows, columns, bool(rng.random() < 0.5))
        assert s.is_exact
        values = rng.choice([0.0, -0.0, 1.0, -0.5, 0.3, 0.25, -0.7], (n, n)).astype("float32")
        results = [[np.empty_like(values) for _ in outs] for _ in range(2)]
        built = (s, target), (te.create_schedule(outs[0].op), "interpret")
        for (each, to), result in zip(built, results, strict=True):
            tw.build(each, [A, *outs], target=to)(values, *result)
        for got, want in zip(*results, strict=True):
            assert ((got.view("uint32") == want.view("uint32")) | np.isnan(got) & np.isnan(want)).all()


@pytest.mark.parametrize(
    ("rows", "columns", "both", "joined"),
    [
        ("above", "all", False, True),
        ("below", "all", False, True),
        ("others", "from the row on", False, True),
        ("others", "up to the row", False, True),
        ("above", "all", True, True),  # each row gives to rows above in its turn
        ("any", "all", False, False),  # a row of the block may be among those that are read
        ("above", "from the row on", True, False),  # what the columns of one row lack another one has
    ],
)
def test_only_rows_that_take_their_turns_are_joined(rows: str, columns: str, both: bool, joined: bool) -> None:
    A, outs, s = blocked(40, rows, columns, both)
    function = unroll_and_jam(tw.lower(s, [A, *outs]))
    stored = [
        sum(isinstance(node, BufferStore) and node.buffer.name == "b" for node in walk(loop.body))
        for loop in walk(function.body)
        if isinstance(loop, For) and not any(isinstance(node, For) for node in walk(loop.body))
    ]
    assert (ROWS in stored) == joined
