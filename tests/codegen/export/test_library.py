"""What is in a library and beside it: the API alone, the header, the manifest, and nothing that differs from run to run."""

from __future__ import annotations

import ctypes
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from exported import compile_program, needs_compiler, run, scale_add
from tilewright import te
from tilewright.codegen.export.library import archive_bytes
from tilewright.codegen.export.names import parameter_names
from tilewright.runtime.metadata import read_metadata
from tilewright.runtime.signature import BufferParam, Signature

needs_nm = pytest.mark.skipif(not shutil.which("nm"), reason="no nm here")


def double(name: str = "double_it", factor: int = 2, columns: int = 32) -> tw.Kernel:
    A = te.placeholder((columns,), name="A")
    B = te.compute((columns,), lambda i: A[i] * factor, name="B")
    return tw.build(te.create_schedule(B), [A, B], name=name)


def elementary() -> tw.Kernel:
    """Calls the mathematics library, allocates, and runs in parallel."""
    A = te.placeholder((64, 4096), "float64", name="A")
    T = te.compute((64, 4096), lambda i, j: te.call_pure_extern("float64", "sin", A[i, j]), name="T")
    B = te.compute((64, 4096), lambda i, j: T[i, j] + T[63 - i, 4095 - j], name="B")
    s = te.create_schedule(B)
    s[T].parallel(T.op.axis[0])
    s[B].parallel(B.op.axis[0])
    return tw.build(s, [A, B], name="sines")


def visible(path: Path, *options: str) -> set[str]:
    return {line.split()[-1] for line in run(["nm", *options, path]).stdout.splitlines() if line.strip()}


@needs_nm
@pytest.mark.parametrize("threads", ["openmp", "none", "hook"])
def test_the_api_is_all_that_is_visible(tmp_path: Path, threads: str) -> None:
    api = {"sines", "sines_checked", "sines_error"} | ({"my_sines_set_parallel_for"} if threads == "hook" else set())
    kernel = elementary()
    for file in ("libmy_sines.so", "my_sines.o", "libmy_sines.a"):
        kernel.export(tmp_path / file, threads=threads)
    assert visible(tmp_path / "libmy_sines.so", "-D", "--defined-only") == api
    assert visible(tmp_path / "my_sines.o", "-g", "--defined-only") == api
    assert visible(tmp_path / "libmy_sines.a", "-g", "--defined-only") - {"kernels.o:"} == api
    needed = {"sin", "aligned_alloc", "free"}
    if threads == "openmp":
        needed |= {"GOMP_parallel", "omp_get_max_threads", "omp_get_thread_num", "omp_in_parallel", "getpid", "memset"}
    assert visible(tmp_path / "my_sines.o", "-u") == needed


@pytest.mark.skipif(not shutil.which("ldd"), reason="no ldd here")
def test_libraries_need_libc_libm_and_at_most_libgomp(tmp_path: Path) -> None:
    kernel = elementary()
    for threads in ("openmp", "none"):
        kernel.export(tmp_path / "libsines.so", threads=threads)
        lines = run(["ldd", tmp_path / "libsines.so"]).stdout.splitlines()
        listed = {line.split()[0].rsplit("/")[-1].split(".")[0] for line in lines}
        expected = {"linux-vdso", "libc", "libm"} | ({"libgomp"} if threads == "openmp" else set())
        assert {name for name in listed if not name.startswith("ld-linux")} == expected


@needs_compiler
@pytest.mark.parametrize("suffix", ["so", "a", "o"])
def test_two_libraries_in_one_program_do_not_clash(tmp_path: Path, suffix: str) -> None:
    files = [f"{'' if suffix == 'o' else 'lib'}{name}.{suffix}" for name in ("first", "second")]
    s, A, B = _parallel_negation()
    for file, name in zip(files, ("negate_a", "negate_b"), strict=True):
        tw.build(s, [A, B], name=name).export(tmp_path / file, threads="openmp")
    program = compile_program(
        tmp_path,
        """
#include "first.h"
#include "second.h"
#include <stdio.h>
int main(void) {
    float a[64] = {0}, b[64], c[64];
    a[3] = 4.0f;
    if (negate_a(a, b) || negate_b(b, c)) return 1;
    printf("%g %g\\n", b[3], c[3]);
    return 0;
}
""",
        [*files, "-l:libgomp.so.1"],
    )
    done = run([program])
    assert (done.returncode, done.stdout) == (0, "-4 4\n"), done.stderr


