"""How strong the fuzzer is: bugs planted one at a time, and how many cases it takes to find each."""

from __future__ import annotations

import drawn
import planted_bugs
import pytest

LIMIT = 2000
SAMPLE = ("dropped guard", "wrong fuse order", "lost init")


@pytest.mark.parametrize("bug", planted_bugs.BUGS, ids=lambda bug: bug.name)
def test_every_planted_bug_still_has_its_place(bug: planted_bugs.Bug) -> None:
    assert (planted_bugs.ROOT / bug.path).read_text().count(bug.before) == 1


def test_planted_bugs_are_found() -> None:
    assert len(planted_bugs.BUGS) == 40
    wanted = planted_bugs.BUGS if drawn.SOAK else [planted_bugs.BY_NAME[name] for name in SAMPLE]
    found = {bug.name: planted_bugs.first_failure(bug, drawn.SEED, LIMIT) for bug in wanted}
    lines = [
        f"  {name:<45} {f'case {number}' if number else f'not within {LIMIT} cases'}" for name, number in found.items()
    ]
    count = sum(number is not None for number in found.values())
    print(f"seed {drawn.SEED}: {count} of {len(found)} planted bugs found", *lines, sep="\n")
    assert count >= len(found) - (2 if drawn.SOAK else 0), "\n".join(lines)
