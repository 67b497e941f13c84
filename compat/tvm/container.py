"""tvm.container and tvm.ir.container: Python's own dict and list under TVM's names."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["Array", "Map"]

K = TypeVar("K")
V = TypeVar("V")


class Map(dict[K, V]):
    """A dict. Its items are a list, as TVM's are."""

    def items(self) -> Any:
        """(key, value) for every key, as a list."""
        return list(super().items())


class Array(list[V]):
    """A list."""
