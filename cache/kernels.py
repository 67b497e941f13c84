"""Kernels from an entry of the store, and an entry from kernels that were built."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path

from ..codegen.kernel import Compiled
from ..codegen.llvm.jit import CompiledModule, process_symbols
from ..codegen.parallel import PARALLEL_FOR, parallel_for_address
from ..codegen.stub import stub_symbols
from ..codegen.target import Target
from ..runtime.diagnose import kernel_failure
from ..runtime.kernel import Kernel, make_kernel
from ..runtime.module import Module
from ..runtime.signature import Signature
from .store import Entry

__all__ = ["entry_of", "module_of"]


def entry_of(compiled: Compiled) -> Entry | None:
    """What is kept of compiled kernels; None of those whose code holds addresses of this process (of Python functions that
    it calls), or C that a compiler of the system's translated."""
    module = compiled.module
    if compiled.calls_python or compiled.imports_c:
        return None
    return Entry({
        "functions": [{"signature": one.as_json(), "messages": list(module.messages[one.name])} for one in compiled.signatures],
        "exports": list(module.exports), "outside": list(module.outside()), "parallel": compiled.parallel,
    }, module.object_bytes)


def module_of(entry: Entry, target: Target, again: Callable[[], Module]) -> Module:
    """The kernels of an entry. again: builds them anew, which their texts and libraries are made from.

    Raises UnresolvedSymbol where an outside function that they call is not in this process."""
    about = entry.about
    signatures = [Signature.from_json(one["signature"]) for one in about["functions"]]
    messages = {s.name: tuple(one["messages"]) for s, one in zip(signatures, about["functions"], strict=True)}
    symbols = process_symbols(name for name in about["outside"] if name != PARALLEL_FOR)
    if about["parallel"]:
        symbols[PARALLEL_FOR] = parallel_for_address()
    module = CompiledModule(target, "", entry.code, messages, tuple(about["exports"]), (), symbols)
    anew = _Anew(again)
    return Module({one.name: _kernel(one, module, anew) for one in signatures}, anew.export)


def _kernel(signature: Signature, module: CompiledModule, anew: _Anew) -> Kernel:
    name = signature.name
    addresses = {role: module.address(symbol) for role, symbol in stub_symbols(name).items()}
    failure = partial(kernel_failure, signature, messages=module.messages[name])
    return make_kernel(signature, addresses, code=module, sources=partial(anew.source, name), failure=failure,
                       exporting=partial(anew.export_one, name))


class _Anew:
    """The same kernels, built when their texts or libraries are asked for."""

    def __init__(self, again: Callable[[], Module]) -> None:
        self._again = again
        self._made: Module | None = None

    def _module(self) -> Module:
        if self._made is None:
            self._made = self._again()
        return self._made

    def source(self, name: str, kind: str) -> str:
        return self._module()[name].source(kind)

    def export_one(self, name: str, path: str | PathLike[str], threads: str, loadable: bool) -> tuple[Path, Path, Path]:
        return self._module()[name].export(path, threads, loadable)

    def export(self, path: str | PathLike[str], threads: str, loadable: bool) -> tuple[Path, Path, Path]:
        return self._module().export(path, threads, loadable)


