"""A page about a database: for each task the tuning curve, the best schedule, and what failed. One HTML file that needs
nothing else: the curve is drawn as SVG within it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..base.untrusted_input import printable
from ..codegen.export.files import write_text_file
from .progress import readable
from .records import Database, TunedTask
from .trial import Trial
from .tuning_curve import Curve

__all__ = ["render", "write_report"]

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Tuning report: {{ name }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 860px; margin: 2em auto; padding: 0 1em; color: #1c2430; }
h1, h2 { font-weight: 600; } h2 { margin-top: 2em; border-top: 1px solid #d8dee6; padding-top: 1em; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15em 1.2em .15em 0; vertical-align: top; }
pre { background: #f4f6f8; padding: .8em; overflow-x: auto; font-size: 13px; }
.wide { overflow-x: auto; }
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
<div class="wide">{{ picture(curve) }}</div>
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
    from markupsafe import Markup

    from ..schedule import from_json

    rows: list[tuple[TunedTask, Curve | None, list[tuple[str, int, str]], str, str]] = []
    for task in database.tasks():
        trials, best = database.trials(task.key), database.best(task.key)
        shown = "\n".join(map(repr, from_json(best.records, foreign=True))) if best is not None else ""
        rows.append((task, Curve.of(trials, task.baseline), _failures(trials), _best_text(task), shown))

    def picture(curve: Curve) -> Markup:
        return Markup(curve.svg)

    page = Environment(autoescape=True, trim_blocks=True, finalize=_printable_value).from_string(_PAGE)
    return page.render(name=database.path.name, tasks=rows, time=readable, picture=picture)


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
