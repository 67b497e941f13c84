"""torch's recurrent layers: LSTM, GRU and RNN, of any number of layers and both directions, as loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..conversion import Conversion, Refused, few, product
from ..recurrent import Layer, gru_cell, lstm_cell, rnn_cell
from .call import Call, aten

__all__: list[str] = []

_CELLS = {"lstm": lstm_cell(), "gru": gru_cell, "rnn_tanh": rnn_cell, "rnn_relu": rnn_cell}
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
"""Where the gates that cells have, in their order, stand in torch's weights."""


def _sigmoid(c: Conversion, x: str) -> str:
    return c.emit("sigmoid", x)


def _tanh(c: Conversion, x: str) -> str:
    return c.emit("tanh", x)


def _relu(c: Conversion, x: str) -> str:
    return c.emit("relu", x)


_FUNCTIONS = {"lstm": (_sigmoid, _tanh, _tanh), "gru": (_sigmoid, _tanh), "rnn_tanh": (_tanh,), "rnn_relu": (_relu,)}


@aten("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def _convert_recurrent(c: Call) -> Sequence[str]:
    kind = c.target.partition(".")[0]
    if c.known("train", False) and c.known("dropout", 0.0):
        raise Refused("it is in training: export the module after module.eval()")
    c.known("dropout", 0.0)
    first, biased, both = (bool(c.known(name, False)) for name in ("batch_first", "has_biases", "bidirectional"))
    x, weights = c.tensor("input"), c.tensors("params")
    states = c.tensors("hx") if kind == "lstm" else [c.tensor("hx")]
    if c.rank(x) != 3:
        raise Refused("its input has no batch")
    if first:
        x = c.emit("transpose", x, axes=(1, 0, 2))
    each, directions = 4 if biased else 2, 2 if both else 1
    if len(weights) != each * directions * c.integer("num_layers"):
        raise Refused("its results are projected")
    last: list[list[str]] = []
    for layer in range(c.integer("num_layers")):
        rows: list[str] = []
        for direction in range(directions):
            at = layer * directions + direction
            given = c.emit("flip", x, axis=0) if direction else x
            whole, *after = _direction(
                c, kind, given, weights[at * each : (at + 1) * each], [_part(c, one, at) for one in states]
            )
            rows.append(c.emit("flip", whole, axis=0) if direction else whole)
            last.append(after)
        x = c.emit("concat", *rows, axis=2) if both else rows[0]
    result = c.emit("transpose", x, axes=(1, 0, 2)) if first else x
    return [result, *(c.emit("stack", *values, axis=0) for values in zip(*last, strict=True))]


@aten("lstm_cell.default", "gru_cell.default", "rnn_tanh_cell.default", "rnn_relu_cell.default")
def _convert_cell(c: Call) -> Sequence[str]:
    """One step."""
    kind = c.target.partition(".")[0].removesuffix("_cell")
    x, weights = c.tensor("input"), [c.tensor("w_ih"), c.tensor("w_hh")]
    if c.argument("b_ih", None) is not None:
        weights += [c.tensor("b_ih"), c.tensor("b_hh")]
    states = c.tensors("hx") if kind == "lstm" else [c.tensor("hx")]
    return _direction(c, kind, c.reshape(x, (1, *c.type(x).shape)), weights, states)[1:]


def _part(c: Call, state: str, at: int) -> str:
    row = c.emit("slice", state, begin=(at,), end=(at + 1,), step=(1,), axes=(0,))
    return c.reshape(row, c.type(state).shape[1:])


def _direction(c: Call, kind: str, x: str, weights: Sequence[str], states: list[str]) -> list[str]:
    """One direction of a layer: what it gives, and its states at last."""
    hidden, order = c.extent(weights[1], 1), _ORDER[kind]
    steps, batch, width = c.type(x).shape
    places = np.concatenate([np.arange(gate * hidden, (gate + 1) * hidden) for gate in order])
    own = [value if len(order) == 1 else c.emit("take", value, c.constant(places), axis=0) for value in weights]
    products = c.emit("matmul", c.reshape(x, (product((steps, batch)), width)), own[0], transpose_b=True)
    inner = ""
    if len(own) > 2:
        behind = own[3]
        if kind == "gru":
            inner = c.emit("slice", behind, begin=(2 * hidden,), end=(3 * hidden,), step=(1,), axes=(0,))
            behind = c.emit("multiply", behind, c.constant(np.repeat([1, 0], [2 * few(hidden), hidden]), behind))
        products = c.emit("add", products, c.emit("add", own[2], behind))
    elif kind == "gru":
        inner = c.constant(np.zeros(hidden), x)
    layer = Layer(
        c,
        kind,
        c.reshape(products, (steps, batch, len(order) * hidden)),
        own[1],
        "",
        hidden,
        states,
        (),
        inner,
        _FUNCTIONS[kind],
    )
    return layer.run(_CELLS[kind])
