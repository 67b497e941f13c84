"""`tilewright run --demo`: the main job on real input, from declaring to shipping.

A matrix product in six steps, and with a second program in none, by the schedules that tilewright chooses; a photograph
sharpened by a scheduled image pipeline, bit for bit as numpy does it; a schedule that the tuner finds; the pipeline as a library
that a C program calls; a network that a wheel ships, which tells the kinds of files, and from C too; a GPU kernel run by the
emulator. What needs a package or a compiler that is not there says so, and the rest goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ..base import dataclass, field
from ..codegen.cuda.errors import EmulatorUnavailable
from ..codegen.export.errors import NoLinker
from ..driver.build import build
from ..driver.schedule import schedule as autoschedule
from ..graph import Graph
from ..graph.errors import ModelPackageMissing
from ..graph.onnx import from_onnx
from ..runtime import num_threads
from . import gpu, library, matmul, model, paths, unsharp
from .clock import interleaved
from .picture import read_picture, write_png

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["main"]

SIZE = 1024
PATHS = 384
TUNED_SIZE, TRIALS = 512, 128
EMULATED_SIZE = 75


def main(folder: str = "out") -> int:
    """Run every part and leaves its files in `folder`. 0 when every result was right, else 1."""
    demo = Demo(Path(folder).absolute())
    demo.folder.mkdir(parents=True, exist_ok=True)
    image, kind = read_picture()
    demo.show_matmul()
    demo.show_unscheduled()
    demo.show_unsharp(image, kind)
    demo.show_tuning()
    demo.show_shipping(image)
    demo.show_model()
    demo.show_gpu()
    return demo.close()


@dataclass
class Demo:
    """State of the demo. rows: of the final table. files: what was written, with what it is."""

    folder: Path
    console: Console = field(default_factory=Console)
    rows: list[tuple[str, str, str, str, str]] = field(default_factory=list[tuple[str, str, str, str, str]])
    files: list[tuple[str, Path]] = field(default_factory=list[tuple[str, Path]])
    right: bool = True

    def title(self, text: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{text}", align="left")

    def quiet(self, text: str) -> None:
        self.console.print(text, style="dim", markup=False, highlight=False)

    def note(self, what: str, seconds: float, speed: str, ratio: str, right: bool, result: str) -> None:
        """A row of the table, shown at once as a line too."""
        self.right &= right
        self.rows.append((what, f"{seconds * 1e3:.2f} ms", speed, ratio, result if right else f"WRONG: {result}"))
        self.console.print(
            f"   {' · '.join(part for part in self.rows[-1][1:] if part)}", markup=False, highlight=False
        )

    def show_matmul(self) -> None:
        """The six steps, each with its primitives, checked against numpy's product."""
        self.title(f"1. matmul {SIZE} × {SIZE} × {SIZE}, float32, {num_threads()} threads")
        for number, (name, step) in enumerate(matmul.STEPS.items(), 1):
            program = step(SIZE)
            self.console.print(f"\n[bold]{name}[/]: {step.__doc__}", highlight=False)
            self.quiet(program.schedule.as_python())
            self.race(name, program, SIZE, rounds=1 if number == 1 else 7)

    def show_unscheduled(self) -> None:
        """The same product, and a program that no operator names, without a word about how."""
        self.title("2. without a schedule: declarations alone")
        args = list(matmul.declare(SIZE))
        self.race("declared", matmul.Step(autoschedule(args[2]), args), SIZE, rounds=7)
        a, b, c = paths.declare(PATHS)
        self.console.print(f"\n{paths.__doc__}", highlight=False)
        self.quiet(str(autoschedule(c).plan))
        f = build([a, b, c], name="paths")
        rng = np.random.default_rng(0)
        one, two = (rng.random((PATHS, PATHS), dtype=np.float32) for _ in range(2))
        got = np.empty_like(one)
        f(one, two, got)
        same = bool((got == paths.reference(one, two)).all())
        ours, numpys = interleaved(lambda: f(one, two, got), lambda: paths.reference(one, two), rounds=5)
        speed = f"{2 * PATHS**3 / ours / 1e9:.1f} Gop/s"
        self.note(
            f"longest paths {PATHS}, declared", ours, speed, f"{numpys / ours:.1f} × numpy", same, "numpy's to the bit"
        )

    def race(self, name: str, program: matmul.Step, size: int, rounds: int) -> None:
        """Build a product and times it against numpy's, in turn."""
        rng = np.random.default_rng(0)
        a, b = (rng.random((size, size), dtype=np.float32) - 0.5 for _ in range(2))
        want, got, scratch = a @ b, np.full((size, size), np.nan, np.float32), np.empty((size, size), np.float32)
        f = build(program.schedule, program.args, name="product")
        f(a, b, got)
        error = float(np.abs(got - want).max())
        ours, numpys = interleaved(lambda: f(a, b, got), lambda: np.matmul(a, b, out=scratch), rounds=rounds)
        self.note(
            f"matmul {size}, {name}",
            ours,
            f"{2 * size**3 / ours / 1e9:.1f} GFLOP/s",
            f"{numpys / ours:.2f} × numpy",
            error < 1e-3,
            f"within {error:.0e}",
        )

    def show_unsharp(self, image: NDArray[Any], kind: str) -> None:
        """The picture sharpened, compared to the bit, before and after as pictures."""
        self.title(f"3. unsharp mask of {kind}, {' × '.join(map(str, image.shape))}, uint8")
        schedule, args = unsharp.scheduled(*image.shape)
        self.quiet(schedule.as_python())
        f = build(schedule, args, name="unsharp")
        sharp = np.empty_like(image)
        f(image, sharp)
        same = bool((sharp == unsharp.reference(image)).all())
        ours, numpys = interleaved(lambda: f(image, sharp), lambda: unsharp.reference(image), rounds=7)
        self.note(
            "unsharp mask",
            ours,
            f"{image.size / ours / 1e6:.0f} MB/s",
            f"{numpys / ours:.1f} × numpy",
            same,
            "numpy's to the bit",
        )
        for what, name, picture in (("before", "picture.png", image), ("after", "picture-sharpened.png", sharp)):
            write_png(self.folder / name, picture)
            self.files.append((what, self.folder / name))

    def show_tuning(self) -> None:
        """A schedule found for the bare declaration, beside the naive and the hand-written one."""
        from .. import autotune

        self.title(f"4. tuning matmul {TUNED_SIZE} from its declaration, {TRIALS} trials (about a minute)")
        database = self.folder / "tune.sqlite"
        args = list(matmul.declare(TUNED_SIZE))
        result = autotune.tune(args, trials=TRIALS, database=database)
        self.quiet(result.schedule.as_python())
        self.race("naive", matmul.naive(TUNED_SIZE), TUNED_SIZE, rounds=3)
        self.race("by hand", matmul.parallel(TUNED_SIZE), TUNED_SIZE, rounds=15)
        self.race("tuned", matmul.Step(result.schedule, args), TUNED_SIZE, rounds=15)
        self.files.append(("records", database))

    def show_shipping(self, image: NDArray[Any]) -> None:
        """The pipeline as a library, called by a C program."""
        self.title("5. the unsharp mask as a library, called from C")
        f = build(*unsharp.scheduled(*image.shape), name="unsharp")
        where = self.folder / "library"
        try:
            self.files += [("library", path) for path in library.write_library(f, where)]
        except NoLinker as error:
            self.quiet(str(error))
            return
        ran = library.run_from_c(image, where)
        if ran is None:
            self.quiet("no C compiler on this machine: the library is written, and nothing calls it here")
            return
        sharp, seconds = ran
        same = bool((sharp == unsharp.reference(image)).all())
        self.note(
            "unsharp mask, from C", seconds, f"{image.size / seconds / 1e6:.0f} MB/s", "", same, "numpy's to the bit"
        )
        self.files.append(("C program", where / "program.c"))

    def show_model(self) -> None:
        """A network of ONNX that tells the kinds of files, as one native call, and from C."""
        self.title("6. a model that a wheel ships, told what this demo has written")
        source = model.model_folder()
        if source is None:
            self.quiet("pip install --no-deps magika for its model, and 'tilewright[models]' to read it")
            return
        written = {
            self.folder / "picture.png": "png",
            Path(model.__file__): "python",
            self.folder / "library" / "program.c": "c",
        }
        paths = [path for path in written if path.exists()]
        try:
            g = from_onnx(source / "model.onnx", shapes={"bytes": (1, 2 * model.ENDS)})
        except ModelPackageMissing as error:
            self.quiet(str(error))
            return
        assert isinstance(g, Graph)
        m, names = build(g), model.class_names(source)
        self.quiet(
            f"{len(g.nodes)} nodes, {len(g.params)} parameters; {sum(m.kernels.values())} kernels, {m.arena_bytes} bytes"
        )
        rows = [model.taken(path.read_bytes()) for path in paths]
        told = [names[int(np.argmax(m(row)))] for row in rows]
        right = told == [written[path] for path in paths] and bool(m.verify(rows[0]))
        seconds = m.time(rows[0]).min
        self.note("file types, a network", seconds, f"{1 / seconds:.0f} files/s", "", right, ", ".join(told))
        where = self.folder / "model"
        where.mkdir(parents=True, exist_ok=True)
        try:
            self.files += [("model", path) for path in m.export(where / "libfiletype.so")]
        except NoLinker as error:
            self.quiet(str(error))
            return
        in_c = model.run_from_c(where, names, paths)
        self.right &= in_c in (None, told)
        self.console.print(
            f"   from C: {', '.join(in_c) if in_c else 'no compiler here'}", markup=False, highlight=False
        )

    def show_gpu(self) -> None:
        """A tiled product in CUDA C, run thread by thread by the emulator, which looks for races and bad accesses."""
        self.title(f"7. a GPU kernel, matmul {EMULATED_SIZE}, run by the emulator")
        schedule, args = gpu.tiled(EMULATED_SIZE)
        try:
            f = build(schedule, args, target="cuda -emulate", name="tiled")
        except EmulatorUnavailable as error:
            self.quiet(str(error))
            return
        source = self.folder / "tiled.cu"
        source.write_text(f.source("cuda"))
        self.files.append(("CUDA C", source))
        self.quiet("\n".join(source.read_text().splitlines()[2:14]) + "\n  ...")
        (launch,) = f.kernels
        self.quiet(f"{launch.name}: grid {launch.grid}, block {launch.block}")
        rng = np.random.default_rng(0)
        a, b = (rng.random((EMULATED_SIZE, EMULATED_SIZE), dtype=np.float32) for _ in range(2))
        got = np.empty_like(a)
        f(a, b, got)
        error = float(np.abs(got - a @ b).max())
        emulated, _ = interleaved(lambda: f(a, b, got), lambda: None, rounds=3)
        self.note("GPU matmul, emulated", emulated, "", "", error < 1e-3, f"no race, within {error:.0e}")

    def close(self) -> int:
        """The table of everything and where the files are."""
        table = Table("what", "time", "speed", "against numpy", "result", title="tilewright demo", title_justify="left")
        for row in self.rows:
            table.add_row(*row)
        self.console.print()
        self.console.print(table)
        for what, path in self.files:
            self.console.print(f"{what + ':':12}{path}", markup=False, highlight=False)
        return 0 if self.right else 1
