"""Exported programs as torch.export writes them in JSON (schema 8), decoded: nodes with arguments by name, and what is said of
values. What is not as it should be is a NotAModel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from ...base import dataclass, field, user_source
from ..errors import NotAModel
from ..types import MOST_DIMENSIONS, Extent
from .extents import read_extent

__all__ = [
    "Exported",
    "Frame",
    "Node",
    "Odd",
    "Symbol",
    "TensorMeta",
    "TensorName",
    "Values",
    "exported",
    "tensor_meta",
]

_DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    34: "uint32",
    35: "uint64",
}
_PARTS = {10: "float32", 11: "float64"}
_FLOATS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}

T = TypeVar("T")


class TensorName(str):
    """A tensor of the program, by name."""


class Symbol(str):
    """A number of the program that is not known when it is exported, by name."""


class Odd(str):
    """An argument of a kind that no operator here takes; the text says which."""


@dataclass(frozen=True)
class TensorMeta:
    """Description of a tensor. dtype: None for one that values here cannot have. strides: in elements; `hints` stand for symbols
    in strides and `sizes`, the shape as it was in the example. parts: of complex numbers the dtype of their two parts.
    is_trained: it requires a gradient."""

    dtype: str | None
    shape: tuple[Extent, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    parts: str | None = None
    is_trained: bool = False

    @property
    def value_type(self) -> tuple[tuple[Extent, ...], str | None]:
        """The shape and the dtype of our value of it: complex numbers are pairs, the last dimension."""
        return ((*self.shape, 2), self.parts) if self.parts else (self.shape, self.dtype)

    @property
    def is_contiguous(self) -> bool:
        """Return whether its elements lie in order, without gaps."""
        expected = 1
        for extent, stride in zip(reversed(self.sizes), reversed(self.strides), strict=False):
            if extent != 1 and stride != expected:
                return 0 in self.sizes
            expected *= extent
        return True


@dataclass(frozen=True)
class Node:
    """Call of an operator in an exported program.

    arguments: by name, in order: numbers, texts, TensorNames, Symbols, Odds, Frames, None, and lists of them; what has its
    default is left out. outputs: the names of what it gives; lists of tensors flat, "" where one is absent.
    """

    target: str
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]
    name: str
    source: str


@dataclass(frozen=True)
class Frame:
    """A graph: of the program, or of a node that calls one. outputs: as arguments are."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    nodes: tuple[Node, ...]
    tensors: Mapping[str, TensorMeta]


@dataclass(frozen=True)
class Values:
    """Description of an input: `kind` is "parameter", "buffer", "tensor_constant", "user_input" ...; name: of the value in the program;
    path: how the module calls it."""

    kind: str
    argument: Any
    path: str


@dataclass(frozen=True)
class Exported:
    """The program. results: by kind ("user_output", "buffer_mutation" ...) the argument and what it changes. guards: what torch
    assumes of sizes, as it writes it. greatest: of symbols, where there is one."""

    frame: Frame
    inputs: tuple[Values, ...]
    results: tuple[Values, ...]
    guards: tuple[str, ...] = ()
    greatest: Mapping[str, int] = field(default_factory=dict[str, int])


def exported(program: Any) -> Exported:
    """A program as JSON holds it. Raises NotAModel (TW0911)."""
    version = _expect(_expect(program, dict, "the program").get("schema_version"), dict, "its schema").get("major")
    if version != 8:
        raise _wrong(f"its schema is {str(version)[:20]}, where 8 is known")
    module = _expect(program.get("graph_module"), dict, "its module")
    signature = _expect(module.get("signature"), dict, "its signature")
    return Exported(
        _read_frame(module.get("graph"), 0),
        tuple(map(_read_input, _expect(signature.get("input_specs"), list, "its inputs"))),
        tuple(map(_read_result, _expect(signature.get("output_specs"), list, "its outputs"))),
        tuple(map(_read_text, _expect(program.get("guards_code", []), list, "what it assumes"))),
        dict(_greatest(program.get("range_constraints", {}))),
    )


def _greatest(said: Any) -> Iterator[tuple[str, int]]:
    for name, bounds in _expect(said, dict, "its sizes").items():
        most = _expect(bounds, dict, "a range of sizes").get("max_val")
        if most is not None:
            yield _read_text(name), _number(most)


