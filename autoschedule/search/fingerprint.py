"""Fingerprints of the Python code and of the plain values that a space is made by.

Two spaces that share a name are told apart by what defines them. Names of local variables, comments and places in files do not
count; the version of Python does, since what is compared is its bytecode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from inspect import unwrap
from types import CellType, CodeType, FunctionType
from typing import Any, cast

__all__ = ["code_text", "fingerprint", "plain_text"]


def fingerprint(*texts: str) -> str:
    """Twelve hexadecimal digits that stand for some texts."""
    # with lengths, so that texts that are cut elsewhere differ
    return hashlib.sha256("".join(f"{len(text)} {text}" for text in texts).encode(errors="replace")).hexdigest()[:12]


def plain_text(value: object) -> str:
    """A value of numbers and texts as Python writes it; of anything else its type, whose repr may name a place in memory."""
    kind = type(value).__qualname__
    if isinstance(value, (list, tuple)):
        return f"{kind}({', '.join(map(plain_text, cast('list[object]', value)))})"
    if isinstance(value, (set, frozenset)):
        # the order of a set changes from process to process
        return f"{kind}({', '.join(sorted(map(plain_text, cast('set[object]', value))))})"
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return f"dict({', '.join(f'{plain_text(key)}: {plain_text(each)}' for key, each in items)})"
    if value is None or value is Ellipsis or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    return kind


def code_text(function: Callable[..., Any]) -> str:
    """The bytecode of a function, with its constants, defaults, and the plain values that it closes over; "" of a callable that is
    not written in Python."""
    # decorators that keep __wrapped__ do not tell two templates apart
    plain: Any = unwrap(function)
    plain = getattr(plain, "__func__", plain)
    if not isinstance(plain, FunctionType):
        return ""
    held = [_cell_text(cell) for cell in plain.__closure__ or ()]
    return " ".join(
        (_bytecode(plain.__code__), plain_text(plain.__defaults__), plain_text(plain.__kwdefaults__), *held)
    )


def _cell_text(cell: CellType) -> str:
    try:
        return plain_text(cell.cell_contents)
    except ValueError:  # a name that is not bound yet
        return ""


def _bytecode(code: CodeType) -> str:
    constants = (_bytecode(each) if isinstance(each, CodeType) else plain_text(each) for each in code.co_consts)
    return f"{code.co_code.hex()} {' '.join(code.co_names)} [{', '.join(constants)}]"
