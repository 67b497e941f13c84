"""One C function for several shapes and dtypes: NAME_checked goes to the first kernel that takes the tensors.

    int32_t NAME_checked(const DLTensor *A, const DLTensor *C)     the first case that takes them, by its own checks
    const char *NAME_error(int32_t status)

The cases keep their own functions, plain ones for callers who know the shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...runtime.abi import Check, pack_status
from ...runtime.errors import NoCase
from ...runtime.signature import BufferParam, Signature
from .entries import carried_kinds
from .error_function import error_text
from .header import declarations
from .names import entry_names
from .statuses import overlap_texts, status_texts

__all__ = ["case_declarations", "case_text", "same_kinds"]

_OF_ANOTHER_CASE = (Check.DTYPE, Check.RANK, Check.SHAPE, Check.SYMBOL, Check.TOO_LARGE)
"""Faults of arguments that another case may take."""


def same_kinds(a: Signature, b: Signature) -> bool:
    """Return whether two kernels are called alike: tensors, outputs and kinds of numbers in the same places."""

    def kinds(signature: Signature) -> list[object]:
        # extents may differ from case to case, so they are not compared
        return [p.is_output if isinstance(p, BufferParam) else p.dtype for p in signature.params]

    return kinds(a) == kinds(b)


def case_declarations(name: str, cases: Sequence[Signature]) -> dict[str, str]:
    """The C functions, by name, each with its comment and declaration."""
    _, checked, error = declarations(replace(cases[0], name=name))  # any case has the declaration of all
    # a comment in C ends at the first */
    shapes = "".join(f"\n *   {str(case).replace('*/', '* /')}" for case in cases)
    _, checked_name, error_name = entry_names(name)
    return {
        checked_name: f"/* {name}: the first of these functions that takes the tensors, by their shapes and dtypes:{shapes}\n */\n"
        f"{checked}\n",
        error_name: f"{error}\n",
    }


def case_text(
    name: str,
    cases: Sequence[Signature],
    messages: Mapping[str, Sequence[str]],
    features: Sequence[str],
    attributes: str,
) -> str:
    """The functions as LLVM IR. messages: of each case's assertions. attributes: of functions that run on any processor."""
    kinds = carried_kinds(cases[0])
    passed = ", ".join(f"{kind} %p{at}" for at, kind in enumerate(kinds))
    _, checked, error = entry_names(name)
    lines = ["entry:", "  br label %case0"]
    begin = 0
    for at, case in enumerate(cases):
        following = f"case{at + 1}"
        ways = " ".join(f"i32 {check}, label %{following}" for check in _OF_ANOTHER_CASE)
        lines += [
            f"case{at}:",
            f"  %status{at} = call i32 @{entry_names(case.name)[1]}({passed})",
            # -1 is a wrong processor, below are failed checks: only these ask the next case
            f"  %ran{at} = icmp sge i32 %status{at}, -1",
            f"  br i1 %ran{at}, label %done{at}, label %refused{at}",
            f"refused{at}:",
            f"  %bits{at} = lshr i32 %status{at}, 24",  # a check's number is in bits 24 to 30 of its status
            f"  %check{at} = and i32 %bits{at}, 127",
            f"  switch i32 %check{at}, label %done{at} [ {ways} ]",
            f"done{at}:",
            # an assertion's number: those of the cases before it come first
            f"  %stopped{at} = icmp sgt i32 %status{at}, 0",
            f"  %begin{at} = select i1 %stopped{at}, i32 {begin}, i32 0",
            f"  %told{at} = add i32 %status{at}, %begin{at}",
            f"  ret i32 %told{at}",
        ]
        begin += len(messages[case.name])
    lines += [f"case{len(cases)}:", f"  ret i32 {pack_status(Check.CASE, 0)}"]
    declared = [f"declare i32 @{entry_names(case.name)[1]}({', '.join(kinds)})" for case in cases]
    return "\n".join(
        [
            *declared,
            f"define i32 @{checked}({passed}) {attributes} {{",
            *lines,
            "}",
            error_text(
                error,
                _texts(name, cases, messages, features),
                overlap_texts(replace(cases[0], name=name)),
                attributes,
            ),
        ]
    )


def _texts(
    name: str,
    cases: Sequence[Signature],
    messages: Mapping[str, Sequence[str]],
    features: Sequence[str],
) -> dict[int, str]:
    """A text for every status. What differs from case to case, an expected shape, is left out."""
    texts: dict[int, str] = {}
    begin = 0
    for case in cases:
        for status, text in status_texts(replace(case, name=name), messages[case.name], features).items():
            place = status + begin if status > 0 else status
            known = texts.setdefault(place, text)  # the status of one check is the same in all cases
            if known != text:
                texts[place] = known.partition(" (expected ")[0]  # what is expected differs from case to case
        begin += len(messages[case.name])
    shapes = "; ".join(map(str, cases))
    return {**texts, pack_status(Check.CASE, 0): f"{NoCase.code}: no case of {name} takes these tensors: {shapes}"}
