"""Recurrent layers as loops, as importers of models put them together: cells with the gates side by side, in ONNX's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.dataclass import dataclass
from .conversion import Conversion
from .subgraphs import InnerScope, emit_loop

__all__ = ["Activation", "Layer", "Product", "Step", "gru_cell", "lstm_cell", "multiply_transposed", "rnn_cell"]

Activation = Callable[[Conversion, str], str]
"""What an activation of a value emits."""
Product = Callable[[Conversion, Callable[[str], str], str, str], str]
"""Emission of a value times weights, inside of a loop or outside; the function gives values from outside of it their names there."""


def multiply_transposed(c: Conversion, _taken: Callable[[str], str], value: str, weights: str) -> str:
    """A value times weights, which lie transposed."""
    return c.emit("matmul", value, weights, transpose_b=True)


@dataclass
class Layer:
    """One direction of a layer. name: of the graph of a step. products: (steps, batch, gates * hidden), of the inputs and their
    weights, biases added. r: the weights of what comes from the step before. lengths: of the sequences, "" where all are whole.
    states: (batch, hidden), before the first step. peepholes: of the gates in, out and forget. inner_bias: what a GRU adds before
    it resets, "" where it resets first. times: products of what comes from the step before."""

    c: Conversion
    name: str
    products: str
    r: str
    lengths: str
    hidden: int
    states: list[str]
    peepholes: Sequence[str]
    inner_bias: str
    functions: Sequence[Activation] = ()
    clip: float | None = None
    times: Product = multiply_transposed

    def run(self, cell: Callable[[Step], Sequence[str]]) -> list[str]:
        """All steps: (steps, batch, hidden), and the states at last."""
        steps = self.c.type(self.products).shape[0]
        if steps == 1 and not self.lengths:
            now = self.c.reshape(self.products, self.c.type(self.products).shape[1:])
            after = list(cell(Step(self, self.c, now, self.states, lambda value: value)))
            return [self.c.reshape(after[0], (1, *self.c.type(after[0]).shape)), *after]
        inner = InnerScope(self.c.scope, self.name)
        c = Conversion(inner, [], self.c.source)
        i = inner.graph.input("step", (), "int64")
        states = [
            inner.graph.input(f"state{at}", self.c.type(value).shape, self.c.type(value).dtype)
            for at, value in enumerate(self.states)
        ]
        after = list(cell(Step(self, c, c.emit("take", inner.taken(self.products), i, axis=0), states, inner.taken)))
        row = after[0]
        if self.lengths:
            lengths = inner.taken(self.lengths)
            inside = c.reshape(c.emit("less", c.cast(i, c.type(lengths).dtype), lengths), (*c.type(lengths).shape, 1))
            after = [c.emit("where", inside, new, old) for new, old in zip(after, states, strict=True)]
            row = c.emit("where", inside, row, c.constant(0, row))
        made = emit_loop(self.c.scope, inner, "", "", self.states, [*after, row], steps, self.c.source)
        return [made[-1], *made[:-1]]


class Step:
    """One step. products: (batch, gates * hidden), of the inputs and their weights, biases added."""

    def __init__(
        self, layer: Layer, c: Conversion, products: str, states: Sequence[str], taken: Callable[[str], str]
    ) -> None:
        self.layer, self.c, self.products, self.states, self.taken = layer, c, products, states, taken

    def gate(self, value: str, at: int, count: int = 1) -> str:
        """Gates from `at` on of a value that has all of them side by side."""
        hidden = self.layer.hidden
        return self.c.emit("slice", value, begin=(at * hidden,), end=((at + count) * hidden,), step=(1,), axes=(1,))

    def weights(self, at: int, count: int) -> str:
        """The rows of gates of the recurrent weights."""
        hidden = self.layer.hidden
        return self.taken(
            self.layer.c.emit(
                "slice", self.layer.r, begin=(at * hidden,), end=((at + count) * hidden,), step=(1,), axes=(0,)
            )
        )

    def times(self, value: str, weights: str) -> str:
        """Multiply what comes from the step before by its weights."""
        return self.layer.times(self.c, self.taken, value, weights)

    def active(self, at: int, value: str) -> str:
        """The function `at` of a value, which is clipped before."""
        clip = self.layer.clip
        return self.layer.functions[at](
            self.c, value if clip is None else self.c.emit("clip", value, low=-clip, high=clip)
        )

    def peep(self, at: int, value: str, cell: str) -> str:
        """A gate's argument with what it sees of the cell."""
        if not self.layer.peepholes:
            return value
        return self.c.emit("add", value, self.c.emit("multiply", self.taken(self.layer.peepholes[at]), cell))


def rnn_cell(step: Step) -> Sequence[str]:
    """A step of a plain recurrence."""
    (h,) = step.states
    return [step.active(0, step.c.emit("add", step.products, step.times(h, step.taken(step.layer.r))))]


def gru_cell(step: Step) -> Sequence[str]:
    """A step of gates update, reset and new."""
    c, (h,), layer = step.c, step.states, step.layer
    if layer.inner_bias:  # a product is reset, not the state: one product for all gates
        inner = step.times(h, step.taken(layer.r))
        sums, past = step.gate(inner, 0, 2), c.emit("add", step.gate(inner, 2), step.taken(layer.inner_bias))
    else:
        sums, past = step.times(h, step.weights(0, 2)), h
    gates = c.emit("add", step.gate(step.products, 0, 2), sums)
    update, reset = step.active(0, step.gate(gates, 0)), step.active(0, step.gate(gates, 1))
    past = c.emit("multiply", reset, past)
    past = past if layer.inner_bias else step.times(past, step.weights(2, 1))
    new = step.active(1, c.emit("add", step.gate(step.products, 2), past))
    return [
        c.emit(
            "add",
            c.emit("multiply", c.emit("subtract", c.constant(1, new), update), new),
            c.emit("multiply", update, h),
        )
    ]


def lstm_cell(input_forget: bool = False) -> Callable[[Step], Sequence[str]]:
    """A step of gates in, out, forget and new. input_forget: it forgets as much as comes in."""

    def cell(step: Step) -> Sequence[str]:
        c, (h, old) = step.c, step.states
        gates = c.emit("add", step.products, step.times(h, step.taken(step.layer.r)))
        into = step.active(0, step.peep(0, step.gate(gates, 0), old))
        keep = (
            c.emit("subtract", c.constant(1, into), into)
            if input_forget
            else step.active(0, step.peep(2, step.gate(gates, 2), old))
        )
        new = c.emit(
            "add", c.emit("multiply", keep, old), c.emit("multiply", into, step.active(1, step.gate(gates, 3)))
        )
        out = step.active(0, step.peep(1, step.gate(gates, 1), new))
        return [c.emit("multiply", out, step.layer.functions[2](c, new)), new]

    return cell
