"""Whatever an operator is given in the place of what it takes is refused by an error with a code, which says what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from operator_calls import CALLED, arguments_of, operator_named
from tilewright import te, topi
from tilewright.topi import signatures

NO_TENSORS: list[Any] = [object(), None, "x", np.random]


def wrong_values() -> list[Any]:
    """What is put into the place of each argument: other kinds, and numbers, ranks, dtypes and lengths that are rarely right."""
    n = te.var("n")
    tensors = [
        ((), "float32"),
        ((4,), "int32"),
        ((2, 2), "bool"),
        ((n, n), "float32"),
        ((0, 0, 0, 0), "float32"),
        ((1,) * 5, "int8"),
    ]
    return [
        *(te.placeholder(shape, dtype, "W") for shape, dtype in tensors),
        *(None, "", "abc", b"x", 1.5, -0.5, float("nan"), 1j, 0, -1, -7, 3, 2**70, True, n, te.var("f", "float32")),
        *([], [1, 2], [-1, -2], [0.5, 1.5], [[1], [2]], ["a"], [1] * 70, {}, {1}),
        *(object(), np.random, np.ones((2, 2)), np.float32(2), [te.placeholder((2,)), te.placeholder((3,))]),
    ]


def replaced(name: str) -> Iterator[inspect.BoundArguments]:
    """The legal call of an operator with each of its arguments, those it has by default too, in turn replaced by each wrong value;
    outside of a soak by some of them, which are others for each argument."""
    arguments, named = arguments_of(name)
    signature = inspect.signature(operator_named(name))
    step = drawn.count(1, 9)
    for at, parameter in enumerate(signature.parameters.values()):
        for value in wrong_values()[(at + len(name)) % (10 - step) :: 10 - step]:
            bound = signature.bind(*arguments, **named)
            bound.apply_defaults()
            bound.arguments[parameter.name] = (value,) if parameter.kind is parameter.VAR_POSITIONAL else value
            yield bound


def test_every_operator_has_a_legal_call() -> None:
    faces = {
        face: import_module(f"tilewright.{face}")
        for face in ("topi", "topi.nn", "topi.image", "topi.vision", "topi.random")
    }
    names = {
        f"{face}.{name}" for face, module in faces.items() for name in getattr(module, "homes", None) or module.__all__
    }
    assert names - {"topi.schedule"} == set(CALLED)


@pytest.mark.parametrize("name", CALLED)
def test_what_an_operator_does_not_take_is_refused_with_a_code(name: str) -> None:
    operator = operator_named(name)
    arguments, named = arguments_of(name)
    operator(*arguments, **named)
    for bound in replaced(name):
        with suppress(tw.TilewrightError):  # Python's own errors are not let pass
            operator(*bound.args, **bound.kwargs)


@pytest.mark.parametrize("name", CALLED)
def test_an_argument_of_another_kind_is_named(name: str) -> None:
    operator = operator_named(name)
    arguments, named = arguments_of(name)
    _, kinds = signatures.rows(operator.__wrapped__)  # type: ignore[attr-defined]
    for parameter in kinds:
        bound = inspect.signature(operator).bind(*arguments, **named)
        bound.apply_defaults()
        bound.arguments[parameter] = {"a": 1}
        with pytest.raises(tw.TilewrightError, match=rf"{name} takes .* as {parameter}\n  got {{'a': 1}}"):
            operator(*bound.args, **bound.kwargs)


@pytest.mark.parametrize("name", CALLED)
def test_what_is_no_tensor_is_refused_with_a_code(name: str) -> None:
    arguments, named = arguments_of(name)
    if not isinstance(arguments[0], te.Tensor):
        return
    for wrong in NO_TENSORS:
        with pytest.raises(tw.TilewrightError, match="TW0") as caught:
            operator_named(name)(wrong, *arguments[1:], **named)
        error = caught.value
        assert error.code.startswith("TW0") and (error.fix or error.allowed), f"{name} of {wrong!r}"


def test_the_errors_of_operators_say_what_they_take() -> None:
    kernel = te.placeholder((4, 3, 3, 3), name="kernel")
    with pytest.raises(tw.TilewrightError, match=r"topi\.nn\.conv2d takes a tensor as data") as caught:
        topi.nn.conv2d([1, 2], kernel, 1, 0)  # type: ignore[arg-type]
    assert caught.value.code == "TW0181" and "got [1, 2]" in str(caught.value)
    with pytest.raises(tw.TilewrightError, match="conv2d_prepack takes 4 dimensions"):
        topi.nn.conv2d_prepack(np.zeros((3, 3), "float32"))
    with pytest.raises(tw.TilewrightError, match="quantize_groups takes a tensor of 2 dimensions"):
        topi.nn.quantize_groups(kernel)
    with pytest.raises(tw.TilewrightError, match=r"topi\.elemwise_sum takes a list of tensors as xs"):
        topi.elemwise_sum(kernel)  # type: ignore[arg-type]
    with pytest.raises(tw.TilewrightError, match=r"TW0182: topi\.random\.threefry_key takes an integer as seed"):
        topi.random.threefry_key("x")  # type: ignore[arg-type]


def test_an_operator_that_is_spelt_wrong_is_found_in_the_packages_below() -> None:
    for name, meant in (
        ("sofmax", r"did you mean topi\.nn\.softmax"),
        ("softmax", r"write topi\.nn\.softmax"),
        ("matmull", r"did you mean topi\.matmul"),
        ("box_blurr", r"did you mean topi\.image\.box_blur"),
    ):
        with pytest.raises(tw.TilewrightError, match=rf"TW0136: topi has no {name}\n(.*\n)*.*{meant}"):
            getattr(topi, name)
