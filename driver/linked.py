"""Many functions and one that calls them: each is compiled, and kept, by itself, so that programs share what they have in common.

Python prepares one function while LLVM, which does not hold the interpreter's lock, compiles those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..codegen.abi.stub import kernel_symbol, stub_symbols
from ..codegen.evaluate import MachineCode
from ..codegen.export.library import Exporter
from ..codegen.llvm.backend import Prepared, prepare
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..ir.buffer import Buffer
from ..ir.expr import BufferLoad, Node
from ..ir.passes.common.options import with_options
from ..ir.passes.common.runner import environment_watchers
from ..ir.stmt import Function
from ..ir.visit import deep_recursion, rewrite
from ..runtime.abi import ITEM_BYTES
from ..runtime.diagnose import kernel_failure
from ..runtime.kernel import Kernel, make_kernel
from ..runtime.signature import BufferParam, Signature
from ..te import Tensor
from .build import tuned_program
from .bundle import bundling
from .cache.kernels import code_of
from .cache.lookup import Place, find_place
from .cache.store import Entry
from .compile import BuildItem, Request, lowered_programs
from .lower import evidence_of, function_of

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["Caller", "Inner", "Linked", "build_linked", "export_linked"]

_Code: TypeAlias = "tuple[MachineCode, Sequence[Signature], object]"
"""Machine code, the signatures of its functions, and what it reads."""
Caller: TypeAlias = "Callable[[Mapping[str, tuple[int, ...]]], Function]"
"""Makes the function that calls the others, from the bytes of the memories that each works in, by its name. These are its last
arguments, aligned to 64 bytes."""


@dataclass(frozen=True)
class Inner:
    """A function that calls others and is called itself. given: how many of its first arguments are handed to it; the rest is
    memory that it works in."""

    caller: Caller
    given: int


@dataclass(frozen=True)
class Linked:
    """main: what Python calls. addresses: of the functions that it calls, `i32 f(pointers)`, by name, for as long as
    this lives. workspaces: the bytes of the memories that each works in."""

    main: Kernel
    addresses: dict[str, int]
    workspaces: dict[str, tuple[int, ...]]


def build_linked(
    parts: Mapping[str, Sequence[Tensor]], inner: Mapping[str, Inner], caller: Caller, target: Target, options: BuildOptions,
    tuned: str | PathLike[str] | Database | None = None, exact: bool = False, over: Collection[str] = (),
) -> Linked:
    """What `caller` makes, with the functions that it calls as outside functions, by kernel_symbol(name) of their names: in
    `parts`, tensors, inputs then outputs, and in `inner`, each behind those that it calls. over: the names of those parts whose one
    output is put over the last of the inputs, which is read element by element and passed once, as the output. target: of this
    machine. Raises what tw.build raises."""
    with deep_recursion(), bundling(lambda: evidence_of(parts)):
        modules = _compiled(_requests(parts, target, options, tuned, exact, over))
        workspaces = {name: _workspaces(code[1][0], len(parts[name]) - (name in over))
                      for name, code in zip(parts, modules, strict=True)}
        addresses = {name: code[0].address(kernel_symbol(name)) for name, code in zip(parts, modules, strict=True)}
        for name, function in inner.items():
            request = _inner_request(name, function, workspaces, target, options)
            modules.append(_found_or_built(request, {kernel_symbol(other): at for other, at in addresses.items()}))
            workspaces[name] = _workspaces(modules[-1][1][0], function.given)
            addresses[name] = modules[-1][0].address(kernel_symbol(name))
        main = caller(workspaces)
        request = Request((BuildItem(main.name, main),), target, options)
        module, signatures, constants = _found_or_built(request, {kernel_symbol(name): at for name, at in addresses.items()})
    entries = {role: module.address(symbol) for role, symbol in stub_symbols(main.name).items()}
    failure = partial(kernel_failure, signatures[0], messages=module.messages[main.name])
    return Linked(make_kernel(signatures[0], entries, code=(module, modules, constants), failure=failure), addresses, workspaces)


def export_linked(
    parts: Mapping[str, Sequence[Tensor]], inner: Mapping[str, Inner], caller: Caller, target: Target, options: BuildOptions,
    tuned: str | PathLike[str] | Database | None = None, exact: bool = False, over: Collection[str] = (),
) -> Exporter:
    """What writes `main` and the functions that it calls as a library. Arguments as build_linked takes them."""
    with deep_recursion(), bundling(lambda: evidence_of(parts)):
        prepared = [_prepared(request) for request in _requests(parts, target, options, tuned, exact, over)]
        called = [program for each in prepared for program in each.programs]
        workspaces = {name: _workspaces(program.signature, len(parts[name]) - (name in over))
                      for name, program in zip(parts, called, strict=True)}
        for name, function in inner.items():
            called += _prepared(_inner_request(name, function, workspaces, target, options)).programs
            workspaces[name] = _workspaces(called[-1].signature, function.given)
        main = caller(workspaces)
        programs = _prepared(Request((BuildItem(main.name, main),), target, options)).programs
    return Exporter(programs, options.fast_math, options.fp_contract, target, inner=tuple(called), is_module=False)


def _inner_request(
    name: str, function: Inner, workspaces: Mapping[str, tuple[int, ...]], target: Target, options: BuildOptions,
) -> Request:
    return Request((BuildItem(name, function.caller(workspaces)),), target, options, bare=True)


def _requests(
    parts: Mapping[str, Sequence[Tensor]], target: Target, options: BuildOptions,
    tuned: str | PathLike[str] | Database | None, exact: bool, over: Collection[str],
) -> list[Request]:
    def program(name: str, tensors: Sequence[Tensor]) -> Any:
        made = tuned_program(tensors, target, tuned, exact)
        return _put_over(function_of(made, None, name, target, exact)) if name in over else made

    return [Request((BuildItem(name, program(name, tensors)),), target, options, True, exact, True)
            for name, tensors in parts.items()]


def _put_over(function: Function) -> Function:
    """The function with its output in the memory of the input before it."""
    *rest, under, result = function.params
    assert isinstance(under, Buffer) and isinstance(result, Buffer), "functions of tensors have buffers"

    def rule(node: Node) -> Node | None:
        return replace(node, buffer=result) if isinstance(node, BufferLoad) and node.buffer is under else None

    return replace(function, params=(*rest, result), body=rewrite(function.body, rule))


def _workspaces(signature: Signature, given: int) -> tuple[int, ...]:
    """The sizes of the memory that a function works in, beside the arguments that it is given."""
    return tuple(prod(int(extent) for extent in cast("Sequence[Any]", param.shape)) * ITEM_BYTES[param.dtype]
                 for param in signature.params[given:] if isinstance(param, BufferParam))


def _compiled(requests: Sequence[Request]) -> list[_Code]:
    """The code of each request, which is for one function."""
    places = [find_place(request) for request in requests]
    kept = [_kept(place) for place in places]
    llvm = ThreadPoolExecutor(1, "tilewright-llvm")     # which begins no thread before it has work
    try:
        coming = [code or llvm.submit(partial(_finished, _prepared(request), place))
                  for request, place, code in zip(requests, places, kept, strict=True)]
        return [code if isinstance(code, tuple) else code.result() for code in coming]
    finally:
        llvm.shutdown(cancel_futures=True)


def _found_or_built(request: Request, others: Mapping[str, int]) -> _Code:
    place = find_place(request)
    kept = _kept(place, others)
    if kept is not None:
        return kept
    prepared = _prepared(request)
    unit = replace(prepared.unit, symbols={**prepared.unit.symbols, **others})
    return _finished(replace(prepared, unit=unit), place)


def _finished(prepared: Prepared, place: Place | None) -> _Code:
    """LLVM's half, and what it gives is kept."""
    code = prepared.native(prepared.unit.compiled())
    if place is not None:
        place.save(code)
    return code.module, code.signatures, (prepared.constants, prepared.packed)


def _prepared(request: Request) -> Prepared:
    """Python's half."""
    options = request.options
    functions = [with_options(function, options.passes) for function in lowered_programs(request)]
    watched = replace(options, watchers=(*options.watchers, *environment_watchers()))
    return prepare(functions, request.target, watched, not request.bare)


def _kept(place: Place | None, others: Mapping[str, int] = MappingProxyType({})) -> _Code | None:
    """The code that is kept; linked, so that what cannot be is built again."""
    if place is None:
        return None

    def link(entry: Entry) -> _Code:
        module, signatures, constants = code_of(entry, place.request.target, place.given, others)
        module.address(module.exports[0])
        return module, signatures, constants

    return place.linked(link)