def _parallel_negation() -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: -A[i], name="B")
    s = te.create_schedule(B)
    s[B].parallel(B.op.axis[0])
    return s, A, B


@needs_compiler
def test_the_header_declares_what_is_there_in_c_and_in_cpp_beside_dlpacks_own(tmp_path: Path) -> None:
    n = te.size_var("n")
    x = te.var("class", "bool")
    D = te.placeholder((n, n * 2), "bfloat16", name="C.local")
    E = te.compute((n, n * 2), lambda i, j: te.if_then_else(x, D[i, j], te.const(0, "bfloat16")), name="float")
    tw.build(te.create_schedule(E), [x, D, E], name="keep").export(tmp_path / "libodd-name.2.so")
    header = (tmp_path / "odd-name.2.h").read_text()
    assert "int32_t keep(int64_t n, bool class_, const uint16_t *C_local, uint16_t *float_);" in header
    assert "int32_t keep_checked(bool class_, const DLTensor *C_local, const DLTensor *float_);" in header
    assert "const char *keep_error(int32_t status);" in header
    assert "C_local  in  bfloat16[n, n * 2]   (its bits)" in header
    assert "float_   out bfloat16[n, n * 2]" in header
    own = "#define DLPACK_DLPACK_H_\n#include <stdint.h>\ntypedef struct Theirs { int x; } DLTensor;\n"
    for prefix in ("", own):
        for language in ("cc", "c++"):
            text = prefix + '#include "odd-name.2.h"\n' * 2 + "int main(void) { return keep_error(0)[0] != 's'; }\n"
            assert run([compile_program(tmp_path, text, ["libodd-name.2.so"], language)]).returncode == 0


def test_the_manifest_says_what_was_made_for_what_by_what(tmp_path: Path) -> None:
    library, header, manifest = scale_add("llvm -mcpu=x86-64-v3").export(tmp_path / "libscale_add.so")
    assert (library, header, manifest) == tuple(
        tmp_path / name for name in ("libscale_add.so", "scale_add.h", "scale_add.json")
    )
    said = json.loads(manifest.read_text())
    (function,) = said["functions"]
    assert function["name"] == "scale_add"
    assert function["declarations"][0] in header.read_text()
    assert function["signature"]["params"][0] == {
        "name": "A",
        "dtype": "float32",
        "shape": ["n", 6],
        "is_output": False,
    }
    assert function["signature"]["params"][3]["is_output"]
    assert said["target"]["text"] == "llvm -mcpu=x86-64-v3" and said["target"]["cpu"] == "x86-64-v3"
    assert {"avx2", "fma", "bmi2"} <= set(said["target"]["features"])
    assert not {"avx512f", "sse4a"} & set(said["target"]["features"])
    assert said["threads"] == "openmp"
    assert said["versions"]["tilewright"] == tw.__version__ and said["versions"]["llvm"]
    assert said["sha256"] == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (library, header)}


def test_the_same_kernel_gives_the_same_library(tmp_path: Path) -> None:
    """All that is made here is the same; LLVM does not always lay out the constants of an object in the same order."""
    made: list[tuple[object, ...]] = []
    for kernel in (scale_add(), scale_add.__wrapped__()):
        library, header, manifest = kernel.export(tmp_path / "libscale_add.so")
        said = {key: value for key, value in json.loads(manifest.read_text()).items() if key != "sha256"}
        made.append((read_metadata(library.read_bytes()).description, header.read_bytes(), said))
    assert made[0] == made[1]
    assert made[0][0]["identity"], "the hash of everything that was compiled"


