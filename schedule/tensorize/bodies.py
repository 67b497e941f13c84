"""Match of the body of an intrinsic with the value of a stage: both values are walked side by side.

Where the stage reads A[i, j] and the intrinsic a[k], the part of A begins at what is left of (i, j) without k, and nothing
of that may depend on an axis of the intrinsic. Where the intrinsic has a scalar parameter, the stage may have any value
that is the same for all of its axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from ...base import dataclass, field
from ...ir.analysis.regions import Span, SpanEvaluator
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import (
    EQ,
    NE,
    Add,
    And,
    BinaryOp,
    Call,
    CommReducer,
    Expr,
    FloatImm,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mul,
    Node,
    Or,
    ProducerLoad,
    Reduce,
    StringImm,
    Var,
)
from ...ir.ops import cast, const
from ...ir.structural import equal
from ...ir.visit import children, post_order, rewrite, substitute, walk
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..lowering.errors import TensorizeBody
from .plan import Part, TensorizedStage
from .show import NestSide, beside, tensor_region

__all__ = ["Bodies", "sides"]

K = TypeVar("K")
V = TypeVar("V")
_COMMUTATIVE = (Add, Mul, Min, Max, And, Or, EQ, NE)


@dataclass(frozen=True, slots=True)
class _Difference:
    """Difference between a loop body and an intrinsic's.

    text: what differs. marked: the node on either side, None for the reducer.
    """

    text: str
    marked: tuple[Expr | None, Expr | None] = (None, None)


@dataclass(slots=True)
class Bodies:
    """Match of a loop body with an intrinsic's.

    values: of the root axes, in terms of the intrinsic's. partners: the axis of the intrinsic for each root axis.
    """

    stage: TensorizedStage
    values: Mapping[IterVar, Expr]
    partners: Mapping[IterVar, IterVar]
    parts: dict[Tensor, Part]
    scalars: dict[Var, Expr] = field(default_factory=dict[Var, Expr])
    """What the scalar parameters of the intrinsic were found to be."""
    problem: _Difference | None = None
    """The first difference that was met."""
    variables: dict[Var, Var] = field(default_factory=dict[Var, Var])
    """The intrinsic's variable for each of the stage's, where combiners bind them."""
    alike: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Pairs of nodes, which the trees keep alive, found to be alike: values may be shared."""
    trees: dict[int, tuple[Expr, Expr]] = field(default_factory=dict[int, tuple[Expr, Expr]])
    """By the identity of a value, which is kept alive, what it is compared as."""

    def compare(self) -> None:
        """Raise TensorizeBody (TW0381) where they differ; else `parts` and `scalars` are complete."""
        mine, its = self.stage.stage_bounds.computation.values, self.stage.intrinsic.op.body
        name = self.stage.stage_bounds.computation.name
        for a, b in zip(mine, its, strict=False):  # a reduction is one value, whatever the number of its outputs
            if not self._values(a, b):
                assert self.problem is not None
                wanted = _short(self.stage.intrinsic.op.body[0])
                raise self.stage.error(
                    TensorizeBody,
                    f"{name} computes something else: {self.problem.text}",
                    f"write {name} and the intrinsic's operation alike, dtypes included (the intrinsic computes `{wanted}`)",
                    self._show(self.problem),
                )
        open_one = next((param for param in self.stage.intrinsic.scalar_params if param not in self.scalars), None)
        if open_one is not None:
            raise self.stage.error(
                TensorizeBody,
                f"no value is known for the scalar parameter {open_one.name} of {self.stage.intrinsic.name} is: "
                f"`{_short(its[0])}` does not have it",
                "call the intrinsic in a te.compute, with its scalars",
            )

    def differ(self, text: str, a: Expr | None = None, b: Expr | None = None) -> bool:
        self.problem = self.problem or _Difference(text, (a, b))
        return False

    def _show(self, problem: _Difference) -> str:
        """Both nests, the difference marked."""
        stage = self.stage
        names: dict[Var, Expr] = {its: Var(mine.name, its.dtype) for mine, its in self.partners.items()}
        extents = {mine: str(its.dom.extent) for mine, its in self.partners.items() if its.dom is not None}
        left, right = sides(stage, extents, self._mine, self._its, names)
        return beside(left, right, problem.marked)

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
            self.problem = None
            return self.differ(f"it reduces by {_combining(a.combiner)}, the intrinsic by {_combining(b.combiner)}")
        condition, its = self._mine(a.condition), self._its(b.condition)
        if not self._same(condition, its):
            self.problem = None
            return self.differ(
                f"it takes up only what `{condition}` chooses, the intrinsic what `{b.condition}` does", condition, its
            )
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
        """A value of the stage, in terms of the axes of the intrinsic."""
        if id(value) not in self.trees:
            tree = self.stage.analyzer.simplify(_substitute_lets(self.stage.resolve(value, self.values)))
            self.trees[id(value)] = (value, tree)
        return self.trees[id(value)][1]

    def _its(self, value: Expr) -> Expr:
        """A value of the intrinsic."""
        if id(value) not in self.trees:
            self.trees[id(value)] = (value, self.stage.analyzer.simplify(_substitute_lets(value)))
        return self.trees[id(value)][1]

    def _same(self, a: Expr, b: Expr) -> bool:
        """Return whether two values are alike, noting the parts of tensors that make them so."""
        pair = (id(a), id(b))
        if pair in self.alike or self._compare(a, b):
            self.alike.add(pair)
            return True
        return False

    def _compare(self, a: Expr, b: Expr) -> bool:
        if isinstance(b, Var) and b in self.stage.intrinsic.scalar_params:
            return self._scalar(a, b)
        if isinstance(a, ProducerLoad) and isinstance(b, ProducerLoad):
            return self._reads(a, b)
        if type(a) is not type(b) or a.dtype != b.dtype:
            return self.differ(
                f"it has `{_short(a)}` of {a.dtype} where the intrinsic has `{_short(b)}` of {b.dtype}", a, b
            )
        if isinstance(a, Var):
            return self.variables.get(a, a) is b or self.differ(f"it has {a.name} where the intrinsic has {b}", a, b)
        if isinstance(a, (IntImm, FloatImm, StringImm)):
            assert isinstance(b, (IntImm, FloatImm, StringImm))
            return a.value == b.value or self.differ(f"it has {a} where the intrinsic has {b}", a, b)
        if isinstance(a, Call) and isinstance(b, Call) and (a.name != b.name or len(a.args) != len(b.args)):
            return self.differ(f"it has `{_short(a)}` where the intrinsic has `{_short(b)}`", a, b)
        below = list(zip(children(a), children(b), strict=True))
        before, scalars = dict(self.parts), dict(self.scalars)
        if all(self._same(x, y) for x, y in below):
            return True
        if not isinstance(a, _COMMUTATIVE):
            return False
        assert isinstance(b, BinaryOp)
        first, self.problem = self.problem, None
        _restore(self.parts, before)
        _restore(self.scalars, scalars)
        self.alike.clear()  # what was alike was so with other parts
        if self._same(a.a, b.b) and self._same(a.b, b.a):
            self.problem = None
            return True
        self.problem = first
        return False

    def _reads(self, a: ProducerLoad, b: ProducerLoad) -> bool:
        """Return whether a read of the stage is one of the intrinsic's, from a part that the outer loops alone decide."""
        mine, its = a.producer, b.producer
        assert isinstance(mine, Tensor) and isinstance(its, Tensor)
        if mine.dtype != its.dtype:
            return self.differ(f"{mine.name} is {mine.dtype}, the intrinsic's {its.name} {its.dtype}", a, b)
        part = self._part(mine, a, b)
        if isinstance(part, str) and self._lies_any_way(its):
            turned = self._transpose(mine, a, b)
            part = part if turned is None else turned
        if isinstance(part, str):
            return self.differ(f"it reads `{_short(a)}` where the intrinsic reads `{_short(b)}`: {part}", a, b)
        before = self.parts.setdefault(its, part)
        alike = (
            before.tensor is mine
            and before.dims == part.dims
            and all(self.stage.analyzer.can_prove_equal(x, y) for x, y in zip(before.begin, part.begin, strict=True))
        )
        return alike or self.differ(
            f"the intrinsic's {its.name} would be {before.tensor.name} at one place and "
            f"`{_short(a)}`, another part, at the other",
            a,
            b,
        )

    def _scalar(self, a: Expr, param: Var) -> bool:
        """Return whether a value of the stage may be the scalar parameter: of its type, the same everywhere."""
        if a.dtype != param.dtype:
            return self.differ(
                f"it has `{_short(a)}` of {a.dtype} where the intrinsic has {param.name} of {param.dtype}", a, param
            )
        if self._varies(a):
            return self.differ(
                f"it has `{_short(a)}`, which changes under the loop, where the intrinsic has {param.name}, one value",
                a,
                param,
            )
        before = self.scalars.setdefault(param, a)
        alike = (
            before is a or equal(before, a) or (a.dtype.is_integer and self.stage.analyzer.can_prove_equal(before, a))
        )
        return alike or self.differ(
            f"the intrinsic's {param.name} would be `{_short(before)}` at one place and `{_short(a)}` at the other",
            a,
            param,
        )

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
                place = (
                    f"dimension {wanted[-1][0]} of {getattr(b.producer, 'name', '')}"
                    if wanted
                    else "any dimension of it"
                )
                return f"index {at} of {tensor.name}, `{_short(a.indices[at])}`, does not follow {place}"
        if wanted:
            return f"{tensor.name} has {len(a.indices)} dimensions, too few"
        return Part(tensor, tuple(begin), tuple(dims))

    def _lies_any_way(self, its: Tensor) -> bool:
        """Return whether the intrinsic takes each dimension of a tensor with any stride, so that their order in memory is free."""
        declared = self.stage.intrinsic.buffers[its]
        return bool(declared.strides) and all(isinstance(stride, Var) for stride in declared.strides)

    def _transpose(self, tensor: Tensor, a: ProducerLoad, b: ProducerLoad) -> Part | None:
        """The part of a tensor whose dimensions pair with the intrinsic's in another order."""
        begin: list[Expr] = [*a.indices]
        dims: list[int] = []
        for its in b.indices:
            rests = ((at, self._begin(a.indices[at], its)) for at in reversed(range(len(begin))) if at not in dims)
            at, rest = next(((at, rest) for at, rest in rests if rest is not None), (-1, None))
            if rest is None:
                return None
            dims.append(at)
            begin[at] = rest
        varying = any(self._varies(index) for at, index in enumerate(begin) if at not in dims)
        return None if varying else Part(tensor, tuple(begin), tuple(dims))

    def _begin(self, mine: Expr, its: Expr) -> Expr | None:
        """Return the rest of an index without the intrinsic's, if no axis of the intrinsic is left in it."""
        rest = self.stage.analyzer.simplify(mine - cast(its, mine.dtype))
        return None if self._varies(rest) else rest

    def _varies(self, value: Expr) -> bool:
        axes = (*self.stage.intrinsic.op.axis, *self.stage.intrinsic.op.reduce_axis)
        return any(node is axis for node in post_order(value) for axis in axes)


