"""te.extern as a kind of operation: a statement that computes whole tensors from whole tensors, without loops of its own."""

from __future__ import annotations

from ...base.errors import LoweringError, user_source
from ...ir.ops import const
from ...ir.passes.common.fresh_copy import fresh_copy
from ...ir.stmt import Stmt
from ...te.extern import ExternOp
from ...te.shape import declare_axes, zero_based
from ...te.tensor import Tensor
from ..tensorize.bind import bind_parts
from ..tensorize.plan import Part
from .computation import Computation
from .errors import ExternBuffer
from .kind import OperationKind
from .nest import Nest

__all__ = ["KIND", "read_all"]


def read_all(computation: Computation, tensor: Tensor) -> None:
    """Note that a computation reads all of `tensor`."""
    axes = declare_axes(tensor.shape, f"{tensor.name}.ax")
    computation.free.update((axis, axis.dom) for axis in axes if axis.dom is not None)
    computation.reads.setdefault(tensor, []).append(axes)


def _collect_reads(computation: Computation) -> None:
    for tensor in computation.op.input_tensors:
        read_all(computation, tensor)


def _nest(nest: Nest) -> Stmt:
    op = nest.computation.op
    assert isinstance(op, ExternOp)
    stands_for = [*zip(op.in_buffers, op.inputs, strict=True), *zip(op.out_buffers, op.outputs, strict=True)]
    parts = [(buffer, _full_part(tensor)) for buffer, tensor in stands_for]

    def error(kind: type[LoweringError], reason: str, fix: str) -> LoweringError:
        del kind  # that of tensorized loops
        return ExternBuffer(
            f"cannot compute the extern {op.name}", reason=reason, declared=op.source, called=user_source(), fix=fix
        )

    body = bind_parts(nest, parts, fresh_copy(op.body, {}), error, {})
    return nest.loops(nest.stage_bounds.loops, nest.predicate(body, nest.stage_bounds.offsets), attach=True)


def _full_part(tensor: Tensor) -> Part:
    return Part(
        tensor, tuple(const(0, zero_based(extent).begin.dtype) for extent in tensor.shape), tuple(range(tensor.ndim))
    )


KIND = OperationKind("extern", _collect_reads, _nest, whole=True)
