"""tvm.autotvm.task: templates by name, and tasks made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper, wraps
from typing import Any, TypeVar, overload

from .....autoschedule.search.fingerprint import code_text, plain_text
from .....autoschedule.search.space import Configurator, Rejected, TemplateSpace
from .....autotune.errors import BadTemplate, NothingToTune
from .....autotune.task import Task as HouseTask
from .....autotune.templates import Template
from .....base.arguments import is_sequence, to_tuple
from .....base.errors import user_source
from .....ir.expr import IntImm, Var
from .....schedule import Schedule, create_schedule
from .....te import Tensor, placeholder
from ...target import Target
from .dispatcher import ApplyConfig, DispatchContext
from .flop import compute_flop, counted_flop
from .space import ConfigEntity, ConfigSpace, InstantiationError

__all__ = [
    "TASK_TABLE",
    "Task",
    "TaskTemplate",
    "args_to_workload",
    "compute_flop",
    "create",
    "deserialize_args",
    "get_config",
    "serialize_args",
    "template",
]

F = TypeVar("F", bound=Callable[..., Any])

Workload = tuple[Any, ...]


class TaskTemplate:
    """Entry of the registry under a name: a template, or a computation and how it is scheduled."""

    def __init__(self) -> None:
        self.fcustomized: Callable[..., Any] | None = None
        self.fcompute: Callable[..., Any] | None = None
        self.fschedule: Callable[..., Any] | None = None

    @property
    def code(self) -> str:
        """The code of what is registered, as databases tell spaces apart by it."""
        functions = (self.fcustomized, self.fcompute, self.fschedule)
        return " ".join(code_text(function) for function in functions if function is not None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fcustomized is not None:
            return self.fcustomized(*args, **kwargs)
        if self.fcompute is None:
            raise NothingToTune(
                "there is nothing to tune",
                reason="a schedule is registered under this name, and no computation",
                called=user_source(),
                fix="@autotvm.register_topi_compute(name) above what declares it",
            )
        out = self.fcompute(*args, **kwargs)
        s = self.fschedule([out]) if self.fschedule is not None else create_schedule(out.op)
        return s, [out, *_inputs(out)]


def _inputs(out: Tensor) -> list[Tensor]:
    """The placeholders that a tensor is computed from, nearest first."""
    inputs: list[Tensor] = []
    seen, queue = set[Any](), [out]
    while queue:
        tensor = queue.pop(0)
        if tensor.op in seen:
            continue
        seen.add(tensor.op)
        if tensor.op.is_passed:
            inputs.append(tensor)
        queue += tensor.op.input_tensors
    return inputs


TASK_TABLE: dict[str, TaskTemplate] = {}
"""What is registered, by name."""


def registered(name: str) -> TaskTemplate:
    """Return the template registered under a name. Raises NothingToTune."""
    if name not in TASK_TABLE:
        raise NothingToTune(
            f"there is no template {name!r}",
            called=user_source(),
            allowed=", ".join(sorted(TASK_TABLE)),
            fix=f"@autotvm.template({name!r}) above the function, in a module that this program imports",
        )
    return TASK_TABLE[name]


def register(ours: Template) -> None:
    """Registers a template of tilewright.autotune under its name, where none of AutoTVM's has it."""
    known = TASK_TABLE.setdefault(ours.name, TaskTemplate())
    if known.fcustomized is None and known.fcompute is None:
        known.fcustomized = update_wrapper(lambda *args: ours.run(get_config(), args), ours.function)


@overload
def template(task_name: F) -> F: ...
@overload
def template(task_name: str | None, func: F) -> F: ...
@overload
def template(task_name: str | None = None) -> Callable[[F], F]: ...
def template(task_name: Any = None, func: Any = None) -> Any:
    """The decorator of a template: @autotvm.template("name"), or without a name, for the function's own.

    Called, the template gives (schedule, args) by the configuration that the context around the call has for these
    arguments; where there is none, by the first choice of every part.
    """
    if callable(task_name):
        return template(None, task_name)

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        name = task_name or function.__name__

        @wraps(function)
        def called(*args: Any) -> Any:
            workload = args_to_workload(args, name)
            cfg = DispatchContext.current.query(Target.current(), workload)
            with ApplyConfig(cfg):
                return function(*args)

        setattr(called, "task_name", name)  # noqa: B010
        TASK_TABLE.setdefault(name, TaskTemplate()).fcustomized = called
        return called

    return decorated if func is None else decorated(func)


