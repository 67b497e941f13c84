"""ONNX's recurrent layers: RNN, GRU and LSTM, as loops. What does not depend on the step before, the inputs times their weights,
is one product before the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...base.dataclass import dataclass
from ..conversion import Conversion, Refused, few
from ..recurrent import Activation, Layer, Product, gru_cell, lstm_cell, multiply_transposed, rnn_cell
from ..types import Extent
from .context import Context, converts
from .shapes import backward

__all__ = ["Weights", "convert_layers"]

_SIMPLE = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Softsign": "softsign", "Softplus": "softplus"}
_WITH_NUMBERS: dict[str, tuple[float | None, float | None]] = {
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01, None),
    "ThresholdedRelu": (1.0, None),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, None),
}
"""Activations with their alpha and beta, where they have them."""


def _activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    """Emit an activation. alphas, betas: what the model gives for those that have such numbers, taken from the front."""
    if name in _SIMPLE:
        return lambda c, x: c.emit(_SIMPLE[name], x)
    if name not in _WITH_NUMBERS:
        raise Refused(f"its activation {name!r} is not known")
    usual = _WITH_NUMBERS[name]
    alpha, beta = (
        given.pop(0) if number is not None and given else number
        for number, given in zip(usual, (alphas, betas), strict=True)
    )
    if name in ("LeakyRelu", "ThresholdedRelu", "Elu"):
        operator = {"LeakyRelu": "leaky_relu", "ThresholdedRelu": "thresholded_relu", "Elu": "elu"}[name]
        return lambda c, x: c.emit(operator, x, alpha=alpha)
    if name == "HardSigmoid":
        return lambda c, x: c.emit("hard_sigmoid", x, alpha=alpha, beta=beta)

    def scaled(c: Conversion, x: str) -> str:
        if name == "Affine":
            return c.emit("add", c.emit("multiply", x, c.constant(alpha, x)), c.constant(beta, x))
        return c.emit("multiply", c.emit("tanh", c.emit("multiply", x, c.constant(beta, x))), c.constant(alpha, x))

    return scaled


_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


@dataclass(frozen=True)
class Weights:
    """Layout of the weights of a direction. width: the axis of an input's elements in them. of_inputs, of_states: products with them."""

    width: int = 2
    of_inputs: Product = multiply_transposed
    of_states: Product = multiply_transposed


@converts("RNN", "GRU", "LSTM")
def _convert_recurrent(c: Context) -> Sequence[str]:
    return convert_layers(c, c.proto.op_type, int(c.attribute("hidden_size", 0)) or int(c.extent(2, -1)))


def convert_layers(
    c: Context, kind: str, hidden: int, weights: Callable[[int], Weights] = lambda direction: Weights()
) -> Sequence[str]:
    """All directions of a layer of this kind, and its results."""
    turned = bool(c.attribute("layout", 0))
    x = c.emit("transpose", c[0], axes=(1, 0, 2)) if turned else c[0]
    direction = c.attribute("direction", "forward")
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    names = list(c.attribute("activations") or _FUNCTIONS[kind] * len(backwards))
    alphas, betas = (list(c.attribute(f"activation_{name}") or []) for name in ("alpha", "beta"))
    functions = [_activation(name, alphas, betas) for name in names]
    each = len(_FUNCTIONS[kind])
    if len(functions) != each * len(backwards):
        raise Refused(f"it has {len(functions)} activations")
    cell = {"RNN": rnn_cell, "GRU": gru_cell, "LSTM": lstm_cell(bool(c.attribute("input_forget", 0)))}[kind]
    clip = c.attribute("clip")
    outs: list[list[str]] = []
    for at, back in enumerate(backwards):
        layer = _direction(c, kind, x, at, back, hidden, turned, weights(at))
        layer.functions, layer.clip = functions[at * each : (at + 1) * each], None if clip is None else float(clip)
        whole, *last = layer.run(cell)
        outs.append([_reverse_sequences(c, layer, whole) if back else whole, *last])
    whole = c.emit("stack", *(one[0] for one in outs), axis=1)
    last = [c.emit("stack", *values, axis=0) for values in list(zip(*outs, strict=True))[1:]]
    if turned:
        whole = c.emit("transpose", whole, axes=(2, 0, 1, 3))
        last = [c.emit("transpose", value, axes=(1, 0, 2)) for value in last]
    return [whole, *last][: c.outputs]


