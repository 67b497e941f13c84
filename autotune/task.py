"""Tasks: what is tuned, and the key under which its results are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import llvmlite

from ..autoschedule.search.decisions import DecisionSpace
from ..autoschedule.search.space import Space
from ..base import CudaError, dataclass, replace, user_source
from ..codegen.calibration import read_calibration
from ..codegen.export.manifest import own_version
from ..codegen.gpus import target_gpu
from ..codegen.target import Target
from ..ir import Buffer, Function, IntImm, Node, Var, deep_recursion, rewrite
from ..runtime import num_threads
from ..runtime.cuda_driver import find_driver
from ..runtime.hosts import host
from ..schedule import Schedule, create_schedule
from ..schedule.lowering.lower import lower
from ..te import Tensor
from .errors import BadTuningOption, NothingToTune, SymbolicShape, TargetCannotBeTuned

__all__ = ["Key", "Task"]


@dataclass(frozen=True, slots=True)
class Key:
    """Key of a result: everything that it depends on, compared in full.

    workload: the program as text, names aside. target: in full. machine: the CPU's model, and how many threads run on it.
    versions: those of tilewright and of LLVM. space: what its schedules were drawn from (see Space.identity).
    """

    workload: str
    target: str
    machine: str
    versions: str
    space: str = DecisionSpace.name

    @property
    def digest(self) -> str:
        """A short name for people and indices; never compared in place of the key."""
        parts = "\0".join((self.workload, self.target, self.machine, self.versions, self.space))
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    @property
    def space_name(self) -> str:
        """The space without the fingerprint of its code, for people."""
        return self.space.rpartition(" #")[0] or self.space


@dataclass(frozen=True)
class Task:
    """Task of the tuner. args: the tensors of the function, in call order. unscheduled: its loops as declared, the reference of every
    candidate. space: what is searched. exact: only what keeps every bit is a candidate, and has a key of its own."""

    name: str
    args: tuple[Tensor, ...]
    target: Target
    unscheduled: Function
    space: Space
    key: Key
    exact: bool = False

    @classmethod
    def of(
        cls,
        args: Any,
        target: str | Target = "llvm",
        space: Space | None = None,
        name: str = "",
        *,
        exact: bool = False,
        machine: str = "",
    ) -> Task:
        """Make the task of tensors.

        Parameters
        ----------
        args : sequence of Tensor
            Inputs, then outputs, of static shapes.
        target : str or Target, default "llvm"
            As for tune.
        space : Space or None, default None
            A template's space; that of the rules where it is None.
        name : str, default ""
            Of the task in tables; made from the outputs where it is empty.
        exact : bool, default False
            Whether candidates keep the declared order of sums, and so every bit.
        machine : str, default ""
            The machine that its key names; this one where it is empty.

        Raises
        ------
        NothingToTune (TW0601)
            `args` are neither the tensors of a function nor a template's task.
        SymbolicShape (TW0602)
            A shape is not known.
        TargetCannotBeTuned (TW0603)
            Nothing here measures for the target.
        BadTuningOption (TW0604)
            `args` is a task of another target.
        """
        if isinstance(args, Task):
            if target != "llvm" and _checked_target(target) != args.target:
                raise BadTuningOption(
                    f"{args.name} is a task for {str(args.target)!r}, not for {str(target)!r}",
                    called=user_source(),
                    fix="leave out target, or make the task for the other one",
                )
            there = replace(args, key=replace(args.key, machine=machine)) if machine else args
            return there._make_exact() if exact and not there.exact else there
        tensors, chosen = _checked_args(args), _checked_target(target)
        outputs = computed_tensors(tensors)
        with deep_recursion():
            unscheduled = lower(create_schedule(outputs), list(tensors), "main")
        own = machine_text() if chosen.backend.for_processors else gpu_text(chosen)
        searched = space if space is not None else DecisionSpace(tensors, outputs, chosen)
        key = Key(
            workload_text(tensors, outputs, unscheduled),
            target_text(chosen),
            machine or own,
            versions_text(),
            searched.identity,
        )
        task = cls(name or outputs[-1].name, tensors, chosen, unscheduled, searched, key)
        return task._make_exact() if exact else task

    def _make_exact(self) -> Task:
        """The same with candidates that keep every bit alone."""
        space = self.space
        if isinstance(space, DecisionSpace):
            space = DecisionSpace(self.args, self.outputs, self.target, exact=True)
        return replace(self, exact=True, space=space, key=replace(self.key, workload=f"exact {self.key.workload}"))

    @property
    def is_derived(self) -> bool:
        """Return whether its space is that of the rules, which no template brought."""
        return isinstance(self.space, DecisionSpace)

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors that are computed and passed to the function, in call order."""
        return computed_tensors(self.args)

    def replay(self, records: Sequence[Any]) -> Schedule:
        """The schedule that records stand for, on this task's own tensors. Raises BadRecords (TW0223), and what the primitives
        raise."""
        return Schedule.replay(records, self.outputs)


