"""tvm.autotvm.task.topi_integration: computations and schedules that are registered apart, as operators are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from .....autotune.errors import BadTemplate
from .....base.arguments import to_list
from .....base.errors import user_source
from .....te import Operation, Tensor
from ...target import Target
from .dispatcher import DispatchContext
from .task import TASK_TABLE, TaskTemplate, args_to_workload

__all__ = ["get_workload", "register_topi_compute", "register_topi_schedule"]

_WORKLOADS: WeakKeyDictionary[Operation, tuple[Any, ...]] = WeakKeyDictionary()
"""What each computation was called with, by the operation that it gave."""


def register_topi_compute(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """The decorator of a function of (cfg, *args) that declares: called with `args`, it takes the configuration that the
    context has for them."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(*args: Any) -> Any:
            workload = args_to_workload(args, task_name)
            result = function(DispatchContext.current.query(Target.current(), workload), *args)
            for tensor in to_list(result):
                _WORKLOADS[tensor.op] = workload
            return result

        TASK_TABLE.setdefault(task_name, TaskTemplate()).fcompute = called
        return called

    return decorated if func is None else decorated(func)


def register_topi_schedule(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """The decorator of a function of (cfg, outs) that schedules what the computation of this name gave, or something
    computed from it. Called with `outs`, it takes the configuration of that computation; raises BadTemplate where there is
    none among them."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(outs: Any, *args: Any, **kwargs: Any) -> Any:
            tensors = [outs] if isinstance(outs, Tensor) else list(outs)
            workload = get_workload(tensors, task_name)
            if workload is None:
                raise BadTemplate(
                    f"cannot schedule by {task_name!r}",
                    called=user_source(),
                    reason="none of the tensors is computed by the function registered under this name",
                    fix=f"@autotvm.register_topi_compute({task_name!r}) above what declares them",
                )
            return function(DispatchContext.current.query(Target.current(), workload), tensors, *args, **kwargs)

        TASK_TABLE.setdefault(task_name, TaskTemplate()).fschedule = called
        return called

    return decorated if func is None else decorated(func)


def get_workload(outs: Sequence[Tensor], task_name: str | None = None) -> tuple[Any, ...] | None:
    """Return the arguments of the nearest computation behind the tensors, of those registered under a name."""
    stack, seen = [tensor.op for tensor in outs], set[Operation]()
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        workload = _WORKLOADS.get(op)
        if workload is not None and task_name in (None, workload[0]):
            return workload
        stack += [tensor.op for tensor in op.input_tensors]
    return None
