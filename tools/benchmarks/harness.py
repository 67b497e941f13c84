"""`tilewright bench`: cases on one thread and on two, as a table, as JSON and as a page."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tilewright.runtime.threads import available_cpus

from .cases import Case, groups, load_cases
from .estimate import PICTURE
from .measure import CHEATING, REALTIME, SEED
from .page import render

__all__ = ["listing", "main", "run_cases", "table"]

OUT = Path("out")
THREADS = (1, 2)

Row = dict[str, Any]


def main(
    wanted: Sequence[str],
    *,
    everything: bool = False,
    out: Path = OUT,
    threads: Sequence[int] = THREADS,
    realtime: bool = False,
    seed: int = 0,
    console: Console | None = None,
) -> int:
    """Measures the cases of these groups (or "group name"), prints and writes what came out; lists them for none. realtime:
    the machine's other programs wait, as far as the system allows. seed: of the shapes that are drawn.

    Returns 0; 1 where a kernel of ours did not run or gave something else than its peers; 2 for a name that nobody has.
    """
    console = console or Console(width=None if sys.stdout.isatty() else 160)
    try:
        cases = load_cases(wanted, seed)
    except KeyError as unknown:
        console.print(f"tilewright bench: no case or group {unknown}; `tilewright bench` lists them", markup=False)
        return 2
    if not wanted and not everything:
        console.print(listing(cases))
        return 0
    rows: list[Row] = []
    for row in run_cases(cases, threads, realtime, seed):
        rows.append(row)
        console.print(
            f"  [{len(rows)}/{len(cases) * len(threads)}] {_line(row)}",
            style="dim",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    console.print(*(table(name, [row for row in rows if row["group"] == name]) for name in groups(cases)))
    for path in _write_figures(
        rows, out, "bench" if everything else "bench-" + "-".join(dict.fromkeys(c.group for c in cases))
    ):
        console.print(f"written to {path.absolute()}", highlight=False, markup=False, soft_wrap=True)
    return 1 if any("failed" in row for row in rows) else 0


def listing(cases: Sequence[Case]) -> Table:
    """The groups, and what is in them."""
    table = Table("group", "cases", box=None)
    for name, members in groups(cases).items():
        table.add_row(name, ", ".join(case.name for case in members))
    return table


def run_cases(
    cases: Sequence[Case], threads: Sequence[int] = THREADS, realtime: bool = False, seed: int = 0
) -> Iterator[Row]:
    """The rows, as they come: all cases on each number of threads, in a process for each number. Where one dies, the case
    that it died of is a failed row, and another process goes on after it."""
    for count in threads:
        left = list(cases)
        while left:
            yield from _one_process(left, count, {REALTIME: str(int(realtime)), SEED: str(seed)})


def _one_process(left: list[Case], count: int, options: Mapping[str, str]) -> Iterator[Row]:
    """The rows of one process, until all is done or it dies; takes what is done out of `left`."""
    command = [sys.executable, "-m", f"{__package__}.measure", *(case.label for case in left)]
    environment = _environment(count) | options
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                left.pop(0)
                yield json.loads(line)
    if left:
        case = left.pop(0)
        yield {
            "group": case.group,
            "name": case.name,
            "threads": count,
            "ceiling": case.ceiling,
            "failed": f"the process ended with status {process.returncode}",
        }


def _environment(count: int) -> dict[str, str]:
    """Set as many threads for everyone, which do not spin into the turn of the next: OpenBLAS's would for 2^26 cycles."""
    names = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "HL_NUM_THREADS",
        "NPROC",
    )
    return {
        **os.environ,
        **dict.fromkeys(names, str(count)),
        "OPENBLAS_THREAD_TIMEOUT": "24",
        "PYTHONWARNINGS": "ignore",
    }


# What is shown


def _line(row: Row) -> str:
    if "failed" in row:
        return f"{row['group']} {row['name']}, {row['threads']} threads: {row['failed']}"
    best = ""
    if row["best"]:
        best = f"; best peer {row['best']} {row['peers'][row['best']]['ms']:.4g} ms, ratio {row['ratio']:.3f}{_spread(row)}"
    share = _share(row, ", {} of the ceiling")
    return f"{row['group']} {row['name']}, {row['threads']} threads: {row['ours_ms']:.4g} ms{best}{share}"


def _share(row: Row, text: str = "{}") -> str:
    return text.format(f"{row['share']:.0%} {row['ceiling']}") if row.get("share") else ""


def table(name: str, rows: Sequence[Row]) -> Table:
    """The rows of a group: times in ms, ratio above 1 where ours is faster than the best peer."""
    peers = peer_names(rows)
    grid = Table(title=name, title_justify="left")
    exact = any(row.get("exact") for row in rows)
    for heading in ("shape", "threads", "ours", *["exact"][:exact], *peers, "ratio", "of the ceiling"):
        grid.add_column(heading, justify="left" if heading == "shape" else "right", no_wrap=True)
    for row in rows:
        if "failed" in row:
            grid.add_row(row["name"], str(row["threads"]), "failed", *[""] * (len(peers) + exact), "", "")
            continue
        times = (_time(row, peer) for peer in peers)
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}{_spread(row)}"
        grid.add_row(
            row["name"], str(row["threads"]), f"{row['ours_ms']:.4g}", *[_cost(row)][:exact], *times, ratio, _share(row)
        )
    return grid


def _spread(row: Row) -> str:
    return f" ±{row['spread']:.0%}" if row.get("spread") is not None else ""


def _cost(row: Row) -> str:
    return f"x{row['exact']:.2f}" if row.get("exact") else ""


def peer_names(rows: Sequence[Row]) -> list[str]:
    """All peers of these rows, in order of appearance."""
    named = (peer for row in rows for peer in (*row.get("peers", {}), *row.get("missing", {})))
    return list(dict.fromkeys(peer for peer in named if peer not in ("ours", "exact")))


def _time(row: Row, peer: str) -> str:
    timing = row["peers"].get(peer)
    if timing is None:
        return "–" if peer not in row["missing"] else "n/a" if "install" in row["missing"][peer] else "no"
    cheats = "*" if timing["busy"] > row["threads"] + CHEATING else ""  # it used more threads than it was given
    return f"{timing['ms']:.4g}{cheats}"


def _write_figures(rows: Sequence[Row], out: Path, stem: str) -> Iterator[Path]:
    about = describe_machine()
    out.mkdir(parents=True, exist_ok=True)
    figures, page = out / f"{stem}.json", out / f"{stem}.html"
    figures.write_text(json.dumps({"about": about, "rows": rows}, indent=1))
    yield figures
    estimates = out / PICTURE
    page.write_text(render(about, rows, estimates.read_text(encoding="utf-8") if estimates.is_file() else ""))
    yield page


def describe_machine() -> Mapping[str, str]:
    """The machine and the versions of everyone."""
    from importlib.metadata import PackageNotFoundError, version

    from llvmlite import binding

    description = {
        "time": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{binding.get_host_cpu_name()}, {available_cpus()} processors, {platform.system()} {platform.release()}",
        "Python": platform.python_version(),
    }
    for package in (
        "tilewright",
        "numpy",
        "torch",
        "onnxruntime",
        "numba",
        "jax",
        "halide",
        "openvino",
        "opencv-python-headless",
    ):
        try:
            description[package] = version(package)
        except PackageNotFoundError:
            continue
    return description
