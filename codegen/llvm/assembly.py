"""The assembly of a kernel, each instruction with the line of the loops that it came from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...ir import For, Function, walk
from ...ir.passes.common.runner import run_pipeline
from ..assembly import AssemblyLine, find_loops
from ..target import Target
from .build import CodegenOptions, module_text
from .jit import assembly_text
from .pipeline import build_pipeline

__all__ = ["assembly_lines"]

_LOCATION = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")  # `.loc file line column`
_TEMPORARY = re.compile(r"\.L(tmp|func_|cu_|line_|section_|info_|debug_|str|abbrev)\w*:")
_VALUES = re.compile(r"\s+\.(byte|2byte|4byte|8byte|short|long|quad|zero|ascii|asciz|string|fill|octa)\b")
_LABEL = re.compile(r"([.\w$]+):")


def assembly_lines(function: Function, target: Target) -> list[AssemblyLine]:
    """The assembly of `function`, of stage "loops", whose statements have their lines noted (number_lines).

    The instructions are those that a build gives; the stub by which Python calls the kernel is left out. Raises what a
    build raises.
    """
    final = run_pipeline(function, build_pipeline(target))
    text, _ = module_text([final], target, CodegenOptions(debug_lines=True))
    # a loop's line is its head: what belongs to it stands there
    loops = {node.line for node in walk(function.body) if isinstance(node, For)}
    return find_loops(list(_parse_lines(assembly_text([text], target))), loops)


def _parse_lines(text: str) -> Iterator[AssemblyLine]:
    """The lines worth reading: directives that say where in the file things stand are dropped, and debug sections."""
    line, described = 0, False
    for raw in text.splitlines():
        # comments of x86, riscv and aarch64
        plain = re.split(r"\t#| #|\t//", raw)[0].rstrip() if not raw.lstrip().startswith(("#", "//")) else ""
        words = plain.split()
        if not words:
            continue
        if words[0] in (".section", ".text"):
            described = len(words) > 1 and words[1].startswith(".debug")  # line tables and names are not the program
            line = 0
        located = _LOCATION.match(plain)
        if located is not None:
            line = int(located[1])
        elif described or _TEMPORARY.match(plain):
            continue
        elif not plain[0].isspace():
            if _LABEL.match(plain):
                line = line if plain.startswith(".L") else 0  # a local label lies within what came before
                yield AssemblyLine(plain, 0, False)
        elif _VALUES.match(plain):
            yield AssemblyLine("    " + " ".join(words), 0, False)
        elif not words[0].startswith("."):
            yield AssemblyLine(f"    {words[0]:<12} {' '.join(words[1:])}".rstrip(), line, True)
