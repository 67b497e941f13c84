"""Random graphs: every operator of the table, values that several nodes read, joins and parts of them, and what passes look for.

A node is a case of its operator, whose inputs are values that are there already, brought to the shape and the dtype that the case
needs, or inputs, or parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tilewright as tw
from drawn_values import AnyValues
from numpy.typing import NDArray
from operator_cases import CASES
from tilewright.graph import Builder

__all__ = ["drawn_graph"]

CONTROL = ("m_branch", "m_repeat")
"""What holds graphs, in which there are no further ones."""


class _Drawing:
    def __init__(self, random: np.random.Generator, inside: str = "") -> None:
        self.random = random
        self.b = Builder(inside or "drawn")
        self.inside = inside
        """The name of a graph inside of a node, which reads the inputs that it is given alone."""
        self.arrays: list[NDArray[Any]] = []
        self.floats: list[str] = []
        """Values of float32 that have elements, of magnitudes about 1."""

    def given(self, array: NDArray[Any], shape: tuple[Any, ...] | None = None) -> str:
        """An input, or a parameter, that holds an array; where its shape has symbols, an input."""
        has_symbols = shape is not None and any(isinstance(extent, str) for extent in shape)
        if not self.inside and (has_symbols or self.random.random() < 0.5):
            self.arrays.append(array)
            return self.b.input(f"x{len(self.arrays)}", array.shape if shape is None else shape, array.dtype)
        return self.b.param(f"p{len(self.b.types)}", array)

    def value(self, how: Any, array: Any) -> str:
        fresh = array.dtype != np.float32 or not array.size or not self.floats or self.random.random() < 0.4
        if fresh or isinstance(how, np.ndarray):
            return self.given(array)
        x = str(self.random.choice(self.floats))
        x = self.shaped(x, array.shape)
        return self.b.node("sigmoid", x) if how.kind == "positive" else x

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
        name, one = CASES[int(self.random.integers(len(CASES)))]
        inputs = map(self.value, one.inputs, map(np.asarray, one.arrays(self.random)))
        for value in self.b.nodes(name, *inputs, source=name, **one.attributes):
            tame = name in (
                "exp",
                "sinh",
                "cosh",
                "tan",
                "square",
                "prod",
                "cumprod",
                "power",
                "divide",
                "acosh",
                "multiply",
            )
            self.keep(
                self.b.node("clip", value, low=-3.0, high=3.0)
                if tame and self.b.types[value].dtype == "float32"
                else value
            )

    def number(self, value: float) -> str:
        return self.b.param(f"p{len(self.b.types)}", np.float32(value))

    def motif(self) -> None:
        """What passes look for."""
        x = str(self.random.choice(self.floats)) if self.floats else self.given(np.ones((3, 4), "float32"))
        kinds = [
            getattr(self, name) for name in dir(self) if name.startswith("m_") and not (self.inside and name in CONTROL)
        ]
        self.keep(kinds[int(self.random.integers(len(kinds)))](x))

    def m_twice(self, x: str) -> str:
        return self.b.node("subtract", self.b.node("sigmoid", x), self.b.node("negative", self.b.node("sigmoid", x)))

    def body(self, name: str, carried: int, *given: str) -> tw.graph.Graph:
        """A graph inside of a node: it takes values of (3, 4), has motifs over them, and gives so many values of that shape."""
        inner = _Drawing(self.random, name)
        if name == "body":
            inner.b.input("at", (), "int64")
        inner.floats += [inner.b.input(one, (3, 4)) for one in given]
        for _ in range(2):
            inner.motif()
        for at in range(carried):
            value = inner.shaped(inner.floats[-1 - at], (3, 4))
            inner.b.output(f"{name}{at}", inner.b.node("tanh", inner.b.node("add", value, given[0])))
        return inner.b.graph()

    def m_branch(self, x: str) -> str:
        condition = self.given(np.asarray(self.random.random() < 0.5))
        value = self.shaped(x, (3, 4))
        return self.b.node(
            "if",
            condition,
            value,
            self.b.node("sigmoid", value),
            bodies=[self.body(name, 1, "x", "y") for name in ("then", "else")],
        )

    def m_repeat(self, x: str) -> str:
        first = self.shaped(x, (3, 4))
        trips = self.given(np.asarray(self.random.integers(4))) if self.random.random() < 0.5 else ""
        last, rows = self.b.nodes(
            "loop",
            trips,
            "",
            first,
            self.b.node("sigmoid", first),
            carried=1,
            count=(3,),
            bodies=[self.body("body", 2, "x", "y")],
        )
        return self.b.node("concat", self.b.node("reshape", last, shape=(1, 3, 4)), rows, axis=0)

    def m_place(self, x: str) -> str:
        """What may be written over its operand, and parts of one value that are written and joined."""
        flat = self.shaped(x, (4, 6))
        over = self.b.node(
            "put", flat, self.given(np.asarray([1])), self.b.node("tanh", self.shaped(x, (2, 6))), axis=0
        )
        left, right = self.b.nodes("split", over if self.random.random() < 0.5 else flat, sizes=(2, 4), axis=1)
        return self.b.node("concat", self.b.node("relu", left), self.b.node("sigmoid", right), left, axis=1)

    def m_numbers(self, x: str) -> str:
        y = self.b.node("multiply", self.b.node("negative", self.b.node("negative", x)), self.number(1))
        y = self.b.node(
            "divide", self.b.node("add", y, self.number(0)), self.number(float(self.random.choice([2, 0.5, 3])))
        )
        return self.b.node("power", self.b.node("clip", y, low=-2.0, high=2.0), self.number(2))

    def m_moves(self, x: str) -> str:
        shape = self.b.types[x].shape
        rank = len(shape)
        axes, more = (tuple(int(axis) for axis in self.random.permutation(rank)) for _ in range(2))
        y = self.b.node("transpose", self.b.node("relu", self.b.node("transpose", x, axes=axes)), axes=more)
        if self.random.random() < 0.5:
            y = self.b.node(
                "transpose",
                self.b.node("add", y, self.b.node("transpose", self.b.node("transpose", x, axes=axes), axes=more)),
                axes=tuple(int(axis) for axis in np.argsort(more)),
            )
        return self.b.node("reshape", self.b.node("reshape", y, shape=(-(-int(np.prod(shape)) // 1),)), shape=shape)

    def m_parts(self, x: str) -> str:
        flat = self.shaped(x, (3, 4))
        a, c = self.b.nodes("split", flat, sizes=(1, 3), axis=1)
        y = self.b.node("concat", a, c, axis=1) if self.random.random() < 0.5 else self.b.node("concat", c, a, axis=1)
        return self.b.node("concat", y, self.b.node("concat", flat, self.b.node("sigmoid", flat), axis=0), axis=0)

    def m_known(self, x: str) -> str:
        w = self.b.param(f"p{len(self.b.types)}", self.random.standard_normal((4, 3)).astype("float32"))
        return self.b.node(
            "matmul", self.shaped(x, (5, 3)), self.b.node("sigmoid", self.b.node("transpose", w, axes=(1, 0)))
        )

    def weights(self, *shape: int) -> str:
        return self.b.param(f"p{len(self.b.types)}", self.random.standard_normal(shape).astype("float32"))

    def positive(self, *shape: int) -> str:
        return self.b.param(f"p{len(self.b.types)}", self.random.uniform(0.5, 1.5, shape).astype("float32"))

    def m_conv(self, x: str) -> str:
        x = self.shaped(x, (1, 4, 5, 3))
        if self.random.random() < 0.5:
            x = self.b.node("pad", x, before=(0, 0, 1, 0), after=(0, 0, 1, 2), value=0.0)
        groups = int(self.random.choice([1, 2, 4]))
        bias = [self.weights(4)] if self.random.random() < 0.5 else []
        if self.random.random() < 0.7:
            y = self.b.node("conv", x, self.weights(4, 4 // groups, 3, 1), *bias, groups=groups, padding=(1, 0, 1, 0))
        else:
            y = self.b.node("conv_transpose", x, self.weights(4, 4 // groups, 2, 2), *bias, groups=groups)
        return self.affine(y, 4, (4, 1, 1))

    def affine(self, y: str, channels: int, shape: tuple[int, ...]) -> str:
        for kind in self.random.permutation(["batch_norm", "multiply", "add", "divide", "subtract"])[
            : int(self.random.integers(3))
        ]:
            if kind == "batch_norm":
                y = self.b.node("batch_norm", y, *(self.weights(channels) for _ in range(3)), self.positive(channels))
            else:
                y = self.b.node(str(kind), y, self.positive(*(shape if self.random.random() < 0.5 else ())))
        return y

    def m_product(self, x: str) -> str:
        x = self.shaped(x, (2, 3, 5))
        y = self.b.node("matmul", x, self.weights(5, 4))
        z = self.b.node("matmul", x, self.weights(5, 3) if self.random.random() < 0.5 else self.weights(2, 5, 3))
        return self.b.node("concat", self.affine(y, 3, (4,)), z, axis=2)

    def m_pool(self, x: str) -> str:
        x = self.shaped(x, (1, 2, 5, 6))
        kind, value = (("max_pool", -np.inf), ("avg_pool", 0.0))[int(self.random.integers(2))]
        more: dict[str, Any] = {"count_padding": bool(self.random.random() < 0.5)} if kind == "avg_pool" else {}
        return self.b.node(
            kind, self.b.node("pad", x, before=(0, 0, 1, 1), after=(0, 0, 0, 1), value=value), kernel=(3, 2), **more
        )

    def m_gelu(self, x: str) -> str:
        b = self.b
        if self.random.random() < 0.5:
            inside = (
                b.node("divide", x, self.number(2**0.5))
                if self.random.random() < 0.5
                else b.node("multiply", x, self.number(0.5**0.5))
            )
            factor = b.node("add", b.node("erf", inside), self.number(1))
        else:
            cube = (
                b.node("power", x, self.number(3))
                if self.random.random() < 0.5
                else b.node("multiply", b.node("multiply", x, x), x)
            )
            inside = b.node(
                "multiply", b.node("add", x, b.node("multiply", cube, self.number(0.044715))), self.number(0.7978846)
            )
            factor = b.node("add", self.number(1), b.node("tanh", inside))
        half = self.number(0.5)
        order = int(self.random.integers(3))
        if order == 0:
            return b.node("multiply", half, b.node("multiply", factor, x))
        return (
            b.node("multiply", b.node("multiply", half, x), factor)
            if order == 1
            else b.node("multiply", x, b.node("multiply", factor, half))
        )

    def m_activation(self, x: str) -> str:
        b = self.b
        kind = int(self.random.integers(4))
        if kind == 0:
            return b.node("multiply", b.node("sigmoid", x), x)
        clipped = b.node("clip", b.node("add", x, self.number(3)), low=0.0, high=6.0)
        if kind == 1:
            return b.node("divide", b.node("multiply", x, clipped), self.number(6))
        return (
            b.node("multiply", clipped, self.number(1 / 6))
            if kind == 2
            else b.node("multiply", x, b.node("hard_sigmoid", x, alpha=1 / 6, beta=0.5))
        )

    def m_norm(self, x: str) -> str:
        b = self.b
        x = self.shaped(x, (2, 3, 5))
        axes = ((2,), (1, 2), (-1,), (1,))[int(self.random.integers(4))]
        total = b.node(
            "multiply", b.node("sum", x, axes=axes, keepdims=True), self.number(1 / (15 if len(axes) > 1 else 5))
        )
        far = b.node(
            "subtract", x, total if self.random.random() < 0.3 else b.node("mean", x, axes=axes, keepdims=True)
        )
        if self.random.random() < 0.5:
            far = x
        square = b.node("multiply", far, far) if self.random.random() < 0.5 else b.node("power", far, self.number(2))
        root = b.node("sqrt", b.node("add", b.node("mean", square, axes=axes, keepdims=True), self.number(1e-3)))
        y = (
            b.node("divide", far, root)
            if self.random.random() < 0.5
            else b.node("multiply", far, b.node("divide", self.number(1), root))
        )
        shape = ((5,), (3, 5), (1,))[int(self.random.integers(3))]
        return b.node("add", b.node("multiply", y, self.positive(*shape)), self.weights(*shape))

    def m_softmax(self, x: str) -> str:
        b = self.b
        x = self.shaped(x, (3, 8))
        powers = b.node("exp", b.node("subtract", x, b.node("max", x, axes=(1,), keepdims=True)))
        y = b.node("divide", powers, b.node("sum", powers, axes=(1,), keepdims=True))
        return b.node("reshape", b.node("softmax", b.node("reshape", y, shape=(3, 1, 8)), axis=2), shape=(3, 8))

    def m_attention(self, x: str) -> str:
        b = self.b
        q = b.node("transpose", self.shaped(x, (1, 5, 2, 3)), axes=(0, 2, 1, 3))
        k = b.node("transpose", self.shaped(x, (1, 7, 2, 3)), axes=(0, 2, 3, 1))
        scores = b.node("multiply", b.node("matmul", q, k), self.number(0.5))
        return b.node(
            "matmul", b.node("softmax", scores, axis=3 - 4 * int(self.random.random() < 0.5)), self.weights(1, 2, 7, 4)
        )


def drawn_graph(random: np.random.Generator, nodes: int = 8) -> tuple[tw.graph.Graph, list[NDArray[Any]]]:
    """A graph of about so many cases of operators, and arrays to call it with: of all that operators are, of values of any dtype
    and extent, or of both; some have an open extent, and some keep an input as state."""
    drawing = _Drawing(random)
    mix = float(random.choice([0.0, 0.5, 1.0]))
    size = int(random.choice([1, 2, 3, 5, 8])) if mix and random.random() < 0.5 else None
    anything = AnyValues(random, drawing.b, drawing.given, size)
    for _ in range(nodes):
        if random.random() < mix:
            anything.step()
        elif random.random() < 0.4:
            drawing.motif()
        else:
            drawing.case()
        if mix == 0.5:
            anything.pool += drawing.floats[-1:]
    return _ended(drawing), drawing.arrays


def _ended(drawing: _Drawing) -> tw.graph.Graph:
    """The graph whose outputs are what nobody reads, and some more; what has an input's type may be in its memory afterwards."""
    b, random = drawing.b, drawing.random
    parts = b.parts()
    used = {name for node in parts.nodes for name in node.inputs}
    values = [name for node in parts.nodes for name in node.outputs] or list(b.types)
    ends = [name for name in values if name not in used]
    more = [str(name) for name in random.choice(values, min(2, len(values)), replace=False)]
    for at, value in enumerate(dict.fromkeys([*ends, *more])):
        b.output(f"y{at}", value)
    for past, kind in parts.inputs.items():
        alike = [name for name in values if b.types[name] == kind]
        if alike and kind.shape and random.random() < 0.2:
            b.output(f"{past}_after", str(random.choice(alike)))
            b.state(past, f"{past}_after")
    return b.graph()
