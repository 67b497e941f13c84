"""Every pass does what the picture in its file shows, and its result parses back and computes the same."""

from __future__ import annotations

import re

import pytest
import tilewright as tw
from tilewright.graph import PASSES


def pictures(page: str) -> list[str]:
    """The indented blocks of a page, as graphs."""
    blocks = re.split(r"\n(?=\S)", page)
    return [
        "graph g {\n" + "\n".join(line for line in block.splitlines() if line.startswith("    ")) + "\n}"
        for block in blocks
        if "\n    " in block
    ]


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_does_what_its_page_shows(name: str) -> None:
    texts = pictures(PASSES[name].page)
    before, after = tw.graph.parse(texts[0]), tw.graph.parse(texts[1])
    assert str(before.transform(name)) == str(after)
    assert before.transform(name).transform(name) == after, "a second time there is nothing left to do"
