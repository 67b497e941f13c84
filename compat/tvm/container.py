"""tvm.container and tvm.ir.container: Python's own dict and list under TVM's names."""

from __future__ import annotations

import json
from typing import Any, TypeVar

__all__ = ["Array", "Attrs", "Map"]

K = TypeVar("K")
V = TypeVar("V")


class Map(dict[K, V]):
    """A dict. Its items are a list, as TVM's are."""

    def items(self) -> Any:
        """(key, value) for every key, as a list."""
        return list(super().items())


class Array(list[V]):
    """A list."""


class Attrs(Map[str, Any]):
    """Attributes that an author has put on an operation: a dict of nodes. Its text is JSON."""

    def __str__(self) -> str:
        return json.dumps(self, default=lambda node: getattr(node, "value", str(node)))
