"""Drawn schedules of small programs: each is refused with a typed error, or lowers to a program that agrees with numpy."""

from __future__ import annotations

import drawn
import lowered
from drawn_schedules import PROGRAMS, draw_primitive
from tilewright.base.errors import TilewrightError
from tilewright.schedule import create_schedule

REFUSALS = ("TW0333", "TW0337", "TW0338", "TW0339")
"""What only the whole of a drawn schedule decides: the attach point, a vector's extent, nested parallel loops, and the
extents of threads."""


def test_drawn_schedules_agree_with_numpy() -> None:
    accepted = 0
    cases = drawn.count(80, 20_000)
    for case in range(cases):
        rng = drawn.rng("lowering", case)
        output, args, inputs, expected = PROGRAMS[case % len(PROGRAMS)](rng)
        s = create_schedule(output.op)
        for _ in range(int(rng.integers(1, 9))):
            try:
                draw_primitive(rng, s)
            except TilewrightError:
                continue  # a refused primitive leaves the schedule as it was
        try:
            lowered.check(s, args, inputs, expected.astype("float32"))
        except TilewrightError as error:
            if error.code not in REFUSALS:
                raise AssertionError(f"case {case} of seed {drawn.SEED}, after {s.records}") from error
            continue
        except Exception as error:
            raise AssertionError(f"case {case} of seed {drawn.SEED}, after {s.records}") from error
        accepted += 1
    assert accepted >= cases // 4
