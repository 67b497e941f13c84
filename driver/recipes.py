"""Requests for kernels of a program of many, and the same as JSON for another process, which knows them by their keys."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ..base.dataclass import dataclass
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..ir.passes.common.runner import is_watched
from .cache.key import build_key
from .compile import BuildItem, Request

__all__ = ["Recipes", "part_request", "make_recipe", "request_of_recipe"]


@dataclass(frozen=True)
class Recipes:
    """Requests for the kernels of a program.

    module: a helper's main, which calls `serve`. parts: of each kernel by name what that declares it from, as JSON has it, None
    where it cannot. texts: of all kernels, by name, what tells those that are declared alike.
    """

    module: str
    parts: Mapping[str, Any]
    texts: Mapping[str, str]


def part_request(name: str, what: Any, target: Target, options: BuildOptions, exact: bool, is_over: bool) -> Request:
    """The request for a kernel of a program of many."""
    return Request((BuildItem(name, what, over=is_over),), target, options, True, exact, True)


def make_recipe(request: Request, recipes: Recipes) -> dict[str, Any] | None:
    """Write down the kernel of a request for a helper; None where it could not know that it makes the same."""
    (program,) = request.programs
    options = request.options
    # watchers want to see the passes run in this process
    if recipes.parts.get(program.name) is None or options.watchers or is_watched():
        return None
    key = build_key(request)
    # an option that a recipe cannot say makes another kernel
    if key is None or options != _options(asked := _switches(options)):
        return None
    return {
        "name": program.name,
        "part": recipes.parts[program.name],
        "target": str(request.target),
        "options": asked,
        "exact": request.exact,
        "over": program.over,
        "key": _digest(key),
    }


def request_of_recipe(recipe: Mapping[str, Any], what: Any) -> Request | None:
    """The request that a recipe stands for, over a program that was declared from it; None where this process would make another
    kernel of it, or cannot tell."""
    target, options = Target.parse(recipe["target"]), _options(recipe["options"])
    request = part_request(recipe["name"], what, target, options, recipe["exact"], recipe["over"])
    key = build_key(request)
    # a helper of other sources would make another kernel
    return request if key is not None and _digest(key) == recipe["key"] else None


def _switches(options: BuildOptions) -> dict[str, bool]:
    return {name: getattr(options, name) for name in ("bounds_check", "fast_math", "fp_contract", "quick")}


def _options(switches: Mapping[str, bool]) -> BuildOptions:
    return BuildOptions(
        bounds_check=switches["bounds_check"],
        fast_math=switches["fast_math"],
        fp_contract=switches["fp_contract"],
        quick=switches["quick"],
    )


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
