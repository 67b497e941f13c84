"""A failing schedule or model of a user, made smaller: the command `tilewright reduce`.

A subject is described by numbers and records, which the fuzzer's shrinker lowers and leaves out as it does those of a drawn
case: the operation that is the output, a switch for each operation (0: it becomes an input), the lengths of free axes. Each
attempt runs in a child process, so that a failure may also be the end of the process, or no end at all.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ... import te
from ...base.errors import TilewrightError
from ...driver.build import build
from ...graph import Builder, Graph
from ...graph.types import array_dtype
from ...schedule import Schedule
from ...schedule.lowering.text import all_arguments
from ...schedule.model.records import IntrinsicRef
from ...te.operation import Operation, producers_first
from ...te.shrink import shrunk
from .program import Program
from .record_transfer import transfer_records
from .shrink import Candidate, shrink
from .source import Unwritable, program_source

__all__ = ["GraphSubject", "ScheduleSubject", "Subject", "draw_inputs", "failure_kind", "reduce_subject"]

_PASS = re.compile(r"pass '(\w+)'")
_LONGEST = 60
"""Seconds that one attempt may take before it counts as without end."""


class Subject(Protocol):
    """A failing program that can be made smaller. numbers, records: of the whole subject."""

    numbers: list[int]
    records: list[Any]

    def check(self, candidate: Candidate) -> None:
        """Build and verify; raises the failure."""
        ...

    def write(self, candidate: Candidate, folder: Path, failure: str) -> Path:
        """Write a program that still fails; returns its path."""
        ...


def failure_kind(check: Callable[[], None]) -> str:
    """Return the kind of failure that a check ends with, "" where it passes: an error code, the class of a fault with the guilty
    pass, or the signal that ended the process. The check runs in a copy of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.environ["TILEWRIGHT_CACHE"] = "0"  # a kernel that was built before is not built
        faulthandler.disable()
        signal.alarm(_LONGEST)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        kind = ""
        try:
            check()
        except TilewrightError as error:
            kind = error.code
        except BaseException as error:  # noqa: BLE001 - the kind of failure is the answer
            guilty = _PASS.search(str(error))
            kind = type(error).__name__ + (f" in pass {guilty[1]}" if guilty else "")
        os.write(writing, kind.encode()[:500])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        kind = file.read().decode()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "no end" if number == signal.SIGALRM else f"signal {signal.Signals(number).name}"
    return kind


def reduce_subject(subject: Subject, seconds: float) -> tuple[str, Candidate]:
    """Return the kind of failure ("" where there is none) and the smallest candidate found within `seconds` that fails so too."""
    whole: Candidate = (subject.numbers, subject.records)
    wanted = failure_kind(lambda: subject.check(whole))
    if not wanted:
        return "", whole
    found = shrink(
        subject.numbers,
        subject.records,
        lambda candidate: failure_kind(lambda: subject.check(candidate)) == wanted,
        seconds,
        are_fixed=True,
    )
    return wanted, found or whole


class _NoSuchSubject(Exception):
    """The numbers describe no program; never the failure that is looked for."""


class ScheduleSubject:
    """A schedule. target: what it is built for. source: the file that makes it, FILE.py or FILE.py:NAME."""

    def __init__(self, schedule: Schedule, target: str, source: str = "") -> None:
        self.target, self.source, self.records = target, source, list(schedule.records)
        self.original = [stage.origin_op for stage in schedule.stages if stage.is_output]
        self.order = producers_first(self.original)
        lengths: list[int] = []
        shrunk(self.original, lambda _, length: lengths.append(length) or length)
        self.numbers = [len(self.order), *[1] * len(self.order), *lengths]

    def program(self, candidate: Candidate) -> tuple[list[Operation], Schedule]:
        """Return the operations that the numbers describe, with the records that apply to them. Raises _NoSuchSubject."""
        numbers, records = candidate
        root, switches, lengths = numbers[0], numbers[1 : len(self.order) + 1], numbers[len(self.order) + 1 :]
        twins: dict[Any, Any] = {}
        tensors: dict[Any, Any] = {}
        for op, switch in zip(self.order, switches, strict=True):
            twin: Any = op
            if not switch and not op.is_given:
                if op.num_outputs != 1:
                    raise _NoSuchSubject
                twin = te.placeholder(op.output(0).shape, str(op.output(0).dtype), op.name).op
            elif not op.is_given:
                twin = op.replace_inputs(tensors)
            twins[op] = twin
            tensors |= dict(zip(op.outputs, twin.outputs, strict=True))
        roots = self.original if root >= len(self.order) else [self.order[root]]
        cut = [twins[op] for op in roots]
        if any(op.is_given for op in cut):
            raise _NoSuchSubject
        remaining = iter(lengths)
        small = shrunk(cut, lambda _, length: max(1, min(next(remaining, length), length)))
        resized = dict(zip(producers_first(cut), producers_first(small), strict=True))
        pairs = {op: resized[twin] for op, twin in twins.items() if twin in resized}
        return small, transfer_records(records, self.original, small, pairs)

    @property
    def intrinsics(self) -> dict[str, Any]:
        """The tensor intrinsics of the user's own, by name, which are no part of the written code."""
        values = [value for record in self.records for value in record.arguments.values()]
        return {value.name: value.own for value in values if isinstance(value, IntrinsicRef) and value.own is not None}

    def check(self, candidate: Candidate) -> None:
        _, schedule = self.program(candidate)
        build(schedule, all_arguments(schedule), target=self.target)
        schedule.verify(target=self.target)

    def write(self, candidate: Candidate, folder: Path, failure: str) -> Path:
        ops, schedule = self.program(candidate)
        args = all_arguments(schedule)
        lines = [f"# {failure}, reduced", "import tilewright as tw", "from tilewright import te", ""]
        try:
            lines.append(program_source(_result_program(ops, args)))
        except Unwritable as error:  # the user's file makes them again
            lines += [
                "from tilewright.schedule.lowering.text import all_arguments",
                "",
                f"# what is left of them, which cannot be written as code ({error})",
                f"ops, unscheduled = found.program(({candidate[0]}, []))",
                "args = all_arguments(unscheduled)",
            ]
        if self.intrinsics:
            lines.append("intrinsics = found.intrinsics")
        if "found." in "\n".join(lines):
            lines[3:3] = [
                "from tilewright.tools.fuzz.reduce_command import find_subject",
                "",
                f"found = find_subject({self.source!r}, {self.target!r})",
            ]
        lines += ["", schedule.as_python(), *(f"# {line}".rstrip() for line in str(schedule).splitlines()), ""]
        lines += [f"tw.build(s, args, target={self.target!r})", f"s.verify(target={self.target!r})", ""]
        return _write_text(folder / "reduced.py", "\n".join(lines))


