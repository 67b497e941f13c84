"""The package's own modules as they were loaded: each from the content of its source, whole or not at all.

Python believes bytecode by the time and the size of its source. This finder, which serves this package alone, believes it by the
source's content (PEP 552: bytecode that holds a hash and is checked), and remembers that content's digest, so that what runs in
this process can be told from what lies on the disk. An import that an exception ends takes with it what it had loaded, which may
have names of the module that is not there; a fork waits for the imports of other threads, whose locks nobody would release in
the child, and calls the hooks of what they loaded meanwhile.
"""

from __future__ import annotations

import _frozen_importlib
import _thread
import errno
import gc
import marshal
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import import_module, invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, resolve_name, source_hash
from types import CodeType, ModuleType

__all__ = ["LOADS", "PACKAGE", "ROOT", "import_on_thread", "source_digest"]

ROOT = os.path.dirname(os.path.abspath(__file__))
PACKAGE = __name__.rpartition(".")[0]
_CHECKED = MAGIC_NUMBER + (0b11).to_bytes(4, "little")
"""How bytecode begins that holds the hash of its source."""

LOADS: list[tuple[str, bytes]] = []
"""Every loading of a module: its name, without the package's, and the digest of the source that it was loaded from."""
_begun: list[tuple[int, str]] = []
"""The thread and the name of every import, in the order in which they began."""
_unfinished: list[tuple[int, str]] = []
_pauses: list[int] = []
"""The threads that have stopped the collector of garbage, and start it again when their import has ended."""


def source_digest(source: bytes) -> bytes:
    """The digest by which the content of a source is known."""
    return sha256(source).digest()


class _Loader(SourceFileLoader):
    """Loads a module of this package."""

    def get_code(self, fullname: str) -> CodeType:
        """The code of the source as it is now: bytecode that is kept of this very content, or compiled and kept."""
        path = self.get_filename(fullname)
        source = self.get_data(path)
        LOADS.append((fullname.removeprefix(f"{PACKAGE}."), source_digest(source)))
        try:
            kept = cache_from_source(path)
        except NotImplementedError:  # a Python that keeps no bytecode
            return self.source_to_code(source, path)
        head = _CHECKED + source_hash(source)
        code = self._kept_code(kept, path, head)
        if code is None:
            code = self.source_to_code(source, path)
            if not sys.dont_write_bytecode:
                self.set_data(kept, head + marshal.dumps(code))
        return code

    def _kept_code(self, kept: str, path: str, head: bytes) -> CodeType | None:
        """The bytecode in a file, where it is of this source; None where there is none."""
        try:
            content = self.get_data(kept)
            if content[:16] != head and not (_is_fixed(kept) and _is_older(path, kept, content)):
                return None
            code = marshal.loads(memoryview(content)[16:])
        except (OSError, EOFError, ValueError, TypeError):
            return None
        return _relocate_code(code, path) if isinstance(code, CodeType) else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        this = _thread.get_ident(), module.__name__
        begun = len(_begun)
        _begun.append(this)
        _unfinished.append(this)
        try:
            super().exec_module(module)
        except BaseException:
            _forget([name for thread, name in _begun[begun + 1 :] if thread == this[0]])
            raise
        finally:
            _unfinished.remove(this)


def _is_fixed(kept: str) -> bool:
    """Return whether bytecode cannot be written here: then an installation's own is taken."""
    return sys.dont_write_bytecode or not os.access(os.path.dirname(kept), os.W_OK)


