"""Kernels from an entry of the store, an entry from kernels that were built, and the place of a build among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ...base import InternalError, asdict, dataclass, is_interruption
from ...codegen.abi.stub import stub_symbols
from ...codegen.constants import addresses
from ...codegen.llvm.jit import CompiledModule
from ...codegen.result import NativeCode, Opening
from ...codegen.target import Target
from ...ir.constant import Constant
from ...ir.lazy_values import cached_property
from ...ir.passes.common.runner import is_watched
from ...runtime import Module, Signature
from ...runtime.diagnose import kernel_failure
from ...runtime.kernel import Kernel, make_kernel
from ..compile import Request, compile_programs
from .constants import about_constants, bound_constants, collect_constants, resolve_symbols
from .key import build_key, code_version
from .store import Entry, Store, open_store

__all__ = [
    "Place",
    "find_place",
    "keep_value",
    "linked_entry",
    "make_entry",
    "read_code",
    "read_module",
    "read_opening",
]


def make_entry(compiled: NativeCode, given: Sequence[Constant] = ()) -> Entry | None:
    """Return what is kept of kernels; None of those whose code holds addresses of this process (of Python functions that
    it calls), or C that a compiler of the system's translated. given: the program's constants."""
    module = compiled.module
    held = about_constants(compiled, given)
    # addresses of this process mean nothing in the next one
    if compiled.calls_python or compiled.imports_c or held is None:
        return None
    code = (
        module.object_bytes
        if compiled.evaluation is None
        else module.object_bytes + compiled.evaluation.module.object_bytes
    )
    return Entry(
        {
            "functions": [
                {"signature": signature.plain_json(), "messages": list(module.messages[signature.name])}
                for signature in compiled.signatures
            ],
            "exports": list(module.exports),
            "outside": list(module.undefined_functions()),
            "parallel": compiled.parallel,
            "opening": asdict(compiled.opening),
            **held,
        },
        code,
    )


def read_opening(entry: Entry) -> Opening:
    """Return what the function of an entry takes of open constants."""
    kept = entry.about["opening"]
    results = tuple((dtype, tuple(shape)) for dtype, shape in kept["results"])
    return Opening(tuple(kept["reads"]), results, tuple(kept["sources"]), kept["digest"])


def read_module(entry: Entry, request: Request, given: Sequence[Constant] = ()) -> Module:
    """The kernels of an entry. request: what they were built from, and are again for their texts and libraries. given: the
    programs' constants.

    Raises UnresolvedSymbol (TW0411) where an outside function that they call is not in this process."""
    module, signatures, constants = read_code(entry, request.target, given)
    anew = _Anew(request)
    return Module(
        {signature.name: _kernel(signature, module, anew, constants) for signature in signatures}, anew.export
    )


def read_code(
    entry: Entry,
    target: Target,
    given: Sequence[Constant] = (),
    others: Mapping[str, int] = MappingProxyType({}),
) -> tuple[CompiledModule, list[Signature], dict[Constant, str]]:
    """The machine code of an entry, the signatures of its kernels, and the constants that it reads. others: addresses of outside
    functions that it calls, of those that are not in this process by their names. Raises as load_row_module does."""
    about = entry.about
    signatures = [Signature.from_json(function["signature"]) for function in about["functions"]]
    messages = {s.name: tuple(function["messages"]) for s, function in zip(signatures, about["functions"], strict=True)}
    # code that computes constants lies behind the kernels
    size = len(entry.code) - about.get("evaluation", {"bytes": 0})["bytes"]
    constants = bound_constants(about, entry.code[size:], target, given)
    # addresses that the caller knows win over symbols of this process
    outside = [name for name in about["outside"] if name not in others]
    symbols = resolve_symbols(outside, about["parallel"]) | addresses(constants) | dict(others)
    module = CompiledModule(target, "", entry.code[:size], messages, tuple(about["exports"]), (), symbols)
    return module, signatures, constants


def _kernel(signature: Signature, module: CompiledModule, anew: _Anew, constants: object) -> Kernel:
    name = signature.name
    addresses = {role: module.address(symbol) for role, symbol in stub_symbols(name).items()}
    failure = partial(kernel_failure, signature, messages=module.messages[name])
    return make_kernel(
        signature,
        addresses,
        code=(module, constants),
        sources=partial(anew.source, name),
        failure=failure,
        exporting=partial(anew.export_one, name),
    )


class _Anew:
    """The same kernels, built when their texts or libraries are asked for."""

    def __init__(self, request: Request) -> None:
        self._request = request

    @cached_property
    def module(self) -> Module:
        return compile_programs(self._request).module

    def source(self, name: str, kind: str) -> str:
        return self.module[name].source(kind)

    def export_one(self, name: str, path: str | PathLike[str], threads: str, loadable: bool) -> tuple[Path, Path, Path]:
        return self.module[name].export(path, threads, loadable)

    def export(self, path: str | PathLike[str], threads: str, loadable: bool) -> tuple[Path, Path, Path]:
        return self.module.export(path, threads, loadable)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Cache entry of a request. given: the constants of its programs."""

    store: Store
    key: str
    request: Request
    given: list[Constant]

    def load(self) -> Module | None:
        """The kernels; None where they are not kept, or not in a form that this process can link."""
        return self.load_linked(lambda entry: read_module(entry, self.request.snapshot(), self.given))

    def load_linked(self, link: Callable[[Entry], T]) -> T | None:
        """Return what `link` makes of the entry; None where there is none, or none that this process can link."""
        entry = self.store.load(self.key)
        return None if entry is None else linked_entry(link, entry)

    def save(self, code: NativeCode) -> None:
        """Keep the kernels, if that can be done, and if all that was loaded to build them is what their key says."""
        # what was loaded meanwhile may have another version
        entry = make_entry(code, self.given) if code_version() else None
        if entry is not None:
            self.store.save(self.key, entry)


def linked_entry(link: Callable[[Entry], T], entry: Entry) -> T | None:
    """Link an entry; None of an object that this process cannot link, or a description of something else."""
    try:
        return link(entry)
    # an entry of an older version, or a damaged one, is as good as none
    except (InternalError, LookupError, TypeError, ValueError, AttributeError) as error:
        if is_interruption(error):
            raise
        return None


def find_place(request: Request) -> Place | None:
    """None where the kernels are not kept: the store is off, somebody watches the passes, or not everything that they depend on
    can be written down."""
    store = open_store()
    # somebody who watches the passes wants to see them run
    key = None if store is None or is_watched() else build_key(request)
    return None if store is None or key is None else Place(store, key, request, collect_constants(request.programs))


def keep_value(key: str | None, compute: Callable[[], T], is_sound: Callable[[Any], bool]) -> T:
    """Return the value, plain as JSON has it, that the store has under a key, else what is computed, which it has from then on.
    is_sound: tells such values from what else may lie there."""
    store = open_store() if key is not None else None
    if store is None or key is None:
        return compute()
    entry = store.load(key)
    if entry is None or not is_sound(entry.about.get("value")):
        entry = Entry({"value": compute()}, b"")
        store.save(key, entry)
    return entry.about["value"]
