"""Lowering: from a schedule to a function of the loop IR.

`lower` is a pure function of the schedule's state: dataflow (with inlining), bounds, then a nest for each stage, producers
first, each placed before the rest of the body of the loop that it is computed at. What is no argument is allocated there,
as large as the region that is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base import dataclass, replace, user_source
from ...ir import Buffer, BufferLoad, BufferStore, Expr, Function, If, IterVar, Node, Stmt, StringImm, Var
from ...ir.arith.analyzer import Analyzer
from ...ir.constant import ALIGNMENT, Constant
from ...ir.passes.common.int4 import WHOLE_RESULTS
from ...ir.passes.common.large_values import name_large_values
from ...ir.visit import deep_recursion, free_vars, rewrite, seq
from ...te.operation import Operation, producers_first
from ...te.tensor import Tensor
from ..model.attributes import IMPORTS
from ..model.primitive import lowerings
from ..model.schedule import Schedule
from ..model.stage import Stage
from .bounds import infer_bounds
from .bounds_proof import judge
from .checks import check_loops
from .computation import Bounds, Computation, Dataflow, Loop, StageBounds
from .dataflow import analyse
from .errors import MissingArgument, MissingSymbol, NotAnArgument
from .extension import Extension
from .kinds import find_kind
from .nest import Nest, Storage
from .races import check_races
from .shared_loops import Parts, sort_by_dependence, sort_for_building
from .sizes import extent_checks, part_checks

__all__ = ["Lowered", "lower", "lower_parts"]


def lower(schedule: Schedule, args: Sequence[Tensor | Var], name: str = "main") -> Function:
    """The loop IR (stage "loops") of `schedule` as a function of `args`: tensors and scalar te.vars, in call order.

    Raises LoweringError where the schedule as a whole does not hold together, or where a tensor that is read from
    outside, an output or a scalar is missing from `args`.
    """
    return lower_parts(schedule, args, name).function


@dataclass(frozen=True, slots=True)
class Lowered:
    """A lowered function, and what its parts stand for.

    loops: what each loop variable runs over; the loops of a tensor intrinsic's body are in none of the schedule's. tensors:
    what each buffer holds. bounds: the regions and ranges that the loops were made from.
    """

    function: Function
    loops: dict[Var, Loop]
    tensors: dict[Buffer, Tensor]
    bounds: Bounds


def lower_parts(schedule: Schedule, args: Sequence[Tensor | Var], name: str = "main") -> Lowered:
    """Lower as `lower` does, with what is known of the parts of the function."""
    with deep_recursion():
        return _Lowering(schedule, args, name).run()


@dataclass(slots=True)
class _Arguments:
    """Parameters of a lowered function.

    params: in call order. buffers: the parameter of each tensor, by the tensor that the schedule computes now.
    """

    params: list[Buffer | Var]
    buffers: dict[Tensor, Buffer]


class _Lowering:
    """One run; the steps share the schedule, the arguments, the bounds and the storage."""

    def __init__(self, schedule: Schedule, args: Sequence[Tensor | Var], name: str) -> None:
        self.schedule, self.name = schedule, name
        declared = {*producers_first(schedule.outputs)}
        self.arguments = _arguments(schedule, args)
        self.passed = [arg for arg in args if isinstance(arg, Tensor)]
        self.computed = [
            arg.op for arg in args if isinstance(arg, Tensor) and not arg.op.is_given and arg.op in declared
        ]
        """The operations, as declared, of whose results the caller wants all."""
        self.analyzer = Analyzer()
        self.storage = Storage()
        self.pending: dict[tuple[Computation | None, int], list[tuple[Computation, Stmt]]] = {}
        self.parts: dict[Computation, Parts] = {}
        """What is computed with another, until that is built."""
        self.extensions = [
            extension(self.storage, self.analyzer) for extension in lowerings() if issubclass(extension, Extension)
        ]
        self.storage.strides = self._strides
        self.bounds: dict[Computation, StageBounds] = {}
        self.shared: set[Tensor] = set()
        """Tensors that lie in the storage of others."""

    def run(self) -> Lowered:
        self._bind_symbols()  # symbols first: bounds rely on extents that are not negative
        given = self.arguments.buffers
        judgement = judge((*self.schedule.outputs, *self.computed))
        dataflow = analyse(self.schedule, [tensor.op for tensor in given], judgement)
        constants = self._constants(dataflow)
        _check_arguments(self.schedule, dataflow, given)
        bounds = infer_bounds(dataflow, self.analyzer)
        self.bounds = bounds.of
        check_loops(bounds)  # before nests are built: what is wrong there would be hard to name
        check_races(bounds)
        for computation in dataflow.computations:
            find_kind(computation.op).check(bounds, computation)
        for extension in self.extensions:
            extension.plan(bounds)
        for tensor, buffer in given.items():
            self.storage.place(tensor, buffer)
        self.storage.given.update(given.values())
        for computation in dataflow.computations:  # states of a scan share its memory, so they are placed first
            self._share(bounds.of[computation])
        for computation in dataflow.computations:
            self._place(bounds.of[computation])
        for computation in sort_for_building(dataflow.computations):
            self._build(bounds, computation)
        declared = producers_first((*self.schedule.outputs, *self.computed))
        checks = (*judgement.checks, *extent_checks(declared, self.passed, self.analyzer), *part_checks(bounds))
        # checks stand before everything that they protect
        body = name_large_values(seq(*checks, self._attach_pending(None, -1, None)))
        outputs = tuple(buffer for tensor, buffer in given.items() if tensor.op in dataflow.by_op)
        function = Function(self.name, tuple(self.arguments.params), body, outputs, self._facts(), constants)
        _check_symbols(function)  # a symbol without a value would be an unbound variable in the kernel
        function, aligned = align_parameters(function, self.storage.alignments)
        tensors = {aligned.get(buffer, buffer): tensor for tensor, buffer in self.storage.buffers.items()}
        return Lowered(function, self.storage.loops, tensors, bounds)

    def _constants(self, dataflow: Dataflow) -> tuple[Constant, ...]:
        """Turn known values that are read into the last parameters, which nobody passes."""
        constants: list[Constant] = []
        for tensor in (
            stage.op.output(0) for stage in self.schedule.stages
        ):  # in an order that scheduling does not change
            if (value := tensor.op.constant) is not None and tensor in dataflow.placeholders:
                buffer = Buffer(tensor.name, tensor.shape, tensor.dtype, alignment=ALIGNMENT)
                self.arguments.buffers[tensor] = buffer
                self.arguments.params.append(buffer)
                constants.append(value)
        return tuple(constants)

    def _facts(self) -> dict[str, Any]:
        """The attributes of the function. import_llvm, import_c: the texts that its pragmas bring, each once. whole_results: see
        ir/passes/common/int4.py."""
        facts: dict[str, Any] = {"stage": "loops"}
        whole = {
            self.arguments.buffers.get(tensor)
            for stage in self.schedule.stages
            if stage.op.as_compute is not None and stage.store_predicate is None
            for tensor in stage.op.outputs
            if tensor.dtype.bits == 4
        }
        if whole - {None}:
            facts[WHOLE_RESULTS] = tuple(at for at, param in enumerate(self.arguments.params) if param in whole)
        pragmas = [
            pair for stage in self.schedule.stages for attr in stage.iter_var_attrs.values() for pair in attr.pragmas
        ]
        for kind in IMPORTS:
            # a text that two stages import is imported once
            texts = dict.fromkeys(value.value for key, value in pragmas if key == kind and isinstance(value, StringImm))
            if texts:
                facts[kind] = tuple(texts)
        return facts

    def _bind_symbols(self) -> None:
        """Extents are not negative. What a call lets them be at most is left out: it would bound regions by a billion."""
        for buffer in self.arguments.buffers.values():
            for extent in buffer.shape:
                if isinstance(extent, Var):
                    self.analyzer.bind(extent, (0, None))

    def _share(self, bounds: StageBounds) -> None:
        """Give a stage storage, where that is other tensors' too, and these the same."""
        op = bounds.computation.op
        for tensor, home in op.shared_memory:
            self._place(bounds)
            self.storage.place(tensor, self.storage.buffers[home], self.storage.origins.get(home, ()))
            self.shared.add(tensor)

    def _place(self, bounds: StageBounds) -> None:
        """Give the outputs of a stage storage."""
        op = bounds.computation.op
        for tensor, dimensions in zip(op.outputs, op.dimensions, strict=True):
            if tensor not in self.storage.buffers:  # a tensor that shares memory has a place by now
                shape = bounds.storage_shape(tensor)
                strides = self._strides(bounds.computation.stage, dimensions, shape)
                buffer = Buffer(tensor.name, shape, tensor.dtype, strides, scope=bounds.scope)
                self.storage.place(tensor, buffer, tuple(bounds.ranges[axis].begin for axis in dimensions))

    def _build(self, bounds: Bounds, computation: Computation) -> None:
        places = {loop: at for at, loop in enumerate(bounds.of[computation].loops)}
        # followers' statements are inside of the leader's loops
        joined = [self.parts.pop(follower) for follower in computation.followers]

        def wrap(loop: Loop | int, body: Stmt) -> Stmt:
            if isinstance(loop, int):
                return self._attach_pending(computation, loop, body)
            for parts in reversed(joined):
                body = parts.within(places[loop], body)
            body = self._attach_pending(computation, places[loop], body)
            first = (
                []
                if loop.var is None
                else [stmt for extension in self.extensions for stmt in extension.begin(nest, loop)]
            )
            body = seq(*first, body) if first else body
            for extension in self.extensions:
                body = extension.within(nest, loop, body)  # extensions run from the inside out, in one order
            return body

        def around(loop: Loop, statement: Stmt) -> Stmt:
            for extension in self.extensions:
                statement = extension.around((computation, places[loop]), loop, statement)
            return statement

        nest = Nest(bounds, bounds.of[computation], self.storage, wrap, around)
        statement = self._store_by_first(bounds.of[computation], find_kind(computation.op).nest(nest))
        for parts in reversed(joined):
            statement = parts.around(statement)
        if computation.leader is not None:
            self.parts[computation] = Parts(bounds.of[computation], statement)
        # a stage that an extension places itself is not pending
        elif not any(extension.takes(bounds, computation, statement) for extension in self.extensions):
            self.pending.setdefault((computation.parent, computation.place), []).append((computation, statement))

    def _strides(self, stage: Stage, axes: Sequence[IterVar], shape: Sequence[Expr]) -> tuple[Expr, ...]:
        asked = (extension.strides(stage, axes, shape) for extension in self.extensions)
        return next((strides for strides in asked if strides), ())

    def _store_by_first(self, bounds: StageBounds, statement: Stmt) -> Stmt:
        """`statement`, where it stores states of a recurrence in threads, done by the first of those that the stage has no loops
        for: all would store the same. Other memory of a step is made in the threads, by each for itself."""
        # memory of the stage alone is stored by whoever computes it
        if self.shared.isdisjoint(bounds.computation.op.outputs):
            return statement
        stays = [loop for loop in bounds.enclosing if loop.thread and loop.stage.op.is_stepwise]
        shares = {loop.thread for loop in (*bounds.enclosing, *bounds.loops) if loop not in stays}
        for loop in reversed(stays):
            first = loop.value.equal(0)
            # a thread loop that the stage has itself already divides the work
            if loop.thread not in shares and not self.analyzer.can_prove(first):
                statement = If(first, statement)
        return statement

    def _attach_pending(self, parent: Computation | None, place: int, body: Stmt | None) -> Stmt:
        """The stages computed at a loop (or at root), producers first, then `body`; each allocated around what follows."""
        for leader, statement in reversed(sort_by_dependence(self.pending.pop((parent, place), []), self.bounds)):
            body = seq(statement, body)
            for computation in (leader, *leader.followers):
                # an extension may need memory around more than the consumer
                if any(extension.allocates(computation) for extension in self.extensions):
                    continue
                own = [
                    self.storage.buffers[tensor]
                    for tensor in computation.op.outputs
                    if tensor not in self.arguments.buffers and tensor not in self.shared
                ]
                body = find_kind(computation.op).allocated(self.bounds[computation], own, body, self.analyzer)
        return body if body is not None else seq()


