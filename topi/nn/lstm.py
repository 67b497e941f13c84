"""Long short-term memory, as a scan (S. Hochreiter and J. Schmidhuber, 1997; peepholes: F. Gers and J. Schmidhuber, 2000)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from ...base.errors import user_source
from ...te.tensor import Tensor
from ..checks import BadParameter, tensor
from ..matmul import convert_elements, product, sum_dtype
from ..row import floating, operator, sample

__all__ = ["lstm"]


def _numpy_lstm(
    xs: Any,
    wi: Any,
    wh: Any,
    bi: Any = None,
    bh: Any = None,
    h: Any = None,
    c: Any = None,
    proj: Any = None,
    *peepholes: Any,
    reverse: bool,
    weight_layout: str,
) -> Any:
    dtype, (batch, hidden) = xs.dtype, (xs.shape[1], wi.shape[0] // 4)
    zeros = np.zeros((batch, hidden))
    # what is absent adds nothing
    xs, wi, wh, bi, bh, c, *peep = (
        np.asarray(0.0 if one is None else one, "float64")
        for one in (xs, wi, wh, bi, bh, zeros if c is None else c, *peepholes, *[None] * (3 - len(peepholes)))
    )
    h = np.zeros((batch, wh.shape[1])) if h is None else h.astype("float64")

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    states: list[Any] = []
    cells: list[Any] = []
    for x in xs[::-1] if reverse else xs:
        gates = dict(zip(weight_layout, np.split(x @ wi.T + h @ wh.T + bi + bh, 4, 1), strict=True))
        into, keep = sigmoid(gates["I"] + peep[0] * c), sigmoid(gates["F"] + peep[1] * c)
        c = keep * c + into * np.tanh(gates["G"])
        h = sigmoid(gates["O"] + peep[2] * c) * np.tanh(c)
        h = h if proj is None else h @ proj.astype("float64").T
        states.append(h)
        cells.append(c)
    return np.stack(states).astype(dtype), np.stack(cells).astype(dtype)


@operator(
    "lstm",
    reference=_numpy_lstm,
    attributes={"reverse": "reverse", "weight_layout": "weight_layout"},
    samples=[sample(floating(3, 2, 4), floating(12, 4), floating(12, 3))],
)
def lstm(
    Xs: Tensor,
    Wi: Tensor,
    Wh: Tensor,
    Bi: Tensor | None = None,
    Bh: Tensor | None = None,
    h_init: Tensor | None = None,
    c_init: Tensor | None = None,
    proj: Tensor | None = None,
    p_i: Tensor | None = None,
    p_f: Tensor | None = None,
    p_o: Tensor | None = None,
    f_act: Callable[[Any], Any] | None = None,
    g_act: Callable[[Any], Any] | None = None,
    h_act: Callable[[Any], Any] | None = None,
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Tensor, Tensor]:
    """The hidden states and the cells of a long short-term memory over time.

    Parameters
    ----------
    Xs : Tensor
        (T, B, I).
    Wi : Tensor
        (4 H, I), the four gates in the order of weight_layout.
    Wh : Tensor
        (4 H, P).
    Bi : Tensor or None, default None
        (4 H,), or None for zeros.
    Bh : Tensor or None, default None
        (4 H,), or None for zeros.
    h_init : Tensor or None, default None
        (B, P), or None for zeros.
    c_init : Tensor or None, default None
        (B, H), or None for zeros.
    proj : Tensor or None, default None
        (P, H), by which hidden states are brought down; without it P is H.
    p_i : Tensor or None, default None
        Peephole of the input gate, (B, H), or None.
    p_f : Tensor or None, default None
        Peephole of the forget gate, (B, H), or None.
    p_o : Tensor or None, default None
        Peephole of the output gate, (B, H), or None.
    f_act : callable or None, default None
        Of the gates; sigmoid where it is None.
    g_act : callable or None, default None
        Of what goes into the cells; tanh where it is None.
    h_act : callable or None, default None
        Of what comes out of the cells; tanh where it is None.
    reverse : bool, default False
        Whether time runs backwards. Results lie in the order in which they are made.
    weight_layout : str, default "IFGO"
        The order of the gates: I, F, G and O.

    Returns
    -------
    tuple of Tensor
        The hidden states (T, B, P), and the cells' (T, B, H).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    if sorted(weight_layout) != sorted("IFGO"):
        raise BadParameter(
            f"lstm takes an order of the gates I, F, G and O, and got {weight_layout!r}"[:200],
            called=user_source(),
            fix='weight_layout="IFGO"',
        )
    steps, batch, _ = tensor(Xs, "lstm", 3).shape
    hidden: Any = te.indexdiv(tensor(Wi, "the input weights of lstm", 2).shape[0], 4)
    size: Any = hidden if proj is None else tensor(proj, "the projection of lstm", 2).shape[0]
    length = steps + 1
    given = _project_inputs(Xs, Wi, Bi)
    h_state = te.placeholder((length, batch, size), str(Xs.dtype), name="h_state")
    c_state = te.placeholder((length, batch, hidden), str(Xs.dtype), name="c_state")
    recurrent = _project_states(h_state, Wh, Bh, hidden)
    sigmoid, tanh, out = f_act or te.sigmoid, g_act or te.tanh, h_act or te.tanh

    def gate(letter: str, act: Callable[[Any], Any], peephole: Tensor | None, cell: Tensor, back: int) -> Tensor:
        at = weight_layout.index(letter)

        def value(t: Any, b: Any, j: Any) -> Any:
            own = given[steps - t if reverse else t - 1, b, at * hidden + j] + recurrent[t, b, at, j]
            return act(own if peephole is None else own + peephole[b, j] * cell[t - back, b, j])

        return te.compute((length, batch, hidden), value, name=f"{letter.lower()}_gate", tag="injective")

    i, f = gate("I", sigmoid, p_i, c_state, 1), gate("F", sigmoid, p_f, c_state, 1)
    g = gate("G", tanh, None, c_state, 1)
    next_c = te.compute(
        (length, batch, hidden), lambda *at: f[at] * c_state[(at[0] - 1, *at[1:])] + i[at] * g[at], "next_c"
    )
    o = gate("O", sigmoid, p_o, next_c, 0)
    next_h = te.compute((length, batch, hidden), lambda *at: o[at] * out(next_c[at]), "next_h")
    if proj is not None:
        next_h = _project_output(next_h, proj)
    begin_h, begin_c = _first(h_init, (1, batch, size), Xs, "h_init"), _first(c_init, (1, batch, hidden), Xs, "c_init")
    hs, cs = te.scan([begin_h, begin_c], [next_h, next_c], [h_state, c_state], name="lstm_scan")
    return (
        te.compute((steps, batch, size), lambda t, b, j: hs[t + 1, b, j], "hidden_states", "injective"),
        te.compute((steps, batch, hidden), lambda t, b, j: cs[t + 1, b, j], "cell_states", "injective"),
    )


