"""exact=True: schedules that are chosen automatically keep the declared order of sums, and so every bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.plan import Candidate
from tilewright.autoschedule.scheduler import schedule
from tilewright.autotune.search import CandidateFactory
from tilewright.autotune.task import Task
from tilewright.schedule import from_json


def placeholders(*shapes: tuple[int, ...]) -> list[te.Tensor]:
    return [te.placeholder(shape, name=f"x{at}") for at, shape in enumerate(shapes)]


PROGRAMS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "matmul": (lambda a, b: topi.nn.relu(topi.matmul(a, b)), ((37, 65), (65, 43))),
    "products with a vector": (topi.matmul, ((129, 257), (257, 1))),
    "softmax": (topi.nn.softmax, ((5, 259),)),
    "conv": (lambda d, w: topi.nn.conv2d(d, w, 1, 1), ((1, 5, 11, 13), (7, 5, 3, 3))),
    "argmax": (lambda x: topi.argmax(x, 1), ((5, 259),)),
    "sum of all": (topi.sum, ((67, 129),)),
    "layer_norm": (topi.nn.layer_norm, ((5, 259), (259,), (259,))),
    "what nobody tagged": (lambda x: dots(x), ((33, 259),)),
}


def dots(x: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, 259), "k")
    return te.compute((33,), lambda i: te.sum(x[i, k] * x[32 - i, k], axis=k), name="dots")


@pytest.mark.parametrize("name", drawn.part(PROGRAMS, 4))
def test_what_is_chosen_exactly_has_the_bits_of_the_unscheduled_program(name: str) -> None:
    make, shapes = PROGRAMS[name]
    inputs = placeholders(*shapes)
    output = make(*inputs)
    s = tw.autoschedule.schedule(output, exact=True)
    assert s.is_exact
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    results: list[bytes] = []
    for kernel in (
        tw.build(te.create_schedule(output), [*inputs, output]),
        tw.build(s, [*inputs, output]),
        tw.build([*inputs, output], exact=True),
    ):
        out = np.zeros([int(n) for n in output.shape], str(output.dtype))
        kernel(*arrays, out)
        results.append(out.tobytes())
    assert results[0] == results[1] == results[2]


def test_without_it_sums_may_be_reordered_and_say_so() -> None:
    (x,) = placeholders((5, 4099))
    s = topi.schedule(topi.sum(x, 1))
    assert not s.is_exact
    assert "rfactor" in str(s.is_exact)
    assert topi.schedule(topi.sum(x, 1), exact=True).is_exact


def test_gpu_schedules_are_exact_too() -> None:
    (x,) = placeholders((5, 259))
    assert topi.schedule(topi.nn.softmax(x), "cuda -emulate", exact=True).is_exact


def test_a_given_schedule_that_reorders_sums_is_refused() -> None:
    (x,) = placeholders((33, 259))
    y = dots(x)
    s = te.create_schedule(y.op)
    outer, inner = s[y].split(y.op.reduce_axis[0], factor=7)
    s[y].reorder(inner, outer)
    with pytest.raises(
        tw.ScheduleError, match=r"(?s)TW0226: cannot build the schedule exactly.*run as k.inner, k.outer"
    ):
        tw.build(s, [x, y], exact=True)
    tw.build(s, [x, y])


@pytest.mark.parametrize("option", ["fast_math", "fp_contract"])
def test_other_roundings_and_exact_results_exclude_each_other(option: str) -> None:
    (x,) = placeholders((33, 259))
    with pytest.raises(tw.ScheduleError, match=f"(?s)TW0226: cannot build exactly.*{option}=True allows"):
        tw.build([x, dots(x)], exact=True, **{option: True})


def test_tuning_exactly_proposes_exact_candidates_alone() -> None:
    (x,) = placeholders((33, 259))
    args = [x, dots(x)]
    task, free = Task.of(args, exact=True), Task.of(args)
    assert task.key.digest != free.key.digest, "their trials are kept apart"
    rng = np.random.default_rng(2)
    made = {exact: CandidateFactory(one) for exact, one in ((True, task), (False, free))}
    seen: dict[bool, set[bool]] = {True: set(), False: set()}
    for _ in range(12):
        config = free.space.sample(rng)
        for exact, factory in made.items():
            candidate = factory.make(config)
            if candidate is not None:
                seen[exact].add(bool(task.replay(from_json(candidate.records)).is_exact))
    assert seen[True] == {True} and False in seen[False]


def test_a_chooser_that_fails_in_the_second_attempt_is_heard() -> None:
    """The stages of the first one, which reordered the sum, are gone by then."""
    a, k = te.placeholder((4, 33), "float64", name="A"), te.reduce_axis((0, 33), "k")
    best = te.comm_reducer(
        lambda x, y: (te.select(x[1] > y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda place, value: (te.const(33, place), te.min_value(value)),
    )
    place, _ = te.compute((4,), lambda i: best((k, a[i, k]), axis=k), name="best")

    def chooser(name: str, candidates: Sequence[Candidate]) -> int:
        if name.startswith("sums_in_order"):
            raise RuntimeError("nothing suits me")
        return 0

    with pytest.raises(RuntimeError, match="nothing suits me"):
        schedule(place.op, exact=True, chooser=chooser)


@pytest.mark.parametrize("dtype", ["int8", "int32", "float64"])
@pytest.mark.parametrize(
    "names", drawn.part([("sum", "mean"), ("prod", "sum"), ("max", "argmax", "mean"), ("mean", "min")], 2)
)
def test_several_results_of_one_tensor(dtype: str, names: tuple[str, ...]) -> None:
    """Some exact in any order and some not; mean reads a cast of what the others read."""
    A = te.placeholder((64, 33), dtype, name="A")
    outputs = [getattr(topi, name)(A, axis=1) for name in names]
    a = np.random.default_rng(3).integers(-5, 6, (64, 33)).astype(dtype)
    results = [[np.zeros(64, str(output.dtype)) for output in outputs] for _ in range(2)]
    exact = tw.build([A, *outputs], exact=True)
    exact(a, *results[0])
    tw.build(te.create_schedule([output.op for output in outputs]), [A, *outputs])(a, *results[1])
    assert exact.is_exact
    assert [each.tobytes() for each in results[0]] == [each.tobytes() for each in results[1]]