def _is_older(path: str, kept: str, content: bytes) -> bool:
    """Return whether a source has the time and the size that bytecode names, and has not been touched since that was written."""
    source, cached = os.stat(path), os.stat(kept)
    times = (int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
    head = MAGIC_NUMBER + bytes(4) + b"".join(number.to_bytes(4, "little") for number in times)
    return content[:16] == head and source.st_ctime_ns < cached.st_ctime_ns


def _relocate_code(code: CodeType, path: str) -> CodeType:
    """Code that names the file in which its source is, wherever that was when it was compiled."""
    if code.co_filename == path:
        return code
    constants = tuple(_relocate_code(one, path) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=path, co_consts=constants)


def _is_begun(module: ModuleType) -> bool:
    """Return whether a module is not loaded whole yet."""
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


def _forget(names: Sequence[str]) -> None:
    """Take modules out of the process, as if they had never been imported."""
    for name in names:
        module = sys.modules.pop(name, None)
        parent, _, own = name.rpartition(".")
        inside = getattr(sys.modules.get(parent), "__dict__", {})
        if module is not None and inside.get(own) is module:
            inside.pop(own)


def _is_there(name: str, folders: Sequence[str]) -> bool:
    own = name.rpartition(".")[2]
    places = [os.path.join(folder, own) for folder in folders]
    return any(os.path.exists(f"{place}.py") or os.path.exists(f"{place}/__init__.py") for place in places)


class _Finder:
    """Finder of this package's modules: where Python finds them, loaded as above."""

    package = PACKAGE

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The specification of a module of ours; None for any other, and where another loader is chosen for it."""
        if not name.startswith(f"{PACKAGE}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None and _is_there(
            name, path or ()
        ):  # no folder can be listed without descriptors, and Python remembers
            invalidate_caches()
            spec = PathFinder.find_spec(name, path, target)
            if spec is None:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Import:
    """An import on its way on a thread of its own. done: locked until it has ended."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module: ModuleType | None = None
        self.error: BaseException | None = None
        self.done = _thread.allocate_lock()
        self.done.acquire()

    def run(self) -> None:
        if gc.isenabled():  # what is loaded stays: to look through it again and again takes a tenth of the time
            _pauses.append(_thread.get_ident())
            gc.disable()
        try:
            self.module = import_module(self.name)
        except BaseException as error:  # noqa: BLE001  (whoever waits gets it)
            self.error = error
        finally:
            _resume_collector(_thread.get_ident())
            self.done.release()


def _resume_collector(thread: int) -> None:
    if thread in _pauses:
        _pauses.remove(thread)
        gc.enable()


def import_on_thread(name: str, package: str) -> ModuleType:
    """Import a module of this package as import_module does, on a thread that neither Ctrl-C nor a tracer reaches: what strikes the caller
    meanwhile leaves a module that is whole. Raises what importing it raises."""
    whole, this = resolve_name(name, package), _thread.get_ident()
    if any(thread == this for thread, _ in _unfinished):  # within an import of ours, which holds locks
        return import_module(whole)
    module = sys.modules.get(whole)
    if module is not None and not _is_begun(module):
        return module
    work = _Import(whole)
    try:
        _thread.start_new_thread(work.run, ())
    except RuntimeError:  # no more threads: then without
        return import_module(whole)
    work.done.acquire()
    if work.module is not None:
        return work.module
    assert work.error is not None
    if isinstance(work.error, OSError):
        from .base.errors import resource_error  # which this module has loaded

        spent = resource_error(work.error, f"cannot import {whole}")
        if spent is not None:
            raise spent from work.error
    raise work.error


def _await_others() -> None:
    """Wait, before a fork, until no other thread is importing."""
    this = _thread.get_ident()
    for _ in range(1000):  # others may begin meanwhile
        names = [name for thread, name in _unfinished if thread != this]
        if not names:
            break
        for name in names:
            with suppress(Exception):  # its own thread tells its caller
                import_module(name)


def _reset_child() -> None:
    """Reset the child's table of imports: what another thread has begun to import since the fork began to wait is as if it had never been
    imported."""
    this = _thread.get_ident()
    for thread in [thread for thread in _pauses if thread != this]:
        _resume_collector(thread)
    own = [name for thread, name in _unfinished if thread == this]
    begun = {name for name, module in list(sys.modules.items()) if _is_begun(module) and name not in own}
    for thread, name in _unfinished:
        if thread != this:
            start = len(_begun) - 1 - _begun[::-1].index((thread, name))
            begun.update(name for owner, name in _begun[start:] if owner == thread)
    _forget([name for name in begun if name.startswith(f"{PACKAGE}.")])
    locks = getattr(_frozen_importlib, "_module_locks", {})  # Python's own, which it does not free in a child
    for name in [name for name in locks if name.startswith(f"{PACKAGE}.")]:
        del locks[name]
    _unfinished[:] = [one for one in _unfinished if one[0] == this]


# one that an interrupted import left is replaced
sys.meta_path[:] = [_Finder, *(one for one in sys.meta_path if getattr(one, "package", None) != PACKAGE)]
from .base.forks import register_fork_hooks, register_fork_wait  # noqa: E402  (by the finder above, like every other module)

register_fork_wait(_await_others)
register_fork_hooks(in_child=_reset_child)
