"""TVM's attribute names on our nodes, beside our own: `loop.loop_var` is `loop.var`.

They are set from here, so that the house need not know of them.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Call, IterVar, Node
from ...ir.stmt import Allocate, Attr, BufferStore, For, Function, If, Seq
from ...runtime import Array
from ...schedule import Stage
from ...te import Operation, Tensor

__all__ = ["set_names"]

_ALIASES: dict[type, dict[str, str]] = {
    For: {"loop_var": "var", "min": "begin"},
    If: {"then_case": "then_body", "else_case": "else_body"},
    Attr: {"node": "subject", "attr_key": "key"},
    Seq: {"seq": "body"},
    Allocate: {"buffer_var": "buffer"},
    BufferStore: {"buffer_var": "buffer"},
    BufferLoad: {"buffer_var": "buffer"},
}


def set_names() -> None:
    """Give the nodes TVM's names too, where they have none of their own under that name."""
    for node, names in _ALIASES.items():
        for theirs, ours in names.items():
            _give(node, theirs, lambda self, ours=ours: getattr(self, ours))
    _give(Call, "op", lambda self: SimpleNamespace(name=f"tir.{self.name}"))
    _give(Function, "buffer_map", lambda self: {buffer: buffer for buffer in self.params if isinstance(buffer, Buffer)})
    _give(IterVar, "iter_type", lambda self: self.kind)
    _give(Stage, "iter_var_attrs", lambda self: self.iter_attrs)
    _give(Array, "to_dlpack", lambda self: self.__dlpack__)
    for node in (Node, Tensor, Operation, Array):
        _give(node, "same_as", lambda self: lambda other: self is other)
    if not hasattr(Function, "with_attr"):
        setattr(Function, "with_attr", _with_attr)  # noqa: B010


def _with_attr(function: Function, key: str, value: Any) -> Function:
    """The function with an attribute; "global_symbol" is its name."""
    return replace(function, name=str(value)) if key == "global_symbol" else function.with_attrs(**{key: value})


def _give(node: type, name: str, get: Any) -> None:
    if not hasattr(node, name):
        setattr(node, name, property(get))
