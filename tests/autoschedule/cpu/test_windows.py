"""Windows that nobody tagged, a depthwise convolution by hand among them: how they are cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.autoschedule import scheduler
from tilewright.autoschedule.cpu.rules import RULES, fusion_rules
from tilewright.autoschedule.group_partition import cut
from tilewright.autoschedule.partition import CHAIN
from tilewright.autoschedule.plan import Candidate, Decision
from tilewright.codegen.machine import MACHINES


def by_channels(high: int, wide: int, channels: int, taps: int) -> te.Tensor:
    """A padded depthwise convolution of one image, channels last, with what follows it."""
    a, w = te.placeholder((1, high, wide, channels), name="a"), te.placeholder((taps, taps, channels), name="w")
    pad = taps // 2

    def inside(n: te.Expr, y: te.Expr, x: te.Expr, c: te.Expr) -> te.Expr:
        return te.if_then_else(
            te.all(y >= pad, y < high + pad, x >= pad, x < wide + pad), a[n, y - pad, x - pad, c], 0.0
        )

    padded = te.compute((1, high + 2 * pad, wide + 2 * pad, channels), inside, name="padded")
    p, q = te.reduce_axis((0, taps), name="p"), te.reduce_axis((0, taps), name="q")
    b = te.compute(
        (1, high, wide, channels),
        lambda n, y, x, c: te.sum(padded[n, y + p, x + q, c] * w[p, q, c], axis=[p, q]),
        name="b",
    )
    return te.compute(b.shape, lambda n, y, x, c: te.max(b[n, y, x, c], 0.0), name="out")


def test_a_batch_of_one_image_does_not_make_one_vector_of_all_it_holds() -> None:
    """The batch is the same for all tiles: vectors ran over rows, columns and channels, eighty times as slow."""
    pieces = [
        piece
        for machine in MACHINES
        for piece in cut(te.create_schedule([by_channels(56, 58, 96, 5)]), RULES, fusion_rules(machine))
        if piece.tag == CHAIN
    ]
    assert any("padded" in [op.name for op in piece.parts] for piece in pieces), "some machine stores it for each tile"
    assert {at for piece in pieces for tile in piece.tiles for at in tile.flat.values()} == {3}


def maxima(high: int, wide: int) -> te.Tensor:
    """What an image lacks to the greatest value around each place."""
    a = te.placeholder((3, high, wide), name="a")
    padded = te.compute(
        (3, high + 2, wide + 2),
        lambda c, y, x: te.if_then_else(
            te.all(y >= 1, y < high + 1, x >= 1, x < wide + 1), a[c, y - 1, x - 1], te.min_value("float32")
        ),
        name="padded",
    )
    p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
    most = te.compute((3, high, wide), lambda c, y, x: te.max(padded[c, y + p, x + q], axis=[p, q]), name="most")
    return te.compute((3, high, wide), lambda c, y, x: most[c, y, x] - a[c, y, x], name="less")


def bordered(high: int, wide: int) -> te.Tensor:
    """The greatest of what lies around each place, and of what is mirrored or comes from the other end beyond the borders."""
    a = te.placeholder((high, wide), name="a")
    p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 5), name="q")
    mirrored, wrapped = te.mirrored(a), te.wrapped(a)

    def greater(y: te.Expr, x: te.Expr) -> te.Expr:
        return te.max(mirrored[y, x] + wrapped[y, x], axis=[p, q])

    return te.compute((high, wide), lambda y, x: greater(y + p - 1, x + q - 2), name="around")


def likeness(high: int, wide: int, weigh: bool = True) -> te.Tensor:
    """Two windows over the same places, of values that have an expensive part in common, and their quotient."""
    a = te.placeholder((high + 2, wide + 2), name="a")

    def window(name: str, of: Callable[[te.Expr], te.Expr]) -> te.Tensor:
        p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
        return te.compute(
            (high, wide),
            lambda y, x: te.sum(te.exp(a[y + p, x + q] - a[y + 1, x + 1]) * of(a[y + p, x + q]), axis=[p, q]),
            name=name,
        )

    first, second = window("first", lambda value: value if weigh else te.cos(value)), window("second", te.abs)
    return te.compute((high, wide), lambda y, x: first[y, x] / second[y, x], name="quotient")


def run(s: te.Schedule, args: Sequence[te.Tensor], inputs: Sequence[np.ndarray], target: str) -> np.ndarray:
    found = np.empty([int(str(extent)) for extent in args[-1].shape], "float32")
    tw.build(s, list(args), target=target)(*inputs, found)
    return found


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=x86-64-v2"))
@pytest.mark.parametrize(
    "result",
    [by_channels(5, 7, 11, 3), maxima(9, 19), maxima(2, 1), likeness(7, 19), bordered(7, 67)],
    ids=["channels", "maxima", "narrow", "several", "borders"],
)
def test_windows_in_registers_keep_their_bits(result: te.Tensor, target: str) -> None:
    """Whether what they read around each place is stored or not, and for any number of places together."""
    plain = te.create_schedule([result])
    args = [tensor for stage in plain.stages for tensor in stage.op.outputs if not stage.op.input_tensors] + [result]
    drawn = np.random.default_rng(0)
    inputs = [
        drawn.standard_normal([int(str(extent)) for extent in tensor.shape]).astype("float32") for tensor in args[:-1]
    ]
    expected = run(plain, args, inputs, target)
    asked: list[list[int]] = []

    def take(_: str, ways: Sequence[Candidate]) -> int:
        asked.append([at for at, way in enumerate(ways) if "places of" in way.description])
        return asked[-1][min(taken, len(asked[-1]) - 1)] if asked[-1] else 0

    taken = 0
    scheduler.schedule([result], target, chooser=take, exact=True)
    several = max(asked, key=len)
    assert several, "there are such ways"
    for taken in (0, len(several) - 1):
        s = scheduler.schedule([result], target, chooser=take, exact=True)
        assert s.is_exact
        assert run(s, args, inputs, target).tobytes() == expected.tobytes(), taken


def windows_of(result: te.Tensor, target: str) -> dict[str, str]:
    """The loops of each way to keep sums in registers."""
    found: dict[str, str] = {}
    wanted: list[str] = []

    def take(_: str, ways: Sequence[Candidate]) -> int:
        names = [way.description for way in ways]
        new = next((name for name in names if "places of" in name and name not in found), "")
        wanted.append(new)
        return names.index(new) if new else 0

    while True:
        wanted.clear()
        s = scheduler.schedule([result], target, chooser=take)
        name = next((each for each in wanted if each), "")
        if not name:
            return found
        found[name] = str(s)


def batch(images: int, high: int, wide: int, channels: int, taps: int) -> te.Tensor:
    """A padded depthwise convolution, channels last, that reads its image by guards."""
    a, w = te.placeholder((images, high, wide, channels), name="a"), te.placeholder((taps, taps, channels), name="w")
    p, q = te.reduce_axis((0, taps), name="p"), te.reduce_axis((0, taps), name="q")
    return te.compute(
        (images, high, wide, channels),
        lambda n, y, x, c: te.sum(
            te.if_then_else(
                te.all(y + p >= 1, y + p < high + 1, x + q >= 1, x + q < wide + 1), a[n, y + p - 1, x + q - 1, c], 0.0
            )
            * w[p, q, c],
            axis=[p, q],
        ),
        name="b",
    )


def test_how_much_of_windows_is_written_out_is_bounded() -> None:
    ways = windows_of(batch(1, 9, 31, 16, 7), "llvm -mcpu=haswell")
    assert ways, "windows may be kept in registers"
    rows = {int(name.split()[2]) for name in ways if "stored" not in name}
    assert max(rows) * 49 <= 150, "guards make copies of each body: builds took five seconds"
    assert not any("outer in unrolled" in loops for loops in ways.values()), (
        "whole vectors without guards along them are a loop"
    )
    assert any(
        "outer in unrolled" in loops for loops in windows_of(batch(1, 9, 31, 19, 3), "llvm -mcpu=haswell").values()
    )


def test_windows_that_meet_are_summed_where_they_meet() -> None:
    """Each was stored whole, but for the last; what their terms have in common is computed once, and counted once."""
    s = tw.autoschedule.schedule(likeness(201, 203), "llvm -mcpu=haswell")
    (decision,) = s.decisions
    assert decision.rule == "chain"
    assert {stage.attach_type for stage in s.stages if stage.op.name in ("first", "second")} == {"at"}
    apart = tw.autoschedule.schedule(likeness(201, 203, weigh=False), "llvm -mcpu=haswell").decisions[0]

    def least(each: Decision) -> float:
        return min(time.seconds for name, time in each.candidates if "places of" in name and time is not None)

    assert least(apart) > 1.4 * least(decision), "a cosine besides takes its time"


def test_guards_of_two_axes_of_a_task_stay_around_every_tap_and_are_not_offered() -> None:
    assert not any(" of n in" in name for name in windows_of(batch(3, 9, 31, 16, 3), "llvm -mcpu=haswell"))
    assert {name.split()[5] for name in windows_of(batch(1, 9, 31, 16, 3), "llvm -mcpu=haswell")} == {"y", "x"}