def _reverse_sequences(c: Context, layer: Layer, value: str) -> str:
    return (
        c.emit("reverse_sequence", value, layer.lengths, time_axis=0, batch_axis=1)
        if layer.lengths
        else backward(c, value, 0)
    )


def _direction(
    c: Context, kind: str, x: str, at: int, back: bool, hidden: int, turned: bool, weights: Weights
) -> Layer:
    """One direction of a layer: what goes into it, its inputs times their weights done at once."""
    dtype = c.type(0).dtype
    for position, axis in ((5, 0 if turned else 1), (4, 0)):  # where x leaves the batch open, and these tell it
        if c.has(position) and isinstance(known := c.type(position).shape[axis], int):
            x = c.fix_extent(x, 1, known)
    if isinstance(known := c.type(1).shape[weights.width], int):
        x = c.fix_extent(x, 2, known)
    steps, batch, width = c.type(x).shape
    lengths = c[4] if c.has(4) else ""
    if back:
        x = c.emit("reverse_sequence", x, lengths, time_axis=0, batch_axis=1) if lengths else backward(c, x, 0)

    def part(value: str) -> str:
        return c.reshape(
            c.emit("slice", value, begin=(at,), end=(at + 1,), step=(1,), axes=(0,)), c.type(value).shape[1:]
        )

    def state(position: int) -> str:
        if not c.has(position):
            return c.emit("broadcast_to", c.constant(np.zeros((), dtype)), shape=(batch, hidden))
        given = c.emit("transpose", c[position], axes=(1, 0, 2)) if turned else c[position]
        return part(given)

    gates, w, r = _GATES[kind], part(c[1]), part(c[2])
    bias, inner_bias = "", ""
    if c.has(3):
        both = part(c[3])
        half = gates * hidden
        ahead, behind = (
            c.emit("slice", both, begin=(begin,), end=(begin + half,), step=(1,), axes=(0,)) for begin in (0, half)
        )
        if kind == "GRU" and c.attribute("linear_before_reset", 0):
            inner_bias = c.emit("slice", behind, begin=(2 * hidden,), end=(3 * hidden,), step=(1,), axes=(0,))
            outer = c.constant(np.repeat([1, 0], [2 * few(hidden), hidden]), behind)
            behind = c.emit("multiply", behind, outer)
        bias = c.emit("add", ahead, behind)
    elif kind == "GRU" and c.attribute("linear_before_reset", 0):
        inner_bias = c.constant(np.zeros(few(hidden), dtype))
    flat = c.reshape(x, (_product(steps, batch), width))
    products = weights.of_inputs(c, lambda value: value, flat, w)
    if bias:
        products = c.emit("add", products, bias)
    peepholes: list[str] = []
    if kind == "LSTM" and c.has(7):
        peepholes = [
            c.emit("slice", part(c[7]), begin=(gate * hidden,), end=((gate + 1) * hidden,), step=(1,), axes=(0,))
            for gate in range(3)
        ]
    states = [state(5), state(6)] if kind == "LSTM" else [state(5)]
    whole = c.reshape(products, (steps, batch, gates * hidden))
    return Layer(c, kind.lower(), whole, r, lengths, hidden, states, peepholes, inner_bias, times=weights.of_states)


def _product(steps: Extent, batch: Extent) -> Extent:
    return steps * batch if isinstance(steps, int) and isinstance(batch, int) else f"({steps}) * ({batch})"
