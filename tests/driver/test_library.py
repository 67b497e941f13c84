"""tw.Library: several functions, shapes and processors in one library."""

from __future__ import annotations

import ctypes
import json
import random
from dataclasses import replace
from pathlib import Path

import drawn
import numpy as np
import pytest
import tilewright as tw
from exported import as_dlpack, compile_program, needs_compiler, needs_x86, run
from numpy.typing import NDArray
from tilewright import te
from tilewright.codegen.export import cpu
from tilewright.runtime.abi import Check, pack_status

LEVELS = tuple(f"llvm -mcpu=x86-64-v{level}" for level in (2, 3, 4))
HIDDEN = {"v2": ("avx", "avx512f"), "v3": ("avx512f",), "none": ("sse3",)}
"""Which features are hidden from a library, so that it takes the code for one level, or none, whatever machine this is."""


def gemv(columns: int, dtype: str = "float32") -> list[te.Tensor]:
    """D[i] = sum over k of A[i, k] * B[k], for any number of rows."""
    n = te.size_var("n")
    A, B = te.placeholder((n, columns), dtype, name="A"), te.placeholder((columns,), dtype, name="B")
    k = te.reduce_axis((0, columns), name="k")
    return [A, B, te.compute((n,), lambda i: te.sum(A[i, k] * B[k], axis=k), name="D")]


def operands(columns: int, dtype: str = "float32", rows: int = 9) -> list[NDArray[np.floating]]:
    rng = np.random.default_rng(columns)
    return [rng.random((rows, columns)).astype(dtype), rng.random(columns).astype(dtype), np.zeros(rows, dtype)]


def exported(folder: Path, hidden: str) -> Path:
    """gemv for two shapes and three processors, of which some features are hidden."""
    library = tw.Library("products")
    library.add("gemv", gemv(37), target=LEVELS)
    library.add("gemv", gemv(5, "float64"), target=LEVELS[::-1])
    with pytest.MonkeyPatch.context() as patch:
        for name in HIDDEN[hidden]:
            patch.setitem(cpu.X86, name, replace(cpu.X86[name], word="7.edx", shift=0))  # which no processor sets
        return library.export(folder, threads="none")[0]


@pytest.fixture(scope="module", params=["v2", "v3"])
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def library(level: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp(level), level)


pytestmark = needs_x86


def test_a_processor_gets_the_code_for_it_bit_for_bit(library: Path, level: str) -> None:
    module = tw.load(library)
    assert list(module) == ["gemv", "gemv_1", "gemv_2"]
    for columns, dtype in ((37, "float32"), (5, "float64")):
        a, b, expected = operands(columns, dtype)
        tw.build(gemv(columns, dtype), target=f"llvm -mcpu=x86-64-{level}")(a, b, expected)
        for _ in range(2):  # looked for, and remembered
            out = np.zeros_like(expected)
            module["gemv"](a, b, out)
            assert out.tobytes() == expected.tobytes()


def test_a_processor_below_the_lowest_gets_a_status_and_an_error(tmp_path: Path) -> None:
    place = exported(tmp_path, "none")
    with pytest.raises(
        tw.ExportError, match=r"TW0742: 'libproducts\.so' needs instructions that this processor lacks: sse3"
    ):
        tw.load(place)
    loaded = ctypes.CDLL(str(place))
    loaded.gemv_1_error.restype = ctypes.c_char_p
    a, b, out = operands(37)
    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (a, b, out)]
    tensors = [ctypes.byref(as_dlpack(each)) for each in (a, b, out)]
    wrong = pack_status(Check.PROCESSOR, 0)
    assert (
        loaded.gemv_1(ctypes.c_int64(9), *pointers)
        == loaded.gemv_1_checked(*tensors)
        == loaded.gemv_checked(*tensors)
        == wrong
    )
    assert b"this processor lacks an instruction set" in loaded.gemv_1_error(wrong)
    assert not out.any()


