"""Local memory that all threads fill in one loop is divided among them where each element tells whose it is."""

from __future__ import annotations

import pytest
from tilewright.errors import CudaError
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
    kept, = {node.buffer for node in walk(threads) if isinstance(node, Allocate)}
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


@pytest.mark.parametrize(("stored", "read"), [("q * 8 + t", "t * 4 + i"), ("q * 7 + t", "i * 7 + t"), ("t * 3 + q", "t * 3 + i")])
def test_what_two_threads_meet_in_is_nobodys_own(stored: str, read: str) -> None:
    with pytest.raises(CudaError, match=r"TW0808: .* is filled by the threads of threadIdx.x together"):
        own_part(filled_and_read(stored, read))
