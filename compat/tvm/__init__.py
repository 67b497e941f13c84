"""TVM's tensor-expression API (up to 0.19) over tilewright: `from tilewright.compat import tvm`.

A program on tensors and schedules runs with its import lines changed and nothing else.
"""

from __future__ import annotations

from ...errors import TilewrightError as TVMError
from . import arith, ir, nd, runtime, target, te, testing, tir
from .driver import Module as Module
from .driver import build, lower
from .nd import context, cpu, cuda, device, gpu
from .target import Target as Target

__version__ = "0.19.0"
"""The release of TVM whose names these are."""

register_func = runtime.register_func
var = te.var
placeholder = te.placeholder
compute = te.compute
const = te.const
thread_axis = te.thread_axis
reduce_axis = te.reduce_axis
create_schedule = te.create_schedule

__all__ = [
    "Module", "TVMError", "Target", "arith", "build", "compute", "const", "context", "cpu", "create_schedule", "cuda", "device",
    "gpu", "ir", "lower", "nd", "placeholder", "reduce_axis", "register_func", "runtime", "target", "te", "testing", "thread_axis",
    "tir", "var",
]
