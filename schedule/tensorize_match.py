"""Whether a tensor intrinsic computes what the loops under a tensorized one do, and on which parts of which tensors.

The values of the stage are written in terms of the axes of the intrinsic: each root axis is a begin, which the loops
outside decide, plus an axis of the intrinsic. Then both bodies are walked side by side. Where the stage reads A[i, j] and
the intrinsic a[k], the part of A begins at what is left of (i, j) without k, and nothing of that may depend on an axis
of the intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod

from ..errors import LoweringError, user_source
from ..ir.arith.analyzer import Analyzer
from ..ir.expr import (
    EQ, NE, Add, And, BinaryOp, Call, CommReducer, Expr, FloatImm, IntImm, IterVar, Let, Max, Min, Mul, Node, Or,
    ProducerLoad, Reduce, StringImm, Var,
)
from ..ir.ops import cast, const, is_const
from ..ir.visit import children, post_order, rewrite, substitute, walk
from ..te.tensor import Tensor
from ..te.tensor_intrin import TensorIntrin
from .axes import outline
from .bounds import Loop, StageBounds
from .lower_errors import TensorizeBody, TensorizeRegion
from .regions import Span, SpanEvaluator

__all__ = ["Part", "Plan", "match", "tensorized_place"]

_COMMUTATIVE = (Add, Mul, Min, Max, And, Or, EQ, NE)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a tensor that an intrinsic works on. begin: in the tensor, for each of its dimensions. dims: which of
    them are the dimensions of the intrinsic's tensor; in the others the part is one element wide."""

    tensor: Tensor
    begin: tuple[Expr, ...]
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What lowering needs: the intrinsic, the place of its loop, and the part that each of its tensors is."""

    intrinsic: TensorIntrin
    place: int
    parts: dict[Tensor, Part]


@dataclass(slots=True)
class _Stage:
    """A stage as the match sees it. resolve: replaces axes, threads and symbols in a value, keeping reads of tensors."""

    found: StageBounds
    place: int
    intrinsic: TensorIntrin
    analyzer: Analyzer
    axes: Mapping[IterVar, Expr]
    """The value of each root axis in terms of loops."""
    resolve: Callable[[Expr, Mapping[IterVar, Expr]], Expr]

    @property
    def inner(self) -> tuple[Loop, ...]:
        return self.found.loops[self.place :]

    def error(self, kind: type[LoweringError], reason: str, fix: str) -> LoweringError:
        loop, stage = self.found.loops[self.place], self.found.computation.stage
        return kind(f"cannot tensorize '{loop.axis.name}' of stage {stage.name} by {self.intrinsic.name}", reason=reason,
                    declared=stage.op.source, called=user_source(), loops=outline(stage, [loop.axis]), fix=fix)


def tensorized_place(found: StageBounds) -> int:
    """The index of the tensorized loop among those of the stage; -1 for none."""
    return next((at for at, loop in enumerate(found.loops) if loop.attr.kind == "tensorized"), -1)


def match(
    found: StageBounds, place: int, axes: Mapping[IterVar, Expr], analyzer: Analyzer,
    resolve: Callable[[Expr, Mapping[IterVar, Expr]], Expr],
) -> Plan:
    """The plan for the tensorized loop at `place`. axes: the value of each root axis in terms of loops.

    Raises TensorizeRegion and TensorizeBody.
    """
    intrinsic = found.loops[place].attr.intrinsic
    assert intrinsic is not None
    stage = _Stage(found, place, intrinsic, analyzer, axes, resolve)
    for axis in (*intrinsic.op.axis, *intrinsic.op.reduce_axis):
        if axis.dom is not None:
            analyzer.bind(axis, axis.dom)
    values, begins = _in_axes_of_the_intrinsic(stage)
    parts: dict[Tensor, Part] = {}
    op = found.computation.op
    begin = tuple(begins[axis] for axis in op.axis)
    dims = tuple(at for at, axis in enumerate(op.axis) if values[axis] is not begins[axis])
    for mine, its in zip(op.outputs, intrinsic.op.outputs, strict=True):
        parts[its] = Part(mine, begin, dims)
    _Bodies(stage, values, parts).compare()
    return Plan(intrinsic, place, parts)


# Axes


def _in_axes_of_the_intrinsic(stage: _Stage) -> tuple[dict[IterVar, Expr], dict[IterVar, Expr]]:
    """The value of each root axis in terms of outer loops and axes of the intrinsic, and its begin under outer loops."""
    op, its = stage.found.computation.op, stage.intrinsic.op
    extents: dict[IterVar, int] = {}
    begins: dict[IterVar, Expr] = {}
    for axis in (*op.axis, *op.reduce_axis):
        begins[axis], extents[axis] = _extent_under(stage, axis)
    _check_box(stage, extents)
    values: dict[IterVar, Expr] = {}
    for mine, wanted, kind in ((op.axis, its.axis, "data"), (op.reduce_axis, its.reduce_axis, "reduce")):
        pairs = _paired(stage, mine, wanted, extents, kind)
        for axis in mine:
            partner = pairs.get(axis)
            values[axis] = begins[axis] if partner is None else begins[axis] + cast(partner, axis.dtype)
    return values, begins


def _extent_under(stage: _Stage, axis: IterVar) -> tuple[Expr, int]:
    """Where a root axis begins under the outer loops, and how many values the inner loops take it through."""
    value = stage.axes[axis]
    zeros = {loop.var: const(0, loop.var.dtype) for loop in stage.inner if loop.var is not None}
    begin = stage.analyzer.simplify(substitute(value, zeros))
    spans = {loop.var: Span.of(const(0, loop.var.dtype), loop.extent) for loop in stage.inner if loop.var is not None}
    offset = stage.analyzer.simplify(value - begin)
    span = SpanEvaluator(spans, stage.analyzer)(offset)
    if span is None or not isinstance(span.high, IntImm) or not is_const(span.low, 0):
        raise stage.error(
            TensorizeRegion, f"{axis.name} takes the values `{value}` there, which are no constant number of consecutive ones",
            "split the axes so that whole inner loops of constant extent lie under the tensorized one")
    return begin, span.high.value + 1


def _check_box(stage: _Stage, extents: Mapping[IterVar, int]) -> None:
    """The inner loops must run through the whole box, each point once."""
    lengths = [loop.extent for loop in stage.inner]
    points = prod(length.value for length in lengths if isinstance(length, IntImm))
    if any(not isinstance(length, IntImm) for length in lengths) or points != prod(extents.values()):
        shown = ", ".join(f"{loop.axis.name} in {loop.extent}" for loop in stage.inner)
        region = " x ".join(f"{axis.name}: {extent}" for axis, extent in extents.items() if extent != 1)
        raise stage.error(TensorizeRegion, f"its loops ({shown}) do not run through all of the box ({region})",
                          "tensorize loops that come from splits of single axes")


def _paired(
    stage: _Stage, mine: Sequence[IterVar], wanted: Sequence[IterVar], extents: Mapping[IterVar, int], kind: str,
) -> dict[IterVar, IterVar]:
    """Axes of the stage with those of the intrinsic, from the last on; axes of one iteration may be left out."""
    pairs: dict[IterVar, IterVar] = {}
    rest = list(mine)
    for partner in reversed(wanted):
        length = partner.dom.extent if partner.dom is not None else None
        while rest and not (isinstance(length, IntImm) and extents[rest[-1]] == length.value) and extents[rest[-1]] == 1:
            rest.pop()
        if not rest or not isinstance(length, IntImm) or extents[rest[-1]] != length.value:
            raise _region(stage, mine, wanted, extents, kind)
        pairs[rest.pop()] = partner
    if any(extents[axis] != 1 for axis in rest):
        raise _region(stage, mine, wanted, extents, kind)
    return pairs


def _region(
    stage: _Stage, mine: Sequence[IterVar], wanted: Sequence[IterVar], extents: Mapping[IterVar, int], kind: str,
) -> LoweringError:
    computed = ", ".join(f"{axis.name}: {extents[axis]}" for axis in mine) or "no axis"
    takes = ", ".join(f"{axis.name}: {axis.dom.extent if axis.dom is not None else '?'}" for axis in wanted) or "no axis"
    return stage.error(
        TensorizeRegion,
        f"the {kind} axes of {stage.found.computation.name} run through ({computed}) under the loop, those of the intrinsic "
        f"through ({takes})", _advice(stage, mine, wanted, extents))


def _advice(stage: _Stage, mine: Sequence[IterVar], wanted: Sequence[IterVar], extents: Mapping[IterVar, int]) -> str:
    """The split that is missing, where it is one."""
    name = stage.found.computation.name
    for axis, partner in zip(reversed(mine), reversed(wanted), strict=False):
        length = partner.dom.extent if partner.dom is not None else None
        if isinstance(length, IntImm) and extents[axis] != length.value:
            return f"s[{name}].split({axis.name}, factor={length.value}), and bring the outer loop outside of the tensorized one"
    return "leave out of the tensorized loop what the intrinsic has no axis for, by reorder and split"


# Bodies


@dataclass(slots=True)
class _Bodies:
    stage: _Stage
    values: Mapping[IterVar, Expr]
    parts: dict[Tensor, Part]
    problem: str = ""
    """Of the first difference that was met."""
    variables: dict[Var, Var] = field(default_factory=dict)
    """The intrinsic's variable for each of the stage's, where combiners bind them."""
    alike: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of nodes, which the trees keep alive, found to be alike: values may be shared."""
    trees: list[Expr] = field(default_factory=list)

    def compare(self) -> None:
        mine, its = self.stage.found.computation.values, self.stage.intrinsic.op.body
        for a, b in zip(mine, its, strict=False):  # a reduction is one value, whatever the number of its outputs
            if not self._values(a, b):
                name = self.stage.found.computation.name
                wanted = _short(self.stage.intrinsic.op.body[0])
                raise self.stage.error(
                    TensorizeBody, f"{name} computes something else: {self.problem}",
                    f"write {name} and the intrinsic's operation alike, dtypes included (the intrinsic computes `{wanted}`)")

    def differ(self, text: str) -> bool:
        self.problem = self.problem or text
        return False

    def _values(self, a: Expr, b: Expr) -> bool:
        if isinstance(a, Reduce) and isinstance(b, Reduce):
            return self._reductions(a, b)
        if isinstance(a, Reduce) or isinstance(b, Reduce):
            who = ("the stage", "the intrinsic") if isinstance(a, Reduce) else ("the intrinsic", "the stage")
            return self.differ(f"{who[0]} reduces and {who[1]} does not")
        return self._same(self._mine(a), self._its(b))

    def _reductions(self, a: Reduce, b: Reduce) -> bool:
        for x, y in zip(a.sources, b.sources, strict=True):  # as many as there are outputs
            if not self._same(self._mine(x), self._its(y)):
                return False
        if not self._combiners(a.combiner, b.combiner):
            self.problem = f"it reduces by {_combining(a.combiner)}, the intrinsic by {_combining(b.combiner)}"
            return False
        condition = self._mine(a.condition)
        if not self._same(condition, self._its(b.condition)):
            self.problem = f"it takes up only what `{condition}` chooses, the intrinsic what `{b.condition}` does"
            return False
        if len(a.init) != len(b.init):
            return self.differ(f"{'it' if a.init else 'the intrinsic'} begins with init=, the other with the identity")
        return all(self._same(self._mine(x), self._its(y)) for x, y in zip(a.init, b.init, strict=True))

    def _combiners(self, a: CommReducer, b: CommReducer) -> bool:
        self.variables = dict(zip((*a.lhs, *a.rhs), (*b.lhs, *b.rhs), strict=True))
        pairs = [*zip(a.result, b.result, strict=True), *zip(a.identity, b.identity, strict=True)]
        alike = all(self._same(x, y) for x, y in pairs)
        self.variables = {}
        return alike

    def _mine(self, value: Expr) -> Expr:
        return self._kept(self.stage.analyzer.simplify(_without_lets(self.stage.resolve(value, self.values))))

    def _its(self, value: Expr) -> Expr:
        return self._kept(self.stage.analyzer.simplify(_without_lets(value)))

    def _kept(self, value: Expr) -> Expr:
        self.trees.append(value)
        return value

    def _same(self, a: Expr, b: Expr) -> bool:
        """Whether two values are alike, noting the parts of tensors that make them so."""
        pair = (id(a), id(b))
        if pair in self.alike or self._compared(a, b):
            self.alike.add(pair)
            return True
        return False

    def _compared(self, a: Expr, b: Expr) -> bool:
        if isinstance(a, ProducerLoad) and isinstance(b, ProducerLoad):
            return self._reads(a, b)
        if type(a) is not type(b) or a.dtype != b.dtype:
            return self.differ(f"it has `{_short(a)}` of {a.dtype} where the intrinsic has `{_short(b)}` of {b.dtype}")
        if isinstance(a, Var):
            return self.variables.get(a, a) is b or self.differ(f"it has {a.name} where the intrinsic has {b}")
        if isinstance(a, (IntImm, FloatImm, StringImm)):
            assert isinstance(b, (IntImm, FloatImm, StringImm))
            return a.value == b.value or self.differ(f"it has {a} where the intrinsic has {b}")
        if isinstance(a, Call) and isinstance(b, Call) and (a.name != b.name or len(a.args) != len(b.args)):
            return self.differ(f"it has `{_short(a)}` where the intrinsic has `{_short(b)}`")
        below = list(zip(children(a), children(b), strict=True))
        before = dict(self.parts)
        if all(isinstance(x, Expr) and isinstance(y, Expr) and self._same(x, y) for x, y in below):
            return True
        if not isinstance(a, _COMMUTATIVE):
            return False
        assert isinstance(b, BinaryOp)
        first, self.parts, self.problem = self.problem, _restored(self.parts, before), ""
        self.alike.clear()  # what was alike was so with other parts
        if self._same(a.a, b.b) and self._same(a.b, b.a):
            self.problem = ""
            return True
        self.problem = first
        return False

    def _reads(self, a: ProducerLoad, b: ProducerLoad) -> bool:
        """Whether a read of the stage is one of the intrinsic's, from a part that the outer loops alone decide."""
        mine, its = a.producer, b.producer
        assert isinstance(mine, Tensor) and isinstance(its, Tensor)
        if mine.dtype != its.dtype:
            return self.differ(f"{mine.name} is {mine.dtype}, the intrinsic's {its.name} {its.dtype}")
        found = self._part(mine, a, b)
        if isinstance(found, str):
            return self.differ(f"it reads `{_short(a)}` where the intrinsic reads `{_short(b)}`: {found}")
        before = self.parts.setdefault(its, found)
        alike = before.tensor is mine and before.dims == found.dims and all(
            self.stage.analyzer.can_prove_equal(x, y) for x, y in zip(before.begin, found.begin, strict=True))
        return alike or self.differ(f"the intrinsic's {its.name} would be {before.tensor.name} at one place and "
                                    f"`{_short(a)}`, another part, at the other")

    def _part(self, tensor: Tensor, a: ProducerLoad, b: ProducerLoad) -> Part | str:
        """The part of the tensor, or what is wrong; dimensions pair from the last on."""
        begin: list[Expr] = [*a.indices]
        dims: list[int] = []
        wanted = list(enumerate(b.indices))
        for at in reversed(range(len(a.indices))):
            if wanted:
                rest = self._begin(a.indices[at], wanted[-1][1])
                if rest is not None:
                    begin[at] = rest
                    dims.insert(0, at)
                    wanted.pop()
                    continue
            if self._varies(a.indices[at]):
                place = f"dimension {wanted[-1][0]} of {getattr(b.producer, 'name', '')}" if wanted else "any dimension of it"
                return f"index {at} of {tensor.name}, `{_short(a.indices[at])}`, does not follow {place}"
        if wanted:
            return f"{tensor.name} has {len(a.indices)} dimensions, too few"
        return Part(tensor, tuple(begin), tuple(dims))

    def _begin(self, mine: Expr, its: Expr) -> Expr | None:
        """What is left of an index without the intrinsic's, if no axis of the intrinsic is left in it."""
        rest = self.stage.analyzer.simplify(mine - cast(its, mine.dtype))
        return None if self._varies(rest) else rest

    def _varies(self, value: Expr) -> bool:
        axes = (*self.stage.intrinsic.op.axis, *self.stage.intrinsic.op.reduce_axis)
        return any(node is axis for node in post_order(value) for axis in axes)


def _restored(parts: dict[Tensor, Part], before: dict[Tensor, Part]) -> dict[Tensor, Part]:
    """The same dictionary as it was, since others hold it."""
    parts.clear()
    parts.update(before)
    return parts


def _without_lets(value: Expr) -> Expr:
    def rule(node: Node) -> Expr | None:
        return substitute(node.body, {node.var: node.value}) if isinstance(node, Let) else None

    return rewrite(value, rule)


def _combining(combiner: CommReducer) -> str:
    return f"{combiner.name} (`{', '.join(map(_short, combiner.result))}`)"


def _short(value: Expr) -> str:
    if len(list(islice(walk(value), 100))) == 100:
        return f"{type(value).__name__}(...)"
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
