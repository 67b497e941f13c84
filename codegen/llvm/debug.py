"""Line numbers in LLVM IR: which line of a text each instruction came from, as LLVM's debug metadata.

LLVM keeps them through all of its passes, drops what it cannot tell any more (an instruction that two lines share), and
makes the same machine code as without (https://llvm.org/docs/HowToUpdateDebugInfo.html).
"""

from __future__ import annotations

from .text import FunctionText, ModuleText

__all__ = ["DebugLines"]


class DebugLines:
    """The line numbers of one module. Functions are only named, so that no more than lines reaches the assembly."""

    def __init__(self, module: ModuleText) -> None:
        self._module = module
        self._known: dict[tuple[str, int], str] = {}
        self._count = 0
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

    def function(self, f: FunctionText) -> str:
        """Describes a function, which is what locations lie in; returns what `location` is to be given."""
        described = self._module.metadata(
            f'distinct !DISubprogram(name: "loops_{self._count}", scope: {self._file}, file: {self._file}, line: 1, '
            f"type: {self._type}, unit: {self._unit}, spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )
        self._count += 1
        f.described = f" !dbg {described}"
        return described

    def location(self, described: str, line: int) -> str:
        """A line as it follows an instruction of the function that `described` stands for."""
        location = self._known.get((described, line))
        if location is None:
            location = self._module.metadata(f"!DILocation(line: {line}, column: 1, scope: {described})")
            self._known[described, line] = location  # a location is one metadata node, whoever uses it
        return f", !dbg {location}"
