"""External code as the interpreter knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["EXTERNS"]

EXTERNS: dict[str, Callable[..., Any]] = {}
"""What `call_extern` and its siblings call, by name: a Python function of the arguments' values, which returns the result.
A vector is a list; a pointer p is read and written as p[i], element i from where it points."""
