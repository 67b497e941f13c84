"""Models as libraries that C calls: one function for the whole model, its header, and its parameters in it or in a file
beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from os import PathLike
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Literal

from ..base.arguments import is_a
from ..base.errors import user_source
from ..codegen.abi.straight_line import StraightLine
from ..codegen.abi.stub import check_span, extent_value
from ..codegen.export.companion import Companion
from ..codegen.export.files import check_place, write_stream
from ..codegen.export.names import library_identifier, parameter_names
from ..codegen.export.weights import HEADER_BYTES, checksum_words, weights_companion, weights_header
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..driver.linking import Part, export_linked
from ..ir.constant import Constant
from ..ir.stmt import Function
from ..runtime.signature import Signature
from .arena import ALIGNMENT
from .errors import ModelNotExportable
from .node import Parts
from .variants import Buckets, Laid, Variants, weights_size

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["WeightsIn", "export_graph"]

WeightsIn = Literal["embed", "file"]


def export_graph(
    g: Parts,
    path: str | PathLike[str],
    weights: WeightsIn,
    threads: str,
    target: Target,
    options: BuildOptions,
    tuned: str | PathLike[str] | Database | None,
    exact: bool,
    buckets: Buckets | None = None,
) -> list[Path]:
    """Write the library, NAME.h and NAME.json, and NAME.weights where the parameters are in a file; return where.

    Raises ModelNotExportable (TW0915), BadBuckets (TW0909), and what Kernel.export raises.
    """
    variants = Variants.of(g, buckets)
    if not is_a(weights, str) or weights not in ("embed", "file"):
        raise ModelNotExportable(
            f"cannot export with weights={weights!r}",
            called=user_source(),
            allowed='"embed": in the library; "file": in a file beside it',
            fix='weights="file"',
        )
    place = check_place(path)
    stem = place.stem.removeprefix("lib") or place.stem
    name = library_identifier(stem)
    made: list[tuple[Laid, dict[str, int] | None]] = []

    def caller(parts: Mapping[str, Part]) -> Function:
        laid = variants.place_values(parts, {})
        made.append((laid, _weight_offsets(laid.held) if weights == "file" and laid.held else None))
        return variants.main(*made[0])

    exporter = export_linked(
        variants.kernels(),
        variants.functions(),
        caller,
        target,
        options,
        tuned,
        exact,
        variants.over,
        variants.recipes(),
    )
    ((laid, places),) = made
    held, digest = laid.held, _digest(laid.held)
    extra = (
        Companion()
        if places is None
        else weights_companion(
            name,
            variants.whole.weights_name,
            weights_size(held, places),
            digest,
            checksum_words(_contents(held, places)),
        )
    )
    written = list(
        exporter(
            path, threads, companion=_declare_arena(extra, name, exporter.programs[0].signature, variants, g.inputs)
        )
    )
    if places is not None:
        beside = place.with_name(f"{stem}.weights")
        write_stream(beside, chain([weights_header(digest)], _contents(held, places)))
        written.append(beside)
    return written


def _declare_arena(
    companion: Companion, name: str, signature: Signature, variants: Variants, order: Iterable[str]
) -> Companion:
    """Add the function that says how large the arena is. order: of the inputs as users pass them."""
    arena = variants.whole.arguments[-1]
    beyond = "; -1 for\n * extents that a call refuses: below 0, or beyond all memory" if signature.symbols else ""
    asked, count = f"{name}_arena_bytes", len(signature.symbols)
    sizes = ", ".join(parameter_names(signature)[:count])
    about = (
        f"/* The bytes of the memory, aligned to {ALIGNMENT}, that a call works in and that nobody else uses meanwhile: its\n"
        f" * argument `{arena}`. What is in it before does not matter, and nothing else is allocated{beyond}. */\n"
        f"int64_t {asked}({', '.join(f'int64_t {each}' for each in parameter_names(signature)[:count]) or 'void'});\n"
    )
    text = StraightLine()
    known = {each.name: f"%n{at}" for at, each in enumerate(signature.symbols)}
    (size,) = next(param.shape for _, param in signature.buffers if param.name == arena)
    for symbol, given in zip(signature.symbols, known.values(), strict=True):
        text.leave_if(text.compare("slt", "i64", given, 0), "fail")
        if symbol.limit is not None:
            text.leave_if(text.compare("sge", "i64", given, symbol.limit), "fail")
    needed = extent_value(text, size, known, -1)
    check_span(text, 0, 1, [needed])
    text.add(f"ret i64 {needed}")
    if text.exits:
        text.start("fail")
        text.add("ret i64 -1")
    extents = ", ".join(f"i64 {each}" for each in known.values())
    lines = "\n".join(text.lines)
    code = f"{companion.code}\ndefine i64 @{asked}({extents}) nounwind {{\n{lines}\n}}\n"
    return replace(
        companion,
        functions={asked: about, **companion.functions},
        code=code,
        before=companion.before + _variants_note(variants),
        types={**companion.types, arena: "void *"},
        model=variants.describe_arguments(order, bool(companion.types)),
        notes={arena: f"memory to work in: {asked}({sizes}) bytes, aligned to {ALIGNMENT}"},
    )


def _variants_note(variants: Variants) -> str:
    """Return the header's note on sizes that have code of their own."""
    named = "; ".join(str(variant) for variant in variants.each if variant.sizes)
    if not named:
        return ""
    rest = "others take code for any size."
    lines = wrap(f"Sizes that have code of their own, of which the first that fits runs: {named}; {rest}", 110)
    return f"/* {f'{chr(10)} * '.join(lines)} */\n"


def _weight_offsets(weights: Mapping[str, Constant]) -> dict[str, int]:
    """Return the offset of each of them in the file."""
    places: dict[str, int] = {}
    at = HEADER_BYTES
    for digest, held in weights.items():
        places[digest] = at
        at += -(-held.data.nbytes // ALIGNMENT) * ALIGNMENT
    return places


def _digest(weights: Mapping[str, Constant]) -> str:
    """Digest of all of them, in their order."""
    return hashlib.sha256("".join(f"{digest}\n" for digest in weights).encode()).hexdigest()


def _contents(weights: Mapping[str, Constant], places: Mapping[str, int]) -> Iterator[bytes | memoryview]:
    """Return the content after the file's first page."""
    written = HEADER_BYTES
    for each, held in weights.items():
        yield bytes(places[each] - written)
        yield held.memory.data if held.data.size else b""
        written = places[each] + held.data.nbytes
    yield bytes(max(0, weights_size(weights, places) - written))
