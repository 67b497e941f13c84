"""Chains of stencils: one kernel, tiles with halos in shared memory, and every bit of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drawn
import pytest
import tilewright as tw
from gpu_choices import differs, inputs_of
from tilewright import te
from tilewright.autoschedule.plan import Candidate


def blurred(x: Any, kind: Callable[[Any], Any] = te.clamped) -> Any:
    P = kind(x)
    return te.compute(
        x.shape, lambda i, *at: P[(i - 1, *at)] + P[(i, at[0] + 1, *at[1:])] - P[(i + 1, at[0] - 1, *at[1:])], "blur"
    )


def summed(x: Any) -> Any:
    r, q = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 2), "q")
    return te.compute((x.shape[0] - 2, x.shape[1] - 1), lambda i, j: te.max(x[i + r, j + q], axis=[r, q]), "summed")


def sharpened(x: Any) -> Any:
    y = blurred(blurred(x, lambda t: te.padded(t, 0)))
    return te.compute(x.shape, lambda *at: x[at] + (x[at] - y[at]) * 0.5, "sharp")


def image(*shape: int, kind: str = "float32") -> Any:
    return te.placeholder(shape, kind, name="A")


def of_two_outputs(x: Any) -> Any:
    """Each of which another stencil reads, around its results."""
    first, second = te.compute(x.shape, lambda *i: (x[i] + 1, x[i] * 2), "pair")
    blurs = [blurred(first), blurred(second)]
    return blurred(te.compute(x.shape, lambda *i: blurs[0][i] * blurs[1][i], "both"))


CHAINS = {
    "two": lambda: blurred(blurred(image(40, 70))),
    "three, of which one is read twice": lambda: blurred(sharpened(image(33, 65))),
    "four sums": lambda: summed(summed(summed(summed(image(40, 37))))),
    "components": lambda: blurred(blurred(blurred(image(17, 40, 3)))),
    "two outputs": lambda: of_two_outputs(image(24, 70)),
    "bytes": lambda: blurred(blurred(blurred(image(9, 100, kind="uint8")))),
}


@pytest.mark.parametrize("name", drawn.part(CHAINS, 3))
def test_a_chain_is_one_kernel_with_every_bit_of_the_program(name: str) -> None:
    rng = drawn.rng(f"chains {name}", 0)

    def choose(ways: Sequence[Candidate]) -> int:
        own = [at for at, way in enumerate(ways) if "stencils, tiles" in way.description]
        return int(rng.choice(own)) if own else 0

    output = CHAINS[name]()
    assert not differs(output, rng, choose, exact=True)
    s = tw.autoschedule.schedule([output], "cuda -arch=sm_80", exact=True)
    assert any(name == "stencils" for name in (decision.rule for decision in s.plan)) and s.is_exact


def test_four_large_ones_are_one_kernel_without_conflicts() -> None:
    output = blurred(blurred(blurred(blurred(image(768, 1024)))))
    s = tw.autoschedule.schedule([output], "cuda -arch=sm_80")
    (kernel,) = tw.build(s, [*inputs_of(output), output], target="cuda -arch=sm_80").kernels
    assert [decision.rule for decision in s.plan] == ["stencils"] and "4 stencils" in str(s.plan)
    assert kernel.args == (0, 1) and not kernel.spilled_bytes and "meet in a bank" not in str(s.plan)


def test_what_is_wanted_too_or_read_elsewhere_stays_whole() -> None:
    A = image(40, 70)
    B = blurred(A)
    C = blurred(B)
    rules = [decision.rule for decision in tw.autoschedule.schedule([C, B], "cuda -arch=sm_80").plan]
    assert "stencils" not in rules and len(rules) == 2
    D = te.compute((40, 70), lambda i, j: C[39 - i, j], "turned")
    plan = tw.autoschedule.schedule([D], "cuda -arch=sm_80").plan
    assert len(plan) == 2, "what is turned reads all of C"
