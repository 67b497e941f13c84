"""The page of an error: what went wrong in general, a program that raises it, and the same program after the fix."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

__all__ = ["explain"]

PAGES = Path(__file__).parent.parent / "docs" / "errors"


def explain(code: str, console: Console) -> str:
    """Print the page of an error by its code (TW0203, tw0203 or 203). Returns "", or what is wrong with the code."""
    known = sorted(path.stem for path in PAGES.glob("TW*.md"))
    full = f"TW{code.upper().removeprefix('TW'):0>4}"
    if full not in known:
        near = get_close_matches(full, known, 3)
        return f"there is no error {code!r}" + (
            f"; did you mean {' or '.join(near)}?" if near else "; codes look like TW0203"
        )
    console.print(Markdown((PAGES / f"{full}.md").read_text().replace(" [All errors](../errors.md).", "")))
    return ""
