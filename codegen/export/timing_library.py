"""Libraries of one kernel that runner.c runs and times: whatever the kernel's parameters, they are called in one way."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ...ir.passes.common.options import apply_options
from ...ir.stmt import Function
from ...runtime.folders import temporary_folder
from ..llvm.backend import prepare
from ..result import BuildOptions
from ..target import Target
from .companion import Companion
from .exporter import Exporter
from .link import program
from .threads import PROCESS_THREADS

__all__ = ["measured_library", "runner"]

_NAME = "candidate"
_CALL, _ERROR, _THREADS = "tw_measured_call", "tw_measured_error", "tw_measured_threads"
_CODE = f"""
@{PROCESS_THREADS} = external global {{ ptr, ptr, ptr }}
@tw_measured_state = internal global {{ i32, i32, ptr, ptr }} zeroinitializer

declare i32 @{_NAME}(PARAMETERS)
declare ptr @{_NAME}_error(i32)

define i32 @{_CALL}(ptr %addresses) nounwind {{
LOADS
  %status = call i32 @{_NAME}(ARGUMENTS)
  ret i32 %status
}}

define ptr @{_ERROR}(i32 %status) nounwind {{
  %text = call ptr @{_NAME}_error(i32 %status)
  ret ptr %text
}}

; Parallel loops run on so many threads of the library's own pool, as they would on Python's.
define void @{_THREADS}(i32 %count) nounwind {{
  %run_at = getelementptr {{ ptr, ptr, ptr }}, ptr @{PROCESS_THREADS}, i32 0, i32 1
  %run = load ptr, ptr %run_at
  %number_at = getelementptr {{ ptr, ptr, ptr }}, ptr @{PROCESS_THREADS}, i32 0, i32 2
  %number = load ptr, ptr %number_at
  store i32 %count, ptr @tw_measured_state
  %parallel_at = getelementptr {{ i32, i32, ptr, ptr }}, ptr @tw_measured_state, i32 0, i32 2
  store ptr %run, ptr %parallel_at
  %thread_at = getelementptr {{ i32, i32, ptr, ptr }}, ptr @tw_measured_state, i32 0, i32 3
  store ptr %number, ptr %thread_at
  store atomic ptr @tw_measured_state, ptr @{PROCESS_THREADS} release, align 8
  ret void
}}
"""


def measured_library(function: Function, target: Target) -> bytes:
    """A shared library of a function of stage "loops" and of arrays alone, for `runner`. Raises CodegenError, ExportError."""
    options = BuildOptions()
    prepared = prepare([apply_options(function, options.passes)], target, options)
    exporter = Exporter(prepared.programs, options.fast_math, options.fp_contract, target, is_module=False)
    companion = Companion(
        {
            _CALL: f"int32_t {_CALL}(void **addresses);",
            _ERROR: f"const char *{_ERROR}(int32_t status);",
            _THREADS: f"void {_THREADS}(int32_t count);",
        },
        code=_code(len(prepared.programs[0].signature.params)),
    )
    with temporary_folder("measured") as folder:
        place = Path(folder) / f"{_NAME}.so"
        exporter(place, "hook", companion=companion)
        return place.read_bytes()


def _code(count: int) -> str:
    loads = [
        f"  %at{k} = getelementptr ptr, ptr %addresses, i64 {k}\n  %a{k} = load ptr, ptr %at{k}" for k in range(count)
    ]
    return (
        _CODE.replace("PARAMETERS", ", ".join(["ptr"] * count))
        .replace("LOADS", "\n".join(loads))
        .replace("ARGUMENTS", ", ".join(f"ptr %a{k}" for k in range(count)))
    )


@cache
def runner(target: Target) -> bytes:
    """The program that runs such libraries (see runner.c), for a machine. Raises NoLinker, LinkFailed."""
    return program(Path(__file__).with_name("runner.c").read_text(encoding="utf-8"), "runner", target)
