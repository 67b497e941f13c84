"""A step of training as a graph: the loss, its gradients, and what an optimizer makes of weights and moments.

graph net                            graph net
  input x; param w                     input x; state w, w.m, w.v, step
  loss = f(x, w)             →         loss = f(x, w); g = gradient of loss by w
                                       w, w.m, w.v, step = adam(w, g, w.m, w.v, step)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...base.arguments import is_a, to_items
from ...base.errors import user_source
from ..assembly import Assembly
from ..errors import BadTraining
from ..node import Node, Parts
from ..rewrite import remove_dead, unused_name
from .formulas import emit_formula
from .optimizers import OPTIMIZERS, Optimizer
from .reverse import add_gradients, is_float
from .rule import Pullback

__all__ = ["training_graph"]


def training_graph(
    g: Parts,
    loss: str,
    wrt: Sequence[str] | None,
    optimizer: str,
    options: Mapping[str, Any],
    checkpoints: Sequence[str] = (),
) -> Parts:
    """The graph of a step. wrt: parameters and inputs; None for all weights of floats. checkpoints: as gradients take them.
    Raises NoGradient (TW0930), BadTraining (TW0931)."""
    how = OPTIMIZERS.get(optimizer) if is_a(optimizer, str) else None
    if how is None:
        raise BadTraining(
            f"there is no optimizer {optimizer!r}"[:200],
            called=user_source(),
            allowed=", ".join(OPTIMIZERS),
            fix='optimizer="adam"',
        )
    wrong = next((name for name in options if name not in how.options), None)
    if wrong is not None:
        raise BadTraining(
            f"{optimizer} has no option {wrong!r}"[:200],
            called=user_source(),
            allowed=", ".join(how.options),
            fix="give the options that it takes",
        )
    weights = (
        [name for name, held in g.constants.items() if is_float(held.type) and not held.fixed]
        if wrt is None
        else to_items(wrt)
    )
    strange = [name for name in weights if not is_a(name, str) or name not in g.constants and name not in g.inputs]
    if strange or not weights or len(set(weights)) < len(weights):
        raise BadTraining(
            f"graph {g.name} cannot be trained",
            called=user_source(),
            reason=f"{strange[0]!r} is neither a parameter nor an input"[:200]
            if strange
            else "no weights are given, or one twice",
            allowed=", ".join([*g.constants, *g.inputs])[:500],
            fix="parameters and inputs of floats, each once",
        )
    how = next((further for option, further in how.further.items() if options.get(option)), how)
    return _Step(g, weights, optimizer, how, options).build(loss, checkpoints)


class _Step:
    """The graph to be. The weights are inputs of it, behind those that there were."""

    def __init__(
        self, g: Parts, weights: Sequence[str], optimizer: str, how: Optimizer, options: Mapping[str, Any]
    ) -> None:
        self.g, self.weights, self.how = g, weights, how
        self.optimizer = optimizer
        self.b = b = Assembly(g.name)
        types = g.types
        for name in dict.fromkeys((*(name for name in g.inputs if name not in weights), *weights)):
            b.input(name, types[name].shape, types[name].dtype)
        for name, held in g.constants.items():
            if name not in weights:
                b.param(name, held)
        self.options = {**how.options, **options}
        self.moments = {
            name: {
                moment: self._input(f"{name}.{moment}", types[name].shape, types[name].dtype) for moment in how.moments
            }
            for name in weights
        }
        self.count = self._input("step", (), "float32") if how.counts else ""
        rate = self.options["lr"]
        if isinstance(rate, str):
            self._input(rate, (), "float32")
        for node in g.nodes:
            b.nodes(
                node.operator,
                *node.inputs,
                outputs=node.outputs,
                source=node.source,
                bodies=node.bodies,
                **node.attributes,
            )

    def _input(self, name: str, shape: Sequence[Any], dtype: str) -> str:
        return self.b.input(unused_name(name, {**self.g.types, **self.b.types}), shape, dtype)

    def build(self, loss: str, checkpoints: Sequence[str]) -> Parts:
        """The whole of it."""
        b, g = self.b, self.g
        gradients = add_gradients(b, g, loss, self.weights, checkpoints)
        for name, value in g.results.items():
            b.output(name, value)
        for past, present in g.state.items():
            b.state(past, present)
        count = self.count and b.node("add", self.count, self._pullback(self.count).number(1, self.count))
        if count:
            self._follows(self.count, count)
        for name in self.weights:
            after = self._apply_formulas(name, gradients[name], count)
            self._follows(name, after["w"])
            for moment, value in self.moments[name].items():
                self._follows(value, after[moment])
        return remove_dead(b.parts())

    def _follows(self, past: str, value: str) -> None:
        present = f"{past}.next"
        while present in self.g.results:
            present += "_"
        self.b.output(present, value)
        self.b.state(past, present)

    def _pullback(self, name: str) -> Pullback:
        """Add the nodes that come from a weight, for its pullback."""
        node = Node("identity", (name,), {}, (name,), (self.b.types[name],), f"{self.optimizer} of {name}")
        return Pullback(self.b, node, [name])

    def _apply_formulas(self, name: str, gradient: str, count: str) -> dict[str, str]:
        """Apply the formulas to a weight: the values by their names."""
        p = self._pullback(name)
        values = {"w": name, "g": gradient, **self.moments[name]}
        numbers = {option: value for option, value in self.options.items() if isinstance(value, (int, float))}
        betas = self.options.get("betas")
        if betas is not None:
            for at, beta in enumerate(cast("tuple[float, float]", betas), 1):
                numbers |= {f"beta{at}": beta, f"log{at}": math.log(beta) if beta else -math.inf}
        for scalar, value in (("t", count), ("lr", self.options["lr"])):
            if value and isinstance(value, str):
                dtype = self.b.types[name].dtype
                values[scalar] = value if dtype == "float32" else p.emit("cast", value, dtype=dtype)
        for result, formula in self.how.steps.items():
            if result == "g" and not numbers["weight_decay"]:
                continue
            values[result] = emit_formula(p, formula, values, numbers, name)
        return values
