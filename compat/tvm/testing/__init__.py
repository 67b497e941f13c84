"""tvm.testing: comparing, and the decorators of TVM's own tests, which say what a test runs on.

The targets here are "llvm", and "cuda" where a GPU can be used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np

from .... import te
from ....driver.build import build
from ....ir import ops
from ....ir.visit import substitute
from ....runtime import Device
from ..arith import Analyzer
from ..contrib.nvcc import have_tensorcore
from ..nd import cpu, cuda, device
from ..runtime import enabled as device_enabled

__all__ = [
    "assert_allclose",
    "assert_prim_expr_equal",
    "check_bool_expr_is_true",
    "check_numerical_grads",
    "device_enabled",
    "enabled_targets",
    "exclude_targets",
    "fixture",
    "known_failing_targets",
    "main",
    "parameter",
    "parametrize_targets",
    "requires_cublas",
    "requires_cuda",
    "requires_cudnn",
    "requires_gpu",
    "requires_hexagon",
    "requires_llvm",
    "requires_metal",
    "requires_micro",
    "requires_nvptx",
    "requires_opencl",
    "requires_package",
    "requires_rocm",
    "requires_rpc",
    "requires_tensorcore",
    "requires_vulkan",
    "requires_x86",
    "skip_if_32bit",
    "skip_if_32bit_device",
    "slow",
    "uses_gpu",
    "utils",
]

utils = SimpleNamespace(install_request_hook=lambda depth=0: None)
"""tvm.testing.utils: TVM's tutorials turn what they download to copies of theirs; nothing is downloaded here."""


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True) -> None:
    """numpy's assert_allclose with TVM's tolerances, shapes compared first."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    assert actual.shape == desired.shape, f"shapes differ: {actual.shape} and {desired.shape}"
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raise ValueError where two expressions, or numbers, are not proved to be equal."""
    left, right = ops.match_types(ops.convert(lhs), rhs)
    if not Analyzer().can_prove_equal(left, right):
        raise ValueError(f"not proved to be equal:\n{left}\nand\n{right}")


def check_bool_expr_is_true(bool_expr: Any, vranges: Any, cond: Any = None) -> None:
    """Raise AssertionError where an expression is false for some values of its variables within ranges (of numbers), for which
    `cond` holds."""
    condition = ops.truth(bool_expr) if cond is None else ops.logical_or(ops.logical_not(cond), bool_expr)
    variables = list(vranges)

    def value(*places: Any) -> Any:
        return substitute(
            condition, {var: place + vranges[var].begin for var, place in zip(variables, places, strict=True)}
        )

    holds = te.compute([vranges[var].extent for var in variables], value, name="holds")
    found: np.ndarray[Any, Any] = np.empty([int(vranges[var].extent) for var in variables], "bool")
    build(te.create_schedule(holds.op), [holds])(found)
    if not found.all():
        at = np.argwhere(~found)[0]
        where = ", ".join(
            f"{var.name} = {place + int(vranges[var].begin)}" for var, place in zip(variables, at, strict=True)
        )
        raise AssertionError(f"{bool_expr} is false at {where}")


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Sequence[Any],
    grad_values: Sequence[Any],
    function_value: Any = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Raise AssertionError where gradients of a function, from arrays to a number, are not its slopes over steps of `delta`: where
    they differ by more than atol an element, on the average, and rtol of their length. Elements at which the slopes to both sides
    are far apart, as at a kink, are left out. function_value is computed again."""
    del function_value
    values = [np.array(value) for value in input_values]
    here = float(function(*values))
    for which, gradient in enumerate(grad_values):
        steps, slopes = np.zeros((2, gradient.size)), np.zeros((2, gradient.size))
        moved = values[which].reshape(-1)
        for at in range(gradient.size):
            kept = moved[at]
            for side, step in enumerate((-delta, delta)):
                moved[at] = kept + step
                steps[side, at] = float(moved[at]) - float(kept)
                slopes[side, at] = (float(function(*values)) - here) / steps[side, at]
            moved[at] = kept
        smooth = np.abs(slopes[0] - slopes[1]) <= atol + rtol * np.abs(slopes).max(axis=0)
        wanted, got = (np.abs(steps) * slopes).sum(axis=0) / np.abs(steps).sum(axis=0), np.asarray(gradient).reshape(-1)
        off = float(np.linalg.norm((got - wanted)[smooth]))
        most = atol * float(np.sqrt(smooth.sum())) + rtol * float(np.linalg.norm(wanted[smooth]))
        assert off <= most, f"the gradient of input {which} is off by {off:.3g} in all, more than {most:.3g}"


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that can be built and run here, each with its device."""
    return [("llvm", cpu(0)), *([("cuda", cuda(0))] if cuda(0).exist else [])]


