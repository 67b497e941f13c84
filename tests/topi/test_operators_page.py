"""The page of operators is what the rows say."""

from __future__ import annotations

import sys
from pathlib import Path

from tilewright.topi.row import load_rows

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_says_what_the_rows_say() -> None:
    sys.path.insert(0, str(DOCS))
    try:
        import make_operators
    finally:
        sys.path.pop(0)
    page = make_operators.PAGE.read_text()
    assert page == make_operators.render_page(), "python docs/make_operators.py writes it anew"
    assert all(f"| `{name}` |" in page for name in load_rows())
