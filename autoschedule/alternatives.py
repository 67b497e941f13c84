"""Other declarations of what operations compute, taken where they cost less: before a program is cut into groups, for each rule to see
what is taken and nothing else."""

from __future__ import annotations

from ..codegen.machine import Machine
from ..codegen.target import Target
from ..schedule import Schedule
from .algorithms import choose_algorithms
from .conditions import predicate_sums
from .cpu.fourier import fast_fouriers
from .factoring import Scheduler, factor_sums
from .plan import Chooser, Decision

__all__ = ["take_alternatives"]


def take_alternatives(
    s: Schedule, target: Target, machine: Machine, chooser: Chooser, exact: bool, scheduled: Scheduler
) -> list[Decision]:
    """Take those of a schedule that nobody has touched, and tell what was decided. exact: none that is another order of sums.
    scheduled: applies the rules to a part of the program, without alternatives."""
    decisions: list[Decision] = []
    if target.backend.rules == "cpu" and not exact:
        decisions += fast_fouriers(s, machine, chooser)
    if target.backend.rules == "cpu":
        decisions += choose_algorithms(s, machine, chooser, exact, scheduled)
        decisions += predicate_sums(s, machine, chooser, exact, scheduled)
    return decisions + factor_sums(s, target, machine, chooser, exact, scheduled)
