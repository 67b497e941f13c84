"""Target strings: what they mean, and what they say when they mean nothing."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from tilewright.codegen.target import KINDS, Target
from tilewright.errors import CodegenError


def test_llvm_is_this_machine() -> None:
    target = Target.parse("llvm")
    assert target == Target()
    assert target.llvm_triple == llvm.get_process_triple()
    assert target.llvm_cpu == llvm.get_host_cpu_name()
    assert target.runs_here
    assert not target.is_foreign
    features = llvm.get_host_cpu_features()
    if target.architecture == "x86_64":
        assert target.vector_bits == (512 if features["avx512f"] else 256 if features["avx"] else 128)


@pytest.mark.parametrize(
    "text",
    [
        "llvm",
        "interpret",
        "llvm -mcpu=skylake-avx512",
        "llvm -mcpu=haswell -mattr=+avx512f,-fma",
        "llvm -mtriple=aarch64-unknown-linux-gnu",
    ],
)
def test_the_text_of_a_target_reads_back(text: str) -> None:
    target = Target.parse(text)
    assert str(target) == text
    assert Target.parse(target) is target
    assert hash(target) == hash(Target.parse(str(target)))


@pytest.mark.parametrize(
    ("text", "bits", "registers"),
    [
        ("-mcpu=skylake-avx512", 512, 32),
        ("-mcpu=znver4", 512, 32),
        ("-mcpu=haswell", 256, 16),
        ("-mcpu=nehalem", 128, 16),
        ("-mcpu=haswell -mattr=+avx512f", 512, 32),
        ("-mcpu=skylake-avx512 -mattr=-avx512f", 256, 16),
        ("-mcpu=x86-64-v3", 256, 16),
    ],
)
def test_vector_registers_of_x86_processors(text: str, bits: int, registers: int) -> None:
    target = Target.parse(f"llvm -mtriple=x86_64-unknown-linux-gnu {text}")
    assert (target.vector_bits, target.vector_registers) == (bits, registers)
    assert target.lanes(32) == bits // 32


def test_arm_has_vectors_of_128_bits() -> None:
    target = Target.parse("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1")
    assert (target.vector_bits, target.vector_registers, target.architecture) == (128, 32, "aarch64")


def test_whether_code_runs_here_is_asked_of_the_instructions() -> None:
    if Target().architecture != "x86_64":
        assert not Target.parse("llvm -mtriple=x86_64-unknown-linux-gnu").runs_here
        return
    assert Target.parse("llvm -mcpu=x86-64").runs_here
    assert Target.parse("llvm -mattr=-avx").runs_here
    features = llvm.get_host_cpu_features()
    assert Target.parse("llvm -mattr=+avx512fp16").runs_here == features["avx512fp16"]
    assert not Target.parse("llvm -mattr=+fma4,+avx512fp16").runs_here
    assert not Target.parse("llvm -mtriple=aarch64-unknown-linux-gnu").runs_here


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "TW0401: unknown target ''"),
        ("vulkan", r"(?s)TW0401: unknown target 'vulkan'.*allowed: llvm \(native code.*cuda.*interpret"),
        ("cuda -arch=sm_70", r"(?s)TW0406.*unknown GPU architecture 'sm_70'.*allowed: sm_80, sm_90"),
        ("cuda -emulate=1", r"(?s)TW0402.*does not take '-emulate=1'.*-emulate"),
        ("lvm", r'(?s)TW0401.*fix: target="llvm"'),
        ("llvm -mpcu=haswell", r"(?s)TW0402.*does not take '-mpcu=haswell'.*-mcpu=\.\.\. \(processor.*fix: -mcpu="),
        ("llvm haswell", "TW0402.*does not take 'haswell'"),
        ("interpret -mcpu=haswell", "(?s)TW0402.*allowed: no options"),
        ("llvm -mcpu=haswel", "(?s)TW0403.*unknown processor 'haswel'.*fix: -mcpu=haswell"),
        ("llvm -mattr=+avx2,+avx512ff", "(?s)TW0404.*unknown feature 'avx512ff'.*fix: -mattr=.avx512f"),
        ("llvm -mattr=avx2", r"(?s)TW0404.*says neither.*fix: -mattr=\+avx2"),
        ("llvm -mtriple=vax-dec-vms", "TW0405.*no code generator for the machine 'vax-dec-vms'"),
    ],
)
def test_what_is_no_target_teaches(text: str, message: str) -> None:
    if "mcpu" in text or "mattr" in text:
        text += " -mtriple=x86_64-unknown-linux-gnu" if text.startswith("llvm") else ""
    with pytest.raises(CodegenError, match=message):
        Target.parse(text)


def test_every_kind_parses_by_its_name() -> None:
    assert [Target.parse(name).kind for name in KINDS] == list(KINDS)
