"""tensorize: a tensor intrinsic does the work of a loop and of everything inside it.

    for i in 4:                            for i in 4:
      for j in 16:            →              gemv(C[i * 16 : i * 16 + 16], A, B)
        for k in 64:
          C[i * 16 + j] += ...

Whether the intrinsic computes what the loops do is decided at lowering (tensorize_match), which then puts its bodies in
their place (tensorize_nest).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import user_source
from ...ir.dtype import INT32
from ...ir.expr import IterVar
from ...te.operation import ComputeOp
from ...te.tensor_compute import TensorComputeOp
from ...te.tensor_intrin import TensorIntrin
from ..errors import BadTensorize
from ..model.attributes import IterAttr
from ..model.axes import find_leaf, outline
from ..model.hybrid_loops import refuse_hybrid
from ..model.relations import Singleton

if TYPE_CHECKING:
    from ..model.stage import Stage

__all__ = ["begin_tensorized", "is_tensorized", "tensorize"]


def tensorize(stage: Stage, axis: IterVar, intrinsic: TensorIntrin) -> None:
    """See Stage.tensorize."""
    find_leaf(stage, axis, "cannot tensorize")
    refuse_hybrid(stage, f"cannot tensorize '{axis.name}' of", "an intrinsic is matched with an expression for each element",
                  "write the part that the intrinsic computes as a te.compute of its own")
    headline = f"cannot tensorize '{axis.name}' of stage {stage.name}"
    if not isinstance(intrinsic, TensorIntrin):
        raise BadTensorize(headline, reason=f"a tensor intrinsic is asked for, {type(intrinsic).__name__} was given",
                           called=user_source(), fix="pass what te.decl_tensor_intrin or te.intrinsics.get returned")
    other = next((one for one in stage.leaf_iter_vars if one is not axis and stage.attr(one).kind == "tensorized"), None)
    if other is not None:
        raise BadTensorize(headline, reason=f"'{other.name}' is tensorized already, and one intrinsic computes a stage",
                           declared=stage.op.source, called=user_source(), loops=outline(stage, [other, axis]),
                           fix=f"tensorize either '{other.name}' or '{axis.name}'")
    if not isinstance(stage.op, ComputeOp) or len(stage.op.outputs) != len(intrinsic.op.outputs):
        raise BadTensorize(
            headline, declared=stage.op.source, called=user_source(), loops=outline(stage, [axis]),
            reason=f"{stage.name} computes {len(stage.op.outputs)} tensors, the intrinsic {intrinsic.name} "
                   f"{len(intrinsic.op.outputs)}", fix="declare an intrinsic of as many outputs")
    stage.schedule.record("tensorize", stage, axis=axis, intrinsic=intrinsic)
    attr = stage.attr(axis)
    stage.iter_attrs[axis] = replace(attr, kind="tensorized", bind_thread=None, intrinsic=intrinsic)


def begin_tensorized(stage: Stage) -> None:
    """Let a stage whose operation calls an intrinsic begin with its loops: the axes around the intrinsic, outermost, then
    those that it takes in, under a tensorized loop. For Stage and Redirection alone."""
    op = stage.op
    if not isinstance(op, TensorComputeOp):
        return
    inner = (*op.tensor_axis, *op.inner_reduce)
    stage.all_iter_vars = [*(axis for axis in stage.root_iter_vars if axis not in inner), *inner]
    if not inner:  # one element a call
        relation = Singleton(IterVar("call", INT32, kind="opaque"))
        stage.relations = [relation]
        stage.all_iter_vars.append(relation.iter)
    stage.leaf_iter_vars = list(stage.all_iter_vars)
    stage.iter_attrs[inner[0] if inner else stage.all_iter_vars[-1]] = IterAttr(kind="tensorized", intrinsic=op.intrinsic)


def is_tensorized(stage: Stage) -> bool:
    """Whether an intrinsic computes the stage, or a loop of it."""
    return any(attr.kind == "tensorized" for attr in stage.iter_attrs.values())
