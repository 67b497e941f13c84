"""`make bench`: every benchmark, kernels on one thread and on two, as a table and as out/bench.json."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

OUT = Path("out")


def collect(module: str, threads: int, console: Console) -> list[dict[str, Any]]:
    """Runs one module in a process of its own, with as many threads for everyone in it."""
    count = str(threads)
    environment = {**os.environ, "OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    rows = []
    with subprocess.Popen([sys.executable, "-m", module], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            rows.append(json.loads(line))
            console.print(f"  {rows[-1]}", style="dim", highlight=False, markup=False)
    if process.returncode:
        sys.exit(f"{module} ended with status {process.returncode}")
    return rows


def main() -> None:
    console = Console()
    kernels = [row for threads in (1, 2) for row in collect("benchmarks.kernels", threads, console)]
    overheads = collect("benchmarks.overheads", 2, console)
    table = Table("work", "threads", "ours", "peer", "theirs", "ratio", "of the ceiling")
    for row in kernels:
        share = row["share_of_ceiling"]
        table.add_row(
            row["work"], str(row["threads"]), f"{row['ours_ms']:.3f} ms", row["peer"], f"{row['peer_ms']:.3f} ms",
            f"{row['ratio']:.2f}", f"{share:.0%}" if share else "",
        )
    costs = Table("cost", "measured", "bar")
    for row in overheads:
        unit, scale = ("µs", 1e3) if row["bar_ms"] < 0.01 else ("ms", 1)
        costs.add_row(row["cost"], f"{row['ms'] * scale:.3f} {unit}", f"{row['bar_ms'] * scale:.3f} {unit}")
    console.print(table, costs)
    OUT.mkdir(exist_ok=True)
    (OUT / "bench.json").write_text(json.dumps({"kernels": kernels, "overheads": overheads}, indent=1))
    console.print(f"written to {(OUT / 'bench.json').absolute()}", highlight=False, markup=False)


if __name__ == "__main__":
    main()
