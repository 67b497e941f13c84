"""Faults planted in the text of kernels, as a wrong compiler would make them: each is found, in every order of threads."""

from __future__ import annotations

import re
from collections import Counter

import drawn
import numpy as np
import pytest
from gpu_faults import FAULTS, Fault
from planted_faults import built, orders
from tilewright.base.errors import CudaError
from warpgroups import whole_numbers

WHOLE = ("barriers",)
"""What is given values of its own: the others multiply whole numbers, whose sums are exact."""


def run(fault: Fault, monkeypatch: pytest.MonkeyPatch, changed: bool = True) -> None:
    """Runs the program in every order, its text changed; raises what finds the fault."""
    program = fault.make()
    kernel = built(monkeypatch, program, fault.mutate if changed else lambda text: text, fault.target)
    inputs = program.inputs() if fault.about in WHOLE else whole_numbers(program)
    caught: list[Exception] = []
    for _ in orders(monkeypatch):
        found = program.output()
        try:
            kernel(*inputs, found)
            np.testing.assert_allclose(found, program.reference(*inputs), rtol=1e-4, atol=1e-4)
        except (CudaError, AssertionError) as error:
            caught.append(error)
    assert len(caught) in (0, 3), "the order of threads decides"
    if caught:
        raise caught[-1]


def test_faults_are_planted_in_all_that_threads_agree_on() -> None:
    counts = Counter(fault.about for fault in FAULTS.values())
    assert {*counts} == {
        *("barriers", "copies", "tensor cores", "warpgroups", "swizzles"),
        *("boxes", "roles", "stores", "clusters", "TF32"),
    }
    assert min(counts.values()) >= 6 and sum(counts.values()) >= 115


@pytest.mark.parametrize("name", drawn.part(FAULTS, 16))
def test_a_planted_fault_is_found_in_every_order_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    found = CudaError if fault.message else AssertionError
    with pytest.raises(found, match=rf"(?s){fault.message or 'Mismatched elements'}") as caught:
        run(fault, monkeypatch)
    if fault.about == "barriers":
        assert re.search(r"main_kernel0, line \d+:(?s:.*)\n +\d+  \S", str(caught.value)), "the line is quoted"


@pytest.mark.parametrize("about", drawn.part(sorted({fault.about for fault in FAULTS.values()}), 2))
def test_texts_that_are_left_alone_have_no_fault(about: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(next(fault for fault in FAULTS.values() if fault.about == about), monkeypatch, changed=False)
