"""The distinct kernels of a graph: what a tuner spends its trials on, and what a model's plan tells of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, overload

from ..autoschedule.plan import table_text
from ..base import dataclass, field
from ..codegen.target import Target
from ..driver.schedule import schedule
from ..runtime.tables import html_table
from ..schedule import Schedule
from ..te import Tensor
from .plan import Plan
from .variants import Variant

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["ModelPlan", "Task", "list_tasks"]

_COLUMNS = ("runs", "kernel", "gives", "rule", "chosen", "of", "time", "bound by")


@dataclass(frozen=True)
class Task:
    """A kernel. name: by which m.kernels knows it. count: how often a call runs it. operators: the nodes that it is made of; nodes:
    what the user knows them by, at all places; shapes: what it gives. tensors: inputs, then outputs, as autotune.tune and tw.build
    take them. bucket: of a graph with buckets, the sizes that it is for."""

    name: str
    count: int
    operators: str
    nodes: tuple[str, ...]
    shapes: str
    tensors: tuple[Tensor, ...] = field(compare=False, repr=False)
    bucket: str = ""

    def schedule(
        self,
        target: str | Target = "llvm",
        tuned: str | PathLike[str] | Database | None = None,
        exact: bool = False,
    ) -> Schedule:
        """The schedule that tw.build takes for it: an ordinary one, whose `plan` says what was chosen among what, and why."""
        return schedule([one for one in self.tensors if not one.op.is_passed], target, tuned, exact)


def list_tasks(plan: Plan, bucket: str = "") -> list[Task]:
    """The distinct kernels, in the order in which a call first runs them, those of graphs inside of nodes behind them."""
    nodes: dict[str, list[str]] = {}
    for name, step in zip(plan.names, plan.steps, strict=True):
        nodes.setdefault(name, []).extend(step.sources)
    first = dict(zip(reversed(plan.names), reversed(plan.steps), strict=True))
    own = {name: plan.counts[name] for name in first}
    found: dict[str, Task] = {}
    for name, tensors in plan.kernels().items():
        if name in own:
            given = tuple(one for one in tensors if isinstance(one, Tensor))
            shapes = plan.shapes_text(first[name])
            found[name] = Task(name, own[name], first[name].operators, tuple(nodes[name]), shapes, given, bucket)
    inside = [task for plans in plan.inside.values() for inner in plans for task in list_tasks(inner, bucket)]
    return [*(found[name] for name in dict.fromkeys(plan.names) if name in found), *inside]


@dataclass(frozen=True)
class ModelPlan(Sequence[Task]):
    """Tasks of a call of a model: a sequence of tasks, in order, and a table to print, which says of each what was chosen among
    how many, and by which estimate."""

    tasks: tuple[Task, ...]
    target: str
    tuned: str | PathLike[str] | Database | None
    exact: bool

    @staticmethod
    def of(
        variants: Sequence[Variant],
        target: str,
        tuned: str | PathLike[str] | Database | None,
        exact: bool,
    ) -> ModelPlan:
        """The plan of what is chosen among these."""
        several = len(variants) > 1
        tasks = [task for each in variants for task in list_tasks(each.plan, str(each) if several else "")]
        return ModelPlan(tuple(tasks), target, tuned, exact)

    def __len__(self) -> int:
        return len(self.tasks)

    @overload
    def __getitem__(self, at: int) -> Task: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Task]: ...

    def __getitem__(self, at: int | slice) -> Task | Sequence[Task]:
        return self.tasks[at]

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __repr__(self) -> str:
        runs, kernels = sum(task.count for task in self.tasks), len(self.tasks)
        if not runs:
            return "<ModelPlan: none before a call>"
        return f"<ModelPlan: {kernels} kernel{'s' * (kernels != 1)}, {runs} run{'s' * (runs != 1)} a call>"

    def __str__(self) -> str:
        return table_text([_COLUMNS, *self._rows()])

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], _COLUMNS, self._rows())

    def _rows(self) -> list[tuple[str, ...]]:
        """Return a row for each decision; the sizes of a bucket have one before theirs."""
        rows: list[tuple[str, ...]] = []
        bucket = ""
        for task in self.tasks:
            if task.bucket != bucket:
                bucket = task.bucket
                rows.append((f"{bucket}:", *[""] * 7))
            s = task.schedule(self.target, self.tuned, self.exact)
            found = s.plan.rows[1:] or [[""] * 7]  # for GPUs a schedule without rules has no row
            chosen = [(row[0], row[3] if s.decisions else "as it is tuned", *row[4:]) for row in found]
            told = [(str(task.count), task.operators, task.shapes), ("", "", "")]
            rows += [(*told[min(at, 1)], *row) for at, row in enumerate(chosen)]
        return rows
