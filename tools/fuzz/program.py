"""Drawn programs: tensors in call order, what to call them with, and what numpy says they hold afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ... import te
from .choices import Choices
from .expressions import draw_data
from .terms import INTEGERS, NUMBERS, Size, Source, numpy_type

__all__ = ["Draw", "Program", "exact_sum", "grids", "product_types", "small", "spread", "terms", "values"]

KNOWN = 0.05
"""The share of tensors without symbols in their shape that the kernel has with it."""
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65)


@dataclass
class Program:
    """Drawn program.

    args: tensors and scalars in call order. values: what to pass; for an output, what numpy expects there.

    outputs: the operations to schedule. exact: whether results must be equal; otherwise `tolerance` is absolute, and
    relative to values above 1.
    """

    name: str
    args: list[Any] = field(default_factory=list[Any])
    values: list[Any] = field(default_factory=list[Any])
    results: list[bool] = field(default_factory=list[bool])
    tolerance: float = 0.0

    def add_argument(self, argument: Any, value: Any) -> Any:
        self.args.append(argument)
        self.values.append(value)
        self.results.append(False)
        return argument

    def result(self, tensor: Any, expected: np.ndarray) -> None:
        self.args.append(tensor)
        self.values.append(np.asarray(expected))
        self.results.append(True)

    @property
    def outputs(self) -> list[Any]:
        operations: dict[Any, None] = {}
        for argument, is_result in zip(self.args, self.results, strict=True):
            if is_result:
                operations.setdefault(argument.op)
        return list(operations)


class Draw:
    """A program in the making."""

    def __init__(self, choices: Choices, name: str) -> None:
        self.choices, self.program = choices, Program(name)
        self.symbols: list[tuple[Any, int]] = []
        self.count = 0
        self.special = 0.0
        self.wide = choices.pick([0.0, 0.0, 0.0, 0.5, 0.5, 1.0])
        """The share of its symbols that are int64."""

    def chance(self, share: float) -> bool:
        return self.choices.chance(share)

    def pick(self, items: Sequence[Any]) -> Any:
        return self.choices.pick(items)

    def number(self, low: int, high: int) -> int:
        return self.choices.number(low, high)

    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def length(self, limit: int) -> int:
        """An extent: mostly small, at the edges of powers of two, sometimes 0."""
        if self.chance(0.02):
            return 0
        fitting = [n for n in LENGTHS if n <= max(limit, 1)]
        return self.pick(fitting if self.chance(0.6) else [n for n in fitting if n <= 9])

    def symbol(self, value: int) -> Any:
        dtype = "int64" if self.wide and self.chance(self.wide) else "int32"
        var = (te.size_var if self.chance(0.5) else te.var)(self.name("n"), dtype)
        self.symbols.append((var, value))
        return var

    def size(self, limit: int, symbolic: float = 0.0) -> Size:
        """An extent of at most `limit`, a symbol or made of symbols with probability `symbolic`."""
        value = self.length(limit)
        if not self.chance(symbolic):
            return Size(value, value)
        if self.symbols and self.chance(0.5):
            symbol, value = self.pick(self.symbols)
            more = self.number(0, 2)
            if value + more <= limit:
                return Size(symbol + more, value + more)
            if value * 2 <= limit and self.chance(0.5):
                return Size(symbol * 2, value * 2)
            if self.chance(0.5):
                return Size((symbol + 3) // 4, (value + 3) // 4)
        return Size(self.symbol(value), value)

    def shape(self, rank: int, limit: int, symbolic: float = 0.0) -> tuple[Size, ...]:
        sizes: list[Size] = []
        for at in range(rank):
            size = self.size(max(1, int(limit ** (1 / (rank - at)))) if self.chance(0.5) else limit, symbolic)
            sizes.append(size)
            limit //= max(size.value, 1)
        return tuple(sizes[at] for at in self.choices.permutation(len(sizes)))

    def source(self, shape: tuple[Size, ...], dtype: str, data: np.ndarray | None = None) -> Source:
        """A placeholder with contents, or a constant."""
        array, bound, steps = draw_data(
            self.choices.contents(), tuple(size.value for size in shape), dtype, self.special
        )
        if data is not None:
            array = data
        if all(isinstance(size.te, int) for size in shape) and self.chance(KNOWN):
            tensor = te.constant(array, self.name("K"))
        else:
            tensor = self.program.add_argument(
                te.placeholder(tuple(size.te for size in shape), dtype, self.name("A")), array
            )
        return Source(tensor, array, shape, dtype, bound, steps)

    def pass_symbols(self) -> None:
        """Make every symbol known: by the shape of a tensor, or as a scalar argument."""
        for symbol, value in self.symbols:
            told = any(
                extent is symbol
                for argument in self.program.args
                if hasattr(argument, "shape")
                for extent in argument.shape
            )
            if not told and self.chance(0.5):
                self.program.add_argument(symbol, value)
            elif not told:
                self.source((Size(symbol, value),), "int8")

    def finish(self, tolerance: float = 0.0) -> Program:
        self.pass_symbols()
        program = self.program
        program.tolerance = tolerance
        if self.chance(0.2):
            order = self.choices.permutation(len(program.args))
            for name in ("args", "values", "results"):
                setattr(program, name, [getattr(program, name)[at] for at in order])
        return program


def grids(*extents: int) -> list[np.ndarray]:
    return list(np.indices(extents, dtype="int32")) if extents else []


def spread(array: np.ndarray, extents: Sequence[int]) -> np.ndarray:
    return np.broadcast_to(array, tuple(extents)).copy()


def values(*sizes: Size) -> tuple[int, ...]:
    return tuple(size.value for size in sizes)


def terms(*sizes: Size) -> tuple[Any, ...]:
    return tuple(size.te for size in sizes)


def small(draw: Draw, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype in INTEGERS:
        return draw_data(draw.choices.contents(), shape, dtype)[0]
    rng = draw.choices.contents()
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    most = 1 if dtype == "bfloat16" else 3  # sums stay exact
    return rng.integers(-most, most + 1, shape).astype("float64").astype(numpy_type(dtype))


WIDER = {
    "float16": "float32",
    "bfloat16": "float32",
    "float32": "float64",
    "int8": "int32",
    "uint8": "int32",
    "int16": "int32",
    "uint16": "uint32",
    "int32": "int64",
    "uint32": "uint64",
}
"""What products are often summed in."""


def product_types(draw: Draw) -> tuple[str, str]:
    """The dtype of factors, and that of their sum."""
    dtype: str = draw.pick([*NUMBERS, "float32", "float32"])
    return dtype, (WIDER.get(dtype, dtype) if draw.chance(0.3) else dtype)


def exact_sum(value: np.ndarray, dtype: str) -> np.ndarray:
    """Return a sum without rounding: whole numbers, wide enough."""
    return value.astype(dtype) if dtype in INTEGERS else value.astype("float64")
