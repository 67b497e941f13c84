"""tvm.te.hybrid.runtime: what the names of scripts are in Python."""

from __future__ import annotations

from typing import Any

from .....te.hybrid.runtime import EMULATED as HYBRID_GLOBALS

__all__ = ["HYBRID_GLOBALS"]


def __getattr__(name: str) -> Any:
    try:
        return HYBRID_GLOBALS[name]
    except KeyError:
        raise AttributeError(
            f"hybrid scripts have no {name!r}; there are {', '.join(sorted(HYBRID_GLOBALS))}"
        ) from None
