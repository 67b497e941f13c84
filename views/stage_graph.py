"""The stages of a schedule as a picture: boxes with their loops, who reads whom, and which loop each is computed at.

Layers by longest path, and within a layer by the median of the neighbours before, as in Sugiyama, Tagawa and Toda,
"Methods for visual understanding of hierarchical system structures" (1981), one sweep.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from ..base import dataclass, field
from ..ir.expr import IterVar, Range
from ..schedule import Schedule, Stage
from ..schedule.model.checks import declared_ranges, extent_text

__all__ = ["StageGraph", "draw_stages"]

_CHARACTER, _ROW, _HEAD, _PAD = 7.3, 19, 44, 12
_ACROSS, _BETWEEN, _MARGIN, _LANE = 90, 26, 16, 18


@dataclass(slots=True)
class StageBox:
    """A stage: its place on the picture, and its loops as (name, text), one a row."""

    stage: Stage
    name: str
    note: str
    state: str
    rows: list[tuple[IterVar, str]]
    layer: int = 0
    x: float = 0
    y: float = 0

    @property
    def width(self) -> float:
        longest = max([len(self.name) + 2, len(self.note), *(len(text) for _, text in self.rows)])
        return round(max(110, longest * _CHARACTER + 2 * _PAD))

    @property
    def height(self) -> float:
        return _HEAD + _ROW * len(self.rows) + (_PAD // 2 if self.rows else 0)

    def row(self, axis: IterVar) -> float:
        """The middle of a loop's row."""
        at = next((at for at, (other, _) in enumerate(self.rows) if other is axis), -1)
        return self.y + _HEAD + _ROW * at + _ROW / 2 if at >= 0 else self.y + _HEAD / 2


@dataclass(slots=True)
class StageGraph:
    """boxes; reads: a curve from each stage to one that reads it, with the numbers of both; attached: from a stage to the
    loop that it is computed at, with the names of both."""

    boxes: list[StageBox]
    reads: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    attached: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    width: float = 0
    height: float = 0


def draw_stages(schedule: Schedule, ranges: Mapping[Stage, Mapping[IterVar, Range]]) -> StageGraph:
    """The picture. ranges: of the axes, where bounds were inferred; otherwise they are those of the whole domain."""
    boxes = {stage.op: _box(stage, ranges.get(stage)) for stage in schedule.stages}
    for stage in schedule.stages:  # producers first
        box = boxes[stage.op]
        box.layer = max(
            (boxes[tensor.op].layer + 1 for tensor in stage.op.input_tensors if tensor.op in boxes), default=0
        )
    for stage in reversed(schedule.stages):  # what is only read later stands beside its first reader
        readers = [
            boxes[reader.op].layer
            for reader in schedule.stages
            if any(tensor.op is stage.op for tensor in reader.op.input_tensors)
        ]
        if readers:
            boxes[stage.op].layer = min(readers) - 1
    graph = StageGraph(list(boxes.values()))
    _place(graph)
    numbers = {box.stage: at for at, box in enumerate(graph.boxes)}
    for box in graph.boxes:
        for tensor in box.stage.op.input_tensors:
            if tensor.op in boxes:
                source = boxes[tensor.op]
                graph.reads.append((_curve(source, box), numbers[source.stage], numbers[box.stage]))
        parent, axis = box.stage.attach_stage, box.stage.attach_axis
        if parent is not None and axis is not None and parent.op in boxes:
            onto = boxes[parent.op]
            if onto.layer - box.layer > 1:  # below what stands between
                graph.height += _LANE
                path = _edge_path(box, onto, axis, graph.height - _MARGIN)
            else:
                path = _hook(box, onto, axis)
            graph.attached.append((path, f"{box.name} {box.stage.attach_type} {axis.name} of {parent.name}"))
    return graph


