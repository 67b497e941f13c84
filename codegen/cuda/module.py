"""The CUDA C text of a whole program: device functions, then its kernels."""

from __future__ import annotations

from ...base.dataclass import dataclass
from ...ir.stmt import Function
from ..clike.functions import used_functions
from .device_functions import DEVICE_FUNCTIONS
from .emit_stmt import KernelText, emit_kernel
from .split import SplitFunction
from .warpgroup import product_rows

__all__ = ["CudaText", "cuda_text"]

_HEADER = "// {name}: made by tilewright. Compiles by NVRTC, and with an emulation header by a C++ compiler."


@dataclass(frozen=True, slots=True)
class CudaText:
    """CUDA C text of a module.

    text: the module. kernels: in launch order. messages: what assertions say.
    """

    text: str
    kernels: tuple[KernelText, ...]
    messages: tuple[str, ...]


def cuda_text(program: SplitFunction, whole: Function, shared_limit: int, lines: str = "") -> CudaText:
    """The text of all kernels of `program`. lines: the file whose lines its own say that they came from; "" for none."""
    messages: list[str] = []
    kernels = tuple(emit_kernel(kernel, whole, shared_limit, messages, lines) for kernel in program.kernels)
    bodies = "\n\n".join(kernel.text for kernel in kernels)
    parts = [
        _HEADER.format(name=whole.name),
        used_functions(bodies, {**DEVICE_FUNCTIONS, **product_rows(bodies)}),
        bodies,
    ]
    return CudaText("\n\n".join(part for part in parts if part) + "\n", kernels, tuple(messages))
