"""Windows that nobody tagged, a depthwise convolution by hand among them: how they are cut."""

from __future__ import annotations

from tilewright import te
from tilewright.autoschedule.cpu.rules import RULES, fusion_on
from tilewright.autoschedule.groups import cut
from tilewright.autoschedule.pieces import CHAIN
from tilewright.codegen.machine import MACHINES


def by_channels(high: int, wide: int, channels: int, taps: int) -> te.Tensor:
    """A padded depthwise convolution of one image, channels last, with what follows it."""
    a, w = te.placeholder((1, high, wide, channels), name="a"), te.placeholder((taps, taps, channels), name="w")
    pad = taps // 2

    def inside(n: te.Expr, y: te.Expr, x: te.Expr, c: te.Expr) -> te.Expr:
        return te.if_then_else(te.all(y >= pad, y < high + pad, x >= pad, x < wide + pad), a[n, y - pad, x - pad, c], 0.0)

    padded = te.compute((1, high + 2 * pad, wide + 2 * pad, channels), inside, name="padded")
    p, q = te.reduce_axis((0, taps), name="p"), te.reduce_axis((0, taps), name="q")
    b = te.compute((1, high, wide, channels), lambda n, y, x, c: te.sum(padded[n, y + p, x + q, c] * w[p, q, c], axis=[p, q]),
                   name="b")
    return te.compute(b.shape, lambda n, y, x, c: te.max(b[n, y, x, c], 0.0), name="out")


def test_a_batch_of_one_image_does_not_make_one_vector_of_all_it_holds() -> None:
    """The batch is the same for all tiles: vectors ran over rows, columns and channels, eighty times as slow."""
    pieces = [piece for machine in MACHINES
              for piece in cut(te.create_schedule([by_channels(56, 58, 96, 5)]), RULES, fusion_on(machine)) if piece.tag == CHAIN]
    assert any("padded" in [op.name for op in piece.parts] for piece in pieces), "some machine stores it for each tile"
    assert {at for piece in pieces for tile in piece.tiles for at in tile.flat.values()} == {3}
