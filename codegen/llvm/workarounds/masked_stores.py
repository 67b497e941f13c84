"""A fault of LLVM 22's, and the way around it.

A masked store of a truncated vector, of whose constant mask one lane is left, becomes a store of that lane on x86: of the
whole element as it was before it was truncated, over its neighbours. Such masks come out of our tails when loops around
them are unrolled. After optimising, these stores are written as what they mean:

    call void @llvm.masked.store.v2i8.p0(<2 x i8> %v, ptr align 1 %p, <2 x i1> <i1 true, i1 false>)
    →  %lane = extractelement <2 x i8> %v, i64 0;  store i8 %lane, ptr %p, align 1
"""

from __future__ import annotations

import re

__all__ = ["spell_out_lone_lanes"]

_STORE = re.compile(
    r"^ *(?:tail )?call void @llvm\.masked\.store\.v\d+i(?P<bits>8|16|32)\.p0\((?P<vector><\d+ x i\d+>) (?P<value>%[\w.$-]+), "
    r"ptr (?:[a-z_]+(?:\(\d+\))? )*?align (?P<align>\d+) (?P<place>%[\w.$-]+), <\d+ x i1> <(?P<mask>[^>]*)>\).*$", re.MULTILINE)


def spell_out_lone_lanes(text: str) -> str:
    """The text of a module with scalar stores in place of masked stores of one lane."""
    return _STORE.sub(_scalar, text) if "@llvm.masked.store." in text else text


def _scalar(found: re.Match[str]) -> str:
    lanes = found["mask"].split(", ")
    if lanes.count("i1 true") != 1 or lanes.count("i1 false") != len(lanes) - 1:
        return found[0]
    lane, bits = lanes.index("i1 true"), int(found["bits"])
    name, element = f"%lone.{found.start()}", f"i{bits}"
    return "\n".join((
        f"  {name} = extractelement {found['vector']} {found['value']}, i64 {lane}",
        f"  {name}.at = getelementptr inbounds {element}, ptr {found['place']}, i64 {lane}",
        f"  store {element} {name}, ptr {name}.at, align {min(int(found['align']), bits // 8)}"))