def _box(stage: Stage, ranges: Mapping[IterVar, Range] | None) -> StageBox:
    known = ranges if ranges is not None else declared_ranges(stage)
    state = (
        "outside"
        if stage.op.is_given
        else "inlined"
        if stage.attach_type in ("inline", "inlined")
        else ("output" if stage.is_output else "stage")
    )
    tensor = stage.op.outputs[0]
    shape = "×".join(map(str, tensor.shape)) or "scalar"
    note = f"{tensor.dtype} {shape}" + (f", {stage.scope}" if stage.scope else "")
    rows: list[tuple[IterVar, str]] = []
    if state not in ("outside", "inlined"):
        for axis in stage.leaf_iter_vars:
            attr = stage.attr(axis)
            kind = attr.bind_thread.thread_tag if attr.bind_thread is not None else attr.kind
            notes = ["reduce"] * (axis.kind == "reduce") + [kind] * (kind != "serial")
            text = f"{axis.name} in {extent_text(known[axis].extent if axis in known else None)}"
            rows.append((axis, " · ".join([text, *notes])))
    return StageBox(stage, stage.name, note, state, rows)


def _place(graph: StageGraph) -> None:
    layers: dict[int, list[StageBox]] = {}
    for box in graph.boxes:
        layers.setdefault(box.layer, []).append(box)
    middles: dict[object, float] = {}
    x = float(_MARGIN)
    for layer in sorted(layers):
        boxes = layers[layer]
        boxes.sort(
            key=lambda box: median(
                [middles[tensor.op] for tensor in box.stage.op.input_tensors if tensor.op in middles] or [0.0]
            )
        )
        y = float(_MARGIN)
        for box in boxes:
            box.x, box.y = x, y
            middles[box.stage.op] = y + box.height / 2
            y += box.height + _BETWEEN
        graph.height = max(graph.height, y - _BETWEEN + _MARGIN)
        x += max(box.width for box in boxes) + _ACROSS
    graph.width = x - _ACROSS + _MARGIN
    for boxes in layers.values():  # each layer in the middle of the picture
        slack = (graph.height - _MARGIN - boxes[-1].y - boxes[-1].height) / 2
        for box in boxes:
            box.y += slack


def _curve(source: StageBox, target: StageBox) -> str:
    x, y, to_x, to_y = source.x + source.width, source.y + _HEAD / 2, target.x, target.y + _HEAD / 2
    bend = max(30.0, (to_x - x) / 2)
    return f"M{x:.0f} {y:.0f} C{x + bend:.0f} {y:.0f} {to_x - bend:.0f} {to_y:.0f} {to_x - 5:.0f} {to_y:.0f}"


def _edge_path(box: StageBox, parent: StageBox, axis: IterVar, lane: float) -> str:
    """Draw from the foot of a stage down to the height `lane`, along it, and up to the row of the loop."""
    x, y, to_x, row, bend = box.x + box.width - 16, box.y + box.height, parent.x - 30, parent.row(axis), 8
    return (
        f"M{x:.0f} {y:.0f} V{lane - bend:.0f} Q{x:.0f} {lane:.0f} {x + bend:.0f} {lane:.0f} "
        f"H{to_x - bend:.0f} Q{to_x:.0f} {lane:.0f} {to_x:.0f} {lane - bend:.0f} "
        f"V{row + bend:.0f} Q{to_x:.0f} {row:.0f} {to_x + bend:.0f} {row:.0f} H{parent.x - 5:.0f}"
    )


def _hook(box: StageBox, parent: StageBox, axis: IterVar) -> str:
    """Draw from the lower right of a stage to the row of the loop that it is computed at."""
    x, y = box.x + box.width, box.y + box.height - 10
    row = parent.row(axis)
    if x < parent.x:
        bend = max(30.0, (parent.x - x) / 2)
        return f"M{x:.0f} {y:.0f} C{x + bend:.0f} {y:.0f} {parent.x - bend:.0f} {row:.0f} {parent.x - 5:.0f} {row:.0f}"
    to_x = parent.x + parent.width
    right = max(to_x, x) + 40
    return f"M{x:.0f} {y:.0f} C{right:.0f} {y:.0f} {right:.0f} {row:.0f} {to_x + 5:.0f} {row:.0f}"
