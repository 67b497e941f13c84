"""The text of a graph of immutable objects: two graphs have the same text exactly where they are built alike.

Objects that have an identity (operations, tensors, axes, expressions) are numbered in the order in which they are met, and
named by their number when they are met again. So the text tells a variable used twice from two variables of one name. It
does not say on which line of the user's program something was declared. `ir.structural` asks whether programs are the same
whatever things in them are called, and knows variables and tensors by identity; a key is for other processes too, and what
things are called counts, since errors and sources speak of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import FunctionType
from typing import Any, cast

import numpy as np

from ...base.arguments import is_array, is_number, is_sequence
from ...base.errors import SourceLine
from ...importing import PACKAGE
from ...ir.constant import Constant
from ...te import Tensor, TensorIntrin

__all__ = ["NoStructure", "structure_text"]


class NoStructure(Exception):
    """The graph holds what has no text, such as a Python function. The argument says what."""


_ATOMS = (int, float, str, bytes, bool, complex, type(None), type(Ellipsis))


def structure_text(root: Any) -> str:
    """The text of everything that `root` refers to. Raises NoStructure."""
    out: list[str] = []
    numbers: dict[int, int] = {}
    open_lists: set[int] = set()
    stack: list[Any] = [root]
    while stack:
        value = stack.pop()
        if isinstance(value, _Text):
            out.append(value.text)
            open_lists.discard(value.closes)
        elif isinstance(value, _ATOMS):
            out.append(repr(value))
        elif is_number(value):
            out.append(f"{value.dtype}:{value.tobytes().hex()}")  # 0.0 and -0.0 differ by their bytes
        elif isinstance(value, Enum):
            out.append(f"{type(value).__name__}.{value.name}")
        elif isinstance(value, SourceLine):
            out.append("-")  # the line of a declaration makes no other code
        elif is_sequence(value):
            if id(value) in open_lists:  # a list inside of itself has no end
                raise NoStructure("a list that contains itself")
            open_lists.add(id(value))
            _push(stack, "[", value, _Text(")", id(value)))
        elif isinstance(value, (set, frozenset)):
            # a set has no order that another process would share
            _push(stack, "{", sorted(cast("Iterable[Any]", value), key=repr))
        elif isinstance(value, Mapping):
            _push(stack, "{", [part for item in cast("Mapping[Any, Any]", value).items() for part in item])
        elif id(value) in numbers:  # met before: an operation read twice is one operation
            out.append(f"#{numbers[id(value)]}")
        else:
            numbers[id(value)] = len(numbers)
            _push(stack, f"{type(value).__name__}(", _parts(value))
    return " ".join(out)


class _Text:
    """A word that goes out as it is. closes: the id of the list that ends with it."""

    __slots__ = ("closes", "text")

    def __init__(self, text: str, closes: int = 0) -> None:
        self.text, self.closes = text, closes


_END = _Text(")")


def _push(stack: list[Any], head: str, parts: Iterable[Any], end: _Text = _END) -> None:
    stack.append(end)
    stack.extend(reversed(list(parts)))
    stack.append(_Text(head))


def _parts(value: Any) -> Iterable[Any]:
    """Return what an object with an identity consists of."""
    if isinstance(value, Tensor):
        return (value.op, value.value_index, value.name)
    if is_array(value):
        array = np.ascontiguousarray(value)
        return (str(array.dtype), array.shape, hashlib.sha256(array.data if array.size else b"").hexdigest())
    if isinstance(value, Constant):
        return (str(value.data.dtype), value.data.shape, value.digest)
    if isinstance(value, TensorIntrin) and value.shipped is not None:
        return ("shipped", *value.shipped)  # made by our own code, which the key knows by its hash
    if isinstance(value, partial):
        return (value.func, value.args, value.keywords)
    if isinstance(value, FunctionType) and value.__module__.startswith(f"{PACKAGE}.") and "<" not in value.__qualname__:
        return (value.__module__, value.__qualname__)  # a function of our own code, which the key knows by its hash
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, name) for name in _names(type(value))]
    raise NoStructure(f"{type(value).__module__}.{type(value).__qualname__}")


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))
