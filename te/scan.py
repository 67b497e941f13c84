"""te.scan: recurrences along the first axis.

X = te.placeholder((T, n), name="X")
state = te.placeholder((T, n))
first = te.compute((1, n), lambda _, i: X[0, i])
following = te.compute((T, n), lambda t, i: state[t - 1, i] + X[t, i])
sums = te.scan(first, following, state, inputs=[X])                # sums[t, i]: the sum of X[:t + 1, i]
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast, overload

from ..base import dataclass, replace, user_source
from ..ir import DType, Expr, IntImm, IterVar, ProducerLoad, Range
from ..ir.lazy_values import cached_property
from ..ir.ops import cast as cast_to
from ..ir.ops import const, integer_value
from .compute import compute
from .errors import BadScan
from .operation import Operation
from .shape import axis_dtype, declare_axes, same_extent, shape_text, zero_based
from .tag import current_tag
from .tensor import Tensor, tensor_text

if TYPE_CHECKING:
    from .sizes import Sizes

__all__ = ["ScanOp", "scan"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScanOp(Operation):
    """States, each a tensor whose first axis is time: `init` says the first ones, `update` each following one.

    states: the placeholders that stand for the states in what updates are computed from. inputs: tensors from which, as
    from the states, what is computed on the way to an update is computed step by step. dims: an iteration variable for each
    dimension of each state. init, update, states and outputs correspond to each other.
    """

    init: tuple[Tensor, ...]
    update: tuple[Tensor, ...]
    states: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    dims: tuple[tuple[IterVar, ...], ...]
    kind: ClassVar[str] = "scan"
    noun: ClassVar[str] = "a scan: its steps are computed by stages of their own"
    is_stepwise: ClassVar[bool] = True

    @property
    def begins_with(self) -> tuple[Tensor, ...]:
        return self.init

    @property
    def scan_axis(self) -> IterVar:
        """Time, from the first step that is computed from others on."""
        return self.axis[0]

    @property
    def spatial_axis_(self) -> tuple[IterVar, ...]:
        """The dimensions of all states but time (TVM's name)."""
        return tuple(axis for dims in self.dims for axis in dims[1:])

    @property
    def output_dtypes(self) -> tuple[DType, ...]:
        return tuple(state.dtype for state in self.states)

    @property
    def output_shape(self) -> tuple[Expr, ...]:
        return self.states[0].shape

    @property
    def output_shapes(self) -> tuple[tuple[Expr, ...], ...]:
        return tuple(state.shape for state in self.states)

    @property
    def dimensions(self) -> tuple[tuple[IterVar, ...], ...]:
        return self.dims

    @property
    def own_placeholders(self) -> tuple[Tensor, ...]:
        return self.states

    @property
    def shared_memory(self) -> Sequence[tuple[Tensor, Tensor]]:
        """Initial values, updates and states lie in the memory of the scan's outputs."""
        memory = zip(self.init, self.update, self.states, self.outputs, strict=True)
        return [(tensor, output) for *tensors, output in memory for tensor in tensors]

    @property
    def assumptions(self) -> Sequence[tuple[Expr, str]]:
        """The first steps lie within the time that there is."""
        steps, time = self.init[0].shape[0], self.states[0].shape[0]
        return [(steps <= time, f"{self.name} takes {time} steps, fewer than the {steps} that it begins with")]

    @property
    def input_parts(self) -> Sequence[tuple[Tensor, Sequence[tuple[Expr, Expr] | None]]]:
        """All first steps, and of the updates those that are computed from others."""
        time = self.scan_axis.dom
        ends = None if time is None else (time.begin, time.begin + time.extent - 1)
        parts: list[tuple[Tensor, Sequence[tuple[Expr, Expr] | None]]] = []
        for init, update in zip(self.init, self.update, strict=True):
            parts += [(init, [None] * init.ndim), (update, [ends, *[None] * (update.ndim - 1)])]
        return parts

    def steps(self, order: Sequence[Operation]) -> dict[Operation, None]:
        """Return what it begins with, its updates, and what lies between its states or inputs and its updates."""
        needed = {tensor.op for tensor in self.update}
        given = {tensor.op for tensor in (*self.states, *self.inputs)}
        for op in reversed(order):
            if op in needed and op not in given:  # what inputs are computed from is no step
                needed.update(tensor.op for tensor in op.input_tensors)
        # what no state or input reaches is the same in every step, and stays outside of the loop
        reached, steps = set(given), dict.fromkeys(tensor.op for tensor in (*self.init, *self.update))
        for op in order:
            if op in needed and op not in reached and any(tensor.op in reached for tensor in op.input_tensors):
                reached.add(op)
                steps[op] = None
        return steps

    @cached_property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys((*self.init, *self.update)))

    def choose_extents(self, sizes: Sizes, is_output: bool) -> None:
        """States, updates and the scan have one shape, and all states one time, of one step that is computed at least."""
        shapes: list[list[Expr]] = []
        for state, output in zip(self.states, self.outputs, strict=True):
            needs = zip(state.shape, sizes.requirements(output), sizes.asked.get(state, [0] * state.ndim), strict=True)
            shapes.append([sizes.extent(extent, sizes.most(both), is_output) for extent, *both in needs])
        steps, time = self.init[0].shape[0], self.states[0].shape[0]
        if isinstance(time, IntImm) and isinstance(steps, IntImm):
            # one step beyond the first ones, or the update would never run
            chosen = max(steps.value + 1, *(shape[0].value for shape in shapes if isinstance(shape[0], IntImm)))
            time = const(min(chosen, time.value), time.dtype)
        for shape, state, init, update in zip(shapes, self.states, self.init, self.update, strict=True):
            sizes.shapes[state] = (time, *shape[1:])
            needs = [integer_value(extent) for extent in sizes.shapes[state]]
            sizes.need(update, needs)
            sizes.need(init, [None, *needs[1:]])

    def asks_for_more(self, sizes: Sizes, whole: bool) -> bool:
        """Return where a state has fewer elements than its steps read, or compute of it."""
        asked = False
        for state, init, update in zip(self.states, self.init, self.update, strict=True):
            needs = [
                sizes.most(both) for both in zip(sizes.requirements(state), sizes.requirements(update), strict=True)
            ]
            needs = [
                needs[0],
                *(sizes.most(both) for both in zip(needs[1:], sizes.requirements(init)[1:], strict=True)),
            ]
            for at, (shape, need) in enumerate(zip(sizes.shapes[state], needs, strict=True)):
                extent = state.shape[at]
                if (
                    isinstance(shape, IntImm)
                    and isinstance(extent, IntImm)
                    and shape.value < extent.value
                    and (need is None or need > shape.value)
                ):
                    sizes.asked.setdefault(state, [0] * state.ndim)[at] = None if whole else need
                    asked = True
        return asked

    def resize(self, sizes: Sizes, tensors: Mapping[Tensor, Tensor]) -> ScanOp:
        (time,) = self.axis
        assert time.dom is not None, "axes of operations have a domain"
        end = sizes.shapes[self.states[0]][0]
        dims = tuple(
            tuple(replace(axis, dom=zero_based(extent)) for axis, extent in zip(axes, sizes.shapes[state], strict=True))
            for axes, state in zip(self.dims, self.states, strict=True)
        )
        steps = replace(time, dom=Range(time.dom.begin, end - time.dom.begin)) if isinstance(end, IntImm) else time
        states = tuple(tensors.get(state) or state.op.reshape(sizes.shapes[state]).output(0) for state in self.states)
        init, update, read = (
            tuple(tensors.get(tensor, tensor) for tensor in some) for some in (self.init, self.update, self.inputs)
        )
        return replace(self, axis=(steps,), dims=dims, states=states, init=init, update=update, inputs=read)

    def replace_inputs(self, tensors: Mapping[Tensor, Tensor]) -> ScanOp:
        """The same recurrence of other tensors; itself where it has none of them."""
        names = ("init", "update", "inputs")
        changed = {name: tuple(tensors.get(tensor, tensor) for tensor in getattr(self, name)) for name in names}
        if all(all(map(operator.is_, changed[name], getattr(self, name))) for name in names):
            return self
        return replace(self, init=changed["init"], update=changed["update"], inputs=changed["inputs"])