# Arguments


def _arguments(schedule: Schedule, args: Sequence[object]) -> _Arguments:
    arguments = _Arguments([], {})
    seen: set[Tensor | Var] = set()
    for position, arg in enumerate(args):
        if isinstance(arg, Tensor) and arg.op.constant is not None:
            raise NotAnArgument(
                f"argument {position}, {arg.name}, is a constant",
                declared=arg.op.source,
                called=user_source(),
                reason="its elements are known, so that nobody passes them",
                fix=f"leave {arg.name} out, or declare it as te.placeholder to pass it",
            )
        if isinstance(arg, Tensor):
            tensor = _current(schedule, arg, position)
            buffer = Buffer(arg.name, tensor.shape, arg.dtype)
            arguments.buffers.setdefault(tensor, buffer)
            arguments.params.append(buffer)
        elif isinstance(arg, Var) and not isinstance(arg, IterVar):  # an iter var is an axis, whose value nobody passes
            arguments.params.append(arg)
        else:
            raise NotAnArgument(
                f"argument {position} is neither a tensor nor a scalar",
                called=user_source(),
                reason=f"got {arg!r}"[:200],
                allowed="tensors and te.vars, in call order",
            )
        if arg in seen:
            raise NotAnArgument(
                f"argument {position}, {arg.name}, is given twice",
                called=user_source(),
                reason="each argument has one place in the call",
                fix="list it once",
            )
        seen.add(arg)
    return arguments