def test_tensors_of_no_case_are_told_which_there_are(library: Path) -> None:
    gemv = tw.load(library)["gemv"]
    a, b, out = operands(6)
    with pytest.raises(
        tw.CallError, match=r"(?s)TW0533: no case of gemv.*given: float32 \(9, 6\).*gemv_2\(A: float64\[n, 5\]"
    ):
        gemv(a, b, out)
    a, b, out = operands(37)
    with pytest.raises(tw.CallError, match=r"TW0508: 'A' \(argument 1 of gemv_1\) has strides"):
        gemv(np.asfortranarray(a), b, out)
    with pytest.raises(tw.CallError, match="TW0501: gemv_1 takes 3 arguments, 2 were given"):
        gemv(a, b)
    assert repr(gemv).startswith("<Cases gemv: gemv_1(")


def spoilings() -> list[tuple[str, str, object]]:
    """(argument, field of its DLTensor, value) of calls that must not run."""
    shape = ctypes.c_int64 * 2
    each = [("ndim", value) for value in (-1, 0, 3, 1 << 30)]
    each += [("dtype", value) for value in (0, 0x14002, 0x11002, 0x12001, 0x22002, 0xFFFFFFFF)]
    each += [("device_type", value) for value in (0, 2, 13, -1)] + [("data", None)]
    each += [("byte_offset", value) for value in (1, 2, 3, 1 << 48, 1 << 62, (1 << 64) - 4)]
    wrong = ((4, 6), (-1, 37), (8, -37), (1 << 62, 1 << 62), (1 << 40, 37))
    each += [("shape", None), *(("shape", shape(*values)) for values in wrong)]
    each += [("strides", shape(*values)) for values in ((0, 0), (-37, -1), (38, 2), (1 << 62, 3))]
    return [(argument, name, value) for argument in "ABD" for name, value in each]


def test_500_malformed_calls_get_statuses_with_texts_and_run_nothing(library: Path) -> None:
    loaded, rng, seen = ctypes.CDLL(str(library)), random.Random(drawn.SEED), set[int]()
    for name in ("gemv", "gemv_1"):
        checked, told = loaded[f"{name}_checked"], loaded[f"{name}_error"]
        told.restype = ctypes.c_char_p
        drawn_ones = [[one] for one in spoilings()] + [
            rng.sample(spoilings(), 2) for _ in range(500 - len(spoilings()))
        ]
        for spoilt in drawn_ones:
            arrays = operands(37)
            tensors = {argument: as_dlpack(array) for argument, array in zip("ABD", arrays, strict=True)}
            for argument, field, value in spoilt:
                setattr(tensors[argument], field, value)
            status = checked(*map(ctypes.byref, tensors.values()))
            assert status < -1 and told(status).startswith(b"TW05"), (spoilt, status, told(status))
            assert not arrays[2].any(), spoilt
            seen.add(status)
        assert checked(None, None, None) == pack_status(Check.NULL, 0, 0)
    assert pack_status(Check.CASE, 0) in seen and pack_status(Check.SHAPE, 0, 1) in seen
    loaded.gemv_error.restype = ctypes.c_char_p
    assert b"no case of gemv takes these tensors: gemv_1(A: float32[n, 37]" in loaded.gemv_error(
        pack_status(Check.CASE, 0)
    )


@needs_compiler
def test_one_header_serves_c_and_cpp(library: Path) -> None:
    text = """
#include "products.h"
#include <stdio.h>
int main(void) {
    float a[2 * 37], b[37], d[2] = {0};
    int64_t rows[] = {2, 37}, columns[] = {37}, results[] = {2};
    DLTensor A = {a, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, rows, 0, 0}, B = {b, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, columns, 0, 0};
    DLTensor D = {d, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, results, 0, 0};
    for (int i = 0; i < 74; i++) a[i] = 1;
    for (int i = 0; i < 37; i++) b[i] = 2;
    int32_t plain = gemv_1(1, a, b, d), chosen = gemv_checked(&A, &B, &D);
    columns[0] = 36;
    printf("%d %d %g %g %s\\n", (int)plain, (int)chosen, d[0], d[1], gemv_error(gemv_checked(&A, &B, &D)));
    return 0;
}
"""
    for language in ("cc", "c++"):
        program = compile_program(library.parent, text, [library.name], language)
        assert run([program]).stdout.startswith("0 0 74 74 TW0533: no case of gemv takes these tensors")


