"""tvm.topi: its operators are ours (tilewright.topi), its schedules topi.schedule for the target.

Where a name means something else here than in TVM, TVM's meaning holds: `divide` of integers rounds towards zero.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .... import topi as _ours
from ....ir import ops
from ....te import Tensor

_SUBMODULES = ("arm_cpu", "cuda", "generic", "nn", "tag", "utils", "x86")
_RENAMED = {"floordiv": "floor_divide", "floormod": "floor_mod", "broadcast_add": "add", "broadcast_sub": "subtract",
            "broadcast_mul": "multiply", "broadcast_div": "divide"}
"""Names of older releases."""


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    if name == "util":
        return import_module(".utils", __name__)
    if name == "image":
        return _ours.image
    if name in _RENAMED:
        return globals().get(_RENAMED[name]) or getattr(_ours, _RENAMED[name])
    try:
        return getattr(_ours, name)
    except AttributeError:
        raise AttributeError(f"topi has no {name}: there are {', '.join(sorted({*dir(_ours), *_SUBMODULES}))}") from None


def __dir__() -> list[str]:
    return sorted({*dir(_ours), *_SUBMODULES, *_RENAMED})


def divide(lhs: Any, rhs: Any) -> Any:
    """lhs / rhs; of integers the quotient rounded towards zero."""
    whole = all(ops.convert(_element(side)).dtype.is_integer for side in (lhs, rhs))
    return _ours.trunc_divide(lhs, rhs) if whole else _ours.divide(lhs, rhs)


def _element(side: Any) -> Any:
    return ops.const(0, side.dtype) if isinstance(side, Tensor) else side
