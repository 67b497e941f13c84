"""The C header of a library: everything that C and C++ programs need to call it, and nothing of ours to include."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...runtime.abi import PACKED_TYPES
from ...runtime.signature import BufferParam, ScalarParam, Signature
from .companion import ALONE, Companion, find_handles
from .names import STREAM, entry_names, library_identifier, parameter_names
from .threads import hook_name

__all__ = ["declarations", "header_text"]

_C_TYPES = {
    "bool": "bool",
    "int4": "int8_t",
    "uint4": "uint8_t",
    "float8_e4m3fn": "uint8_t",
    "float8_e5m2": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""C has no narrow floats everywhere: their bits are passed."""

_DLPACK = """\
#ifndef DLPACK_DLPACK_H_   /* the same as in dlpack.h; where a program uses that as well, include it first */
#define DLPACK_DLPACK_H_
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 } DLDeviceType;
typedef struct { int32_t device_type; int32_t device_id; } DLDevice;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6,
               kDLFloat8_e4m3fn = 10, kDLFloat8_e5m2 = 12 } DLDataTypeCode;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;       /* in elements; NULL: compact, row-major */
    uint64_t byte_offset;
} DLTensor;
#endif
"""

_ABOUT = """\
/* {library}: made by tilewright {version} for {target}.
 *
 * Functions return 0, or a status whose meaning their _error function tells. Tensors are row-major and compact; an
 * address is a multiple of the element's size (or of more, where the function says so); outputs overlap nothing else.
 * {relied} Functions may be called from several threads at
 * once. {threads}
 */
"""

_CHECKED = "The _checked functions see to all of that, the plain ones rely on it."
_UNCHECKED = "The functions rely on it."

_THREADS = {
    "openmp": "Parallel loops run on\n * OpenMP's threads (link with -lgomp); serially within a parallel region of "
    "the application, and in a forked child.",
    "none": "They run on the\n * caller's thread.",
    "hook": "Parallel loops run\n * as the function given to {hook} says, serially until there is one.",
}

_HOOK = """\
/* Runs body(task, tasks, context) once for each task from 0 to tasks - 1, where tasks is at most `limit` and the same for
 * all, on any threads, and returns when all are done: the first status that is not 0, or 0. */
typedef int32_t (*{library}_task)(int32_t task, int32_t tasks, void *context);
typedef int32_t (*{library}_parallel_for)({library}_task body, void *context, int32_t limit);

/* How parallel loops of this library run from now on; NULL: serially. */
void {setter}({library}_parallel_for function);
"""


def header_text(
    library: str,
    signatures: Sequence[Signature],
    *,
    target: str,
    threads: str,
    version: str,
    checked: bool = True,
    companion: Companion = ALONE,
) -> str:
    """The header. library: the file's stem. checked: whether there are _checked functions. companion: what else is in it."""
    identifier = library_identifier(library)
    guard = f"TILEWRIGHT_{identifier.upper()}_H"  # a guard of its own for each library: a program may use several
    setter = hook_name(identifier)
    parts = [
        _ABOUT.format(
            library=library,
            version=version,
            target=target,
            threads=_THREADS[threads].format(hook=setter),
            relied=_CHECKED if checked else _UNCHECKED,
        ),
        f"#ifndef {guard}\n#define {guard}\n",
        "#include <stdbool.h>\n#include <stdint.h>\n",
        *([_DLPACK] if checked else []),
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        *([_HOOK.format(library=identifier, setter=setter)] if threads == "hook" else []),
        *([companion.before] if companion.before else []),
        *(
            "\n".join(
                [
                    _comment(signature, companion.notes),
                    *declarations(signature, companion.types)[:: 1 if checked else 2],  # plain and error: every second
                    "",
                ]
            )
            for signature in signatures
        ),
        *companion.functions.values(),
        "#ifdef __cplusplus\n}\n#endif\n",
        f"#endif  /* {guard} */\n",
    ]
    return "\n".join(parts)


def declarations(signature: Signature, types: Mapping[str, str] = ALONE.types) -> tuple[str, str, str]:
    """The C declarations of a kernel: plain, checked, error. types: other C types for parameters, by name."""
    names = parameter_names(signature)
    extents, own = names[: len(signature.symbols)], names[len(signature.symbols) :]
    stream = [f"void *{STREAM}"] if signature.on_stream else []
    handles = find_handles(types)
    first, plain, checked = list(stream), [f"int64_t {name}" for name in extents], list(stream)
    for param, name in zip(signature.params, own, strict=True):
        said = f"{types[param.name]}{name}" if param.name in types else _plain_parameter(param, name)
        (first if param.name in handles else plain).append(said)  # handles come before the extents
        is_tensor = isinstance(param, BufferParam) and param.name not in handles
        checked.append(f"const DLTensor *{name}" if is_tensor else said)  # a handle is passed as it is
    functions = entry_names(signature.name)
    return (
        f"int32_t {functions[0]}({', '.join([*first, *plain]) or 'void'});",
        f"int32_t {functions[1]}({', '.join(checked) or 'void'});",
        f"const char *{functions[2]}(int32_t status);",  # checked functions take extents from the tensors
    )


def _plain_parameter(param: BufferParam | ScalarParam, name: str) -> str:
    packed = isinstance(param, BufferParam) and param.dtype in PACKED_TYPES
    kind = "uint8_t" if packed else _C_TYPES[param.dtype]
    if isinstance(param, ScalarParam):
        return f"{kind} {name}"
    return f"{kind} *{name}" if param.is_output else f"const {kind} *{name}"


def _comment(signature: Signature, notes: Mapping[str, str]) -> str:
    names = parameter_names(signature)[len(signature.symbols) :]
    width = max((len(name) for name in names), default=0)  # names in a column
    lines = [f"/* {signature.name}"]
    if signature.on_stream:
        width = max(width, len(STREAM))
        lines.append(
            f" *   {STREAM:<{width}}  CUstream or cudaStream_t, NULL for the default one; tensors lie in its GPU's memory"
        )
    for param, name in zip(signature.params, names, strict=True):
        what = str(param).removeprefix(f"{param.name}: ")  # what stands behind the name in a signature's text
        what = notes.get(param.name, what if what.startswith("out ") else f"in  {what}")
        note = "   (its bits)" if _C_TYPES[param.dtype] == "uint16_t" and param.dtype.endswith("float16") else ""
        if isinstance(param, BufferParam) and param.dtype in PACKED_TYPES:
            note = "   (dense; element e in byte e / 2, in the lower four bits where e is even)"
        what = what.replace("*/", "* /")  # of a symbol with an odd name
        lines.append(f" *   {name:<{width}}  {what}{note}")
    return "\n".join([*lines, " */"])