def main() -> None:
    """Run the calling file's tests."""
    import pytest

    caller = sys._getframe(1).f_globals["__file__"]  # pyright: ignore[reportPrivateUsage]
    sys.exit(pytest.main([caller, *sys.argv[1:]]))


# Decorators


def uses_gpu(*functions: Callable[..., Any]) -> Any:
    """Decorator of tests that look themselves for what there is: the function as it is."""

    def itself(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    return functions[0] if functions else itself


def _needs(there: bool, reason: str) -> Callable[..., Any]:
    def decorate(*functions: Callable[..., Any]) -> Any:
        import pytest

        mark = pytest.mark.skipif(not there, reason=reason)
        return mark(functions[0]) if functions else mark

    return decorate


requires_llvm = requires_x86 = skip_if_32bit = _needs(True, "")


def requires_gpu(*functions: Callable[..., Any]) -> Any:
    """Skips a test where there is no GPU."""
    return _needs(cuda(0).exist, "there is no GPU")(*functions)


requires_cuda = requires_gpu
requires_opencl = requires_metal = requires_vulkan = requires_rocm = requires_hexagon = requires_nvptx = _needs(
    False, "there is no code for it"
)
requires_cudnn = requires_cublas = requires_rpc = requires_micro = _needs(
    False, "there is no such library or service here"
)
slow = skip_if_32bit_device = uses_gpu


def requires_tensorcore(*functions: Callable[..., Any]) -> Any:
    """Skips a test where no GPU has tensor cores."""
    version = getattr(cuda(0), "compute_version", None)
    return _needs(version is not None and have_tensorcore(version), "there are no tensor cores")(*functions)


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Skips a test where a package is not installed."""
    return _needs(all(find_spec(package) for package in packages), f"needs {', '.join(packages)}")()


def parametrize_targets(*targets: Any) -> Any:
    """Run a test with `target` and `dev` for each of the targets (all where none is named) that can be used here."""
    if len(targets) == 1 and callable(targets[0]):
        return parametrize_targets()(targets[0])
    import pytest

    there = enabled_targets()
    names = [str(target) for target in targets] or [name for name, _ in there]
    kinds = [name for name, _ in there]
    return pytest.mark.parametrize(
        ("target", "dev"), [(name, device(name)) for name in names if name.split()[0] in kinds]
    )


def exclude_targets(*targets: str) -> Callable[[Any], Any]:
    """The other targets' tests: parametrize_targets over those that are not named."""
    return parametrize_targets(*(name for name, _ in enabled_targets() if name not in targets))


def known_failing_targets(*targets: str) -> Callable[[Any], Any]:
    """Exclude targets, as exclude_targets does: what fails there in TVM is not asked here."""
    return exclude_targets(*targets)


def fixture(func: Any = None, *, cache_return_value: bool = False, **options: Any) -> Any:
    """pytest's fixture."""
    import pytest

    del cache_return_value
    make: Callable[..., Any] = getattr(pytest, "fixture")  # noqa: B009 - its overloads take no dict of options
    decorator = make(**options)
    return decorator if func is None else decorator(func)


def parameter(*values: Any, ids: Any = None, by_dict: Any = None) -> Any:
    """A fixture, under the name that it is assigned to, which takes each of the values."""
    import pytest

    named = dict(by_dict or {})
    return pytest.fixture(params=list(named.values()) or list(values), ids=list(named) or ids)(_value)


def _value(request: Any) -> Any:
    return request.param
