"""Accuracy of the estimate of schedules: the candidates that rules choose from, measured beside what they were estimated at.

    python -m tools.benchmarks.estimate                         every program, every candidate
    python -m tools.benchmarks.estimate conv --candidates 8     programs whose name contains a word, eight candidates of each, from
                                                                the choice to the one of which least is expected
    python -m tools.benchmarks.estimate --out FOLDER            where the picture goes, FOLDER/estimate.svg (default: out)

For each program: Spearman's rank correlation of estimates and times, how far the choice is from the best of the candidates, and
how far estimates are from times. One thread, pinned to a core; candidates run in turn, and the least CPU time of each
counts, so that what else the machine does changes little. The picture, predicted against measured with a point for each candidate,
is shown in the pages that `tilewright bench` writes into the same folder.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.autoschedule import scheduler
from tilewright.autoschedule.plan import Candidate, Chooser, Decision, Plan, cheapest

__all__ = ["PICTURE", "PROGRAMS", "Measured", "main", "measure", "picture", "rank_correlation", "spread"]

Item = TypeVar("Item")
Program = Callable[[], tuple[list[te.Tensor], te.Tensor]]
PICTURE = "estimate.svg"
ROUNDS, LEAST = 12, 2e-3
"""How often each candidate is timed, and the seconds of a timing."""


def _placeholders(*shapes: tuple[int, ...]) -> list[te.Tensor]:
    return [te.placeholder(shape, name=name) for shape, name in zip(shapes, "abc", strict=False)]


def _reduce_axes(**extents: int) -> list[te.IterVar]:
    return [te.reduce_axis((0, extent), name) for name, extent in extents.items()]


def _conv1d(channels: int, outputs: int, length: int, taps: int) -> Program:
    def declare() -> tuple[list[te.Tensor], te.Tensor]:
        a, b = given = _placeholders((channels, length + taps - 1), (outputs, channels, taps))
        c, k = reduced = _reduce_axes(c=channels, k=taps)
        return given, te.compute((outputs, length), lambda o, i: te.sum(b[o, c, k] * a[c, i + k], reduced), name="out")

    return declare


def _conv2d(channels: int, outputs: int, size: int, taps: int) -> Program:
    def declare() -> tuple[list[te.Tensor], te.Tensor]:
        a, b = given = _placeholders((channels, size + taps - 1, size + taps - 1), (outputs, channels, taps, taps))
        c, y, x = reduced = _reduce_axes(c=channels, y=taps, x=taps)
        return given, te.compute(
            (outputs, size, size), lambda o, i, j: te.sum(b[o, c, y, x] * a[c, i + y, j + x], reduced), name="out"
        )

    return declare


def _pairs(m: int, n: int, depth: int, term: Callable[[Any, Any], Any], combine: Any, crossed: bool) -> Program:
    """Every row of one matrix with every row (crossed: column) of another."""

    def declare() -> tuple[list[te.Tensor], te.Tensor]:
        a, b = given = _placeholders((m, depth), (depth, n) if crossed else (n, depth))
        (k,) = _reduce_axes(k=depth)
        return given, te.compute(
            (m, n), lambda i, j: combine(term(a[i, k], b[k, j] if crossed else b[j, k]), axis=k), name="out"
        )

    return declare


def _conv3d(channels: int, outputs: int, size: int) -> Program:
    def declare() -> tuple[list[te.Tensor], te.Tensor]:
        a, b = given = _placeholders((channels, size + 2, size + 2, size + 2), (outputs, channels, 3, 3, 3))
        c, z, y, x = reduced = _reduce_axes(c=channels, z=3, y=3, x=3)
        return given, te.compute(
            (outputs, size, size, size),
            lambda o, k, i, j: te.sum(b[o, c, z, y, x] * a[c, k + z, i + y, j + x], reduced),
            name="out",
        )

    return declare


def _gram(rows: int, columns: int) -> Program:
    """A matrix by itself, transposed: two reads of one tensor."""

    def declare() -> tuple[list[te.Tensor], te.Tensor]:
        (a,) = given = _placeholders((rows, columns))
        (k,) = _reduce_axes(k=rows)
        return given, te.compute((columns, columns), lambda i, j: te.sum(a[k, i] * a[k, j], axis=k), name="out")

    return declare


def _mttkrp(m: int, n: int, depth: int, rank: int) -> Program:
    def declare() -> tuple[list[te.Tensor], te.Tensor]:
        a, b, c = given = _placeholders((m, n, depth), (n, rank), (depth, rank))
        j, k = reduced = _reduce_axes(j=n, k=depth)
        return given, te.compute((m, rank), lambda i, r: te.sum(a[i, j, k] * b[j, r] * c[k, r], reduced), name="out")

    return declare


def _contraction(text: str, size: int) -> Program:
    """text: axes of the result, and of what is multiplied."""
    result, left, right = text.split("-")

    def declare() -> tuple[list[te.Tensor], te.Tensor]:
        extents = {letter: size + 3 * at for at, letter in enumerate(sorted({*left, *right}))}
        a, b = given = _placeholders(*(tuple(extents[letter] for letter in operand) for operand in (left, right)))
        reduced = {letter: te.reduce_axis((0, extents[letter]), letter) for letter in extents if letter not in result}

        def element(*at: Any) -> Any:
            index = dict(zip(result, at, strict=True)) | reduced
            return te.sum(
                a(*(index[letter] for letter in left)) * b(*(index[letter] for letter in right)), list(reduced.values())
            )

        return given, te.compute(tuple(extents[letter] for letter in result), element, name="out")

    return declare


PROGRAMS: dict[str, Program] = {
    **{
        f"conv1d {c}-{o} {n} k{k}": _conv1d(c, o, n, k)
        for c, o, n, k in ((20, 48, 1000, 3), (64, 35, 333, 5), (3, 80, 2999, 7), (33, 17, 511, 9), (80, 21, 257, 3))
    },
    **{
        f"conv2d {c}-{o} {n} k{k}": _conv2d(c, o, n, k)
        for c, o, n, k in ((5, 35, 31, 5), (17, 24, 28, 3), (32, 7, 45, 3), (24, 24, 37, 3), (64, 31, 15, 5))
    },
    **{
        f"max-plus {m}x{n}x{k}": _pairs(m, n, k, lambda a, b: a + b, te.max, True)
        for m, n, k in ((128, 160, 96), (63, 257, 131), (31, 64, 500))
    },
    **{
        f"L1 distances {m}x{n}x{k}": _pairs(m, n, k, lambda a, b: te.abs(a - b), te.sum, False)
        for m, n, k in ((100, 120, 64), (77, 50, 300), (150, 150, 33))
    },
    **{
        f"squared distances {m}x{n}x{k}": _pairs(m, n, k, lambda a, b: (a - b) * (a - b), te.sum, True)
        for m, n, k in ((90, 200, 48), (200, 31, 100), (101, 99, 37))
    },
    **{
        f"min-plus {m}x{n}x{k}": _pairs(m, n, k, lambda a, b: a + b, te.min, False)
        for m, n, k in ((100, 100, 100), (50, 333, 40))
    },
    **{
        f"gaussian kernel {m}x{n}x{k}": _pairs(m, n, k, lambda a, b: te.exp(-(a - b) * (a - b)), te.sum, True)
        for m, n, k in ((60, 90, 40), (33, 200, 17))
    },
    **{f"conv3d {c}-{o} {n}": _conv3d(c, o, n) for c, o, n in ((8, 12, 14), (3, 16, 21))},
    **{f"gram {m}x{n}": _gram(m, n) for m, n in ((200, 150), (512, 256), (77, 301))},
    **{f"mttkrp {m}x{n}x{k} {r}": _mttkrp(m, n, k, r) for m, n, k, r in ((40, 50, 60, 33), (64, 30, 44, 16))},
    **{
        f"{text} {size}": _contraction(text, size)
        for text, size in (
            ("abc-adbe-edc", 22),
            ("abc-bda-dc", 55),
            ("abc-dca-bd", 50),
            ("abcd-aebf-fdec", 11),
            ("ab-cad-dcb", 60),
            ("abcd-ea-ebcd", 19),
            ("ab-ac-cb", 200),
            ("abc-acd-db", 40),
            ("abcd-dbea-ec", 16),
            ("abc-ad-bdc", 31),
            ("abc-bd-adc", 33),
            ("abcd-be-aecd", 14),
        )
    },
}


@dataclass(frozen=True)
class Measured:
    """Of one program: for each candidate its description, its estimate and its time in seconds; chosen: the place of the choice."""

    name: str
    candidates: tuple[tuple[str, float, float], ...]
    chosen: int

    @property
    def correlation(self) -> float:
        """Spearman's, of estimates and times."""
        return rank_correlation([row[1] for row in self.candidates], [row[2] for row in self.candidates])

    @property
    def loss(self) -> float:
        """The time of the choice over that of the best candidate."""
        return self.candidates[self.chosen][2] / min(row[2] for row in self.candidates)

    @property
    def error(self) -> float:
        """The median factor between estimates and times."""
        return float(np.exp(np.median([abs(np.log(row[1] / row[2])) for row in self.candidates])))


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's: of the ranks, equal values having the mean of theirs; 0 where one has no order."""
    ranks = [
        np.array([(sum(b < a for b in values) + sum(b <= a for b in values)) / 2 for a in values])
        for values in (one, other)
    ]
    spread = [rank - rank.mean() for rank in ranks]
    scale = float(np.sqrt((spread[0] ** 2).sum() * (spread[1] ** 2).sum()))
    return float((spread[0] * spread[1]).sum()) / scale if scale else 0.0


