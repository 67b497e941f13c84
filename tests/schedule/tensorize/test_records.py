"""A tensorized schedule is a list of records like any other; an intrinsic goes by name."""

from __future__ import annotations

from typing import Any

import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule.model.serialise import from_json, to_json


def declare() -> tuple[Any, list[Any]]:
    A, B = te.placeholder((6, 12), name="A"), te.placeholder((16, 12), name="B")
    r = te.reduce_axis((0, 12), "r")
    C = te.compute((6, 16), lambda i, j: te.sum(A[i, r] * B[j, r], axis=r), "C")
    return C, [A, B, C]


def own() -> te.TensorIntrin:
    a, b = te.placeholder((12,), name="a"), te.placeholder((8, 12), name="b")
    k = te.reduce_axis((0, 12), "k")
    c = te.compute((8,), lambda i: te.sum(a[k] * b[i, k], axis=k), "c")
    return te.decl_tensor_intrin(
        c.op,
        lambda ins, outs: te.call_extern(
            "int32", "mine", outs[0].access_ptr("w"), ins[0].access_ptr("r"), ins[1].access_ptr("r")
        ),
        "my_gemv",
    )


def scheduled(intrinsic: te.TensorIntrin) -> tuple[Any, list[Any]]:
    C, args = declare()
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[1], factor=8)
    s[C].parallel(C.op.axis[0])
    s[C].tensorize(inner, intrinsic)
    return s, args


SHIPPED = ("c.gemv_f32", 8, 12)


def test_a_shipped_intrinsic_is_replayed_from_text() -> None:
    s, args = scheduled(te.intrinsics.get(*SHIPPED))
    assert repr(s.trace[-1]).startswith("s.stages[2].tensorize(axis=AxisRef")
    assert '"intrinsic": ["c.gemv_f32", [8, 12]]' in to_json(s.trace)
    records = from_json(to_json(s.trace))
    assert records == s.trace
    C, others = declare()
    again = te.Schedule.replay(records, C.op)
    assert str(tw.lower(again, others)) == str(tw.lower(s, args))
    assert str(tw.lower(s.copy(), args)) == str(tw.lower(s, args))


def test_ones_own_intrinsic_is_replayed_in_the_same_process() -> None:
    s, args = scheduled(own())
    C, others = declare()
    again = te.Schedule.replay(s.trace, C.op)
    assert str(tw.lower(again, others)) == str(tw.lower(s, args))


def test_from_text_ones_own_intrinsic_must_be_passed_again() -> None:
    s, args = scheduled(own())
    records = from_json(to_json(s.trace))
    C, others = declare()
    with pytest.raises(
        tw.ScheduleError,
        match=r"(?s)TW0241: cannot replay the records: they use the tensor intrinsic 'my_gemv'"
        r".*does not come with tilewright.*intrinsics=\{'my_gemv'",
    ):
        te.Schedule.replay(records, C.op)
    again = te.Schedule.replay(records, C.op, intrinsics={"my_gemv": own()})
    assert str(tw.lower(again, others)) == str(tw.lower(s, args))


@pytest.mark.parametrize("mine", [False, True])
def test_the_schedule_as_python(mine: bool) -> None:
    s, args = scheduled(own() if mine else te.intrinsics.get(*SHIPPED))
    code = s.as_python()
    assert ("intrinsics['my_gemv'])" if mine else "te.intrinsics.get('c.gemv_f32', 8, 12))") in code
    C, others = declare()
    space: dict[str, Any] = {"te": te, "ops": [C.op], "intrinsics": {"my_gemv": own()}}
    exec(code, space)
    assert str(tw.lower(space["s"], others)) == str(tw.lower(s, args))
    assert [one.primitive for one in space["s"].trace] == ["split", "parallel", "tensorize"]


def test_shipped_intrinsics_by_name() -> None:
    assert set(te.intrinsics.names()) >= {"x86.dot_u8i8_16x4", "c.gemv_f32"}
    with pytest.raises(
        tw.TensorExpressionError, match=r"(?s)TW0135: there is no tensor intrinsic 'x86.dot'.*allowed: .*u8i8"
    ):
        te.intrinsics.get("x86.dot")
    with pytest.raises(
        tw.TensorExpressionError, match=r"TW0135: the tensor intrinsic 'c.gemv_f32' does not take \(8,\)"
    ):
        te.intrinsics.get("c.gemv_f32", 8)
