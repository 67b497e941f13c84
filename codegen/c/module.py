"""The C text of kernels: headers, the functions that they use, outside functions, constants, the kernels, and what their statuses
mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...base import dataclass, user_source
from ...ir.constant import ALIGNMENT, Constant
from ...runtime.abi import OUT_OF_MEMORY, Check, pack_status
from ...runtime.signature import BufferParam, ScalarParam, Signature
from ..abi.stub import integer_bounds
from ..clike.functions import used_functions
from ..constants import name_symbols
from ..errors import UnsupportedIntrinsic
from ..export.final_kernel import FinalKernel
from ..export.header import declarations
from ..export.names import entry_names, parameter_names
from ..export.statuses import status_texts
from .emit_stmt import EmittedKernel, emit_kernel
from .options import compiler_options
from .prelude import FUNCTIONS, HEADER
from .types import quote_string

__all__ = ["CText", "c_text", "entry_symbol", "entry_text"]

_ABOUT = """\
/* {names}: made by tilewright. C11; compile with
 *
 *     cc {options} -shared -fPIC FILE.c -lm
 *
 * Without -fopenmp parallel loops run serially. Functions return 0, or a status whose meaning their _error function tells. */
"""
_THREADS = """\
#if defined(_OPENMP)
#include <omp.h>
#endif
#ifndef TW_THREADS
#define TW_THREADS omp_get_max_threads()
#endif
"""


@dataclass(frozen=True, slots=True)
class CText:
    """C text of a module.

    text: a translation unit. messages: of each kernel's assertions. parallel: a loop is shared among threads.
    """

    text: str
    messages: Mapping[str, tuple[str, ...]]
    parallel: bool


def c_text(programs: Sequence[FinalKernel], fast_math: bool = False, fp_contract: bool = False) -> CText:
    """The text of kernels of stage "final", to be compiled with or without the liberties of fast_math and fp_contract.

    Raises UnsupportedIntrinsic for what C has no way to say."""
    # one name for contents that several kernels hold
    constants = name_symbols(program.function for program in programs)
    emitted: dict[str, EmittedKernel] = {}
    for program in programs:
        if program.function.attrs.get("import_llvm"):
            raise UnsupportedIntrinsic(
                f"cannot write {program.signature.name} as C",
                called=user_source(),
                reason="LLVM IR was imported into it",
                fix='target="llvm"',
            )
        guards = _guards(program.signature)
        emitted[program.signature.name] = emit_kernel(  # a program without OpenMP can say how many threads it has
            program.function, program.signature, program.symbols, guards, constants
        )
    kernels = "\n\n".join(
        f"{unit.text}\n\n{_error_text(program.signature, unit.messages)}"
        for program, unit in zip(programs, emitted.values(), strict=True)
    )
    # a dict: two kernels may declare the same function
    outside = {name: text for unit in emitted.values() for name, text in unit.declarations.items()}
    parallel = "#pragma omp parallel for" in kernels  # asked of the text, since passes may have made every loop serial
    options = " ".join(compiler_options(fast_math=fast_math, fp_contract=fp_contract, parallel=parallel, native=False))
    parts = [
        _ABOUT.format(names=", ".join(emitted), options=options) + HEADER + (_THREADS if parallel else ""),
        used_functions(kernels, FUNCTIONS),  # only what is used: compilers warn of static functions that are not
        "\n".join(outside.values()),
        "\n".join(_constant(held, symbol) for held, symbol in constants.items()),
        kernels,
    ]
    text = "\n\n".join(part.strip() for part in parts if part) + "\n"
    return CText(text, {name: unit.messages for name, unit in emitted.items()}, parallel)


def _guards(signature: Signature) -> list[str]:
    """Lines that refuse what the code relies on not to be passed: extents below 0, numbers beyond their bounds."""
    lines, names = list[str](), parameter_names(signature)
    # not strict: the names of the parameters follow those of the symbols
    for symbol, name in zip(signature.symbols, names, strict=False):
        at = signature.bindings[symbol.name]
        # the header lets callers pass any int64
        lines.append(f"if ({name} < 0) return {pack_status(Check.EXTENT, at.param, at.dim)};")
        if symbol.limit is not None:
            lines.append(f"if ({name} >= {symbol.limit}) return {pack_status(Check.TOO_LARGE, at.param, at.dim)};")
    for i, (param, name) in enumerate(zip(signature.params, names[len(signature.symbols) :], strict=True)):
        if isinstance(param, ScalarParam) and not (param.least is None and param.greatest is None):
            for symbol, bound in zip("<>", integer_bounds(param), strict=True):
                if bound is not None:
                    lines.append(f"if ({name} {symbol} {bound}) return {pack_status(Check.SCALAR_RANGE, i)};")
    return lines


def _error_text(signature: Signature, messages: Sequence[str]) -> str:
    """Return the meaning of each status that the function can return."""
    texts = status_texts(signature, messages, ())
    own = {0, OUT_OF_MEMORY, *range(1, len(messages) + 1)}  # what _checked functions return is not among them
    for symbol in signature.symbols:
        at = signature.bindings[symbol.name]
        own |= {pack_status(check, at.param, at.dim) for check in (Check.EXTENT, Check.TOO_LARGE)}
    own |= {pack_status(Check.SCALAR_RANGE, i) for i in range(len(signature.params))}
    lines = [f"    case {status}: return {quote_string(text)};" for status, text in texts.items() if status in own]
    head = declarations(signature)[2].removesuffix(";")
    return "\n".join([f"{head} {{", "  switch (status) {", *lines, '    default: return "unknown status";', "  }", "}"])


def _constant(held: Constant, symbol: str) -> str:
    """The contents as integers of the elements' width."""
    data = held.data.reshape(-1)  # a scalar has one element, too
    # as bits: decimal text of floats would have to be read back exactly, NaN has none
    words = data.view(np.dtype(f"u{data.dtype.itemsize}"))
    lines = [
        # twelve a line keep within a page's width
        ", ".join(f"{word}u" if data.dtype.itemsize < 8 else f"{word}ull" for word in words[at : at + 12].tolist())
        for at in range(0, len(words), 12)
    ]
    body = ",\n  ".join(lines) or "0"  # C has no empty initializer
    kind = f"uint{8 * data.dtype.itemsize}_t"
    return f"/* {held.name.replace('*/', '* /')} */\nstatic const _Alignas({ALIGNMENT}) {kind} {symbol}[] = {{\n  {body}\n}};"


