"""Operations: what makes tensors. Immutable; the object is its identity.

A kind of operation is a class in a file of its own (compute, scan, extern, ...), which answers for itself what others ask: whatever
stands in `Operation` has an answer for every kind. How a kind is lowered is its row in schedule/lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..base import InternalError, SourceLine, dataclass, field, replace, user_source
from ..ir import DType, Expr, IterVar, Node, ProducerLoad, Reduce, Seq, Stmt, Var, substitute
from ..ir.constant import Constant
from ..ir.lazy_values import cached_property
from .declared_loops import NOT_DECLARED, DeclaredLoops
from .errors import AmbiguousTensorTruth
from .loops import compute_loops
from .rewrite import collect_loads, redirect, rewrite_reduction
from .scatter_add import Addition
from .tensor import Tensor

if TYPE_CHECKING:
    from .sizes import Sizes

__all__ = ["ZERO_GRADIENT", "ComparisonOp", "ComputeOp", "GivenOp", "Operation", "PlaceholderOp", "producers_first"]

ZERO_GRADIENT = "zero_gradient"
"""Among the attrs of an operation: what is computed from it would be the same with any other values, as softmax is whatever
number is taken away from all elements before their exponentials. No gradient goes through it."""

_set = object.__setattr__


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Operation:
    """Base class of operations.

    tag: a word that schedules may look for. algorithm: the same word where the operation is of an operator of ours whose algorithm
    rules know, else "" (AlgorithmTag). attrs: anything the author wants to hand to a schedule. source: the user's
    line that declared it.
    """

    name: str
    tag: str = ""
    algorithm: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    source: SourceLine | None = None
    axis: tuple[IterVar, ...] = ()
    """The iteration variables of its loops over data; of te.compute one for each dimension of what it computes."""
    outputs: tuple[Tensor, ...] = field(init=False)
    """Its tensors, made once: an output is the same object each time."""
    kind: ClassVar[str] = "operation"
    """The kind's name, by which its row in schedule/lowering is found."""
    noun: ClassVar[str] = "an operation"
    """What it is, as messages say after "X is"."""
    is_given: ClassVar[bool] = False
    """Whether its elements are there before the kernel runs, so that nothing is computed."""
    is_passed: ClassVar[bool] = False
    """Whether the caller of the kernel passes its elements."""
    is_stepwise: ClassVar[bool] = False
    """Whether its loop runs over time, each step being computed by stages of their own."""
    takes_definitions: ClassVar[bool] = False
    """Whether it is made of expressions, in which the definition of an element can stand in place of its read (`rewritten`)."""
    is_judged: ClassVar[bool] = False
    """Whether its statements, though no definition can stand in them, say which elements they access: that is judged too."""
    runs_in_order: ClassVar[bool] = False
    """Whether it is statements, which run in the order in which they are written: what a schedule may do is up to them."""
    is_vouched_for: ClassVar[bool] | cached_property[bool] = False
    """Whether it runs iterations at once which its author says touch no element in common, and nobody can prove to."""
    calls_intrinsic: ClassVar[bool] = False
    """Whether it was declared as calls of a tensor intrinsic."""

    def __post_init__(self) -> None:
        dtypes, shapes = self.output_dtypes, self.output_shapes
        names = [self.name] if len(dtypes) == 1 else [f"{self.name}.v{at}" for at in range(len(dtypes))]
        outputs = tuple(Tensor(self, at, names[at], shapes[at], dtype) for at, dtype in enumerate(dtypes))
        _set(self, "outputs", outputs)

    def same_as(self, other: object) -> bool:
        """Return whether it is this very operation (TVM's spelling)."""
        return self is other

    @property
    def output_dtypes(self) -> tuple[DType, ...]:
        """The dtype of each output."""
        raise InternalError(f"{type(self).__name__} does not say what its outputs are")

    @property
    def output_shape(self) -> tuple[Expr, ...]:
        """The shape that all its outputs have."""
        raise InternalError(f"{type(self).__name__} does not say what shape its outputs have")

    @property
    def output_shapes(self) -> tuple[tuple[Expr, ...], ...]:
        """The shape of each output."""
        return (self.output_shape,) * len(self.output_dtypes)

    @property
    def dimensions(self) -> tuple[tuple[IterVar, ...], ...]:
        """Return for each output the iteration variable of each dimension: of `axis`, or others, of which no loop is made."""
        return (self.axis,) * len(self.outputs)

    @property
    def parts(self) -> tuple[Node, ...]:
        """The expressions and statements that it consists of, its shapes aside."""
        return ()

    @property
    def values(self) -> tuple[Expr, ...]:
        """The element at `axis`, one for each output; none where it is not an expression element by element."""
        return ()

    @cached_property
    def value_loads(self) -> tuple[ProducerLoad, ...]:
        """The reads of tensors in each of `values`, one after the other, each in the order of evaluation."""
        return tuple(load for value in self.values for load in collect_loads(value))

    @property
    def reduction(self) -> Reduce | None:
        """The reduction that the elements are (the first output's), or None."""
        return None

    @property
    def loads(self) -> Sequence[ProducerLoad]:
        """The reads of tensors in its elements and in the domains of its reduce axes, each node once, in the order of evaluation;
        none where it is no expression element by element."""
        return ()

    @property
    def whole_axes(self) -> tuple[IterVar, ...]:
        """The axes of which a tensor intrinsic takes in all values at once."""
        return ()

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The tensors of which a tensor intrinsic is passed parts or elements."""
        return ()

    @property
    def scalar_arguments(self) -> tuple[Expr, ...]:
        """The values that a tensor intrinsic is passed beside its operands."""
        return ()

    @cached_property
    def data_indexed(self) -> tuple[Expr, ...]:
        """The extents of the dimensions whose indices may depend on data, where statements read and write them."""
        return ()

    @cached_property
    def declared_loops(self) -> DeclaredLoops:
        """The loops among its axes that its author wrote, each in its place."""
        return NOT_DECLARED

    @property
    def as_compute(self) -> ComputeOp | None:
        """Itself, where each element is an expression over its axes, which schedules may write anew."""
        return None

    @property
    def begins_with(self) -> tuple[Tensor, ...]:
        """Return what holds the first of its states, where it goes through time."""
        return ()

    @property
    def additions(self) -> Addition | None:
        """Return what is added to its elements, which begin as zeros; None where it was not declared as such sums."""
        return None

    @property
    def input_parts(self) -> Sequence[tuple[Tensor, Sequence[tuple[Expr, Expr] | None]]]:
        """Return where it is made of no expressions, which part of its inputs it takes: the first and the last index in each dimension,
        None where it takes all of them."""
        return [(tensor, [None] * tensor.ndim) for tensor in self.input_tensors]

    @property
    def own_placeholders(self) -> tuple[Tensor, ...]:
        """The placeholders that stand for its own outputs, which nobody passes."""
        return ()

    @property
    def assumptions(self) -> Sequence[tuple[Expr, str]]:
        """The conditions on symbols under which its steps are what they are said to be, and for each what is wrong where it does
        not hold: a call looks at them before anything is computed."""
        return ()

    @property
    def shared_memory(self) -> Sequence[tuple[Tensor, Tensor]]:
        """Pairs of a tensor and the output in whose memory it lies."""
        return ()

    @property
    def constant(self) -> Constant | None:
        """Its elements, where they are known."""
        return None

    def steps(self, order: Sequence[Operation]) -> Collection[Operation]:
        """The operations of `order`, producers first, that compute its steps."""
        del order
        return ()

    def reshape(self, shape: tuple[Expr, ...]) -> Operation:
        """The same of another shape, where its elements are passed by the caller of the kernel."""
        raise InternalError(f"{self.name}, {self.noun}, has the shape {shape} that it was declared with")

    @property
    def num_outputs(self) -> int:
        """The number of its tensors."""
        return len(self.outputs)

    def output(self, index: int) -> Tensor:
        """Its tensor number `index`."""
        return self.outputs[index]

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The iteration variables that it reduces over."""
        return ()

    @cached_property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, each once, in the order of first use."""
        return ()

    def replace_inputs(self, tensors: Mapping[Tensor, Tensor]) -> Operation:
        """The same operation reading other tensors; itself where it reads none of them."""
        return self

    def rewritten(self, rule: Callable[[Any], Any]) -> Operation:
        """The operation with `rule`, which maps an expression to its replacement, applied to the expressions that it is made
        of; itself where nothing changed, or where it is made of none."""
        return self

    def choose_extents(self, sizes: Sizes, is_output: bool) -> None:
        """Choose the extents of the same operation on fewer elements by what is needed of it, and note what it then needs of
        what it reads. All of both, where a kind says nothing else."""
        del is_output
        for tensor in self.input_tensors:
            sizes.need(tensor, [None] * tensor.ndim)

    def asks_for_more(self, sizes: Sizes, whole: bool) -> bool:
        """Return whether it needs more than was chosen, which is noted, so that all choose again. whole: it may ask for all there is."""
        del sizes, whole
        return False

    def resize(self, sizes: Sizes, tensors: Mapping[Tensor, Tensor]) -> Operation:
        """The operation of the extents that were chosen, reading other tensors."""
        del sizes
        return self.replace_inputs(tensors)

    def statement(self) -> Stmt:
        """Return what it does without a schedule, as loops over buffers and what it reads: nothing, unless it computes."""
        return Seq(())

    def truth(self) -> bool:
        """The truth value of its output (see Tensor.__bool__)."""
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.outputs))})"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GivenOp(Operation):
    """A tensor whose elements are there before the kernel runs."""

    shape: tuple[Expr, ...]
    dtype: DType
    is_given: ClassVar[bool] = True

    @property
    def output_dtypes(self) -> tuple[DType, ...]:
        return (self.dtype,)

    @property
    def output_shape(self) -> tuple[Expr, ...]:
        return self.shape


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlaceholderOp(GivenOp):
    """A tensor that the caller of the kernel passes."""

    kind: ClassVar[str] = "placeholder"
    noun: ClassVar[str] = "a placeholder: the caller passes it"
    is_passed: ClassVar[bool] = True

    def reshape(self, shape: tuple[Expr, ...]) -> PlaceholderOp:
        return replace(self, shape=shape)

    def resize(self, sizes: Sizes, tensors: Mapping[Tensor, Tensor]) -> PlaceholderOp:
        tensor = self.output(0)
        if tensor in sizes.shapes:
            return self.reshape(sizes.shapes[tensor])
        wanted = sizes.needed.get(tensor, [None] * tensor.ndim)
        return self.reshape(
            tuple(sizes.extent(extent, need, False) for extent, need in zip(self.shape, wanted, strict=True))
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ComputeOp(Operation):
    """Tensors given element by element.

    axis: an iteration variable from 0 for each dimension; their extents are the shape. body: the value of the element
    at `axis`, one for each output: either none is a Reduce, or all are, of one reduction with value_index 0, 1, ...
    te.compute checks what it makes; a schedule that makes one directly answers for it.
    """

    body: tuple[Expr, ...]
    kind: ClassVar[str] = "compute"
    noun: ClassVar[str] = "a compute"
    takes_definitions: ClassVar[bool] = True

    @property
    def output_dtypes(self) -> tuple[DType, ...]:
        return tuple(value.dtype for value in self.body)

    @property
    def output_shape(self) -> tuple[Expr, ...]:
        return tuple(axis_extent(axis) for axis in self.axis)

    @property
    def parts(self) -> tuple[Node, ...]:
        domains = [axis.dom for axis in self.reduce_axis if axis.dom is not None]
        values = self.body if self.reduction is None else self.body[:1]
        return (*(part for dom in domains for part in (dom.begin, dom.extent)), *values)

    @property
    def values(self) -> tuple[Expr, ...]:
        return self.body

    @property
    def as_compute(self) -> ComputeOp:
        return self

    @property
    def loads(self) -> Sequence[ProducerLoad]:
        domains = [axis.dom for axis in self.reduce_axis if axis.dom is not None]
        bounds = collect_loads(*(part for dom in domains for part in (dom.begin, dom.extent)))
        return tuple(dict.fromkeys((*self.value_loads, *bounds)))

    @property
    def reduction(self) -> Reduce | None:
        first = self.body[0]
        return first if isinstance(first, Reduce) else None

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        return self.reduction.axes if self.reduction is not None else ()

    @cached_property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return self.tensors_read()

    def tensors_read(self) -> tuple[Tensor, ...]:
        """The tensors that its body and the domains of its reduce axes read."""
        producers = (load.producer for load in self.loads)
        return tuple(dict.fromkeys(producer for producer in producers if isinstance(producer, Tensor)))

    def replace_inputs(self, tensors: Mapping[Tensor, Tensor]) -> ComputeOp:
        """The same operation reading other tensors; itself where it reads none of them.

        Its axes stay the same objects, save reduce axes whose domain reads a replaced tensor: those are made anew.
        """
        return self.rewritten(lambda value: redirect(value, tensors))

    def statement(self) -> Stmt:
        return compute_loops(self.axis, self.body, self.outputs)

    def choose_extents(self, sizes: Sizes, is_output: bool) -> None:
        whole = bool(self.attrs.get("whole_rows"))  # of which an algorithm knows how long they are
        for at, (axis, *needs) in enumerate(zip(self.axis, *map(sizes.requirements, self.outputs), strict=True)):
            sizes.choose(axis, None if whole and at else sizes.most(needs), is_output)
        for axis in self.reduce_axis:
            sizes.choose(axis, None if whole else 0, True)
        evaluate = sizes.spans((*self.axis, *self.reduce_axis))
        for load in self.loads:
            sizes.need(load.producer, sizes.reach(load.indices, evaluate))

    def resize(self, sizes: Sizes, tensors: Mapping[Tensor, Tensor]) -> ComputeOp:
        axes: dict[Var, Expr] = {}
        data = tuple(sizes.rebuild_axis(axis, axes, tensors) for axis in self.axis)
        reduced = tuple(sizes.rebuild_axis(axis, axes, tensors) for axis in self.reduce_axis)
        first = substitute(redirect(self.body[0], tensors), axes)
        if isinstance(first, Reduce):
            body = tuple(replace(first, axes=reduced, value_index=at) for at in range(len(self.body)))
        else:
            body = (first, *(substitute(redirect(value, tensors), axes) for value in self.body[1:]))
        return replace(self, axis=data, body=body)

    def rewritten(self, rule: Callable[[Any], Any]) -> ComputeOp:
        """The operation with `rule`, which maps an expression to its replacement, applied to its body and to the domains of its
        reduce axes; itself where nothing changed."""
        body = rewrite_reduction(self.body, rule)
        return self if body is self.body else replace(self, body=body)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ComparisonOp(ComputeOp):
    """A comparison of whole tensors by an operator: its truth value says whether they are the same tensor."""

    symbol: str
    identical: bool

    def truth(self) -> bool:
        if self.symbol == "==":
            return self.identical
        if self.symbol == "!=":
            return not self.identical
        raise AmbiguousTensorTruth(
            f"the truth of a comparison `{self.symbol}` of whole tensors is not known while the program is being built",
            reason="it is a tensor of bools, one for each element",
            declared=self.source,
            called=user_source(),
            fix="choose by element: te.compute(shape, lambda *i: te.if_then_else(A[i] < B[i], a, b))",
        )


def axis_extent(axis: IterVar) -> Expr:
    """The extent of an axis that has a domain."""
    if axis.dom is None:
        raise InternalError(f"axis {axis.name} has no domain")
    return axis.dom.extent


def producers_first(
    outputs: Sequence[Operation], reads: Callable[[Operation], Iterable[Operation]] | None = None
) -> list[Operation]:
    """`outputs` and everything that they read, each after what it reads. reads: the operations that one reads, of those that count;
    without it all of its inputs."""
    order: dict[Operation, None] = {}
    entered: set[Operation] = set()
    stack = [(op, False) for op in reversed(outputs)]
    while stack:
        op, done = stack.pop()
        if done:
            order.setdefault(op)
        elif op not in entered:
            entered.add(op)
            stack.append((op, True))
            inputs = (tensor.op for tensor in op.input_tensors) if reads is None else reads(op)
            stack.extend((each, False) for each in reversed(list(inputs)))
    return list(order)
