"""The texts of the frozen programs are what they were: a sample of each group, and all of them under TILEWRIGHT_SOAK=1."""

from __future__ import annotations

import os

import pytest

from net.net import differences, hashes_of, load_programs, recorded_hashes

PROGRAMS = load_programs()
STEP = 1 if os.environ.get("TILEWRIGHT_SOAK") == "1" else 12
SAMPLE = sorted(PROGRAMS)[::STEP]


def test_every_frozen_program_has_its_hashes() -> None:
    assert sorted(PROGRAMS) == sorted(recorded_hashes())
    assert {name.partition("/")[0] for name in SAMPLE} == {"benchmarks", "cuda", "drawn", "tutorials", "written"}


@pytest.mark.parametrize("name", SAMPLE)
def test_its_texts_are_what_they_were(name: str) -> None:
    assert differences({name: hashes_of(PROGRAMS[name])}, recorded_hashes()) == [], (
        f"python -m tests.net.net --show {name}"
    )


def test_a_changed_text_is_told_by_program_and_kind() -> None:
    name = SAMPLE[0]
    recorded = recorded_hashes()
    changed = recorded[name] | {"c": "0" * 12}
    assert differences({name: changed}, recorded) == [f"{name}: c"]
    assert differences({"drawn/new": {"lowered": "0"}}, recorded) == ["drawn/new: lowered"]