def get_config() -> ConfigSpace:
    """The configuration of the template that is running; outside of one, of first choices."""
    return DispatchContext.current.query(Target.current(), None)


# Arguments as values


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of a template as values that can be compared and written: a tensor as ("TENSOR", shape, dtype)."""
    return tuple(_value(arg) for arg in args)


def _value(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return ("TENSOR", tuple(_value(extent) for extent in argument.shape), str(argument.dtype))
    if is_sequence(argument):
        return tuple(map(_value, argument))
    if isinstance(argument, IntImm):
        return argument.value
    if isinstance(argument, (str, int, float, bool, type(None))):
        return argument
    return argument.name if isinstance(argument, Var) else str(argument)


def deserialize_args(args: Sequence[Any]) -> list[Any]:
    """The arguments again: tensors as new placeholders."""
    return [placeholder(arg[1], arg[2]) if is_sequence(arg) and tuple(arg[:1]) == ("TENSOR",) else arg for arg in args]


def args_to_workload(args: Sequence[Any], task_name: str | None = None) -> Workload:
    """Return the workload as a value: the name and the arguments."""
    return (task_name, *serialize_args(args)) if task_name is not None else serialize_args(args)


# Tasks


class Task:
    """A template for some arguments: task.config_space, task.target, task.workload, task.flop."""

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        self.name, self.args = name, serialize_args(args)
        self.kwargs: dict[str, Any] = {}
        self.config_space: ConfigSpace = ConfigSpace()
        self.workload: Workload = (name, *self.args)
        self.target: Target = Target("llvm")
        self.target_host: Target | None = None
        self.flop = 0.0

    def instantiate(self, config: ConfigSpace) -> tuple[Schedule, list[Tensor]]:
        """The schedule and the tensors of a configuration. Raises what the template raises, and InstantiationError."""
        config.flop = 0.0
        config.errors = []
        with ApplyConfig(config), self.target:
            returned = registered(self.name)(*deserialize_args(self.args))
        declared = to_tuple(returned)
        if len(declared) != 2 or not isinstance(declared[0], Schedule):
            raise BadTemplate(
                f"the template {self.name} returned {type(returned).__name__}",
                called=user_source(),
                fix="return s, [A, B, C]: the schedule and the tensors in call order",
            )
        if not config.valid():
            raise InstantiationError("; ".join(config.errors))
        return declared[0], list(declared[1])

    def house(self) -> HouseTask:
        """The task as autotune takes it. Raises SymbolicShape, TargetCannotBeTuned."""
        space, first = self.config_space, ConfigSpace()

        def build(cfg: Configurator) -> tuple[Schedule, Sequence[Tensor]]:
            chosen: Mapping[str, int] = cfg.chosen if isinstance(cfg.chosen, Mapping) else dict[str, int]()
            entity = space.get(space.index_of([chosen.get(part.name, 0) for part in space.parts]))
            if not space.keeps(entity):
                raise Rejected
            return self.instantiate(entity)

        with ApplyConfig(first), self.target:
            _, args = registered(self.name)(*deserialize_args(self.args))
        template = TemplateSpace(
            f"autotvm:{self.name}",
            build,
            space.parts,
            f"({', '.join(map(plain_text, self.args))})",
            registered(self.name).code,
        )
        return HouseTask.of(list(args), self.target.ours, space=template, name=self.name)

    def config_of(self, choices: Sequence[tuple[str, int | str]]) -> ConfigEntity:
        """The configuration with these choices, by the names of the parts."""
        chosen = {name: number for name, number in choices if isinstance(number, int)}
        return self.config_space.get(
            self.config_space.index_of([chosen[part.name] for part in self.config_space.parts])
        )

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, workload={self.workload})"


def create(
    task_name: str | Callable[..., Any],
    args: Sequence[Any],
    target: Any = None,
    target_host: Any = None,
    **_: object,
) -> Task:
    """The task of a template, by its name or the function itself, for some arguments. Raises NothingToTune, and what the
    template raises."""
    name = task_name if isinstance(task_name, str) else getattr(task_name, "task_name", "")
    registered(name)
    task = Task(name, args)
    task.target = target if isinstance(target, Target) else Target(target or Target.current() or "llvm")
    task.target_host = Target(target_host) if target_host is not None else None
    space = task.config_space
    with ApplyConfig(space), task.target:
        declared = registered(name)(*deserialize_args(task.args))
    space.errors = []  # of the first choices alone
    if isinstance(declared, tuple) and declared and isinstance(declared[0], Schedule):
        task.flop = space.flop or counted_flop(declared[0])
    return task