def measure(name: str, program: Program, most: int, rounds: int = ROUNDS) -> Measured | None:
    """`most` of the ways in which a program may be scheduled, from the choice to the one of which least is expected; None where
    there is nothing to choose."""
    given, out = program()
    usual = tuple(row.chosen for row in _choices(scheduler.schedule(out, chooser=_taking(()))))
    times = {path: seconds for path, plan in _ways(out) if (seconds := plan[-1].seconds)}
    order = sorted(times, key=lambda path: (path != usual, times[path]))
    if len(order) < 2:
        return None
    rows: list[tuple[str, float]] = []
    kernels: list[Callable[[], object]] = []
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([int(str(extent)) for extent in tensor.shape], "float32") for tensor in given]
    result = np.empty([int(str(extent)) for extent in out.shape], "float32")
    for path in spread(order, most):
        s = scheduler.schedule(out, chooser=_taking(path))
        kernel = tw.build(s, [*given, out], name="candidate")
        kernels.append(lambda kernel=kernel: kernel(*arrays, result))
        rows.append((": ".join(row.description for row in _choices(s)), times[path]))
    measured = _times(kernels, rounds)
    return Measured(name, tuple((*row, seconds) for row, seconds in zip(rows, measured, strict=True)), 0)


def _choices(s: te.Schedule) -> list[Decision]:
    """The decisions about a schedule that had several candidates."""
    return [row for row in s.decisions if len(row.candidates) > 1]


