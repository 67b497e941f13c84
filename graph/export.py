"""Models as libraries that C calls: one function for the whole model, its header, and its parameters in it or in a file
beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..codegen.export.companion import Companion
from ..codegen.export.files import write_stream
from ..codegen.export.names import library_identifier
from ..codegen.export.weights import HEADER_BYTES, weights_companion, weights_header
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..driver.linked import Part, export_linked
from ..errors import user_source
from ..ir.stmt import Function
from .arena import ALIGNMENT
from .errors import ModelNotExportable
from .flow import functions_of
from .node import Parts
from .plan import Layout, Plan, weights_size
from .weights import Weights

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["WeightsIn", "export_graph"]

WeightsIn = Literal["embed", "file"]


def export_graph(
    g: Parts, path: str | PathLike[str], weights: WeightsIn, threads: str, target: Target, options: BuildOptions,
    tuned: str | PathLike[str] | Database | None, exact: bool,
) -> list[Path]:
    """Writes the library, NAME.h and NAME.json, and NAME.weights where the parameters are in a file; returns where.

    Raises ModelNotExportable (TW0915), and what Kernel.export raises.
    """
    if g.symbols:
        raise ModelNotExportable(
            f"graph {g.name} cannot be exported as it is", called=user_source(),
            reason=f"a library is for one size, and {', '.join(g.symbols)} stand{'' if len(g.symbols) > 1 else 's'} for several",
            fix='give the sizes when the model is read: tw.graph.from_onnx(path, shapes={"x": (1, 3, 224, 224)})')
    if weights not in ("embed", "file"):
        raise ModelNotExportable(f"cannot export with weights={weights!r}", called=user_source(),
                                 allowed='"embed": in the library; "file": in a file beside it', fix='weights="file"')
    plan = Plan.of(g)
    stem = Path(path).stem.removeprefix("lib") or Path(path).stem
    name = library_identifier(stem)
    made: list[tuple[Layout, Weights, dict[str, int] | None]] = []

    def caller(parts: Mapping[str, Part]) -> Function:
        layout, held = plan.layout(parts), plan.weights(parts, {})
        places = _places(held) if weights == "file" and held.held else None
        made.append((layout, held, places))
        return plan.main(layout, held, places)

    exporter = export_linked(plan.kernels(), functions_of(plan), caller, target, options, tuned, exact, plan.over)
    (layout, held, places), = made
    digest = _digest(held)
    extra = Companion() if places is None else weights_companion(name, plan.weights_name, weights_size(held, places), digest)
    written = list(exporter(path, threads, companion=_with_arena(extra, name, layout.size, plan)))
    if places is not None:
        beside = Path(path).with_name(f"{stem}.weights")
        write_stream(beside, _contents(held, places, digest))
        written.append(beside)
    return written


def _with_arena(companion: Companion, name: str, size: int, plan: Plan) -> Companion:
    """With the function that says how large the arena is."""
    asked = f"{name}_arena_bytes"
    about = (f"/* The bytes of the memory, aligned to {ALIGNMENT}, that a call works in and that nobody else uses meanwhile: its\n"
             f" * argument `{plan.arena_name}`. What is in it before does not matter, and nothing else is allocated. */\n"
             f"int64_t {asked}(void);\n")
    code = f"{companion.code}\ndefine i64 @{asked}() nounwind {{\n  ret i64 {size}\n}}\n"
    return replace(companion, functions={asked: about, **companion.functions}, code=code,
                   types={**companion.types, plan.arena_name: "void *"})


def _places(weights: Weights) -> dict[str, int]:
    """Where each of them lies in the file."""
    places: dict[str, int] = {}
    at = HEADER_BYTES
    for digest, held in weights.held.items():
        places[digest] = at
        at += -(-held.data.nbytes // ALIGNMENT) * ALIGNMENT
    return places


def _digest(weights: Weights) -> str:
    """Of all of them, in their order."""
    return hashlib.sha256("".join(f"{digest}\n" for digest in weights.held).encode()).hexdigest()


def _contents(weights: Weights, places: Mapping[str, int], digest: str) -> Iterator[bytes | memoryview]:
    yield weights_header(digest)
    written = HEADER_BYTES
    for each, held in weights.held.items():
        yield bytes(places[each] - written)
        yield held.memory.data if held.data.size else b""
        written = places[each] + held.data.nbytes
    yield bytes(max(0, weights_size(weights, places) - written))
