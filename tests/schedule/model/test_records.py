"""What was done to a schedule replays, travels as JSON, prints as Python and copies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import drawn
import numpy as np
import pytest
from schedule_state import exact, shape_of
from te_evaluate import evaluate
from tilewright import te
from tilewright.base.errors import ScheduleError
from tilewright.schedule import Schedule, errors, from_json, to_json
from tilewright.schedule.model.encode import encode
from tilewright.schedule.model.methods import StagePrimitives
from tilewright.schedule.model.primitive import Primitive, primitives
from tilewright.schedule.model.records import Record, StageRef

N, M, K = 4, 6, 5


def program() -> SimpleNamespace:
    A, W = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="W")
    B = te.compute((N, K), lambda i, j: A[i, j] * 2, name="B")
    k = te.reduce_axis((0, K), "k")
    C = te.compute((N, M), lambda i, j: te.sum(B[i, k] * W[k, j], axis=k), name="C")
    D = te.compute((N, M), lambda i, j: C[i, j] + A[i, 0], name="C")  # the name of another stage: records go by place
    return SimpleNamespace(A=A, W=W, B=B, C=C, D=D, s=te.create_schedule(D))


def elaborate() -> SimpleNamespace:
    """A schedule that uses every primitive."""
    p = program()
    s, A, B, C, D = p.s, p.A, p.B, p.C, p.D
    CC = s.cache_write(C, "local")
    i, j = C.op.axis
    io, jo, ii, ji = s[C].tile(i, j, 2, 3)
    s[C].pragma(io, "auto_unroll_max_step", 16)
    s[C].unroll(ii)
    s[CC].compute_at(s[C], jo)
    _ko, ki = s[CC].split(s[CC].op.reduce_axis[0], factor=2)
    CF = s.rfactor(CC, ki, factor_axis=-1)
    s[CF].compute_at(s[CC], s[CC].op.axis[1])
    AA = s.cache_read(A, "shared", [B, s[D]])
    s[AA].storage_align(s[AA].op.axis[0], 8, 1)
    s[B].compute_inline()
    s[AA].compute_root()
    x, y = D.op.axis
    fused = s[D].fuse(x, y)
    tx, bx = te.thread_axis((0, 8), "threadIdx.x"), te.thread_axis("blockIdx.x")
    outer, inner = s[D].split(fused, nparts=3, disable_predication=True)
    s[D].bind(outer, bx)
    s[D].bind(inner, tx)
    s[C].set_scope("global")
    s[D].set_store_predicate(
        te.all(te.any(tx.equal(0), outer < 2), ~(inner > te.min(fused, 7)), te.likely(fused % 2 < 5))
    )
    s[C].vectorize(ji)
    s[CC].reorder(s[CC].op.axis[1], s[CC].op.axis[0])
    s[C].parallel(io)
    unit = s[CF].fuse()
    s[CF].unroll(unit)
    return p


def test_records_say_what_was_done_by_place() -> None:
    p = elaborate()
    assert [record.primitive for record in p.s.trace] == [
        "cache_write",
        "tile",
        "pragma",
        "unroll",
        "compute_at",
        "split",
        "rfactor",
        "compute_at",
        "cache_read",
        "storage_align",
        "compute_inline",
        "compute_root",
        "fuse",
        "split",
        "bind",
        "bind",
        "set_scope",
        "set_store_predicate",
        "vectorize",
        "reorder",
        "parallel",
        "fuse",
        "unroll",
    ]
    tile = p.s.trace[1]
    assert repr(tile) == (
        "s.stages[4].tile(x_parent=AxisRef(stage=4, place=0), y_parent=AxisRef(stage=4, place=1), "
        "x_factor=2, y_factor=3)"
    )
    assert tile.source is not None
    assert tile.source.text.startswith("io, jo, ii, ji = s[C].tile")


def test_replay_makes_the_same_schedule_of_the_same_and_of_like_operations() -> None:
    p = elaborate()
    for ops in (p.D, p.D.op, [program().D]):
        made = te.Schedule.replay(p.s.trace, ops)
        assert shape_of(made) == shape_of(p.s)
        assert to_json(made.trace) == to_json(p.s.trace)


def test_records_travel_as_json() -> None:
    p = elaborate()
    text = to_json(p.s.records)
    records = from_json(text)
    assert to_json(records) == text
    assert shape_of(te.Schedule.replay(records, program().D)) == shape_of(p.s)


def test_as_python_is_the_schedule_as_code() -> None:
    p = elaborate()
    space: dict[str, Any] = {"te": te, "ops": [p.D]}
    exec(p.s.as_python(), space)
    assert shape_of(space["s"]) == shape_of(p.s)
    assert to_json(space["s"].trace) == to_json(p.s.trace)


def test_as_python_reads_like_code_by_hand() -> None:
    p = program()
    s = p.s
    s.cache_write(p.D, "local")
    io, ii = s[p.D].split(p.D.op.axis[0], 2)
    s[p.D].bind(ii, te.thread_axis("threadIdx.x"))
    s[p.C].compute_at(s[p.D], io)
    assert (
        s.as_python()
        == """\
