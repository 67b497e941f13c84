"""What is frozen is as it was: a sample of each net, and all of it under TILEWRIGHT_SOAK=1."""

from __future__ import annotations

import os

import pytest

from net.net import NETS, differences

WHOLE = os.environ.get("TILEWRIGHT_SOAK") == "1"
SAMPLES = {net: sorted(row.names)[:: 1 if WHOLE else row.sample] for net, row in NETS.items()}


@pytest.mark.parametrize("net", NETS)
def test_everything_frozen_is_recorded(net: str) -> None:
    assert sorted(NETS[net].names) == sorted(NETS[net].recorded())


def test_the_sample_has_every_group() -> None:
    assert {name.partition("/")[0] for name in SAMPLES["kernels"]} == {
        "benchmarks",
        "cuda",
        "drawn",
        "tutorials",
        "written",
    }


@pytest.mark.parametrize(("net", "name"), [(net, name) for net, names in SAMPLES.items() for name in names])
def test_it_is_as_recorded(net: str, name: str) -> None:
    assert differences({name: NETS[net].record(name)}, NETS[net].recorded()) == [], (
        f"python -m tests.net.net --net {net} --show {name}"
    )


def test_a_changed_text_is_told_by_program_and_kind() -> None:
    name = SAMPLES["kernels"][0]
    recorded = NETS["kernels"].recorded()
    changed = recorded[name] | {"c": "0" * 12}
    assert differences({name: changed}, recorded) == [f"{name}: c"]
    assert differences({"drawn/new": {"lowered": "0"}}, recorded) == ["drawn/new: lowered"]
