"""Long short-term memory against its equations in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from topi_run import evaluate, floats, placeholders

STEPS, BATCH, INPUTS, HIDDEN, SMALL = 5, 3, 4, 6, 2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(xs, wi, wh, order="IFGO", *, b=0, h=None, c=None, proj=None, peep=(0, 0, 0), reverse=False):
    h = np.zeros((BATCH, HIDDEN if proj is None else SMALL)) if h is None else h
    c = np.zeros((BATCH, HIDDEN)) if c is None else c
    hs, cs = [], []
    for x in xs[::-1] if reverse else xs:
        gates = dict(zip(order, np.split(x @ wi.T + h @ wh.T + b, 4, 1), strict=True))
        i, f = sigmoid(gates["I"] + peep[0] * c), sigmoid(gates["F"] + peep[1] * c)
        c = f * c + i * np.tanh(gates["G"])
        h = sigmoid(gates["O"] + peep[2] * c) * np.tanh(c)
        h = h if proj is None else h @ proj.T
        hs.append(h)
        cs.append(c)
    return np.stack(hs), np.stack(cs)


def test_a_plain_one_with_biases_and_states() -> None:
    arrays = [
        floats(shape, seed=seed)
        for seed, shape in enumerate(
            (
                (STEPS, BATCH, INPUTS),
                (4 * HIDDEN, INPUTS),
                (4 * HIDDEN, HIDDEN),
                (4 * HIDDEN,),
                (4 * HIDDEN,),
                (BATCH, HIDDEN),
                (BATCH, HIDDEN),
            )
        )
    ]
    tensors = placeholders(*arrays)
    got = evaluate(tensors, topi.nn.lstm(*tensors), arrays)
    xs, wi, wh, bi, bh, h, c = (array.astype("float64") for array in arrays)
    for one, want in zip(got, reference(xs, wi, wh, b=bi + bh, h=h, c=c), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)


def test_projected_backwards_with_peepholes_in_another_order() -> None:
    arrays = [
        floats(shape, seed=seed)
        for seed, shape in enumerate(
            ((STEPS, BATCH, INPUTS), (4 * HIDDEN, INPUTS), (4 * HIDDEN, SMALL), (SMALL, HIDDEN), *[(BATCH, HIDDEN)] * 3)
        )
    ]
    tensors = placeholders(*arrays)
    made = topi.nn.lstm(
        *tensors[:3],
        proj=tensors[3],
        p_i=tensors[4],
        p_f=tensors[5],
        p_o=tensors[6],
        reverse=True,
        weight_layout="OGIF",
    )
    got = evaluate(tensors, made, arrays)
    xs, wi, wh, proj, *peep = (array.astype("float64") for array in arrays)
    for one, want in zip(got, reference(xs, wi, wh, "OGIF", proj=proj, peep=peep, reverse=True), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)


def test_an_order_of_other_letters_is_refused() -> None:
    with pytest.raises(tw.TilewrightError, match="order of the gates"):
        topi.nn.lstm(te.placeholder((1, 1, 1)), te.placeholder((4, 1)), te.placeholder((4, 1)), weight_layout="IIFG")
