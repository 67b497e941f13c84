"""The derivative of a kernel as a kernel: of what it was declared as, by te.gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ... import te
from ...base.dataclass import dataclass
from ...runtime.kernel import Kernel
from ...runtime.signature import BufferParam, ScalarParam
from ...topi import add

__all__ = ["Declared", "Derivative", "kernel_derivative"]


class Declared(Protocol):
    """The declaration of a kernel."""

    def tensors(self) -> list[Any]: ...

    def built(self, tensors: Sequence[Any], name: str) -> Kernel: ...


@dataclass(frozen=True)
class Derivative:
    """Kernel of a derivative.

    wanted: the places, among the inputs, of those that have a gradient. chosen: the places of the outputs whose gradients it takes,
    behind the inputs. tensors: what it is declared as.
    """

    wanted: Sequence[int]
    chosen: Sequence[int]
    tensors: Sequence[Any]
    declared: Declared

    def built(self) -> Kernel:
        """The kernel from the inputs and the gradients of outputs to those of the inputs."""
        return self.declared.built(self.tensors, "backward")


def kernel_derivative(kernel: Kernel, declared: Declared) -> Derivative | None:
    """The derivative; None where no input or no output is of floats. Raises NoFramework (TW0746) where nothing was declared, and what
    te.gradient raises."""
    tensors, params = declared.tensors(), kernel.signature.params
    is_output = [isinstance(param, BufferParam) and param.is_output for param in params]
    given = [
        tensor
        for tensor, param, made in zip(tensors, params, is_output, strict=True)
        if isinstance(param, ScalarParam) or not made
    ]
    outputs = [tensor for tensor, made in zip(tensors, is_output, strict=True) if made]
    # only floats have derivatives
    wanted = [at for at, tensor in enumerate(given) if isinstance(tensor, te.Tensor) and tensor.dtype.is_float]
    chosen = [at for at, tensor in enumerate(outputs) if tensor.dtype.is_float]
    if not wanted or not chosen:
        return None
    heads = [te.placeholder(outputs[at].shape, outputs[at].dtype, name=f"head{at}") for at in chosen]
    sums: list[Any] = [None] * len(wanted)
    for at, head in zip(chosen, heads, strict=True):
        parts = te.gradient(outputs[at], [given[place] for place in wanted], head)
        # a gradient is the sum over the outputs
        sums = [part if total is None else add(total, part) for total, part in zip(sums, parts, strict=True)]
    results = [
        te.compute(total.shape, lambda *i, total=total: total(*i), name=f"gradient{at}", tag="elemwise")
        for at, total in enumerate(sums)
    ]
    return Derivative(wanted, chosen, [*given, *heads, *results], declared)
