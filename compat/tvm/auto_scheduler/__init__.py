"""tvm.auto_scheduler: tasks, options and logs by TVM's names, over tilewright.autotune, which derives the search space."""

from __future__ import annotations

import sys

from ..autotvm.measure import LocalBuilder
from . import dag, loop_state, measure, measure_record, search_policy, search_task, utils, workload_registry
from .dag import ComputeDAG
from .measure import (
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    RecordReader,
    load_best_record,
    load_records,
    save_records,
)
from .measure_record import RecordToFile
from .search_policy import EmptyPolicy, PreloadMeasuredStates, RandomModel, SketchPolicy, XGBModel
from .search_task import (
    HardwareParams,
    LayoutRewriteOption,
    LocalRunner,
    SearchTask,
    TaskScheduler,
    TuningOptions,
    auto_schedule,
    create_task,
)
from .workload_registry import make_workload_key, register_workload, workload_key_to_tensors

_ELSEWHERE = {
    "ApplyHistoryBest": "task.apply_best(log_file) gives the schedule of a log; tw.build(args, tuned=database) looks for it itself",
    "LocalRPCMeasureContext": "candidates are measured on this machine's CPU: runner=auto_scheduler.LocalRunner(...)",
    "RPCRunner": "run the program on that machine: auto_scheduler.LocalRunner(...)",
    "extract_tasks": "networks are compositions of te and topi here: each has its own SearchTask",
    "ApplyHistoryBestOrSample": "task.apply_best(log_file) gives the schedule of a log",
    "DispatchContext": "tw.build(args, tuned=database) looks for what was tuned",
    "PreloadCustomSketchRule": "tilewright.autoschedule.register(rule) adds a rule to every search",
    "register_task_input_buffer": 'SearchTask(..., task_inputs={"A": array})',
    "register_task_input_check_func": 'SearchTask(..., task_inputs={"A": array})',
    "rewrite_compute_body": "weights are packed by the schedules: te.constant(weights)",
    "rewrite_tensor_shape": "weights are packed by the schedules: te.constant(weights)",
    "get_shape_from_rewritten_layout": "weights are packed by the schedules: te.constant(weights)",
    "remove_index_check": "indices are checked where tensors are declared",
}


compute_dag, cost_model, task_scheduler = dag, search_policy, search_task
for _name, _module in (("compute_dag", dag), ("cost_model", search_policy), ("task_scheduler", search_task)):
    sys.modules[f"{__name__}.{_name}"] = _module


def is_auto_scheduler_enabled() -> bool:
    """Return whether relay's operators are declared for its search: never, since any declaration is searched."""
    return False


def __getattr__(name: str) -> object:
    hint = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


__all__ = [
    "ComputeDAG",
    "EmptyPolicy",
    "HardwareParams",
    "LayoutRewriteOption",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "PreloadMeasuredStates",
    "RandomModel",
    "RecordReader",
    "RecordToFile",
    "SearchTask",
    "SketchPolicy",
    "TaskScheduler",
    "TuningOptions",
    "XGBModel",
    "auto_schedule",
    "compute_dag",
    "cost_model",
    "create_task",
    "is_auto_scheduler_enabled",
    "load_best_record",
    "load_records",
    "loop_state",
    "make_workload_key",
    "measure",
    "measure_record",
    "register_workload",
    "save_records",
    "search_policy",
    "search_task",
    "task_scheduler",
    "utils",
    "workload_key_to_tensors",
    "workload_registry",
]
