"""Local memory that all threads fill in one loop is divided among them where each element tells whose it is."""

from __future__ import annotations

import pytest
from tilewright.base.errors import CudaError
from tilewright.ir.arith.analyzer import Analyzer
from tilewright.ir.buffer import Buffer
from tilewright.ir.expr import Range
from tilewright.ir.ops import const
from tilewright.ir.passes.gpu.hardware import Hardware
from tilewright.ir.passes.gpu.threads import map_threads
from tilewright.ir.stmt import Allocate
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import walk


def own_part(body: str) -> list[str]:
    """The extents of what a thread keeps of S, where 8 threads in each of 4 blocks fill it."""
    function = parse(f"""
@attrs(stage="loops")
def f(A: float32[4, 32], B: out float32[4, 32]):
    for b in thread("blockIdx.x", 4):
        S: local float32[32]
{body}
""")
    analyzer = Analyzer()
    hardware = Hardware.of(function.body, "f", analyzer)
    for tag, var in hardware.variables.items():
        analyzer.bind(var, Range(const(0), hardware.extents[tag]))
    given = frozenset(param for param in function.params if isinstance(param, Buffer))
    threads, _ = map_threads(function.body, hardware, analyzer, given)
    (kept,) = {node.buffer for node in walk(threads) if isinstance(node, Allocate)}
    return [str(extent) for extent in kept.shape]


def filled_and_read(stored: str, read: str) -> str:
    return f"""
        for q in 4:
            for t in thread("threadIdx.x", 8):
                S[{stored}] = A[b, {stored}]
        for t in thread("threadIdx.x", 8):
            for i in 4:
                B[b, {read}] = S[{read}] + 1.0"""


@pytest.mark.parametrize("place", ["q * 8 + t", "t * 4 + q"])
def test_a_thread_keeps_each_eighth_element_or_the_next_four(place: str) -> None:
    """Loops of their own, in any order, since the place of a thread and the rest are told apart by their periods."""
    assert own_part(filled_and_read(place, place.replace("q", "i"))) == ["4"]


@pytest.mark.parametrize(
    ("stored", "read"), [("q * 8 + t", "t * 4 + i"), ("q * 7 + t", "i * 7 + t"), ("t * 3 + q", "t * 3 + i")]
)
def test_what_two_threads_meet_in_is_nobodys_own(stored: str, read: str) -> None:
    with pytest.raises(CudaError, match=r"TW0808: .* is filled by the threads of threadIdx.x together"):
        own_part(filled_and_read(stored, read))


def test_of_what_a_loop_fills_a_thread_keeps_the_iteration_that_it_reads() -> None:
    """Each thread computed all of it, though it reads the sum at its own place alone."""
    body = """
        for i in 32:
            S[i] = 0.0
        for k in 3:
            for i in 32:
                S[i] = S[i] + A[k, i]
        for t in thread("threadIdx.x", 32):
            B[b, t] = S[t] + 1.0"""
    assert own_part(body) == ["1"]
    assert own_part(body.replace("S[t] + 1.0", "S[31 - t] + S[t]")) == ["32"], "two places of a thread"
    assert own_part(body.replace("S[i] + A[k, i]", "S[i] + S[0]")) == ["32"], "an iteration that reads another's place"


def test_iterations_that_fill_more_than_local_memory_stay() -> None:
    body = """
        for i in 32:
            S[i] = 0.0
            B[b, i] = 2.0
        for t in thread("threadIdx.x", 32):
            B[b, t] = S[t] + 1.0"""
    assert own_part(body) == ["32"]