def _read_input(spec: Any) -> Values:
    kind, said = _read_union(spec)
    said = _expect(said, dict, "an input")
    paths = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}
    if kind in paths:
        return Values(
            kind,
            TensorName(_read_text(_expect(said.get("arg"), dict, "an input").get("name"))),
            _read_text(said.get(paths[kind])),
        )
    return Values(kind, _read_argument(said.get("arg"), 0) if "arg" in said and kind == "user_input" else None, "")


def _read_result(spec: Any) -> Values:
    kind, said = _read_union(spec)
    said = _expect(said, dict, "an output")
    path = next((value for key, value in said.items() if key.endswith("_name")), "")
    given = said.get("arg")
    if kind == "user_output":
        return Values(kind, _read_argument(given, 0), "")
    return Values(kind, TensorName(_read_text(_expect(given, dict, "an output").get("name"))), _read_text(path))


def _read_frame(graph: Any, depth: int) -> Frame:
    if depth > 8:
        raise _wrong("its graphs are nested too deep")
    whole = _expect(graph, dict, "its graph")
    tensors = _expect(whole.get("tensor_values"), dict, "its tensors")
    return Frame(
        tuple(_read_argument(one, depth) for one in _expect(whole.get("inputs"), list, "its inputs")),
        tuple(_read_argument(one, depth) for one in _expect(whole.get("outputs"), list, "its outputs")),
        tuple(_read_node(one, depth) for one in _expect(whole.get("nodes"), list, "its nodes")),
        {_read_text(name): tensor_meta(meta) for name, meta in tensors.items()},
    )


def _read_node(node: Any, depth: int) -> Node:
    whole = _expect(node, dict, "a node")
    target = _read_text(whole.get("target"))
    arguments: dict[str, Any] = {}
    for at, given in enumerate(_expect(whole.get("inputs"), list, "a node's inputs")):
        entry = _expect(given, dict, "a node's input")
        arguments[_read_text(entry.get("name")) or str(at)] = _read_argument(entry.get("arg"), depth)
    outputs: list[str] = []
    for given in _expect(whole.get("outputs"), list, "a node's outputs"):
        value = _read_argument(given, depth)
        for one in cast("list[Any]", value) if isinstance(value, list) else [value]:
            outputs.append(str(one) if isinstance(one, (TensorName, Symbol)) else "")
    name = whole.get("name")
    shown = name if isinstance(name, str) and name else next((one for one in outputs if one), target)
    metadata = _expect(whole.get("metadata"), dict, "what is said of a node")
    return Node(target, arguments, tuple(outputs), shown, _source(shown, metadata))


def _source(name: str, metadata: Mapping[str, Any]) -> str:
    """The node's name, and the user's line: the first one of its trace."""
    trace = metadata.get("stack_trace")
    if not isinstance(trace, str) or not trace.startswith('File "'):
        return name[:200]
    path, _, rest = trace[len('File "') :].partition('", line ')
    number = rest.partition(",")[0]
    return f"{name} ({path.rpartition('/')[2]}:{number})"[:200] if number.isdecimal() else name[:200]


def tensor_meta(meta: Any) -> TensorMeta:
    """Read the description of a tensor. Raises NotAModel (TW0911)."""
    whole = _expect(meta, dict, "what is said of a tensor")
    sizes, strides = (_expect(whole.get(key), list, "a tensor's shape") for key in ("sizes", "strides"))
    if max(len(sizes), len(strides)) > MOST_DIMENSIONS:
        raise _wrong(
            f"a tensor has {max(len(sizes), len(strides))} dimensions, and values have up to {MOST_DIMENSIONS}"
        )
    offset = whole.get("storage_offset")
    return TensorMeta(
        _DTYPES.get(_number(whole.get("dtype"))) if whole.get("layout") == 7 else None,
        tuple(map(_read_extent, sizes)),
        tuple(map(_size_hint, sizes)),
        tuple(map(_size_hint, strides)),
        0 if offset is None else _size_hint(offset),
        _PARTS.get(_number(whole.get("dtype"))) if whole.get("layout") == 7 else None,
        whole.get("requires_grad") is True,
    )


def _read_extent(size: Any) -> Extent:
    kind, said = _read_union(size)
    if kind == "as_int":
        return _number(said)
    return read_extent(_read_text(_expect(said, dict, "an extent").get("expr_str")))


