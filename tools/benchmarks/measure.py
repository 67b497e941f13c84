"""Times cases in this process, on as many threads as OMP_NUM_THREADS says: one JSON object a line for each.

All sides get the same inputs, and their results are compared before anything is timed. Then they run in turn (A B C A B C ...)
with the machine's ceiling measured in every turn; ratios are medians of the ratios within a turn, so that a drift of the
machine's speed meets both sides.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .cases import Arrays, Builder, Case, Runner, Unsupported, empty, load_cases, threads
from .ceiling import Ceilings

__all__ = ["CHEATING", "REALTIME", "ROUNDS", "SEED", "check", "measure"]

REALTIME = "TILEWRIGHT_BENCH_REALTIME"
"""1 in the environment: this process goes before all others."""
SEED = "TILEWRIGHT_BENCH_SEED"
"""A number in the environment: the seed of the shapes that are drawn."""
ROUNDS = 11
_TURN = 0.006
"""Seconds that a side is timed for in a turn, at least: short work is repeated."""
CHEATING = 0.3
"""Processors beyond those given, from which on a peer is shown with a star and compared with nobody."""
_PAUSE = 0.005
"""Seconds between sides, at least."""
_LONGEST_PAUSE = 0.1


@dataclass
class Side:
    """One contender: what it runs, how often in a turn, and what it took, in seconds a run."""

    run: Runner
    keeps: Arrays = ()
    """What it writes to, which libraries know by its address."""
    number: int = 1
    spent: list[float] = field(default_factory=list[float])
    busy: list[float] = field(default_factory=list[float])
    """Seconds of processor time a second of timed work: more than the threads allowed would be cheating."""


def measure(case: Case, ceilings: Ceilings, rounds: int = ROUNDS) -> dict[str, Any]:
    """The row of one case."""
    inputs = list(case.inputs(np.random.default_rng(0)))
    sides, results, missing = _build_sides(case, inputs)
    missing |= check(case, results)
    for name in missing:
        sides.pop(name, None)
    for side in ("ours", "exact"):
        if side in missing:
            return _about(case) | {"failed": f"{side}: {missing[side]}", "missing": missing}
    results.clear()
    for side in sides.values():
        side.number = _number(side.run)
    limits = _take_turns(case, sides, ceilings, rounds)
    return _about(case) | _figures(case, sides, limits) | {"missing": missing}


def _about(case: Case) -> dict[str, Any]:
    return {
        "group": case.group,
        "name": case.name,
        "threads": threads(),
        "flops": case.flops,
        "bytes": case.bytes,
        "ceiling": case.ceiling,
    }


def _build_sides(case: Case, inputs: Arrays) -> tuple[dict[str, Side], dict[str, list[np.ndarray]], dict[str, str]]:
    """The sides that can be run, the results of each, and why others cannot."""
    sides: dict[str, Side] = {}
    results: dict[str, list[np.ndarray]] = {}
    missing: dict[str, str] = {}
    exact = {"exact": case.exact} if case.exact else {}
    for name, builder in {"ours": case.ours, **exact, **case.peers}.items():
        outputs = [_poison(shape, dtype) for shape, dtype in case.outputs]
        try:
            run, results[name] = _first(builder, inputs, outputs)
        except ImportError as error:
            missing[name] = f"not installed ({error.name})"
        except Unsupported as reason:
            missing[name] = str(reason)
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:  # what libraries refuse by
            missing[name] = (
                f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
            )
        else:
            sides[name] = Side(run, outputs)
    return sides, results, missing


def _poison(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    array = empty(shape, dtype)
    array.view(np.uint8).fill(0x7F) if array.ndim else array.fill(0)
    return array


def _first(builder: Builder, inputs: Arrays, outputs: Arrays) -> tuple[Runner, list[np.ndarray]]:
    run = builder(inputs, outputs)
    given = run()
    if given is None:
        return run, list(outputs)
    return run, [_array(output) for output in (given if isinstance(given, (tuple, list)) else (given,))]


def _array(value: Any) -> np.ndarray:
    """A result as numpy has it; torch's bfloat16 as float32."""
    if type(value).__module__ == "torch":
        value = value.detach()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    return np.asarray(value)


def check(case: Case, results: dict[str, list[np.ndarray]]) -> dict[str, str]:
    """Return the reasons for which sides are wrong:

    their results against the reference's. Where only one side runs, nothing can be said.
    """
    named = case.reference or next((name for name in case.peers if name in results), "ours")
    wanted = results.get(named) or next(iter(results.values()), [])
    wrong: dict[str, str] = {}
    for name, outputs in results.items():
        for place, (output, other) in enumerate(zip(outputs, wanted, strict=False)):
            if output.shape != other.shape:
                wrong[name] = f"output {place} has shape {output.shape}, {named}'s has {other.shape}"
            elif reason := _difference(output, other, case.tolerance):
                wrong[name] = f"output {place} differs from {named}'s {reason}"
        if len(outputs) != len(wanted):
            wrong[name] = f"{len(outputs)} outputs, {named} has {len(wanted)}"
    return wrong


