"""Kinds of operations: each answers for itself in te, and says by one row how it is lowered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import tilewright as tw
from sources import ROOT, source_files
from tilewright import te
from tilewright.ir.dtype import DType
from tilewright.ir.expr import BufferLoad, Expr, IterVar, ProducerLoad
from tilewright.ir.lazy_values import cached_property
from tilewright.ir.stmt import BufferStore
from tilewright.schedule import from_json, to_json
from tilewright.schedule.lowering.computation import Computation
from tilewright.schedule.lowering.kind import OperationKind
from tilewright.schedule.lowering.kind_extern import read_all
from tilewright.schedule.lowering.kinds import KINDS, find_kind
from tilewright.schedule.lowering.nest import Nest
from tilewright.te.hybrid.op import HybridOp
from tilewright.te.operation import GivenOp, Operation
from tilewright.te.scatter_add import Addition
from tilewright.te.shape import zero_based
from tilewright.te.shrink import shrunk


def every_kind(base: type[Operation] = Operation) -> set[type[Operation]]:
    """The classes of operations that stand in te."""
    below = {kind for direct in base.__subclasses__() for kind in every_kind(direct)}
    return {
        kind
        for kind in {base, *below}
        if kind.__module__.startswith("tilewright.") and kind not in (Operation, GivenOp)
    }


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
    assert (
        nouns["X"] == "a placeholder: the caller passes it"
        and nouns["step"] == "a compute"
        and nouns["S"].startswith("a scan")
    )
    assert [tensor.op.is_given for tensor in (X, W, S, step)] == [True, True, False, False]
    assert [tensor.op.is_passed for tensor in (X, W, S)] == [True, False, False] and W.op.constant is not None
    assert S.op.is_stepwise and S.op.own_placeholders == (state,) and not S.op.values and not S.op.loads
    assert [(tensor.name, output.name) for tensor, output in S.op.shared_memory] == [
        ("first", "S"),
        ("step", "S"),
        ("state", "S"),
    ]
    assert total.op.reduction is not None and [load.producer for load in total.op.loads] == [S, W]
    assert step.op.reduction is None and step.op.values == step.op.body and step.op.takes_definitions


def test_a_read_before_the_first_step_is_a_fault_unless_a_scan_says_that_it_is_a_state() -> None:
    X, state = te.placeholder((4, 3), name="X"), te.placeholder((4, 3), name="state")
    step = te.compute((4, 3), lambda t, i: state[t - 1, i] + X[t, i], name="step")
    with pytest.raises(tw.TilewrightError, match="step reads outside state") as caught:
        tw.lower(te.create_schedule(step.op), [X, state, step])
    called = caught.value.called
    assert caught.value.code == "TW0114" and called is not None and "lambda t, i: state[t - 1, i]" in called.text
    first = te.compute((1, 3), lambda _, i: X[0, i], name="first")
    S = te.scan(first, step, state, inputs=[X])
    assert "assert" not in str(tw.lower(te.create_schedule(S.op), [X, S]))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReverseOp(Operation):
    """The elements of a tensor in reverse order: a kind of its own, for the sake of this test."""

    source_tensor: te.Tensor
    differentiable: bool = True
    kind: ClassVar[str] = "reverse"
    noun: ClassVar[str] = "a reversal"

    @classmethod
    def of(cls, tensor: te.Tensor, differentiable: bool = True) -> te.Tensor:
        domain = zero_based(tensor.shape[0])
        axis = IterVar("i", domain.begin.dtype, domain)
        return cls(name="R", axis=(axis,), source_tensor=tensor, differentiable=differentiable).output(0)

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
        return self if new is None else replace(self, source_tensor=new)

    @property
    def additions(self) -> Addition | None:
        (axis,) = self.axis
        (extent,) = self.output_shape
        value = ProducerLoad(self.source_tensor, (axis,))
        return Addition(value, (axis,), (extent - 1 - axis,)) if self.differentiable else None


def _collect_reads(computation: Computation) -> None:
    for tensor in computation.op.input_tensors:
        read_all(computation, tensor)


def _nest(nest: Nest) -> BufferStore:
    op = nest.computation.op
    offsets = nest.stage_bounds.offsets
    (axis,) = op.axis
    mirrored = BufferLoad(nest.storage.buffers[op.input_tensors[0]], (op.output_shape[0] - 1 - offsets[axis],))
    return nest.loops(nest.stage_bounds.loops, nest.guard(nest.stores([mirrored], offsets), offsets), attach=True)


@pytest.fixture
def reversals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind's row, which its file would bring."""
    monkeypatch.setitem(KINDS, "reverse", OperationKind("reverse", _collect_reads, _nest, whole=True))


