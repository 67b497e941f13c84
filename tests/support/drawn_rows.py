"""Rows of tables of drawn programs: a text, and the inputs that it reads, both with choices.

    Row("y = com.microsoft.FastGelu (x$(|, w))", "x: f[b, n]  w: f[n]!")

A choice is `$(one|other)`; `$(=2*h)` is a number. Extents are numbers and expressions over letters, which are drawn; a small letter
that no number and no weight has may be a symbol. Values come of a kind of the table below; `!` marks a weight, an initializer for the
most part, `!!` one that always is; behind it may stand `< 5` for places up to an extent, `~ 5` for places from the end too, and `= 3`
for this number. An input that the text does not read is left out.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

__all__ = ["Dim", "Input", "Row", "evaluated", "extreme", "indices", "ordinary"]

Dim = int | str


def evaluated(extent: Dim, sizes: Mapping[str, int]) -> int:
    """An extent, a number or an expression over letters, at these sizes."""
    return extent if isinstance(extent, int) else int(eval(extent, {"__builtins__": {}}, dict(sizes)))


@dataclass
class Input:
    """An input of a drawn program. dims: numbers, and symbols or expressions over them. values: of a shape. held: it is an
    initializer."""

    dims: tuple[Dim, ...]
    dtype: str
    values: Callable[[Generator, tuple[int, ...]], NDArray[Any]]
    held: bool = False

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(evaluated(extent, sizes) for extent in self.dims)


def ordinary(dtype: str, low: float = -3, high: float = 3) -> Callable[[Generator, tuple[int, ...]], NDArray[Any]]:
    """Values without surprises."""

    def values(random: Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        if dtype == "bool":
            return np.asarray(random.random(shape) < 0.5)
        if dtype.startswith(("int", "uint")):
            return np.asarray(random.integers(max(0 if dtype[0] == "u" else int(low * 3), -128), 9, shape)).astype(
                dtype
            )
        return np.asarray(random.uniform(low, high, shape)).astype(dtype)

    return values


def extreme(dtype: str) -> Callable[[Generator, tuple[int, ...]], NDArray[Any]]:
    """Values of which a part lies at the edges of the dtype."""

    def values(random: Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        whole = ordinary(dtype)(random, shape)
        if dtype == "bool" or not whole.size:
            return whole
        if dtype.startswith(("int", "uint")):
            edges: Any = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1]
        else:
            edges = [np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, float(np.finfo(dtype).max)]
        chosen = random.choice(np.asarray(edges, dtype), shape)
        return np.where(random.random(shape) < 0.4, chosen, whole).astype(dtype)

    return values


def indices(extent: int, dtype: str = "int64", negative: bool = True) -> Callable[..., NDArray[Any]]:
    """Places of an axis."""
    return lambda random, shape: np.asarray(
        random.integers(-extent if negative else 0, max(extent, 1), shape) if extent else np.zeros(shape)
    ).astype(dtype)


def _filled(dtype: str, value: float) -> Callable[..., NDArray[Any]]:
    return lambda random, shape: np.full(shape, value).astype(dtype)


def _between(dtype: str, low: int, high: int) -> Callable[..., NDArray[Any]]:
    return lambda random, shape: np.asarray(random.integers(low, high, shape)).astype(dtype)


def _special(random: Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """Values of which a part is infinite, no number, or on an edge of rounding."""
    edges = np.asarray([np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, -0.5, 1.5], "float32")
    whole = ordinary("float32")(random, shape)
    return np.where(random.random(shape) < 0.1, random.choice(edges, shape), whole)


KINDS: dict[str, tuple[str, Callable[..., NDArray[Any]]]] = {
    "f": ("float32", ordinary("float32")),
    "d": ("float64", ordinary("float64")),
    "h": ("float16", ordinary("float16")),
    "i": ("int32", ordinary("int32")),
    "l": ("int64", ordinary("int64")),
    "b": ("bool", ordinary("bool")),
    "positive": ("float32", ordinary("float32", 0.2, 2)),
    "unit": ("float32", ordinary("float32", 0, 1)),
    "negative": ("float32", ordinary("float32", -1, 0)),
    "whole": ("float32", lambda random, shape: _between("int64", -2, 5)(random, shape).astype("float32")),
    "rois": (
        "float32",
        lambda random, shape: np.concatenate(
            [np.zeros((shape[0], 1)), random.integers(0, 3, (shape[0], 2)), random.integers(3, 7, (shape[0], 2))], 1
        ).astype("float32"),
    ),
    "scale": ("float32", ordinary("float32", 0.02, 0.06)),
    "extreme": ("float32", extreme("float32")),
    "special": ("float32", _special),
    "bits": ("int32", _between("int32", 0, 2)),
    "u8": ("uint8", _between("uint8", 0, 256)),
    "i8": ("int8", _between("int8", -128, 128)),
    "zero8": ("uint8", _between("uint8", 110, 140)),
    "weight8": (
        "int8",
        _between("int8", -64, 64),
    ),  # with 8 bits onnxruntime's products saturate where there is no VNNI
    "sums": ("int32", _between("int32", -2000, 2000)),
}
"""The dtype and the values of each kind of input."""

_INPUT = re.compile(r"(\w+): (\w+)\[([^\]]*)\](!*)(?: ([<~=]) (\S+))?")
_CHOICE = re.compile(r"\$\(([^()]*)\)")


@dataclass(frozen=True)
class Row:
    """A row. versions: of the operators of ONNX, from and to. tolerance: -1 for quantised numbers, which may differ by a step.
    least: of symbols in later calls, 1 where onnxruntime ends the process without elements. means: the same by other operators, where
    nobody else has these."""

    text: str
    inputs: str
    versions: tuple[int, int] = (17, 22)
    tolerance: float = 1e-4
    least: int = 0
    means: str = ""

    def draw(self, random: Generator, least: int = 1, most: int = 5) -> tuple[str, dict[str, Input], dict[str, int]]:
        """The text, its inputs, and the extents of the letters that are symbols."""
        sizes = {letter: int(random.integers(least, most + 1)) for letter in string.ascii_letters}

        def chosen(found: re.Match[str]) -> str:
            options = found[1].split("|")
            option = options[int(random.integers(len(options)))]
            return str(evaluated(option[1:], sizes)) if option.startswith("=") else option

        numbers = re.findall(r"\$\(=([^()|]*)\)", self.text + self.inputs)
        parts = _INPUT.findall(_CHOICE.sub(chosen, self.inputs))
        known = set("".join(numbers + [one[2] for one in parts if one[3]] + [one[5] for one in parts]))
        is_open = random.random() < 0.4
        symbols = {one for one in string.ascii_lowercase if one not in known and is_open and random.random() < 0.6}
        text, inputs = _CHOICE.sub(chosen, self.text), dict[str, Input]()
        for name, kind, dims, held, mark, value in parts:
            if not re.search(rf"\b{name}\b", text):
                continue
            extents = [one.strip() for one in dims.split(",") if one.strip()]
            dtype, values = KINDS[kind]
            if mark == "=":
                values = _filled(dtype, float(value))
            elif mark:
                values = indices(evaluated(value, sizes), dtype, mark == "~")
            inputs[name] = Input(
                tuple(one if symbols & set(one) else evaluated(one, sizes) for one in extents),
                dtype,
                values,
                held == "!!" or held == "!" and random.random() < 0.6,
            )
        used = {letter for one in inputs.values() for extent in one.dims for letter in str(extent)}
        return text, inputs, {letter: sizes[letter] for letter in sorted(symbols & used)}
