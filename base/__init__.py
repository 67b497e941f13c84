"""Foundation of all layers: errors, limits, arguments, input from outside, the environment, and forks.

Its face has what most files take: errors with the user's line, dataclasses, and the limits of numbers. What needs numpy is left out,
so that `import tilewright` stays quick.
"""

from __future__ import annotations

from dataclasses import asdict, field, fields, replace

from .dataclass import dataclass
from .errors import (
    FAULTS,
    CodegenError,
    CudaError,
    InternalError,
    LoweringError,
    PerformanceWarning,
    ScheduleError,
    SourceLine,
    TensorExpressionError,
    TilewrightError,
    internal_error,
    is_interruption,
    user_source,
    warn_user,
)
from .limits import BEYOND_MEMORY, INT32_EXTENT_LIMIT

__all__ = [
    "BEYOND_MEMORY",
    "FAULTS",
    "INT32_EXTENT_LIMIT",
    "CodegenError",
    "CudaError",
    "InternalError",
    "LoweringError",
    "PerformanceWarning",
    "ScheduleError",
    "SourceLine",
    "TensorExpressionError",
    "TilewrightError",
    "asdict",
    "dataclass",
    "field",
    "fields",
    "internal_error",
    "is_interruption",
    "replace",
    "user_source",
    "warn_user",
]
