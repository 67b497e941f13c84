"""Functions that a text calls, out of a table of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["used_functions"]

_NAME = re.compile(r"\btw_\w+")


def used_functions(text: str, functions: Mapping[str, str]) -> str:
    """The functions that `text` calls, and what they call, in the order of `functions`."""
    wanted, called = set[str](), set(_NAME.findall(text)) & set(functions)
    while called:  # what is called may call further functions, until no new name appears
        wanted |= called
        called = {name for each in called for name in _NAME.findall(functions[each])} & set(functions) - wanted
    # the table's order, in which callees come first
    return "\n\n".join(body for name, body in functions.items() if name in wanted)
