"""A te.compute whose function calls a tensor intrinsic: each call gives a whole part of the result.

    C = te.compute((n, 16), lambda i: vadd(A[i, 0:16], B[i, 0:16]))

    for i in n:
        vadd's body on C[i, 0:16], A[i, 0:16], B[i, 0:16]

The axes of the function's parameters are loops like any others; the dimensions after them are the intrinsic's, under
one tensorized loop, and always computed whole. The operation is an ordinary compute as well: its body is what the
intrinsic's operation computes on those parts, from which everything that asks what is read, or runs the program plainly,
takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ..base import dataclass, replace, user_source
from ..ir import Expr, IterVar, Node, ProducerLoad, Reduce, Var, rewrite, substitute
from ..ir.lazy_values import cached_property
from ..ir.ops import cast, const
from .body import check_body
from .errors import BadTensorIntrin
from .operation import ComputeOp, Operation
from .rewrite import collect_loads, rewrite_reduction
from .shape import declare_axes, extent_text, shape_text
from .tensor import Tensor
from .tensor_intrin import IntrinsicCall, TensorIntrin, TensorPart, pair_dimensions
from .wraparound import wrapping

__all__ = ["TensorComputeOp", "intrinsic_call", "tensor_compute"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TensorComputeOp(ComputeOp):
    """A compute by a tensor intrinsic.

    intrinsic: what computes a part. boxes: the part of a tensor for each that the intrinsic reads, in terms of the outer
    axes. scalars: the values of its scalar parameters. tensor_axis, inner_reduce: the axes that it takes in (the others
    are loops around it). out_dims: the dimensions that are those of the intrinsic's outputs.
    """

    intrinsic: TensorIntrin
    boxes: tuple[TensorPart, ...]
    scalars: tuple[Expr, ...]
    tensor_axis: tuple[IterVar, ...]
    inner_reduce: tuple[IterVar, ...]
    out_dims: tuple[int, ...]
    calls_intrinsic: ClassVar[bool] = True

    @property
    def whole_axes(self) -> tuple[IterVar, ...]:
        return self.tensor_axis

    @property
    def scalar_arguments(self) -> tuple[Expr, ...]:
        return self.scalars

    @property
    def operands(self) -> tuple[Tensor, ...]:
        loads = collect_loads(*(part.begin for part in self.boxes), *self.scalars)
        return tuple(dict.fromkeys(load.producer for load in loads if isinstance(load.producer, Tensor)))

    @cached_property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys((*self.tensors_read(), *self.operands)))

    def rewritten(self, rule: Callable[[Any], Any]) -> ComputeOp:
        """See ComputeOp.rewritten. What is no longer a part of a tensor leaves an ordinary compute behind."""
        body = rewrite_reduction(self.body, rule)
        begins: list[Any] = [rule(part.begin) for part in self.boxes]
        scalars: list[Any] = [rule(value) for value in self.scalars]
        before, after = self.reduce_axis, body[0].axes if isinstance(body[0], Reduce) else ()
        renamed: dict[Var, Expr] = {old: new for old, new in zip(before, after, strict=True) if old is not new}
        begins = [substitute(begin, renamed) for begin in begins]
        if any(not isinstance(begin, ProducerLoad) for begin in begins):
            return ComputeOp(
                name=self.name, tag=self.tag, attrs=self.attrs, source=self.source, axis=self.axis, body=body
            )
        parts = tuple(replace(part, begin=begin) for part, begin in zip(self.boxes, begins, strict=True))
        same = all(new.begin is old.begin for new, old in zip(parts, self.boxes, strict=True)) and all(
            new is old for new, old in zip(scalars, self.scalars, strict=True)
        )
        if same and body is self.body:
            return self
        return replace(self, body=body, boxes=parts, scalars=tuple(substitute(value, renamed) for value in scalars))


def intrinsic_call(op: Operation) -> TensorComputeOp | None:
    """The operation, where it is computed by calls of a tensor intrinsic."""
    return op if isinstance(op, TensorComputeOp) else None


def tensor_compute(
    name: str,
    shape: tuple[Expr, ...],
    axis: tuple[IterVar, ...],
    call: IntrinsicCall,
    tag: str,
    attrs: Mapping[str, Any],
) -> Any:
    """The tensors that `call` gives at the outer axes `axis`; the other dimensions of `shape` are the intrinsic's.

    Raises BadTensorIntrin (TW0132) where the shape is not made of its parts, and what te.compute raises.
    """
    inside = shape[len(axis) :]
    values: dict[Var, Expr] = {}
    out_dims = pair_dimensions([*[const(1)] * len(axis), *inside], call.intrinsic.op.output_shape, values)
    intrinsic = call.intrinsic.specialised(values)
    if out_dims is None:
        raise BadTensorIntrin(
            f"cannot compute {name} by the tensor intrinsic {intrinsic.name}",
            declared=intrinsic.source,
            called=user_source(),
            reason=f"its function takes {len(axis)} of the {len(shape)} indices, so each call is to give a part of shape "
            f"{shape_text(inside)}; the intrinsic gives {shape_text(intrinsic.op.output_shape)}",
            fix=f"te.compute((..., {', '.join(map(extent_text, intrinsic.op.output_shape))}), lambda i: {intrinsic.name}(...))",
        )
    tensor_axis = declare_axes(inside, "ax")
    inner_reduce = tuple(replace(reduced, name=reduced.name) for reduced in intrinsic.op.reduce_axis)
    axes = (*axis, *tensor_axis)
    scalars = wrapping(axes, call.scalars) if call.scalars else ()
    sized_call = replace(call, intrinsic=intrinsic, scalars=scalars)
    values_at: dict[Var, Expr] = {}
    values_at.update(zip(intrinsic.op.reduce_axis, inner_reduce, strict=True))
    for own, dim in zip(intrinsic.op.axis, out_dims, strict=True):
        values_at[own] = cast(axes[dim], own.dtype) if dim >= len(axis) else const(0, own.dtype)
    body = _body(sized_call, values_at, (*call.reduce_axis, *inner_reduce))
    check_body(name, axes, body)
    op = TensorComputeOp(
        name=name,
        tag=tag,
        attrs=dict(attrs),
        source=user_source(),
        axis=axes,
        body=wrapping(axes, body),
        intrinsic=intrinsic,
        boxes=call.parts,
        scalars=scalars,
        tensor_axis=tensor_axis,
        inner_reduce=inner_reduce,
        out_dims=out_dims,
    )
    return op.outputs[0] if len(op.outputs) == 1 else op.outputs


def _body(call: IntrinsicCall, axes: Mapping[Var, Expr], reduce_axis: Sequence[IterVar]) -> tuple[Expr, ...]:
    """Return what the intrinsic's operation computes, on the parts of the call."""
    intrinsic = call.intrinsic
    parts = dict(zip(intrinsic.inputs, call.parts, strict=True))
    known = {**axes, **dict(zip(intrinsic.scalar_params, call.scalars, strict=True))}

    def rule(node: Node) -> Node | None:
        if isinstance(node, Var):
            return known.get(node)
        if isinstance(node, ProducerLoad) and isinstance(node.producer, Tensor):
            part = parts.get(node.producer)
            return None if part is None else _element(part, node.indices)
        return None

    first = intrinsic.op.body[0]
    if not isinstance(first, Reduce):
        return tuple(rewrite(value, rule) for value in intrinsic.op.body)
    reduction = replace(rewrite(first, rule), axes=tuple(reduce_axis))
    return tuple(replace(reduction, value_index=at) for at in range(len(intrinsic.op.body)))


def _element(part: TensorPart, indices: Sequence[Expr]) -> Expr:
    indices_there = list(part.begin.indices)
    for dim, index in zip(part.dims, indices, strict=True):
        indices_there[dim] = indices_there[dim] + cast(index, indices_there[dim].dtype)
    return ProducerLoad(part.begin.producer, tuple(indices_there))
