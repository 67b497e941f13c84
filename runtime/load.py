"""Loading exported libraries: their kernels are called, and check their arguments, as those that were built here.

Nothing of the compiler is needed. What a library says of itself is read from its file, the processor is asked by the
library's own code, and only then is anything of it called.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, cast

from ..base.errors import user_source
from ..base.untrusted_input import read_regular
from .cases import Cases
from .cuda_loaded import loaded_device_kernel
from .errors import MissingInstructions, NotALibrary, NotLinkable, OtherVersion, WrongMachine
from .hosts import host
from .kernel import Kernel, make_kernel
from .loaded_model import LoadedModel
from .metadata import COMMON, MACHINES, ROLES, VERSION, Metadata, NoMetadata, read_metadata
from .module import Module
from .signature import Signature
from .threads import join_threads
from .timing import TimingResult

__all__ = ["load"]

_LARGEST = 4 << 30


class Loaded(Protocol):
    """Contents of a library, as type checkers see it: the kernel of one that `f.export` wrote is called and has a signature, of
    any other one the kernels are found by their names."""

    @property
    def signature(self) -> Signature: ...
    def __call__(self, *args: Any, **named: Any) -> Any: ...
    def time(self, *args: Any, number: int = 1, repeat: int = 9, min_repeat_ms: float = 10.0) -> TimingResult: ...
    def __getitem__(self, name: str, /) -> Kernel: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object, /) -> bool: ...


def load(path: str | os.PathLike[str], verify: bool = True) -> Loaded:
    """The kernel of a shared library that `f.export` wrote, the Module of one that `module.export` wrote, or the LoadedModel of one
    that a model's export wrote, which takes inputs and gives outputs.

    They take what built kernels take, arrays of the same shapes and dtypes in the same order, and raise what those raise; what was
    built for GPUs takes tensors on one, and needs the driver alone. The library stays loaded until the process ends.

    verify: a model's weights in a file beside it are read once, when the model is first called, to see that they are as they were
    written; False leaves them unread but where calls need them. Raises NotALibrary (TW0741) for what is no such library,
    WrongMachine (TW0743) for one of another machine, OtherVersion (TW0744) for one whose description is of another version,
    NotLinkable (TW0745) where the system cannot load it, and MissingInstructions (TW0742) where it needs instructions that this
    processor does not have.
    """
    try:
        place = Path(path)
        content = read_regular(place, _LARGEST)
        metadata = read_metadata(content)
    except (OSError, ValueError, TypeError) as error:  # of texts that no path can be, and of what is no text
        raise NotALibrary(
            f"cannot read {path!r}"[:300],
            reason=getattr(error, "strerror", None) or str(error),
            called=user_source(),
            fix="give the path of a .so that f.export wrote",
        ) from error
    except NoMetadata as error:
        raise NotALibrary(
            f"{str(path)!r} is not a library of tilewright's",
            reason=str(error),
            called=user_source(),
            allowed='a shared library that f.export("libname.so") wrote of a kernel for llvm',
        ) from None
    _require_machine(place, metadata)
    library = _open(place, content, metadata)
    base = _base_address(library, metadata) + metadata.address
    addresses = [base + offset for offset in metadata.offsets]
    _require_instructions(place, metadata, addresses[0])
    if metadata.has_threads:
        join_threads(addresses[1])
    entries = iter(addresses[len(COMMON) :])
    kernels = [
        make_kernel(each.signature, dict(zip(ROLES, entries, strict=False)), messages=each.messages, code=library)
        for each in metadata.functions
    ]
    kernels += [
        loaded_device_kernel(each.signature, next(entries), next(entries), each.messages, library)
        for each in metadata.gpu_functions
    ]
    if metadata.is_module:
        keys = [each.key for each in (*metadata.functions, *metadata.gpu_functions)]
        named: dict[str, Kernel] = dict(zip(keys, kernels, strict=True))
        cases: dict[str, Kernel] = {
            name: Cases(name, [named[key] for key in keys]) for name, keys in metadata.cases.items()
        }
        return cast("Loaded", Module({**cases, **named}))
    if metadata.model is not None:
        return cast("Loaded", LoadedModel(kernels[0], metadata.model, library, place.absolute(), verify))
    return cast("Loaded", kernels[0])


def _require_machine(place: Path, metadata: Metadata) -> None:
    here = host().machine()
    if metadata.machine != here or here not in MACHINES.values():
        raise WrongMachine(
            f"{place.name!r} is for {metadata.machine}; this machine is {here}",
            called=user_source(),
            fix="load it on such a machine, or export it for this one",
        )
    if metadata.version != VERSION:
        raise OtherVersion(
            f"{place.name!r} describes itself in version {metadata.version}; version {VERSION} is known here",
            called=user_source(),
            fix="export it again, or load it with the tilewright that wrote it",
        )


def _open(place: Path, content: bytes, metadata: Metadata) -> ctypes.CDLL:
    """The library, loaded. The system's loader takes a path that it has loaded before for the same library, even where the
    file is another by now: then this one is loaded from a copy in memory, once for each content."""
    try:
        library = ctypes.CDLL(str(place.absolute()))
        if _loaded_section(library, metadata) != metadata.raw:
            digest = hashlib.sha256(content).digest()
            library = _copies.get(digest) or host().load_copy(content, len(_copies))
            _copies[digest] = library
    except (OSError, ValueError) as error:
        raise NotLinkable(
            f"cannot load {place.name!r}",
            reason=str(error),
            called=user_source(),
            fix='install what it needs (libgomp, for threads="openmp"), or export with threads="none"',
        ) from error
    if _loaded_section(library, metadata) != metadata.raw:
        raise NotALibrary(
            f"{place.name!r} is not a library of tilewright's",
            reason="its description is not at the address that it names",
            called=user_source(),
            fix="export it again",
        )
    return library


_copies: dict[bytes, ctypes.CDLL] = {}
"""Libraries that were loaded from copies, by the digests of their contents."""


def _loaded_section(library: ctypes.CDLL, metadata: Metadata) -> bytes:
    """The bytes in memory where the section should be; empty where the loaded library is quite another."""
    try:
        address = _base_address(library, metadata) + metadata.address
    except NotALibrary:
        return b""
    return host().read_memory(address, len(metadata.raw))


def _base_address(library: ctypes.CDLL, metadata: Metadata) -> int:
    """Return where the library's file begins in memory."""
    name = (*metadata.functions, *metadata.gpu_functions)[0].name
    try:
        return host().library_base(library, name)
    except AttributeError:
        raise NotALibrary(
            f"the library has no function {name!r}, which its description lists",
            called=user_source(),
            fix="export it again",
        ) from None


def _require_instructions(place: Path, metadata: Metadata, address: int) -> None:
    """Ask the processor, by the library's own code, which uses nothing beyond the architecture's baseline."""
    missing = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)()
    absent = {name for k, name in enumerate(metadata.features) if missing >> k & 1}
    for function in metadata.functions:
        lacking = min(([name for name in needed if name in absent] for needed in function.variants), key=len)
        if lacking:
            raise MissingInstructions(
                f"{place.name!r} needs instructions that this processor lacks: {', '.join(lacking)}",
                reason=f"it was exported for {metadata.target}",
                called=user_source(),
                fix='export it for what both machines have, such as target="llvm -mcpu=x86-64-v3"',
            )
