"""The tuner against its bars: `python -m tools.benchmarks.tuner` (about ten minutes on a quiet machine of two cores).

For each workload 128 trials without a template; the winner, which the tuner has run in turn with the rules' choice, is timed side
by side with the unscheduled program, and with a hand schedule or torch. `--seeds 5` compares the model with random search on the
matmul, and plots both curves.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright import autotune, te
from tilewright.demo import matmul as hand
from tilewright.demo.clock import interleaved

OUT = Path("out")


def matmul(size: int = 512) -> list[te.Tensor]:
    return list(hand.declare(size))


def conv2d() -> list[te.Tensor]:
    """3x3, 64 channels to 64, at 56 x 56, padded by one."""
    data, kernel = te.placeholder((1, 64, 56, 56), name="data"), te.placeholder((64, 64, 3, 3), name="kernel")
    padded = te.compute(
        (1, 64, 58, 58),
        lambda n, c, y, x: te.if_then_else(te.all(y >= 1, y < 57, x >= 1, x < 57), data[n, c, y - 1, x - 1], 0.0),
        name="padded",
    )
    c, dy, dx = te.reduce_axis((0, 64), "c"), te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
    conv = te.compute(
        (1, 64, 56, 56),
        lambda n, o, y, x: te.sum(padded[n, c, y + dy, x + dx] * kernel[o, c, dy, dx], axis=[c, dy, dx]),
        name="conv",
    )
    return [data, kernel, conv]


def softmax(rows: int = 1024, columns: int = 4096) -> list[te.Tensor]:
    a = te.placeholder((rows, columns), name="A")
    k1, k2 = te.reduce_axis((0, columns), "k1"), te.reduce_axis((0, columns), "k2")
    greatest = te.compute((rows,), lambda i: te.max(a[i, k1], axis=k1), name="greatest")
    powers = te.compute((rows, columns), lambda i, j: te.exp(a[i, j] - greatest[i]), name="powers")
    total = te.compute((rows,), lambda i: te.sum(powers[i, k2], axis=k2), name="total")
    return [a, te.compute((rows, columns), lambda i, j: powers[i, j] / total[i], name="softmax")]


def draw_arrays(tensors: list[te.Tensor]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.random(tuple(map(int, tensor.shape)), dtype=np.float32) - 0.5 for tensor in tensors]


def find_peer(name: str, arrays: list[np.ndarray]) -> tuple[str, Callable[[], object]] | None:
    """Return the peer that the workload is measured against, besides the unscheduled program."""
    if name == "matmul":
        step = hand.parallel(512)
        kernel, out = tw.build(step.schedule, step.args), np.empty_like(arrays[2])
        return "hand schedule", lambda: kernel(arrays[0], arrays[1], out)
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(tw.num_threads())
    tensors = [torch.from_numpy(array) for array in arrays]
    if name == "conv2d":
        return "torch", lambda: torch.nn.functional.conv2d(tensors[0], tensors[1], padding=1)
    return "torch", lambda: torch.softmax(tensors[0], 1)


def bench(name: str, declare: Callable[[], list[te.Tensor]], trials: int) -> dict[str, object]:
    """Tunes one workload into a fresh database, and times the winner."""
    database = OUT / f"tuning-{name}.sqlite"
    database.unlink(missing_ok=True)
    start = time.perf_counter()
    result = autotune.tune(declare(), trials=trials, database=database)
    spent = time.perf_counter() - start
    tensors = declare()
    arrays = draw_arrays(tensors)
    tuned, plain = tw.build(tensors, tuned=database), tw.build(declare())
    slow, fast = interleaved(lambda: plain(*arrays), lambda: tuned(*arrays), rounds=5)
    row: dict[str, object] = {
        "work": name,
        "trials": len(result.history),
        "trials_per_s": trials / spent,
        "failures": result.failures,
        "times_default": result.comparison.gain if result.comparison is not None else 1.0,
        "spread": result.comparison.spread if result.comparison is not None else 0.0,
        "tuned_ms": fast * 1e3,
        "unscheduled_ms": slow * 1e3,
        "times_unscheduled": slow / fast,
    }
    peer = find_peer(name, arrays)
    if peer is not None:
        ours, theirs = interleaved(lambda: tuned(*arrays), peer[1], rounds=51)
        row |= {
            "peer": peer[0],
            "tuned_beside_it_ms": ours * 1e3,
            "peer_ms": theirs * 1e3,
            "share_of_peer": theirs / ours,
        }
    print(json.dumps(row), flush=True)
    return row


WORK: dict[str, Callable[[], list[te.Tensor]]] = {"matmul": matmul, "conv2d": conv2d, "softmax": softmax}


def curves(search: str, seeds: int, trials: int) -> np.ndarray:
    """The best time after each trial, a row for each seed."""
    rows = []
    for seed in range(seeds):
        database = OUT / f"tuning-{search}-{seed}.sqlite"
        database.unlink(missing_ok=True)
        result = autotune.tune(matmul(), trials=trials, database=database, search=search, seed=seed)
        times = [trial.seconds if trial.seconds is not None else np.inf for trial in result.history]
        rows.append(np.minimum.accumulate(times))
        print(json.dumps({"search": search, "seed": seed, "best_ms": float(rows[-1][-1]) * 1e3}), flush=True)
    return np.array(rows)


def compare(seeds: int, trials: int) -> None:
    """The model against random search at equal trials, as a plot and as medians."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for search, colour in (("evolution", "tab:red"), ("random", "tab:gray")):
        milliseconds = curves(search, seeds, trials) * 1e3
        axes.plot(
            range(1, trials + 1),
            np.median(milliseconds, axis=0),
            color=colour,
            label=f"{search}, median of {seeds} seeds",
        )
        axes.fill_between(
            range(1, trials + 1), milliseconds.min(axis=0), milliseconds.max(axis=0), color=colour, alpha=0.15
        )
        print(
            json.dumps({"search": search, "median_best_ms": statistics.median(map(float, milliseconds[:, -1]))}),
            flush=True,
        )
    axes.set(xlabel="trials", ylabel="best so far, ms", yscale="log", title="matmul 512 x 512 x 512, float32")
    axes.legend()
    figure.savefig(OUT / "tuning.png", dpi=150, bbox_inches="tight")
    print(f"written to {(OUT / 'tuning.png').absolute()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", nargs="*", choices=[*WORK, []], help="default: all")
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=0, help="compare with random search over this many seeds")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    rows = [bench(name, WORK[name], options.trials) for name in options.work or WORK]
    (OUT / "tuning.json").write_text(json.dumps(rows, indent=1))
    if options.seeds:
        compare(options.seeds, options.trials)


if __name__ == "__main__":
    main()