def _restore(known: dict[K, V], before: dict[K, V]) -> None:
    """The same dictionary as it was, since others hold it."""
    known.clear()
    known.update(before)


def nest_side(
    title: str,
    op: Operation,
    values: Sequence[Expr],
    extents: Mapping[IterVar, str],
    spans: Mapping[IterVar, Span],
    analyzer: Analyzer,
    resolve: Callable[[Expr], Expr] = lambda value: value,
    names: Mapping[Var, Expr] | None = None,
) -> NestSide:
    """An operation's nest to be shown. extents: of the loops, by root axis; spans: what root axes run through; resolve,
    names: how its values and variables are shown."""
    loops = [
        (axis.name, extents[axis], axis in op.reduce_axis) for axis in (*op.axis, *op.reduce_axis) if axis in extents
    ]
    target = f"{op.name}[{', '.join(axis.name for axis in op.axis)}]"
    evaluate = SpanEvaluator({**spans}, analyzer)
    regions = [f"gives {tensor_region(tensor, [spans[axis] for axis in op.axis], analyzer)}" for tensor in op.outputs]
    for load in dict.fromkeys(node for value in values for node in post_order(value) if isinstance(node, ProducerLoad)):
        assert isinstance(load.producer, Tensor)
        regions.append(f"reads {tensor_region(load.producer, [evaluate(index) for index in load.indices], analyzer)}")
    first = values[0]
    if not isinstance(first, Reduce):
        return NestSide(
            title, loops, target, "", [resolve(value) for value in values], names=names or {}, regions=regions
        )
    sources, init = ([resolve(value) for value in group] for group in (first.sources, first.init))
    return NestSide(
        title, loops, target, first.combiner.name, sources, resolve(first.condition), init, names or {}, regions
    )


