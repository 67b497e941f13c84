"""tvm.testing."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["assert_allclose"]


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """numpy's assert_allclose with TVM's tolerances, shapes compared first."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    assert actual.shape == desired.shape, f"shapes differ: {actual.shape} and {desired.shape}"
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)
