"""Writes docs/errors.md and docs/errors/: every error that tilewright raises, by its code, from the classes themselves and
from the programs of docs/error_examples/, which it runs.

An example is a program under a line `#### TWxxxx`. Lines that end in `# wrong` are what the error is about; lines that
begin with `#+ ` stand in their place in the program that holds. The same table is what tests/test_error_catalogue.py runs.
"""

from __future__ import annotations

import importlib
import linecache
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.base.errors import CATALOGUE, TilewrightError

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs" / "error_examples"
SERIES = {
    "01": "Tensor expressions",
    "02": "Schedules",
    "03": "Lowering and the loop IR",
    "04": "Code generation",
    "05": "Calls",
    "06": "Tuning and records",
    "07": "Export and loading",
    "08": "CUDA",
    "09": "Models",
}
PRELUDE = ("import numpy as np", "import tilewright as tw", "from tilewright import te")
QUOTES = {"TW0410": "reason", "TW0431": "reason", "TW0423": "allowed"}
"""What of a message differs between machines and processes: which machine this is, the words of the system's compiler, what
else is registered."""
_WRONG = re.compile(r"\s*# wrong$")
_FIXED = re.compile(r"^(\s*)#\+ ( *)(.*)$")


@dataclass(frozen=True)
class Example:
    """A program that raises the error of `code`, and the same program after the fix."""

    code: str
    lines: tuple[str, ...]

    @property
    def file(self) -> str:
        """The name that the program goes by in messages."""
        return f"{self.code}.py"

    @property
    def wrong(self) -> tuple[str, ...]:
        """The program that raises."""
        return (*self._head, *(_WRONG.sub("", line) for line in self.lines if not _FIXED.match(line)))

    @property
    def fixed(self) -> tuple[str, ...]:
        """The program that holds."""
        return (*self._head, *(_FIXED.sub(r"\1\2\3", line) for line in self.lines if not _WRONG.search(line)))

    @property
    def removed(self) -> list[str]:
        """The lines that the fix takes away."""
        return [_WRONG.sub("", line).strip() for line in self.lines if _WRONG.search(line)]

    @property
    def added(self) -> list[str]:
        """The lines that the fix puts in."""
        return [match[3] for line in self.lines if (match := _FIXED.match(line))]

    @property
    def _head(self) -> tuple[str, ...]:
        text = "\n".join(self.lines)
        used = [
            line
            for line, name in zip(PRELUDE, ("np", "tw", "te"), strict=True)
            if re.search(rf"\b{name}\.", text) and not re.search(rf"^from .* import .*\b{name}\b", text, re.MULTILINE)
        ]
        imports = self.lines[0].startswith(("from ", "import "))
        return tuple(used) if imports or not used else (*used, "")

    def error(self) -> TilewrightError:
        """What the program raises."""
        try:
            run(self.wrong, self.file)
        except TilewrightError as error:
            return error
        raise AssertionError(f"the example of {self.code} raises nothing")

    def message(self, error: TilewrightError) -> str:
        """What it says, without what QUOTES names or where memory lies, which differ between machines."""
        quoted: str = getattr(error, QUOTES[self.code]) if self.code in QUOTES else ""
        text = str(error).replace(quoted.replace("\n", "\n  "), "...") if quoted else str(error)
        return re.sub(r"\b0x[0-9a-f]{6,}", "0x...", text)


def run(lines: tuple[str, ...], file: str) -> dict[str, Any]:
    """Run a program as if it stood in a file of this name; the names that it leaves."""
    text = "\n".join(lines) + "\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(text, file, "exec"), names)
    return names


def examples() -> dict[str, Example]:
    """The example of every code that has one."""
    found: dict[str, Example] = {}
    for path in sorted(EXAMPLES.glob("*.txt")):
        for block in re.split(r"^#### ", path.read_text(), flags=re.MULTILINE)[1:]:
            code, _, program = block.partition("\n")
            if code in found:
                raise ValueError(f"{path.name} has a second example of {code}")
            found[code] = Example(code, tuple(program.strip("\n").splitlines()))
    return found


def load_every_error() -> dict[str, type[TilewrightError]]:
    """The catalogue after every module that declares errors has been imported."""
    for path in sorted(ROOT.rglob("*errors.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] not in ("tests", "docs", "out") and not any(
            part.startswith(".") or part == "build" for part in parts
        ):
            importlib.import_module(".".join(("tilewright", *parts)))
    return {code: error for code, error in sorted(CATALOGUE.items()) if error.__module__.startswith("tilewright.")}


def summary(error: type[TilewrightError]) -> str:
    """What went wrong in general, on one line."""
    return " ".join((error.__doc__ or "").split())


def render_index() -> str:
    """docs/errors.md."""
    lines = [
        "# Errors",
        "",
        "Every error names its subject, the reason, and a fix; `error.code` tells it apart, and its page shows a program that "
        "raises it beside the one that does not.",
        "",
        "What Python, its threads and IPython print of an error that nobody caught has the lines of your program alone. "
        "`TILEWRIGHT_TRACEBACK=all` shows the frames of tilewright too; `error.__traceback__` always has all of them.",
        "",
    ]
    series = ""
    for code, error in load_every_error().items():
        if code[2:4] != series:
            lines += [""] if series else []
            series = code[2:4]
            lines += [
                f"## TW{series}xx: {SERIES[series]}",
                "",
                "| code | class | family | what went wrong |",
                "|---|---|---|---|",
            ]
        lines.append(f"| [{code}](errors/{code}.md) | `{error.__name__}` | `{error.family()}` | {summary(error)} |")
    return "\n".join(lines) + "\n"


def render_page(
    code: str,
    error: type[TilewrightError],
    example: Example | None,
    raised: TilewrightError | None = None,
) -> str:
    """docs/errors/TWxxxx.md. raised: what the example raises, where it has been run already."""
    family = f"Family: `tw.{error.family()}`. [All errors](../errors.md)."
    lines = [f"# {code}: {error.__name__}", "", summary(error), "", family, ""]
    if example is not None:
        lines += [
            "## A program that raises it",
            "",
            "```python",
            *example.wrong,
            "```",
            "",
            "## What it says",
            "",
            "```text",
            example.message(raised or example.error()),
            "```",
            "",
            "## The fix, applied",
            "",
            "```diff",
        ]
        lines += [f"-{line}" for line in example.removed] + [f"+{line}" for line in example.added]
        lines += ["```", ""]
    return "\n".join(lines)


def render() -> dict[str, str]:
    """Every page by its path below docs/."""
    shown = examples()
    pages = {
        f"errors/{code}.md": render_page(code, error, shown.get(code)) for code, error in load_every_error().items()
    }
    return {"errors.md": render_index()} | pages


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    pages = render()
    folder = ROOT / "docs" / "errors"
    folder.mkdir(exist_ok=True)
    for stale in folder.glob("TW*.md"):
        if f"errors/{stale.name}" not in pages:
            stale.unlink()
    for name, text in pages.items():
        (ROOT / "docs" / name).write_text(text)
