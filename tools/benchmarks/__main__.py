"""`python -m tools.benchmarks`: what importing, compiling and calling cost, as a table and as out/costs.json."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

OUT = Path("out")


def main() -> None:
    console = Console()
    overheads = f"{__package__}.overheads"
    done = subprocess.run([sys.executable, "-m", overheads], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{overheads} ended with status {done.returncode}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    costs = Table("cost", "measured", "bar")
    for row in rows:
        unit, scale = ("µs", 1e3) if row["bar_ms"] < 0.1 else ("ms", 1)
        costs.add_row(row["cost"], f"{row['ms'] * scale:.3f} {unit}", f"{row['bar_ms'] * scale:.3f} {unit}")
    console.print(costs)
    OUT.mkdir(exist_ok=True)
    (OUT / "costs.json").write_text(json.dumps(rows, indent=1))
    console.print(f"written to {(OUT / 'costs.json').absolute()}", highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
