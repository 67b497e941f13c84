"""Texts of the statuses of an exported function."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.abi import OUT_OF_MEMORY, Check, pack_status
from ...runtime.diagnose import argument, decode_status, kernel_failure
from ...runtime.errors import MissingInstructions, NotATensor
from ...runtime.signature import BufferParam, Signature
from ..abi.stub import check_statuses

__all__ = [
    "FAR_DATA",
    "NULL_DATA",
    "NULL_SHAPE",
    "NULL_TENSOR",
    "OverlapTexts",
    "WRONG_PROCESSOR",
    "overlap_texts",
    "status_texts",
]

WRONG_PROCESSOR = pack_status(Check.PROCESSOR, 0)
NULL_TENSOR, NULL_SHAPE, NULL_DATA, FAR_DATA = 0, 1, 2, 3
"""What is NULL, or no memory either: the detail of a Check.NULL status."""

OverlapTexts = Sequence[tuple[str | None, str | None]]
"""Of each parameter, how the text of an overlap begins where it is the output, and how it ends where it is the other tensor."""

_NULLS = {
    NULL_TENSOR: "is NULL",
    NULL_SHAPE: "has dimensions, and NULL for its shape",
    NULL_DATA: "has elements, and NULL for its data",
    FAR_DATA: "has a byte_offset beyond all memory",
}


def status_texts(signature: Signature, messages: Sequence[str], features: Sequence[str]) -> dict[int, str]:
    """A text for every status that the C functions of a kernel can return, but for those of `overlap_texts`.

    messages: of its assertions, by status - 1. features: the instruction sets that it needs.
    """
    texts = {0: "success"}
    for status in (*range(1, len(messages) + 1), OUT_OF_MEMORY):
        error = kernel_failure(signature, status, messages)
        texts[status] = f"{error.code}: {error.headline}"
    for status in check_statuses(signature):
        error = decode_status(signature, status)
        texts[status] = f"{error.code}: {error.headline} ({error.reason})"
    if features:
        texts[WRONG_PROCESSOR] = (
            f"{MissingInstructions.code}: this processor lacks an instruction set that {signature.name} needs: "
            f"one of {' '.join(features)}"
        )
    for i, param in signature.buffers:
        for detail, what in _NULLS.items():
            if detail != NULL_SHAPE or param.shape:
                texts[pack_status(Check.NULL, i, detail)] = (
                    f"{NotATensor.code}: {argument(signature, i)} {what} (expected {param})"
                )
    return texts


def overlap_texts(signature: Signature) -> OverlapTexts:
    """The texts of the statuses of Check.OVERLAP, in two halves."""
    texts: list[tuple[str | None, str | None]] = []
    for i, param in enumerate(signature.params):
        if not isinstance(param, BufferParam):
            texts.append((None, None))
            continue
        error, other = decode_status(signature, pack_status(Check.OVERLAP, i, i)), argument(signature, i)
        begin = f"{error.code}: {error.headline.removesuffix(other)}"
        texts.append((begin if param.is_output else None, other))
    return texts