def around_a_reversal(n: int, differentiable: bool = True) -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor]:
    A = te.placeholder((n,), name="A")
    doubled = te.compute((n,), lambda i: A[i] * 2, name="doubled")
    R = ReverseOp.of(doubled, differentiable)
    return A, doubled, R, te.compute((n,), lambda i: R[i] + 1, name="C")


@pytest.mark.usefixtures("reversals")
@pytest.mark.parametrize("n", [10, 1, 17])
def test_a_kind_is_added_by_a_class_and_a_row(n: int) -> None:
    A, doubled, R, C = around_a_reversal(n)
    s = te.create_schedule(C.op)
    s[R].vectorize(s[R].split(R.op.axis[0], 4)[1])
    with pytest.raises(tw.ScheduleError, match="R, which reads it, is a reversal"):
        s[doubled].compute_inline()
    for refused in (
        lambda: s.cache_write(R, "local"),
        lambda: s.clone_in(R, C),
        lambda: s[R].transform_layout(lambda i: [i]),
    ):
        with pytest.raises(tw.ScheduleError, match=r"R is a reverse|R is not an expression"):
            refused()
    f = tw.build(s, [A, C], target="interpret")
    values, out = np.arange(n, dtype="float32"), np.zeros(n, "float32")
    f(values, out)
    assert (out == values[::-1] * 2 + 1).all() and find_kind(R.op).name == "reverse"


@pytest.mark.usefixtures("reversals")
def test_an_added_kind_is_printed_copied_and_replayed() -> None:
    A, _, R, C = around_a_reversal(10)
    s = te.create_schedule(C.op)
    outer, inner = s[R].split(R.op.axis[0], 4)
    s[R].reorder(inner, outer)
    cached = s.cache_read(R, "local", [C])
    s[cached].parallel(s[cached].op.axis[0])
    text = str(s)
    assert "for i.inner in 4:" in text and "R.local" in text
    other = around_a_reversal(10)
    again = te.Schedule.replay(from_json(to_json(s.trace)), [other[-1].op])
    assert str(again) == text == str(s.copy())
    assert "s[R].split(" in s.as_python() and not s.verify().left_out
    assert str(tw.lower(again, [other[0], other[-1]])) == str(tw.lower(s, [A, C]))


@pytest.mark.usefixtures("reversals")
def test_an_added_kind_is_differentiated_where_it_says_how_and_refused_where_not() -> None:
    A, _, _, C = around_a_reversal(7)
    head = te.placeholder((7,), name="head")
    (gradient,) = te.gradient(C, [A], head)
    f = tw.build(te.create_schedule(gradient.op), [head, gradient], target="interpret")
    values, out = np.arange(7, dtype="float32"), np.empty(7, "float32")
    f(values, out)
    assert (out == 2 * values[::-1]).all()
    A, _, _, C = around_a_reversal(7, differentiable=False)
    with pytest.raises(tw.TilewrightError, match="it is a reverse operation") as caught:
        te.gradient(C, [A], head)
    assert caught.value.code == "TW0170"


def test_operations_on_fewer_elements_keep_a_kind_that_says_nothing_of_it() -> None:
    _, _, _, C = around_a_reversal(10)
    (small,) = shrunk([C.op], lambda number, extent: 3)
    (reversal,) = {tensor.op for tensor in small.input_tensors}
    assert isinstance(reversal, ReverseOp) and [str(extent) for extent in small.output_shape] == ["3"]
    assert [str(extent) for extent in reversal.output_shape] == ["10"] == [str(e) for e in reversal.source_tensor.shape]


ASKS = re.compile(
    r"isinstance\(.*\b(Compute|Scan|Extern|Hybrid|Placeholder|Constant|Given)Op\b|\bop\.kind (?:==|!=|in|not in)"
)


def test_nobody_asks_an_operation_of_which_kind_it_is() -> None:
    own = ("schedule/lowering/kind_", "schedule/lowering/scan.py")
    others = [path for path in source_files("te", "tools") if not str(path.relative_to(ROOT)).startswith(own)]
    asking = [f"{path}: {match.group(0)}" for path in others for match in ASKS.finditer(path.read_text())]
    assert len(others) > 300 and not asking, "an operation answers for itself: see te/operation.py"
    assert ASKS.search("if isinstance(stage.op, ScanOp):") and ASKS.search("isinstance(head(op), (Other, HybridOp))")