s = te.create_schedule(ops)
A, B, W, C, C_1 = [stage.op for stage in s.stages]
C_local = s.cache_write(C_1.output(0), 'local').op
i, j = s[C_1].op.axis
i_outer, i_inner = s[C_1].split(i, factor=2)
threadIdx_x = te.thread_axis("threadIdx.x")
s[C_1].bind(i_inner, threadIdx_x)
s[C].compute_at(s[C_1], i_outer)
"""
    )


def test_symbols_are_named_by_place() -> None:
    n, m = te.size_var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B)
    assert s.symbols == [n, m]
    s[B].split(B.op.axis[0], factor=te.min(m, 8))
    s[B].set_store_predicate(B.op.axis[1] < m - 1)
    space: dict[str, Any] = {"te": te, "ops": B}
    exec(s.as_python(), space)
    for made in (space["s"], Schedule.replay(from_json(to_json(s.trace)), B)):
        assert str(made[B].relations[0].factor) == "min(m, 8)"
        assert made.symbols[1] is m
        assert shape_of(made) == shape_of(s)


def test_a_copy_goes_its_own_way() -> None:
    p = elaborate()
    before, twin = exact(p.s), p.s.copy()
    assert shape_of(twin) == shape_of(p.s)
    assert twin[p.D].leaf_iter_vars == p.s[p.D].leaf_iter_vars, "axes are the same objects, so that programs can go on"
    assert all(stage.attach_stage is None or stage.attach_stage in twin.stages for stage in twin.stages)
    twin[p.W].set_scope("global")
    twin[p.C].unroll(twin[p.C].leaf_iter_vars[1])
    assert exact(p.s) == before
    assert len(twin.trace) == len(p.s.trace) + 2


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[", "the text holds no records"),
        ("[[1]]", "the text holds no records"),
        ('[["split", 1, 3]]', "the text holds no records"),
        ('[["split", 1, {"a": {"what": 1}}]]', "the text holds no records"),
        ('[["explode", 1, {}]]', "no primitive of stages is named 'explode'"),
        ('[["split", null, {}]]', "no primitive of schedules is named 'split'"),
        ('[["compute_inline", 9, {}]]', "number 9 of the stages, of which there are 5"),
        ('[["vectorize", 4, {"axis": {"axis": [4, 7]}}]]', "number 7 of the axes of C, of which there are 2"),
        (
            '[["split", 4, {"parent": {"axis": [4, 0]}, "factor": {"expr": {"symbol": [0]}}}]]',
            "number 0 of the symbols",
        ),
    ],
)
def test_records_that_do_not_fit_are_refused(text: str, match: str) -> None:
    with pytest.raises(errors.BadRecords, match=match):
        te.Schedule.replay(from_json(text), program().D)


def draw_primitive(rng: np.random.Generator, s: Schedule) -> None:
    """One primitive with arguments that are often right."""
    stage = s.stages[rng.integers(len(s.stages))]
    axes = [*stage.leaf_iter_vars, *stage.all_iter_vars[:1]]
    other = s.stages[rng.integers(len(s.stages))]

    def axis(of: Any = None) -> Any:
        among = of.leaf_iter_vars if of is not None else axes
        return among[rng.integers(len(among))] if among else te.reduce_axis((0, 2), "none")

    size, scope = int(rng.integers(0, 8)), ["", "local", "shared", "global"][rng.integers(4)]
    choices = [
        lambda: stage.split(axis(), factor=size),
        lambda: stage.split(axis(), nparts=size),
        lambda: stage.fuse(*axes[rng.integers(3) :][: rng.integers(0, 4)]),
        lambda: stage.reorder(*rng.permutation(np.array(axes, dtype=object)).tolist()[: rng.integers(1, 4)]),
        lambda: stage.tile(axis(), axis(), size, 2),
        lambda: stage.parallel(axis()),
        lambda: stage.vectorize(axis()),
        lambda: stage.unroll(axis()),
        lambda: stage.bind(axis(), te.thread_axis("threadIdx.x")),
        lambda: stage.pragma(axis(), "unroll_explicit", True),
        lambda: stage.compute_at(other, axis(other)),
        stage.compute_inline,
        stage.compute_root,
        lambda: stage.set_scope(scope),
        lambda: stage.storage_align(axis(), size, 1),
        lambda: s.cache_write(list(stage.op.outputs), scope),
        lambda: s.cache_read(stage.op.output(0), scope, [other]),
        lambda: s.rfactor(stage.op.output(0), axis(), -1),
    ]
    choices[rng.integers(len(choices))]()


def test_drawn_schedules_replay_and_compute_what_was_declared() -> None:
    taken = 0
    for case in range(drawn.count(20, 1000)):
        rng = drawn.rng("schedule records", case)
        p = program()
        for _ in range(12):
            kept = exact(p.s)
            try:
                draw_primitive(rng, p.s)
                taken += 1
            except ScheduleError:
                assert exact(p.s) == kept, case
        assert shape_of(te.Schedule.replay(p.s.trace, p.D)) == shape_of(p.s), case
        assert shape_of(te.Schedule.replay(from_json(to_json(p.s.trace)), p.D)) == shape_of(p.s), case
        space: dict[str, Any] = {"te": te, "ops": p.D}
        exec(p.s.as_python(), space)
        assert shape_of(space["s"]) == shape_of(p.s), case
        assert str(space["s"]) == str(p.s), case
        inputs = {
            p.A: rng.integers(-4, 5, (N, K)).astype("float32"),
            p.W: rng.integers(-4, 5, (K, M)).astype("float32"),
        }
        for made in (p.s, p.s.normalize()):
            np.testing.assert_array_equal(
                evaluate(made[p.D].op.output(0), inputs), evaluate(p.D, inputs), err_msg=f"case {case}"
            )
    assert taken > 100


def test_as_python_unpacks_the_only_axis_of_a_new_layout() -> None:
    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B)
    (turned,) = s[B].transform_layout(lambda i: [i])
    s[B].parallel(turned)
    space: dict[str, object] = {"te": te, "ops": [B.op]}
    exec(s.as_python(), space)
    assert str(space["s"]) == str(s)


@pytest.mark.parametrize("row", primitives().values(), ids=lambda row: row.name)
def test_a_record_whose_arguments_are_not_those_of_its_primitive_is_refused(row: Primitive) -> None:
    stage = 0 if row.owner is StagePrimitives else None
    needed = [p.name for p in row.parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    wrong: list[dict[str, Any]] = [{"nonsense": 1}, *([{}] if needed else [])]
    if row.listed is not None:
        wrong.append({row.listed: StageRef(0)})
    for arguments in wrong:
        with pytest.raises(errors.BadRecords, match=f"TW0223(.|\n)*allowed: {row.name}"):
            Schedule.replay([Record(row.name, stage, arguments)], program().D.op)


def test_layouts_and_parameters_that_hold_nothing_are_refused() -> None:
    index = '{"expr": {"parameter": [0]}}'
    for arguments in (
        f'{{"index_map": {{"layout": [["i", "j"], ["int32"], [{index}]]}}}}',
        f'{{"index_map": {{"layout": [["i"], ["int32"], [{index.replace("0", "5")}]]}}}}',
        '{"index_map": {"parameter": [0]}}',
    ):
        records = from_json(f'[["transform_layout", 1, {arguments}]]')
        with pytest.raises(errors.BadRecords, match="TW0223"):
            Schedule.replay(records, program().D.op)


def test_what_no_record_holds_is_no_argument() -> None:
    p = program()
    with pytest.raises(errors.WrongArgument, match="TW0222: a object is not an argument"):
        encode(p.s, [1, object()])