def _taking(path: Sequence[int]) -> Chooser:
    """A chooser that takes these, one decision after the other, and then what the rules would."""
    left = iter(path)

    def take(name: str, candidates: Sequence[Candidate]) -> int:
        usual = cheapest(name, candidates)
        return next(left, usual) if len(candidates) > 1 else usual

    return take


def _ways(out: te.Tensor, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Plan]]:
    """Every way to decide what is to be decided about a program, with its plan: a choice may lead to another one."""
    s = scheduler.schedule(out, chooser=_taking(path))
    choices = _choices(s)
    if len(choices) == len(path):
        yield path, s.plan
        return
    for at in range(len(choices[len(path)].candidates)):
        yield from _ways(out, (*path, at))


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """So many of these, the first and the last included."""
    steps = max(most - 1, 1)
    return list(items) if len(items) <= most else [items[round(at * (len(items) - 1) / steps)] for at in range(most)]


def _times(kernels: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The least CPU time of each, in turn."""
    calls: list[int] = []
    for kernel in kernels:
        kernel()
        begin = time.thread_time()
        kernel()
        calls.append(max(int(LEAST / max(time.thread_time() - begin, 1e-6)), 1))
    least = [float("inf")] * len(kernels)
    for _ in range(rounds):
        for at, (kernel, number) in enumerate(zip(kernels, calls, strict=True)):
            begin = time.thread_time()
            for _ in range(number):
                kernel()
            least[at] = min(least[at], (time.thread_time() - begin) / number)
    return least


def picture(results: Sequence[Measured]) -> str:
    """An SVG of measured times over estimates, both logarithmic: a point for each candidate, choices filled, a colour for each
    program; on the line they are equal."""
    points = [(log10(row[1]), log10(row[2])) for result in results for row in result.candidates]
    low = min(min(point) for point in points) - 0.1
    scale = 440 / (max(max(point) for point in points) + 0.1 - low)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 500 500" font-family="sans-serif" font-size="12">',
        '<path d="M40 460 L480 20 M40 20 V460 H480" fill="none" stroke="#888"/>',
        '<text x="260" y="490" text-anchor="middle">estimated</text>',
        '<text x="14" y="240" text-anchor="middle" transform="rotate(-90 14 240)">measured</text>',
    ]
    for at, result in enumerate(results):
        colour = f"hsl({at * 360 // max(len(results), 1)} 70% 45%)"
        for place, (text, estimate, seconds) in enumerate(result.candidates):
            x, y = 40 + (log10(estimate) - low) * scale, 460 - (log10(seconds) - low) * scale
            fill = colour if place == result.chosen else "none"
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}">'
                f"<title>{result.name}: {text}, {estimate * 1e6:.1f} and {seconds * 1e6:.1f} us</title></circle>"
            )
    return "\n".join([*parts, "</svg>"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; returns 0, or 2 where no program has such a name."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.benchmarks.estimate", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("words", nargs="*", help="only programs whose name contains one of these")
    parser.add_argument("--candidates", type=int, default=30, help="the most of each program (default: 30)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is timed (default: {ROUNDS})")
    parser.add_argument(
        "--out", type=Path, default=Path("out"), metavar="FOLDER", help="where the picture goes (default: out)"
    )
    options = parser.parse_args(arguments)
    names = [name for name in PROGRAMS if not options.words or any(word in name for word in options.words)]
    if not names:
        parser.error(f"no program is called so; there are {', '.join(PROGRAMS)}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    tw.set_num_threads(1)
    results: list[Measured] = []
    for name in names:
        result = measure(name, PROGRAMS[name], options.candidates, options.rounds)
        if result is not None:
            results.append(result)
            print(
                f"{name:36} {len(result.candidates):3} candidates  rank correlation {result.correlation:5.2f}  "
                f"choice {result.loss:5.2f} x best  estimates off by {result.error:4.2f} x",
                flush=True,
            )
    if results:
        correlations, losses = ([getattr(result, what) for result in results] for what in ("correlation", "loss"))
        everything = [row for result in results for row in result.candidates]
        overall = rank_correlation([row[1] for row in everything], [row[2] for row in everything])
        mean = np.exp(np.mean(np.log(losses)))
        print(
            f"\nrank correlation {np.median(correlations):.2f} in the median of {len(results)} programs, "
            f"{min(correlations):.2f} at worst, {overall:.2f} over all candidates of all; choice {mean:.3f} x best in the "
            f"geometric mean, {max(losses):.2f} at worst, within 10 % of it for {sum(loss <= 1.1 for loss in losses)}"
        )
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / PICTURE).write_text(picture(results), encoding="utf-8")
        print(f"written to {(options.out / PICTURE).absolute()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
