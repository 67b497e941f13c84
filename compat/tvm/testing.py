"""tvm.testing."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...runtime import Device
from .nd import cpu
from .runtime import enabled as device_enabled

__all__ = ["assert_allclose", "device_enabled", "enabled_targets", "main"]


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True) -> None:
    """numpy's assert_allclose with TVM's tolerances, shapes compared first."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    assert actual.shape == desired.shape, f"shapes differ: {actual.shape} and {desired.shape}"
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that can be built and run here, each with its device."""
    return [("llvm", cpu(0))]


def main() -> None:
    """Runs the calling file's tests."""
    import pytest

    caller = sys._getframe(1).f_globals["__file__"]  # pyright: ignore[reportPrivateUsage]
    sys.exit(pytest.main([caller, *sys.argv[1:]]))
