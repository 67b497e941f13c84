"""Products whose rows a softmax weighs another product with: one kernel, no scores, whoever declared them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from gpu_choices import differs, inputs_of
from tilewright import te, topi
from tilewright.autoschedule.plan import Candidate

SM80 = "cuda -arch=sm_80"


def attention(
    queries: int,
    keys: int,
    depth: int,
    heads: int = 2,
    shared: int = 1,
    width: int = 0,
    kind: str = "float32",
    **options: Any,
) -> Any:
    Q = te.placeholder((heads, queries, depth), kind, name="Q")
    K = te.placeholder((heads // shared, keys, depth), kind, name="K")
    V = te.placeholder((heads // shared, keys, width or depth), kind, name="V")
    return topi.nn.attention(Q, K, V, **options)


def by_hand(
    rows: int, terms: int, depth: int, width: int, causal: bool = False, divided: bool = True, narrow: str = ""
) -> Any:
    """As a user writes it, with softmax of topi's or exponentials of his own, in any order of what is divided."""
    A, B = te.placeholder((rows, depth), name="A"), te.placeholder((terms, depth), name="B")
    C = te.placeholder((terms, width), name="C")
    d, j, k, m = (
        te.reduce_axis((0, extent), name) for extent, name in ((depth, "d"), (terms, "j"), (terms, "k"), (terms, "m"))
    )
    S = te.compute((rows, terms), lambda i, n: te.sum(A[i, d] * B[n, d], axis=d), name="S")
    none = te.const(-np.inf, "float32")
    X = te.compute(S.shape, lambda i, n: te.select(n <= i, S[i, n] * 0.5, none) if causal else S[i, n] * 0.5, name="X")
    if divided:
        P = topi.nn.softmax(X)
        if narrow:
            P = topi.cast(P, narrow)
        return te.compute((rows, width), lambda i, e: te.sum(P[i, j].astype("float32") * C[j, e], axis=j), name="Y")
    peak = te.compute((rows,), lambda i: te.max(X[i, k], axis=k), name="peak")
    power = te.compute(X.shape, lambda i, n: te.exp(X[i, n] - peak[i]), name="power")
    total = te.compute((rows,), lambda i: te.sum(power[i, m], axis=m), name="total")
    Y = te.compute((rows, width), lambda i, e: te.sum(power[i, j] * C[j, e], axis=j), name="Y")
    return te.compute((rows, width), lambda i, e: Y[i, e] / total[i] + 1.0, name="Z")


CASES = {
    "whole tiles": lambda: attention(64, 64, 16),
    "rests": lambda: attention(35, 50, 12, width=20),
    "primes": lambda: attention(17, 23, 5, heads=1, width=7),
    "one of each": lambda: attention(1, 1, 1, heads=1),
    "causal": lambda: attention(70, 70, 8, causal=True),
    "causal, fewer keys": lambda: attention(100, 33, 8, causal=True),
    "shared heads": lambda: attention(70, 40, 8, heads=4, shared=2),
    "shared heads, causal": lambda: attention(66, 66, 8, heads=4, shared=4, causal=True),
    "heads behind each other": lambda: attention(6, 40, 8, heads=8, shared=4),
    "one query": lambda: attention(1, 70, 8, heads=8, shared=4, causal=True, offset=69),
    "float16": lambda: attention(32, 48, 16, kind="float16"),
    "a mask": lambda: attention(40, 24, 8, mask=te.placeholder((40, 24), name="mask")),
    "softmax between": lambda: by_hand(33, 40, 9, 12),
    "own triangle": lambda: by_hand(40, 40, 8, 8, causal=True),
    "divided behind": lambda: by_hand(20, 37, 8, 12, divided=False),
    "float16, one key": lambda: attention(64, 1, 16, kind="float16"),
    "rounded weights": lambda: by_hand(32, 48, 8, 16, narrow="float16"),
}


