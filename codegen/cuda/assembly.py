"""The SASS of a function's kernels, each instruction with the line of the loops that it came from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...ir.passes.common.int4 import pack_int4
from ...ir.stmt import For, Function
from ...ir.visit import statements
from ..abi.signature import shape_symbols
from ..assembly import AssemblyLine, find_loops
from ..gpus import GPUS, target_architecture, target_features
from ..target import Target
from .emit_stmt import LOOPS
from .inspection import INSTRUCTION
from .module import cuda_text
from .nvrtc import compile_cuda, disassemble
from .split import FEATURES, split

__all__ = ["sass_lines"]

_TARGET = re.compile(r"`\((.*)\)")
_PLACE = re.compile(rf'/{LOOPS}", line (\d+)')


def sass_lines(function: Function, target: Target) -> list[AssemblyLine]:
    """The SASS of `function`, of stage "loops", whose statements have their lines noted (number_lines), kernel by kernel.

    Raises what a build raises, CompilerMissing and DisassemblerMissing.
    """
    arch, function = target_architecture(target), pack_int4(function, on_gpu=True)
    program = split(
        function, shape_symbols(function), (), bounds_check=False, features=FEATURES | target_features(target)
    )
    text = cuda_text(program, function, GPUS[arch].block_shared, LOOPS)
    sass = disassemble(compile_cuda(text.text, arch, ("--fmad=false", "-lineinfo")).cubin, lines=True)
    loops = {node.line for node in statements(function.body) if isinstance(node, For)}
    return find_loops([line for kernel in text.kernels for line in _parse_lines(sass, kernel.name)], loops)


def _parse_lines(sass: str, kernel: str) -> Iterator[AssemblyLine]:
    """The lines of a kernel. What stands before an instruction tells its place, and where that was inlined from."""
    lines = iter(sass.splitlines())
    for line in lines:
        if line == f".text.{kernel}:":
            break
    yield AssemblyLine(f"{kernel}:", 0, False)
    place, told = 0, False
    for line in lines:
        instruction = INSTRUCTION.match(line)
        if line.startswith("//-----"):
            return
        if line.lstrip().startswith("//## File"):
            found = _PLACE.findall(line)
            place, told = (int(found[-1]) if found else place if told else 0), True
        elif line.startswith(".L_x_"):
            yield AssemblyLine(line, 0, False)
        elif instruction is not None and instruction["name"] != "NOP":
            told = False
            operands = _TARGET.sub(r"\1", instruction["operands"].strip())
            words = f"{instruction['guard'] or '':<5} {instruction['name']:<20} {operands}"
            yield AssemblyLine(f"    {words}".rstrip(), place, True)