def _project_inputs(Xs: Tensor, Wi: Tensor, Bi: Tensor | None) -> Tensor:
    k = te.reduce_axis((0, Xs.shape[2]), "ki2h")
    shape = (*Xs.shape[:2], Wi.shape[0])
    sums = te.compute(
        shape, lambda t, b, j: te.sum(product(Xs[t, b, k], Wi[j, k], sum_dtype(Xs.dtype)), axis=k), name="Xi2h"
    )
    if Bi is None:
        return convert_elements(sums, Xs.dtype)
    return te.compute(
        shape,
        lambda t, b, j: (sums[t, b, j] + Bi[j].astype(sums.dtype)).astype(Xs.dtype),
        "Xi2h_bias",
        "injective",
    )


def _project_states(state: Tensor, Wh: Tensor, Bh: Tensor | None, hidden: Any) -> Tensor:
    """Return the contribution of the last hidden state to each gate: (T + 1, B, 4, H)."""
    k = te.reduce_axis((0, state.shape[2]), "kh2h")
    shape = (*state.shape[:2], 4, hidden)
    wide = sum_dtype(state.dtype)
    sums = te.compute(
        shape,
        lambda t, b, i, j: te.sum(product(state[t - 1, b, k], Wh[i * hidden + j, k], wide), axis=k),
        name="s_h2h",
    )
    if Bh is None:
        return convert_elements(sums, state.dtype)
    return te.compute(
        shape,
        lambda t, b, i, j: (sums[t, b, i, j] + Bh[i * hidden + j].astype(wide)).astype(state.dtype),
        "s_h2h_bias",
        "injective",
    )


def _project_output(states: Tensor, proj: Tensor) -> Tensor:
    k = te.reduce_axis((0, states.shape[2]), "kh2p")
    shape = (*states.shape[:2], proj.shape[0])
    wide = sum_dtype(states.dtype)
    sums = te.compute(shape, lambda t, b, j: te.sum(product(states[t, b, k], proj[j, k], wide), axis=k), "next_h_proj")
    return convert_elements(sums, states.dtype)


def _first(given: Tensor | None, shape: Any, Xs: Tensor, name: str) -> Tensor:
    return te.compute(shape, lambda _, b, j: te.const(0, Xs.dtype) if given is None else given[b, j], name)
