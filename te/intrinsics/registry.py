"""The tensor intrinsics that come with tilewright, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...base.errors import user_source
from ..errors import UnknownIntrinsic
from ..tensor_intrin import TensorIntrin

__all__ = ["get", "names", "register_intrinsic"]

_FACTORIES: dict[str, Callable[..., TensorIntrin]] = {}
_LISTED: list[str] = []


def register_intrinsic(
    name: str, listed: bool = True
) -> Callable[[Callable[..., TensorIntrin]], Callable[..., TensorIntrin]]:
    """Make a function that declares an intrinsic known as `name`; its arguments are ints and strings. listed: `names` has it,
    which those of an accelerator are not, since they are there once somebody has named it."""

    def register(factory: Callable[..., TensorIntrin]) -> Callable[..., TensorIntrin]:
        _FACTORIES[name] = factory
        if listed and name not in _LISTED:
            _LISTED.append(name)
        return factory

    return register


def names() -> tuple[str, ...]:
    """The names that `get` takes, but for those of accelerators."""
    return tuple(_LISTED)


def get(name: str, *arguments: int | str) -> TensorIntrin:
    """The intrinsic `name`, for these arguments (its sizes). Raises UnknownIntrinsic (TW0135) for other names and arguments."""
    factory: Any = _FACTORIES.get(name)
    if factory is None:
        raise UnknownIntrinsic(
            f"there is no tensor intrinsic {name!r}",
            called=user_source(),
            allowed=", ".join(_LISTED),
            fix="declare your own: te.decl_tensor_intrin(op, fcompute, name)",
        )
    parameters = inspect.signature(factory)
    try:
        parameters.bind(*arguments)
    except TypeError as fault:
        raise UnknownIntrinsic(
            f"the tensor intrinsic {name!r} does not take {arguments!r}",
            reason=str(fault),
            called=user_source(),
            fix=f"te.intrinsics.get({name!r}, ...) takes {parameters}",
        ) from None
    return replace(factory(*arguments), shipped=(name, tuple(arguments)))
