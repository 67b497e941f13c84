"""`import topi`, as programs of TVM before 0.7 have it: `from tilewright.compat import topi`."""

from __future__ import annotations

from typing import Any

from .tvm import topi as _topi


def __getattr__(name: str) -> Any:
    return getattr(_topi, name)


def __dir__() -> list[str]:
    return dir(_topi)
