"""`make gpu`: every kernel of the tests and every piece of work is checked on this machine's GPU, a sample under compute-sanitizer;
what is large is timed beside torch, which calls cuBLAS and cuDNN, or cupy, and beside Triton; something is tuned. Ten minutes.

Writes out/gpu.json and out/gpu.html. Without a GPU it says what is missing, and no more. `--dry` goes the same way on the emulator
at small sizes, which says nothing of times; `--sample` checks a few kernels, for the sanitizer.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tilewright as tw
from rich.console import Console
from rich.table import Table
from tilewright import autotune
from tilewright.base.errors import CudaError
from tilewright.codegen.gpus import GPUS
from tilewright.runtime.cuda_binding import find_binding
from tilewright.runtime.cuda_driver import find_driver

from .gpu_works import COPY, WORK, Numpy, Peer, Torch, Work, find_peer, triton_peers

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/support"))
from gpu_programs import PROGRAMS, Program
from warpgroups import HOPPER

OUT = Path("out/gpu.json")
NOTHING_RAN = 3
SECONDS = 570.0
"""After which nothing more is begun."""
SAMPLE = ("vector_add", "transpose", "matmul", "mma_matmul", "softmax", "row_sums_four_warps", "two_kernels")
SAMPLE_90A = ("wgmma_by_boxes", "wgmma_by_roles", "wgmma_by_pairs")
EMULATED = "cuda -emulate -arch=sm_80"


def draw_inputs(tensors: Sequence[Any]) -> tuple[Program, list[np.ndarray]]:
    """Drawn inputs of a declared program, and the means to hold its output."""
    program = Program(None, list(tensors), lambda *_: np.empty(0))
    return program, program.inputs()


def check(name: str, target: str, peer: Peer) -> dict[str, Any]:
    """One program of the tests against numpy; "error" is "" where they agree."""
    program = (HOPPER if name in HOPPER else PROGRAMS)[name]()
    inputs = program.inputs()
    output = peer.put(program.output())
    error = ""
    try:
        tw.build(program.schedule, program.args, target=target)(*map(peer.put, inputs), output)
        expected, ours = program.reference(*inputs).astype("float64"), peer.get(output).astype("float64")
        np.testing.assert_allclose(ours, expected, rtol=program.tolerance, atol=program.tolerance)
    except (tw.TilewrightError, AssertionError) as fault:
        error = str(fault)
    return {"kernel": name, "error": error}


def check_work(work: Work, target: str, peer: Peer) -> dict[str, Any]:
    """Check the kernels of the rules for a piece of work at a small, odd size, against the processor's own kernel."""
    tensors = work.declare(work.small)
    program, inputs = draw_inputs(tensors)
    output, expected, error = peer.put(program.output()), program.output(), ""
    try:
        tw.build(tensors, target=target)(*map(peer.put, inputs), output)
        tw.build(tensors)(*inputs, expected)
        scale = max(float(np.abs(expected.astype("float64")).max()), 1.0)
        worst = float(np.abs(peer.get(output).astype("float64") - expected.astype("float64")).max()) / scale
        error = "" if worst <= work.tolerance else f"differs by {worst:.1e} of the largest"
    except tw.TilewrightError as fault:
        error = str(fault)
    return {"kernel": f"{work.name}, by rules", "error": error}


