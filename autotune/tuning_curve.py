"""The tuning curve as a picture, SVG that needs nothing else: each trial, the best so far, what failed, and the rules' choice."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

from ..base.dataclass import dataclass
from ..base.untrusted_input import printable
from .progress import readable
from .trial import Trial

__all__ = ["Curve"]

_MOST_DRAWN = 2000
"""Trials of a curve: of more, every so many-th is drawn."""
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 760, 300, 70, 40, 14


@dataclass(frozen=True)
class Curve:
    """The numbers of a tuning curve as places on the page: x over trials, y over the logarithm of the time."""

    points: list[tuple[float, float, str]]
    """Each successful trial: x, y and its text."""
    line: str
    """The best so far, as the points of a polyline."""
    failures: list[tuple[float, str]]
    grid: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    baseline: float | None
    every: int
    """Of how many trials one is drawn, beside those that were the best so far."""
    usual: tuple[float, float, str] | None = None
    """The rules' choice, where it is among the trials."""

    @classmethod
    def of(cls, trials: Sequence[Trial], baseline: float | None, usual: Trial | None = None) -> Curve | None:
        """The curve of trials, oldest first; None where nothing succeeded. baseline: the seconds of the unscheduled program; usual: the
        trial of the rules' choice, one of them."""
        times = [trial.seconds for trial in trials if trial.seconds is not None]
        if not times:
            return None
        reference = [baseline] if baseline else []
        # rounded to quarters of a decade
        low, high = floor(log10(min(times + reference)) * 4) / 4, ceil(log10(max(times + reference)) * 4) / 4
        high = max(high, low + 0.25)  # at least a quarter, or equal times would have no height

        def x(at: int) -> float:
            return round(_LEFT + (_WIDTH - _LEFT - 10) * (at + 1) / max(len(trials), 1), 1)

        def y(seconds: float) -> float:
            return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - log10(seconds)) / (high - low), 1)

        points: list[tuple[float, float, str]] = []
        failures: list[tuple[float, str]] = []
        steps, best = list[str](), float("inf")
        mark: tuple[float, float, str] | None = None
        drawn = ceil(len(trials) / _MOST_DRAWN)  # trials that were the best so far are drawn in any case
        for at, trial in enumerate(trials):
            is_better = trial.seconds is not None and trial.seconds < best
            if trial is usual and trial.seconds is not None:
                mark = (x(at), y(trial.seconds), f"the rules' choice: {readable(trial.seconds)}")
            if at % drawn and not is_better:
                continue
            if trial.seconds is None:
                failures.append((x(at), printable(f"trial {at + 1}: {trial.failure}")))
                continue
            points.append((x(at), y(trial.seconds), f"trial {at + 1}: {readable(trial.seconds)}"))
            if is_better:
                # a step: level until the new best, then down
                steps += [f"{x(at)},{y(best)}"] if best < float("inf") else []
                best = trial.seconds
                steps.append(f"{x(at)},{y(best)}")
        steps.append(f"{x(len(trials) - 1)},{y(best)}")
        decades = [10.0**power for power in range(floor(low), ceil(high) + 1)]
        # 1, 2 and 5 of each decade within the picture
        marks = [many * decade for decade in decades for many in (1, 2, 5) if low <= log10(many * decade) <= high]
        every = max(1, len(trials) // 8)
        ticks = [(x(at - 1), str(at)) for at in range(every, len(trials) + 1, every)]
        return cls(
            points,
            " ".join(steps),
            failures,
            [(y(mark), readable(mark)) for mark in marks],
            ticks,
            y(baseline) if baseline else None,
            drawn,
            mark,
        )

    @property
    def svg(self) -> str:
        """The picture."""
        from jinja2 import Environment  # jinja2 is needed for pictures alone

        picture = Environment(autoescape=True, trim_blocks=True).from_string(_PICTURE)
        return picture.render(curve=self, width=_WIDTH, height=_HEIGHT, left=_LEFT, bottom=_BOTTOM)


_PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" class="tuning" viewBox="0 0 {{ width }} {{ height }}" role="img"
aria-label="time of each trial, and of the best so far">
<style>
.tuning { width: 100%; min-width: 560px; height: auto; } .tuning text { font: 11px system-ui; fill: #526070; }
.tuning .grid { stroke: #e3e8ee; } .tuning .trial { fill: #8aa4c0; }
.tuning .best { fill: none; stroke: #c2410c; stroke-width: 2; } .tuning .failed { stroke: #b91c1c; stroke-width: 1.5; }
.tuning .base { stroke: #64748b; stroke-dasharray: 5 4; } .tuning .usual { fill: none; stroke: #15803d; stroke-width: 2; }
</style>
{% for y, label in curve.grid %}
<line class="grid" x1="{{ left }}" x2="{{ width }}" y1="{{ y }}" y2="{{ y }}"/>
<text x="{{ left - 6 }}" y="{{ y + 4 }}" text-anchor="end">{{ label }}</text>
{% endfor %}
{% for x, label in curve.ticks %}
<text x="{{ x }}" y="{{ height - bottom + 18 }}" text-anchor="middle">{{ label }}</text>
{% endfor %}
<text x="{{ width / 2 }}" y="{{ height - 4 }}" text-anchor="middle">trials</text>
{% if curve.baseline is not none %}
<line class="base" x1="{{ left }}" x2="{{ width }}" y1="{{ curve.baseline }}" y2="{{ curve.baseline }}">
<title>unscheduled</title></line>
{% endif %}
{% for x, label in curve.failures %}
<line class="failed" x1="{{ x }}" x2="{{ x }}" y1="{{ height - bottom - 6 }}" y2="{{ height - bottom }}">
<title>{{ label }}</title></line>
{% endfor %}
{% for x, y, label in curve.points %}
<circle class="trial" cx="{{ x }}" cy="{{ y }}" r="3"><title>{{ label }}</title></circle>
{% endfor %}
<polyline class="best" points="{{ curve.line }}"/>
{% if curve.usual %}
<circle class="usual" cx="{{ curve.usual[0] }}" cy="{{ curve.usual[1] }}" r="6"><title>{{ curve.usual[2] }}</title></circle>
<text x="{{ curve.usual[0] + 10 }}" y="{{ curve.usual[1] - 6 }}">{{ curve.usual[2] }}</text>
{% endif %}
</svg>
"""
