"""The page about a run of the benchmarks: a self-contained HTML with the table, ratios and a roofline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Mark", "Picture", "render", "roofline"]

Row = Mapping[str, Any]

WIDTH, HEIGHT, LEFT, BOTTOM = 900, 420, 60, 40


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of the roofline: where, what it is, and whether it is ours."""

    x: float
    y: float
    ours: bool
    threads: int
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The roofline in the coordinates of the drawing: ticks as (place, text), roofs as (points, threads, text)."""

    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    roofs: Sequence[tuple[str, int, str]]
    marks: Sequence[Mark]


def render(about: Mapping[str, str], rows: Sequence[Row], estimates: str = "") -> str:
    """The page's text. estimates: the picture of measured times over estimated ones, an SVG, where there is one."""
    from jinja2 import Environment

    from .harness import peer_names
    from .measure import CHEATING

    done = [row for row in rows if "failed" not in row]
    tables = {
        name: [row for row in rows if row["group"] == name] for name in dict.fromkeys(row["group"] for row in rows)
    }
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        Path(__file__).with_name("page.html").read_text()
    )
    return template.render(
        about=about,
        tables={name: (peer_names(members), members) for name, members in tables.items()},
        picture=roofline(done),
        means=_means(done),
        estimates=estimates,
        cheating=CHEATING,
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        bottom=BOTTOM,
    )


def _means(rows: Sequence[Row]) -> list[tuple[str, int, float, float, int]]:
    """Return for each group and number of threads: the geometric mean of the ratios, the least, and how many there are."""
    by_group: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        if row["ratio"]:
            by_group.setdefault((row["group"], row["threads"]), []).append(row["ratio"])
    return [
        (group, threads, math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios), len(ratios))
        for (group, threads), ratios in by_group.items()
    ]


def roofline(rows: Sequence[Row]) -> Picture | None:
    """Operations a second over operations a byte, logarithmic both ways; None where no row has both."""
    placed = [row for row in rows if row["flops"] and row["bytes"]]
    if not placed:
        return None
    points: list[tuple[float, float, bool, int, str]] = []
    for row in placed:
        intensity = row["flops"] / row["bytes"]
        label = f"{row['group']} {row['name']}, {row['threads']} threads"
        sides = {"ours": row["ours_ms"], **({row["best"]: row["peers"][row["best"]]["ms"]} if row["best"] else {})}
        for side, ms in sides.items():
            rate = row["flops"] / ms / 1e6
            points.append((intensity, rate, side == "ours", row["threads"], f"{label}: {side} {rate:.4g} GFLOP/s"))
    limits = _limits(placed)
    x_low, x_high = _decades([p[0] for p in points])
    y_low, y_high = _decades([p[1] for p in points] + [fma for fma, _ in limits.values()])

    def x(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 20) * (math.log10(value) - x_low) / (x_high - x_low), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 20) * (math.log10(value) - y_low) / (y_high - y_low), 1)

    return Picture(
        [(x(10.0**d), _power(d)) for d in range(x_low, x_high + 1)],
        [(y(10.0**d), _power(d)) for d in range(y_low, y_high + 1)],
        [
            (_roof(fma, memory, (x_low, x_high), 10.0**y_low, x, y), threads, f"{fma:.0f} GFLOP/s, {memory:.0f} GB/s")
            for threads, (fma, memory) in sorted(limits.items())
        ],
        [Mark(x(a), y(b), ours, threads, title) for a, b, ours, threads, title in points],
    )


def _limits(rows: Sequence[Row]) -> dict[int, tuple[float, float]]:
    """The best of what the loops reached, (GFLOP/s, GB/s), for each number of threads for which both are known."""
    ceilings: dict[int, tuple[float, float]] = {}
    for threads in {row["threads"] for row in rows}:
        of = [row["limits"] for row in rows if row["threads"] == threads]
        fma = max((limits["fma"] for limits in of if "fma" in limits), default=0.0)
        memory = max((max(limits.get("copy", 0), limits.get("read", 0)) for limits in of), default=0.0)
        if fma:
            ceilings[threads] = fma, memory
    return ceilings


def _roof(fma: float, memory: float, span: tuple[int, int], floor: float, x: Any, y: Any) -> str:
    """The polyline of a roof: up with the memory's rate, then level."""
    low, high = 10.0 ** span[0], 10.0 ** span[1]
    start = [(low, fma)]
    if memory:
        begin = max(low, floor / memory)
        ridge = min(max(fma / memory, begin), high)
        start = [(begin, min(fma, memory * begin)), (ridge, min(fma, memory * ridge))]
    return " ".join(f"{x(a)},{y(b)}" for a, b in [*start, (high, fma)])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _power(decade: int) -> str:
    return f"{10**decade:,}" if decade >= 0 else f"{10.0**decade:g}"
