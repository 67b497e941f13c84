"""Packages whose names are imported when they are first used, so that a program pays for the operators it names.

A function may share its module's name (topi.matmul in topi/matmul.py): importing the module would put the module in the
function's place, so what the package hands on under such a name stays the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ..importing import import_on_thread
from ..te.errors import NoSuchName
from ..te.unknown_names import unknown_name


class _Face(ModuleType):
    """A package that hands on names from its modules. homes: name -> module; decorate: of what they hand on; set by lazily()."""

    homes: Mapping[str, str]
    decorate: Callable[[Any], Any]

    def __setattr__(self, name: str, value: Any) -> None:
        # the import machinery sets a submodule as attribute of its package
        if isinstance(value, ModuleType) and self.__dict__.get("homes", {}).get(name) == name:
            value = self.decorate(getattr(value, name))
        super().__setattr__(name, value)


def check_on_use(face: str) -> Callable[[Any], Any]:
    """Decorate operators with the check of their arguments (signatures.checked), which is loaded with the first of them."""
    # loaded with the first operator that is used
    return lambda value: import_on_thread(".signatures", __name__.rpartition(".")[0]).checked(face)(value)


def lazy_attributes(
    package: str,
    homes: Mapping[str, str],
    subpackages: tuple[str, ...] = (),
    decorate: Callable[[Any], Any] = lambda value: value,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The __getattr__ and __dir__ of `package`, whose names live where `homes` says (name -> module below it). decorate: what is
    made of each that lives below it."""
    module = sys.modules[package]
    module.__class__ = _Face  # properties of a module need a class of its own
    module.__dict__.update(homes=homes, decorate=decorate)

    def get(name: str) -> Any:
        if name in subpackages:
            return import_on_thread(f".{name}", package)
        home = homes.get(name)
        if home is None:
            raise _unknown(module, name, names(), subpackages)
        below = not home.startswith(".")
        value = getattr(import_on_thread(f".{home}" if below else home, package), name)
        # The import has put a function of its module's name there, or is about to on another thread.
        if name not in module.__dict__:  # another thread may have set it meanwhile: one object for all
            module.__dict__[name] = decorate(value) if below else value
        return module.__dict__[name]

    def names() -> list[str]:
        return sorted({*homes, *subpackages})

    return get, names  # what dir() shows, before anything is imported


def _unknown(module: ModuleType, name: str, names: list[str], subpackages: tuple[str, ...]) -> AttributeError:
    """The error for a name that neither the package nor those below it have, or that one of those has."""
    owner = module.__name__.partition(".")[2]
    below = () if name.startswith("_") else subpackages
    inside = {package: dir(import_on_thread(f".{package}", module.__name__)) for package in below}
    homes = [package for package, its in inside.items() if name in its]
    known = [*names, *(f"{package}.{each}" for package, its in inside.items() for each in its)]
    return unknown_name(NoSuchName, owner, name, known, {name: f"{owner}.{homes[0]}.{name}"} if homes else None)