def _result_program(ops: Sequence[Operation], args: Sequence[Any]) -> Program:
    outputs = {tensor for op in ops for tensor in op.outputs}
    return Program("reduced", list(args), [None] * len(args), [arg in outputs for arg in args])


class GraphSubject:
    """A model, whose inputs have static shapes. target: what it is built for."""

    def __init__(self, graph: Graph, target: str) -> None:
        self.graph, self.target = graph, target
        self.records: list[Any] = []
        self.numbers = [len(graph.nodes), *[1] * len(graph.nodes)]

    def smaller(self, candidate: Candidate) -> Graph:
        """Return the graph that the numbers describe. Raises _NoSuchSubject."""
        (root, *switches), _ = candidate
        nodes = self.graph.nodes[: root + 1]
        results = list(self.graph.results.values()) if root >= len(self.graph.nodes) else list(nodes[-1].outputs)
        is_kept = [bool(switch) for switch in switches[: len(nodes)]]
        needed = set(results)
        for node, keep in zip(reversed(nodes), reversed(is_kept), strict=True):
            if keep and needed & set(node.outputs):
                needed |= {name for name in node.inputs if name}
        made, types = Builder(self.graph.name), self.graph.types
        for name, kind in self.graph.inputs.items():
            if name in needed:
                made.input(name, kind.shape, kind.dtype)
        for name, param in self.graph.constants.items():
            if name in needed:
                made.param(name, param)
        for node, keep in zip(nodes, is_kept, strict=True):
            if not keep:
                for name in node.outputs:
                    if name in needed:
                        made.input(name, types[name].shape, types[name].dtype)
            elif needed & set(node.outputs):
                more: dict[str, Any] = {**node.attributes}
                made.nodes(
                    node.operator, *node.inputs, outputs=node.outputs, source=node.source, bodies=node.bodies, **more
                )
        for at, name in enumerate(results):
            made.output(f"y{at}", name)
        return made.graph()

    def check(self, candidate: Candidate) -> None:
        graph = self.smaller(candidate)
        model = build(graph, target=self.target)
        try:
            inputs = draw_inputs(graph)
        except MemoryError:
            raise _NoSuchSubject from None
        differs = model.verify(*inputs)
        if not differs:
            raise AssertionError(str(differs))

    def write(self, candidate: Candidate, folder: Path, failure: str) -> Path:
        graph = self.smaller(candidate)
        folder.mkdir(parents=True, exist_ok=True)
        weights = folder / "reduced.safetensors"
        graph.save(weights)
        text = "\n".join(f"# {line}".rstrip() for line in str(graph).splitlines())
        shapes = [(tuple(kind.shape), kind.dtype) for kind in graph.inputs.values()]
        return _write_text(
            folder / "reduced.py",
            f"# {failure}, reduced\nfrom pathlib import Path\n\nimport tilewright as tw\n"
            "from tilewright.tools.fuzz.reducer import draw_inputs\n\n"
            f"{text}\n# inputs: {shapes}\n"
            f'g = tw.graph.load(Path(__file__).with_name("{weights.name}"))\n'
            f"m = tw.build(g, target={self.target!r})\nprint(m.verify(*draw_inputs(g)))\n",
        )


def draw_inputs(graph: Graph) -> list[Any]:
    """Return arrays for the inputs of a graph: normal floats, small integers."""
    rng = np.random.default_rng(0)
    arrays: list[Any] = []
    for kind in graph.inputs.values():
        shape = tuple(map(int, kind.shape))
        drawn = rng.standard_normal(shape) if "float" in kind.dtype else rng.integers(0, 2, shape)
        arrays.append(np.asarray(drawn).astype(array_dtype(kind.dtype)))
    return arrays


def _write_text(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