def _difference(one: np.ndarray, other: np.ndarray, tolerance: tuple[float, float]) -> str:
    """Return the difference of two results; nothing where they agree."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    absolute, relative = tolerance
    with np.errstate(invalid="ignore"):
        excess = np.abs(a - b) - relative * np.abs(b)
    bad = ~(
        np.where((a == b) | (np.isnan(a) & np.isnan(b)), -np.inf, excess) <= absolute
    )  # a single number is no array
    if not bad.any():
        return ""
    where = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return (
        f"in {bad.sum()} of {bad.size} elements, first at {tuple(map(int, where))}: {a[where]:.6g} and {b[where]:.6g}"
    )


def _number(run: Runner) -> int:
    start = time.perf_counter()
    run()
    spent = time.perf_counter() - start
    if spent < _TURN:  # short work again, now that everything is warm
        start, times = time.perf_counter(), max(1, int(_TURN / max(spent, 1e-7) / 4))
        for _ in range(times):
            run()
        spent = (time.perf_counter() - start) / times
    return max(1, int(np.ceil(_TURN / max(spent, 1e-7))))


def _take_turns(case: Case, sides: dict[str, Side], ceilings: Ceilings, rounds: int) -> dict[str, list[float]]:
    """Times every side in every round, beginning with another one each time; returns the ceilings of each round: those of
    the roofline, and the case's own."""
    limits: dict[str, list[float]] = {kind: [] for kind in dict.fromkeys(("fma", "copy", *_bounds(case)))}
    order = list(sides.values())
    for turn in range(rounds):
        for side in order[turn % len(order) :] + order[: turn % len(order)]:
            _settle()
            side.run()
            busy, start = time.process_time(), time.perf_counter()
            for _ in range(side.number):
                side.run()
            spent = time.perf_counter() - start
            side.busy.append((time.process_time() - busy) / spent)
            side.spent.append(spent / side.number)
        _settle()
        for kind, rates in limits.items():
            rates.append(getattr(ceilings, kind)())
    return limits


def _settle() -> None:
    """Wait until the threads of the last side have stopped spinning for more work: onnxruntime's do for 27 ms."""
    until = time.perf_counter() + _LONGEST_PAUSE
    busy = True
    while busy and time.perf_counter() < until:
        before = time.process_time()
        time.sleep(_PAUSE)
        busy = time.process_time() - before > _PAUSE / 10


def _bounds(case: Case) -> tuple[str, ...]:
    """The loops whose rates bound the case."""
    return ("fma", "copy") if case.ceiling == "roof" else (case.ceiling,)


def _figures(case: Case, sides: dict[str, Side], limits: dict[str, list[float]]) -> dict[str, Any]:
    ours, exact = sides.pop("ours"), sides.pop("exact", None)
    peers = {
        name: {
            "ms": 1e3 * statistics.median(side.spent),
            "ratio": _paired_ratio(side.spent, ours.spent),
            "busy": round(statistics.median(side.busy), 2),
        }
        for name, side in sides.items()
    }
    fair = [name for name, peer in peers.items() if peer["busy"] <= threads() + CHEATING]
    best = min(fair, key=lambda name: peers[name]["ms"], default=None)
    best_rates = {kind: max(rates) for kind, rates in limits.items()}
    return {
        "ours_ms": 1e3 * statistics.median(ours.spent),
        "ours_fastest_ms": 1e3 * min(ours.spent),
        "rounds": len(ours.spent),
        "peers": peers,
        "best": best,
        "ratio": peers[best]["ratio"] if best else None,
        "spread": _spread(sides[best].spent, ours.spent) if best else None,
        "exact": _paired_ratio(exact.spent, ours.spent) if exact else None,
        "share": _share(case, ours.spent, best_rates),
        "best_share": _share(case, sides[best].spent, best_rates) if best else None,
        "limits": {kind: rate / 1e9 for kind, rate in best_rates.items()},
        "busy": round(statistics.median(ours.busy), 2),
    }


def _paired_ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))


def _spread(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Return by how much of the ratio those of half the turns differ from it: half of what lies between their quartiles."""
    ratios = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    return (ratios[len(ratios) * 3 // 4] - ratios[len(ratios) // 4]) / 2 / statistics.median(ratios)


def _share(case: Case, spent: Sequence[float], limits: dict[str, float]) -> float | None:
    """The time that the work takes at the ceiling, which is the best that the loops reached in any turn, over the median of
    what it took; None for work of which neither operations nor bytes are known."""
    least = max((case.flops if kind == "fma" else case.bytes) / limits[kind] for kind in _bounds(case))
    return least / statistics.median(spent) if least else None


def main(labels: Sequence[str]) -> None:
    if os.environ.get(REALTIME) == "1":
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    ceilings = Ceilings(threads())
    cases = {case.label: case for case in load_cases(labels, int(os.environ.get(SEED, "0")))}
    for label in labels:
        print(json.dumps(measure(cases[label], ceilings)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
