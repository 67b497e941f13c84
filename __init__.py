"""tilewright: declare what to compute as tensor expressions, say how by schedule primitives, get fast kernels.

    import tilewright as tw
    from tilewright import te

    A = te.placeholder((1024,), name="A")
    B = te.compute((1024,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B)
    f = tw.build(s, [A, B])

Names are imported when they are first used, so that `import tilewright` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import importing  # first: it loads all the others
from .base.errors import (
    CallError,
    CodegenError,
    CudaError,
    ExportError,
    GraphError,
    InternalError,
    LoweringError,
    PerformanceWarning,
    RecordError,
    ScheduleError,
    TensorExpressionError,
    TilewrightDeprecationWarning,
    TilewrightError,
    TilewrightWarning,
    TuningError,
)

if TYPE_CHECKING:
    from . import autoschedule as autoschedule
    from . import autotune as autotune
    from . import graph as graph
    from . import te as te
    from . import topi as topi
    from .driver.build import build
    from .driver.jit import jit
    from .driver.library import Library
    from .driver.lower import lower
    from .graph.model import Model
    from .ir import Function
    from .ir.builder import ir_builder
    from .ir.packed_functions import register_func
    from .runtime import Array, Device, Kernel, Module, array, cpu, cuda, empty, num_threads, set_num_threads
    from .runtime.load import load

__version__ = "1.0.0rc1"

__all__ = [
    "Array",
    "CallError",
    "CodegenError",
    "CudaError",
    "Device",
    "ExportError",
    "Function",
    "GraphError",
    "InternalError",
    "Kernel",
    "Library",
    "LoweringError",
    "Model",
    "Module",
    "PerformanceWarning",
    "RecordError",
    "ScheduleError",
    "TensorExpressionError",
    "TilewrightDeprecationWarning",
    "TilewrightError",
    "TilewrightWarning",
    "TuningError",
    "array",
    "autoschedule",
    "autotune",
    "build",
    "cpu",
    "cuda",
    "empty",
    "graph",
    "ir_builder",
    "jit",
    "load",
    "lower",
    "num_threads",
    "register_func",
    "set_num_threads",
    "te",
    "topi",
]

_HOMES = {
    "Model": "graph.model",
    "build": "driver.build",
    "lower": "driver.lower",
    "jit": "driver.jit",
    "Library": "driver.library",
    "Function": "ir",
    "ir_builder": "ir.builder",
    "register_func": "ir.packed_functions",
    "Array": "runtime",
    "Device": "runtime",
    "Kernel": "runtime",
    "Module": "runtime",
    "array": "runtime",
    "cpu": "runtime",
    "cuda": "runtime",
    "empty": "runtime",
    "load": "runtime.load",
    "num_threads": "runtime",
    "set_num_threads": "runtime",
}
"""Where each lazy name lives."""


def _get(name: str) -> object:
    if name in ("te", "topi", "autoschedule", "autotune", "graph"):
        return importing.import_on_thread(f".{name}", __name__)
    home = _HOMES.get(name)
    if home is None:
        from .te.errors import NoSuchName
        from .te.unknown_names import unknown_name

        raise unknown_name(
            NoSuchName,
            "tw",
            name,
            __all__,
            {
                "compile": "tw.build",
                "schedule": "tw.autoschedule.schedule, or te.create_schedule",
                "tune": "tw.autotune.tune",
                "nd": "tw.array and tw.empty",
                "compute": "te.compute",
                "placeholder": "te.placeholder",
            },
        )
    value = getattr(importing.import_on_thread(f".{home}", __name__), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # to which every name of a module with __getattr__ is one that it has
    __getattr__ = _get


def __dir__() -> list[str]:
    return sorted((*__all__, *(name for name in globals() if name.startswith("__"))))
