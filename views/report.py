"""The page about a schedule: its records, its loops with what they cost, and the machine code that they become."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import webbrowser
from base64 import b64encode
from dataclasses import replace
from functools import partial
from html import escape
from importlib import import_module
from os import PathLike
from pathlib import Path

from ..base.errors import CodegenError, CudaError, LoweringError
from ..codegen.export.files import write_text_file
from ..codegen.target import Target
from ..ir.passes.common.target_facts import resolve_facts
from ..ir.text.numbering import number_lines
from ..ir.visit import deep_recursion
from ..schedule import Schedule
from ..schedule.lowering.lower import lower_parts
from ..schedule.lowering.text import all_arguments
from .page import Instruction, PageParts, render, stages_svg
from .steps import Steps

__all__ = ["notebook_html", "page", "show", "stages_picture", "write_page"]


def page(schedule: Schedule, target: str | Target = "llvm") -> str:
    """The page as HTML that needs nothing else. target: whose machine code is shown beside the loops: a CPU's, or
    a GPU's SASS; "interpret" has none.

    A schedule that does not hold together yet is shown as far as it goes, with what is open."""
    chosen = target if isinstance(target, Target) else Target.parse(target)
    with deep_recursion():
        return render(_parts(schedule, chosen))


def stages_picture(schedule: Schedule) -> str:
    """The stages as a picture in SVG: who reads whom, at which loop each is computed, and how far its loops run.

    Raises what lowering raises.
    """
    with deep_recursion():
        whole = Steps(schedule).schedule
        return stages_svg(whole, lower_parts(whole, all_arguments(whole), "picture"))


def _parts(schedule: Schedule, target: Target) -> PageParts:
    steps = Steps(schedule)
    name = "_".join(op.name for op in schedule.outputs)
    try:
        lowered = lower_parts(steps.schedule, all_arguments(steps.schedule), _symbol(name))
    except LoweringError as problem:
        return PageParts(
            name, steps, None, None, "; ".join(filter(None, (problem.headline, problem.reason, problem.fix)))
        )
    assembly = target.backend.assembly
    decided = resolve_facts(
        lowered.function, partial(target.backend.has, target) if assembly else {"interpreter": False}.get
    )
    facts = decided.attrs
    function = number_lines(replace(decided, attrs={}))
    parts = PageParts(name, steps, lowered, function, plan=schedule.plan)
    if assembly is not None:
        try:
            parts.assembly = [
                Instruction(instruction.text, instruction.line, instruction.within, instruction.is_instruction)
                for instruction in assembly(function.with_attrs(**facts), target)
            ]
            parts.target = target.llvm_cpu if target.backend.for_processors else str(target)
        except (CodegenError, CudaError, LoweringError) as problem:
            parts.open = f"no machine code: {problem.headline}"
    return parts


def _symbol(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in name)


def write_page(schedule: Schedule, path: str | PathLike[str], target: str | Target = "llvm") -> Path:
    """Write the page to a file; return its absolute path."""
    return write_text_file(path, page(schedule, target))


def show(schedule: Schedule, path: str | PathLike[str] | None = None, target: str | Target = "llvm") -> Path | None:
    """See Schedule.show."""
    if path is not None:
        return write_page(schedule, path, target)
    if _is_notebook():
        display = import_module("IPython.display")
        display.display(display.HTML(_frame(page(schedule, target))))
        return None
    handle, name = tempfile.mkstemp(prefix="tilewright-", suffix=".html")
    os.close(handle)
    out = write_page(schedule, name, target)
    if _has_screen():
        webbrowser.open(out.as_uri())
    return out


_MOST_OF_A_NOTEBOOK = 60_000
"""Characters, which a notebook keeps for each schedule that it shows."""


def notebook_html(schedule: Schedule) -> str:
    """Return the HTML of a schedule for notebooks: the page in a frame, without the assembly where it is long; the
    loops as text where it is very long."""
    with deep_recursion():
        parts = _parts(schedule, Target.parse("llvm"))
        # assembly is most of a page, and the first thing to leave out
        for assembly in (parts.assembly, None):
            parts.assembly = assembly
            frame = _frame(render(parts))
            if len(frame) <= _MOST_OF_A_NOTEBOOK:
                return frame
    text = str(schedule)
    rest = "" if len(text) <= _MOST_OF_A_NOTEBOOK // 2 else '\n... s.show("page.html") writes all of it'
    return f"<pre>{escape(text[: _MOST_OF_A_NOTEBOOK // 2] + rest)}</pre>"


def _frame(text: str) -> str:
    """The page in a frame of its own, so that neither its style nor its program meets those of the notebook. It is packed: a
    notebook keeps what it has shown, and what is packed takes a sixth."""
    # no time in it: a notebook that is run again has the same bytes
    packed = b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    unpack = (
        "<meta charset=utf-8><script>"
        f"const packed = Uint8Array.from(atob('{packed}'), c => c.charCodeAt(0));"
        "new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).text()"
        ".then(page => { document.open(); document.write(page); document.close(); });</script>"
    )
    return (
        f'<iframe srcdoc="{unpack}" sandbox="allow-scripts" title="schedule" '
        'style="width: 100%; height: 640px; border: 1px solid #8884; border-radius: 8px"></iframe>'
    )


def _is_notebook() -> bool:
    """Return whether this is a kernel of IPython that displays HTML, rather than a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def _has_screen() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