def _current(schedule: Schedule, tensor: Tensor, position: int) -> Tensor:
    """The tensor that the schedule computes now for one that was declared."""
    if tensor not in schedule:
        if tensor.op.is_passed:
            return tensor  # a parameter that nothing reads
        raise NotAnArgument(
            f"argument {position}, {tensor.name}, is not computed by this schedule",
            declared=tensor.op.source,
            called=user_source(),
            reason="the schedule was created from other outputs",
            fix=f"te.create_schedule([..., {tensor.name}.op])",
        )
    stage = schedule[tensor]
    if stage.attach_type in ("inline", "inlined"):
        raise NotAnArgument(
            f"argument {position}, {tensor.name}, is not stored anywhere",
            declared=tensor.op.source,
            called=user_source(),
            reason=f"{stage.name} is inlined into its consumers",
            fix=f"s[{stage.name}].compute_root(), or do not pass it",
        )
    return stage.op.output(tensor.value_index)


def _check_arguments(schedule: Schedule, dataflow: Dataflow, given: dict[Tensor, Buffer]) -> None:
    """Everything that is read from outside, and every output, must be an argument."""
    for tensor in dataflow.placeholders:
        if tensor not in given:
            raise _missing(tensor.op, f"{tensor.name} is read, but is not among the arguments")
    for stage in schedule.stages:
        if stage.is_output and not any(tensor in given for tensor in stage.op.outputs):
            raise _missing(stage.op, f"the output {stage.name} is not among the arguments")


