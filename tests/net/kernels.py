"""The texts of the frozen programs: loop IR, LLVM IR, C and CUDA C."""

from __future__ import annotations

import tilewright as tw

from .internals import c_source, cpu_sources
from .programs import load_programs

__all__ = ["TARGETS", "programs", "texts_of"]

TARGETS = {name: f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={name}" for name in ("znver4", "haswell")}
"""The processors that code is made for: one with vectors of 512 bits and masks, one with neither."""
CUDA = "cuda -arch=sm_90"

programs = load_programs()


def texts_of(name: str) -> dict[str, str]:
    """Every text of a program by kind; where it is refused, the code of the refusal.

    lowered: the loop IR of tw.lower. final PROCESSOR, llvm PROCESSOR: the loop IR right before code generation, and the LLVM IR
    before the optimiser. c: the C text. cuda: the CUDA C text, where loops are bound to threads.
    """
    s, args = programs[name]()
    try:
        function = tw.lower(s, args)
    except tw.TilewrightError as error:
        return {"lowered": _refusal(error)}
    texts = {"lowered": str(function)}
    for name, target in TARGETS.items():
        try:
            texts[f"final {name}"], texts[f"llvm {name}"] = cpu_sources(function, target)
        except tw.TilewrightError as error:
            texts[f"llvm {name}"] = _refusal(error)
    others = {"c": lambda: c_source(function)}
    if "threadIdx" in texts["lowered"] or "blockIdx" in texts["lowered"]:
        others["cuda"] = lambda: tw.build(s, args, target=CUDA).source("cuda")
    for kind, text in others.items():
        try:
            texts[kind] = text()
        except tw.TilewrightError as error:
            texts[kind] = _refusal(error)
    return texts


def _refusal(error: tw.TilewrightError) -> str:
    return f"refused: {error.code}"
