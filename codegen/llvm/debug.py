"""Line numbers in LLVM IR: which line of a text each instruction came from, as LLVM's debug metadata.

LLVM keeps them through all of its passes, drops what it cannot tell any more (an instruction that two lines share), and
makes the same machine code as without (https://llvm.org/docs/HowToUpdateDebugInfo.html).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .text import FunctionText, ModuleText

__all__ = ["DebugLines"]


class DebugLines:
    """The line numbers of one module. Functions are only named, so that no more than lines reaches the assembly.

    path: of the file that the lines of a function count, by its name; None where that is no file."""

    def __init__(self, module: ModuleText, path: Callable[[str], Path | None]) -> None:
        self._module, self._path = module, path
        self._known: dict[tuple[str, int], str] = {}
        self._file = module.metadata('!DIFile(filename: "loops", directory: ".")')
        self._unit = module.metadata(
            f"distinct !DICompileUnit(language: DW_LANG_C99, file: {self._file}, isOptimized: true, "
            "emissionKind: LineTablesOnly)"  # LineTablesOnly: no variables, no types
        )
        self._type = module.metadata("!DISubroutineType(types: !{})")
        module.named_metadata("llvm.dbg.cu", self._unit)
        module.named_metadata(
            "llvm.module.flags",
            # without the version LLVM drops all debug information
            module.metadata('!{i32 2, !"Debug Info Version", i32 3}'),
            module.metadata('!{i32 7, !"Dwarf Version", i32 4}'),
        )

    def open(self, name: str) -> None:
        """Count lines of the file of the function of this name from now on."""
        path = self._path(name)
        if path is not None:
            folder, file = (_escape(str(part)) for part in (path.parent, path.name))
            self._file = self._module.metadata(f'!DIFile(filename: "{file}", directory: "{folder}")')

    def function(self, f: FunctionText) -> str:
        """Describes a function, which is what locations lie in; returns what `location` is to be given."""
        described = self._module.metadata(
            f'distinct !DISubprogram(name: "{_escape(f.symbol)}", scope: {self._file}, file: {self._file}, line: 1, '
            f"type: {self._type}, unit: {self._unit}, spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )
        f.described = f" !dbg {described}"
        return described

    def location(self, described: str, line: int) -> str:
        """A line as it follows an instruction of the function that `described` stands for."""
        location = self._known.get((described, line))
        if location is None:
            location = self._module.metadata(f"!DILocation(line: {line}, column: 1, scope: {described})")
            self._known[described, line] = location  # a location is one metadata node, whoever uses it
        return f", !dbg {location}"


def _escape(text: str) -> str:
    """A text as LLVM writes it between quotes."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode())
