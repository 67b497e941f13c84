"""Schedules that show their steps, that have no stages, and stages that call an intrinsic by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from tilewright import PerformanceWarning
from tilewright.compat import tvm
from tilewright.compat.tvm import te


def doubled() -> tuple[Any, Any]:
    a = te.placeholder((8, 4), name="A")
    return a, te.compute((8, 4), lambda i, j: a[i, j] * 2, name="B")


def test_a_schedule_shows_what_it_was_after_each_primitive_where_that_is_asked_for() -> None:
    a, b = doubled()
    with tvm.transform.PassContext(config={"te.keep_schedule_record": True}):
        s = te.create_schedule(b.op)
    i, j = b.op.axis
    outer, _, inner, _ = s[b].tile(i, j, 4, 2)
    s[b].reorder(inner, outer)
    assert s.primitive_record == ["vanilla", "split", "split", "reorder", "reorder"], "a tile is three of them"
    assert [len(step[b].leaf_iter_vars) for step in s.schedule_record] == [2, 3, 4, 4, 4]
    assert str(tvm.lower(s.schedule_record[-1], [a, b])) == str(tvm.lower(s, [a, b]))
    assert te.create_schedule(b.op).schedule_record == []


def test_a_schedule_of_nothing_has_no_stages() -> None:
    assert len(te.create_schedule([]).stages) == 0
    with pytest.raises(tvm.TVMError, match="neither tensor nor operation"):
        te.create_schedule([3])


def test_tensorizing_what_an_intrinsic_computes_changes_nothing() -> None:
    def intrinsic() -> Any:
        x = te.placeholder((16,), name="x")
        z = te.compute((16,), lambda i: x[i] * 2, name="z")

        def body(ins: Any, outs: Any) -> Any:
            return tvm.tir.call_extern("int32", "twice", ins[0].access_ptr("r"), outs[0].access_ptr("w"))

        return te.decl_tensor_intrin(z.op, body, default_buffer_params={"offset_factor": 1})

    a = te.placeholder((4, 16), name="A")
    twice = intrinsic()

    b = te.compute((4, 16), lambda i: twice(a[i, 0:16]), name="B")
    s = te.create_schedule(b.op)
    before = str(tvm.lower(s, [a, b]))
    with pytest.warns(PerformanceWarning, match="tensorizing i changes nothing"):
        s[b].tensorize(b.op.axis[0], intrinsic())
    assert str(tvm.lower(s, [a, b])) == before and "for i in 4" in before


@pytest.mark.parametrize("name", ["shape", "dtype", "colour"])
def test_what_a_tensor_is_cannot_be_assigned(name: str) -> None:
    a, _ = doubled()
    with pytest.raises(
        AttributeError, match=f"TW0136: tensor A('s {name} cannot be| has no {name} that could be) assigned"
    ):
        setattr(a, name, (3,))