def sides(
    stage: TensorizedStage,
    shown: Mapping[IterVar, str],
    mine: Callable[[Expr], Expr] = lambda value: value,
    its: Callable[[Expr], Expr] = lambda value: value,
    names: Mapping[Var, Expr] | None = None,
) -> tuple[NestSide, NestSide]:
    """Return the computation under the tensorized loop, and that of the intrinsic. shown: the extents of the stage's
    loops; mine, its, names: see nest_side."""
    op, other, loop = stage.stage_bounds.computation.op, stage.intrinsic.op, stage.stage_bounds.loops[stage.place]
    inner = {loop.var: Span.of(const(0, loop.var.dtype), loop.extent) for loop in stage.inner if loop.var is not None}
    evaluate = SpanEvaluator(inner, stage.analyzer)
    spans = {axis: span for axis, value in stage.axes.items() if (span := evaluate(value)) is not None}
    left = nest_side(
        f"{op.name} under '{loop.axis.name}'",
        op,
        stage.stage_bounds.computation.values,
        shown,
        spans,
        stage.analyzer,
        mine,
        names,
    )
    domains = {axis: axis.dom for axis in (*other.axis, *other.reduce_axis) if axis.dom is not None}
    known = {axis: str(domain.extent) for axis, domain in domains.items()}
    through = {axis: Span.of(domain.begin, domain.extent) for axis, domain in domains.items()}
    return left, nest_side(stage.intrinsic.name, other, other.body, known, through, stage.analyzer, its)


def _substitute_lets(value: Expr) -> Expr:
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