def test_a_module_is_one_library_with_all_its_functions(tmp_path: Path) -> None:
    s, A, B = _parallel_negation()
    C = te.compute((64,), lambda i: A[i] * 2, name="C")
    module = tw.build({"negated": (s, [A, B]), "doubled": [A, C]})
    module.export(tmp_path / "libpair.so")
    loaded = tw.load(tmp_path / "libpair.so")
    assert list(loaded) == ["negated", "doubled"]
    a, out = np.arange(64, dtype=np.float32), np.empty(64, np.float32)
    loaded["negated"](a, out)
    assert np.array_equal(out, -a)
    loaded["doubled"](a, out)
    assert np.array_equal(out, a * 2)
    module["doubled"].export(tmp_path / "libdoubled.so")
    assert tw.load(tmp_path / "libdoubled.so").name == "doubled"


def test_in_c_main_of_a_module_goes_by_the_librarys_name(tmp_path: Path) -> None:
    s, A, B = _parallel_negation()
    tw.build({"main": (s, [A, B]), "other": (s, [A, B])}).export(tmp_path / "libboth.so")
    header = (tmp_path / "both.h").read_text()
    assert "int32_t both(const float" in header and "int32_t other(const float" in header
    assert list(tw.load(tmp_path / "libboth.so")) == ["main", "other"]


def test_c_names_of_parameters_are_valid_and_differ() -> None:
    names = ["A", "A", "I", "size_t", "2x", "_x", "a.b", "a_b", "double", "errno", "it's"]
    params = [BufferParam(f"{name}", "float32", (4,)) for name in names]
    assert parameter_names(Signature("f", tuple(params), ())) == [
        "A",
        "A_1",
        "I_",
        "size_t_",
        "p2x",
        "p_x",
        "a_b",
        "a_b_1",
        "double_",
        "errno_",
        "it_s",
    ]


def test_a_kernel_without_a_name_is_called_like_its_library(tmp_path: Path) -> None:
    double("main").export(tmp_path / "libtwice.so")
    assert "int32_t twice(const float *A, float *B);" in (tmp_path / "twice.h").read_text()
    loaded = tw.load(tmp_path / "libtwice.so")
    assert loaded.name == "twice"
    out = np.empty(32, np.float32)
    loaded(np.ones(32, np.float32), out)
    assert (out == 2).all()


MANY_CALLERS = """
#define _POSIX_C_SOURCE 200112L
#include "scale_add.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { ROWS = 600, CALLERS = 4 };
static float b[6] = {0, 1, 2, 3, 4, 5}, a[CALLERS][ROWS * 6], c[CALLERS][ROWS * 6];
static int wrong[CALLERS];

static void *work(void *argument) {
    int self = *(int *)argument;
    for (int i = 0; i < ROWS * 6; i++) a[self][i] = (float)(i + self);
    for (int turn = 0; turn < 50; turn++) {
        memset(c[self], 0, sizeof c[self]);
        wrong[self] |= scale_add(ROWS, a[self], 2.0f, b, c[self]) != 0;
        for (int i = 0; i < ROWS * 6; i++) wrong[self] |= c[self][i] != a[self][i] * 2 + b[i % 6];
    }
    return 0;
}

int main(void) {
    pthread_t threads[CALLERS];
    int numbers[CALLERS], status = 0, sum = 0;
    for (int i = 0; i < CALLERS; i++) { numbers[i] = i; if (pthread_create(&threads[i], 0, work, &numbers[i])) return 9; }
    for (int i = 0; i < CALLERS; i++) { pthread_join(threads[i], 0); sum += wrong[i]; }
    work(&numbers[0]);
    pid_t child = fork();
    if (!child) { work(&numbers[1]); _exit(wrong[1]); }
    waitpid(child, &status, 0);
    printf("%d %d %d\\n", sum, wrong[0], status);
    return 0;
}
"""


@needs_compiler
def test_functions_may_be_called_from_many_threads_and_in_a_forked_child(tmp_path: Path) -> None:
    scale_add().export(tmp_path / "libscale_add.so", threads="openmp")
    done = run([compile_program(tmp_path, MANY_CALLERS, ["libscale_add.so", "-pthread"])])
    assert (done.returncode, done.stdout) == (0, "0 0 0\n"), done.stderr


GAIN = "float gain(float x) { return x * 1.5f; }\n"