def computed_tensors(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors that are computed and passed: also intermediate ones that the caller asks for."""
    return [tensor for tensor in tensors if not tensor.op.is_passed]


def _checked_args(args: Any) -> tuple[Tensor, ...]:
    given = cast("Sequence[Any]", args) if isinstance(args, (list, tuple)) else ()
    tensors = tuple(tensor for tensor in given if isinstance(tensor, Tensor))
    if not tensors or len(tensors) < len(given):
        raise NothingToTune(
            "there is nothing to tune",
            reason=f"got {args!r}"[:200],
            called=user_source(),
            allowed="the tensors of the function, inputs then outputs, or a template's task",
            fix="autotune.tune([A, B, C]), or autotune.tune(my_template.task(512))",
        )
    if not computed_tensors(tensors):
        raise NothingToTune(
            "there is nothing to tune",
            reason="every tensor given is a placeholder: nothing is computed",
            called=user_source(),
            fix="pass the output too: autotune.tune([A, B, C])",
        )
    for tensor in tensors:
        for extent in tensor.shape:
            if not isinstance(extent, IntImm):
                raise SymbolicShape(
                    f"cannot tune for a shape of {tensor.name} that is not known",
                    declared=tensor.source,
                    reason=f"its extent {extent} is decided by each call, and candidates are measured on arrays",
                    called=user_source(),
                    fix="declare the tensors with the sizes that matter, and tune those",
                )
    return tensors


def _checked_target(target: str | Target) -> Target:
    chosen = Target.parse(target)
    if not chosen.backend.for_processors and chosen.backend.rules != "gpu":
        raise TargetCannotBeTuned(
            f"cannot tune for target {str(chosen)!r}",
            called=user_source(),
            reason="candidates are measured, on CPUs, or ranked, for GPUs",
            allowed='"llvm", "llvm -mcpu=... -mattr=... -mtriple=...", or "cuda -arch=..."',
            fix='target="llvm"',
        )
    return chosen


# The parts of a key


def workload_text(tensors: Sequence[Tensor], outputs: Sequence[Tensor], unscheduled: Function) -> str:
    """The program as text in which names do not count: its stages, in the order in which records number them, and its
    loops as declared."""
    places = {tensor.op: at for at, tensor in enumerate(tensors)}
    lines: list[str] = []
    for stage in create_schedule(list(outputs)).stages:
        shape = ", ".join(str(axis) for axis in stage.op.output_shape)
        role = f"argument {places[stage.op]}" if stage.op in places else "intermediate"
        over = ", ".join(str(axis.dom.extent) for axis in stage.op.reduce_axis if axis.dom is not None)
        dtypes = ", ".join(str(dtype) for dtype in stage.op.output_dtypes)
        lines.append(f"# {stage.op.kind} {dtypes}[{shape}]{f' over {over}' if over else ''}, {role}")
    return "\n".join([*lines, str(nameless(unscheduled))])


def nameless(function: Function) -> Function:
    """The same function, its variables and buffers named by the order of their first occurrence."""
    vars_: dict[Var, Var] = {}
    buffers: dict[Buffer, Buffer] = {}

    def buffer_of(old: Buffer) -> Buffer:
        return buffers.setdefault(old, replace(old, name=f"b{len(buffers)}"))

    def var_of(old: Var) -> Var:
        return vars_.setdefault(old, replace(old, name=f"v{len(vars_)}"))

    def rule(node: Node) -> Node | None:
        if isinstance(node, Var):
            return var_of(node)
        changed: dict[str, Any] = {}
        buffer, var = getattr(node, "buffer", None), getattr(node, "var", None)
        if isinstance(buffer, Buffer):
            changed["buffer"] = buffer_of(buffer)
        if isinstance(var, Var):
            changed["var"] = var_of(var)
        return cast("Node", replace(node, **changed)) if changed else None  # pyright: ignore[reportArgumentType, reportCallIssue]

    params = tuple(buffer_of(param) if isinstance(param, Buffer) else var_of(param) for param in function.params)
    body = rewrite(function.body, rule)
    return replace(
        function,
        name="main",
        params=params,
        body=body,
        outputs=tuple(buffer_of(output) for output in function.outputs),
        constants=(),
    )  # whatever they hold


def target_text(target: Target) -> str:
    """The target as it was given, or what it stands for on this machine."""
    if not target.backend.for_processors:
        return str(target)
    measured = read_calibration(target)
    known = "" if measured is None else f", calibrated {measured.digest}"
    return f"{target} ({target.llvm_cpu}, {target.vector_bits} bits{known})"


def machine_text() -> str:
    """The CPU, and the threads that kernels use."""
    threads = num_threads()
    return f"{host().cpu_model()}, {threads} thread{'s' if threads > 1 else ''}"


def ranks_text(target: Target) -> str:
    """Return what candidates for a GPU are ranked for where there is none: what is said of them is no time of any machine."""
    return f"no GPU, ranks for {target_gpu(target).name}"


def gpu_text(target: Target) -> str:
    """The GPU that kernels run on, or that there is none."""
    if target.has_flag("emulate"):
        return ranks_text(target)
    try:
        return find_driver().device_name(0)
    except CudaError:
        return ranks_text(target)


def versions_text() -> str:
    """Versions of what makes code."""
    return f"tilewright {own_version()}, llvmlite {llvmlite.__version__}"
