"""Where memory is allocated, and what shares it."""

from __future__ import annotations

from itertools import pairwise

from same_result import after
from tilewright.ir.passes.common.flatten import flatten
from tilewright.ir.passes.common.storage import plan_storage
from tilewright.ir.stmt import Allocate, For, Function, LoopKind
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import walk


def planned(text: str, **scalars: int) -> Function:
    return after(text, flatten, plan_storage, stage="flat", **scalars)


def allocated(function: Function) -> list[str]:
    return [str(node.buffer.name) for node in walk(function.body) if isinstance(node, Allocate)]


CHAIN = """
def chain(A: float32[4096], C: out float32[4096]):
    t: float32[4096]
    for i in 4096:
        t[i] = A[i] * 2.0
    u: float32[4096]
    for i in 4096:
        u[i] = t[i] + 1.0
    v: {third}
    for i in {extent}:
        v[i] = u[i] * 3.0
    for i in {extent}:
        C[i] = v[i]
"""


def test_a_chain_needs_two_buffers() -> None:
    assert allocated(planned(CHAIN.format(third="float32[4096]", extent=4096))) == ["t", "u"]


def test_smaller_ones_fit_and_larger_ones_make_the_home() -> None:
    assert allocated(planned(CHAIN.format(third="float32[3000]", extent=3000))) == ["t", "u"]
    assert allocated(planned(CHAIN.format(third="float32[5000]", extent=4096))) == ["u", "v"]


def test_other_types_and_scopes_are_not_shared() -> None:
    assert allocated(planned(CHAIN.format(third="local float32[4096]", extent=4096))) == ["t", "u", "v"]


def test_small_ones_are_not_shared() -> None:
    assert len(allocated(planned(CHAIN.replace("4096", "64").format(third="float32[64]", extent=64)))) == 3


LOOPED = """
def looped(A: float32[3, 4096], C: out float32[3, 4096]):
    {outside}
    for k in 3:
        t: float32[4096]
        for i in 4096:
            t[i] = A[k, i]{plus}
        u: float32[4096]
        for i in 4096:
            u[4095 - i] = t[i]
        {keep}
        for i in 4096:
            C[k, i] = u[i]
"""


COPY = "for i in 4096:\n            {}[i] = u[i]"


def test_out_of_loops() -> None:
    result = planned(LOOPED.format(outside="", plus="", keep=f"w: float32[4096]\n        {COPY.format('w')}"))
    loops = [node for node in walk(result.body) if isinstance(node, For)]
    assert not any(isinstance(node, Allocate) for node in walk(loops[0]))
    assert allocated(result) == ["t", "u"]


def test_what_outlives_an_iteration_shares_with_none_of_it() -> None:
    result = planned(
        LOOPED.format(
            outside="s: float32[4096]\n    for i in 4096:\n        s[i] = 0.0", plus=" + s[i]", keep=COPY.format("s")
        )
    )
    assert allocated(result) == ["s", "t", "u"]


def test_parallel_loops_keep_their_own() -> None:
    result = planned("""
def parallel(A: float32[8, 64], C: out float32[8, 64]):
    for i in parallel(8):
        for k in 2:
            t: float32[64]
            for j in 64:
                t[j] = A[i, j]
            for j in 64:
                C[i, j] = t[j]
""")
    loop = next(node for node in walk(result.body) if isinstance(node, For))
    assert loop.kind is LoopKind.PARALLEL
    assert isinstance(loop.body, Allocate)


def test_sizes_that_vary_stay() -> None:
    result = planned("""
def ragged(A: float32[8], C: out float32[8]):
    for i in 8:
        t: float32[i + 1]
        for j in i + 1:
            t[j] = A[j]
        C[i] = t[i]
""")
    assert isinstance(result.body, For)
    assert isinstance(result.body.body, Allocate)


def test_symbolic_sizes_are_shared_where_equal() -> None:
    text = CHAIN.format(third="float32[n]", extent="n").replace("4096", "n").replace("(A", "(n: int32, A")
    assert allocated(planned(text, n=5)) == ["t", "u"]


def test_many_small_allocations_share_once_the_stack_would_not_hold_them() -> None:
    def chain(stages: int) -> str:
        names = ["A", *(f"T{n}" for n in range(stages)), "B"]
        lines = [f"    T{n}: float32[64]" for n in range(stages)]
        lines += [
            f"    for i{n} in 64:\n        {b}[i{n}] = {a}[i{n}] + 1.0" for n, (a, b) in enumerate(pairwise(names))
        ]
        text = "\n".join(lines)
        return str(plan_storage(parse(f'@attrs(stage="flat")\ndef f(A: float32[64], B: out float32[64]):\n{text}\n')))

    assert chain(8).count(": float32[64]\n") == 8
    assert chain(100).count(": float32[64]\n") == 2