def measure(work: Work, size: int, target: str, peer: Peer, others: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """Times what the rules make of a piece of work, and the peers on the same inputs; all must agree. others: Triton's, by name."""
    tensors = work.declare(size)
    program, drawn = draw_inputs(tensors)
    kernel = tw.build(tensors, target=target)
    inputs, output = [peer.put(values) for values in drawn], peer.put(program.output())
    kernel(*inputs, output)
    theirs = None if peer.library is None else work.peer(peer.library, *inputs)
    seconds = kernel.time(*inputs, output).median
    row = {
        "work": work.name,
        "group": work.group,
        "size": size,
        "ms": seconds * 1e3,
        "rate": work.amount(size) / seconds / 1e9,
        "unit": work.unit,
        "peer": "",
        "peer_ms": None,
        "triton_ms": None,
        "agrees": None,
        "asked": work.asked,
    }
    if theirs is not None:
        ours, expected = peer.get(output).astype("float64"), peer.get(theirs).astype("float64")
        scale = max(float(np.abs(expected).max()), 1.0)
        row |= {
            "peer": peer.name,
            "peer_ms": peer.seconds(lambda: work.peer(peer.library, *inputs)) * 1e3,
            "agrees": bool(np.abs(ours - expected.reshape(ours.shape)).max() <= work.tolerance * scale),
        }
    if work.name in others:
        row["triton_ms"] = peer.seconds(lambda: others[work.name](*inputs)) * 1e3
    return row


def judge_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Judge by group how fast ours is, the peer being 1: the geometric mean; and of what memory binds, beside a copy and Triton."""
    found: list[dict[str, Any]] = []
    for group in dict.fromkeys(row["group"] for row in rows):
        own = [row for row in rows if row["group"] == group and row["asked"] is not None]
        for what, ratios in (
            ("the peer", [row["peer_ms"] / row["ms"] for row in own if row["peer_ms"]]),
            ("Triton", [row["triton_ms"] / row["ms"] for row in own if row["triton_ms"]]),
            ("a copy's bandwidth", _copy_ratios(rows, own)),
        ):
            if ratios:
                asked = 0.9 if what.startswith("a copy") else own[0]["asked"]
                mean = math.exp(statistics.fmean(map(math.log, ratios)))
                found.append({"what": f"{group}, beside {what}", "asked": asked, "is": mean, "holds": mean >= asked})
    return found


def _copy_ratios(rows: Sequence[dict[str, Any]], own: Sequence[dict[str, Any]]) -> list[float]:
    copy = next((row["peer_ms"] for row in rows if row["work"] == COPY.name and row["peer_ms"]), None)
    size = next((row["size"] for row in rows if row["work"] == COPY.name), 0)
    if copy is None:
        return []
    return [row["rate"] * copy * 1e-3 / (COPY.amount(size) / 1e9) for row in own if row["group"] == COPY.group]


def run_sanitizer(dry: bool) -> dict[str, Any]:
    """A sample of kernels under NVIDIA's compute-sanitizer, by each of its tools."""
    tool = shutil.which("compute-sanitizer")
    if tool is None or dry:
        return {"ran": False, "why": "compute-sanitizer is not on the path" if tool is None else "a dry run has no GPU"}
    results: dict[str, Any] = {"ran": True}
    for kind in ("memcheck", "racecheck", "synccheck"):
        command = [
            tool,
            "--tool",
            kind,
            "--error-exitcode",
            "9",
            sys.executable,
            "-m",
            "tools.benchmarks.gpu",
            "--sample",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            results[kind] = {"status": done.returncode, "said": done.stdout[-2000:]}
        except subprocess.TimeoutExpired:
            results[kind] = {"status": None, "said": "not done after a minute"}
    return results


def tuned(size: int, target: str, trials: int, folder: str) -> dict[str, Any]:
    """A tuning run of a product: timed on the GPU; ranked, in a dry run, since the emulator has no times."""
    product = next(work for work in WORK if work.group == "products").declare(size)
    result = autotune.tune(product, target, trials=trials, database=Path(folder) / "tune.sqlite", progress=False)
    comparison = None if result.comparison is None else str(result.comparison)
    return {
        "size": size,
        "trials": len(result.history),
        "ms": result.best.seconds * 1e3,
        "failures": result.failures,
        "machine": result.task.key.machine,
        "comparison": comparison,
    }


def best_target() -> str:
    """The target of this machine's GPU. Raises CudaError where nothing can run, saying what is missing."""
    find_binding()
    major, minor = find_driver().capability(0)
    here = major * 10 + minor
    known = [name for name in GPUS if (here == int(name[3:-1]) if name.endswith("a") else int(name[3:]) <= here)]
    if not known:
        raise CudaError(f"cannot run on this GPU: it is sm_{here}", reason="code is made for sm_80 and later")
    return f"cuda -arch={max(known, key=lambda name: (int(name[3:].rstrip('a')), name))}"


def show(console: Console, report: dict[str, Any]) -> None:
    table = Table("work", "size", "ours", "rate", "peer", "theirs", "ratio", "agree")
    for row in report["rows"]:
        theirs = row["peer_ms"]
        table.add_row(
            row["work"],
            str(row["size"]),
            f"{row['ms']:.4f} ms",
            f"{row['rate']:.0f} {row['unit']}",
            row["peer"],
            f"{theirs:.4f} ms" if theirs else "",
            f"{theirs / row['ms']:.2f}" if theirs else "",
            {True: "yes", False: "NO", None: ""}[row["agrees"]],
        )
    console.print(table)
    for line in report["judged"]:
        said = "holds" if line["holds"] else "MISSED"
        console.print(f"{said}: {line['what']}: {line['is']:.2f}, asked {line['asked']}", markup=False, highlight=False)
    checks = report["checks"]
    failed = [check for check in checks if check["error"]]
    console.print(f"{len(checks) - len(failed)} of {len(checks)} kernels agree", highlight=False)
    for check in failed:
        console.print(f"{check['kernel']}: {check['error']}", markup=False, highlight=False)


_PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tilewright on {target}</title>
<style>body{{font:15px system-ui;margin:2em auto;max-width:60em}}table{{border-collapse:collapse;margin-bottom:2em}}
td,th{{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}}.no{{color:#b00}}</style>
<h1>tilewright on {target}</h1><p>{said}</p><table>{judged}</table><table>{rows}</table>"""


def page_text(report: dict[str, Any]) -> str:
    """The report as a page."""

    def line(cells: Sequence[object], wrong: bool = False, tag: str = "td") -> str:
        return f"<tr{' class=no' if wrong else ''}>{''.join(f'<{tag}>{html.escape(str(cell))}</{tag}>' for cell in cells)}</tr>"

    judged = [
        line(("what", "asked", "is"), tag="th"),
        *(line((each["what"], each["asked"], f"{each['is']:.2f}"), not each["holds"]) for each in report["judged"]),
    ]
    rows = [line(("work", "size", "ms", "rate", "", "peer's ms", "Triton's ms"), tag="th")]
    for row in report["rows"]:
        times = [f"{row[key]:.4f}" if row[key] else "" for key in ("peer_ms", "triton_ms")]
        cells = (row["work"], row["size"], f"{row['ms']:.4f}", f"{row['rate']:.0f}", row["unit"], *times)
        rows.append(line(cells, row["agrees"] is False))
    checks, left_out = report["checks"], ", ".join(report["left_out"]) or "nothing"
    said = f"{sum(not each['error'] for each in checks)} of {len(checks)} kernels agree; left out: {left_out}"
    return _PAGE.format(
        target=html.escape(report["target"]), said=html.escape(said), judged="".join(judged), rows="".join(rows)
    )


def run(target: str, peer: Peer, dry: bool) -> dict[str, Any]:
    """The whole report. What there is no time for is listed as left out."""
    start = time.monotonic()
    names, works = (SAMPLE[:2], (WORK[0], COPY)) if dry else (tuple(PROGRAMS), WORK)
    names += tuple(HOPPER) if "sm_90a" in target else ()
    checks = [check(name, target, peer) for name in names] + [check_work(work, target, peer) for work in works]
    report: dict[str, Any] = {"ran": True, "dry": dry, "target": target, "checks": checks, "rows": [], "left_out": []}
    report["sanitizer"] = run_sanitizer(dry)
    with tempfile.TemporaryDirectory() as folder:
        sys.path.append(folder)
        others = triton_peers(folder) if isinstance(peer, Torch) and not dry else {}
        for work in works:
            if time.monotonic() - start > SECONDS - 60:
                report["left_out"].append(work.name)
                continue
            try:
                report["rows"].append(measure(work, work.small if dry else work.size, target, peer, others))
            except tw.TilewrightError as fault:
                report["checks"].append({"kernel": f"{work.name}, timed", "error": str(fault)})
        try:
            target_tuned = target.replace(" -emulate", "")
            report["tuning"] = tuned(48 if dry else 2048, target_tuned, 1 if dry else 16, folder)
        except tw.TilewrightError as fault:
            report["tuning"] = {"error": str(fault)}
        sys.path.remove(folder)
    report["judged"] = [] if dry else judge_rows(report["rows"])
    report["seconds"] = time.monotonic() - start
    return report


def main(arguments: Sequence[str] = ()) -> int:
    """The exit status: 3 where nothing could be run, 1 where something is wrong. What is slow is told, and is no failure."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.gpu")
    parser.add_argument("--dry", action="store_true", help="on the emulator, at small sizes")
    parser.add_argument("--arch", default="sm_80", choices=[*GPUS], help="of a dry run")
    parser.add_argument("--sample", action="store_true", help="check a few kernels, and no more")
    options = parser.parse_args(arguments)
    console = Console()
    OUT.parent.mkdir(exist_ok=True)
    try:
        target = EMULATED.replace("sm_80", options.arch) if options.dry else best_target()
    except CudaError as missing:
        why = "\n".join(line for line in str(missing).splitlines() if not line.startswith("  called at"))
        print(f"not run: {why}")
        OUT.write_text(json.dumps({"ran": False, "why": why}, indent=1))
        return NOTHING_RAN
    peer = Numpy() if options.dry else find_peer()
    if options.sample:
        sample = (*SAMPLE, *(SAMPLE_90A if "sm_90a" in target else ()))
        return int(any(check(name, target, peer)["error"] for name in sample))
    report = run(target, peer, options.dry)
    show(console, report)
    OUT.write_text(json.dumps(report, indent=1))
    OUT.with_suffix(".html").write_text(page_text(report))
    console.print(f"written to {OUT.absolute()}", highlight=False, markup=False)
    is_reported = any(each.get("status") == 9 for each in report["sanitizer"].values() if isinstance(each, dict))
    is_wrong = any(entry["error"] for entry in report["checks"]) or any(
        row["agrees"] is False for row in report["rows"]
    )
    return int(is_reported or is_wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
