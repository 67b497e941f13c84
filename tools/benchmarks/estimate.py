"""Accuracy of the estimate of schedules: points of the tuner's space, measured beside what they are estimated at.

    python -m tools.benchmarks.estimate                         40 programs, 30 points of each
    python -m tools.benchmarks.estimate --seed 7                other programs
    python -m tools.benchmarks.estimate conv --candidates 8     programs whose name contains a word, eight points of each
    python -m tools.benchmarks.estimate --out FOLDER            where the picture goes, FOLDER/estimate.svg (default: out)

Programs are drawn by seed from the declarations that the tests freeze, so that nobody picks those that an estimate suits: this is
for a checkout of the repository. Points are drawn as the tuner draws them, after the rules' own choice.

For each program: Spearman's rank correlation of estimates and times, how far the choice is from the best of the points, and
how far estimates are from times. Choices that another point beats by a tenth are listed, the furthest from it first. One thread,
pinned to a core; points run in turn, and the least CPU time of each counts, so that what else the machine does changes little. The
picture, predicted against measured with a mark for each point, is shown in the pages that `tilewright bench` writes into the same
folder.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import tilewright as tw
from tilewright.autoschedule.search.decisions import DecisionSpace
from tilewright.autoschedule.search.space import Config
from tilewright.codegen.target import Target
from tilewright.ir.expr import IntImm

__all__ = ["PICTURE", "Measured", "draw_programs", "main", "measure", "picture", "rank_correlation"]

Program = Callable[[], tuple[list[Any], list[Any]]]
PICTURE = "estimate.svg"
PROGRAMS, CANDIDATES, SEED = 40, 30, 29
TARGET = "llvm -cores=1"
ROUNDS, LEAST = 12, 2e-3
"""The timings of each point, and the seconds that one takes at least."""
FEWEST = 5
"""Points of a program below which their order says nothing."""
SHORTEST, LONGEST = 4e-6, 0.1
"""Seconds of a choice: of less the call is a large part, and more takes long to measure."""
DRAWS = 8
"""Draws for each point that is wanted, most of them of points that are known."""
MISSED = 1.1
"""Times of the best point from which on a choice is listed."""


def draw_programs(seed: int, words: Sequence[str] = ()) -> Iterator[tuple[str, Program]]:
    """All declarations of known sizes that the tests freeze, whose name contains one of `words`, in an order drawn by `seed`."""
    programs = _tests().declarations
    names = [name for name in programs if not words or any(word in name for word in words)]
    Random(seed).shuffle(names)
    for name in names:
        _, args = programs[name]()
        if all(isinstance(extent, IntImm) for tensor in args for extent in getattr(tensor, "shape", (None,))):
            yield name, programs[name]


def _tests() -> Any:
    """The module of the tests that draws the arguments of frozen declarations."""
    folder = str(Path(__file__).resolve().parents[2] / "tests")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from net import results

    return results


@dataclass(frozen=True)
class Measured:
    """Measurements of one program: for each candidate its description, its estimate and its time in seconds; chosen: the place of
    the choice."""

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
    def missed(self) -> str:
        """A line on the best candidate, which was not chosen."""
        (own, _, taken), (best, _, least) = self.candidates[self.chosen], min(self.candidates, key=lambda row: row[2])
        return f"{self.loss:5.2f} x  {self.name}: {own}, {taken * 1e6:.1f} us; {best}, {least * 1e6:.1f} us"

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
    """The choice for a program and what the tuner would draw beside it, `most` points at most; None where there is too little to choose
    from, or to compute."""
    ops, args = program()
    computed = {tensor for op in ops for tensor in op.outputs}
    space = DecisionSpace(args, [tensor for tensor in args if tensor in computed], Target.parse(TARGET))
    rng = np.random.default_rng(0)
    inputs = [_tests().draw_argument(rng, each, 2) for each in args]
    rows: list[tuple[str, float]] = []
    kernels: list[Callable[[], object]] = []
    for config in _draw_points(space, most, rng):
        s = space.make(config).schedule
        kernel = tw.build(s, args, TARGET, name="candidate")
        kernels.append(lambda kernel=kernel: kernel(*inputs))
        seconds = {
            row.output: row.seconds or 0.0 for row in s.plan
        }  # a choice that leads to another has its time from that
        rows.append(("; ".join(text for _, text in config.choices), sum(seconds.values())))
        if len(rows) == 1 and not SHORTEST <= min(_seconds(kernels[0], 1) for _ in range(5)) <= LONGEST:
            return None
    if len(rows) < min(FEWEST, most):
        return None
    measured = _times(kernels, rounds)
    return Measured(name, tuple((*row, seconds) for row, seconds in zip(rows, measured, strict=True)), 0)


def _draw_points(space: DecisionSpace, most: int, rng: np.random.Generator) -> Iterator[Config]:
    """The rules' choice, and different points of a space."""
    known, left = {space.usual}, most - 1
    yield space.usual
    for drawn in (space.sample(rng) for _ in range(DRAWS * most)):
        if left and drawn not in known:
            made = space.make(drawn).config  # what follows from a decision is learnt by taking it
            if made not in known:
                left -= 1
                yield made
            known |= {drawn, made}