# The way in from this process


def entry_symbol(name: str) -> str:
    """The function by which a call stub enters."""
    return f"tw_enter_{name}"  # tw_ names are ours: a kernel's own name cannot be this one


def entry_text(signature: Signature) -> str:
    """`void tw_enter_NAME(int64_t *slots)`: the parameters, then the symbols, then the status, 64 bits each."""
    count = len(signature.params)
    passed = [f"slots[{count + k}]" for k in range(len(signature.symbols))]
    for i, param in enumerate(signature.params):
        passed.append(_load_slot(i, param))
    return f"""
void {entry_symbol(signature.name)}(int64_t *slots);
void {entry_symbol(signature.name)}(int64_t *slots) {{
  slots[{count + len(signature.symbols)}] = {entry_names(signature.name)[0]}({", ".join(passed)});
}}
"""


def _load_slot(i: int, param: BufferParam | ScalarParam) -> str:
    if isinstance(param, BufferParam):
        return f"(void *)slots[{i}]"
    if param.dtype in ("float32", "float64", "bool"):
        kind = {"float32": "float", "float64": "double", "bool": "uint8_t"}[param.dtype]
        # the stub stores the scalar's bytes, which are read as what they are
        return f"*(const {kind} *)&slots[{i}]" + (" != 0" if param.dtype == "bool" else "")
    # 16-bit floats are passed as their bits, integers of 4 bits as those of 8
    kind = "uint16" if "float" in param.dtype else param.dtype.replace("int4", "int8")
    return f"({kind}_t)slots[{i}]"
