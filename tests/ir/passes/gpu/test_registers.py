"""Guards go from what a thread keeps in registers where nothing can depend on what they exclude, and stay where it can."""

from __future__ import annotations

import pytest
from tilewright.ir.arith.analyzer import Analyzer
from tilewright.ir.passes.gpu.hardware import Hardware
from tilewright.ir.passes.gpu.registers import free_registers
from tilewright.ir.passes.gpu.threads import map_threads
from tilewright.ir.stmt import Allocate
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import walk

HEAD = """
@attrs(stage="loops")
def f(A: float32[29], B: out float32[29]):
    for t in thread("threadIdx.x", 8):
        S: local float32[4]
        M: shared float32[32]
"""
GUARD = "if likely(t * 4 + i < 29):"
STORED = f"""
        for i in 4:
            {GUARD}
                B[t * 4 + i] = S[i]
"""


def guards(body: str) -> int:
    """How many guards the pass leaves, that of the last store included."""
    function = parse(HEAD + body.strip("\n") + STORED)
    return str(free_registers(function, function)).count("likely(")


def test_sums_of_shared_memory_need_no_guard() -> None:
    assert (
        guards(f"""
        for i in 4:
            {GUARD}
                S[i] = 0.0
        for k in 3:
            for i in 4:
                {GUARD}
                    S[i] = S[i] + M[t * 4 + i]
""")
        == 1
    )


def test_what_lies_beyond_a_tensors_end_is_not_read() -> None:
    assert (
        guards(f"""
        for i in 4:
            {GUARD}
                S[i] = A[t * 4 + i]
""")
        == 2
    )


def test_what_lies_beyond_shared_memorys_end_is_not_read() -> None:
    assert (
        guards("""
        for i in 4:
            if likely(t * 4 + i < 28):
                S[i] = M[t * 4 + i + 4]
""")
        == 2
    )


def test_an_element_that_another_store_writes_for_good_keeps_its_guard() -> None:
    """The first store writes all of them; the second would write over some."""
    assert (
        guards(f"""
        for i in 4:
            S[i] = 5.0
        for i in 4:
            {GUARD}
                S[i] = M[t * 4 + i]
""")
        == 2
    )


def test_a_guard_on_a_loop_that_is_no_index_stays() -> None:
    """It says which terms are added, not which elements there are."""
    assert (
        guards(f"""
        for i in 4:
            {GUARD}
                S[i] = 0.0
        for k in 4:
            for i in 4:
                if likely(t + k < 9):
                    {GUARD}
                        S[i] = S[i] + M[t * 4 + i]
""")
        == 2
    )


def test_a_guard_that_also_stands_around_another_store_stays() -> None:
    assert (
        guards(f"""
        for i in 4:
            {GUARD}
                S[i] = 1.0
                B[t * 4 + i] = 2.0
""")
        == 2
    )


@pytest.mark.parametrize("place, left", [("u", "1"), ("P[u]", "64")])
def test_a_thread_keeps_its_own_part_alone_of_what_all_fill_for_themselves(place: str, left: str) -> None:
    """What a place in memory says may change between a store and a load; lanes of a vector have each a place of their own."""
    function = parse(f"""
@attrs(stage="loops")
def f(A: float32[2, 64], P: int32[64], B: out float32[2, 64]):
    for b in thread("blockIdx.x", 1):
        S: local float32[2, 64]
        for i in 2:
            for u in thread("threadIdx.x", 64):
                S[i, {place}] = A[i, u]
        for i in 2:
            for u in thread("threadIdx.x", 64):
                B[i, u] = S[i, {place}] + 1.0
""")
    analyzer = Analyzer()
    hardware = Hardware.of(function.body, "f", analyzer)
    body, _ = map_threads(function.body, hardware, analyzer, frozenset(function.params))
    (kept,) = {node.buffer for node in walk(body) if isinstance(node, Allocate)}
    assert [str(extent) for extent in kept.shape] == ["2", left]
