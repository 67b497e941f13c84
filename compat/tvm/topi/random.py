"""topi.random: numbers by counting, with TVM's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import te
from ....driver.build import build
from ....topi.random import normal as normal
from ....topi.random import threefry_generate as threefry_generate
from ....topi.random import threefry_split as threefry_split
from ....topi.random import uniform as uniform

__all__ = ["normal", "threefry_generate", "threefry_split", "threefry_test_wrapping", "uniform"]


def threefry_test_wrapping(target: Any, device: Any) -> bool:
    """Return whether the greatest uint64 and 1 are 0 there."""
    del device
    given = te.placeholder((1,), "uint64", name="given")
    total = te.compute((1,), lambda i: given[i] + te.const(1, "uint64"), name="total")
    found = np.ones(1, "uint64")
    build([given, total], target=str(target))(np.array([2**64 - 1], "uint64"), found)
    return not found[0]
