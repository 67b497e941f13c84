"""te.gradient: reverse mode over tensors.

The operations between the output and the inputs are met in reverse order. When all that reads a tensor has been met,
its adjoint is the sum of what each read contributes: a stage where a read sums or where there are several, so that the
result is ordinary tensors. The adjoint of an operation's element goes through its reduction (reductions.py), then
through its expression (backward.py), to the elements that it reads, and each read is turned round (transpose.py). Operations
that are programs run backwards as a whole (whole.py).

After E. Sheyko's automatic differentiation of tensor expressions for TVM (2018): there the dense Jacobian of each
stage is written down and then simplified; here the equations between indices are solved before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, cast

from ...base import dataclass, user_source
from ...ir import EQ, Expr, IterVar, ProducerLoad, Var, ops, post_order, substitute
from ..compute import compute
from ..operation import ZERO_GRADIENT, ComputeOp, Operation, producers_first
from ..shape import declare_axes, same_extent, shape_text
from ..tag import current_tag
from ..tensor import Tensor
from ..wraparound import wrapping
from .backward import Condition, Contribution, adjoints_of_reads
from .errors import BadHead, GradientOfIntegers, NotDifferentiable, NotTensors
from .imperative import propagate_gradients
from .reductions import Piece, derive_parts
from .scatter import derive_scatter, pays, scatter_reads
from .transpose import Term, transpose

__all__ = ["gradient"]


def gradient(output: Tensor, inputs: Tensor | Sequence[Tensor], head: Tensor | None = None) -> list[Tensor]:
    """The derivative of `output` by each of `inputs`, multiplied from the left by `head`, as tensors that schedule like any other.

    Zero counts as the derivative of what is constant in pieces: indices, conditions, casts to integers, floor; an
    input that `output` does not depend on gets zeros. At kinks one side is taken: of equal operands te.min and te.max
    follow the first, but te.max(x, 0) and te.abs(x) are flat at 0, a reduction by te.min or te.max follows the first element
    in loop order. te.prod divides the product by the factor, zeros apart. A combiner of one's own that chooses nothing takes work that
    is quadratic in the length of the reduction.

    The gradient of a read at indices that are data is a scatter: an operation of loops, as hybrid scripts are, that adds to the elements
    that were read; over dimensions of up to 16 elements, which ask each read instead, it is a sum. A hybrid script, with its loops and
    branches, and a te.scan run forward once more and then backwards, which takes memory for what derivatives on the way back read.

    Parameters
    ----------
    output : Tensor
        Of floats.
    inputs : Tensor or sequence of Tensor
        Of floats: placeholders, or tensors on the way to the output.
    head : Tensor or None, default None
        The derivative of something by `output`, of shape `(..., *output.shape)`.

    Returns
    -------
    list of Tensor
        One for each input, of its dtype and shape `(..., *input.shape)`. Without a head it is the Jacobian, of shape
        `(*output.shape, *input.shape)`; of an output of rank 0 that is the gradient.

    Raises
    ------
    NotTensors (TW0173)
        An argument is no tensor.
    GradientOfIntegers (TW0171)
        A tensor is not of floats.
    BadHead (TW0172)
        The head's shape does not end in the output's, or it is not of floats.
    NotDifferentiable (TW0170)
        Outside code, bits, or a combiner that chooses lies on the way.
    """
    wanted = _check_inputs(output, inputs)
    prefix = _head_shape(output, head)
    backward = _Backward(output, wanted, prefix, head)
    backward.run()
    return [backward.result(tensor) for tensor in wanted]


def _check_inputs(output: Any, inputs: Any) -> list[Tensor]:
    several = isinstance(inputs, (list, tuple))
    wanted = list(cast("Sequence[Any]", inputs)) if several else [inputs]
    for what, tensor in (("output", output), *(("input", tensor) for tensor in wanted)):
        if not isinstance(tensor, Tensor):
            raise NotTensors(
                f"the {what} of te.gradient is not a tensor",
                reason=f"got {tensor!r}"[:200],
                called=user_source(),
                fix="te.gradient(output, [input, ...], head=None) takes tensors",
            )
        if not tensor.dtype.is_float:
            raise GradientOfIntegers(
                f"the {what} {tensor.name} of te.gradient is of {tensor.dtype}",
                declared=tensor.source,
                reason="a derivative needs numbers that can change by a little",
                called=user_source(),
                fix=f'compute in floats: {tensor.name}.astype("float32"), declared before what reads it',
            )
    return wanted


def _head_shape(output: Tensor, head: Any) -> tuple[Expr, ...]:
    """The dimensions of the result that stand before the input's own."""
    if head is None:
        return output.shape
    rank = output.ndim
    if not isinstance(head, Tensor):
        raise NotTensors(
            "the head of te.gradient is not a tensor",
            reason=f"got {head!r}"[:200],
            called=user_source(),
            fix=f"te.placeholder({shape_text(output.shape)}), or leave it out for the Jacobian",
        )
    own = head.shape[head.ndim - rank :] if head.ndim >= rank else ()  # the head ends in the output's dimensions
    fits = len(own) == rank and all(map(same_extent, own, output.shape))
    if not fits or not head.dtype.is_float:
        raise BadHead(
            f"head {head.name} does not fit the output {output.name}",
            declared=head.source,
            reason=f"it is {head.dtype} of shape {shape_text(head.shape)}; the output has shape {shape_text(output.shape)}",
            called=user_source(),
            allowed="floats of a shape that ends in the output's",
            fix=f"te.placeholder({shape_text(output.shape)}), with any dimensions before for several heads at once",
        )
    return head.shape[: head.ndim - rank]


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """A read of a tensor, its adjoint over `axes` of the operation that reads and over the head's axes."""

    load: ProducerLoad
    adjoint: Contribution
    axes: tuple[IterVar, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Adjoint:
    """The adjoint of a tensor: its element at the head's axes and the tensor's, as an expression over `axes`."""

    axes: tuple[IterVar, ...]
    element: Contribution

    def at(self, indices: Sequence[Expr]) -> Contribution:
        values: dict[Var, Expr] = dict(zip(self.axes, indices, strict=True))
        conditions = tuple(Condition(substitute(c.holds, values), c.lazy) for c in self.element.conditions)
        return Contribution(conditions, substitute(self.element.value, values))


class _Backward:
    """One run of reverse mode."""

    def __init__(self, output: Tensor, wanted: Sequence[Tensor], prefix: tuple[Expr, ...], head: Tensor | None) -> None:
        self.output, self.wanted, self.prefix, self.head = output, wanted, prefix, head
        self.heads = declare_axes(prefix, "h")
        """Stand for the head's axes in what is being made."""
        self.operations = producers_first([output.op])
        # only what lies between the output and the inputs is differentiated
        self.relevant = _relevant(self.operations, wanted)
        self.reads: dict[Tensor, list[_Read]] = {}
        self.parts: dict[Tensor, list[Tensor]] = {}
        """What operations that are programs add to the adjoint of a tensor."""
        self.made: dict[Tensor, Tensor] = {}

    def run(self) -> None:
        for op in reversed(self.operations):  # what reads a tensor comes before what makes it
            for tensor in op.outputs:
                if tensor in self.relevant:
                    adjoint = self._adjoint(tensor)
                    # an operation of which no input is relevant ends the gradient
                    if adjoint is not None and any(read in self.relevant for read in op.input_tensors):
                        self._propagate_output(op, tensor, adjoint)

    def result(self, tensor: Tensor) -> Tensor:
        """The tensor of its adjoint."""
        gradient = self.made.get(tensor)
        if gradient is not None:
            return gradient
        # the output itself may be asked for
        adjoint = self._seed() if tensor is self.output and not self.reads.get(tensor) else None
        if adjoint is not None:
            value = adjoint.element.chosen()
            gradient = _stage(f"grad_{tensor.name}", adjoint.axes, value)
        else:  # an input that nothing depends on gets zeros
            zero = ops.const(0, tensor.dtype)
            gradient = compute((*self.prefix, *tensor.shape), lambda *_: zero, f"grad_{tensor.name}", current_tag())
        self.made[tensor] = gradient
        return gradient

    def _seed(self) -> _Adjoint:
        """The adjoint of the output by itself: the head, or without one 1 where its index is the element's."""
        heads, own = declare_axes(self.prefix, "h"), declare_axes(self.output.shape, "i")
        axes = (*heads, *own)
        if self.head is not None:
            value = ops.cast(ProducerLoad(self.head, axes), self.output.dtype)
            return _Adjoint(axes, Contribution((), value))
        # the Jacobian of the output by itself is the identity
        same = tuple(Condition(ops.equal(h, i)) for h, i in zip(heads, own, strict=True))
        return _Adjoint(axes, Contribution(same, ops.const(1.0, self.output.dtype)))

    def _adjoint(self, tensor: Tensor) -> _Adjoint | None:
        """The adjoint of a tensor whose readers have all been met; None for zero."""
        if tensor is self.output:  # nothing between the output and the inputs reads it
            return self._seed()
        terms: list[tuple[tuple[IterVar, ...], Term]] = []
        for read in self.reads.pop(tensor, ()):
            heads, own = declare_axes(self.prefix, "h"), _element_axes(tensor)
            axes = (*heads, *own)
            if pays(read.load):  # indices that are data: adding up is cheaper than asking each element
                scattered = scatter_reads(f"grad_{tensor.name}", read.load, read.adjoint, self.heads, read.axes)
                terms.append((axes, Term((), ops.const(True, "bool"), ProducerLoad(scattered, axes))))
                continue
            adjoint = _Adjoint(self.heads, read.adjoint).at(heads)
            terms += ((axes, term) for term in transpose(read.load, adjoint, read.axes, own, axes))
        for part in self.parts.pop(tensor, ()):
            axes = (*declare_axes(self.prefix, "h"), *_element_axes(tensor))
            terms.append((axes, Term((), ops.const(True, "bool"), ProducerLoad(part, axes))))
        if not terms:
            return None
        axes, term = terms[0]
        # a program's tensor as a whole needs no stage around it
        if len(terms) == 1 and (whole := _find_full(axes, term)) is not None:
            self.made[tensor] = whole
            return _Adjoint(axes, Contribution((), term.value))
        # a term that is mostly zero: its condition tells the next stage more
        if len(terms) == 1 and not term.axes and self.head is None and _ties(term.where, axes[: len(self.prefix)]):
            conditions = tuple(Condition(part, lazy=True) for part in ops.conjuncts(term.where))
            if tensor in self.wanted:
                self.made[tensor] = _stage(f"grad_{tensor.name}", axes, term.body())
            return _Adjoint(axes, Contribution(conditions, term.value))
        summed = self.made[tensor] = _sum_terms(f"grad_{tensor.name}", terms)
        axes = (*declare_axes(self.prefix, "h"), *_element_axes(tensor))
        return _Adjoint(axes, Contribution((), ProducerLoad(summed, axes)))

    def _propagate_output(self, op: Operation, tensor: Tensor, adjoint: _Adjoint) -> None:
        """Take the adjoint of one output of `op` to what it reads."""
        if op.additions is not None:  # scattered additions have a derivative of their own
            self._contribute(op, derive_scatter(op.additions, lambda place: adjoint.at((*self.heads, *place))))
            return
        compute = op.as_compute
        if compute is None:
            parts = propagate_gradients(op, tensor, self.prefix, adjoint.at, self.relevant)
            for read, part in (parts or {}).items():
                self.parts.setdefault(read, []).append(part)
            if parts is not None:
                return
            raise NotDifferentiable(
                f"the gradient would go through {op.name}, whose elements are not expressions",
                declared=op.source,
                reason=f"it is a {op.kind} operation",
                called=user_source(),
                fix="take the gradient of what comes before it and after it, with its own as a head, or write it by "
                "te.compute",
            )
        seed = adjoint.at((*self.heads, *op.axis))
        for piece in derive_parts(compute, tensor.value_index, seed):
            self._contribute(op, piece)

    def _contribute(self, op: Operation, piece: Piece) -> None:
        """Note what each read of a piece contributes."""
        for load, contribution in adjoints_of_reads(piece.value, piece.seed, self._concerns, op.source):
            producer = cast("Tensor", load.producer)
            self.reads.setdefault(producer, []).append(_Read(load, contribution, piece.axes))

    def _concerns(self, load: ProducerLoad) -> bool:
        return load.producer in self.relevant


def _relevant(operations: Sequence[Operation], wanted: Sequence[Tensor]) -> set[Any]:
    """The tensors of floats that an input lies below, and the inputs."""
    relevant: set[Any] = set(wanted)
    for op in operations:
        # an operation may say that its result's gradient is zero, as a softmax's maximum
        if not op.is_given and ZERO_GRADIENT not in op.attrs and any(tensor in relevant for tensor in op.input_tensors):
            relevant.update(tensor for tensor in op.outputs if tensor.dtype.is_float)
    return relevant


def _element_axes(tensor: Tensor) -> tuple[IterVar, ...]:
    """Fresh axes over the elements of a tensor, named after its own."""
    axes = declare_axes(tensor.shape, "i")
    if not tensor.op.values:
        return axes
    # named after its own axes, for whoever reads the program
    return tuple(IterVar(old.name, new.dtype, new.dom) for old, new in zip(tensor.op.axis, axes, strict=True))


def _copies(axes: Sequence[IterVar]) -> tuple[IterVar, ...]:
    """Axes over the same elements for another operation: each has its own."""
    return tuple(IterVar(axis.name, axis.dtype, axis.dom) for axis in axes)


def _find_full(axes: Sequence[IterVar], term: Term) -> Tensor | None:
    """The tensor that a term is element by element, if a program computes it."""
    value = term.value
    if term.axes or not ops.is_const(term.where, 1) or not isinstance(value, ProducerLoad):
        return None
    if not all(map(is_, value.indices, axes)):  # by identity: each axis at its own place
        return None
    made = cast("Tensor", value.producer)
    return made if made.op.runs_in_order else None


def _ties(condition: Expr, heads: Sequence[IterVar]) -> bool:
    """Return whether a condition says that one of `heads` equals something: most elements are zero, and the condition is
    worth more to the next stage than a tensor that is mostly zeros."""
    return any(
        isinstance(part, EQ) and any(node in heads for node in post_order(part) if isinstance(node, IterVar))
        for part in ops.conjuncts(condition)
    )


def _sum_terms(name: str, terms: Sequence[tuple[tuple[IterVar, ...], Term]]) -> Tensor:
    """The sum of terms as a stage; those that are sums themselves, beside others, as stages that it adds."""
    if len(terms) == 1:
        axes, term = terms[0]
        return _stage(name, axes, term.body())
    own = _copies(terms[0][0])  # each stage has axes of its own
    total: Expr | None = None
    for at, (axes, term) in enumerate(terms):
        if term.axes:  # a sum within a sum would be nested reductions
            apart = _copies(axes)
            body = term.over(dict(zip(axes, apart, strict=True))).body()
            value: Expr = ProducerLoad(_stage(f"{name}_{at}", apart, body), own)
        else:
            value = term.over(dict(zip(axes, own, strict=True))).body()
        total = value if total is None else ops.add(total, value)
    assert total is not None
    return _stage(name, own, total)


def _stage(name: str, axes: tuple[IterVar, ...], body: Expr) -> Tensor:
    op = ComputeOp(name=name, tag=current_tag(), source=user_source(), axis=axes, body=wrapping(axes, (body,)))
    return op.output(0)
