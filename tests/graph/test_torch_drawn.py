"""Drawn programs of torch, with sizes that are numbers or symbols, beside torch."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from numpy.typing import NDArray

torch = pytest.importorskip("torch", reason="torch, whose programs these are, is not installed")
import drawn_torch  # noqa: E402


def problem(at: int, case: int) -> str:
    """What is wrong with a drawn program of a row; "" where nothing is."""
    random = drawn.rng(f"programs of torch, row {at}", case)
    program = drawn_torch.draw(random, at)
    try:
        exported = torch.export.export(
            program.module, program.arguments(random, program.known), dynamic_shapes=program.open
        )
    except Exception:  # noqa: BLE001  what torch does not export, for reasons of its own
        return ""
    try:
        graph = tw.graph.from_torch(exported)
    except tw.GraphError:  # a form that is not supported
        return ""
    for sizes in program.other_sizes(random):
        arguments = program.arguments(random, sizes)
        try:
            ours = graph.run(*(one.numpy() for one in arguments))
        except tw.GraphError:  # sizes that it does not take
            continue
        try:
            theirs: Any = exported.module()(*arguments)
        except (RuntimeError, AssertionError, IndexError):  # and those that torch does not
            continue
        if not agree(ours, list(theirs) if isinstance(theirs, (tuple, list)) else [theirs], program.tolerance):
            return f"{program.text} of {program.inputs}, sizes {sizes}"
    return ""


def agree(ours: list[NDArray[Any]], theirs: list[Any], tolerance: float) -> bool:
    return len(ours) == len(theirs) and all(
        one.shape == tuple(other.shape)
        and one.dtype == other.numpy().dtype
        and np.allclose(one.astype(float), other.numpy().astype(float), tolerance, tolerance, equal_nan=True)
        for one, other in zip(ours, theirs, strict=True)
    )


def test_drawn_programs_give_what_torch_gives() -> None:
    rows = drawn.part(range(len(drawn_torch.ROWS)), 5)
    found = [problem(at, case) for at in rows for case in range(drawn.count(1, 4))]
    assert not any(found), "\n".join(filter(None, found))
