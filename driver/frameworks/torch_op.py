"""A kernel as an operator of torch: with fake tensors, so that torch.compile and torch.export see it, and with its gradient."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ...base.arguments import is_a
from ...base.errors import CallError, user_source
from ...runtime.errors import NoFramework
from ...runtime.kernel import Kernel
from ...runtime.signature import BufferParam, ScalarParam
from .derivative import Declared, kernel_derivative
from .shapes import find_inputs, find_outputs, shape_reader

__all__ = ["torch_operator"]

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")


def torch_operator(kernel: Kernel, name: str, declared: Declared | None) -> Any:
    """Registers the operator `name`, "namespace::name". declared: by which it is differentiated, None for no gradient. Raises
    NoFramework (TW0746)."""
    if not is_a(name, str) or not _NAME.fullmatch(name):
        raise NoFramework(
            f"no operator of torch can be called {name!r}"[:200],
            called=user_source(),
            allowed="a namespace and a name, words",
            fix='"mine::scale"',
        )
    try:
        torch: Any = import_module("torch.library") and import_module("torch")
    except ImportError:
        raise NoFramework(
            "the kernel cannot be an operator of torch",
            reason="torch is not installed",
            called=user_source(),
            fix="pip install torch",
        ) from None
    operator = _register(torch, kernel, name)
    if declared is not None:
        _add_gradient(torch, kernel, name, declared)
    return operator


def _register(torch: Any, kernel: Kernel, name: str) -> Any:
    """The operator without a gradient. One of this name that was registered here before is replaced."""
    inputs, outputs = find_inputs(kernel.signature), find_outputs(kernel.signature)
    places = [isinstance(param, BufferParam) and param.is_output for param in kernel.signature.params]
    outputs_last = places == sorted(places)  # arguments in order need no shuffling in each call
    dtypes = [getattr(torch, param.dtype) for param in outputs]
    tensors = [at for at, param in enumerate(inputs) if isinstance(param, BufferParam)]
    shapes, empty, tensor, cpu = shape_reader(kernel.signature), torch.empty, torch.Tensor, torch.device("cpu")

    def made(given: Sequence[Any], device: Any) -> list[Any]:
        return [empty(shape, dtype=dtype, device=device) for shape, dtype in zip(shapes(given), dtypes, strict=True)]

    def run_one(*given: Any) -> Any:
        (shape,) = shapes(given)
        result = empty(shape, dtype=dtypes[0], device=cpu)
        for at in tensors:
            if given[
                at
            ].requires_grad:  # below autograd: a refusal by the kernel takes fifty times as long as this question
                return run(*given)
        try:
            kernel(*given, result)
        except CallError:  # torch's tensors may have other strides, which the careful way copies
            return run(*given)
        return result

    def call(given: Sequence[Any], results: Sequence[Any]) -> None:
        if outputs_last:
            kernel(*given, *results)
        else:
            arrays, others = iter(given), iter(results)
            kernel(*(next(others) if is_output else next(arrays) for is_output in places))

    def run(*given: Any) -> Any:
        results = made(given, cpu)
        plain = [one.detach() if isinstance(one, tensor) and one.requires_grad else one for one in given]
        try:
            call(plain, results)
        except CallError:  # most tensors are contiguous: looking at each costs more than the call
            call([one.contiguous() if isinstance(one, tensor) else one for one in plain], results)
        return results[0] if len(results) == 1 else tuple(results)

    def fake(*given: Any) -> Any:
        results = made(given, given[tensors[0]].device if tensors else cpu)
        return results[0] if len(results) == 1 else tuple(results)

    namespace, _, word = name.partition("::")
    if name in _libraries:
        _libraries.pop(name)._destroy()  # an operator of this name is replaced, as in a notebook cell that is run again
    library = _libraries[name] = torch.library.Library(namespace, "FRAGMENT")
    library.define(word + _schema(inputs, len(outputs)), tags=(torch.Tag.pt2_compliant_tag,))
    # below autograd, so that the gradient is what is registered
    library.impl(word, run_one if outputs_last and len(outputs) == 1 else run, "CompositeExplicitAutograd")
    torch.library.register_fake(name, fake, lib=library)
    return getattr(getattr(torch.ops, namespace), word).default


_libraries: dict[str, Any] = {}
"""What holds each operator, by its name."""


def _schema(inputs: Sequence[BufferParam | ScalarParam], results: int) -> str:
    kinds = [
        "Tensor"
        if isinstance(param, BufferParam)
        else "bool"
        if param.dtype == "bool"
        else "float"
        if "float" in param.dtype  # SymInt keeps integers dynamic under torch.compile
        else "SymInt"
        for param in inputs
    ]
    given = ", ".join(f"{kind} a{at}" for at, kind in enumerate(kinds))
    return f"({given}) -> " + ("Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})")


def _add_gradient(torch: Any, kernel: Kernel, name: str, declared: Declared) -> None:
    """Registers the gradient, an operator of its own, which is built when it is first run."""
    derivative = kernel_derivative(kernel, declared)
    if derivative is None:  # nothing to differentiate
        return
    wanted, chosen = derivative.wanted, derivative.chosen
    back = _register(torch, derivative.built(), f"{name}_backward")

    def remember(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001  torch passes it by name
        ctx.numbers = [None if isinstance(one, torch.Tensor) else one for one in inputs]
        ctx.save_for_backward(*(one for one in inputs if isinstance(one, torch.Tensor)))

    def backward(ctx: Any, *grads: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        inputs = [next(saved) if one is None else one for one in ctx.numbers]
        made = back(*inputs, *(grads[at] for at in chosen))
        gradients = iter([made] if len(wanted) == 1 else made)
        return tuple(next(gradients) if at in wanted else None for at in range(len(inputs)))

    torch.library.register_autograd(name, backward, setup_context=remember, lib=_libraries[name])
