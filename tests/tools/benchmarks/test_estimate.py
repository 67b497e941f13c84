"""What measures the estimate: ranks, the picture, and a program whose candidates are timed."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from tilewright.tools.benchmarks.estimate import PICTURE, Measured, draw_programs, main, picture, rank_correlation
from tilewright.tools.benchmarks.page import render

RESULT = Measured("one", (("a", 1e-6, 2e-6), ("b", 2e-6, 1e-6), ("c", 4e-6, 4e-6)), 0)


def test_ranks_are_compared_and_equal_values_share_theirs() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1, 2], [5, 5, 7]) == pytest.approx(1) and rank_correlation([1, 1, 1], [1, 2, 3]) == 0


def test_a_choice_is_compared_with_the_best_and_estimates_with_times() -> None:
    assert (RESULT.correlation, RESULT.loss, RESULT.error) == (pytest.approx(0.5), 2.0, pytest.approx(2.0))


def test_the_picture_has_a_point_for_each_candidate() -> None:
    root = ElementTree.fromstring(picture([RESULT, RESULT]))
    circles = [each for each in root.iter() if each.tag.endswith("circle")]
    assert len(circles) == 6 and sum(each.get("fill") != "none" for each in circles) == 2


def test_a_program_is_measured_and_pages_of_the_benchmarks_show_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["matmul_2_vectorized", "--candidates", "2", "--rounds", "1", "--out", str(tmp_path)]) == 0
    assert "in the median of 1 programs" in capsys.readouterr().out
    drawn = (tmp_path / PICTURE).read_text()
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert drawn in render({}, [], drawn) and "<h2>Estimates" not in render({}, [])


def test_programs_are_those_of_known_sizes_in_an_order_that_a_seed_draws() -> None:
    one, again, other = ([name for name, _ in draw_programs(seed, ["gemm"])] for seed in (1, 1, 2))
    assert one == again != other and sorted(one) == sorted(other)


def test_a_word_that_no_program_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["nothing of the kind"])
    assert "no program is called so" in capsys.readouterr().err