@pytest.mark.parametrize("name", drawn.part(CASES, 7))
def test_one_kernel_computes_what_the_program_says(name: str) -> None:
    output = CASES[name]()

    def choose(ways: Sequence[Candidate]) -> int:
        return drawn.rng(f"online {name}", 0).integers(len(ways) - 1) if "not stored" in ways[0].description else 0

    tolerance = 2e-3 if "float16" in name or "rounded" in name else 2e-5
    assert not differs(output, drawn.rng(f"online {name}", 1), choose, bits=False, tolerance=tolerance)


CORES = {
    "whole tiles": lambda kind: attention(64, 64, 16, kind=kind),
    "rests": lambda kind: attention(35, 50, 12, width=24, kind=kind),
    "causal": lambda kind: attention(70, 70, 32, causal=True, kind=kind),
    "shared heads, causal": lambda kind: attention(66, 66, 16, heads=4, shared=4, causal=True, kind=kind),
    "heads behind each other": lambda kind: attention(16, 50, 8, heads=8, shared=2, kind=kind),
    "a mask": lambda kind: attention(
        40, 40, 40, width=72, mask=te.placeholder((40, 40), "bool", name="mask"), kind=kind
    ),
    "in chunks": lambda kind: attention(33, 2060, 8, heads=1, causal=True, offset=2030, kind=kind),
}


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", drawn.part(CORES, 3))
def test_16_bits_are_tensor_cores_and_scores_stay_in_registers(name: str, kind: str) -> None:
    rng = drawn.rng(f"cores {name} {kind}", 0)

    def choose(ways: Sequence[Candidate]) -> int:
        own = [at for at, way in enumerate(ways) if way.description.startswith("tensor cores")]
        return int(rng.choice(own)) if own else 0

    assert not differs(CORES[name](kind), rng, choose, bits=False, tolerance=3e-3 if kind == "float16" else 2e-2)


GROUPS = {
    "whole tiles": lambda kind: attention(256, 128, 64, kind=kind),
    "wide": lambda kind: attention(64, 128, 128, heads=1, kind=kind),
    "wider": lambda kind: attention(130, 96, 256, heads=1, kind=kind),
    "rests": lambda kind: attention(150, 90, 24, width=64, kind=kind),
    "causal": lambda kind: attention(200, 200, 64, heads=1, causal=True, kind=kind),
    "causal, more keys": lambda kind: attention(70, 200, 72, width=64, causal=True, offset=30, kind=kind),
    "shared heads, causal": lambda kind: attention(130, 130, 64, heads=4, shared=4, causal=True, kind=kind),
    "a mask": lambda kind: attention(128, 90, 64, mask=te.placeholder((128, 90), "bool", name="mask"), kind=kind),
    "in chunks": lambda kind: attention(64, 3072, 64, heads=1, causal=True, offset=3000, kind=kind),
}


@pytest.mark.parametrize("name", drawn.part(GROUPS, 2))
def test_warpgroups_multiply_weights_from_registers(name: str) -> None:
    rng = drawn.rng(f"groups {name}", 0)
    kind = str(rng.choice(["float16", "bfloat16"]))

    def choose(ways: Sequence[Candidate]) -> int:
        own = [at for at, way in enumerate(ways) if way.description.startswith("warpgroups")]
        return int(rng.choice(own)) if own or "scores are not stored" in ways[0].description else 0

    tolerance = 3e-3 if kind == "float16" else 2e-2
    assert not differs(
        GROUPS[name](kind), rng, choose, bits=False, tolerance=tolerance, target="cuda -emulate -arch=sm_90a"
    )


def test_blocks_share_the_keys_of_few_queries() -> None:
    """Whatever merges their parts: declared chunks among them, and heads that share keys."""
    cases = {
        "float32": lambda: attention(1, 300, 32, kind="float32"),
        "float32, in chunks": lambda: attention(1, 2500, 16, heads=4, shared=2),
        "float16": lambda: attention(16, 300, 16, kind="float16"),
        "float16, in chunks": lambda: attention(32, 2100, 16, heads=1, kind="float16"),
    }
    for name, declare in drawn.part(list(cases.items()), 2):
        output, rng = declare(), drawn.rng(f"shared keys {name}", 0)

        def choose(ways: Sequence[Candidate]) -> int:
            own = [at for at, way in enumerate(ways) if "terms in" in way.description]
            if "float16" in name:
                own = [at for at in own if "tensor cores" in ways[at].description]
            return int(rng.choice(own)) if own else 0

        assert not differs(output, rng, choose, bits=False, tolerance=3e-3 if "float16" in name else 2e-5)
    s = tw.autoschedule.schedule([attention(1, 8192, 128, heads=32, kind="float16")], SM80)
    (decision,) = s.plan
    read = 32 * 8192 * 128 * 2 * 2 / 1.555e12
    assert "parts" in decision.description and decision.seconds < 1.5 * read, s.plan


