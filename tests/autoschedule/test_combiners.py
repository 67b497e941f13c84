"""Drawn combiners under drawn schedules and the rules, against a left fold in Python.

Where `is_exact` says so, and always with exact=True, every bit is that of the fold; what may not be split is refused by a TW error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.analysis.combiners import Law, laws_of
from tilewright.schedule.errors import UnsplitReduction

from tests.support import drawn
from tests.support.drawn_combiners import DTYPES, FORMS, Combiner, drawn_combiner, left_fold, terms

TARGETS = ("llvm", "c", "cuda -emulate")


class Drawn:
    """A reduction of rows by a combiner, its terms, and what the fold gives."""

    def __init__(self, combiner: Combiner, dtypes: list[str], rows: int, count: int, rng: np.random.Generator) -> None:
        self.dtypes = dtypes
        self.inputs = [te.placeholder((rows, count), dtype, name=f"A{at}") for at, dtype in enumerate(dtypes)]
        self.k = te.reduce_axis((0, count), "k")
        reducer = combiner.reducer()

        def element(i: Any) -> Any:
            sources = [A[i, self.k] for A in self.inputs]
            return reducer(sources[0] if len(sources) == 1 else tuple(sources), axis=self.k)

        made = te.compute((rows,), element, name="B")
        self.outputs = [made] if len(dtypes) == 1 else list(made)
        self.arrays = [np.stack([terms(rng, dtype, count) for _ in range(rows)]) for dtype in dtypes]
        folds = [left_fold(combiner, dtypes, [a[row] for a in self.arrays]) for row in range(rows)]
        self.expected = [
            np.array(column).astype(dtype) for column, dtype in zip(zip(*folds, strict=True), dtypes, strict=True)
        ]

    @property
    def args(self) -> list[Any]:
        return [*self.inputs, *self.outputs]

    def is_kept(self, kernel: Any) -> bool:
        """Whether a kernel gives the bits of the fold."""
        results = [np.zeros(values.shape, values.dtype) for values in self.expected]
        kernel(*self.arrays, *results)
        return all(_bits(got) == _bits(want) for got, want in zip(results, self.expected, strict=True))


def _bits(values: np.ndarray[Any, Any]) -> bytes:
    return np.where(values != values, np.ones(1, values.dtype), values).tobytes()


def draw(name: str, case: int) -> Drawn | None:
    rng = drawn.rng(name, case)
    combiner = drawn_combiner(rng)
    dtypes = [DTYPES[rng.integers(0, len(DTYPES))] for _ in combiner.begin]
    count = int(rng.choice([1, 7, 33, 64, 130]))
    try:
        return Drawn(combiner, dtypes, int(rng.choice([1, 3, 20])), count, rng)
    except tw.TilewrightError:  # an identity out of the dtype's range
        return None


@pytest.mark.parametrize("target", TARGETS)
def test_rules_keep_the_fold_where_they_say_so(target: str) -> None:
    for case in range(drawn.count(1 if "emulate" in target else 3, 400)):
        program = draw(f"rules {target}", case)
        if program is None:
            continue
        exact = tw.build(program.args, target=target, exact=True)
        assert exact.is_exact and program.is_kept(exact), f"{program.outputs[0].op.body}: {drawn.SEED}, {case}"
        free = tw.build(program.args, target=target)
        assert program.is_kept(free) or not free.is_exact, f"{program.outputs[0].op.body}: {drawn.SEED}, {case}"


def test_drawn_schedules_are_exact_where_they_say_so() -> None:
    for case in range(drawn.count(12, 2000)):
        program = draw("schedules", case)
        if program is None:
            continue
        rng = drawn.rng("steps", case)
        s = te.create_schedule(program.outputs[0].op)
        stage, k = s[program.outputs[0]], program.k
        outer, inner = stage.split(k, int(rng.integers(1, 9)))
        way = rng.integers(0, 4)
        try:
            if way == 0:
                stage.reorder(inner, outer)
            elif way < 3:
                s.rfactor(program.outputs[0] if len(program.outputs) == 1 else program.outputs, (outer, inner)[way - 1])
        except UnsplitReduction:
            assert not laws_of(program.outputs[0].op.reduction.combiner).splits_exactly(False)
            continue
        kept = program.is_kept(tw.build(s, program.args, "llvm"))
        assert kept or not s.is_exact, f"{program.outputs[0].op.body}, way {way}: {drawn.SEED}, {case}"
        if s.is_exact:
            s.verify()


@pytest.mark.parametrize("name", ["difference", "twice", "saturated", "sum from one"])
@pytest.mark.parametrize("way", ["rfactor", "threads"])
def test_what_must_not_be_split_is_refused_and_the_combiner_named(name: str, way: str) -> None:
    form = next(form for form in FORMS if form.name == name)
    program = Drawn(form, ["int32"], 4, 32, np.random.default_rng(0))
    B = program.outputs[0]
    s = te.create_schedule(B.op)
    ways = {
        "rfactor": lambda: s.rfactor(B, program.k),
        "threads": lambda: s[B].bind(program.k, te.thread_axis("threadIdx.x")),
    }
    with pytest.raises(tw.ScheduleError, match=f"(?s)TW0234.*its combiner {name} must not be split"):
        ways[way]()
    assert not s.records


def test_sums_from_one_are_reordered_and_not_split() -> None:
    form = next(form for form in FORMS if form.name == "sum from one")
    program = Drawn(form, ["int32"], 4, 32, np.random.default_rng(0))
    s = te.create_schedule(program.outputs[0].op)
    outer, inner = s[program.outputs[0]].split(program.k, 8)
    s[program.outputs[0]].reorder(inner, outer)
    assert s.is_exact and program.is_kept(tw.build(s, program.args))


def test_an_identity_that_does_not_stand_for_itself_needs_terms_in_every_part() -> None:
    """The last of equals: an empty part, (-1, the least), would win over an equal value."""
    form = next(form for form in FORMS if form.name == "last of equals")
    program = Drawn(form, ["int32", "int8"], 2, 30, np.random.default_rng(0))
    assert laws_of(program.outputs[0].op.reduction.combiner).idle == Law.REFUTED
    for factor, refused in ((6, False), (7, True)):
        s = te.create_schedule(program.outputs[0].op)
        outer, _ = s[program.outputs[0]].split(program.k, factor)
        if refused:
            with pytest.raises(tw.ScheduleError, match=r"(?s)TW0234.*a partial result of no terms"):
                s.rfactor(program.outputs, outer)
            continue
        s.rfactor(program.outputs, outer)
        assert program.is_kept(tw.build(s, program.args))


@pytest.mark.parametrize("reducer", ["sum", "product", "greatest", "least", "place"])
def test_known_forms_stay_split(reducer: str) -> None:
    """By the rules, over lanes or threads: of integers exactly."""
    form = next(form for form in FORMS if form.name == reducer)
    program = Drawn(form, ["int32"] * len(form.begin), 3, 4099, np.random.default_rng(0))
    s = tw.autoschedule.schedule(program.outputs[0].op, exact=True)
    assert any(record.primitive == "rfactor" for record in s.records), s.as_python()
    assert s.is_exact and program.is_kept(tw.build(s, program.args))


def test_conditions_of_their_own_leave_elements_as_they_are() -> None:
    """The first of equals, beside a sum over other terms: a NaN that was taken up stays where terms are left out."""
    A, k = te.placeholder((6,), name="A"), te.reduce_axis((0, 6), "k")
    form = next(form for form in FORMS if form.name == "first of equals")
    reducer = te.comm_reducer(form.reducer().combine, lambda t, u: (te.const(-1, t), te.min_value(u)), "first")

    def element(i: Any) -> Any:
        place, value = reducer((k, A[k]), axis=k, where=k < 3)
        return place, value, te.sum(A[k], axis=k, where=k > 3), te.sum(A[k], axis=k, where=k < 0, init=-0.0)

    outputs = te.compute((1,), element, name="B")
    a = np.array([1, 2, np.nan, 7, 1, 1], "float32")
    for what in (te.create_schedule(outputs[0].op), None):
        given = [what, [A, *outputs]] if what is not None else [[A, *outputs]]
        results = [np.ones(1, str(output.dtype)) for output in outputs]
        tw.build(*given)(a, *results)
        assert results[0] == 2 and np.isnan(results[1]) and results[2] == 2
        assert results[3] == 0 and np.signbit(results[3])
