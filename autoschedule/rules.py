"""The list of rules: `print(tw.autoschedule.rules())`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple

from ..codegen.target import Target
from .cpu import rules as cpu
from .gpu import rules as gpu
from .plan import table_text
from .registry import registered_rules

__all__ = ["RuleRow", "Rules", "rules"]


class RuleRow(NamedTuple):
    """Row of the table of rules.

    name: as `s.plan` shows it. matches: which operations it is for. does: what it makes of them, in one line.
    """

    name: str
    matches: str
    does: str


class Rules(tuple[RuleRow, ...]):
    """Rows, in the order in which they are asked: a table to print."""

    __slots__ = ()

    def __str__(self) -> str:
        return table_text([RuleRow._fields, *self])

    __repr__ = __str__


def rules(target: str | Target = "llvm") -> Rules:
    """The rules that choose schedules for a target, those of one's own first. Raises a CodegenError for an unknown target."""
    kind = Target.parse(target).backend.rules
    own = [RuleRow(rule.name, rule.what or "what its matches() says", rule.does) for rule in registered_rules()]
    if kind == "gpu":
        return Rules((*own, *(RuleRow(rule.__name__, what, _first_sentence(rule)) for rule, what in gpu.BY_FORM)))
    return Rules((*own, *_processor_rows())) if kind else Rules()


def _processor_rows() -> Sequence[RuleRow]:
    """A row for each function of the table, with all the tags that are its."""
    matches: dict[tuple[str, str], list[str]] = {}
    for tag, row in cpu.RULES.items():
        matches.setdefault(row, []).append(tag)
    for row, what in cpu.BY_FORM:
        matches.setdefault(row, []).append(what)
    return [RuleRow(row[1], ", ".join(tags), _first_line(cpu.load_row_module(row))) for row, tags in matches.items()]


def _first_sentence(rule: Callable[..., object]) -> str:
    """Return the first sentence of a rule's docstring."""
    return " ".join((rule.__doc__ or "").split()).partition(". ")[0].rstrip(".")


def _first_line(module: ModuleType) -> str:
    """Return the first line of a module's docstring."""
    return ((module.__doc__ or "").strip().splitlines() or [""])[0].rstrip(":.,")
