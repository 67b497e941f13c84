"""Metadata that a library carries for tw.load: see runtime.metadata for the layout."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from ...runtime.metadata import GPU_ROLES, MAGIC, ROLES, SECTION, VERSION
from ..abi.stub import stub_symbols
from .cpu import MISSING
from .threads import PROCESS_THREADS

__all__ = ["metadata_text"]

_NAME = "tw_library"


def metadata_text(description: Mapping[str, Any], names: Sequence[str], gpu_names: Sequence[str] = ()) -> str:
    """The section as LLVM IR text: the description, and where the functions are, counted from the section's beginning, so
    that they need no symbols of their own. names: of the kernels. gpu_names: of those for GPUs."""
    data = json.dumps(description, separators=(",", ":"), sort_keys=True).encode()
    symbols = [
        MISSING,
        PROCESS_THREADS,
        *(stub_symbols(name)[role] for name in names for role in ROLES),
        *(stub_symbols(name)[role] for name in gpu_names for role in GPU_ROLES),
    ]
    declared = [f"declare i64 @{MISSING}()", f"@{PROCESS_THREADS} = external global ptr"]
    for name in names:
        entries = stub_symbols(name)
        declared += [f"declare i32 @{entries[role]}(ptr, ptr)" for role in ("check", "run")]
        declared += [
            f"declare ptr @{entries['call']}(ptr, ptr, i64, ptr)",
            f"@{entries['python']} = external global i8",
        ]
    for name in gpu_names:
        entries = stub_symbols(name)
        declared += [f"declare i32 @{entries['check']}(ptr, ptr)", f"declare i32 @{entries['run']}(ptr, ptr, ptr)"]
    offsets = ", ".join(
        f"i32 trunc (i64 sub (i64 ptrtoint (ptr @{symbol} to i64), i64 ptrtoint (ptr @{_NAME} to i64)) to i32)"
        for symbol in symbols
    )
    kind = f"<{{ [8 x i8], i32, i32, i32, i32, i32, [{len(symbols)} x i32], [{len(data)} x i8] }}>"
    numbers = f"i32 {VERSION}, i32 {len(data)}, i32 {zlib.crc32(data)}, i32 {len(symbols)}, i32 0"
    return "\n".join(
        [
            *declared,
            f"@{_NAME} = constant {kind} <{{ [8 x i8] {_bytes(MAGIC)}, {numbers}, [{len(symbols)} x i32] [{offsets}], "
            f'[{len(data)} x i8] {_bytes(data)} }}>, section "{SECTION}", align 8',
            f'@llvm.used = appending global [1 x ptr] [ptr @{_NAME}], section "llvm.metadata"',
            "",
        ]
    )


def _bytes(data: bytes) -> str:
    return 'c"' + "".join(f"\\{byte:02X}" for byte in data) + '"'
