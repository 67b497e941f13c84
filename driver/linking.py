"""Many functions and one that calls them: each is compiled, and kept, by itself, so that programs share what they have in common.

Python prepares one function while LLVM, which does not hold the interpreter's lock, compiles those before it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import prod
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base import dataclass, replace
from ..codegen.abi.stub import kernel_symbol, stub_symbols
from ..codegen.evaluate import MachineCode, run_compiled
from ..codegen.export.exporter import Exporter
from ..codegen.export.final_kernel import FinalKernel
from ..codegen.llvm.backend import Prepared, prepare
from ..codegen.llvm.evaluation import compile_here
from ..codegen.result import BuildOptions, Opening
from ..codegen.target import Target
from ..ir import Function, Var, deep_recursion
from ..ir.constant import Constant, aligned_zeros
from ..ir.passes.common.options import apply_options
from ..ir.passes.common.runner import environment_watchers, is_watched
from ..runtime.abi import ITEM_BYTES
from ..runtime.array import numpy_dtype
from ..runtime.diagnose import kernel_failure
from ..runtime.hosts import host
from ..runtime.kernel import Kernel, make_kernel
from ..runtime.signature import BufferParam, Signature, extent_text
from ..te import Tensor
from .batch import Task, compile_batch
from .build import tuned_program
from .cache.archive import Archive
from .cache.constants import collect_constants
from .cache.kernels import Place, find_place, linked_entry, read_code, read_opening
from .cache.key import program_key
from .cache.store import Entry, open_store
from .compile import BuildItem, Request, lowered_programs
from .exported_kernels import ExportedKernel, export_kernel, load_packing, read_exported
from .lower import collect_evidence
from .recipes import Recipes, make_recipe, part_request
from .reproduction_bundle import bundling

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["Bytes", "Caller", "Inner", "Linked", "Part", "build_linked", "export_linked", "prepared_request"]

Bytes: TypeAlias = "int | str"
"""A number, or a text over the numbers that a function is passed."""
_LLVM = "libllvmlite.so"
_logger = logging.getLogger(__name__)
_FEWEST = 2
"""Kernels of a program that has an archive."""


@dataclass(frozen=True)
class _Code:
    """Machine code, the signatures of its functions, what the first takes of open constants, and what they read."""

    module: MachineCode
    signatures: Sequence[Signature]
    opening: Opening
    constants: object


Zeros: TypeAlias = "Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]]"
"""Gives an array of this shape and dtype."""


@dataclass(frozen=True)
class Part:
    """A function that others call, `i32 f(pointers)`: to its tensors (and numbers behind them), to what `opening` reads of
    constants, and to the memories that it works in, which have so many bytes and are aligned to 64. address, packing: where it
    is in this process, and what packs for it; 0 where it is not."""

    opening: Opening
    workspaces: tuple[Bytes, ...]
    code: object
    address: int = 0
    packing: int = 0

    def packed(self, sources: Sequence[NDArray[Any]], zeros: Zeros = aligned_zeros) -> list[NDArray[Any]]:
        """Return what the function reads in place of these constants, computed now, in arrays that `zeros` gives. Raises MemoryError."""
        results = [zeros(shape, numpy_dtype(dtype)) for dtype, shape in self.opening.results]
        run_compiled(self.packing, [array.ctypes.data for array in (*results, *sources)], "packed weights")
        for array in results:
            array.flags.writeable = False  # packed weights are shared by all calls
        return results


Caller: TypeAlias = "Callable[[Mapping[str, Part]], Function]"
"""Makes the function that calls the others, by their names."""


@dataclass(frozen=True)
class Inner:
    """A function that calls others and is called itself. given: how many of its first arguments are handed to it; the rest is
    memory that it works in."""

    caller: Caller
    given: int


@dataclass(frozen=True)
class Linked:
    """Linked machine code of a program.

    main: what Python calls. parts: the functions that it calls, by name, there for as long as this lives.
    """

    main: Kernel
    parts: dict[str, Part]


def build_linked(
    parts: Mapping[str, Sequence[Tensor | Var]],
    inner: Mapping[str, Inner],
    caller: Caller,
    target: Target,
    options: BuildOptions,
    tuned: str | PathLike[str] | Database | None = None,
    exact: bool = False,
    over: Collection[str] = (),
    recipes: Recipes | None = None,
) -> Linked:
    """Return what `caller` makes, with the functions that it calls as outside functions, by kernel_symbol(name) of their names: in
    `parts`, tensors, inputs then outputs, and numbers, and in `inner`, each behind those that it calls. over: the names of those
    parts whose one output is put over the last of the inputs, which is read element by element and passed once, as the output.
    target: of this machine. recipes: of parts that helpers may compile. Raises what tw.build raises."""
    host().release_memory(_LLVM)  # of what loading it left
    with deep_recursion(), bundling(lambda: collect_evidence(parts)):
        recipes = recipes if tuned is None else None  # a database may change what the recipes stand for
        archive = _find_archive(recipes, over, target, options, exact)
        kept = archive.load() if archive is not None else None
        codes, made = list[_Code](), dict[str, Part]()
        for name, kernel in (kept or {}).items():
            # an archive spares one key, file and link for each kernel
            codes.append(_Code(kernel.module, kernel.signatures, kernel.opening, None))
            made[name] = _part(name, codes[-1], kernel.passed - (name in over))
        missing = {name: parts[name] for name in parts if name not in made}
        requests = _requests(missing, target, options, tuned, exact, over)
        places = [find_place(request) for request in requests]
        for (name, tensors), code in zip(missing.items(), _compile_all(requests, places, recipes), strict=True):
            codes.append(code)
            made[name] = _part(name, code, len(tensors) - (name in over))
        if archive is not None and kept is None:  # kept once: what was loaded from it needs no saving
            found = zip(missing.items(), places, strict=True)
            archive.save({name: (place, len(tensors)) for (name, tensors), place in found if place is not None})
        for name, function in inner.items():
            codes.append(_found_or_built(_inner_request(name, function, made, target, options), made))
            made[name] = _part(name, codes[-1], function.given)
        host().release_memory(_LLVM)  # before weights are packed
        main = caller(made)
        code = _found_or_built(Request((BuildItem(main.name, main),), target, options), made)
    entries = {role: code.module.address(symbol) for role, symbol in stub_symbols(main.name).items()}
    failure = partial(kernel_failure, code.signatures[0], messages=code.module.messages[main.name])
    host().release_memory(_LLVM)
    return Linked(make_kernel(code.signatures[0], entries, code=(code, codes), failure=failure), made)


def export_linked(
    parts: Mapping[str, Sequence[Tensor | Var]],
    inner: Mapping[str, Inner],
    caller: Caller,
    target: Target,
    options: BuildOptions,
    tuned: str | PathLike[str] | Database | None = None,
    exact: bool = False,
    over: Collection[str] = (),
    recipes: Recipes | None = None,
) -> Exporter:
    """Return what writes `main` and the functions that it calls as a library. Arguments as build_linked takes them."""
    with deep_recursion(), bundling(lambda: collect_evidence(parts)):
        # a helper packs for the machine that it runs on, and knows no database
        recipes = recipes if tuned is None and target.runs_here else None
        requests = _requests(parts, target, options, tuned, exact, over)
        tasks = [_export_task(request, recipes) for request in requests]
        exported = compile_batch(tasks, recipes.module if recipes else "")
        called = [each.code for each in exported if isinstance(each.code, FinalKernel)]
        optimised = tuple(each.code for each in exported if isinstance(each.code, str))
        packing = _packing(exported, target, options), load_packing(exported, target)
        made: dict[str, Part] = {}
        for (name, tensors), each in zip(parts.items(), exported, strict=True):
            workspaces = _workspaces(each.signature, each.opening, len(tensors) - (name in over))
            # weights are packed here for a library that runs elsewhere
            code, symbol = packing[bool(each.packs)], each.packs or each.packing and kernel_symbol(each.packing.name)
            made[name] = Part(each.opening, workspaces, code, packing=code.address(symbol) if code and symbol else 0)
        for name, function in inner.items():
            each = prepared_request(_inner_request(name, function, made, target, options))
            called.append(each.programs[0])
            made[name] = Part(each.opening, _workspaces(called[-1].signature, each.opening, function.given), each)
        main = caller(made)
        programs = prepared_request(Request((BuildItem(main.name, main),), target, options)).programs
    return Exporter(
        programs,
        options.fast_math,
        options.fp_contract,
        target,
        inner=tuple(called),
        optimised=optimised,
        is_module=False,
    )


def _export_task(request: Request, recipes: Recipes | None) -> Task[ExportedKernel]:
    def recipe() -> dict[str, Any] | None:
        made = None if recipes is None else make_recipe(request, recipes)
        return made and {**made, "exported": True}

    return Task(lambda: partial(export_kernel, prepared_request(request), request.target), recipe, read_exported)


def _inner_request(
    name: str,
    function: Inner,
    made: Mapping[str, Part],
    target: Target,
    options: BuildOptions,
) -> Request:
    return Request((BuildItem(name, function.caller(made)),), target, options, bare=True)


def _requests(
    parts: Mapping[str, Sequence[Tensor | Var]],
    target: Target,
    options: BuildOptions,
    tuned: str | PathLike[str] | Database | None,
    exact: bool,
    over: Collection[str],
) -> list[Request]:
    items = [
        BuildItem(name, tuned_program(tensors, target, tuned, exact), over=name in over)
        for name, tensors in parts.items()
    ]
    return [part_request(item.name, item.what, target, options, exact, item.over) for item in items]


def _part(name: str, code: _Code, given: int) -> Part:
    symbols = [kernel_symbol(signature.name) for signature in code.signatures]
    # the second function of a unit packs its constants
    packing = code.module.address(symbols[1]) if code.opening.is_packed else 0
    workspaces = _workspaces(code.signatures[0], code.opening, given)
    return Part(code.opening, workspaces, code, code.module.address(kernel_symbol(name)), packing)


def _workspaces(signature: Signature, opening: Opening, given: int) -> tuple[Bytes, ...]:
    """The sizes of the memory that a function works in, beside the arguments that it is given and constants."""
    return tuple(
        _size(param) for param in signature.params[given + len(opening.reads) :] if isinstance(param, BufferParam)
    )


def _size(param: BufferParam) -> Bytes:
    known = prod(extent for extent in param.shape if isinstance(extent, int)) * ITEM_BYTES[param.dtype]
    told = [f"({extent_text(extent)})" for extent in param.shape if not isinstance(extent, int)]
    return " * ".join([str(known), *told]) if told else known


def _packing(kernels: Sequence[ExportedKernel], target: Target, options: BuildOptions) -> MachineCode | None:
    """Return what packs the constants of all these, for this machine, whatever they are for; None where there is nothing to pack."""
    functions = [each.packing for each in kernels if each.packing is not None]
    here = target if target.runs_here else Target()  # packing runs on this machine, whatever the target is
    return (
        compile_here(functions, here, options, fuses=target.fuses and not options.contracts).module
        if functions
        else None
    )


def _find_archive(
    recipes: Recipes | None, over: Collection[str], target: Target, options: BuildOptions, exact: bool
) -> Archive | None:
    """The archive of a program; None where its kernels are not kept, or are too few."""
    store = open_store()
    # a small program is not worth an archive
    if recipes is None or len(recipes.texts) < _FEWEST or store is None or options.watchers or is_watched():
        return None
    key = program_key(recipes.texts, over, target, options, exact)
    return None if key is None else Archive(store, key, target)


def _compile_all(requests: Sequence[Request], places: Sequence[Place | None], recipes: Recipes | None) -> list[_Code]:
    """The code of each request, which is for one function. places: of each in the cache."""
    codes = [_load_kept(place) for place in places]
    left = [at for at, code in enumerate(codes) if code is None]
    _logger.info("%d kernels: %d from the cache, %d to compile", len(codes), len(codes) - len(left), len(left))
    tasks = [_task(requests[at], places[at], recipes) for at in left]
    made = dict(zip(left, compile_batch(tasks, recipes.module if recipes else ""), strict=True))
    return [made[at] if code is None else code for at, code in enumerate(codes)]


def _task(request: Request, place: Place | None, recipes: Recipes | None) -> Task[_Code]:
    def accept(entry: Entry) -> _Code | None:
        code = linked_entry(partial(_link, request, collect_constants(request.programs)), entry)
        if code is not None and place is not None:
            place.store.save(place.key, entry)  # a helper's answer is kept like code that was made here
        return code

    return Task(
        lambda: partial(_finish, prepared_request(request), place),
        lambda: None if recipes is None else make_recipe(request, recipes),
        accept,
    )


def _found_or_built(request: Request, parts: Mapping[str, Part]) -> _Code:
    """The code of a function that calls these."""
    others = {kernel_symbol(name): part.address for name, part in parts.items()}
    place = find_place(request)
    kept = _load_kept(place, others)
    if kept is not None:
        return kept
    prepared = prepared_request(request)
    # addresses of the parts are known to this process alone
    unit = replace(prepared.unit, symbols={**prepared.unit.symbols, **others})
    return _finish(replace(prepared, unit=unit), place)


def _finish(prepared: Prepared, place: Place | None) -> _Code:
    """LLVM's half, and what it gives is kept."""
    began = time.perf_counter()
    code = prepared.native(prepared.unit.compiled())
    _logger.info("compiled %s: LLVM took %.2f s", prepared.programs[0].signature.name, time.perf_counter() - began)
    if place is not None:
        place.save(code)
    return _Code(code.module, code.signatures, code.opening, (prepared.constants, prepared.packed))


def prepared_request(request: Request) -> Prepared:
    """Python's half of compiling: lowered, through all passes, and as text."""
    options = request.options
    functions = [apply_options(function, options.passes) for function in lowered_programs(request)]
    watched = replace(options, watchers=(*options.watchers, *environment_watchers()))
    return prepare(functions, request.target, watched, not request.bare)


def _load_kept(place: Place | None, others: Mapping[str, int] = MappingProxyType({})) -> _Code | None:
    """The code that is kept; linked, so that what cannot be is built again."""
    return None if place is None else place.load_linked(partial(_link, place.request, place.given, others=others))


def _link(
    request: Request, given: Sequence[Constant], entry: Entry, others: Mapping[str, int] = MappingProxyType({})
) -> _Code:
    module, signatures, constants = read_code(entry, request.target, given, others)
    module.address(module.exports[0])  # linked now, so that what cannot be is built again
    return _Code(module, signatures, read_opening(entry), constants)
