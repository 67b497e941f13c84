"""Rows of primitives: what users see of them, and what records, options and the fuzzer get, come from the same place."""

from __future__ import annotations

import inspect
import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

import drawn
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.base.errors import TilewrightError
from tilewright.schedule import Schedule, Stage, from_json, to_json
from tilewright.schedule.model import lazy_api
from tilewright.schedule.model.group import Group
from tilewright.schedule.model.methods import GroupPrimitives, SchedulePrimitives, StagePrimitives
from tilewright.schedule.model.primitive import Primitive, primitives
from tilewright.te.hybrid import allocate, output_tensor
from tilewright.tools.fuzz.schedules import PRIMITIVES

ROOT = Path(tw.__file__).parent
ROWS = [row for cls in (StagePrimitives, SchedulePrimitives, GroupPrimitives) for row in primitives(cls).values()]


def programs() -> list[Schedule]:
    """Schedules on which every primitive can be taken somewhere."""
    A, X = te.placeholder((8, 8), name="A"), te.placeholder((6, 8), name="X")
    k = te.reduce_axis((0, 8), "k")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((8, 8), lambda i, j: te.sum(B[i, k] * B[k, j], k), name="C")
    D = te.compute((8, 8), lambda i, j: B[i, j] + C[i, j], name="D")
    state = te.placeholder((6, 8), name="state")
    init = te.compute((1, 8), lambda _, i: X[0, i], name="init")
    update = te.compute((6, 8), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    scan = te.scan(init, update, state, inputs=[X], name="scan")
    P, Q = te.placeholder((1, 1, 4, 4), name="P"), te.placeholder((1, 1, 4, 4), name="Q")
    l = te.reduce_axis((0, 4), "l")
    packed = te.compute((1, 1, 4, 4), lambda a, b, i, j: te.sum(P[a, 0, l, i] * Q[b, 0, l, j], l), name="packed")
    twice = te.compute((8, 8), lambda i, j: A[i, j] * 2, name="twice")
    square = te.compute((8, 8), lambda i, j: X[0, i] * X[0, j], name="square")
    peak = te.compute((6,), lambda i: te.max(X[i, k], k), name="peak")
    total = te.compute((6,), lambda i: te.sum(te.exp(X[i, k] - peak[i]), k), name="total")
    mean = te.compute((6, 8), lambda i, j: te.sum(te.exp(X[i, k] - peak[i]) / total[i] * A[k, j], k), name="mean")
    parts = [te.placeholder((2, 8), name=name) for name in ("real", "imaginary")]
    transform = topi.dft(*parts)
    image, weights = te.placeholder((1, 2, 4, 4), name="image"), te.placeholder((2, 2, 3, 3), name="weights")
    blurred = topi.nn.conv2d(image, weights, padding=1, algorithm="auto")
    below = te.compute((8,), lambda i: te.sum(te.if_then_else(k > i, A[i, k], 0.0), k), name="below")
    ops = (D, scan, packed, [B, twice], square, mean, transform, blurred, below, sums_of_rows(A).op)
    return [te.create_schedule(op) for op in ops]


@te.hybrid.script
def sums_of_rows(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    """A loop around two statements, which fills memory row by row, and a loop behind it."""
    sums = output_tensor((8,), "float32")
    twice = allocate((8, 8), "float32")
    for i in range(8):
        sums[i] = 1.0
        for j in range(8):
            twice[i, j] = A[i, j] * 2.0
            sums[i] = sums[i] + twice[i, j]
    for i in range(8):
        sums[i] = sums[i] * 0.5
    return sums


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.owner.__name__}.{row.name}")
def test_a_row_is_a_method_with_its_signature_and_its_documentation(row: Primitive) -> None:
    owner = {StagePrimitives: Stage, SchedulePrimitives: Schedule, GroupPrimitives: Group}[row.owner]
    assert inspect.unwrap(getattr(owner, row.name)) is row.method
    doc = inspect.getdoc(row.method) or ""
    told = re.search(r"Raises ([A-Z][\w, ]*)", doc)
    names = re.findall(r"[A-Z]\w+", told[1]) if told is not None else []
    module = sys.modules["tilewright.schedule.errors"], sys.modules["tilewright.schedule.model.hybrid_errors"]
    for name in names:
        error = next(getattr(one, name) for one in module if hasattr(one, name))
        assert issubclass(error, TilewrightError)
    assert "→" in doc or row.owner is GroupPrimitives, "the loops before and after"


def test_no_name_is_that_of_two_primitives_of_stages_and_schedules() -> None:
    assert not set(primitives(StagePrimitives)) & set(primitives(SchedulePrimitives))


def test_every_module_of_the_folder_is_loaded_and_named_after_its_primitive() -> None:
    files = {path.stem for path in (ROOT / "schedule" / "primitives").glob("*.py")} - {"__init__"}
    homes = {row.method.__module__.rpartition(".")[2] for row in ROWS}
    assert files - homes == {"auto_inline", "chunk_merges", "overlap", "trials"}
    assert all(row.method.__module__.endswith(f".{row.name}") for row in ROWS if row.owner is not GroupPrimitives)


def test_the_stub_for_type_checkers_and_the_page_say_what_the_rows_say() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make_primitives
    finally:
        sys.path.pop(0)
    assert make_primitives.STUB.read_text() == make_primitives.render(), "python docs/make_primitives.py writes it anew"
    assert make_primitives.PAGE.read_text() == make_primitives.render_page(), (
        "python docs/make_primitives.py writes it anew"
    )


def test_doors_have_the_names_and_parameters_that_their_stub_says() -> None:
    import ast

    stub, code = (ast.parse(Path(lazy_api.__file__).with_suffix(suffix).read_text()) for suffix in (".pyi", ".py"))
    said, there = (
        {
            one.name: [arg.arg for arg in one.args.args]
            for node in tree.body
            if isinstance(node, ast.ClassDef)
            for one in node.body
            if isinstance(one, ast.FunctionDef)
        }
        for tree in (stub, code)
    )
    assert said == there


def test_every_row_is_tried_drawn_and_taken_somewhere() -> None:
    several = {"double_buffer", "pipeline", "rolling_buffer", "sink", "tensorize"}  # these need more than one call
    left = set(primitives()) - several
    for target, s in product(("llvm", "cuda"), programs()):
        for stage in s.stages if left else ():
            left -= {option.primitive for option in s.options(stage, target).legal}
    assert left == set()
    assert set(PRIMITIVES) == {*primitives(), "auto_inline"}


@pytest.mark.parametrize("name", drawn.part(list(primitives()), 12))
def test_what_was_tried_is_recorded_under_the_names_of_the_parameters_and_replays(name: str) -> None:
    row, count = primitives()[name], 0
    for s in programs():
        for place, stage in enumerate(s.stages):
            for _, call in row.tries(stage):
                copy = s.copy()
                try:
                    call(copy.stages[place])
                except TilewrightError:
                    assert copy.records == (), "a refused primitive leaves no record"
                    continue
                count += 1
                (record,) = copy.records
                assert record.primitive == name and (record.stage == place or row.owner is SchedulePrimitives)
                assert set(record.arguments) <= {one.name for one in row.parameters}
                again = te.Schedule.replay(from_json(to_json(copy.records)), copy.outputs)
                scope: dict[str, Any] = {"te": te, "ops": copy.outputs}
                exec(copy.as_python(), scope)
                assert to_json(again.records) == to_json(copy.records) == to_json(scope["s"].records)
    assert count or name == "tensorize"
