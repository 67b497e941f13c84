"""Writes docs/pictures/: what the page on concepts shows, drawn from schedules that are lowered and run.

Stages are drawn as pages about schedules draw them. In what order a nest of loops goes over a tensor is found by running it: each
element is given the number of the moment in which it is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import tilewright as tw
from numpy.typing import NDArray
from tilewright import te
from tilewright.views.report import stages_picture

FOLDER = Path(__file__).parent / "pictures"
ROWS, COLUMNS = 8, 12
_CELL, _MARGIN = 30, 10
_moments: list[int] = []


@tw.register_func("docs.moment", override=True)
def _moment(_: int) -> int:
    _moments.append(len(_moments))
    return _moments[-1]


def order(change: Callable[[te.Schedule, te.Tensor], object]) -> NDArray[np.int32]:
    """When each element of a tensor is computed, under a schedule."""
    C = te.compute((ROWS, COLUMNS), lambda i, j: te.call_packed("docs.moment", i * COLUMNS + j), name="C")
    s = te.create_schedule(C)
    change(s, C)
    _moments.clear()
    moments = np.empty((ROWS, COLUMNS), "int32")
    tw.build(s, [C], target="interpret")(moments)
    return moments


def grid(moments: NDArray[np.int32]) -> str:
    """The elements of a matrix, with the moments in which they are computed, and the way from each to the next."""
    width, height = (2 * _MARGIN + _CELL * extent for extent in (COLUMNS, ROWS))
    places = {int(moment): place for place, moment in np.ndenumerate(moments)}
    points = [(_MARGIN + _CELL * (j + 0.5), _MARGIN + _CELL * (i + 0.5)) for _, (i, j) in sorted(places.items())]
    cells = [
        f'<rect x="{_MARGIN + _CELL * j}" y="{_MARGIN + _CELL * i}" width="{_CELL}" height="{_CELL}" '
        f'fill="hsl(212 70% {92 - 45 * moments[i, j] // moments.size}%)" stroke="#ffffff"/>'
        f'<text x="{_MARGIN + _CELL * (j + 0.5)}" y="{_MARGIN + _CELL * (i + 0.5) + 4}">{moments[i, j]}</text>'
        for i in range(ROWS)
        for j in range(COLUMNS)
    ]
    way = " ".join(f"{'L' if at else 'M'}{x:g} {y:g}" for at, (x, y) in enumerate(points))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="the order in which elements are computed">\n'
        "<style>text { font: 10px ui-monospace, monospace; text-anchor: middle; fill: #10141a; }</style>\n"
        + "\n".join(cells)
        + f'\n<path d="{way}" fill="none" stroke="#e08a00" stroke-opacity="0.55"/>\n</svg>\n'
    )


def blur() -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    """Two stencils, one after the other, and their schedule, which says nothing yet."""
    A = te.placeholder((66, 64), name="A")
    B = te.compute((66, 62), lambda i, j: A[i, j] + A[i, j + 1] + A[i, j + 2], name="B")
    C = te.compute((64, 62), lambda i, j: B[i, j] + B[i + 1, j] + B[i + 2, j], name="C")
    return te.create_schedule(C), B, C


def pictures() -> dict[str, str]:
    """The pictures by their names."""
    plain, _, _ = blur()
    attached, B, C = blur()
    rows, _ = attached[C].split(C.op.axis[0], factor=8)
    attached[B].compute_at(attached[C], rows)
    inlined, other, _ = blur()
    inlined[other].compute_inline()
    cached, _, last = blur()
    copy = cached.cache_write(last, "local")
    _, columns = cached[last].tile(*last.op.axis, 8, 16)[:2]
    cached[copy].compute_at(cached[last], columns)
    return {
        "stages-plain": stages_picture(plain),
        "stages-attached": stages_picture(attached),
        "stages-inlined": stages_picture(inlined),
        "stages-cached": stages_picture(cached),
        "order-plain": grid(order(lambda s, C: None)),
        "order-reordered": grid(order(lambda s, C: s[C].reorder(*reversed(C.op.axis)))),
        "order-tiled": grid(order(lambda s, C: s[C].tile(*C.op.axis, 4, 4))),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / f"{name}.svg").write_text(text)
