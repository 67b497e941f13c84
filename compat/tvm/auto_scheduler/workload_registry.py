"""tvm.auto_scheduler.workload_registry: functions that declare tensors, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ....autotune.errors import BadTemplate, NothingToTune
from ....base.arguments import is_sequence
from ....base.errors import user_source
from ....te import Tensor
from ..autotvm.task.task import deserialize_args, serialize_args

__all__ = ["make_workload_key", "register_workload", "workload_key_to_tensors"]

_WORKLOADS: dict[str, Callable[..., Any]] = {}


def register_workload(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """The decorator of a function that returns the tensors to compute, in call order; with a name, or under its own.

    Raises BadTemplate for a name that another function has, unless `override`; a function may be defined again.
    """
    if callable(func_name):
        return register_workload(func_name.__name__, func_name, override)

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        known = _WORKLOADS.get(func_name, function)
        if not override and (known.__module__, known.__qualname__) != (function.__module__, function.__qualname__):
            raise BadTemplate(
                f"there is a workload {func_name!r} already", called=user_source(), fix="another name, or override=True"
            )
        _WORKLOADS[func_name] = function
        return function

    return decorated if f is None else decorated(f)


def make_workload_key(func: str | Callable[..., Any], args: Sequence[Any]) -> str:
    """The name of a workload with its arguments, as text. Raises NothingToTune."""
    name = (
        func if isinstance(func, str) else next((name for name, function in _WORKLOADS.items() if function is func), "")
    )
    if name not in _WORKLOADS:
        raise NothingToTune(
            f"there is no workload {name or getattr(func, '__name__', func)!r}",
            called=user_source(),
            allowed=", ".join(sorted(_WORKLOADS)),
            fix="@auto_scheduler.register_workload above the function",
        )
    return json.dumps([name, *serialize_args(args)])


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """The tensors of a workload, declared anew. Raises NothingToTune, BadTemplate, and what the function raises."""
    name, *args = json.loads(workload_key)
    make_workload_key(name, ())
    tensors = _WORKLOADS[name](*deserialize_args(args))
    if not is_sequence(tensors) or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise BadTemplate(
            f"the workload {name} returned {type(tensors).__name__}",
            called=user_source(),
            fix="return [A, B, C]: the tensors in call order",
        )
    return list(tensors)
