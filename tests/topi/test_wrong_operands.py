"""Whatever an operator is given in the place of a tensor is refused by an error with a code, which says what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

NO_TENSORS: list[Any] = [object(), None, "x", np.random]


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    for room in ("topi", "topi.nn", "topi.image"):
        module = import_module(f"tilewright.{room}")
        for name in dir(module):
            operator = getattr(module, name)
            if inspect.isroutine(operator) and not name.startswith("_"):
                yield f"{room}.{name}", operator


OPERATORS = dict(public())


def called_with(operator: Callable[..., Any], wrong: Any) -> Any:
    """The call whose first operand is wrong, and whose others are matrices, as far as it asks for any."""
    matrix, arguments, named = te.placeholder((4, 4), name="A"), [wrong], {}
    for parameter in list(inspect.signature(operator).parameters.values())[1:]:
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            arguments.append(matrix)
        elif parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = matrix
    return operator(*arguments, **named)


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_no_tensor_is_refused_with_a_code(name: str) -> None:
    for wrong in NO_TENSORS:
        with pytest.raises(tw.TilewrightError, match="TW0") as caught:
            called_with(OPERATORS[name], wrong)
        error = caught.value
        assert error.code.startswith("TW0") and (error.fix or error.allowed), f"{name} of {wrong!r}"


def test_the_errors_of_operators_say_what_they_take() -> None:
    assert {"topi.add", "topi.nn.conv2d", "topi.image.box_blur"} <= set(OPERATORS) and len(OPERATORS) > 200
    kernel = te.placeholder((4, 3, 3, 3), name="kernel")
    with pytest.raises(tw.TilewrightError, match="a convolution takes a tensor") as caught:
        topi.nn.conv2d([1, 2], kernel, 1, 0)
    assert caught.value.code == "TW0181" and "got [1, 2]" in str(caught.value)
    with pytest.raises(tw.TilewrightError, match="conv2d_prepack takes 4 dimensions"):
        topi.nn.conv2d_prepack(np.zeros((3, 3), "float32"))
    with pytest.raises(tw.TilewrightError, match="quantize_groups takes a tensor of 2 dimensions"):
        topi.nn.quantize_groups(kernel)
    with pytest.raises(tw.TilewrightError, match="elemwise_sum takes a list of tensors"):
        topi.elemwise_sum(kernel)


def test_an_operator_that_is_spelt_wrong_is_found_in_the_packages_below() -> None:
    for name, meant in (
        ("sofmax", r"did you mean topi\.nn\.softmax"),
        ("softmax", r"write topi\.nn\.softmax"),
        ("matmull", r"did you mean topi\.matmul"),
        ("box_blurr", r"did you mean topi\.image\.box_blur"),
    ):
        with pytest.raises(tw.TilewrightError, match=rf"TW0136: topi has no {name}\n(.*\n)*.*{meant}"):
            getattr(topi, name)
