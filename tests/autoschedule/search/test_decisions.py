"""The space of the rules' decisions: where it begins, what its points lead to, and points that others wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drawn
import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.autoschedule import registry
from tilewright.autoschedule.cost.estimate import Estimate
from tilewright.autoschedule.groups import Group
from tilewright.autoschedule.plan import Candidate, cheapest
from tilewright.autoschedule.scheduler import schedule
from tilewright.autoschedule.search.decisions import DecisionSpace
from tilewright.autoschedule.search.space import Config
from tilewright.autotune import Task
from tilewright.autotune.search import CandidateFactory, EvolutionarySearch, Measured
from tilewright.codegen.target import Target
from tilewright.schedule import Schedule, from_json, to_json


def contraction() -> list[te.Tensor]:
    """A sum of products that is not a product of matrices, and what follows it."""
    a, b = te.placeholder((7, 9, 6), name="A"), te.placeholder((6, 9, 17), name="B")
    k, m = te.reduce_axis((0, 9), "k"), te.reduce_axis((0, 6), "m")
    c = te.compute((7, 17), lambda i, j: te.sum(a[i, k, m] * b[m, k, j], axis=[k, m]), name="C")
    return [a, b, te.compute((17, 7), lambda j, i: te.exp(c[i, j]), name="D")]


def space_of(tensors: Sequence[te.Tensor]) -> DecisionSpace:
    return DecisionSpace(tensors, [tensors[-1]], Target.parse("llvm"))


def test_it_begins_at_the_rules_choice_and_goes_on_with_its_neighbours() -> None:
    tensors = contraction()
    space = space_of(tensors)
    usual, *near = space.begin()
    assert to_json(space.make(usual).schedule.records) == to_json(tw.autoschedule.schedule(tensors[-1]).records)
    assert len(near) > 8 and len(set(near)) == len(near)
    for config in near:
        assert sum(one != other for one, other in zip(usual.choices, config.choices, strict=True)) == 1


def test_a_point_leads_to_itself_and_its_records_to_the_same_loops() -> None:
    tensors, twin = contraction(), contraction()
    space, rng = space_of(tensors), drawn.rng("decisions")
    one = space.make(next(space.begin())).config
    for _ in range(drawn.count(4, 40)):
        made = space.make(space.mutate(space.cross(one, space.sample(rng), rng), rng))
        assert space.fits(made.config) and space.make(made.config).config == made.config
        loops = str(tw.lower(made.schedule, tensors))
        assert str(tw.lower(Schedule.replay(made.schedule.records, [twin[-1]]), twin)) == loops


def test_a_point_of_other_rules_leads_to_what_these_rules_choose() -> None:
    space = space_of(contraction())
    usual = next(space.begin())
    name = usual.choices[0][0]
    for choices in ((("sums of nothing", "by magic"),), ((name, "by magic"),), ((name, 3),), ()):
        assert space.make(Config("rules", choices)).config == usual
    assert not space.fits(Config("rules", ((name, 3),))) and not space.fits(Config("template:x", usual.choices))


class Twins(registry.Rule):
    """A rule whose two ways are called alike."""

    name = "twins"

    def matches(self, group: Group) -> bool:
        return group.anchor.name == "twin"

    def candidates(self, group: Group) -> Sequence[Candidate]:
        def unrolled(factor: int) -> None:
            stage = group.s[group.output]
            stage.unroll(stage.split(stage.op.axis[-1], factor=factor)[1])

        return [Candidate("unrolled", lambda factor=factor: unrolled(factor)) for factor in (2, 4)]


def test_what_is_called_alike_is_told_apart_by_its_place() -> None:
    a = te.placeholder((8,), name="A")
    outputs: list[Any] = [te.compute((8,), lambda i, by=by: a[i] * by, name="twin") for by in (2, 3)]
    space = DecisionSpace([a, *outputs], outputs, Target.parse("llvm"))
    with registry.register(Twins()):
        usual, *near = space.begin()
        assert dict(usual.choices) == {"twins of twin": "unrolled", "twins of twin (2)": "unrolled"}
        both = space.make(Config("rules", (("twins of twin (2)", "unrolled (2)"),)))
    assert len(near) == 2
    text = str(both.schedule)
    assert "(2)" in text and "(4)" in text


def test_a_search_with_one_seed_proposes_the_same_and_nothing_twice() -> None:
    def proposed(seed: int) -> list[str]:
        task = Task.of(contraction())
        factory = CandidateFactory(task)
        search = EvolutionarySearch(task, factory, np.random.default_rng(seed))
        measured: list[Measured] = []
        for _ in range(2):
            seen = {one.candidate.records for one in measured}
            measured += [
                Measured(each, 1e-3 + 1e-4 * (len(each.text) % 7)) for each in search.propose(4, measured, seen)
            ]
        assert not factory.dropped, factory.first_message
        return [one.candidate.records for one in measured]

    one = proposed(3)
    assert one == proposed(3) and len(set(one)) == len(one) == 8
    assert one != proposed(4), "what is drawn depends on the seed"


def test_records_of_the_search_are_what_texts_may_say() -> None:
    task = Task.of(contraction())
    for candidate in EvolutionarySearch(task, CandidateFactory(task), np.random.default_rng(0)).propose(6, [], set()):
        assert str(tw.lower(task.replay(from_json(candidate.records, foreign=True)), task.args)) == candidate.text


def test_who_searches_has_more_to_choose_from_and_the_rules_choose_as_before() -> None:
    def taken(seconds: float, further: bool = False) -> Candidate:
        return Candidate(f"{seconds}", lambda: None, Estimate((("loads", seconds),)), further=further)

    assert cheapest("", [taken(3), taken(1, True), taken(2)]) == 2
    tensors = [te.placeholder((255, 255), name=name) for name in "AB"]
    k = te.reduce_axis((0, 255), "k")
    out = te.compute((255, 255), lambda i, j: te.max(tensors[0][i, k] + tensors[1][k, j], axis=k), name="C")
    usual, searched = schedule(out).decisions[-1], schedule(out, chooser=lambda *each: cheapest(*each)).decisions[-1]
    assert len(searched.candidates) > len(usual.candidates) and searched.description == usual.description
