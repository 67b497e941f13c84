"""A page about a database: for each task the tuning curve, the best schedule, and what failed. One HTML file that needs
nothing else: the curve is drawn as SVG within it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path

from ..codegen.export.files import write_text_file
from ..untrusted import printable
from .progress import readable
from .records import Database, TunedTask
from .trial import Trial

__all__ = ["Curve", "render", "write_report"]

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

    @classmethod
    def of(cls, trials: Sequence[Trial], baseline: float | None) -> Curve | None:
        """None where nothing succeeded."""
        times = [trial.seconds for trial in trials if trial.seconds is not None]
        if not times:
            return None
        reference = [baseline] if baseline else []
        low, high = floor(log10(min(times + reference)) * 4) / 4, ceil(log10(max(times + reference)) * 4) / 4
        high = max(high, low + 0.25)

        def x(at: int) -> float:
            return round(_LEFT + (_WIDTH - _LEFT - 10) * (at + 1) / max(len(trials), 1), 1)

        def y(seconds: float) -> float:
            return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - log10(seconds)) / (high - low), 1)

        points: list[tuple[float, float, str]] = []
        failures: list[tuple[float, str]] = []
        steps, best = list[str](), float("inf")
        drawn = ceil(len(trials) / _MOST_DRAWN)
        for at, trial in enumerate(trials):
            is_better = trial.seconds is not None and trial.seconds < best
            if at % drawn and not is_better:
                continue
            if trial.seconds is None:
                failures.append((x(at), f"trial {at + 1}: {trial.failure}"))
                continue
            points.append((x(at), y(trial.seconds), f"trial {at + 1}: {readable(trial.seconds)}"))
            if is_better:
                steps += [f"{x(at)},{y(best)}"] if best < float("inf") else []
                best = trial.seconds
                steps.append(f"{x(at)},{y(best)}")
        steps.append(f"{x(len(trials) - 1)},{y(best)}")
        decades = [10.0**power for power in range(floor(low), ceil(high) + 1)]
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
        )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Tuning report: {{ name }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 860px; margin: 2em auto; padding: 0 1em; color: #1c2430; }
h1, h2 { font-weight: 600; } h2 { margin-top: 2em; border-top: 1px solid #d8dee6; padding-top: 1em; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15em 1.2em .15em 0; vertical-align: top; }
pre { background: #f4f6f8; padding: .8em; overflow-x: auto; font-size: 13px; }
.wide { overflow-x: auto; } svg { width: 100%; min-width: 560px; height: auto; } text { font: 11px system-ui; fill: #526070; }
.grid { stroke: #e3e8ee; } .trial { fill: #8aa4c0; } .best { fill: none; stroke: #c2410c; stroke-width: 2; }
.failed { stroke: #b91c1c; stroke-width: 1.5; } .base { stroke: #64748b; stroke-dasharray: 5 4; }
</style></head><body>
<h1>Tuning report</h1>
<p>{{ name }}: {{ tasks|length }} task{{ "" if tasks|length == 1 else "s" }}</p>
{% for task, curve, failures, best, records in tasks %}
<h2>{{ task.name }}</h2>
<table>
<tr><th>best</th><td>{{ best or "none" }}</td></tr>
{% if task.baseline %}
<tr><th>unscheduled</th><td>{{ time(task.baseline) }}
{%- if task.best %}, {{ "%.1f"|format(task.baseline / task.best) }} × the best{% endif %}</td></tr>
{% endif %}
<tr><th>trials</th><td>{{ task.trials }}, of which {{ task.failures }} failed</td></tr>
<tr><th>target</th><td>{{ task.key.target }}</td></tr>
<tr><th>machine</th><td>{{ task.key.machine }}</td></tr>
<tr><th>space</th><td>{{ task.key.space }}</td></tr>
<tr><th>versions</th><td>{{ task.key.versions }}</td></tr>
<tr><th>key</th><td>{{ task.key.digest }}</td></tr>
</table>
{% if curve %}
<div class="wide"><svg viewBox="0 0 {{ width }} {{ height }}" role="img" aria-label="time of each trial, and of the best so far">
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
<polyline class="best" points="{{ curve.line }}"/></svg></div>
{% if curve.every > 1 %}
<p>Drawn: one of {{ curve.every }} trials, and each that was the best so far.</p>
{% endif %}
{% endif %}
{% if failures %}
<div class="wide"><table><tr><th>failure</th><th>trials</th><th>the first message</th></tr>
{% for kind, count, message in failures %}
<tr><td>{{ kind }}</td><td>{{ count }}</td><td>{{ message }}</td></tr>
{% endfor %}
</table></div>
{% endif %}
{% if records %}<details><summary>the best schedule</summary><pre>{{ records }}</pre></details>{% endif %}

<details><summary>the workload</summary><pre>{{ task.key.workload }}</pre></details>
{% endfor %}
</body></html>
"""


def render(database: Database) -> str:
    """The page."""
    from jinja2 import Environment

    from ..schedule import from_json

    rows: list[tuple[TunedTask, Curve | None, list[tuple[str, int, str]], str, str]] = []
    for task in database.tasks():
        trials, best = database.trials(task.key), database.best(task.key)
        shown = "\n".join(map(repr, from_json(best.records, foreign=True))) if best is not None else ""
        rows.append((task, Curve.of(trials, task.baseline), _failures(trials), _best_text(task), shown))
    page = Environment(autoescape=True, trim_blocks=True, finalize=_printable_value).from_string(_PAGE)
    return page.render(
        name=database.path.name, tasks=rows, time=readable, width=_WIDTH, height=_HEIGHT, left=_LEFT, bottom=_BOTTOM
    )


def _printable_value(value: object) -> object:
    """Return what stands in the page for a value: texts of a database may hold anything."""
    return printable(value, lines=True) if type(value) is str else value


def _best_text(task: TunedTask) -> str:
    return readable(task.best) if task.best is not None else ""


def _failures(trials: Sequence[Trial]) -> list[tuple[str, int, str]]:
    """(class, how many, the first message)."""
    by_kind: dict[str, list[str]] = {}
    for trial in trials:
        if trial.failure:
            by_kind.setdefault(trial.failure, []).append(trial.message)
    return [(kind, len(messages), messages[0].partition("\n")[0]) for kind, messages in by_kind.items()]


def write_report(database: Database, path: str | Path) -> Path:
    """Write the page to a file; returns its absolute path."""
    return write_text_file(path, render(database))
