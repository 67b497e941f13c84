"""The group "declared": programs without tags, whose shapes a seed draws, compared with numpy where ours is built."""

from __future__ import annotations

from functools import cache

import numpy as np
from tilewright.tools.benchmarks.cases import Case, load_cases
from tilewright.tools.benchmarks.declared_products_cases import contraction, draw_cases
from tilewright.tools.benchmarks.declared_programs import Draw


@cache
def drawn(seed: int) -> list[Case]:
    return load_cases(["declared"], seed)


def test_there_are_at_least_sixty_programs_of_different_names() -> None:
    names = [case.name for case in drawn(0)]
    assert len(names) >= 60
    assert len(set(names)) == len(names), "a row is found by its name"


def test_a_seed_draws_the_same_shapes_each_time_and_another_seed_other_ones() -> None:
    assert {case.name for case in draw_cases(0)} <= {case.name for case in drawn(0)}
    same = {case.name for case in drawn(0)} & {case.name for case in drawn(1)}
    assert len(same) < 5, "hardly any program has the shapes of another seed"


def test_extents_are_awkward_and_near_what_was_asked_for() -> None:
    for size in (5, 33, 130, 1000):
        for seed in range(5):
            extent = Draw(seed, "any").near(size)
            assert 0.8 * size <= extent <= 1.2 * size
            assert extent % 2, "an odd number, since 2^k ± 1 is odd too"


def test_a_contraction_is_what_its_text_says() -> None:
    case = contraction(Draw(0, "small"), "abc-dca-bd")
    rng = np.random.default_rng(0)
    given = case.inputs(rng)
    out = [np.empty(shape, dtype) for shape, dtype in case.outputs]
    case.ours(given, out)()
    np.testing.assert_allclose(out[0], np.einsum("dca,bd->abc", *given, optimize=True), rtol=1e-3, atol=1e-2)