@overload
def scan(
    init: Tensor,
    update: Tensor,
    state_placeholder: Tensor,
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor: ...
@overload
def scan(
    init: Sequence[Tensor],
    update: Sequence[Tensor],
    state_placeholder: Sequence[Tensor],
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> list[Tensor]: ...
def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor | list[Tensor]:
    """The states of a recurrence, a tensor, or a list of tensors where lists are given.

    All states have one time and one number of first steps. Of states that are no argument, memory holds as many steps as are read:
    those that an update reads, and the last ones that consumers read.

    Parameters
    ----------
    init : Tensor or sequence of Tensor
        The first steps of each state, of shape (steps, ...).
    update : Tensor or sequence of Tensor
        Each following step, a te.compute of shape (time, ...), which reads the states, and others' updates, at earlier steps (updates
        of the same step may be read from the updates themselves).
    state_placeholder : Tensor or sequence of Tensor
        te.placeholder((time, ...)) for each state.
    inputs : sequence of Tensor, optional
        Tensors that are read step by step besides: what is computed from inputs and states on the way to the updates is computed within
        the step.
    name : str, default "scan"
        Of the operation.
    tag : str, default ""
        See Operation.
    attrs : dict or None, default None
        See Operation.

    Returns
    -------
    Tensor or list of Tensor
        Of the states' shapes and dtypes.

    Raises
    ------
    BadScan (TW0141)
        Initial values, updates and states do not fit each other.
    """
    source = user_source()
    inits, updates, states = (
        _tensors(name, what, given)
        for what, given in (("init", init), ("update", update), ("state_placeholder", state_placeholder))
    )
    read = _tensors(name, "inputs", inputs) if inputs is not None else ()
    if not states or not len(inits) == len(updates) == len(states):
        raise _bad(
            name,
            f"it has {len(inits)} initial tensors, {len(updates)} updates and {len(states)} states",
            "give one of each for every state",
        )
    for state_parts in zip(inits, updates, states, strict=True):
        _check_state(name, *state_parts)
    _check_together(name, inits, updates, states)
    inits = tuple(_compute_initial(name, at, inits) for at in range(len(inits)))
    labels = [name] if len(states) == 1 else [f"{name}.v{at}" for at in range(len(states))]
    dims = tuple(declare_axes(state.shape, f"{label}.ax") for label, state in zip(labels, states, strict=True))
    op = ScanOp(
        name=name,
        tag=tag or current_tag(),
        attrs=attrs or {},
        source=source,
        axis=(_time(name, inits[0], states[0]),),
        init=inits,
        update=updates,
        states=states,
        inputs=read,
        dims=dims,
    )
    return list(op.outputs) if isinstance(state_placeholder, (list, tuple)) and len(states) > 1 else op.outputs[0]


def _time(name: str, init: Tensor, state: Tensor) -> IterVar:
    """The axis of the steps that are computed."""
    dtype = axis_dtype(state.shape[0])
    begin, end = cast_to(init.shape[0], dtype), cast_to(state.shape[0], dtype)
    return IterVar(f"{name}.idx", dtype, Range(begin, end - begin), "ordered")


def _bad(name: str, reason: str, fix: str, tensor: Tensor | None = None) -> BadScan:
    return BadScan(
        f"cannot declare the scan {name}",
        reason=reason[:300],
        called=user_source(),
        declared=tensor.source if tensor is not None else None,
        fix=fix,
    )


def _tensors(name: str, what: str, given: object) -> tuple[Tensor, ...]:
    several: tuple[object, ...] = (
        tuple(cast("Sequence[object]", given)) if isinstance(given, (list, tuple)) else (given,)
    )
    wrong = next((tensor for tensor in several if not isinstance(tensor, Tensor)), None)
    if wrong is not None:
        raise _bad(
            name, f"{what} has {wrong!r}, not a tensor", "te.scan(init, update, state, inputs=[X]), all of them tensors"
        )
    return tuple(tensor for tensor in several if isinstance(tensor, Tensor))


def _check_state(name: str, init: Tensor, update: Tensor, state: Tensor) -> None:
    if not state.op.is_passed or state.ndim == 0:
        raise _bad(
            name,
            f"the state is {tensor_text(state)}, no placeholder with a first axis for time",
            "state = te.placeholder((time, ...)), which the update reads",
            state,
        )
    if not update.op.values:
        raise _bad(
            name,
            f"the update {update.name} is a {update.op.kind}, which is not computed step by step",
            "declare the update by te.compute",
            update,
        )
    for what, tensor, shape in (("update", update, state.shape), ("init", init, (*init.shape[:1], *state.shape[1:]))):
        if (
            tensor.dtype != state.dtype
            or len(tensor.shape) != len(shape)
            or not all(map(same_extent, tensor.shape, shape))
        ):
            wanted = (
                shape_text(state.shape)
                if what == "update"
                else f"(steps, {shape_text(state.shape)[1:].split(',', 1)[-1]}"
            )
            raise _bad(
                name,
                f"the {what} is {tensor_text(tensor)}, the state {tensor_text(state)}",
                f"the {what} of a state has its dtype and the shape {wanted}",
                tensor,
            )
    first = update.op.axis[0]
    # the step's own elements are not stored yet; other dimensions may be read in any order
    same = next((load for load in update.op.loads if load.producer is state and load.indices[0] is first), None)
    if same is not None:
        raise _bad(
            name,
            f"the update {update.name} reads {same}, the step that it computes",
            f"read an earlier step: {state.name}[{first.name} - 1, ...]",
            update,
        )


def _check_together(
    name: str, inits: tuple[Tensor, ...], updates: tuple[Tensor, ...], states: tuple[Tensor, ...]
) -> None:
    steps, time = inits[0].shape[0], states[0].shape[0]
    for init, state in zip(inits, states, strict=True):
        if not same_extent(init.shape[0], steps) or not same_extent(state.shape[0], time):
            raise _bad(
                name,
                f"{tensor_text(init)} and {tensor_text(state)} beside {steps} first steps of {time}",
                "give all states the same time, and all initial tensors the same number of steps",
                state,
            )
    if isinstance(steps, IntImm) and isinstance(time, IntImm) and steps.value > time.value:
        raise _bad(name, f"{steps} first steps are more than the {time} that there are", "give fewer", inits[0])
    for what, given in (("update", updates), ("state", states)):
        if len(set(given)) < len(given):
            raise _bad(
                name,
                f"one {what} is given twice",
                f"give each state {'a placeholder' if what == 'state' else 'an update'} of its own",
            )


def _compute_initial(name: str, at: int, inits: tuple[Tensor, ...]) -> Tensor:
    """The initial tensor, as one that is computed into the state: a copy of what is not, or is another's too."""
    init = inits[at]
    # it can be computed into the state's own memory, by one state alone
    if init.op.values and init not in inits[:at]:
        return init
    label = f"{name}.init" if len(inits) == 1 else f"{name}.init{at}"
    return compute(init.shape, lambda *indices: ProducerLoad(init, indices), name=label)
