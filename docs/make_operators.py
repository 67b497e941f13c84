"""Write docs/operator-table.md, the page of operators, from the rows of topi: `python docs/make_operators.py`."""

from __future__ import annotations

from pathlib import Path

from tilewright.topi.row import MANY, REQUIRED, Operator, load_rows

PAGE = Path(__file__).parent / "operator-table.md"

HEAD = """# Table of operators

Written by docs/make_operators.py from the rows of topi (`topi/row.py`), which graphs, gradients, importers, the fuzzer and tests read.
Inputs are tensors, in order; attributes have their defaults behind them, and those without must be given. Fusion: *elementwise*
operators, and *injective* ones, which move elements, join the kernel before or behind them; *rows* reduce rows, and are one kernel
with others that do; *heavy* ones are kernels of their own, with what follows them. The derivative is the row's formula, or a rule of
graph/gradient or te.gradient's.

| node | function | inputs | attributes | fusion | derivative |
|---|---|---|---|---|---|
"""


def render_page() -> str:
    """Return the page."""
    return HEAD + "".join(_render_row(row) for row in load_rows().values())


def _render_row(row: Operator) -> str:
    least, most = row.inputs
    count = f"{least} or more" if most == MANY else f"{least}" if least == most else f"{least} to {most}"
    attributes = ", ".join(
        name if default is REQUIRED else f"{name}={default!r}" for name, default in row.attributes.items()
    )
    cells = (
        f"`{row.name}`",
        f"`{row.face}`" if row.face else "",
        count,
        f"`{attributes}`" if attributes else "",
        row.fusion,
        "formula" if row.derivative is not None else "rule or te.gradient",
    )
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(render_page())
