"""Templates: a function that declares, defines what is open, and schedules by what was chosen.

@autotune.template("matmul")
def matmul(cfg, n):
    ...
    cfg.define_split("tile_x", x, num_outputs=2)
    x_outer, x_inner = cfg["tile_x"].apply(s, C, x)
    return s, [A, B, C]

autotune.tune(matmul.task(512))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, cast

from ..autoschedule.search.fingerprint import code_text, plain_text
from ..autoschedule.search.space import Configurator, TemplateSpace
from ..base.errors import user_source
from ..codegen.target import Target
from ..schedule import Schedule
from ..te import Tensor
from .errors import BadTemplate
from .task import Task

__all__ = ["Template", "get_config", "template"]

_current: ContextVar[Configurator | None] = ContextVar("tilewright_config", default=None)


def get_config() -> Configurator:
    """The configurator of the template that is running. Raises BadTemplate (TW0607) outside of one."""
    configurator = _current.get()
    if configurator is None:
        raise BadTemplate(
            "there is no configuration here",
            reason="get_config() belongs to the running template",
            called=user_source(),
            fix='call it in a function under @autotune.template("name")',
        )
    return configurator


class Template:
    """A function under @template. Called, it gives (schedule, args) with the first choice of every part; it raises BadTemplate
    (TW0607) where the function returns something else."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function
        try:
            parameters = list(inspect.signature(function).parameters)
        except (TypeError, ValueError) as error:
            raise BadTemplate(
                f"a {type(function).__name__} is not a function of a template",
                reason=str(error)[:200],
                called=user_source(),
                fix='@autotune.template("name") over a function that returns (schedule, args)',
            ) from None
        self._takes_cfg = parameters[:1] == ["cfg"]

    def __call__(self, *arguments: Any) -> tuple[Schedule, list[Tensor]]:
        return self.run(Configurator(), arguments)

    def task(self, *arguments: Any, target: str | Target = "llvm") -> Task:
        """Return what autotune.tune and autotune.best take: this template for these arguments, on the CPU that `target` names.

        Raises BadTemplate (TW0607), and what the function raises.
        """
        space = TemplateSpace.learn(
            f"template:{self.name}",
            lambda cfg: self.run(cfg, arguments),
            f"({', '.join(map(plain_text, arguments))})",
            code_text(self.function),
        )
        _, args = self.run(Configurator(), arguments)
        return Task.of(args, target, space=space, name=self.name)

    def run(self, cfg: Any, arguments: Sequence[Any]) -> tuple[Schedule, list[Tensor]]:
        """Return what the function returns by a configuration: a Configurator, or what has its methods. Raises BadTemplate (TW0607), and
        what the function raises."""
        token = _current.set(cfg)
        try:
            result: Any = self.function(cfg, *arguments) if self._takes_cfg else self.function(*arguments)
        finally:
            _current.reset(token)
        if isinstance(result, tuple) and len(cast("tuple[Any, ...]", result)) == 2:
            schedule, args = cast("tuple[Any, Any]", result)
            if isinstance(schedule, Schedule) and isinstance(args, (list, tuple)):
                return schedule, list(cast("Sequence[Tensor]", args))
        raise BadTemplate(
            f"the template {self.name} returned {type(cast('object', result)).__name__}",
            called=user_source(),
            fix="return s, [A, B, C]: the schedule and the tensors in call order",
        )


def template(name: str) -> Callable[[Callable[..., Any]], Template]:
    """Make a template of a function, whose first parameter is `cfg` (or which asks get_config() for it) and which returns a
    schedule and the list of its arguments. name: by which records know it. Calling it raises BadTemplate (TW0607) for a function
    that returns anything else."""
    return lambda function: Template(name, function)