def test_products_on_tensor_cores_meet_no_bank_twice_and_spill_nothing() -> None:
    for arch, depth in drawn.part([("sm_80", 64), ("sm_80", 128), ("sm_90a", 64), ("sm_90a", 128)], 1):
        output = attention(4096, 4096, depth, heads=8, causal=True, kind="float16")  # beyond which topi declares chunks
        s = tw.autoschedule.schedule([output], f"cuda -arch={arch}")
        own = "warpgroups" if arch == "sm_90a" else "tensor cores"
        assert own in str(s.plan), s.plan
        kernel = tw.build(s, [*inputs_of(output), output], target=f"cuda -arch={arch}")
        (launch,) = kernel.kernels
        count = launch.instructions
        assert launch.spilled_bytes == 0 and not {"STS.128", "LDG.128"} & count.keys(), count
        if own == "tensor cores":
            assert count["HMMA"] >= count["LDSM.16"] > 0
            continue
        # 64 x 128 scores a wgmma of 16 terms, and all columns of sums, to which products add where they lie; a score takes its
        # maximum, a multiply-add, a power, and an addition
        scores, text = 64, kernel.source("cuda")
        assert count["HGMMA"] == depth // 16 + 8 and "merged_v2[0], &attention" in text and "part_matrix" not in text
        assert scores <= count["MUFU"] <= scores + 8 and count["FFMA"] <= scores + 16


def test_copies_of_the_next_part_may_begin_while_this_one_is_multiplied() -> None:
    def pipelined(ways: Sequence[Candidate]) -> int:
        return next(at for at, way in enumerate(ways) if "2 stages; scores are not stored" in way.description)

    output = attention(35, 50, 12, width=20, causal=True)
    assert not differs(output, np.random.default_rng(3), pipelined, bits=False, tolerance=2e-5)


def test_attention_is_one_kernel_that_stores_nothing_but_its_result() -> None:
    output = attention(256, 256, 64, causal=True)
    s = tw.autoschedule.schedule([output], SM80)
    assert [decision.rule for decision in s.plan] == ["online"] and not s.is_exact
    kernel = tw.build(s, [*inputs_of(output), output], target=SM80)
    (launch,) = kernel.kernels
    assert launch.args == (0, 1, 2, 3) and launch.spilled_bytes == 0
    assert not any("workspace" in line for line in kernel.source("cuda").splitlines())
    assert {name for name in launch.instructions if name.startswith("LDS")} == {"LDS.128"}


def test_registers_are_not_saved_for_blocks_that_shared_memory_does_not_hold() -> None:
    """By itself the compiler leaves room for a second block, of registers alone, and spills for it."""
    output = attention(2048, 2048, 128, heads=16)
    s = tw.autoschedule.schedule([output], SM80)
    kernel = tw.build(s, [*inputs_of(output), output], target=SM80)
    (launch,) = kernel.kernels
    assert launch.occupancy.blocks == 1 and launch.spilled_bytes == 0
    assert "__launch_bounds__(256, 1)" in kernel.source("cuda")


def test_sums_that_keep_their_order_and_weights_that_are_wanted_are_computed_apart() -> None:
    output = attention(64, 64, 16)
    assert "online" not in {decision.rule for decision in tw.autoschedule.schedule([output], SM80, exact=True).plan}
    Y = by_hand(32, 32, 8, 8)
    weights = next(tensor for tensor in Y.op.input_tensors if tensor.op.name == "softmax")
    plan = tw.autoschedule.schedule([Y, weights], SM80).plan
    assert "online" not in {decision.rule for decision in plan}
