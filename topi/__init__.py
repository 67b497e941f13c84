"""Operators: functions from tensors to te.compute declarations, and the schedules that make them fast.

    from tilewright import te, topi

    A, B = te.placeholder((512, 256), name="A"), te.placeholder((256, 128), name="B")
    C = topi.nn.relu(topi.matmul(A, B))
    s = topi.schedule(C)                # or tw.build([A, B, C]), which asks for it
    print(s.as_python())                # the schedule as code, to take further

An operator declares what is computed and tags it; topi.schedule cuts any composition of operators into groups and
schedules each by the rule of its tag. Names are TVM's where TVM has them.
"""

from __future__ import annotations

from .homes import HOMES
from .lazy import check_on_use, lazy_attributes

_SUBPACKAGES = ("nn", "image", "random", "vision")
__getattr__, __dir__ = lazy_attributes(
    __name__, {**HOMES["topi"], "schedule": "..driver.schedule"}, _SUBPACKAGES, check_on_use("topi")
)
