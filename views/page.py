"""Contents of the page about a schedule, and the page: one HTML text that needs nothing else.

The loops are the spine. Every line of theirs knows its records (views/steps.py), its cost (ir/analysis/work.py) and, where
assembly is given with the lines that it came from, its instructions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, cast

from ..autoschedule.plan import Plan, time_text
from ..base import dataclass, field
from ..ir import For, Function, Var, walk
from ..ir.analysis.count import ONE, Count
from ..ir.analysis.work import Work, measure_work
from ..ir.text.printer import write_lines
from ..schedule.lowering.lower import Lowered
from ..schedule.model.schedule import Schedule
from .explain import explain
from .stage_graph import StageGraph, draw_stages
from .steps import Step, Steps, difference

__all__ = ["Instruction", "LoopLine", "PageParts", "loop_lines", "render", "stages_svg", "page_style", "template"]

_MOST_ASSEMBLY = 9000
"""Lines; what is longer is cut, so that the page stays small enough to open at once."""
_LONG_TEXT = 120
"""Lines of loops from which on the differences show only what is near a change."""
_TOKENS = re.compile(
    r"(?P<word>\b(?:def|for|in|if|else|elif|scope|pass|out|and|or|not|let|where|with)\b)"
    r"|(?P<kind>\b(?:parallel|vectorized|unrolled|thread|range|likely)\b)"
    r"|(?P<type>\b(?:float|int|uint|bfloat)\d+(?:x\d+)?\b|\bbool\b)"
    r"|(?P<number>\b\d[\w.]*)|(?P<string>\"[^\"]*\")"
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """A line of assembly. line: of the loops' text, from 1, that it came from; within: the line of a loop that it runs in;
    0 where there is none."""

    text: str
    line: int
    within: int
    is_instruction: bool


@dataclass(slots=True)
class LoopLine:
    """A line of the loops. number: from 1. end: the last line of its body. chain: the lines of the loops around, outermost
    first. near, far: numbers of the records that made or annotated the loop, and of those that it stands on. cost: as shown,
    for a loop. share: of all operations that the program does, 0 to 1. instructions: how many came from it or its body."""

    number: int
    text: str
    is_loop: bool = False
    end: int = 0
    chain: tuple[int, ...] = ()
    stage: str = ""
    near: list[int] = field(default_factory=list[int])
    far: list[int] = field(default_factory=list[int])
    cost: Work | None = None
    share: float = 0.0
    instructions: int = 0

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())

    @property
    def tokens(self) -> list[tuple[str, str]]:
        return tokens(self.text.lstrip())


@dataclass(slots=True)
class PageParts:
    """Contents of the page. lowered: None where the schedule does not hold together yet, for the reason `open`.
    function: the program that is shown, whose text is `lines`; its nodes carry their lines. assembly: None where none was
    asked for. plan: what rules chose, if they did."""

    name: str
    steps: Steps
    lowered: Lowered | None
    function: Function | None
    open: str = ""
    assembly: Sequence[Instruction] | None = None
    target: str = ""
    plan: Plan = field(default_factory=Plan)


def tokens(text: str) -> list[tuple[str, str]]:
    """A line of loops cut into (class, text)."""
    spans: list[tuple[str, str]] = []
    at = 0
    for match in _TOKENS.finditer(text):
        spans += [("", text[at : match.start()])] if match.start() > at else []
        spans.append((match.lastgroup or "", match[0]))
        at = match.end()
    return spans + ([("", text[at:])] if at < len(text) else [])


def loop_lines(parts: PageParts) -> list[LoopLine]:
    """Every line of the loops with what is known of it."""
    if parts.function is None or parts.lowered is None:
        text = (parts.steps.steps[-1].text if parts.steps.steps else None) or parts.steps.begin
        return [LoopLine(number, line) for number, line in enumerate(text.splitlines(), 1)]
    text, _ = write_lines(parts.function)
    lines = [LoopLine(number, line) for number, line in enumerate(text, 1)]
    _nest(lines)
    whole = measure_work(parts.function)
    lines[0].cost = whole
    costs = {cost.loop.line: cost for cost in whole.all_loops() if cost.loop is not None}
    loops = {node.line: node for node in walk(parts.function.body) if isinstance(node, For)}
    total = whole.operations.value
    for line in lines:
        loop = loops.get(line.number)
        if loop is not None:
            line.is_loop, line.cost = True, costs[line.number]
            operations = line.cost.operations.value
            line.share = operations / total if operations is not None and total else 0.0
            _connect(line, loop.var, parts)
    for line in lines:
        if not line.is_loop and line.chain:  # a store belongs to the stage of the loop around it
            line.stage = lines[line.chain[-1] - 1].stage
    _count_instructions(lines, parts.assembly or ())
    return lines


def _connect(line: LoopLine, var: Var, parts: PageParts) -> None:
    assert parts.lowered is not None
    loop = parts.lowered.loops.get(var)
    if loop is not None:
        line.stage = loop.stage.name
        line.near, line.far = parts.steps.about(loop.stage, loop.axis)


def _nest(lines: Sequence[LoopLine]) -> None:
    """Return the lines that are the body of each line, by indentation."""
    around: list[LoopLine] = []
    for line in lines:
        while around and around[-1].indent >= line.indent:
            around.pop()
        line.chain = tuple(loop.number for loop in around if loop.text.lstrip().startswith("for "))
        line.end = line.number
        for loop in around:
            loop.end = line.number
        around.append(line)


def _count_instructions(lines: Sequence[LoopLine], assembly: Sequence[Instruction]) -> None:
    for instruction in assembly:
        place = instruction.line or instruction.within
        if instruction.is_instruction and place:
            for number in (*lines[place - 1].chain, place):
                lines[number - 1].instructions += 1
    lines[0].instructions = sum(instruction.is_instruction for instruction in assembly)


# As shown


def short_count(count: Count) -> str:
    """A number in at most a few characters: 33.6 M."""
    value = count.value
    if value is None:
        return str(count)
    text = _scale_units(value, 1000, ("", " k", " M", " G", " T", " P"))
    return text if count.is_exact else f"≤ {text}"


def short_bytes(count: Count) -> str:
    """A size: 64 KiB."""
    value = count.value
    if value is None:
        return f"{count} B"
    text = _scale_units(value, 1024, (" B", " KiB", " MiB", " GiB", " TiB"))
    return text if count.is_exact else f"≤ {text}"


def _scale_units(value: int, step: int, units: Sequence[str]) -> str:
    number, unit = float(value), 0
    while number >= step and unit < len(units) - 1:
        number, unit = number / step, unit + 1
    return f"{number:.0f}{units[unit]}" if unit == 0 or number >= 100 else f"{number:.3g}{units[unit]}"


def _intensity(cost: Work) -> str:
    return "" if cost.intensity is None else f"{cost.intensity:.3g}" if cost.intensity >= 0.001 else "0"


def _diffs(steps: Steps) -> list[tuple[Step, list[tuple[str, str]], bool]]:
    """Return for each record the difference that it (and those before it whose loops are not written down) made, and whether
    there is one."""
    diffs: list[tuple[Step, list[tuple[str, str]], bool]] = []
    before = steps.begin
    for step in steps.steps:
        if step.text is None:
            diffs.append((step, [("@", "The schedule is long: the loops are shown after one of the next steps")], True))
            continue
        long = len(step.text.splitlines()) > _LONG_TEXT
        lines = difference(before, step.text, 4 if long else 1000)
        diffs.append((step, lines, any(sign in "+-" for sign, _ in lines)))
        before = step.text
    return diffs


def _warnings(parts: PageParts) -> list[str]:
    if parts.lowered is None:
        return []
    schedule, work = parts.steps.schedule, Work(None, ONE, ONE)  # what each loop costs is no matter here
    return [
        f"{stage.name}: {warning}"
        for stage in schedule.stages
        if not stage.op.is_given
        for warning in explain(schedule, stage, parts.lowered, work).warnings
    ]


def render(parts: PageParts) -> str:
    """The page."""
    lines = loop_lines(parts)
    assembly = list(parts.assembly) if parts.assembly is not None else None
    links: dict[str, Any] = {
        str(line.number): [line.near, line.far, line.end, list(line.chain)]
        for line in lines
        if line.is_loop or line.chain
    }
    return template("page.html").render(
        name=parts.name,
        target=parts.target,
        lines=lines,
        plan=parts.plan,
        steps=_diffs(parts.steps),
        begin=parts.steps.begin.splitlines(),
        assembly=assembly[:_MOST_ASSEMBLY] if assembly is not None else None,
        left_out=max(0, len(assembly) - _MOST_ASSEMBLY) if assembly is not None else 0,
        open=parts.open,
        graph=_graph(parts.steps.schedule, parts.lowered),
        links=links,
        warnings=_warnings(parts),
        style=page_style("colors.css", "page.css", "stages.css"),
        script=_markup(_file("page.js")),
    )


def stages_svg(schedule: Schedule, lowered: Lowered | None) -> str:
    """The stages of a schedule as a picture in SVG that stands alone. lowered: what tells how far loops run."""
    return template("stages.svg").render(
        graph=_graph(schedule, lowered), alone=True, style=page_style("colors.css", "stages.css")
    )


def _graph(schedule: Schedule, lowered: Lowered | None) -> StageGraph:
    bounds = lowered.bounds.of if lowered is not None else {}
    return draw_stages(
        schedule, {computation.stage: stage_bounds.ranges for computation, stage_bounds in bounds.items()}
    )


def template(name: str) -> Any:
    """A file of page_files as a template of jinja2."""
    from jinja2 import Environment, FunctionLoader

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(_file))
    filters: dict[str, Any] = cast(Any, environment.filters)
    filters |= {
        "count": short_count,
        "bytes": short_bytes,
        "intensity": _intensity,
        "tokens": tokens,
        "time": time_text,
    }
    return environment.get_template(name)


def page_style(*names: str) -> Any:
    """These files of page_files, as they are to stand in a page."""
    return _markup("".join(map(_file, names)))


def _file(name: str) -> str:
    """The text of a file of page_files."""
    return files(__name__.rpartition(".")[0]).joinpath("page_files").joinpath(name).read_text("utf-8")


def _markup(text: str) -> Any:
    """A text of our own, which is to stand in the page as it is."""
    from markupsafe import Markup

    return Markup(text)
