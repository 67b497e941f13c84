"""Names that LLVM knows: machines, their processors and features; and the check of those that a target names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import llvmlite.binding as llvm

from ..base.errors import user_source
from ..runtime.critical_section import run_in_turn
from .errors import UnknownFeature, UnknownProcessor, UnknownTriple

__all__ = [
    "ALIASES",
    "TUNING",
    "check_features",
    "check_processor",
    "check_triple",
    "initialize",
    "knows_feature",
    "machine_and_system",
    "nearest",
    "process_triple",
    "find_triple",
]

ALIASES = {"thead-c908": ("generic-rv64", "+m,+a,+f,+d,+c,+v,+zba,+zbb,+zbs,+zfh,+zvfh")}
"""Processors that LLVM has no name for: the one that it is told instead, and their features."""
TUNING = {"cortex-a55": "+slow-paired-128"}
"""Features that choose among instructions that all of a design have. Cortex-A55 loads two whole vectors apart: by LLVM's model of it a pair
keeps multiply-adds from beginning beside it."""
_ARCHITECTURES = ("x86_64", "aarch64", "riscv64")


def nearest(word: str, known: Iterable[str], form: str) -> str:
    """Suggest a correction, in a text with {} for it: the name that looks most like `word`, or the first."""
    known = list(known)
    from difflib import get_close_matches  # late: only a mistake needs it

    close = get_close_matches(word, known, 1, 0.5)
    return form.format(close[0] if close else known[0])


def check_triple(target: str, triple: str) -> None:
    """Raise UnknownTriple where LLVM makes no code for the machine. target: the text that names it, here and below."""
    initialize(True)
    try:
        _find(triple)
    except RuntimeError as error:
        raise UnknownTriple(
            f"target {target!r}: LLVM has no code generator for the machine {triple!r}",
            reason=str(error),
            called=user_source(),
            fix='for this machine leave -mtriple out; another one is "aarch64-unknown-linux-gnu"',
        ) from None


@cache
def find_triple(cpu: str) -> str:
    """The machine of this process's system that has a processor of this name; empty for this machine, and where none has."""
    here, name = process_triple(), ALIASES.get(cpu, (cpu,))[0]
    own, _, system = here.partition("-")
    if not cpu or name in _known_names(here)[0]:
        return ""
    others = (f"{architecture}-{system}" for architecture in _ARCHITECTURES if architecture != own)
    return next((triple for triple in others if name in _known_names(triple)[0]), "")


def check_processor(target: str, cpu: str, triple: str) -> None:
    """Raise UnknownProcessor where the machine has none of this name."""
    known, _ = _known_names(triple)
    if cpu not in known:
        raise UnknownProcessor(
            f"target {target!r}: unknown processor {cpu!r} for {machine_and_system(triple)[0]}",
            called=user_source(),
            allowed=_choices(cpu, known),
            fix=nearest(cpu, known, "-mcpu={}"),
        )


def check_features(target: str, features: Sequence[str], triple: str, host: Mapping[str, bool]) -> None:
    """Raise UnknownFeature for what is neither added nor removed, or has a name that the machine's processors do not have.
    host: names that are known without asking."""
    for feature in features:
        if feature[:1] not in "+-":
            raise UnknownFeature(
                f"target {target!r}: a feature is added or removed, {feature!r} says neither",
                called=user_source(),
                fix=f"-mattr=+{feature}",
            )
        if not knows_feature(feature[1:], triple, host):
            _, known = _known_names(triple)
            raise UnknownFeature(
                f"target {target!r}: unknown feature {feature[1:]!r} for {machine_and_system(triple)[0]}",
                called=user_source(),
                allowed=_choices(feature[1:], known),
                fix="-mattr=" + feature[0] + nearest(feature[1:], known, "{}"),
            )


def knows_feature(feature: str, triple: str, host: Mapping[str, bool]) -> bool:
    """Return whether the machine's processors have a feature of this name. host: names that are known without asking."""
    return feature in host or feature in _known_names(triple)[1]


@run_in_turn
def _find(triple: str) -> None:
    llvm.Target.from_triple(triple)


@cache
@run_in_turn
def process_triple() -> str:
    """This machine as LLVM spells it."""
    return llvm.get_process_triple()


@cache
@run_in_turn
def machine_and_system(triple: str) -> tuple[str, str]:
    """The architecture and the system that a triple names: ("x86_64", "linux")."""
    parts = llvm.get_triple_parts(triple)
    return parts.Arch, parts.OS


def _choices(word: str, known: Iterable[str]) -> str:
    """The names that look most like `word`, or the first few."""
    known = sorted(known)
    from difflib import get_close_matches  # late: only a mistake needs it

    close = get_close_matches(word, known, 8, 0.3)
    return ", ".join(close or known[:20]) + (f" (of {len(known)})" if len(known) > 8 else "")


@cache
@run_in_turn
def initialize(everything: bool) -> None:
    """LLVM's code generators and assembly printers: this machine's, or all of them (once each)."""
    if everything:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    else:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()


_LISTING = """
import sys, llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu=sys.argv[2], features=sys.argv[3])
"""


@cache
def _known_names(triple: str) -> tuple[frozenset[str], frozenset[str]]:
    """The processors and the features that LLVM knows for a machine.

    LLVM has no call that tells; it prints them when asked for help, on the standard error output, which only a process
    of its own keeps apart. It is asked only about names that this machine's own lists do not settle.
    """
    import subprocess  # late: it takes longer than any module of ours

    command = [sys.executable, "-c", _LISTING, triple, "", "+help"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    processors, _, features = listing.stderr.partition("Available features for this target:")
    return frozenset(_first_words(processors)), frozenset(_first_words(features))


def _first_words(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.startswith("  ") and " - " in line]
