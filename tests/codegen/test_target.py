"""Target strings: what they mean, and what they say when they mean nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import llvmlite.binding as llvm
import pytest
from tilewright.base.errors import CodegenError
from tilewright.codegen.host import VARIABLE, full_processor
from tilewright.codegen.llvm.features import target_has
from tilewright.codegen.processor_facts import told_features
from tilewright.codegen.target import BACKENDS, Target, remaining_processor, this_processor

needs_x86 = pytest.mark.skipif(Target().architecture != "x86_64", reason="processors of x86-64 are named")


def test_llvm_is_this_machine() -> None:
    target = Target.parse("llvm")
    assert target == Target()
    assert target.llvm_triple == llvm.get_process_triple()
    assert target.llvm_cpu == this_processor().cpu
    if not os.environ.get(VARIABLE):
        assert target.llvm_cpu == llvm.get_host_cpu_name()
        assert dict(this_processor().features) == dict(llvm.get_host_cpu_features()) | told_features()
    assert target.runs_here
    assert not target.is_foreign
    features = this_processor().features
    if target.architecture == "x86_64":
        assert target.vector_bits == (512 if features["avx512f"] else 256 if features["avx"] else 128)


# Part of this machine


@needs_x86
@pytest.mark.parametrize(("cpu", "level"), [("x86-64", 0), ("x86-64-v2", 1), ("sandybridge", 2), ("haswell", 3)])
def test_a_part_of_this_machine_has_what_both_have(cpu: str, level: int) -> None:
    whole = full_processor()
    by_level = [("sse2",), ("sse4.2", "popcnt"), ("avx",), ("avx2", "fma", "bmi2"), ("avx512f", "sse4a", "fma4")]
    if not all(whole.features[name] for names in by_level[: level + 1] for name in names):
        pytest.skip(f"this machine is not a {cpu}")
    part = remaining_processor(f"-mcpu={cpu}")
    assert part.cpu == cpu
    assert part.features.keys() == whole.features.keys()
    assert all(whole.features[name] for name, has in part.features.items() if has)
    for at, names in enumerate(by_level):
        assert [part.features[name] for name in names] == [at <= level] * len(names), names
    assert part.runs("x86-64", "") and part.runs(part.cpu, part.feature_text)
    assert part.features == whole.features or not part.runs(whole.cpu, whole.feature_text)


@needs_x86
def test_what_a_removed_feature_carries_goes_with_it() -> None:
    part, whole = remaining_processor("-mattr=-avx"), full_processor()
    assert part.cpu == whole.cpu
    assert not any(has for name, has in part.features.items() if name.startswith(("avx", "fma")))
    assert part.features["sse4.2"] == whole.features["sse4.2"]
    assert remaining_processor("") is whole


@needs_x86
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-mattr=+fma4,+avx512fp16", "(?s)TW0410.*lacks instructions of that processor.*this machine is"),
        ("-mcpu=haswel", "(?s)TW0403.*unknown processor 'haswel'.*fix: -mcpu=haswell"),
        ("-mattr=avx2", "TW0404.*says neither"),
        ("-mtriple=aarch64-unknown-linux-gnu", "TW0402.*TILEWRIGHT_HOST does not take '-mtriple"),
    ],
)
def test_no_machine_gets_what_it_lacks(text: str, message: str) -> None:
    with pytest.raises(CodegenError, match=message):
        remaining_processor(text)


PROGRAM = """
import numpy as np, tilewright as tw
from tilewright import te
from tilewright.codegen.processor_facts import told_features
from tilewright.codegen.target import Target
from tilewright.codegen.machine import find_machine
A = te.placeholder((1000,), name="A")
B = te.compute((1000,), lambda i: te.exp(A[i]) + 1, name="B")
s = te.create_schedule(B.op)
s[B].vectorize(s[B].split(B.op.axis[0], 16)[1])
f, x, y = tw.build(s, [A, B]), np.linspace(-9, 9, 1000, dtype="float32"), np.zeros(1000, "float32")
f(x, y)
np.testing.assert_allclose(y, np.exp(x) + 1, rtol=1e-6)
asm = f.source("asm")
print(Target().llvm_cpu, find_machine(Target()).name, "ymm" in asm, "zmm" in asm, Target.parse("llvm -mcpu=znver4").runs_here)
"""


@pytest.mark.skipif(
    not target_has(Target(), "avx2") or not target_has(Target(), "fma"), reason="this machine has no AVX2"
)
def test_everything_sees_the_part_of_the_machine_that_is_left() -> None:
    for cpu, expected in (("haswell", "haswell avx2 True False False"), ("x86-64", "x86-64 sse2 False False False")):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, VARIABLE: f"-mcpu={cpu}"},
        )
        assert done.stdout.strip() == expected, done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "doctor"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, VARIABLE: "-mcpu=haswell", "COLUMNS": "200"},
    )
    assert f"what TILEWRIGHT_HOST='-mcpu=haswell' leaves of {llvm.get_host_cpu_name()}" in done.stdout


# Texts of targets


@pytest.mark.parametrize(
    "text",
    [
        "llvm",
        "interpret",
        pytest.param("llvm -mcpu=skylake-avx512", marks=needs_x86),
        pytest.param("llvm -mcpu=haswell -mattr=+avx512f,-fma", marks=needs_x86),
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


@pytest.mark.parametrize(
    ("text", "architecture", "bits", "registers"),
    [
        ("-mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1", "aarch64", 128, 32),
        ("-mcpu=neoverse-n1", "aarch64", 128, 32),
        ("-mcpu=thead-c908", "riscv64", 128, 32),
        ("-mcpu=haswell", "x86_64", 256, 16),
    ],
)
def test_a_processor_names_its_architecture(text: str, architecture: str, bits: int, registers: int) -> None:
    target = Target.parse(f"llvm {text}")
    assert (target.vector_bits, target.vector_registers, target.architecture) == (bits, registers, architecture)
    assert target.is_foreign == (architecture != Target().architecture)


def test_whether_code_runs_here_is_asked_of_the_instructions() -> None:
    if Target().architecture != "x86_64":
        assert not Target.parse("llvm -mtriple=x86_64-unknown-linux-gnu").runs_here
        return
    assert Target.parse("llvm -mcpu=x86-64").runs_here
    assert Target.parse("llvm -mattr=-avx").runs_here
    features = this_processor().features
    assert Target.parse("llvm -mattr=+avx512fp16").runs_here == features["avx512fp16"]
    assert not Target.parse("llvm -mattr=+fma4,+avx512fp16").runs_here
    assert not Target.parse("llvm -mtriple=aarch64-unknown-linux-gnu").runs_here


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "TW0401: unknown target ''"),
        ("vulkan", r"(?s)TW0401: unknown target 'vulkan'.*allowed: llvm \(native code.*cuda.*interpret"),
        (
            "cuda -arch=sm_70",
            r"(?s)TW0406.*unknown GPU architecture 'sm_70'.*allowed: sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_103, sm_120",
        ),
        ("cuda -emulate=1", r"(?s)TW0402.*does not take '-emulate=1'.*-emulate"),
        ("lvm", r'(?s)TW0401.*fix: target="llvm"'),
        ("llvm -mpcu=haswell", r"(?s)TW0402.*does not take '-mpcu=haswell'.*-mcpu=\.\.\. \(processor.*fix: -mcpu="),
        ("llvm haswell", "TW0402.*does not take 'haswell'"),
        ("interpret -mcpu=haswell", "(?s)TW0402.*allowed: -mattr=... .-fma: sums round products"),
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
    assert [Target.parse(name).kind for name in BACKENDS] == list(BACKENDS)
