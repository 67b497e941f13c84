"""tvm.contrib.tedd: a schedule as graphs in Graphviz's language.

    dataflow                 stages, and who reads whom
    schedule tree            the loops of each stage, and the loop that it is computed at
    axes                     what splits, fusions and the like made of the axes of each stage

`s.show()` draws the first two by itself, without Graphviz.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ....ir.expr import IterVar
from ....schedule import Schedule, Stage
from ....schedule.model.checks import declared_ranges, extent_text

__all__ = ["viz_dataflow_graph", "viz_itervar_relationship_graph", "viz_schedule_tree"]


def viz_dataflow_graph(
    sch: Schedule, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> Any:
    """A box for each stage, with the scope of its memory, and an edge to each stage that reads it. show_svg: `sch`, which a
    notebook shows as a picture of ours. dot_file_path: the file to write. output_dot_string: the text."""
    lines = [_node(f"s{at}", [_title(stage)]) for at, stage in enumerate(sch.stages)]
    lines += [
        f"s{sch.find_place(sch[tensor])} -> s{at}"
        for at, stage in enumerate(sch.stages)
        for tensor in stage.op.input_tensors
        if tensor in sch
    ]
    return _write_graph("dataflow", lines, sch, show_svg, dot_file_path, output_dot_string)


def viz_schedule_tree(
    sch: Schedule, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> Any:
    """A box for each stage with a row for each loop, the outermost first, and an edge to the row of the loop, or to the root, that
    it is computed at. The arguments: as of viz_dataflow_graph."""
    lines = ['root [label="ROOT"]']
    for at, stage in enumerate(sch.stages):
        ranges = declared_ranges(stage)
        rows = [
            (f"l{row}", _loop(stage, axis, extent_text(ranges[axis].extent)))
            for row, axis in enumerate(stage.leaf_iter_vars)
            if axis in ranges
        ]
        lines.append(_node(f"s{at}", [_title(stage), *rows]))
        home, axis = stage.placement.stage, stage.placement.loop
        if home is not None and axis is not None and axis in home.leaf_iter_vars:
            lines.append(f"s{at} -> s{sch.find_place(home)}:l{home.leaf_iter_vars.index(axis)}")
        elif stage.placement.type == "root" and not stage.op.is_given:
            lines.append(f"s{at} -> root")
    return _write_graph("schedule", lines, sch, show_svg, dot_file_path, output_dot_string)


def viz_itervar_relationship_graph(
    sch: Schedule,
    show_svg: bool = False,
    dot_file_path: str = "",
    output_dot_string: bool = False,
) -> Any:
    """Draw for each stage its axes, and between them what made some of others. The arguments: as of viz_dataflow_graph."""
    lines: list[str] = []
    for at, stage in enumerate(sch.stages):
        names = {axis: f"s{at}a{number}" for number, axis in enumerate(stage.all_iter_vars)}
        inner = [_node(name, [axis.name]) for axis, name in names.items()]
        for number, relation in enumerate(stage.relations):
            made = f"s{at}r{number}"
            inner.append(f'{made} [label="{type(relation).__name__}" shape=ellipse]')
            inner += [f"{names[axis]} -> {made}" for axis in relation.parents]
            inner += [f"{made} -> {names[axis]}" for axis in relation.children]
        lines += [f"subgraph cluster{at} {{", f'label="{_plain(stage.name)}"', *inner, "}"]
    return _write_graph("axes", lines, sch, show_svg, dot_file_path, output_dot_string)


def _title(stage: Stage) -> str:
    return f"{stage.name} ({stage.scope or 'by its place'})"


def _loop(stage: Stage, axis: IterVar, extent: str) -> str:
    attr = stage.attr(axis)
    kind = attr.bind_thread.thread_tag if attr.bind_thread is not None else attr.kind
    return f"{axis.name} in {extent}" + ("" if kind == "serial" else f", {kind}")


def _plain(text: str) -> str:
    """Text as it stands within quotation marks in a label of fields."""
    return "".join(f"\\{letter}" if letter in '"\\{}|<>' else letter for letter in text)


def _node(name: str, rows: Iterable[str | tuple[str, str]]) -> str:
    fields = "|".join(_plain(row) if isinstance(row, str) else f"<{row[0]}> {_plain(row[1])}" for row in rows)
    return f'{name} [label="{{{fields}}}"]'


def _write_graph(
    name: str, lines: list[str], sch: Schedule, show_svg: bool, dot_file_path: str, output_dot_string: bool
) -> Any:
    text = "\n".join([f"digraph {name} {{", "rankdir=BT", "node [shape=record]", *lines, "}", ""])
    if dot_file_path:
        Path(dot_file_path).write_text(text)
    return text if output_dot_string else sch if show_svg else None