@needs_compiler
def test_a_kernel_that_calls_an_outside_function_is_linked_with_it(tmp_path: Path) -> None:
    (tmp_path / "gain.c").write_text(GAIN)
    assert run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libgain.so", tmp_path / "gain.c"]).returncode == 0
    ctypes.CDLL(str(tmp_path / "libgain.so"), ctypes.RTLD_GLOBAL)
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: te.call_pure_extern("float32", "gain", A[i]), name="B")
    kernel = tw.build(te.create_schedule(B), [A, B], name="amplify")
    with pytest.raises(tw.ExportError, match=r"(?s)TW0707: cannot link 'libamplify.so'.*gain.*export \".a\" or \".o\""):
        kernel.export(tmp_path / "libamplify.so")
    with pytest.raises(
        tw.ExportError, match=r"(?s)TW0704: the C function 'gain'.*function that the code calls or brings along"
    ):
        tw.build(te.create_schedule(B), [A, B], name="gain").export(tmp_path / "libgain.a")
    kernel.export(tmp_path / "libamplify.a")
    program = compile_program(
        tmp_path,
        """
#include "amplify.h"
int main(void) { float a[4] = {2, 4, 6, 8}, b[4]; return amplify(a, b) || b[0] != 3.0f || b[3] != 12.0f; }
""",
        ["libamplify.a", "gain.c"],
    )
    assert run([program]).returncode == 0


TWICE = """
$twice_helper = comdat any
define linkonce_odr float @twice_helper(float %x) comdat {
  %y = fadd float %x, %x
  ret float %y
}
define float @twice(float %x) {
  %y = call float @twice_helper(float %x)
  ret float %y
}
"""


@needs_nm
def test_imported_functions_come_along_and_stay_inside(tmp_path: Path) -> None:
    A = te.placeholder((4, 4), name="A")
    B = te.compute((4, 4), lambda i, j: te.call_pure_extern("float32", "twice", A[i, j]), name="B")
    s = te.create_schedule(B)
    s[B].pragma(B.op.axis[0], "import_llvm", TWICE)
    library = tw.build(s, [A, B], name="amplify").export(tmp_path / "libamplify.so")[0]
    assert visible(library, "-D", "--defined-only") == {"amplify", "amplify_checked", "amplify_error"}
    out = np.empty((4, 4), np.float32)
    tw.load(library)(np.ones((4, 4), np.float32), out)
    assert (out == 2).all()
    with pytest.raises(
        tw.ExportError, match=r"(?s)TW0704: the C function 'twice'.*a function that the code calls or brings along"
    ):
        tw.build(s, [A, B], name="twice").export(tmp_path / "libtwice.so")


@pytest.mark.skipif(not shutil.which("ar"), reason="no ar here")
def test_the_archives_are_those_that_binutils_read(tmp_path: Path) -> None:
    (tmp_path / "one.a").write_bytes(archive_bytes("kernels.o", b"content", ["f", "longer_name"]))
    assert run(["ar", "t", tmp_path / "one.a"]).stdout == "kernels.o\n"
    assert run(["ar", "p", tmp_path / "one.a"]).stdout == "content"
    double().export(tmp_path / "libdouble_it.a")
    index = run(["nm", "--print-armap", tmp_path / "libdouble_it.a"]).stdout
    assert "double_it_checked in kernels.o" in index


def test_code_for_another_machine_is_exported_and_refused_when_called(tmp_path: Path) -> None:
    A = te.placeholder((32,), name="A")
    B = te.compute((32,), lambda i: A[i] * 3, name="B")
    kernel = tw.build(
        te.create_schedule(B), [A, B], target="llvm -mtriple=aarch64-unknown-linux-gnu -mattr=+dotprod", name="f"
    )
    library, _, manifest = kernel.export(tmp_path / "f.o")
    assert library.read_bytes()[18:20] == (183).to_bytes(2, "little"), "ELF's number for AArch64"
    assert json.loads(manifest.read_text())["target"]["features"] == ["dotprod"]
    assert "fmul" in kernel.source("asm")
    with pytest.raises(tw.CodegenError, match="does not run on this machine"):
        kernel(np.zeros(32, np.float32), np.zeros(32, np.float32))
