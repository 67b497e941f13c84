"""`tilewright run --demo`: the main job on real input.

A matrix product in six steps, each with its primitives, its speed and its ratio to numpy; then a photograph sharpened
by a scheduled image pipeline, bit for bit as numpy does it. Needs scikit-image, for its bundled photographs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from ..driver import build
from ..runtime import num_threads
from . import matmul, unsharp
from .clock import interleaved

__all__ = ["main"]

SIZE = 1024


def main(folder: str = "out") -> int:
    """Runs both parts and writes the pictures to `folder`. 0 when every result was right, else 1."""
    console = Console()
    try:
        from skimage import data, io
    except ImportError as error:
        console.print(f"the demo needs a photograph from scikit-image: {error}\nfix: pip install scikit-image", markup=False)
        return 1
    table = Table("what", "time", "speed", "against numpy", "result", title="tilewright demo", title_justify="left")
    right = show_matmul(console, table)
    out = Path(folder).absolute()
    out.mkdir(parents=True, exist_ok=True)
    image = data.retina()
    sharp, same = show_unsharp(console, table, image)
    before, after = out / "photograph.png", out / "photograph-sharpened.png"
    io.imsave(before, image, check_contrast=False)
    io.imsave(after, sharp, check_contrast=False)
    console.print(table)
    console.print(f"before: {before}\nafter:  {after}", highlight=False, markup=False)
    return 0 if right and same else 1


def show_matmul(console: Console, table: Table) -> bool:
    """The six steps, each printed as it is done. Whether every product agreed with numpy's."""
    rng = np.random.default_rng(0)
    a, b = (rng.random((SIZE, SIZE), dtype=np.float32) - 0.5 for _ in range(2))
    want, got, scratch = a @ b, np.empty((SIZE, SIZE), np.float32), np.empty((SIZE, SIZE), np.float32)
    console.rule(f"[bold]matmul {SIZE} × {SIZE} × {SIZE}, float32, {num_threads()} threads", align="left")
    everything_right = True
    for number, step in enumerate(matmul.STEPS, 1):
        made = step(SIZE)
        console.print(f"\n[bold]{number}. {step.__name__}[/]: {step.__doc__}", highlight=False)
        console.print(made.schedule.as_python(), style="dim", markup=False, highlight=False)
        f = build(made.schedule, made.args, name=step.__name__)
        got.fill(np.nan)
        f(a, b, got)
        error = float(np.abs(got - want).max())
        right = error < 1e-3
        everything_right &= right
        rounds = 1 if number == 1 else 7
        ours, numpys = interleaved(lambda f=f: f(a, b, got), lambda: np.matmul(a, b, out=scratch), rounds=rounds)
        speed = f"{2 * SIZE**3 / ours / 1e9:7.1f} GFLOP/s"
        verdict = f"right, to {error:.0e}" if right else f"WRONG by {error:.0e}"
        console.print(f"   {speed}, {numpys / ours:.2f} × numpy, {verdict}", markup=False, highlight=False)
        table.add_row(f"matmul {number}. {step.__name__}", f"{ours * 1e3:8.2f} ms", speed, f"{numpys / ours:.2f} ×", verdict)
    return everything_right


def show_unsharp(console: Console, table: Table, image: np.ndarray) -> tuple[np.ndarray, bool]:
    """The sharpened photograph, and whether it is numpy's to the bit."""
    height, width, channels = image.shape
    console.rule(f"[bold]unsharp mask of a photograph, {height} × {width} × {channels}, uint8", align="left")
    schedule, args = unsharp.scheduled(height, width, channels)
    console.print(schedule.as_python(), style="dim", markup=False, highlight=False)
    f = build(schedule, args, name="unsharp")
    sharp = np.empty_like(image)
    f(image, sharp)
    same = bool((sharp == unsharp.reference(image)).all())
    ours, numpys = interleaved(lambda: f(image, sharp), lambda: unsharp.reference(image), rounds=7)
    speed = f"{image.size / ours / 1e6:7.0f} MB/s"
    verdict = "bit for bit numpy's" if same else "WRONG"
    console.print(f"   {speed}, {numpys / ours:.1f} × numpy, {verdict}\n", markup=False, highlight=False)
    table.add_row("unsharp mask", f"{ours * 1e3:8.2f} ms", speed, f"{numpys / ours:.1f} ×", verdict)
    return sharp, same
