"""s.plan: what rules chose; rules(), and rules of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule import Estimate, scheduler
from tilewright.autoschedule.cost.estimate import soonest
from tilewright.autoschedule.groups import Group
from tilewright.autoschedule.plan import Candidate, cheapest, time_text
from tilewright.autoschedule.registry import registered_rules
from tilewright.codegen.result import BuildOptions
from tilewright.codegen.target import Target
from tilewright.driver.cache.key import build_key
from tilewright.driver.compile import BuildItem, Request
from tilewright.schedule import Schedule
from tilewright.te.hybrid import output_tensor, script


def blurred(name: str = "blur") -> tuple[Any, Any]:
    image = te.placeholder((37, 53), name="image")
    return image, te.compute((37, 51), lambda y, x: image[y, x] + image[y, x + 1] + image[y, x + 2], name=name)


class Columns(tw.autoschedule.Rule):
    """A rule with two ways, of which the second is said to be quicker."""

    name, what, does = "columns", "what is called blur", "columns in lanes"

    def __init__(self, times: tuple[float | None, float | None] = (2e-6, 1e-6)) -> None:
        self.times = times

    def matches(self, group: Group) -> bool:
        return group.anchor.name == "blur"

    def candidates(self, group: Group) -> Sequence[Candidate]:
        stage = group.s[group.output]

        def lanes(width: int) -> None:
            stage.vectorize(stage.split(stage.op.axis[-1], factor=width)[1])

        return [
            Candidate(
                f"{width} lanes",
                lambda width=width: lanes(width),
                None if seconds is None else tw.autoschedule.Estimate((("loads", seconds),)),
            )
            for width, seconds in zip((4, 16), self.times, strict=True)
        ]


@pytest.fixture(autouse=True)
def _no_rule_is_left() -> Iterator[None]:
    yield
    assert not registered_rules(), "a test left its rule"


def test_every_group_has_a_row_that_says_what_binds_it() -> None:
    a, b = te.placeholder((96, 64), name="a"), te.placeholder((64, 80), name="b")
    plan = tw.autoschedule.schedule([topi.nn.relu(topi.matmul(a, b)), topi.nn.softmax(a)]).plan
    assert sorted(row.anchor for row in plan) == ["matmul", "softmax"]
    product = next(row for row in plan if row.anchor == "matmul")
    assert (
        product.rule == "contraction" and product.fused[-1:] == (product.output.name,) and len(product.candidates) > 4
    )
    for row in plan:
        assert row.seconds is not None and 0 < row.seconds < 0.1 and row.binds in dict(row.estimate.parts)
    lines = str(plan).splitlines()
    assert lines[0].split()[:2] == ["rule", "anchor"] and len(lines) == 3
    assert any(line.startswith("contraction") and line.endswith(product.binds) for line in lines)


def test_a_schedule_by_hand_has_a_row_for_each_stage_at_root_and_a_copy_keeps_its_rows() -> None:
    image, blur = blurred()
    twice = te.compute((37, 49), lambda y, x: blur[y, x] * blur[y, x + 2], name="twice")
    s = te.create_schedule(twice.op)
    assert [(row.anchor, row.description) for row in s.plan] == [("blur", "as declared"), ("twice", "as declared")]
    before = sum(row.seconds or 0 for row in s.plan)
    s[blur].compute_at(s[twice], twice.op.axis[-1])
    (row,) = s.plan
    assert (row.description, row.fused) == ("by hand", ("blur",)) and (row.seconds or 0) > before
    assert f"time, as estimated: {time_text(row.seconds)}" in str(s.explain(twice))
    assert "as estimated" not in str(s.explain(blur)) and not te.create_schedule(image.op).plan
    s = tw.autoschedule.schedule(blur)
    assert [row.anchor for row in s.copy().plan] == ["blur"]
    replayed = Schedule.replay(s.records, blur.op)
    assert replayed.records == s.records and [row.rule for row in replayed.plan] == ["none"]


def test_copies_count_for_the_row_that_reads_them_wherever_they_stand() -> None:
    image, weights = (
        te.placeholder((1, 30, 30, 64), "uint8", "image"),
        te.placeholder((64, 64, 3, 3), "int8", "weights"),
    )

    def axes() -> list[Any]:
        return [te.reduce_axis((0, extent), "k") for extent in (3, 3, 64)]

    (p, q, c), (r, s, d) = axes(), axes()

    def term(i: Any, j: Any, o: Any) -> Any:
        return image[0, i + p, j + q, c].astype("int32") * weights[o, c, p, q].astype("int32")

    product = te.compute((1, 28, 28, 64), lambda b, i, j, o: te.sum(term(i, j, o), axis=[p, q, c]), "product")
    columns = te.compute((64,), lambda o: te.sum(weights[o, d, r, s].astype("int32"), axis=[d, r, s]), "columns")
    less = te.compute(product.shape, lambda *at: product(*at) - columns[at[-1]] * 120, "less")
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=icelake-server -cores=1"
    rows = {row.anchor: row for row in tw.autoschedule.schedule(less, target).plan}
    (alone,) = tw.autoschedule.schedule(columns, target).plan
    assert rows["product"].rule == "byte_tiles" and rows["columns"].seconds == alone.seconds


def test_a_plan_is_told_of_symbolic_shapes_and_of_what_is_scheduled_further() -> None:
    n = te.size_var("n")
    a = te.placeholder((n, 64), name="a")
    s = tw.autoschedule.schedule(topi.sum(a, axis=1))
    assert s.plan[0].seconds is not None

    @script
    def doubled(x):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        y = output_tensor((640, 4), "float32")
        for i in range(640):
            for j in range(4):
                y[i, j] = x[i, j] + x[i, j]
        return y

    double = doubled(te.placeholder((640, 4), name="x"))
    s = tw.autoschedule.schedule(double)
    before = s.plan[0].seconds
    s[double].unroll(s[double].leaf_iter_vars[-1])
    assert before is not None and s.plan[0].seconds is not None and s.plan[0].seconds != before, "as the loops are now"


def test_a_rule_of_ones_own_is_asked_first_and_takes_its_cheapest_way() -> None:
    image, blur = blurred()
    with tw.autoschedule.register(Columns()):
        s = tw.autoschedule.schedule(blur)
        assert tw.autoschedule.rules()[0] == ("columns", "what is called blur", "columns in lanes")
        kernel = tw.build([image, blur])
    (row,) = s.plan
    assert (row.rule, row.description, row.seconds, row.binds) == ("columns", "16 lanes", 1e-6, "loads")
    assert [text for text, _ in row.candidates] == ["4 lanes", "16 lanes"]
    given, result = np.random.default_rng(0).random((37, 53), "float32"), np.empty((37, 51), "float32")
    kernel(given, result)
    np.testing.assert_allclose(result, given[:, :-2] + given[:, 1:-1] + given[:, 2:], rtol=1e-6)
    assert tw.autoschedule.schedule(blur).plan[0].rule != "columns"


def test_where_an_estimate_is_missing_the_first_way_is_taken() -> None:
    _, blur = blurred()
    with tw.autoschedule.register(Columns((2e-6, None))):
        assert tw.autoschedule.schedule(blur).plan[0].description == "4 lanes"


def test_who_searches_takes_any_candidate_and_begins_at_the_same_choice() -> None:
    _, blur = blurred()
    asked: list[tuple[str, int]] = []

    def other(name: str, candidates: Sequence[Candidate]) -> int:
        asked.append((name, cheapest(name, candidates)))
        return 0

    with tw.autoschedule.register(Columns()):
        s = scheduler.schedule(blur, chooser=other)
    assert asked == [("columns of blur", 1)] and s.plan[0].description == "4 lanes"
    assert "(4)" in str(s)


class Reordered(tw.autoschedule.Rule):
    name, does = "reordered", "partial sums"

    def matches(self, group: Group) -> bool:
        return bool(group.anchor.reduce_axis)

    def apply(self, group: Group) -> None:
        stage = group.s[group.anchor]
        group.s.rfactor(group.anchor.output(0), stage.split(stage.op.reduce_axis[0], factor=4)[1])


def test_where_sums_keep_their_order_a_rule_that_reorders_them_is_taken_back() -> None:
    a = te.placeholder((8, 64), name="a")
    k = te.reduce_axis((0, 64), "k")
    total = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="total")
    with tw.autoschedule.register(Reordered()):
        loose, exact = tw.autoschedule.schedule(total), tw.autoschedule.schedule(total, exact=True)
    assert loose.plan[0].rule == "reordered" and not loose.is_exact
    assert exact.is_exact and [row.rule for row in exact.plan] == ["sums_in_order"]


def test_rules_are_taken_away_in_any_order_and_twice() -> None:
    first, second = tw.autoschedule.register(Columns()), tw.autoschedule.register(Reordered())
    assert [row.name for row in tw.autoschedule.rules()[:2]] == ["reordered", "columns"]
    first.unregister()
    first.unregister()
    assert [rule.name for rule in registered_rules()] == ["reordered"]
    second.unregister()


def test_kernels_of_tensors_are_kept_by_no_key_while_a_rule_of_ones_own_may_schedule_them() -> None:
    image, blur = blurred()

    def key() -> str | None:
        return build_key(Request((BuildItem("blur", [image, blur], None),), Target.parse("llvm"), BuildOptions()))

    before = key()
    with tw.autoschedule.register(Columns()):
        assert key() is None
    assert key() == before


@pytest.mark.parametrize(
    "wrong, reason",
    [
        (Columns, r"it is the class of a rule(.|\n)*register\(Columns\(\)\)"),
        ("columns", "it is not a tw.autoschedule.Rule"),
        (tw.autoschedule.Rule(), "it has not a name, matches, apply or candidates"),
    ],
)
def test_what_is_no_rule_is_refused(wrong: Any, reason: str) -> None:
    with pytest.raises(tw.ScheduleError, match=reason):
        tw.autoschedule.register(wrong)


def test_a_name_is_taken_once_and_a_rule_has_candidates() -> None:
    _, blur = blurred()
    with (
        tw.autoschedule.register(Columns()),
        pytest.raises(tw.ScheduleError, match="a rule of this name is registered"),
    ):
        tw.autoschedule.register(Columns())

    class Nothing(Columns):
        def candidates(self, group: Group) -> Sequence[Candidate]:
            return []

    with tw.autoschedule.register(Nothing()), pytest.raises(tw.ScheduleError, match="it has no candidates"):
        tw.autoschedule.schedule(blur)


def test_rules_are_listed_a_line_each() -> None:
    for target in ("llvm", "cuda -emulate"):
        rows = tw.autoschedule.rules(target)
        assert len({row.name for row in rows}) == len(rows) and all(all(row) for row in rows)
        assert len(str(rows).splitlines()) == len(rows) + 1
    assert not tw.autoschedule.rules("interpret")
    assert next(row for row in tw.autoschedule.rules() if row.name == "gemm").matches.startswith("products")


def test_times_have_a_unit_that_suits_them() -> None:
    assert [time_text(seconds) for seconds in (None, 2.5, 0.0012, 3.4e-6, 0.0)] == [
        "",
        "2.5 s",
        "1.2 ms",
        "3.4 us",
        "0 us",
    ]


def test_estimates_that_take_longer_in_any_case_are_not_asked_for() -> None:
    asked: list[str] = []

    def later(name: str, least: float, seconds: float) -> Estimate:
        def parts() -> tuple[tuple[str, float], ...]:
            asked.append(name)
            return (("loads", seconds),)

        return Estimate(parts, least)

    times = [later("long", 5.0, 6.0), later("alike", 1.9, 2.01), later("least", 1.0, 2.0), later("near", 2.0, 2.5)]
    assert soonest(times) == 2 and asked == ["least", "alike", "near"]
    assert soonest(times, alike=1.02) == 1 and times[0].least == 5.0 and "long" not in asked
    assert times[0].seconds == 6.0 and times[0].binds == "loads"
