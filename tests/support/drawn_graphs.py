"""Random graphs: every operator of the table, values that several nodes read, joins and parts of them, and what passes look for.

A node is a case of its operator, whose inputs are values that are there already, brought to the shape and the dtype that the case
needs, or inputs, or parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tilewright as tw
from numpy.typing import NDArray
from operator_cases import CASES, drawn_array
from tilewright.graph import Builder

__all__ = ["drawn_graph"]


class _Drawing:
    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.b = Builder("drawn")
        self.arrays: list[NDArray[Any]] = []
        self.floats: list[str] = []
        """Values of float32 that have elements, of magnitudes about 1."""

    def given(self, array: NDArray[Any]) -> str:
        """An input, or a parameter, that holds an array."""
        if self.random.random() < 0.5:
            self.arrays.append(array)
            return self.b.input(f"x{len(self.arrays)}", array.shape, array.dtype)
        return self.b.param(f"p{len(self.b.types)}", array)

    def value(self, how: Any) -> str:
        array = np.asarray(drawn_array(self.random, how))
        fresh = array.dtype != np.float32 or not array.size or not self.floats or self.random.random() < 0.4
        if fresh or isinstance(how, np.ndarray):
            return self.given(array)
        x = str(self.random.choice(self.floats))
        x = self.shaped(x, array.shape)
        return self.b.node("sigmoid", x) if how[0] == "positive" else x

    def shaped(self, x: str, shape: tuple[int, ...]) -> str:
        """Elements of a value, as many times as needed, in a shape."""
        have = self.b.types[x].shape
        if have == shape:
            return x
        size, wanted = int(np.prod(have)), int(np.prod(shape))
        flat = self.b.node("reshape", x, shape=(size,))
        if size < wanted:
            flat = self.b.node("concat", *[flat] * -(-wanted // size), axis=0)
        if size != wanted:
            flat = self.b.node("slice", flat, begin=(0,), end=(wanted,), step=(1,), axes=(0,))
        return self.b.node("reshape", flat, shape=shape)

    def keep(self, value: str) -> None:
        kind = self.b.types[value]
        if kind.dtype == "float32" and np.prod(kind.shape) and np.prod(kind.shape) < 2000:
            self.floats.append(value)

    def case(self) -> None:
        """A node of any operator."""
        name, inputs, attributes = CASES[int(self.random.integers(len(CASES)))]
        for value in self.b.nodes(name, *[self.value(how) for how in inputs], source=name, **attributes):
            tame = name in ("exp", "sinh", "cosh", "tan", "square", "prod", "cumprod", "power", "divide", "acosh", "multiply")
            self.keep(self.b.node("clip", value, low=-3.0, high=3.0) if tame and self.b.types[value].dtype == "float32" else value)

    def number(self, value: float) -> str:
        return self.b.param(f"p{len(self.b.types)}", np.float32(value))

    def motif(self) -> None:
        """What passes look for."""
        x = str(self.random.choice(self.floats)) if self.floats else self.given(np.ones((3, 4), "float32"))
        kinds = [getattr(self, name) for name in dir(self) if name.startswith("m_")]
        self.keep(kinds[int(self.random.integers(len(kinds)))](x))

    def m_twice(self, x: str) -> str:
        return self.b.node("subtract", self.b.node("sigmoid", x), self.b.node("negative", self.b.node("sigmoid", x)))

    def m_numbers(self, x: str) -> str:
        y = self.b.node("multiply", self.b.node("negative", self.b.node("negative", x)), self.number(1))
        y = self.b.node("divide", self.b.node("add", y, self.number(0)), self.number(float(self.random.choice([2, 0.5, 3]))))
        return self.b.node("power", self.b.node("clip", y, low=-2.0, high=2.0), self.number(2))

    def m_moves(self, x: str) -> str:
        shape = self.b.types[x].shape
        rank = len(shape)
        axes, more = (tuple(int(axis) for axis in self.random.permutation(rank)) for _ in range(2))
        y = self.b.node("transpose", self.b.node("relu", self.b.node("transpose", x, axes=axes)), axes=more)
        if self.random.random() < 0.5:
            y = self.b.node("transpose", self.b.node("add", y, self.b.node("transpose", self.b.node(
                "transpose", x, axes=axes), axes=more)), axes=tuple(int(axis) for axis in np.argsort(more)))
        return self.b.node("reshape", self.b.node("reshape", y, shape=(-(-int(np.prod(shape)) // 1),)), shape=shape)

    def m_parts(self, x: str) -> str:
        flat = self.shaped(x, (3, 4))
        a, c = self.b.nodes("split", flat, sizes=(1, 3), axis=1)
        y = self.b.node("concat", a, c, axis=1) if self.random.random() < 0.5 else self.b.node("concat", c, a, axis=1)
        return self.b.node("concat", y, self.b.node("concat", flat, self.b.node("sigmoid", flat), axis=0), axis=0)

    def m_known(self, x: str) -> str:
        w = self.b.param(f"p{len(self.b.types)}", self.random.standard_normal((4, 3)).astype("float32"))
        return self.b.node("matmul", self.shaped(x, (5, 3)), self.b.node("sigmoid", self.b.node("transpose", w, axes=(1, 0))))


def drawn_graph(random: np.random.Generator, nodes: int = 8) -> tuple[tw.graph.Graph, list[NDArray[Any]]]:
    """A graph of about so many cases of operators, and arrays to call it with."""
    drawing = _Drawing(random)
    for _ in range(nodes):
        if random.random() < 0.4:
            drawing.motif()
        else:
            drawing.case()
    b = drawing.b
    used = {name for node in b.parts().nodes for name in node.inputs}
    values = [name for node in b.parts().nodes for name in node.outputs]
    ends = [name for name in values if name not in used]
    more = [str(name) for name in random.choice(values, min(2, len(values)), replace=False)]
    for at, value in enumerate(dict.fromkeys([*ends, *more])):
        b.output(f"y{at}", value)
    return b.graph(), drawing.arrays