def _size_hint(size: Any) -> int:
    """A number, or what it was in the example."""
    kind, said = _read_union(size)
    if kind == "as_int":
        return _number(said)
    hint = _expect(said, dict, "an extent").get("hint")
    return _number(_expect(hint, dict, "an extent").get("as_int")) if hint is not None else -1


def _read_argument(given: Any, depth: int) -> Any:
    kind, said = _read_union(given)
    if kind in _READ:
        return _READ[kind](said)
    if kind in ("as_tensors", "as_optional_tensors"):
        return [
            None if "as_none" in one else TensorName(_read_text(_inner(one).get("name")))
            for one in (_expect(entry, dict, "a tensor") for entry in _expect(said, list, "tensors"))
        ]
    if kind == "as_optional_tensor":
        return (
            None if "as_none" in said else TensorName(_read_text(_inner(_expect(said, dict, "a tensor")).get("name")))
        )
    if kind == "as_graph":
        return _read_frame(_expect(said, dict, "a graph").get("graph"), depth + 1)
    return Odd(kind)


def _inner(one: Mapping[str, Any]) -> Mapping[str, Any]:
    return _expect(one["as_tensor"], dict, "a tensor") if "as_tensor" in one else one


def _read_symbol(said: Any) -> Any:
    kind, value = _read_union(said)
    if kind == "as_name":
        return Symbol(_read_text(value))
    return {"as_int": _number, "as_float": _float, "as_bool": bool}.get(kind, _no_symbol)(value)


def _no_symbol(_: Any) -> Any:
    raise _wrong("a symbol is invalid")


def _read_dtype(said: Any) -> Any:
    return _DTYPES.get(_number(said), Odd("a dtype"))


def _float(said: Any) -> float:
    if isinstance(said, str) and said in _FLOATS:
        return _FLOATS[said]
    return float(_expect(said, (int, float), "a number"))


def _read_tensor(said: Any) -> TensorName:
    return TensorName(_read_text(_expect(said, dict, "a tensor").get("name")))


def _read_bool(said: Any) -> bool:
    return _expect(said, bool, "a truth")


def _nothing(_: Any) -> None:
    return None


def _each(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def listed(said: Any) -> list[Any]:
        return [read(one) for one in _expect(said, list, "a list")]

    return listed


def _odd(what: str) -> Callable[[Any], Any]:
    def odd(_: Any) -> Odd:
        return Odd(what)

    return odd


def _read_union(said: Any) -> tuple[str, Any]:
    whole = _expect(said, dict, "a value")
    if len(whole) != 1:
        raise _wrong("one of its values has more than one kind, or none")
    return next(iter(whole.items()))


def _read_text(said: Any) -> str:
    return _expect(said, str, "a name")


def _number(said: Any) -> int:
    if isinstance(said, bool) or not isinstance(said, int) or not -(1 << 63) <= said < 1 << 63:
        raise _wrong(f"one of its numbers is {str(said)[:50]!r}")
    return said


def _expect(said: Any, kind: type[T] | tuple[type[T], ...], what: str) -> Any:
    if not isinstance(said, kind) or isinstance(said, bool) and kind is not bool:
        raise _wrong(f"{what} is {type(said).__name__}" if said is not None else f"{what} is not there")
    return said


def _wrong(reason: str) -> NotAModel:
    return NotAModel(
        "this is not an exported program of torch, or not a whole one",
        reason=reason[:500],
        called=user_source(),
        fix="write it again by torch.export.save of torch 2.8 or newer",
    )


_READ: Mapping[str, Callable[[Any], Any]] = {
    "as_none": _nothing,
    "as_tensor": _read_tensor,
    "as_int": _number,
    "as_ints": _each(_number),
    "as_float": _float,
    "as_floats": _each(_float),
    "as_string": _read_text,
    "as_bool": _read_bool,
    "as_bools": _each(_read_bool),
    "as_sym_int": _read_symbol,
    "as_sym_float": _read_symbol,
    "as_sym_bool": _read_symbol,
    "as_sym_ints": _each(_read_symbol),
    "as_sym_floats": _each(_read_symbol),
    "as_sym_bools": _each(_read_symbol),
    "as_scalar_type": _read_dtype,
    "as_memory_format": _odd("a memory format"),
    "as_layout": _odd("a layout"),
    "as_device": _odd("a device"),
}
