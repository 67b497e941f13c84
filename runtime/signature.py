"""Signatures of kernels: plain data that a call stub, a library's manifest and an error message can all be made from.

An extent is an int, the name of a shape symbol (or of a scalar parameter), or a prefix tuple: ("+", "n", 2). Operators:
+ - * // % min max, with Python's meaning (and x // 0 = x % 0 = 0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from ..base import INT32_EXTENT_LIMIT, dataclass, field, user_source
from ..base.arguments import is_sequence
from .abi import ITEM_BYTES
from .errors import SymbolNotBound

__all__ = ["Binding", "BufferParam", "Extent", "ScalarParam", "Signature", "Symbol", "evaluate_extent", "extent_text"]

Extent: TypeAlias = "int | str | tuple[str, Extent, Extent]"

_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}


@dataclass(frozen=True, slots=True)
class BufferParam:
    """A tensor argument, compact and row-major. shape: () is one element. alignment: what its address is a multiple of, in
    bytes, where that is more than an element (else 0)."""

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    is_output: bool = False
    alignment: int = 0

    def __str__(self) -> str:
        extents = ", ".join(map(extent_text, self.shape))
        aligned = f", align={self.alignment}" if self.alignment else ""
        return f"{self.name}: {'out ' if self.is_output else ''}{self.dtype}[{extents}{aligned}]"


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A number passed by value. least and greatest: tighter bounds than the dtype's own, inclusive."""

    name: str
    dtype: str
    least: int | None = None
    greatest: int | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A shape symbol that is not a parameter: its value is read from the arguments' shapes."""

    name: str
    dtype: str = "int32"

    @property
    def limit(self) -> int | None:
        """Extents must lie below this."""
        return INT32_EXTENT_LIMIT if self.dtype == "int32" else None


@dataclass(frozen=True, slots=True)
class Binding:
    """Source of a symbol's value: extent `dim` of parameter `param`, after undoing `steps` one after the other."""

    param: int
    dim: int
    steps: tuple[tuple[str, int], ...] = ()

    def solve(self, extent: int) -> int:
        """The symbol's value where that extent is this number."""
        for operator, number in self.steps:
            extent = _OPERATORS[operator](extent, number)
        return extent


@dataclass(frozen=True)
class Signature:
    """A kernel's name and parameters in call order, and its free shape symbols in order of first appearance.

    long_running: the kernel may run for long on small arguments, so a call always releases the interpreter's lock. on_stream: it
    is a library's function for GPUs, whose first argument is a stream of the driver's.
    Raises SymbolNotBound (TW0521) where a symbol cannot be computed from any argument's shape.
    """

    name: str
    params: tuple[BufferParam | ScalarParam, ...]
    symbols: tuple[Symbol, ...] = ()
    long_running: bool = False
    on_stream: bool = False
    bindings: dict[str, Binding] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bindings", _bind_symbols(self))

    @property
    def scalars(self) -> dict[str, int]:
        """Positions of the scalar parameters by name."""
        return {p.name: i for i, p in enumerate(self.params) if isinstance(p, ScalarParam)}

    @property
    def buffers(self) -> Iterator[tuple[int, BufferParam]]:
        """The tensor parameters with their positions."""
        return ((i, p) for i, p in enumerate(self.params) if isinstance(p, BufferParam))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})"

    def plain_json(self) -> dict[str, Any]:
        """Plain lists, dicts and numbers; `from_json` reads them back."""
        return {
            "name": self.name,
            "params": [_param_json(param) for param in self.params],
            "symbols": [[s.name, s.dtype] for s in self.symbols],
            "long_running": self.long_running,
        } | ({"on_stream": True} if self.on_stream else {})

    @staticmethod
    def from_json(data: Any) -> Signature:
        """The signature that `as_json` wrote. Raises ValueError, TypeError, KeyError or SymbolNotBound (TW0521) for other data."""
        symbols = tuple(Symbol(_text(name), _dtype(dtype)) for name, dtype in data["symbols"])
        return Signature(
            _text(data["name"]),
            tuple(map(_param_from_json, data["params"])),
            symbols,
            bool(data["long_running"]),
            bool(data.get("on_stream", False)),
        )


def extent_text(extent: Extent) -> str:
    """An extent as the user would write it."""
    if not isinstance(extent, tuple):
        return str(extent)
    operator, left, right = extent
    a, b = (
        f"({extent_text(x)})" if isinstance(x, tuple) and x[0] not in ("min", "max") else extent_text(x)
        for x in (left, right)
    )
    return f"{operator}({a}, {b})" if operator in ("min", "max") else f"{a} {operator} {b}"


