"""Schedule primitives: a file each. Every module here is loaded with schedule/, and its rows are then methods."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

__all__ = ["load"]


def load() -> None:
    """Load every primitive that there is."""
    for module in iter_modules(__path__):
        import_module(f".{module.name}", __name__)
