"""`make pack`: builds here, without a GPU, what is to be tried on one: a folder of libraries and probe.py, which runs them there.

    python -m tools.gpu_pack.pack out/gpu_pack [--arch sm_80,sm_90a] [--only WORD]

The folder holds cases.json (what each library takes, what it is compared with), NAME.so, the machine code of each architecture, of
which probe.py asks the driver how many blocks run at once, and for small programs NAME.npz with inputs and the expected output.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te, topi
from tilewright.codegen.gpus import GPUS

from ..benchmarks.gpu_works import LAYERS, WORK, Work

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/support"))
from gpu_programs import PROGRAMS, Program
from warpgroups import HOPPER

ARCHITECTURES = ("sm_80", "sm_90a")
"""Whose machine code the libraries have; others compile the portable code of the first."""
_KINDS = {
    "copy": "copy",
    "add": "add",
    "transpose": "transpose",
    "sums of rows": "row_sums",
    "softmax": "softmax",
    "layer norm": "layer_norm",
    "attention": "attention",
    "attention, causal": "attention_causal",
}


@dataclass(frozen=True)
class Case:
    """A library, as probe.py knows it. arguments: shape and dtype of each, the output last. reference: how probe.py computes the same,
    with its options; "file": from NAME.npz. amount: operations or bytes of a call, in units of 10^-9 `unit`. code: by architecture,
    of each kernel its file, name, threads and bytes of shared memory."""

    name: str
    group: str
    arguments: list[tuple[list[int], str]]
    reference: str
    options: dict[str, Any]
    tolerance: float
    amount: float = 0.0
    unit: str = ""
    asked: float | None = None
    code: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])


@dataclass(frozen=True)
class Made:
    """A case and what it is built from: a program of the tests, or tensors that the rules schedule."""

    case: Case
    what: Callable[[], Program] | Callable[[], list[Any]]
    architectures: tuple[str, ...]


def _shapes(tensors: Sequence[Any]) -> list[tuple[list[int], str]]:
    return [([int(extent) for extent in each.shape], str(each.dtype)) for each in tensors]


def _identifier(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def _program(name: str, make: Callable[[], Program], architectures: tuple[str, ...]) -> Made:
    program = make()
    case = Case(f"p_{name}", "programs", _shapes(program.args), "file", {}, program.tolerance)
    return Made(case, make, architectures)


def _work(work: Work, kind: str, options: dict[str, Any], architectures: tuple[str, ...]) -> Made:
    def declare() -> list[Any]:
        return work.declare(work.size)

    case = Case(
        _identifier(work.name),
        work.group,
        _shapes(declare()),
        kind,
        options,
        work.tolerance,
        work.amount(work.size),
        work.unit,
        work.asked,
    )
    return Made(case, declare, architectures)


def _product(shape: tuple[int, int, int], dtype: str, columns: bool = False) -> Callable[[int], list[Any]]:
    """Product of matrices added up in float32 and rounded once; columns: B lies by columns."""
    m, n, k = shape

    def declare(_: int) -> list[Any]:
        a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((n, k) if columns else (k, n), dtype, name="B")
        r = te.reduce_axis((0, k), "r")

        def term(i: Any, j: Any) -> Any:
            right = b[j, r] if columns else b[r, j]
            return te.sum(a[i, r].astype("float32") * right.astype("float32"), axis=r)

        sums = te.compute((m, n), term, name="sums")
        return [a, b, te.compute((m, n), lambda i, j: sums[i, j].astype(dtype), name="C")]

    return declare


def _attention(heads: int, length: int, depth: int) -> Callable[[int], list[Any]]:
    def declare(_: int) -> list[Any]:
        q, k, v = (te.placeholder((heads, length, depth), "float16", name=name) for name in "qkv")
        return [q, k, v, topi.nn.attention(q, k, v, causal=True)]

    return declare


def _further() -> Iterator[tuple[Work, str]]:
    """Work beside that of `make gpu`: other dtypes, layouts, and sizes that no tile divides."""
    for name, shape, dtype, columns in (
        ("matmul bfloat16 4096", (4096, 4096, 4096), "bfloat16", False),
        ("matmul float16 8192, B by columns", (8192, 8192, 8192), "float16", True),
        ("matmul float16 1000", (1000, 1000, 1000), "float16", False),
        ("matmul float16 1001 x 1003 x 1005", (1001, 1003, 1005), "float16", False),
    ):
        declare = _product(shape, dtype, columns)
        amount = 2.0 * prod(shape)
        kind = "matmul_columns" if columns else "matmul"
        yield (
            Work(name, "half products", declare, lambda *_: None, lambda _, a=amount: a, "GFLOP/s", tolerance=2e-2),
            kind,
        )
    name, amount = "attention 128, causal", 2.0 * 16 * 4096 * 4096 * 128
    work = Work(
        name,
        "attention",
        _attention(16, 4096, 128),
        lambda *_: None,
        lambda _: amount,
        "GFLOP/s",
        asked=0.7,
        tolerance=2e-2,
    )
    yield work, "attention_causal"


def cases(architectures: tuple[str, ...]) -> list[Made]:
    """All that is tried: first the small programs by hand, then work that is timed."""
    made: list[Made] = []
    if "sm_90a" in architectures:
        made += [_program(name, make, ("sm_90a",)) for name, make in HOPPER.items()]
    made += [_program(name, make, architectures) for name, make in PROGRAMS.items()]
    layers = iter(LAYERS)
    for work in WORK:
        if work.name.startswith("conv"):
            _, _, _, window, stride = next(layers)
            made.append(_work(work, "conv", {"stride": stride, "padding": window // 2}, architectures))
        else:
            made.append(_work(work, _KINDS.get(work.name, "matmul"), {}, architectures))
    return made + [_work(work, kind, {}, architectures) for work, kind in _further()]


def build(made: Made, folder: Path) -> Case:
    """The library of a case, its machine code, and the case with what that is."""
    what, case = made.what(), made.case
    if isinstance(what, Program):
        _write_expected(what, folder / f"{case.name}.npz")
    given = (what.schedule, what.args) if isinstance(what, Program) else (what, None)
    targets = [f"cuda -arch={arch}" for arch in made.architectures]
    library = tw.Library(case.name)
    library.add(case.name, *given, target=targets)
    with tempfile.TemporaryDirectory() as beside:  # headers and the like stay there
        written = Path(beside, f"{case.name}.so")
        library.export(written)
        shutil.copy(written, folder)
    for arch, target in zip(made.architectures, targets, strict=True):
        kernel = tw.build(*given, target=target, name=case.name)
        file = f"{case.name}.{arch}.cubin"
        (folder / file).write_bytes(kernel.kernels[0].code.compiled.cubin)
        case.code[arch] = [
            {"file": file, "name": each.name, "threads": prod(each.block), "shared": each.dynamic_shared_bytes}
            for each in kernel.kernels
        ]
    return case


def _write_expected(program: Program, path: Path) -> None:
    """Inputs, 16-bit floats that numpy has no name for as their bits, and the output in float64."""
    inputs = program.inputs()
    plain = [each.view(np.uint16) if each.dtype.name == "bfloat16" else each for each in inputs]
    expected = np.asarray(program.reference(*inputs)).astype("float64")
    np.savez_compressed(path, *plain, expected=expected)


def _build_one(name: str, architectures: tuple[str, ...], folder: str) -> tuple[dict[str, Any] | None, str, float]:
    begin = time.monotonic()
    made = next(each for each in cases(architectures) if each.case.name == name)
    try:
        case, why = asdict(build(made, Path(folder))), ""
    except tw.TilewrightError as error:
        case, why = None, str(error)
    return case, why, time.monotonic() - begin


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 where something could not be built, which is told, and is not a part of the pack."""
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_pack.pack")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default=",".join(ARCHITECTURES), help="with commas between them: " + ", ".join(GPUS))
    parser.add_argument("--only", default="", help="cases whose names contain a word")
    options = parser.parse_args(arguments)
    architectures = tuple(options.arch.split(","))
    folder: Path = options.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = [each.case.name for each in cases(architectures) if options.only in each.case.name]
    built: list[dict[str, Any]] = []
    failed = 0
    with ProcessPoolExecutor() as pool:
        runs = [(name, pool.submit(_build_one, name, architectures, str(folder))) for name in names]
        for name, run in runs:
            case, why, seconds = run.result()
            failed += case is None
            built += [case] if case is not None else []
            print(f"{name}: {seconds:.1f} s" if case is not None else f"{name}: NOT BUILT\n{why}", flush=True)
    (folder / "cases.json").write_text(json.dumps(built))
    shutil.copy(Path(__file__).with_name("probe.py"), folder)
    size = sum(each.stat().st_size for each in folder.iterdir()) / 1e6
    print(f"{len(built)} cases, {size:.1f} MB in {folder}: on the machine with a GPU, python3 {folder.name}/probe.py")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
