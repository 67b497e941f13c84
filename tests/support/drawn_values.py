"""Nodes over values of every dtype, of rank 0, of no elements, of one, and of open extents: a part of drawn graphs.

    values = AnyValues(random, b, given, open_size)
    values.step()                                      # a node, or a few, over what is there or over new inputs

Each step draws an operator and a value for it; what the operator does not take is drawn again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from tilewright.base.errors import GraphError
from tilewright.graph import OPERATORS, Builder

__all__ = ["DTYPES", "AnyValues"]

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint32", "int32", "int64", "bool")
FLOATS = ("float32", "float64", "float16", "bfloat16")
UNARY = [
    name
    for name, row in OPERATORS.items()
    if row.fusion == "elementwise" and row.inputs == (1, 1) and not row.attributes and name not in ("gelu", "acosh")
]
BINARY = [
    name
    for name, row in OPERATORS.items()
    if row.fusion == "elementwise" and row.inputs == (2, 2) and "shift" not in name
]
REDUCING = ("sum", "mean", "max", "min", "prod", "all", "any")
OVER_AN_AXIS = ("softmax", "log_softmax", "cumsum", "flip", "argmax", "argmin", "rms_norm")
MOST = 1200
"""Elements of a value that further nodes read."""


class AnyValues:
    """given: makes an input or a parameter of an array whose shape, with symbols, is told. size: what the symbol n is, None for
    graphs without."""

    def __init__(self, random: np.random.Generator, b: Builder, given: Callable[..., str], size: int | None) -> None:
        self.random, self.b, self.given, self.size = random, b, given, size
        self.pool: list[str] = []

    def choice(self, options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def array(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """Values of a dtype, small ones, so that few operators leave what it holds."""
        if dtype == "bool":
            return self.random.random(shape) < 0.5
        if dtype in FLOATS:
            whole = self.random.standard_normal(shape)
            return np.asarray(whole).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        return np.asarray(self.random.integers(0 if dtype[0] == "u" else -4, 5, shape)).astype(dtype)

    def fresh(self, shape: tuple[Any, ...], dtype: str) -> str:
        """A new value of a shape in which n may stand."""
        numbers = tuple(self.size if extent == "n" else extent for extent in shape)
        return self.given(self.array(numbers, dtype), shape)  # type: ignore[arg-type]

    def shape(self) -> tuple[Any, ...]:
        """Up to four extents, often one of them n where the graph has it; 0, 1 and primes among them."""
        rank = int(self.choice((0, 1, 2, 2, 2, 3, 3, 4)))
        extents: list[Any] = [int(self.choice((0, 1, 1, 2, 3, 3, 4, 5, 7))) for _ in range(rank)]
        if self.size is not None and extents and self.random.random() < 0.7:
            extents[int(self.random.integers(len(extents)))] = "n"
        return tuple(extents)

    def value(self, dtype: str | None = None) -> str:
        """One that is there, or a new one."""
        there = [name for name in self.pool if dtype is None or self.b.types[name].dtype == dtype]
        if there and self.random.random() < 0.7:
            return str(self.choice(there))
        return self.keep(self.fresh(self.shape(), dtype or str(self.choice(DTYPES))))

    def keep(self, name: str) -> str:
        kind = self.b.types[name]
        if np.prod([extent if isinstance(extent, int) else 6 for extent in kind.shape]) < MOST:
            self.pool.append(name)
        return name

    def beside(self, x: str) -> str:
        """A value that an operator of two takes beside x: mostly of its dtype, and of a shape that broadcasts with its own."""
        shape, dtype = self.b.types[x]
        dtype = str(self.choice(DTYPES)) if self.random.random() < 0.2 else dtype
        alike = [name for name in self.pool if self.b.types[name] == (shape, dtype)]
        if alike and self.random.random() < 0.5:
            return str(self.choice(alike))
        less = shape[int(self.random.integers(len(shape) + 1)) :] if self.random.random() < 0.4 else shape
        if any(isinstance(extent, str) and extent != "n" for extent in less):
            less = ()
        return self.fresh(tuple(1 if self.random.random() < 0.3 else extent for extent in less), dtype)

    def step(self) -> None:
        """A node, or a few, whose values further ones may read."""
        kinds = [getattr(self, name) for name in dir(self) if name.startswith("s_")]
        for _ in range(20):
            try:
                for made in self.choice(kinds)(self.value()):
                    self.keep(made)
            except GraphError:
                continue
            return

    def node(self, operator: str, *inputs: str, **attributes: Any) -> tuple[str, ...]:
        return self.b.nodes(operator, *inputs, **attributes)

    def axis(self, x: str) -> int:
        rank = len(self.b.types[x].shape)
        at = int(self.random.integers(rank)) if rank else 0
        return at - rank if rank and self.random.random() < 0.3 else at

    def axes(self, x: str) -> tuple[int, ...]:
        return tuple(at for at in range(len(self.b.types[x].shape)) if self.random.random() < 0.5)

    def s_unary(self, x: str) -> tuple[str, ...]:
        return self.node(str(self.choice(UNARY)), x)

    def s_binary(self, x: str) -> tuple[str, ...]:
        pair = [x, self.beside(x)]
        return self.node(str(self.choice(BINARY)), *(pair if self.random.random() < 0.5 else pair[::-1]))

    def s_two_again(self, x: str) -> tuple[str, ...]:
        return self.s_binary(x)

    def s_where(self, x: str) -> tuple[str, ...]:
        shape = tuple(1 if isinstance(extent, str) and extent != "n" else extent for extent in self.b.types[x].shape)
        return self.node("where", self.fresh(shape, "bool"), x, self.beside(x))

    def s_cast(self, x: str) -> tuple[str, ...]:
        """Floats become integers where they are in range: outside of it processors differ."""
        wanted = str(self.choice(DTYPES))
        if self.b.types[x].dtype in FLOATS and wanted not in (*FLOATS, "bool"):
            x = self.node("cast", self.node("isfinite", x)[0], dtype="float32")[0]
        return self.node("cast", x, dtype=wanted)

    def s_clip(self, x: str) -> tuple[str, ...]:
        return self.node("clip", x, low=0, high=2)

    def s_transpose(self, x: str) -> tuple[str, ...]:
        axes = tuple(int(axis) for axis in self.random.permutation(len(self.b.types[x].shape)))
        return self.node("transpose", x, axes=axes)

    def s_reshape(self, x: str) -> tuple[str, ...]:
        shape = list(self.b.types[x].shape)
        if len(shape) > 1 and self.random.random() < 0.6:
            at = int(self.random.integers(len(shape) - 1))
            a, c = shape[at : at + 2]
            shape[at : at + 2] = [a * c if isinstance(a, int) and isinstance(c, int) else f"({a}) * ({c})"]
        else:
            shape.insert(int(self.random.integers(len(shape) + 1)), 1)
        return self.node("reshape", x, shape=tuple(shape))

    def s_join(self, x: str) -> tuple[str, ...]:
        axis = self.axis(x)
        others = [
            name
            for name in self.pool
            if self.b.types[name].dtype == self.b.types[x].dtype
            and len(self.b.types[name].shape) == len(self.b.types[x].shape)
        ]
        parts = [x, *(str(self.choice([x, *others])) for _ in range(int(self.random.integers(3))))]
        return self.node(str(self.choice(("concat", "concat", "stack"))), *parts, axis=axis)

    def s_slice(self, x: str) -> tuple[str, ...]:
        axis = self.axis(x)
        begin, end = int(self.choice((0, 0, 1, 2, -2))), int(self.choice((1, 2, 3, -1, 1 << 40)))
        step = int(self.choice((1, 1, 2))) if isinstance((*self.b.types[x].shape, 1)[axis], int) else 1
        return self.node("slice", x, begin=(begin,), end=(end,), step=(step,), axes=(axis,))

    def s_split(self, x: str) -> tuple[str, ...]:
        axis = self.axis(x)
        extent = (*self.b.types[x].shape, 1)[axis]
        first = int(self.random.integers(extent + 1)) if isinstance(extent, int) else 0
        return self.node("split", x, sizes=(first, extent - first if isinstance(extent, int) else extent), axis=axis)

    def s_pad(self, x: str) -> tuple[str, ...]:
        rank = len(self.b.types[x].shape)
        before, after = (tuple(int(n) for n in self.random.integers(0, 3, rank)) for _ in range(2))
        if self.random.random() < 0.3:
            return self.node(
                "pad_with", x, before=before, after=after, mode=str(self.choice(("edge", "reflect", "wrap")))
            )
        return self.node("pad", x, before=before, after=after, value=int(self.random.integers(2)))

    def s_broadcast(self, x: str) -> tuple[str, ...]:
        if self.random.random() < 0.5:
            return self.node("tile", x, repeats=tuple(int(self.choice((1, 1, 2, 3))) for _ in self.b.types[x].shape))
        shape = tuple(3 if extent == 1 else extent for extent in self.b.types[x].shape)
        return self.node("broadcast_to", x, shape=(*self.choice(((), (2,), (1,), (0,))), *shape))

    def s_reduce(self, x: str) -> tuple[str, ...]:
        name = str(self.choice(REDUCING))
        x = self.node("cast", x, dtype="bool")[0] if name in ("all", "any") else x
        return self.node(name, x, axes=self.axes(x), keepdims=bool(self.random.random() < 0.5))

    def s_over_an_axis(self, x: str) -> tuple[str, ...]:
        return self.node(str(self.choice(OVER_AN_AXIS)), x, axis=self.axis(x))

    def s_topk(self, x: str) -> tuple[str, ...]:
        return self.node(
            "topk", x, k=int(self.choice((0, 1, 2))), axis=self.axis(x), largest=bool(self.random.random() < 0.5)
        )

    def s_take(self, x: str) -> tuple[str, ...]:
        places = self.given(np.asarray(self.random.integers(-1, 1, self.choice(((), (1,), (2, 2))))), None)
        return self.node("take", x, places, axis=self.axis(x))

    def s_matmul(self, x: str) -> tuple[str, ...]:
        shape, dtype = self.b.types[x]
        last = shape[-1] if shape else 1
        return (
            self.node("matmul", x, self.fresh((last, int(self.choice((1, 3, 8)))), dtype))
            if last == "n" or isinstance(last, int)
            else self.s_unary(x)
        )

    def s_norm(self, x: str) -> tuple[str, ...]:
        shape, dtype = self.b.types[x]
        scale = self.fresh((shape[-1] if shape and isinstance(shape[-1], int) else 1,), dtype)
        return self.node("layer_norm", x, scale, axis=-1)

    def s_put(self, x: str) -> tuple[str, ...]:
        """Rows written at places that differ, or past the end."""
        shape, dtype = self.b.types[x]
        if not shape or any(isinstance(extent, str) and extent != "n" for extent in shape[1:]):
            return self.s_unary(x)
        at = self.given(np.asarray(self.choice(([0], [-1], [9], []))).astype("int64"), None)
        return self.node("put", x, at, self.fresh((*self.b.types[at].shape, *shape[1:]), dtype), axis=0)