def evaluate_extent(extent: Extent, values: Mapping[str, int]) -> int:
    """The number that `extent` stands for where the symbols have these values."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, str):
        return values[extent]
    operator, left, right = extent
    return _OPERATORS[operator](evaluate_extent(left, values), evaluate_extent(right, values))


def extent_names(extent: Extent) -> set[str]:
    """The symbols and scalar parameters that occur in `extent`."""
    if isinstance(extent, tuple):
        return extent_names(extent[1]) | extent_names(extent[2])
    return {extent} if isinstance(extent, str) else set()


def _bind_symbols(signature: Signature) -> dict[str, Binding]:
    """The first dimension that is the symbol itself, else the first from which it can be solved."""
    dims = [(i, d, extent) for i, p in signature.buffers for d, extent in enumerate(p.shape)]
    bindings: dict[str, Binding] = {}
    for symbol in signature.symbols:
        plain = next((Binding(i, d) for i, d, extent in dims if extent == symbol.name), None)
        solved = (Binding(i, d, steps) for i, d, extent in dims if (steps := _solve(extent, symbol.name)) is not None)
        value = plain or next(solved, None)
        if value is None:
            raise SymbolNotBound(
                f"the shape symbol '{symbol.name}' of '{signature.name}' gets no value from any argument",
                reason=f"no dimension of {signature} is '{symbol.name}' or can be solved for it",
                called=user_source(),
                fix=f"add '{symbol.name}' to the arguments as a scalar",
            )
        bindings[symbol.name] = value
    known = {s.name for s in signature.symbols} | set(signature.scalars)
    unknown = set[str]().union(*(extent_names(extent) for _, _, extent in dims)) - known
    if unknown:
        raise ValueError(f"{signature} speaks of {sorted(unknown)}, which are neither parameters nor symbols")
    return bindings


def _solve(extent: Extent, name: str) -> tuple[tuple[str, int], ...] | None:
    """The steps from the value of `extent` back to `name`; None where they are not +, - and * by constants."""
    steps: list[tuple[str, int]] = []
    while isinstance(extent, tuple):
        operator, left, right = extent
        if operator in "+*" and isinstance(left, int):
            left, right = right, left
        if operator not in ("+", "-", "*") or not isinstance(right, int) or (operator == "*" and right < 1):
            return None
        steps.append(({"+": "-", "-": "+", "*": "//"}[operator], right))
        extent = left
    return tuple(steps) if extent == name else None


def _param_json(param: BufferParam | ScalarParam) -> dict[str, Any]:
    if isinstance(param, ScalarParam):
        return {"name": param.name, "dtype": param.dtype, "least": param.least, "greatest": param.greatest}
    return {
        "name": param.name,
        "dtype": param.dtype,
        "shape": [_extent_json(e) for e in param.shape],
        "is_output": param.is_output,
    } | ({"alignment": param.alignment} if param.alignment else {})


def _extent_json(extent: Extent) -> Any:
    return [extent[0], _extent_json(extent[1]), _extent_json(extent[2])] if isinstance(extent, tuple) else extent


def _extent_from_json(data: Any) -> Extent:
    if is_sequence(data):
        operator, left, right = data
        if operator not in _OPERATORS:
            raise ValueError(f"{operator!r} is not an operator")
        return (operator, _extent_from_json(left), _extent_from_json(right))
    return data if isinstance(data, str) else _number(data)


def _param_from_json(data: Any) -> BufferParam | ScalarParam:
    name, dtype = _text(data["name"]), _dtype(data["dtype"])
    if "shape" in data:
        return BufferParam(
            name,
            dtype,
            tuple(map(_extent_from_json, data["shape"])),
            bool(data["is_output"]),
            _number(data.get("alignment", 0)),
        )
    least, greatest = (None if data[bound] is None else _number(data[bound]) for bound in ("least", "greatest"))
    return ScalarParam(name, dtype, least, greatest)


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise TypeError(f"{data!r} is not a text")
    return data


def _dtype(data: Any) -> str:
    if data not in ITEM_BYTES:
        raise ValueError(f"{data!r} is not a dtype")
    return data


def _number(data: Any) -> int:
    if type(data) is not int or not -(1 << 63) <= data < 1 << 64:
        raise TypeError(f"{data!r} is not an integer of 64 bits")
    return data