def test_the_manifest_tells_of_cases_and_variants(library: Path) -> None:
    said = json.loads((library.parent / "products.json").read_text())
    assert said["cases"] == {"gemv": ["gemv_1", "gemv_2"]}
    needed = [set(each) for each in said["functions"][1]["variants"]]
    assert needed[0] > needed[1] > needed[2] > set(), "the most demanding first, in whatever order they were added"


def test_archives_and_objects_hold_all_variants_too(tmp_path: Path) -> None:
    library = tw.Library("one")
    library.add("gemv", gemv(5), target=LEVELS[:2])
    for name in ("libone.a", "one.o"):
        assert library.export(tmp_path / name)[0].stat().st_size > 2000
    with pytest.raises(tw.ExportError, match="TW0701: cannot export"):
        library.export(tmp_path / "one.dll")


@pytest.mark.parametrize(
    "name", ["", "a b", "a'b", 'a"b', "a\nb", "../a", "class", "def", "fn", "é", "1a", "a" * 101, "a.b", None, 3]
)
def test_what_no_library_can_be_called_is_refused(name: str) -> None:
    if name in ("def", "fn", "class"):  # words of Python and Rust, and of C: files may be called so
        assert tw.Library(name).name == name
        return
    with pytest.raises(tw.ExportError, match="TW0703: no library can be called"):
        tw.Library(name)


def test_what_does_not_fit_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    library = tw.Library("one")
    with pytest.raises(tw.ExportError, match=r"TW0740: library 'one' has no functions(?s:.*)fix: lib.add"):
        library.export(tmp_path)
    library.add("gemv", gemv(5))
    before = repr(library)
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    other = [A, te.compute((n,), lambda i: A[i] + 1, name="B")]
    for what, target, message in (
        (gemv(5), "llvm", r"TW0704: gemv\(A: float32\[n, 5\].* would be exported twice"),
        (gemv(6), ["llvm", "llvm"], "TW0704: gemv.* would be exported twice"),
        (other, "llvm", "TW0710: 'gemv' is there already with parameters of other kinds"),
        (gemv(6), "c", "TW0710: 'gemv' cannot be in library 'one' for 'c'"),
        (
            gemv(6),
            "llvm -mtriple=riscv64-unknown-linux-gnu",
            "TW0710: 'gemv' for riscv64-unknown-linux-gnu cannot be in",
        ),
        (gemv(6), [], "TW0710: 'gemv' is for no processor"),
    ):
        with pytest.raises(tw.ExportError, match=message):
            library.add("gemv", what, target=target)
    for name in ("class", "exp", "tw_x", "_X"):
        with pytest.raises(tw.ExportError, match=f"TW0703: no C function can be called '{name}'"):
            library.add(name, gemv(5))
    with pytest.raises(tw.CodegenError, match="TW0422: no function can be called 'a b'"):
        library.add("a b", gemv(5))
    assert repr(library) == before == "Library('one': gemv)"
    library.add("gemv_checked", gemv(6))
    with pytest.raises(
        tw.ExportError, match="TW0704: the C function 'gemv_checked' of kernel 'gemv_checked' would be exported twice"
    ):
        library.export(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("names", "targets", "taken"),
    [
        (["f", "f_1"], ["llvm"], "f_1"),
        (["f_2", "f"], ["llvm"], "f_2"),
        (["f", "f_1__0"], LEVELS[:2], "f_1__0"),
    ],
)
def test_names_of_cases_and_variants_are_not_taken_again(
    tmp_path: Path, names: list[str], targets: list[str], taken: str
) -> None:
    """Kernels are found by their names: one of a case's name got another one's code, or an InternalError."""
    library = tw.Library("one")
    for name in names:
        library.add(name, gemv(5), target=targets)
    library.add("f", gemv(6), target=targets)
    with pytest.raises(tw.ExportError, match=f"TW0704: the C function '{taken}' .*would be exported twice"):
        library.export(tmp_path)
