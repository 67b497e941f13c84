"""Writes docs/errors.md: every error that tilewright raises, by its code, from the classes themselves."""

from __future__ import annotations

import importlib
from pathlib import Path

from tilewright.errors import CATALOGUE, TilewrightError

ROOT = Path(__file__).resolve().parent.parent
SERIES = {
    "01": "Tensor expressions", "02": "Schedules", "03": "Lowering and the loop IR", "04": "Code generation",
    "05": "Calls", "06": "Tuning and records", "07": "Export and loading", "08": "CUDA",
}


def load_every_error() -> dict[str, type[TilewrightError]]:
    """The catalogue after every module that declares errors has been imported."""
    for path in sorted(ROOT.rglob("*errors.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] not in ("tests", "docs") and not any(part.startswith(".") or part == "build" for part in parts):
            importlib.import_module(".".join(("tilewright", *parts)))
    return dict(sorted(CATALOGUE.items()))


def render() -> str:
    """The page."""
    lines = ["# Errors", "", "Every error names its subject, the reason, and a fix; `error.code` tells it apart.", ""]
    series = ""
    for code, error in load_every_error().items():
        if code[2:4] != series:
            series = code[2:4]
            lines += [f"## TW{series}xx: {SERIES[series]}", "", "| code | class | family | what went wrong |", "|---|---|---|---|"]
        summary = " ".join((error.__doc__ or "").split())
        lines.append(f"| {code} | `{error.__name__}` | `{error.family()}` | {summary} |")
        following = [c for c in CATALOGUE if c > code]
        if not following or min(following)[2:4] != series:
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "errors.md").write_text(render())
