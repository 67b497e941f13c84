"""Targets: what a kernel is compiled for.

    llvm                                       this machine, or what TILEWRIGHT_HOST leaves of it
    llvm -mcpu=skylake-avx512                  another processor of this architecture
    llvm -mattr=+avx2,-avx512f                 this machine's processor with features added and removed
    llvm -mtriple=aarch64-unknown-linux-gnu    another machine: its code can be looked at and exported
    llvm -mtriple=aarch64-unknown-linux-gnu -mattr=+sve -msve-vector-bits=256    with SVE, for vectors of 256 bits
    cuda -arch=sm_90                           NVIDIA GPUs of one architecture
    cuda -emulate                              the same code on an emulated GPU, with its accesses checked
    c                                          portable C11 text, for this machine's C compiler
    interpret                                  no code: the slow, exact interpreter of the loop IR
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import cast

import llvmlite.binding as llvm

from ..errors import user_source
from .errors import (
    ForeignTarget,
    UnknownArchitecture,
    UnknownFeature,
    UnknownProcessor,
    UnknownTargetKind,
    UnknownTargetOption,
    UnknownTriple,
)
from .host import VARIABLE, Processor, part_of, whole_processor
from .sve import ANY_LENGTH, CORES, LENGTHS, bits_here, length_attribute

__all__ = ["CUDA_ARCHITECTURES", "KINDS", "Target", "TargetKind", "this_processor"]


@dataclass(frozen=True, slots=True)
class TargetKind:
    """A way to compile. options: what may follow its name, each as -key=value, with what it says; flags: each as -key."""

    name: str
    purpose: str
    options: dict[str, str]
    flags: tuple[str, ...] = ()


CUDA_ARCHITECTURES = {"sm_80": 163 * 1024, "sm_90": 227 * 1024}
"""The GPU architectures that code is made for, with the bytes of shared memory that a block can have."""

KINDS = {
    kind.name: kind
    for kind in (
        TargetKind("llvm", "native code for CPUs, through LLVM", {
            "mcpu": "processor, as LLVM names it", "mattr": "features to add and remove, +avx2,-avx512f",
            "mtriple": "machine, arch-vendor-system",
            "msve-vector-bits": f"length of SVE's vectors, {', '.join(LENGTHS)} or {ANY_LENGTH}",
        }),
        TargetKind("cuda", "NVIDIA GPUs, through CUDA C and NVRTC", {
            "arch": "architecture, " + " or ".join(CUDA_ARCHITECTURES), "emulate": "without a GPU: run on the emulator (no value)",
        }, ("emulate",)),
        TargetKind("c", "portable C11 text, compiled by the system's C compiler", {}),
        TargetKind("interpret", "no code: the loop IR run slowly and exactly", {}),
    )
}


@dataclass(frozen=True)
class Target:
    """What to compile for. Two targets of the same text are equal.

    kind: a name in KINDS. cpu, features (+name or -name each) and triple are LLVM's; empty for this machine's.
    sve_length: one of scalable.LENGTHS, or ANY_LENGTH; empty for the processor's, where that is known.
    """

    kind: str = "llvm"
    cpu: str = ""
    features: tuple[str, ...] = ()
    triple: str = ""
    arch: str = ""
    """Of a GPU: a name in CUDA_ARCHITECTURES; empty for the least of them."""
    emulate: bool = False
    sve_length: str = ""

    @classmethod
    def parse(cls, text: str | Target) -> Target:
        """The target that `text` names. Raises a CodegenError that lists the choices where it names none."""
        if isinstance(text, Target):
            return text
        words = text.split() if isinstance(cast(object, text), str) else []
        kind = KINDS.get(words[0]) if words else None
        if kind is None:
            raise UnknownTargetKind(
                f"unknown target {text!r}", called=user_source(),
                allowed=_listing((k.name, k.purpose) for k in KINDS.values()),
                fix=_nearest(words[0] if words else "llvm", KINDS, 'target="{}"'),
            )
        given = dict(_option(word, kind, text) for word in words[1:])
        target = cls(kind.name, given.get("mcpu", ""), tuple(f for f in given.get("mattr", "").split(",") if f),
                     given.get("mtriple", ""), given.get("arch", ""), "emulate" in given,
                     given.get("msve-vector-bits", ""))
        if target.arch and target.arch not in CUDA_ARCHITECTURES:
            raise UnknownArchitecture(
                f"target {text!r}: unknown GPU architecture {target.arch!r}", called=user_source(),
                allowed=", ".join(CUDA_ARCHITECTURES), fix=_nearest(target.arch, CUDA_ARCHITECTURES, "-arch={}"))
        if kind.name == "llvm":
            _check_triple(target)
            _check_processor(target)
            _check_features(target)
            _check_length(target)
        return target

    def __str__(self) -> str:
        words = [self.kind]
        words += [f"-mcpu={self.cpu}"] if self.cpu else []
        words += [f"-mattr={','.join(self.features)}"] if self.features else []
        words += [f"-mtriple={self.triple}"] if self.triple else []
        words += [f"-msve-vector-bits={self.sve_length}"] if self.sve_length else []
        words += [f"-arch={self.arch}"] if self.arch else []
        words += ["-emulate"] if self.emulate else []
        return " ".join(words)

    @property
    def is_foreign(self) -> bool:
        """Whether the code is for another architecture or system than this process's."""
        if not self.triple:
            return False
        mine, theirs = llvm.get_triple_parts(llvm.get_process_triple()), llvm.get_triple_parts(self.triple)
        return (mine.Arch, mine.OS) != (theirs.Arch, theirs.OS)

    @cached_property
    def llvm_triple(self) -> str:
        """The machine as LLVM spells it."""
        return self.triple or llvm.get_process_triple()

    @cached_property
    def llvm_cpu(self) -> str:
        """The processor whose instructions and costs LLVM assumes: this machine's unless said otherwise."""
        if self.cpu:
            return self.cpu
        return "" if self.is_foreign else this_processor().cpu

    @cached_property
    def llvm_features(self) -> str:
        """The features as LLVM takes them: this machine's, where no other processor is named, then the ones given."""
        inherited = "" if self.cpu or self.is_foreign else this_processor().feature_text
        return ",".join(filter(None, [inherited, *self.features]))

    @property
    def architecture(self) -> str:
        """x86_64, aarch64 ..."""
        return llvm.get_triple_parts(self.llvm_triple).Arch

    @property
    def runs_here(self) -> bool:
        """Whether this machine has every instruction that the code may use."""
        if self.is_foreign or self.sve_bits not in (0, bits_here()):
            return False
        return not (self.cpu or self.features) or this_processor().runs(self.llvm_cpu, self.llvm_features)

    @property
    def vector_bits(self) -> int:
        """Width of the machine's widest vector registers: 512, 256 or 128."""
        return _vector_bits(self)

    @property
    def sve_bits(self) -> int:
        """Bits of SVE's registers, where the code is for one length of them; 0 where it is for all, or has none."""
        return _sve_bits(self)

    @property
    def masks_vectors(self) -> bool:
        """Whether the machine masks whole vectors at no cost."""
        return self.vector_bits >= 512 or self.sve_bits >= 256

    @property
    def vector_registers(self) -> int:
        """How many vector registers the machine has."""
        return 16 if self.architecture == "x86_64" and self.vector_bits < 512 else 32

    def lanes(self, bits: int) -> int:
        """How many values of `bits` bits a vector register holds."""
        return max(self.vector_bits // max(bits, 8), 1)

    @property
    def data_layout(self) -> str:
        """The machine's data layout as LLVM writes it."""
        return _data_layout(self)

    def machine(self) -> llvm.TargetMachine:
        """A fresh LLVM machine, for position-independent code of the small code model."""
        _initialize(self.is_foreign)
        return llvm.Target.from_triple(self.llvm_triple).create_target_machine(
            cpu=self.llvm_cpu, features=self.llvm_features, opt=3, reloc="pic", codemodel="default")


def _option(word: str, kind: TargetKind, text: str) -> tuple[str, str]:
    key, equals, value = word.lstrip("-").partition("=")
    if not word.startswith("-") or key not in kind.options or bool(equals) == (key in kind.flags):
        raise UnknownTargetOption(
            f"target {text!r}: {kind.name} does not take {word!r}", called=user_source(),
            allowed=_listing((f"-{name}{'' if name in kind.flags else '=...'}", purpose) for name, purpose in kind.options.items())
            or "no options",
            fix=_nearest(key, kind.options, "-{}=...") if kind.options else f'target="{kind.name}"',
        )
    return key, value


def _listing(rows: Iterable[tuple[str, str]]) -> str:
    return "; ".join(f"{name} ({purpose})" for name, purpose in rows)


def _nearest(word: str, known: Iterable[str], form: str) -> str:
    known = list(known)
    close = difflib.get_close_matches(word, known, 1, 0.5)
    return form.format(close[0] if close else known[0])


def _check_triple(target: Target) -> None:
    if not target.triple:
        return
    _initialize(True)
    try:
        llvm.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise UnknownTriple(
            f"target {str(target)!r}: LLVM has no code generator for the machine {target.triple!r}", reason=str(error),
            called=user_source(),
            fix='for this machine leave -mtriple out; another one is "aarch64-unknown-linux-gnu"',
        ) from None


def _check_processor(target: Target) -> None:
    if not target.cpu or (target.cpu == whole_processor().cpu and not target.is_foreign):
        return
    known, _ = _known_names(target.llvm_triple)
    if target.cpu not in known:
        raise UnknownProcessor(
            f"target {str(target)!r}: unknown processor {target.cpu!r} for {target.architecture}", called=user_source(),
            allowed=_choices(target.cpu, known), fix=_nearest(target.cpu, known, "-mcpu={}"),
        )


def _check_features(target: Target) -> None:
    host = whole_processor().features if not target.is_foreign else {}
    for feature in target.features:
        if feature[:1] not in "+-":
            raise UnknownFeature(
                f"target {str(target)!r}: a feature is added or removed, {feature!r} says neither",
                called=user_source(), fix=f"-mattr=+{feature}",
            )
        if feature[1:] in host:
            continue
        _, known = _known_names(target.llvm_triple)
        if feature[1:] not in known:
            raise UnknownFeature(
                f"target {str(target)!r}: unknown feature {feature[1:]!r} for {target.architecture}",
                called=user_source(), allowed=_choices(feature[1:], known),
                fix="-mattr=" + feature[0] + _nearest(feature[1:], known, "{}"),
            )


def _check_length(target: Target) -> None:
    length = target.sve_length
    known = length in (ANY_LENGTH, *LENGTHS)
    if not length or (known and _has_sve(target)):
        return
    raise UnknownTargetOption(
        f"target {str(target)!r}: no vectors of {length!r} bits",
        reason="the processor has no SVE" if known else "code is not made for such a length", called=user_source(),
        allowed=f"-msve-vector-bits={', '.join(LENGTHS)} or {ANY_LENGTH}, where there is SVE",
        fix="-mattr=+sve" if known else f"-msve-vector-bits={_nearest(length, LENGTHS, '{}')}",
    )


def _choices(word: str, known: Iterable[str]) -> str:
    """The names that look most like `word`, or the first few."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, 8, 0.3)
    return ", ".join(close or known[:20]) + (f" (of {len(known)})" if len(known) > 8 else "")


# This machine


_HOST = TargetKind(VARIABLE, "what code for this machine may use", {
    name: purpose for name, purpose in KINDS["llvm"].options.items() if name in ("mcpu", "mattr")})


@cache
def this_processor() -> Processor:
    """The processor that code for "llvm" is made for: this machine's, or the part of it that TILEWRIGHT_HOST leaves.

    Raises a CodegenError where the variable names a processor that LLVM does not know, or one that has what this one lacks.
    """
    return processor_of(os.environ.get(VARIABLE, ""))


def processor_of(text: str) -> Processor:
    """What of this machine's processor `text`, "-mcpu=haswell -mattr=-fma", leaves; all of it where it is empty."""
    whole = whole_processor()
    if not text.strip():
        return whole
    given = dict(_option(word, _HOST, text) for word in text.split())
    asked = Target("llvm", given.get("mcpu", ""), tuple(filter(None, given.get("mattr", "").split(","))))
    _check_processor(asked)
    _check_features(asked)
    cpu, inherited = (asked.cpu, "") if asked.cpu else (whole.cpu, whole.feature_text)
    features = ",".join(filter(None, [inherited, *asked.features]))
    if not whole.runs(cpu, features):
        raise ForeignTarget(
            f"{VARIABLE}={text!r}: this machine lacks instructions of that processor", called=user_source(),
            reason=f"this machine is {whole.cpu}, {llvm.get_process_triple()}",
            allowed="an older processor of its kind (-mcpu=...), or features removed (-mattr=-...)", fix=f"unset {VARIABLE}",
        )
    return part_of(whole, cpu, features)


# What LLVM knows


@cache
def _initialize(everything: bool) -> None:
    """Code generators and assembly printers: this machine's, or all of them (once each)."""
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
    command = [sys.executable, "-c", _LISTING, triple, "", "+help"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    processors, _, features = listing.stderr.partition("Available features for this target:")
    return frozenset(_first_words(processors)), frozenset(_first_words(features))


def _first_words(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.startswith("  ") and " - " in line]


_WIDE_SUM = """
define void @probe(ptr %p){attributes} {{
  %a = load <16 x float>, ptr %p
  %b = fadd <16 x float> %a, %a
  store <16 x float> %b, ptr %p
  ret void
}}
"""


@cache
def _data_layout(target: Target) -> str:
    return str(target.machine().target_data)


@cache
def _vector_bits(target: Target) -> int:
    """Seen in the registers that LLVM takes for 16 floats, so that it holds for every processor and feature."""
    if target.architecture not in ("x86_64", "i386"):
        return max(target.sve_bits, 128)
    assembly = _wide_sum(target, "")
    return 512 if "%zmm" in assembly else 256 if "%ymm" in assembly else 128


def _wide_sum(target: Target, attributes: str) -> str:
    """The assembly of a sum of 16 floats."""
    text = _WIDE_SUM.format(attributes=attributes)
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        return target.machine().emit_assembly(module)


@cache
def _has_sve(target: Target) -> bool:
    """Seen in whether LLVM takes its registers once it knows their length."""
    return target.architecture == "aarch64" and re.search(r"\bz\d", _wide_sum(target, length_attribute(512))) is not None


@cache
def _sve_bits(target: Target) -> int:
    if target.kind != "llvm" or target.sve_length == ANY_LENGTH or not _has_sve(target):
        return 0
    if target.sve_length:
        return int(target.sve_length)
    here = not (target.cpu or target.is_foreign)
    bits = bits_here() if here else CORES.get(target.cpu, 0)
    return bits if 128 < bits <= int(LENGTHS[-1]) else 0
