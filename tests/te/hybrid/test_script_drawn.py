"""Drawn hybrid scripts under drawn schedules compute what they compute as Python, in the interpreter, which looks for
races, and as native code."""

from __future__ import annotations

import drawn
import numpy as np
import tilewright as tw
from drawn_scripts import DrawnScript, draw_schedule, script_of, tensors
from tilewright import te


def check(case: int) -> set[str]:
    rng = drawn.rng("hybrid", case)
    text = DrawnScript(rng).text
    n, m = (int(rng.choice([1, 2, 3, 5, 7])) for _ in range(2))
    symbolic = rng.random() < 0.4
    script = script_of(text, f"script {case}")
    a, w = rng.integers(-9, 9, (n, m)).astype("int32"), rng.integers(0, n, n).astype("int32")
    expected = script(a, w)
    arguments = tensors(te.size_var("n"), te.size_var("m")) if symbolic else tensors(n, m)
    outputs = script(*arguments)
    s = te.create_schedule(outputs[0].op)
    done = draw_schedule(rng, s, outputs[0])
    told = f"case {case}, seed {drawn.SEED}, n = {n}, m = {m}\n{text}\n{done}\n{s}"
    for target in ("interpret", "llvm") if case % 3 == 0 else ("interpret",):
        found = [np.full(one.shape, 77, "int32") for one in expected]
        try:
            tw.build(s, [*arguments, *outputs], target=target)(a, w, *found)
        except tw.TilewrightError as error:
            raise AssertionError(told) from error
        for one, want in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, want, err_msg=f"{target}, {told}")
    return set(done)


def test_drawn_scripts() -> None:
    seen: set[str] = set()
    for case in range(drawn.count(25, 3000)):
        seen |= {one.split(" ")[0] + (one[-7:] if one[-7:].startswith(" TW") else "") for one in check(case)}
    missing = {"split", "fuse", "reorder", "parallel", "vectorize", "unroll"} - seen
    assert len(missing) <= (0 if drawn.SOAK else 2), "few cases may draw no legal one of some"
    assert {"parallel TW0280", "reorder TW0281"} <= seen
