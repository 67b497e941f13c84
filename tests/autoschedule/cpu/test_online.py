"""Attention, whoever declared it: blocks of rows whose scores stay in a cache, with the values of numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.lowered_nests import estimate_schedule
from tilewright.autoschedule.plan import Candidate, cheapest
from tilewright.autoschedule.scheduler import schedule
from tilewright.codegen.machine import find_machine
from tilewright.codegen.target import Target
from tilewright.topi.row import find_reference


class Case(NamedTuple):
    """turned: which of q, k and v lie with their last two dimensions exchanged. shared: heads that one of keys serves."""

    rows: int
    terms: int
    depth: int
    width: int
    seen: str = "all"
    divided: str = "after"
    turned: tuple[bool, bool, bool] = (False, False, False)
    shared: int = 1
    dtype: str = "float32"


def declare(case: Case, heads: int = 2) -> tuple[list[te.Tensor], te.Tensor]:
    rows, terms, dtype = case.rows, case.terms, case.dtype
    shapes = (
        (heads, rows, case.depth),
        (heads // case.shared, terms, case.depth),
        (heads // case.shared, terms, case.width),
    )
    q, k, v = (
        te.placeholder((shape[0], *(shape[:0:-1] if turned else shape[1:])), dtype, name)
        for shape, turned, name in zip(shapes, case.turned, "qkv", strict=True)
    )

    def read(at: int, tensor: te.Tensor, head: Any, row: Any, column: Any) -> Any:
        own = head // case.shared if at else head
        return tensor[own, column, row] if case.turned[at] else tensor[own, row, column]

    d, m, n, j = (te.reduce_axis((0, extent)) for extent in (case.depth, terms, terms, terms))
    s = te.compute((heads, rows, terms), lambda h, i, t: te.sum(read(0, q, h, i, d) * read(1, k, h, t, d), axis=d), "S")
    bias = te.placeholder((rows, terms), dtype, "bias")
    x = te.compute(
        s.shape,
        lambda h, i, t: {
            "all": lambda: s[h, i, t] * 0.25,
            "earlier": lambda: te.if_then_else(t <= i, s[h, i, t] * 0.25, te.min_value(dtype)),
            "bias": lambda: s[h, i, t] * 0.25 + bias[i, t],
        }[case.seen](),
        "X",
    )
    inputs = [q, k, v, *([bias] if case.seen == "bias" else [])]
    if case.divided == "softmax":
        p = topi.nn.softmax(x)
        return inputs, te.compute(
            (heads, rows, case.width), lambda h, i, e: te.sum(p[h, i, j] * read(2, v, h, j, e), axis=j)
        )
    peak = te.compute((heads, rows), lambda h, i: te.max(x[h, i, m], axis=m), "peak")
    power = te.compute(x.shape, lambda h, i, t: te.exp(x[h, i, t] - peak[h, i]), "power")
    total = te.compute((heads, rows), lambda h, i: te.sum(power[h, i, n], axis=n), "total")
    p = power
    if case.divided == "before":
        p = te.compute(x.shape, lambda h, i, t: power[h, i, t] / total[h, i], "P")
    y = te.compute((heads, rows, case.width), lambda h, i, e: te.sum(p[h, i, j] * read(2, v, h, j, e), axis=j), "Y")
    if case.divided == "before":
        return inputs, y
    return inputs, te.compute(y.shape, lambda h, i, e: y[h, i, e] / total[h, i], "Z")


def values_of_numpy(case: Case, arrays: list[np.ndarray]) -> np.ndarray:
    q, k, v = (
        (each.swapaxes(1, 2) if turned else each).astype("float64")
        for each, turned in zip(arrays, case.turned, strict=False)
    )
    bias = arrays[3:4] if case.seen == "bias" else []
    return find_reference("attention")(q, k, v, *bias, scale=0.25, causal=case.seen == "earlier")


def run(case: Case, s: Any, args: list[te.Tensor], target: str) -> float:
    """Return the greatest difference to numpy."""
    rng = drawn.rng(str(case))
    arrays = [rng.standard_normal([int(str(n)) for n in each.shape]).astype(case.dtype) for each in args[:-1]]
    out = np.empty([int(str(n)) for n in args[-1].shape], case.dtype)
    tw.build(s, args, target)(*arrays, out)
    return float(abs(out - values_of_numpy(case, arrays)).max())


def test_scores_of_attention_in_te_stay_in_a_cache_unless_sums_keep_their_order() -> None:
    case, target = Case(512, 512, 64, 64), "llvm -mcpu=skylake-avx512 -uncalibrated -cores=1"
    inputs, y = declare(case)
    s = tw.autoschedule.schedule(y, target)
    (row,) = s.plan
    assert row.rule == "online" and "rows" in row.description and not s.is_exact
    assert row.candidates[-1][0] == "each operation apart"
    machine = find_machine(Target.parse(target))
    assert row.seconds == pytest.approx(estimate_schedule(s, machine).seconds, rel=0.2), "as its lowered loops"
    small = tw.autoschedule.schedule(declare(Case(64, 64, 64, 64))[1], target)
    assert "online" not in {row.rule for row in small.plan if "rows" in row.description}, (
        "scores stay in the caches anyway"
    )
    assert run(case, s, [*inputs, y], "llvm") < 2e-5
    exact = tw.autoschedule.schedule(declare(case)[1], target, exact=True)
    assert exact.is_exact and "online" not in {row.rule for row in exact.plan}
    assert "online" not in {row.rule for row in tw.autoschedule.schedule(declare(Case(7, 256, 32, 32))[1]).plan}


@pytest.mark.parametrize("at", range(drawn.count(3, 200)))
def test_drawn_attention_has_the_values_of_numpy(at: int) -> None:
    rng = drawn.rng("online on processors", at)

    def of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    case = Case(
        of(16, 33, 64, 70, 100),
        of(16, 17, 64, 129, 300, 2100),
        of(4, 8, 20, 64),
        of(16, 17, 48, 80),
        of("all", "earlier", "bias"),
        of("before", "after", "softmax"),
        (of(True, False), of(True, False), of(True, False)),
        of(1, 2),
        of("float32", "float64"),
    )

    def choose(name: str, ways: Sequence[Candidate]) -> int:
        if name.startswith("terms"):  # a quotient that leaves the sum leaves no attention
            return 0
        return int(rng.integers(len(ways) - 1)) if name.startswith("online") else cheapest(name, ways)

    target = of("llvm", "llvm -mcpu=haswell")
    inputs, y = declare(case)
    s = schedule(y, target, chooser=choose)
    assert [row.rule for row in s.plan if row.rule == "online"], case
    assert run(case, s, [*inputs, y], target) < (2e-5 if case.dtype == "float32" else 1e-12), case
