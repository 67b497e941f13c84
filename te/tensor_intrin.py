"""Tensor intrinsics, and their calls on parts of tensors in the function of a te.compute (see te/tensor_compute.py).

vadd(A[i, 0:16], B[i * 16 : i * 16 + 16])          a part for each tensor that the intrinsic reads
gemv(A[i, k, 0:4], W[j, k, 0:8, 0:4], reduce_axis=k)
scale(A[i, 0:16], i * 2)                           scalars where the intrinsic has parameters for them

Tensor intrinsics whose shapes have symbols, made for the sizes that they are used with.

    n = te.size_var("n"); x = te.placeholder((n,)); z = te.compute((n,), lambda i: x[i] * 2)

is one intrinsic for all n, which the body may pass on: each use makes one of its own for the n that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base import SourceLine, dataclass, replace, user_source
from ..base.arguments import to_list
from ..ir import Buffer, Expr, IntImm, IterVar, Node, ProducerLoad, Range, Reduce, Stmt, Var, ops, rewrite, substitute
from ..ir.arith.analyzer import Analyzer
from ..ir.errors import NotAnExpression
from ..ir.ops import cast, integer_value
from ..ir.passes.common.fresh_copy import Copier
from .errors import BadTensorIntrin
from .operation import ComputeOp, PlaceholderOp
from .shape import extent_text
from .tensor import Tensor, TensorRegion, TensorSlice, tensor_text

__all__ = [
    "IntrinsicCall",
    "TensorIntrin",
    "TensorPart",
    "pair_dimensions",
    "sized_body",
    "sized_buffer",
    "sized_operation",
    "sized_placeholder",
]


@dataclass(frozen=True, slots=True)
class TensorPart:
    """A box of a tensor. begin: its first element. dims: the dimensions that are those of the intrinsic's tensor; in the
    others it is one element wide."""

    begin: ProducerLoad
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IntrinsicCall:
    """Call of a tensor intrinsic: the value of a whole part of the compute.

    parts: one for each tensor that the intrinsic reads. scalars: one for each scalar parameter. reduce_axis: the axes
    that the compute reduces over beside the intrinsic's own.
    """

    intrinsic: TensorIntrin
    parts: tuple[TensorPart, ...]
    scalars: tuple[Expr, ...]
    reduce_axis: tuple[IterVar, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TensorIntrin:
    """Tensor intrinsic that te.decl_tensor_intrin makes.

    op: what it computes. inputs: the tensors that op reads, in order. buffers: those that stand for each input and each
    output. body: computes the outputs anew. reduce_init, reduce_update: a reduction's beginning, and one more piece of it
    added; None where they are not given. shipped: the name and the arguments by which te.intrinsics.get finds it, for
    those that come with tilewright. scalar_params: symbols of op and of the bodies that each use gives a value.
    """

    name: str
    op: ComputeOp
    inputs: tuple[Tensor, ...]
    buffers: Mapping[Tensor, Buffer]
    body: Stmt
    reduce_init: Stmt | None = None
    reduce_update: Stmt | None = None
    source: SourceLine | None = None
    shipped: tuple[str, tuple[int | str, ...]] | None = None
    scalar_params: tuple[Var, ...] = ()

    def __call__(
        self, *arguments: Any, reduce_axis: Any = None, scalar_inputs: Sequence[Any] | None = None
    ) -> IntrinsicCall:
        """The intrinsic on parts of tensors: what the function of a te.compute returns.

            te.compute((n, 16), lambda i: vadd(A[i, 0:16], B[i, 0:16]))

        arguments: a part for each tensor that it reads (A[i, 0:16], A[i] or A for whole dimensions, A[i, j] for one
        element), and between them, or in scalar_inputs, the values of its scalar parameters, each in order. reduce_axis:
        one or several axes that the parts move along; its results are added up by reduce_update.

        Raises BadTensorIntrin (TW0132) where a part has not the shape or the dtype that is asked for.
        """
        return _call(self, arguments, scalar_inputs, reduce_axis)

    def specialised(self, values: Mapping[Var, Expr]) -> TensorIntrin:
        """The intrinsic with symbols for sizes replaced in its operation, its buffers and its bodies; itself without any."""
        if not values:
            return self
        inputs = {tensor: sized_placeholder(tensor, values) for tensor in self.inputs}
        op = sized_operation(self.op, inputs, values)
        tensors = {**inputs, **dict(zip(self.op.outputs, op.outputs, strict=True))}
        buffers = {tensors[tensor]: sized_buffer(buffer, values) for tensor, buffer in self.buffers.items()}
        renamed = {buffer: buffers[tensors[tensor]] for tensor, buffer in self.buffers.items()}
        body, init, update = (
            None if part is None else sized_body(part, renamed, values)
            for part in (self.body, self.reduce_init, self.reduce_update)
        )
        assert body is not None, "every intrinsic has a body"
        return replace(
            self,
            op=op,
            inputs=tuple(inputs.values()),
            buffers=buffers,
            body=body,
            reduce_init=init,
            reduce_update=update,
        )

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"


def _call(
    intrinsic: TensorIntrin,
    arguments: Sequence[Any],
    scalars: Sequence[Any] | None,
    reduce_axis: Any,
) -> IntrinsicCall:
    """See TensorIntrin.__call__."""
    tensors, scalar_values = _sorted_arguments(intrinsic, list(arguments), scalars)
    boxes = [_box(tensor) for tensor in tensors]
    values: dict[Var, Expr] = {}
    dims: list[tuple[int, ...]] = []
    for box, formal in zip(boxes, intrinsic.inputs, strict=True):
        fit = pair_dimensions(box.extents, formal.shape, values)
        if fit is None:
            is_known = all(isinstance(extent, IntImm) for extent in box.extents)
            raise _bad(
                intrinsic,
                f"the part {box.text} has the extents ({_list_names(box.extents)}), and "
                f"{tensor_text(formal)} is asked for" + ("" if is_known else ", in sizes that are numbers"),
                f"pass a part of shape ({_list_names(formal.shape)})"
                if is_known
                else "pass parts of one size, as A[i:i + 8], of a tensor that is padded to it in a stage of its own",
            )
        if box.begin.dtype != formal.dtype:
            raise _bad(
                intrinsic,
                f"the part {box.text} is {box.begin.dtype}, and {tensor_text(formal)} is asked for",
                "declare the intrinsic for the type of the tensor, or convert the tensor in a stage of its own",
            )
        dims.append(fit)
    axes = _axes(intrinsic, reduce_axis)
    typed = tuple(
        _scalar(intrinsic, value, param) for value, param in zip(scalar_values, intrinsic.scalar_params, strict=True)
    )
    parts = tuple(TensorPart(box.begin, fit) for box, fit in zip(boxes, dims, strict=True))
    return IntrinsicCall(intrinsic.specialised(values), parts, typed, axes)


def _sorted_arguments(
    intrinsic: TensorIntrin, given: list[Any], scalars: Sequence[Any] | None
) -> tuple[list[Any], list[Any]]:
    """The parts of tensors and the scalars. An element `A[i]` may be either: the first ones are parts, as many as lack."""
    lacking = len(intrinsic.inputs) - sum(isinstance(argument, (Tensor, TensorSlice)) for argument in given)
    tensors: list[Any] = []
    values: list[Any] = [] if scalars is None else list(scalars)
    for argument in given:
        if isinstance(argument, (Tensor, TensorSlice)):
            tensors.append(argument)
        elif isinstance(argument, ProducerLoad) and lacking > 0:
            tensors.append(argument)
            lacking -= 1
        else:
            values.append(argument)
    if len(tensors) != len(intrinsic.inputs) or len(values) != len(intrinsic.scalar_params):
        inputs = ", ".join(map(tensor_text, intrinsic.inputs)) or "no tensor"
        scalar = ", ".join(f"{param.name}: {param.dtype}" for param in intrinsic.scalar_params) or "no scalar"
        raise _bad(
            intrinsic,
            f"it was given {len(tensors)} parts of tensors and {len(values)} scalars; it takes {inputs}, and {scalar}",
            f"{intrinsic.name}(A[i, 0:16], ...): a part for each tensor, a value for each scalar",
        )
    return tensors, values


@dataclass(frozen=True, slots=True)
class _Box:
    text: str
    begin: ProducerLoad
    extents: tuple[Expr, ...]


def _box(given: Any) -> _Box:
    if isinstance(given, ProducerLoad):
        return _Box(str(given), given, (ops.const(1),) * len(given.indices))
    tensor: Tensor = given if isinstance(given, Tensor) else given.tensor
    indices: tuple[Expr | slice[Expr, Expr], ...] = () if isinstance(given, Tensor) else given.indices
    begins: list[Expr] = []
    extents: list[Expr] = []
    shown: list[str] = []
    for index in indices:
        if isinstance(index, slice):
            begins.append(index.start)
            extents.append(Analyzer().simplify(ops.subtract(index.stop, index.start)))
            shown.append(f"{index.start}:{index.stop}")
        else:
            begins.append(index)
            extents.append(ops.const(1))
            shown.append(str(index))
    for extent in tensor.shape[len(indices) :]:
        begins.append(ops.const(0, extent.dtype))
        extents.append(extent)
    text = f"{tensor.name}[{', '.join(shown)}]" if isinstance(given, TensorRegion) or shown else tensor.name
    return _Box(text, ProducerLoad(tensor, tuple(begins)), tuple(extents))


def _axes(intrinsic: TensorIntrin, given: Any) -> tuple[IterVar, ...]:
    axes = () if given is None else tuple(to_list(given))
    if not all(isinstance(axis, IterVar) and axis.kind == "reduce" for axis in axes):
        raise _bad(intrinsic, f"its reduce_axis is {given!r}"[:200], 'reduce_axis=te.reduce_axis((0, n), "k")')
    if axes and intrinsic.op.reduction is None:
        raise _bad(
            intrinsic,
            f"it is to reduce over {axes[0].name}, and {intrinsic.op.name} does not reduce",
            "declare an operation that reduces (te.sum(..., axis=k)), and a reduce_update",
        )
    if axes and intrinsic.reduce_update is None:
        raise _bad(
            intrinsic,
            f"it is to go on with a reduction over {axes[0].name}, and has no reduce_update",
            "return (body, reduce_init, reduce_update) from its function",
        )
    return axes


def _scalar(intrinsic: TensorIntrin, given: Any, param: Var) -> Expr:
    try:
        value = ops.convert(given)
    except NotAnExpression:
        value = None
    if (
        value is None
        or value.dtype.lanes != 1
        or not (value.dtype.is_integer or value.dtype.is_float or value.dtype.is_bool)
    ):
        raise _bad(
            intrinsic, f"the scalar {param.name} is {given!r}"[:200], f"pass a number or an expression of {param.dtype}"
        )
    return ops.cast(value, param.dtype)


def _list_names(extents: Sequence[Expr]) -> str:
    return ", ".join(extent_text(extent) if isinstance(extent, IntImm) else str(extent) for extent in extents)


def _bad(intrinsic: TensorIntrin, reason: str, fix: str) -> BadTensorIntrin:
    return BadTensorIntrin(
        f"cannot call the tensor intrinsic {intrinsic.name}",
        reason=reason,
        declared=intrinsic.source,
        called=user_source(),
        fix=fix,
    )


def pair_dimensions(
    extents: Sequence[Expr | int], wanted: Sequence[Expr], values: dict[Var, Expr]
) -> tuple[int, ...] | None:
    """Return which dimensions of a box are those `wanted`, paired from the last on; dimensions of one element may be left out.
    Symbols among `wanted` take the extents that they meet, in `values`. None where it does not fit."""
    sizes = [integer_value(extent, extent) for extent in extents]
    rest = list(range(len(sizes)))
    dims: list[int] = []
    for extent in reversed(wanted):
        size: Any = (
            values.get(extent, extent) if isinstance(extent, Var) else Analyzer().simplify(substitute(extent, values))
        )
        if isinstance(size, IntImm):
            size = size.value
        while rest and sizes[rest[-1]] == 1 and isinstance(size, int) and size != 1:
            rest.pop()
        if not rest or not isinstance(sizes[rest[-1]], int):
            return None
        at = rest.pop()
        if isinstance(size, Var):
            values[size] = cast(IntImm(int(sizes[at])), size.dtype)
        elif size != sizes[at]:
            return None
        dims.insert(0, at)
    return tuple(dims) if all(sizes[at] == 1 for at in rest) else None


def _require_known(value: Expr, values: Mapping[Var, Expr]) -> Expr:
    return Analyzer().simplify(substitute(value, values))


def sized_placeholder(tensor: Tensor, values: Mapping[Var, Expr]) -> Tensor:
    """The placeholder with symbols in its shape replaced."""
    shape = tuple(_require_known(extent, values) for extent in tensor.shape)
    return PlaceholderOp(name=tensor.name, shape=shape, dtype=tensor.dtype, source=tensor.source).output(0)


def sized_buffer(buffer: Buffer, values: Mapping[Var, Expr]) -> Buffer:
    """The buffer with symbols in its shape and strides replaced."""
    shape, strides = (tuple(_require_known(size, values) for size in sizes) for sizes in (buffer.shape, buffer.strides))
    return replace(buffer, shape=shape, strides=strides)


def sized_body(part: Stmt, renamed: Mapping[Buffer, Buffer], values: Mapping[Var, Expr]) -> Stmt:
    """A body of an intrinsic with symbols replaced, on other buffers."""
    copier = Copier(values, fresh=False)
    for old, new in renamed.items():
        copier.rename(old, new)
    return copier.visit(part)


def sized_operation(op: ComputeOp, inputs: Mapping[Tensor, Tensor], values: Mapping[Var, Expr]) -> ComputeOp:
    """The operation with symbols replaced, over axes of these sizes, reading other tensors."""
    known: dict[Var, Expr] = dict(values)
    axes: dict[IterVar, IterVar] = {}
    for axis in (*op.axis, *op.reduce_axis):
        assert axis.dom is not None, "the axes of an operation have domains"
        sized = replace(axis, dom=Range(_require_known(axis.dom.begin, known), _require_known(axis.dom.extent, known)))
        axes[axis] = known[axis] = sized

    def rule(node: Node) -> Node | None:
        if isinstance(node, Var):
            return known.get(node)
        if isinstance(node, ProducerLoad) and isinstance(node.producer, Tensor):
            return ProducerLoad(inputs[node.producer], node.indices)
        return None

    body: list[Expr] = []
    for value in op.body:
        new = rewrite(value, rule)
        body.append(replace(new, axes=tuple(axes[axis] for axis in op.reduce_axis)) if isinstance(new, Reduce) else new)
    if isinstance(body[0], Reduce):
        body = [replace(body[0], value_index=at) for at in range(len(body))]
    return replace(op, axis=tuple(axes[axis] for axis in op.axis), body=tuple(body))
