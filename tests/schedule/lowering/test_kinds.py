"""Kinds of operations: each answers for itself in te, and says by one row how it is lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.dtype import DType
from tilewright.ir.expr import BufferLoad, Expr, IterVar
from tilewright.ir.stmt import BufferStore
from tilewright.schedule.lowering.computation import Computation
from tilewright.schedule.lowering.kind import OperationKind
from tilewright.schedule.lowering.kind_extern import read_whole
from tilewright.schedule.lowering.kinds import KINDS, kind_of
from tilewright.schedule.lowering.nest import Nest
from tilewright.te.hybrid.op import HybridOp
from tilewright.te.operation import GivenOp, Operation
from tilewright.te.shape import zero_based


def every_kind(base: type[Operation] = Operation) -> set[type[Operation]]:
    """The classes of operations that stand in te."""
    below = {kind for direct in base.__subclasses__() for kind in every_kind(direct)}
    return {kind for kind in {base, *below} if kind.__module__.startswith("tilewright.") and kind not in (Operation, GivenOp)}


def test_what_is_computed_has_a_row_by_its_kind_and_nothing_else_has() -> None:
    computed = {kind.kind for kind in every_kind() if not kind.is_given}
    assert computed == set(KINDS) == {"compute", "extern", "hybrid", "scan"}
    assert all(row.name == name for name, row in KINDS.items()) and HybridOp in every_kind()


def test_operations_answer_what_they_are() -> None:
    X, state = te.placeholder((4, 3), name="X"), te.placeholder((4, 3), name="state")
    first = te.compute((1, 3), lambda _, i: X[0, i], name="first")
    step = te.compute((4, 3), lambda t, i: state[t - 1, i] + X[t, i], name="step")
    S = te.scan(first, step, state, inputs=[X], name="S")
    W = te.constant(np.ones(3, "float32"), name="W")
    k = te.reduce_axis((0, 3), "k")
    total = te.compute((4,), lambda t: te.sum(S[t, k] * W[k], axis=k), name="total")
    nouns = {tensor.name: tensor.op.noun for tensor in (X, W, S, step)}
    assert nouns["X"] == "a placeholder: the caller passes it" and nouns["step"] == "a compute" and nouns["S"].startswith("a scan")
    assert [tensor.op.is_given for tensor in (X, W, S, step)] == [True, True, False, False]
    assert [tensor.op.is_passed for tensor in (X, W, S)] == [True, False, False] and W.op.constant is not None
    assert S.op.is_stepwise and S.op.own_placeholders == (state,) and not S.op.values and not S.op.loads
    assert [(tensor.name, output.name) for tensor, output in S.op.shared_memory] == [("first", "S"), ("step", "S"), ("state", "S")]
    assert total.op.reduction is not None and [load.producer for load in total.op.loads] == [S, W]
    assert step.op.reduction is None and step.op.values == step.op.body and step.op.takes_definitions


def test_a_read_before_the_first_step_is_a_fault_unless_a_scan_says_that_it_is_a_state() -> None:
    X, state = te.placeholder((4, 3), name="X"), te.placeholder((4, 3), name="state")
    step = te.compute((4, 3), lambda t, i: state[t - 1, i] + X[t, i], name="step")
    with pytest.raises(tw.TilewrightError, match="step reads outside state") as caught:
        te.create_schedule(step.op)
    called = caught.value.called
    assert caught.value.code == "TW0114" and called is not None and "lambda t, i: state[t - 1, i]" in called.text
    first = te.compute((1, 3), lambda _, i: X[0, i], name="first")
    te.create_schedule(te.scan(first, step, state, inputs=[X]).op)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReverseOp(Operation):
    """The elements of a tensor in reverse order: a kind of its own, for the sake of this test."""

    source_tensor: te.Tensor
    kind: ClassVar[str] = "reverse"
    noun: ClassVar[str] = "a reversal"

    @property
    def output_dtypes(self) -> tuple[DType, ...]:
        return (self.source_tensor.dtype,)

    @property
    def output_shape(self) -> tuple[Expr, ...]:
        return self.source_tensor.shape

    @cached_property
    def input_tensors(self) -> tuple[te.Tensor, ...]:
        return (self.source_tensor,)

    def replace_inputs(self, tensors: Mapping[te.Tensor, te.Tensor]) -> ReverseOp:
        new = tensors.get(self.source_tensor)
        return self if new is None else ReverseOp(name=self.name, axis=self.axis, source_tensor=new)


def _collect_reads(computation: Computation) -> None:
    for tensor in computation.op.input_tensors:
        read_whole(computation, tensor)


def _nest(nest: Nest) -> BufferStore:
    op = nest.computation.op
    offsets = nest.stage_bounds.offsets
    (axis,) = op.axis
    mirrored = BufferLoad(nest.storage.buffers[op.input_tensors[0]], (op.output_shape[0] - 1 - offsets[axis],))
    return nest.loops(nest.stage_bounds.loops, nest.guarded(nest.stores([mirrored], offsets), offsets), attach=True)


def test_a_kind_is_added_by_a_class_and_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "reverse", OperationKind("reverse", _collect_reads, _nest, whole=True))
    A = te.placeholder((10,), name="A")
    doubled = te.compute((10,), lambda i: A[i] * 2, name="doubled")
    domain = zero_based(doubled.shape[0])
    R = ReverseOp(name="R", axis=(IterVar("i", domain.begin.dtype, domain),), source_tensor=doubled).output(0)
    C = te.compute((10,), lambda i: R[i] + 1, name="C")
    s = te.create_schedule(C.op)
    s[R].vectorize(s[R].split(R.op.axis[0], 4)[1])
    with pytest.raises(tw.ScheduleError, match="R, which reads it, is a reversal"):
        s[doubled].compute_inline()
    f = tw.build(s, [A, C], target="interpret")
    values, out = np.arange(10, dtype="float32"), np.zeros(10, "float32")
    f(values, out)
    assert (out == values[::-1] * 2 + 1).all() and kind_of(R.op).name == "reverse"
