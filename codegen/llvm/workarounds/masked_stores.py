"""A fault of LLVM 22's, and the way around it.

A masked store of a truncated vector, of whose constant mask one lane is left, becomes a store of that lane on x86: of the
whole element as it was before it was truncated, over its neighbours. Such masks come out of our tails when loops around
them are unrolled. After optimising, these stores are written as what they mean (and so that a choice by such a mask, of a
vector and of what lies where it is stored, is no masked store, masks of constants are folded in code made with little effort too):

    call void @llvm.masked.store.v2i8.p0(<2 x i8> %v, ptr align 1 %p, <2 x i1> <i1 true, i1 false>)
    →  %lane = extractelement <2 x i8> %v, i64 0;  store i8 %lane, ptr %p, align 1
"""

from __future__ import annotations

import re

__all__ = ["VERSIONS", "spell_out_lone_lanes"]

VERSIONS = (22,)

_STORE = re.compile(
    r"^ *(?:tail )?call void @llvm\.masked\.store\.v\d+i(?P<bits>8|16|32)\.p0\((?P<vector><\d+ x i\d+>) (?P<value>%[\w.$-]+), "
    r"ptr (?:[a-z_]+(?:\(\d+\))? )*?align (?P<align>\d+) (?P<place>%[\w.$-]+), <\d+ x i1> <(?P<mask>[^>]*)>\).*$",
    re.MULTILINE,
)


def spell_out_lone_lanes(text: str) -> str:
    """The text of a module with scalar stores in place of masked stores of one lane."""
    return _STORE.sub(_scalar, text) if "@llvm.masked.store." in text else text


def _scalar(store: re.Match[str]) -> str:
    lanes = store["mask"].split(", ")
    if lanes.count("i1 true") != 1 or lanes.count("i1 false") != len(lanes) - 1:
        return store[0]
    lane, bits = lanes.index("i1 true"), int(store["bits"])
    name, element = f"%lone.{store.start()}", f"i{bits}"
    return "\n".join(
        (
            f"  {name} = extractelement {store['vector']} {store['value']}, i64 {lane}",
            f"  {name}.at = getelementptr inbounds {element}, ptr {store['place']}, i64 {lane}",
            f"  store {element} {name}, ptr {name}.at, align {min(int(store['align']), bits // 8)}",
        )
    )
