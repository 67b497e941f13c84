"""The tokens really order the queues: whatever is taken out of a stream, or put into a wrong place, is found when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.codegen.vdla.errors import QueueDeadlock, QueueRace, ScratchpadFault, TokenLeft
from tilewright.codegen.vdla.instructions import Instruction
from tilewright.codegen.vdla.program import Program
from vdla_programs import arrays, compiled, product

Stream = tuple[Instruction, ...]


@cache
def program(threads: int) -> tuple[Program, dict[str, Any]]:
    s, args = product((32, 16, 32), tile=(16, 16) if threads == 1 else (8, 16), depth=16, threads=threads)
    return compiled(s, args), dict(zip("ABC", arrays(args), strict=True))


def found(threads: int, stream: Stream) -> type[Exception] | None:
    """What a run of another stream raises; None where it ends, its result then being checked."""
    whole, values = program(threads)
    values = {**values, "C": np.zeros_like(values["C"])}
    try:
        whole.replace_stream(stream).run(values)
    except tw.TilewrightError as error:
        return type(error)
    np.testing.assert_array_equal(values["C"], values["A"].T.astype("int32") @ values["B"].astype("int32"))
    return None


def tokens(stream: Stream) -> Iterator[tuple[int, int, str, str]]:
    """Each token: the places of the instructions that give and take it, and their units."""
    given: dict[tuple[str, str], list[int]] = {}
    for at, each in enumerate(stream):
        for giver in each.pops:
            yield given[giver, each.unit].pop(0), at, giver, each.unit
        for taker in each.pushes:
            given.setdefault((each.unit, taker), []).append(at)


def changed(stream: Stream, at: int, **fields: Any) -> Stream:
    return (*stream[:at], replace(stream[at], **fields), *stream[at + 1 :])


def without(units: tuple[str, ...], unit: str) -> tuple[str, ...]:
    return tuple(each for each in units if each != unit)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_stream_itself_runs(threads: int) -> None:
    stream = program(threads)[0].stream
    assert found(threads, stream) is None and len(list(tokens(stream))) > 8


@pytest.mark.parametrize("threads", [1, 2])
def test_every_token_that_is_removed_is_missed(threads: int) -> None:
    """Given but never taken, taken but never given, or neither, which leaves two queues to race."""
    stream = program(threads)[0].stream
    for giver_at, taker_at, giver, taker in tokens(stream):
        no_push = changed(stream, giver_at, pushes=without(stream[giver_at].pushes, taker))
        no_pop = changed(stream, taker_at, pops=without(stream[taker_at].pops, giver))
        neither = changed(no_push, taker_at, pops=without(stream[taker_at].pops, giver))
        assert found(threads, no_push) in (QueueDeadlock, QueueRace)
        assert found(threads, no_pop) in (QueueRace, TokenLeft)
        assert found(threads, neither) is QueueRace


@pytest.mark.parametrize("threads", [1, 2])
def test_a_token_that_is_given_too_early_is_found(threads: int) -> None:
    """By the instruction of the same unit before the one that should."""
    stream, moved = program(threads)[0].stream, 0
    for giver_at, _, giver, taker in tokens(stream):
        before = [at for at in range(giver_at) if stream[at].unit == giver and taker not in stream[at].pushes]
        if before and not any(taker in stream[at].pushes for at in range(before[-1], giver_at)):
            early = changed(stream, giver_at, pushes=without(stream[giver_at].pushes, taker))
            early = changed(early, before[-1], pushes=(*stream[before[-1]].pushes, taker))
            assert found(threads, early) is QueueRace
            moved += 1
    assert moved > 4


@pytest.mark.parametrize("threads", [1, 2])
def test_every_wrong_place_in_a_scratchpad_is_found(threads: int) -> None:
    """An operand that begins elsewhere, in its buffer or beyond it: what is there is not written, not ordered, or not its own."""
    stream, wrong = program(threads)[0].stream, 0
    for at, each in enumerate(stream):
        for number, operand in enumerate(each.operands):
            for by in () if operand.place.is_dram else (-8, operand.place.size // 2):
                moved = replace(operand, offset=operand.offset + by)
                operands = (*each.operands[:number], moved, *each.operands[number + 1 :])
                assert found(threads, changed(stream, at, operands=operands)) in (ScratchpadFault, QueueRace), (
                    at,
                    number,
                    by,
                )
                wrong += 1
    assert wrong > 40


def test_a_copy_too_short_leaves_what_nobody_has_written() -> None:
    stream = program(1)[0].stream
    at = next(at for at, each in enumerate(stream) if each.unit == "ld")
    short = changed(stream, at, extents=(stream[at].extents[0] - 1, *stream[at].extents[1:]))
    with pytest.raises(
        ScratchpadFault, match=r"(?s)TW0445.*`.*ex\.gemm.*` reads what nobody has written.*no value yet"
    ):
        program(1)[0].replace_stream(short).run(program(1)[1])


def test_a_race_names_both_sides_and_the_tokens_that_are_missing() -> None:
    stream = tuple(replace(each, pops=(), pushes=()) for each in program(1)[0].stream)
    with pytest.raises(
        QueueRace, match=r"(?s)ld\.dma_copy2d\(.*ex\.gemm\(.*ld\.push_dep_to\(ex\).*ex\.pop_dep_from\(ld\)"
    ):
        program(1)[0].replace_stream(stream).run(program(1)[1])


def test_the_time_of_a_stream_that_stands_still_is_an_error() -> None:
    stream = program(2)[0].stream
    stuck = tuple(replace(each, pushes=()) for each in stream)
    with pytest.raises(QueueDeadlock, match=r"(?s)deadlock of the queues.*waits for a token of ld"):
        program(2)[0].replace_stream(stuck).timed()
    with pytest.raises(TokenLeft, match=r"of the tokens from ld to ex, [0-9]+ were never taken"):
        program(2)[0].replace_stream([replace(each, pops=()) for each in stream if each.unit == "ld"]).timed()
