"""Copies that sums read in place of tensors: which are made, and that contractions of odd sizes are what they were declared as."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.autoschedule import schedule, scheduler
from tilewright.autoschedule.cpu.sum_plan import WORSE, SumPlan, best_plan, find_terms, plans
from tilewright.codegen.machine import MACHINES

AVX2 = next(row for row in MACHINES if row.name == "avx2" and not row.cpus)
CONTRACTIONS = (
    ("abcd-deca-be", "17x9x7x13x31"),
    ("abcd-aebf-dfce", "5x17x31x7x19x13"),
    ("abc-adc-bd", "19x37x23x67"),
    ("abc-bda-dc", "23x19x33x65"),
    ("ab-cad-dcb", "31x33x17x23"),
    ("ab-ca-cb", "63x65x67"),
    ("ab-ac-bc", "67x63x65"),
    ("abc-dca-bd", "31x17x37x29"),
    ("abcd-ea-ebcd", "11x7x9x17x31"),
)


def contraction(text: str, sizes: str) -> tuple[list[te.Tensor], te.Tensor]:
    result, left, right = text.split("-")
    extents = dict(zip(sorted({*left, *right}), map(int, sizes.split("x")), strict=True))
    given = [
        te.placeholder(tuple(extents[letter] for letter in operand), name=name)
        for operand, name in ((left, "A"), (right, "B"))
    ]
    reduced = {
        letter: te.reduce_axis((0, extent), letter) for letter, extent in extents.items() if letter not in result
    }

    def element(*at: te.Expr) -> te.Expr:
        index = dict(zip(result, at, strict=True)) | reduced
        factors = [
            tensor(*(index[letter] for letter in operand)) for tensor, operand in zip(given, (left, right), strict=True)
        ]
        return te.sum(factors[0] * factors[1], list(reduced.values()))

    return given, te.compute(tuple(extents[letter] for letter in result), element, name="C")


def planned(text: str, sizes: str) -> SumPlan:
    given, c = contraction(text, sizes)
    terms = find_terms(c.op.values[0], c.op.axis)
    assert terms is not None
    chosen = best_plan(terms, AVX2, movable=given)
    assert chosen is not None
    return chosen


def run(inputs: list[te.Tensor], output: te.Tensor, arrays: list[np.ndarray], **options: Any) -> np.ndarray:
    out = np.full(tuple(int(str(extent)) for extent in output.shape), np.nan, "float32")
    tw.build(schedule([output], **options), [*inputs, output], **options)(*arrays, out)
    return out


def random_values(inputs: list[te.Tensor]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(tuple(int(str(extent)) for extent in tensor.shape)).astype("float32") for tensor in inputs
    ]


@pytest.mark.parametrize(("text", "sizes"), CONTRACTIONS)
def test_the_first_plans_are_the_cheapest_of_all(text: str, sizes: str) -> None:
    given, c = contraction(text, sizes)
    terms = find_terms(c.op.values[0], c.op.axis)
    assert terms is not None
    all_of_them = plans(terms, AVX2, movable=given)
    costs = [plan.cost for plan in all_of_them]
    assert costs == sorted(costs), "the cheapest comes first"
    tiles = {(plan.lane, plan.vectors, plan.rows) for plan in all_of_them}
    assert len(tiles) == len(all_of_them), "no tile comes twice"
    for number in (1, 2, 6):
        first = plans(terms, AVX2, movable=given, number=number)
        assert [str(plan) for plan in first] == [str(plan) for plan in all_of_them[:number]], (
            "fewer asked for are the same ones"
        )
    dear = [plan for plan in plans(terms, AVX2, movable=given, number=100_000) if plan.cost <= costs[0] * WORSE]
    assert {str(plan) for plan in dear} <= {str(plan) for plan in all_of_them}, "none that is worth a look was left out"


def test_what_lanes_would_gather_is_copied() -> None:
    chosen = planned("abcd-aebf-dfce", "17x23x31x17x19x31")
    assert [axis.name for axis in chosen.lane] == ["i2"], "c is long, and only B has it"
    assert [load.producer.name for load in chosen.packed] == ["B"]


def test_what_is_used_seldom_is_read_where_it_lies() -> None:
    assert planned("ab-ac-cb", "3x501x7").packed == (), "each element is used three times"


def test_nothing_is_copied_that_may_not_be() -> None:
    _, c = contraction("abcd-aebf-dfce", "17x23x31x17x19x31")
    terms = find_terms(c.op.values[0], c.op.axis)
    assert terms is not None
    chosen = best_plan(terms, AVX2)
    assert chosen is not None
    assert chosen.packed == ()


@pytest.mark.parametrize(("text", "sizes"), drawn.part(CONTRACTIONS, 4))
def test_contractions_are_those_of_the_declaration(text: str, sizes: str) -> None:
    inputs, c = contraction(text, sizes)
    arrays = random_values(inputs)
    result, left, right = text.split("-")
    wanted = np.einsum(f"{left},{right}->{result}", *(array.astype("float64") for array in arrays))
    np.testing.assert_allclose(run(inputs, c, arrays), wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("text", "sizes"), CONTRACTIONS[:3])
def test_exact_contractions_have_the_bits_of_the_program_without_a_schedule(text: str, sizes: str) -> None:
    inputs, c = contraction(text, sizes)
    arrays = random_values(inputs)
    plain = np.empty(tuple(int(str(extent)) for extent in c.shape), "float32")
    tw.build(te.create_schedule(c), [*inputs, c])(*arrays, plain)
    np.testing.assert_array_equal(run(inputs, c, arrays, exact=True), plain)


@pytest.mark.parametrize("rows_first", [True, False])
def test_two_reads_of_one_tensor_are_of_one_copy(rows_first: bool) -> None:
    n, depth = 67, 129
    a, k = te.placeholder((n, depth) if rows_first else (depth, n), name="A"), te.reduce_axis((0, depth), "k")
    g = te.compute((n, n), lambda i, j: te.sum(a[i, k] * a[j, k] if rows_first else a[k, i] * a[k, j], k), name="G")
    (x,) = random_values([a])
    np.testing.assert_allclose(run([a], g, [x]), x @ x.T if rows_first else x.T @ x, rtol=1e-4, atol=1e-3)


def test_what_follows_the_sum_reads_it_in_the_order_of_its_lanes() -> None:
    inputs, c = contraction("abc-bda-dc", "63x19x17x33")
    tail = te.compute(c.shape, lambda *at: te.max(c(*at) * 2, 0.0), name="T")
    arrays = random_values(inputs)
    wanted = np.maximum(2 * np.einsum("bda,dc->abc", *arrays), 0)
    np.testing.assert_allclose(run(inputs, tail, arrays), wanted, rtol=1e-4, atol=1e-3)


def test_a_tensor_that_is_read_twice_at_one_place_is_copied_once() -> None:
    m, n, depth = 37, 33, 65
    a, b, k = (
        te.placeholder((n, depth), name="A"),
        te.placeholder((m, depth), name="B"),
        te.reduce_axis((0, depth), "k"),
    )
    c = te.compute((m, n), lambda i, j: te.sum(te.select(a[j, k] > b[i, k], a[j, k], b[i, k]), k), name="C")
    x, y = arrays = random_values([a, b])
    wanted = np.maximum(x[None], y[:, None]).sum(-1)
    copying = next(at for at, (text, _) in enumerate(schedule(c).plan[0].candidates) if "A copied" in text)
    s = scheduler.schedule(c, chooser=lambda name, candidates: copying)
    result = np.empty((m, n), "float32")
    tw.build(s, [a, b, c])(*arrays, result)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-3)
