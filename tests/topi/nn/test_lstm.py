"""Long short-term memory; its row's sample is tried with those of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.topi.row import load_rows
from topi_run import evaluate, floats, placeholders

STEPS, BATCH, INPUTS, HIDDEN, SMALL = 5, 3, 4, 6, 2
GIVEN = {"Xs": (STEPS, BATCH, INPUTS), "Wi": (4 * HIDDEN, INPUTS), "Wh": (4 * HIDDEN, HIDDEN)}
STATES = {"Bi": (4 * HIDDEN,), "Bh": (4 * HIDDEN,), "h_init": (BATCH, HIDDEN), "c_init": (BATCH, HIDDEN)}
PEEPHOLES = {"proj": (SMALL, HIDDEN), "p_i": (BATCH, HIDDEN), "p_f": (BATCH, HIDDEN), "p_o": (BATCH, HIDDEN)}


@pytest.mark.parametrize(
    ("shapes", "attributes"),
    [
        ({**GIVEN, **STATES}, {"reverse": False, "weight_layout": "IFGO"}),
        ({**GIVEN, "Wh": (4 * HIDDEN, SMALL), **PEEPHOLES}, {"reverse": True, "weight_layout": "OGIF"}),
    ],
    ids=["biases and states", "projected backwards with peepholes"],
)
def test_what_some_of_its_operands_change(shapes: dict[str, tuple[int, ...]], attributes: dict[str, Any]) -> None:
    arrays = [floats(shape, seed=seed) for seed, shape in enumerate(shapes.values())]
    tensors = placeholders(*arrays)
    row = load_rows()["lstm"]
    got = evaluate(tensors, topi.nn.lstm(**dict(zip(shapes, tensors, strict=True)), **attributes), arrays)
    given = dict(zip(shapes, arrays, strict=True))
    wanted = row.reference(*map(given.get, row.tensors), **attributes)
    for ours, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_an_order_of_other_letters_is_refused() -> None:
    with pytest.raises(tw.TilewrightError, match="order of the gates"):
        topi.nn.lstm(te.placeholder((1, 1, 1)), te.placeholder((4, 1)), te.placeholder((4, 1)), weight_layout="IIFG")
