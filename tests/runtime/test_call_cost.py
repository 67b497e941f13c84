"""What a call costs, and how calls are timed."""

from __future__ import annotations

import timeit

import handwritten_kernels
import numpy as np
import pytest
import tilewright  # noqa: F401
from tilewright.runtime import errors
from tilewright.runtime.array import array, empty
from tilewright.runtime.tables import html_table
from tilewright.runtime.timing import TimingResult


def best(call, number=20_000):
    return min(timeit.repeat(call, number=number, repeat=9)) / number


@pytest.mark.alone
def test_a_call_costs_less_than_numpys():
    """Three 16-float arrays: at most 0.3 us wherever numpy takes that or less, and never more than numpy's own."""
    add = handwritten_kernels.vector_add()
    a, b, c = (np.ones(16, np.float32) for _ in range(3))
    x, y, z = array(a), array(b), empty(16)
    ours, arrays, theirs = (best(lambda: add(a, b, c)), best(lambda: add(x, y, z)), best(lambda: np.add(a, b, c)))
    empty_call = best(lambda: None)
    each = [f"{(seconds - empty_call) * 1e9:.0f} ns" for seconds in (ours, arrays, theirs)]
    print(f"a call: {each[0]} with numpy's arrays, {each[1]} with ours; numpy.add {each[2]}")
    assert ours < 1.2 * theirs
    assert arrays < 1.2 * theirs


@pytest.mark.alone
def test_time_grows_to_the_duration_asked_for():
    add = handwritten_kernels.vector_add()
    a, c = np.ones(16, np.float32), np.zeros(16, np.float32)
    result = add.time(a, a, c, repeat=5, min_repeat_ms=2)
    assert len(result.results) == 5
    assert result.number * result.results[0] >= 1.9e-3
    assert result.min <= result.median <= result.max < 1e-4
    assert result.std >= 0
    assert add.time(a, a, c, number=3, repeat=1, min_repeat_ms=0).number == 3


def test_timing_results():
    result = TimingResult((1e-3, 3e-3, 2e-3), 10)
    assert (result.median, result.min, result.max, result.mean) == (2e-3, 1e-3, 3e-3, 2e-3)
    assert result.std == pytest.approx(8.165e-4, rel=1e-3)
    assert (
        str(result) == "2 ms a call (min 1 ms, 3 x 10); the machine was busy: repeats took up to 3.0 times the shortest"
    )
    assert str(TimingResult((1e-3, 1.1e-3, 1.2e-3), 10)) == "1.1 ms a call (min 1 ms, 3 x 10)", (
        "that is the usual spread"
    )
    assert str(TimingResult((2.5e-7,), 1)).startswith("250 ns")


def test_notebooks_show_kernels_and_times_as_tables():
    html = handwritten_kernels.vector_add()._repr_html_()
    assert html.startswith("<table>") and html.count("<tr>") == 4 and ">(n)<" in html and ">out<" in html
    html = TimingResult((1e-3, 3e-3, 2e-3), 10)._repr_html_()
    assert all(f">{cell}<" in html for cell in ("median", "2 ms", "3 ms", "3 x 10"))
    assert html_table("a < b", ["x"], [["<i>"]]).count("&lt;") == 2


def test_timing_refuses_senseless_counts_and_bad_arguments():
    add = handwritten_kernels.vector_add()
    a = np.ones(16, np.float32)
    for options in ({"number": 0}, {"repeat": 0}, {"min_repeat_ms": -1}):
        with pytest.raises(errors.WrongTiming, match="cannot time with"):
            add.time(a, a, np.zeros_like(a), **options)
    with pytest.raises(errors.OverlappingOutput, match="'C'"):
        add.time(a, a, a)


def test_sources_come_from_whoever_built_the_kernel():
    signature = handwritten_kernels.vector_add().signature
    text = handwritten_kernels.elementwise("%n0")
    with pytest.raises(errors.NoSuchSource, match="vadd has no source texts"):
        handwritten_kernels.build(signature, text).source("ir")
    assert handwritten_kernels.build(signature, text, sources=lambda kind: f"<{kind}>").source("asm") == "<asm>"
    kernel = handwritten_kernels.build(signature, text)
    assert kernel.name == kernel.entry_name == "vadd"
    assert repr(kernel) == "<Kernel vadd(A: float32[n], B: float32[n], C: out float32[n])>"