def _seconds(kernel: Callable[[], object], calls: int) -> float:
    """The CPU time of a call."""
    begin = time.thread_time()
    for _ in range(calls):
        kernel()
    return (time.thread_time() - begin) / calls


def _times(kernels: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The least CPU time of each, in turn."""
    calls = [max(int(LEAST / max(_seconds(kernel, 2), 1e-6)), 1) for kernel in kernels]
    least = [float("inf")] * len(kernels)
    for _ in range(rounds):
        for at, (kernel, number) in enumerate(zip(kernels, calls, strict=True)):
            least[at] = min(least[at], _seconds(kernel, number))
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
    parser.add_argument("--programs", type=int, default=PROGRAMS, help=f"how many (default: {PROGRAMS})")
    parser.add_argument("--candidates", type=int, default=CANDIDATES, help=f"of each (default: {CANDIDATES})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"by which programs are drawn (default: {SEED})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is timed (default: {ROUNDS})")
    parser.add_argument(
        "--out", type=Path, default=Path("out"), metavar="FOLDER", help="where the picture goes (default: out)"
    )
    options = parser.parse_args(arguments)
    if next(draw_programs(options.seed, options.words), None) is None:
        parser.error("no program is called so")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    tw.set_num_threads(1)
    results: list[Measured] = []
    for name, program in draw_programs(options.seed, options.words):
        if len(results) == options.programs:
            break
        result = measure(name, program, options.candidates, options.rounds)
        if result is not None:
            results.append(result)
            print(
                f"{name:44} {len(result.candidates):3} candidates  rank correlation {result.correlation:5.2f}  "
                f"choice {result.loss:5.2f} x best  estimates off by {result.error:4.2f} x",
                flush=True,
            )
    if results:
        _report(results, options.out)
    return 0


def _report(results: Sequence[Measured], folder: Path) -> None:
    """Print the numbers of all programs together, and write the picture."""
    correlations, losses = ([getattr(result, what) for result in results] for what in ("correlation", "loss"))
    everything = [row for result in results for row in result.candidates]
    overall = rank_correlation([row[1] for row in everything], [row[2] for row in everything])
    print(
        f"\nrank correlation {np.median(correlations):.2f} in the median of {len(results)} programs, "
        f"{min(correlations):.2f} at worst, {overall:.2f} over all candidates of all; choice "
        f"{np.exp(np.mean(np.log(losses))):.3f} x best in the geometric mean, {max(losses):.2f} at worst, "
        f"within 10 % of it for {sum(loss <= 1.1 for loss in losses)}"
    )
    missed = sorted((result for result in results if result.loss > MISSED), key=lambda result: -result.loss)
    if missed:
        print("\n".join(["candidates not chosen, though they take less:", *(result.missed for result in missed)]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PICTURE).write_text(picture(results), encoding="utf-8")
    print(f"written to {(folder / PICTURE).absolute()}")


if __name__ == "__main__":
    raise SystemExit(main())
