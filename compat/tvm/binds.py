"""`binds=` of tvm.lower and tvm.build: the buffers that stand for tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...base.errors import user_source
from ...codegen.errors import ArgumentNotBuildable
from ...ir import Allocate, Buffer, BufferLoad, BufferStore, Expr, Function, Node, Var, rewrite
from ...ir.arith import Analyzer
from ...ir.ops import integer_value
from ...te import Tensor

__all__ = ["Binds", "bound", "need_no_binds", "tensors_of"]

Binds = Mapping[Tensor, Buffer]


def tensors_of(args: Sequence[Any], binds: Binds | None) -> list[Tensor | Var]:
    """The arguments, with the tensor in place of each buffer that stands for one. Raises ArgumentNotBuildable for binds that
    a kernel's arguments cannot keep: they are compact, begin at their first element, and never overlap."""
    tensors: dict[Buffer, Tensor] = {}
    for tensor, buffer in (binds or {}).items():
        problem = _problem(tensor, buffer, tensors)
        if problem:
            name = getattr(tensor, "name", tensor)
            raise ArgumentNotBuildable(
                f"cannot bind {name} to {getattr(buffer, 'name', buffer)}",
                reason=problem,
                called=user_source(),
                allowed="a tensor to a buffer of its own, of the same shape and dtype, without strides and offset",
                fix=f"tvm.tir.decl_buffer({name}.shape, {name}.dtype, name=...)",
            )
        tensors[buffer] = tensor
    given: list[Any] = [tensors.get(arg, arg) if isinstance(arg, Buffer) else arg for arg in args]
    left_out = [tensor.name for tensor in tensors.values() if tensor not in given]
    if left_out:
        raise ArgumentNotBuildable(
            f"cannot bind {', '.join(left_out)}",
            called=user_source(),
            reason="a tensor that is not an argument lies in the kernel's own memory",
            fix="pass it in args too",
        )
    return given


def need_no_binds(binds: Binds | None) -> None:
    """Refuse binds for what is lowered already. Raises ArgumentNotBuildable where there are any."""
    if binds:
        raise ArgumentNotBuildable(
            "cannot bind the arguments of a lowered function",
            called=user_source(),
            reason="its parameters are buffers already",
            fix="tvm.lower(s, args, binds=binds)",
        )


def _problem(tensor: Any, buffer: Any, others: Mapping[Buffer, Tensor]) -> str:
    """Return the reason for which a tensor cannot be bound to a buffer; "" where it can."""
    if not isinstance(tensor, Tensor) or not isinstance(buffer, Buffer):
        return f"binds is a dict of tensor to buffer, and has {type(tensor).__name__} to {type(buffer).__name__}"
    if buffer in others:
        return f"the buffer stands for {others[buffer].name} already, and arguments do not overlap"
    if (
        buffer.dtype != tensor.dtype
        or len(buffer.shape) != len(tensor.shape)
        or not all(map(_same, buffer.shape, tensor.shape))
    ):
        return f"the buffer is {_type_text(buffer)}, and the tensor {_type_text(tensor)}"
    if buffer.scope != "global":
        return f"its scope is {buffer.scope!r}, and arguments are global"
    if buffer.elem_offset is not None and not isinstance(buffer.elem_offset, Var) and not _same(buffer.elem_offset, 0):
        return f"it begins {buffer.elem_offset} elements into its memory"
    step: Any = 1
    for extent, stride in reversed(list(zip(buffer.shape, buffer.strides, strict=False))):
        if not _same(stride, step):
            return f"its stride of {stride} is not the {step} of compact memory"
        step = extent * step
    return ""


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    difference = one - other
    simplified = Analyzer().simplify(difference) if isinstance(difference, Expr) else difference
    value = integer_value(simplified, simplified)
    return isinstance(value, int) and value == 0


def _type_text(one: Buffer | Tensor) -> str:
    return f"{one.dtype}[{', '.join(map(str, one.shape))}]"


def bound(function: Function, args: Sequence[Any], binds: Binds | None) -> Function:
    """The function whose parameters have the names of the buffers that stand for its arguments."""
    names: dict[Buffer, str] = {
        param: binds[tensor].name
        for param, tensor in zip(function.params, args, strict=False)
        if binds and isinstance(param, Buffer) and isinstance(tensor, Tensor) and tensor in binds
    }
    if not names:
        return function
    named = {old: replace(old, name=name) for old, name in names.items()}

    def rule(node: Node) -> Node | None:
        if isinstance(node, (Allocate, BufferLoad, BufferStore)) and node.buffer in named:
            return replace(node, buffer=named[node.buffer])
        return None

    params = tuple(named.get(param, param) if isinstance(param, Buffer) else param for param in function.params)
    return replace(
        function,
        params=params,
        outputs=tuple(named.get(tensor, tensor) for tensor in function.outputs),
        body=rewrite(function.body, rule),
    )
