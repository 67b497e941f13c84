"""The declaration of tensor intrinsics: what a piece of hardware or of outside code computes, and the code that makes it do so.

    a, b = te.placeholder((4,), ...), te.placeholder((16, 4), ...)
    c = te.compute((16,), lambda i: te.sum(a[k] * b[i, k], axis=k))       what it computes
    te.decl_tensor_intrin(c.op, lambda ins, outs: body)                   how, in terms of buffers

The declared buffers stand for parts of larger ones: their strides and offset may be symbols, which take the values that
the part has where the intrinsic is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..base.arguments import is_a, to_list
from ..base.errors import user_source
from ..ir import Allocate, Evaluate, Expr, IterVar, Node, Stmt, Var, post_order
from ..ir.accesses import reading_only, written_buffers
from ..ir.buffer import SCOPES, Buffer, is_scope
from ..ir.dtype import HANDLE, INT32
from .errors import BadDeclaredBuffer, BadTensorIntrin
from .operation import ComputeOp, Operation
from .shape import Extent, Shape, convert_shape, integer_expr, same_extent, scalar_dtype, shape_text
from .tensor import Tensor
from .tensor_intrin import TensorIntrin

__all__ = ["decl_buffer", "decl_tensor_intrin"]


def decl_buffer(
    shape: Shape,
    dtype: object = "float32",
    name: str = "buffer",
    data: Var | None = None,
    strides: Sequence[Extent] | None = None,
    elem_offset: Extent | None = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
) -> Buffer:
    """A buffer that stands for a part of another in a tensor intrinsic.

    Parameters
    ----------
    shape : int, Expr or sequence of these
        Of the part.
    dtype : str or dtype, default "float32"
        Of its elements.
    name : str, default "buffer"
        For messages and printed loops.
    data : Var or None, default None
        The variable of its address; a new one where it is None.
    strides : sequence of int or Var, optional
        In elements, a number or a te.var each; None demands that the part is compact.
    elem_offset : int, Var or None, default None
        In elements, of the first one.
    scope : str, default ""
        The memory that it must be in; "" takes any.
    data_alignment : int, default -1
        Of its address, in bytes (-1: of an element's).
    offset_factor : int, default 0
        The offset of the first element is a multiple of it, in elements.

    Raises
    ------
    BadDeclaredBuffer (TW0133)
        Strides, scope, alignment or offset_factor mean nothing.
    BadExtent (TW0110)
        An extent is not an integer, or negative.
    UnknownDType (TW0101)
        There is no such dtype.
    """
    extents = convert_shape(shape, name)
    steps = () if strides is None else convert_shape(strides, name)
    problem = ""
    if steps and len(steps) != len(extents):
        problem = f"{len(steps)} strides for {len(extents)} dimensions"
    elif scope and not is_scope(scope):
        problem = f"its scope is {scope!r}, none of {', '.join(SCOPES)}"
    elif data_alignment > 0 and data_alignment & (data_alignment - 1):
        problem = f"its alignment is {data_alignment}, no power of two"
    elif offset_factor < 0:
        problem = f"its offset_factor is {offset_factor}"
    if problem:
        raise BadDeclaredBuffer(
            f"cannot declare the buffer {name}",
            reason=problem,
            called=user_source(),
            fix='te.decl_buffer((16, 4), "int8", "B", strides=[te.var("s"), 1], offset_factor=1)',
        )
    offset = elem_offset if elem_offset is not None else Var(f"{name}_elem_offset", INT32)
    pointer = data if data is not None else Var(f"{name}_data", HANDLE)
    return Buffer(
        name,
        extents,
        scalar_dtype(dtype),
        steps,
        integer_expr(offset, f"the offset of {name}"),
        scope or "global",
        max(data_alignment, 0),
        pointer,
        offset_factor,
    )


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Sequence[Var] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """An intrinsic for Stage.tensorize, and to be called in a te.compute.

    Parameters
    ----------
    op : Operation
        The computation that the instruction does, on placeholders.
    fcompute : callable
        `fcompute(ins, outs)` gets a buffer for each input and each output, and returns the body (a statement or a call), or (body,
        reduce_init, reduce_update) for a reduction of which one call may do a part; reduce_init None lets the body begin.
    name : str, default "tensor_intrin"
        Of the intrinsic.
    binds : dict of Tensor to Buffer, optional
        Declared buffers for tensors; others get compact ones, made with default_buffer_params.
    scalar_params : sequence of Var, optional
        te.vars that op and the bodies use; fcompute then is called with (ins, outs, scalar_params). Their values are passed where the
        intrinsic is called, and found in what is computed where a loop is tensorized.
    default_buffer_params : dict, optional
        Arguments of te.decl_buffer for the compact ones.

    Raises
    ------
    BadTensorIntrin (TW0132)
        op is no compute on placeholders, a buffer is not of its tensor's shape and dtype, or a body touches others or writes what it
        should read.
    BadDeclaredBuffer (TW0133)
        No buffer has such default_buffer_params.
    """
    compute = op.as_compute if is_a(op, Operation) else None
    if compute is None or any(not tensor.op.is_passed for tensor in op.input_tensors):
        raise BadTensorIntrin(
            f"cannot declare the tensor intrinsic {name}",
            declared=getattr(op, "source", None),
            reason="what it computes must be one te.compute over placeholders",
            called=user_source(),
            fix="pass c.op, c being te.compute(shape, lambda ...) that reads te.placeholders alone",
        )
    if not callable(fcompute) or not is_a(binds or {}, Mapping):
        raise BadTensorIntrin(
            f"cannot declare the tensor intrinsic {name}",
            declared=compute.source,
            reason="its bodies come of a function of (ins, outs), and binds is a dict of tensors and their buffers",
            called=user_source(),
            fix="te.decl_tensor_intrin(c.op, lambda ins, outs: ...)",
        )
    given = dict(binds or {})
    buffers: dict[Tensor, Buffer] = {}
    for tensor in (*compute.input_tensors, *compute.outputs):
        buffer = given.pop(tensor, None)
        if buffer is None:
            buffer = decl_buffer(tensor.shape, tensor.dtype, tensor.name, **dict(default_buffer_params or {}))
        _check_bind(name, tensor, buffer)
        buffers[tensor] = buffer
    if given:
        strangers = ", ".join(getattr(tensor, "name", str(tensor)) for tensor in given)
        raise BadTensorIntrin(
            f"cannot declare the tensor intrinsic {name}",
            called=user_source(),
            declared=compute.source,
            reason=f"binds has {strangers}, which {compute.name} does not read",
            allowed=", ".join(tensor.name for tensor in buffers),
            fix="bind the tensors of the operation",
        )
    scalars = _scalars(name, compute, scalar_params)
    ins, outs = [buffers[tensor] for tensor in compute.input_tensors], [buffers[tensor] for tensor in compute.outputs]
    returned = fcompute(ins, outs, list(scalars)) if scalars else fcompute(ins, outs)
    body, init, update = _bodies(name, compute, returned)
    body, init, update = (None if part is None else reading_only(part, ins) for part in (body, init, update))
    assert body is not None, "a body was made"
    for part in (body, init, update):
        if part is not None:
            _check_buffers(name, compute, part, buffers)
            _check_writes(name, compute, part, buffers)
    return TensorIntrin(
        name, compute, compute.input_tensors, buffers, body, init, update, user_source(), scalar_params=scalars
    )


def _scalars(name: str, op: ComputeOp, given: Sequence[Var] | None) -> tuple[Var, ...]:
    symbols = tuple(given or ())
    bad = next((symbol for symbol in symbols if not is_a(symbol, Var) or isinstance(symbol, IterVar)), None)
    if bad is not None or len(set(symbols)) != len(symbols):
        raise BadTensorIntrin(
            f"cannot declare the tensor intrinsic {name}",
            called=user_source(),
            declared=op.source,
            reason=f"its scalar_params are {', '.join(map(repr, symbols))}"[:300],
            allowed="te.vars, each once",
            fix='v = te.var("v", "float32"); scalar_params=[v]',
        )
    return symbols


def _check_bind(name: str, tensor: Tensor, buffer: Buffer) -> None:
    same = (
        is_a(buffer, Buffer)
        and buffer.dtype == tensor.dtype
        and buffer.ndim == tensor.ndim
        and all(same_extent(a, b) for a, b in zip(buffer.shape, tensor.shape, strict=True))
    )
    if not same:
        shown = f"{buffer.dtype} of shape {shape_text(buffer.shape)}" if is_a(buffer, Buffer) else repr(buffer)
        raise BadTensorIntrin(
            f"cannot bind {tensor.name} in the tensor intrinsic {name}",
            declared=tensor.source,
            called=user_source(),
            reason=f"the buffer is {shown}, the tensor {tensor.dtype} of shape {shape_text(tensor.shape)}"[:300],
            fix=f"te.decl_buffer({tensor.name}.shape, {tensor.name}.dtype, ...)",
        )


def _bodies(name: str, op: ComputeOp, returned: Any) -> tuple[Stmt, Stmt | None, Stmt | None]:
    """Return what fcompute returned, as (body, reduce_init, reduce_update)."""
    given: list[object] = to_list(returned)
    parts = [Evaluate(part) if isinstance(part, Expr) else part for part in given]
    if len(parts) not in (1, 3) or any(
        not isinstance(part, Stmt) for part in (parts[0], *(p for p in parts[1:] if p is not None))
    ):
        raise BadTensorIntrin(
            f"the function of the tensor intrinsic {name} returned no body",
            declared=op.source,
            called=user_source(),
            reason=f"got {returned!r}"[:200],
            allowed="a statement (ib.get()), a call, or (body, reduce_init, reduce_update)",
            fix="ib = tw.ir_builder(); ib.emit(...); return ib.get()",
        )
    if len(parts) == 3 and parts[2] is None:
        raise BadTensorIntrin(
            f"the tensor intrinsic {name} has a reduce_init and no reduce_update",
            declared=op.source,
            called=user_source(),
            reason="a reduction that begins must go on",
            fix="return (body, reduce_init, reduce_update), or the body alone",
        )
    if len(parts) == 3 and op.reduction is None:
        raise BadTensorIntrin(
            f"the tensor intrinsic {name} has a reduce_update, but does not reduce",
            declared=op.source,
            called=user_source(),
            reason=f"{op.name} is not a reduction",
            fix="return the body alone",
        )
    body, init, update = (*parts, None, None)[:3]
    return cast(Stmt, body), cast("Stmt | None", init), cast("Stmt | None", update)


def _check_buffers(name: str, op: ComputeOp, part: Stmt, buffers: Mapping[Tensor, Buffer]) -> None:
    """Every buffer that a body uses must be one that it was given, or allocates itself."""
    known: set[object] = set(buffers.values())
    known.update(node.buffer for node in post_order(part) if isinstance(node, Allocate))
    for node in post_order(part):
        buffer = _find_buffer(node)
        if buffer is not None and buffer not in known:
            raise BadTensorIntrin(
                f"the body of the tensor intrinsic {name} uses the buffer {buffer.name}",
                declared=op.source,
                called=user_source(),
                reason="it is none of those that the function was given",
                allowed=", ".join(b.name for b in buffers.values()),
                fix="use ins[...] and outs[...], and pass declared buffers by binds={tensor: buffer}",
            )


def _check_writes(name: str, op: ComputeOp, part: Stmt, buffers: Mapping[Tensor, Buffer]) -> None:
    """No body may write what the operation only reads."""
    written = written_buffers(part)
    for tensor in op.input_tensors:
        if buffers[tensor] in written:
            raise BadTensorIntrin(
                f"the body of the tensor intrinsic {name} writes the buffer {buffers[tensor].name}",
                declared=op.source,
                called=user_source(),
                reason=f"{op.name} only reads {tensor.name}: others may still need what is there",
                fix=f'{buffers[tensor].name}.access_ptr("r")',
            )


def _find_buffer(node: Node) -> Buffer | None:
    buffer = getattr(node, "buffer", None)
    return buffer if isinstance(buffer, Buffer) else None
