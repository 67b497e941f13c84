"""How Sphinx makes the site: pages in Markdown, and a reference from the docstrings."""

from __future__ import annotations

import re
from typing import Any

import tilewright

project = "tilewright"
version = release = tilewright.__version__
html_title = f"tilewright {version}"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["error_examples"]
myst_enable_extensions = ["attrs_block"]
myst_heading_anchors = 3
html_theme = "furo"
html_copy_source = False
html_show_copyright = False  # the license tells
html_theme_options = {"navigation_with_keys": True}
html_static_path, html_css_files, html_js_files = ["style"], ["wide.css"], ["versions.js"]
pygments_style, pygments_dark_style = "friendly", "github-dark"
toc_object_entries = False  # each page would hold the tree of all names
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 100
suppress_warnings = [
    "misc.highlighting_failure",
    "toc.not_included",
]  # fragments of C and shells; a page for each error

_SPAN = re.compile(r"`+[^`]*`+")
_MARKS = re.compile(r"[\\*|]|(?<=\w)_(?=\W|$)")


def _plain(lines: list[str]) -> list[str]:
    """A docstring, which is Markdown of paragraphs, lists, spans and indented code, as what autodoc reads."""
    result: list[str] = []
    for line in lines:
        indented = line.startswith("    ") and (not result or not result[-1].strip() or result[-1].startswith("    "))
        if indented and result and not result[-1].strip() and not any(part.startswith("    ") for part in result[-2:]):
            result += [".. code-block:: python", ""] if re.search(r"[=(\[]", line) else ["::", ""]
        parts = [line] if indented else re.split(f"({_SPAN.pattern})", line)
        result.append(
            "".join(
                part
                if indented
                else f"``{part.strip('`')}``"
                if _SPAN.fullmatch(part)
                else _MARKS.sub(r"\\\g<0>", part)
                for part in parts
            )
        )
    return result


_FIELDS = {"Parameters": "param", "Returns": "returns", "Raises": "raises"}


def _fields(lines: list[str]) -> list[str]:
    """A docstring whose sections of parameters, results and errors, as numpy's are written, are fields, which autodoc reads: a line
    each, since indented lines are code here."""
    result: list[str] = []
    field = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line in _FIELDS and following and not following.strip("-"):
            field = _FIELDS[line]
        elif not field:
            result.append(line)
        elif line.startswith("    "):
            result[-1] += f" {line.strip()}"  # continues the field above
        elif line and line.strip("-"):
            name, _, kind = line.partition(" : ") if field == "param" else line.partition(" ")
            head = {"param": f":param {name}: {kind}.", "raises": f":raises {name}: {kind}"}
            result.append(head.get(field, f":returns: {line}."))
    return result


def _rewrite(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = _plain(_fields(lines))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _rewrite)