def _missing(op: Operation, what: str) -> MissingArgument:
    return MissingArgument(
        f"cannot lower: {what}",
        declared=op.source,
        called=user_source(),
        reason="a kernel reads and writes memory that its caller passes",
        fix=f"add {op.name} to the list of arguments",
    )


def _check_symbols(function: Function) -> None:
    """Every scalar that is read must be an argument, or occur in the shape of one."""
    known: set[Expr] = set(function.scalars)
    for buffer in function.buffers:
        for extent in buffer.shape:
            # an extent that is an expression gives its symbols by solving it
            known.update([extent] if isinstance(extent, Var) else free_vars(extent))
    for var in free_vars(function):
        if var not in known:
            raise MissingSymbol(
                f"cannot lower: {var.name} is read, but is not among the arguments",
                called=user_source(),
                reason=f"no argument's shape tells {var.name}, so its value must be passed",
                fix=f"add {var.name} to the list of arguments",
            )


# Arguments whose addresses a schedule relies on: a declared buffer with data_alignment stands for a part of them.
#
#     def main(A: float32[64]):   →   def main(A: float32[64, align=64]):
#
# The call checks the address, and code generation makes use of it.


def align_parameters(function: Function, wanted: Mapping[Buffer, int]) -> tuple[Function, dict[Buffer, Buffer]]:
    """The function whose parameters are aligned to so many bytes, and the new parameters by the old ones."""
    renamed = {buffer: replace(buffer, alignment=max(bytes_, buffer.alignment)) for buffer, bytes_ in wanted.items()}
    if not renamed:
        return function, {}

    def rule(node: Node) -> Node | None:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in renamed:
            return replace(node, buffer=renamed[node.buffer])
        return None

    params = tuple(renamed.get(param, param) if isinstance(param, Buffer) else param for param in function.params)
    outputs = tuple(renamed.get(buffer, buffer) for buffer in function.outputs)
    return replace(function, params=params, outputs=outputs, body=rewrite(function.body, rule)), renamed
