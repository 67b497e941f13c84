"""Models as libraries: called from C with the bits of a call from Python, and nothing allocated."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import tilewright as tw
from tilewright.cli import main
from tilewright.graph import Builder

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
int main(int count, char **args) {
    static float image[3 * 9 * 7], score[5];
    FILE *file = fopen(args[1], "rb");
    if (!file || fread(image, sizeof image, 1, file) != 1) return 2;
    OPEN
    void *arena = aligned_alloc(64, net_arena_bytes());
    int32_t status = net(WEIGHTS image, score, arena);
    if (status) { puts(net_error(status)); return 1; }
    int best = 0;
    for (int k = 0; k < 5; k++) { if (score[k] > score[best]) best = k; printf("%a ", score[k]); }
    printf("class %d\n", best);
    return 0;
}
"""

THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"
static long allocations;
extern void *__libc_malloc(size_t);
extern void *__libc_memalign(size_t, size_t);
void *malloc(size_t size) { __atomic_add_fetch(&allocations, 1, 5); return __libc_malloc(size); }
void *aligned_alloc(size_t at, size_t size) { __atomic_add_fetch(&allocations, 1, 5); return __libc_memalign(at, size); }
static float images[4][3 * 9 * 7], scores[4][5], again[4][5];
static void *arenas[4];
static long within[4];
static void *many(void *at) {
    long k = (long)at;
    for (int turn = 0; turn < 200; turn++) if (net(images[k], again[k], arenas[k])) return at;
    return memcmp(scores[k], again[k], sizeof scores[k]) ? at : NULL;
}
int main(void) {
    pthread_t threads[4];
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 3 * 9 * 7; i++) images[k][i] = (float)((i * 7 + k) % 11) / 5 - 1;
        arenas[k] = aligned_alloc(64, net_arena_bytes());
    }
    long before = allocations;
    for (int k = 0; k < 4; k++) if (net(images[k], scores[k], arenas[k])) return 1;
    if (allocations != before) { printf("%ld allocations\n", allocations - before); return 2; }
    for (long k = 0; k < 4; k++) pthread_create(&threads[k], NULL, many, (void *)k);
    for (int k = 0; k < 4; k++) { void *failed = &failed; pthread_join(threads[k], &failed); if (failed) return 3; }
    puts("same");
    return 0;
}
"""


def classifier() -> tw.graph.Graph:
    random = np.random.default_rng(2)

    def weights(*shape: int) -> Any:
        return (random.standard_normal(shape) / 9).astype("float32")

    b = Builder("classifier")
    x = b.input("image", (1, 3, 9, 7))
    x = b.node("relu", b.node("conv", x, b.param("w", weights(64, 3, 3, 3)), padding=(1, 1, 1, 1)))
    x = b.node("relu", b.node("conv", x, b.param("v", weights(96, 64, 3, 3)), padding=(1, 1, 1, 1)))
    x = b.node("reshape", b.node("mean", x, axes=(2, 3)), shape=(1, 96))
    b.output("score", b.node("softmax", b.node("matmul", x, b.param("u", weights(96, 5)))))
    return b.graph()


def run(source: str, folder: Path, *args: str, libraries: tuple[str, ...] = ("-lpthread",)) -> str:
    (folder / "program.c").write_text(source)
    subprocess.run(
        ["cc", "-O1", "-o", "program", "program.c", "-L.", "-lnet", "-Wl,-rpath,.", *libraries], cwd=folder, check=True
    )
    done = subprocess.run(["./program", *args], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


@needs_cc
@pytest.mark.parametrize("weights", ["embed", "file"])
def test_a_program_in_c_classifies_with_the_bits_of_python(tmp_path: Path, weights: Literal["embed", "file"]) -> None:
    m = tw.build(classifier())
    image = np.random.default_rng(4).standard_normal((1, 3, 9, 7)).astype("float32")
    image.tofile(tmp_path / "image")
    m.export(tmp_path / "libnet.so", weights=weights, threads="none")
    opened = 'net_weights *weights; if (net_open("net.weights", &weights)) return 3;' if weights == "file" else ""
    said = run(
        PROGRAM.replace("OPEN", opened).replace("WEIGHTS", "weights," if opened else ""), tmp_path, "image"
    ).split()
    score = m(image)[0]
    assert [float.fromhex(word) for word in said[:5]] == score.tolist()
    assert said[-1] == str(score.argmax())


@needs_cc
def test_a_call_allocates_nothing_and_threads_do_not_meet(tmp_path: Path) -> None:
    tw.build(classifier()).export(tmp_path / "libnet.so", threads="none")
    assert run(THREADS, tmp_path) == "same\n"


@needs_cc
@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("valgrind") is None or platform.machine() != "x86_64", reason="no valgrind for this machine"
)
def test_a_library_reads_and_writes_its_own_memory_alone(tmp_path: Path) -> None:
    classifier().export(tmp_path / "libnet.so", threads="none", target="llvm -mcpu=haswell")  # which valgrind knows
    np.ones((1, 3, 9, 7), "float32").tofile(tmp_path / "image")
    run(
        PROGRAM.replace("OPEN", "").replace("WEIGHTS", "").replace("return 0", "free(arena); fclose(file); return 0"),
        tmp_path,
        "image",
    )
    done = subprocess.run(
        ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "./program", "image"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@needs_cc
def test_a_file_of_other_weights_is_refused(tmp_path: Path) -> None:
    m = tw.build(classifier())
    m.export(tmp_path / "libnet.so", weights="file", threads="none")
    source = r"""
#include <stdio.h>
#include "net.h"
int main(int count, char **args) {
    net_weights *weights = NULL;
    int32_t status = net_open(args[1], &weights);
    puts(net_error(status));
    net_close(weights);
    return 0;
}
"""
    assert run(source, tmp_path, "net.weights") == "success\n"
    assert "cannot be opened" in run(source, tmp_path, "absent")
    content = (tmp_path / "net.weights").read_bytes()
    (tmp_path / "short").write_bytes(content[:-1])
    (tmp_path / "other").write_bytes(with_flipped(content, 80))
    os.mkfifo(tmp_path / "pipe")
    for name in ("short", "other", "pipe", "/dev/zero", "."):
        assert "does not hold the weights" in run(source, tmp_path, name)


def with_flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1 << at % 8
    return bytes(changed)


def test_weights_that_changed_are_not_opened(tmp_path: Path) -> None:
    builder = Builder("net")
    w = np.arange(7 * 2500, dtype="int8").reshape(7, 2500)  # more words than lanes, and bytes that fill no word
    builder.output("y", builder.node("add", builder.input("x", (7, 2500), "int8"), builder.param("w", w)))
    builder.output("z", builder.node("add", builder.input("v", (3,), "int8"), builder.param("u", w[0, :3])))
    path = tw.build(builder.graph()).export(tmp_path / "libnet.so", weights="file", threads="none")[0]
    file = tmp_path / "net.weights"
    content, x, v = file.read_bytes(), np.zeros((7, 2500), "int8"), np.zeros(3, "int8")
    library, handle = ctypes.CDLL(str(path)), ctypes.c_void_p()
    library.net_error.restype = ctypes.c_char_p
    for at in (4096, 4096 + 8191, 4096 + 8192, len(content) - 2, len(content) - 1):
        file.write_bytes(with_flipped(content, at))
        with pytest.raises(tw.ExportError, match=r"TW0745(.|\n)*not as they were written"):
            tw.load(path)(x, v)
        tw.load(path, verify=False)(x, v)
        status = library.net_open(bytes(file), ctypes.byref(handle))
        assert b"not as they were written" in library.net_error(status) and not handle.value
        assert library.net_open_unverified(bytes(file), ctypes.byref(handle)) == 0
        assert library.net_verify(handle) == status
        library.net_close(handle)
    swapped = content[:4096] + content[4104:4112] + content[4096:4104] + content[4112:]
    file.write_bytes(swapped)
    assert library.net_open(bytes(file), ctypes.byref(handle)) == status
    file.write_bytes(content)
    y, z = tw.load(path)(x, v)
    np.testing.assert_array_equal(y, w)
    np.testing.assert_array_equal(z, w[0, :3])
    assert library.net_open(bytes(file), ctypes.byref(handle)) == 0 == library.net_verify(handle)
    library.net_close(handle)


def test_the_header_tells_of_every_input_and_output(tmp_path: Path) -> None:
    library, header, *_ = tw.build(classifier()).export(tmp_path / "libnet.so", weights="file", threads="none")
    text = header.read_text()
    assert re.search(r"image +in  float32\[1, 3, 9, 7\]", text)
    assert re.search(r"score +out float32\[1, 5\]", text)
    assert "int32_t net(const net_weights *weights, const float *image, float *score, void *arena);" in text
    assert "int64_t net_arena_bytes(void);" in text
    assert library.stat().st_size < 1 << 20


def test_python_loads_the_library_too(tmp_path: Path) -> None:
    m = tw.build(classifier())
    m.export(tmp_path / "libnet.so", threads="none")
    image = np.ones((1, 3, 9, 7), "float32")
    score = np.empty((1, 5), "float32")
    tw.load(str(tmp_path / "libnet.so"))(image, score, tw.empty((m.arena_bytes,), "uint8"))
    np.testing.assert_array_equal(score, m(image))


OPENED = r"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
int main(void) {
    static float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, y[2][5];
    net_weights *weights;
    int32_t status = net_open("net.weights", &weights);
    if (!status) status = net(weights, 2, &x[0][0], &y[0][0], aligned_alloc(64, net_arena_bytes(2) + 64 & ~63));
    for (int k = 0; k < 10; k++) printf("%g ", y[k / 5][k % 5]);
    net_close(weights);
    return status;
}
"""


@needs_cc
def test_the_opened_weights_come_before_the_sizes(tmp_path: Path) -> None:
    b = Builder("net")
    w = np.arange(15, dtype="float32").reshape(3, 5)
    b.output("y", b.node("matmul", b.input("x", ("n", 3)), b.param("w", w)))
    tw.build(b.graph()).export(tmp_path / "libnet.so", weights="file", threads="none")
    (tmp_path / "program.c").write_text(OPENED)
    subprocess.run(
        [
            "cc",
            "-Werror=incompatible-pointer-types",
            "-Werror=int-conversion",
            "-o",
            "program",
            "program.c",
            "-L.",
            "-lnet",
            "-Wl,-rpath,.",
        ],
        cwd=tmp_path,
        check=True,
    )
    said = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    np.testing.assert_array_equal(
        np.float32(said.split()).reshape(2, 5), np.arange(1, 7, dtype="float32").reshape(2, 3) @ w
    )


def test_inputs_may_be_called_as_they_like(tmp_path: Path) -> None:
    b = Builder()
    b.output("weights", b.node("add", b.input("arena", (3,)), b.node("exp", b.input("net", (3,)))))
    _, header, *_ = tw.build(b.graph()).export(tmp_path / "net.o", threads="none")
    assert "int32_t net(const float *arena, const float *net, float *weights, void *arena_);" in header.read_text()


def test_the_command_line_compiles_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classifier().save(tmp_path / "g.safetensors")
    assert (
        main(["compile", str(tmp_path / "g.safetensors"), "-o", str(tmp_path / "libnet.so"), "--weights", "file"]) == 0
    )
    assert "net.weights" in capsys.readouterr().out
    assert (tmp_path / "net.h").exists()


def test_the_command_line_gives_sizes_and_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("open")
    b.output("y", b.node("exp", b.input("x", ("n", 4, "2 * m"))))
    b.graph().save(tmp_path / "g.safetensors")
    path = str(tmp_path / "g.safetensors")
    assert main(["transform", path, "--shape", "x=3,4,m * 2", "--passes", "dead"]) == 0
    assert "input x: float32[3, 4, m * 2]" in capsys.readouterr().out
    assert main(["report", path, "-o", str(tmp_path / "page.html")]) == 1
    assert "--shape x=n,4,m * 2" in capsys.readouterr().err
    for wrong in ("x=3,5,m * 2", "z=1", "x=3,4"):
        assert main(["compile", path, "-o", str(tmp_path / "libnet.so"), "--shape", wrong]) == 1
        assert "TW0906" in capsys.readouterr().err
    for wrong in (["--shape", "x"], ["-o", "model.onnx"]):
        with pytest.raises(SystemExit, match="2"):
            main(["transform", path, *wrong])
    assert main(["compile", path, "-o", str(tmp_path / "libnet.so"), "--state", "x=y"]) == 1
    assert "--state" in capsys.readouterr().err


ANY_SIZE = r"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
static long allocations;
extern void *__libc_malloc(size_t);
extern void *__libc_memalign(size_t, size_t);
void *malloc(size_t size) { allocations++; return __libc_malloc(size); }
void *aligned_alloc(size_t at, size_t size) { allocations++; return __libc_memalign(at, size); }
int main(int count, char **args) {
    int64_t n = atoll(args[1]), s = atoll(args[2]);
    FILE *file = fopen(args[3], "r+b");
    float *x = calloc(n * s * 6 + 1, 4), *y = calloc(n * s * s + 1, 4), *rest = calloc(n * s + 1, 4);
    if (!file || fread(x, 24, n * s, file) != (size_t)(n * s)) return 2;
    void *arena = aligned_alloc(64, net_arena_bytes(n, s));
    long before = allocations;
    int32_t status = net(n, s, x, y, rest, arena);
    if (status) { puts(net_error(status)); return 1; }
    if (allocations != before) { printf("%ld allocations\n", allocations - before); return 3; }
    rewind(file);
    fwrite(y, 4, n * s * s, file);
    fwrite(rest, 4, n * s, file);
    return fclose(file);
}
"""


@needs_cc
def test_a_library_takes_any_size(tmp_path: Path) -> None:
    b = Builder("scores")
    x = b.input("x", ("n", "s", 6))
    q = b.node(
        "relu", b.node("matmul", x, b.param("w", np.random.default_rng(0).standard_normal((6, 5)).astype("float32")))
    )
    b.output("y", b.node("softmax", b.node("matmul", q, q, transpose_b=True), axis=-1))
    b.output("rest", b.node("sum", q, axes=(2,), keepdims=False))
    g = b.graph()
    tw.build(g).export(tmp_path / "libnet.so", threads="none")
    assert "int64_t net_arena_bytes(int64_t n, int64_t s);" in (tmp_path / "net.h").read_text()
    (tmp_path / "program.c").write_text(ANY_SIZE)
    subprocess.run(
        ["cc", "-O1", "-o", "program", "program.c", "-L.", "-lnet", "-Wl,-rpath,."], cwd=tmp_path, check=True
    )
    for n, s in ((1, 1), (2, 37), (3, 130), (0, 5)):
        x = np.random.default_rng(s).standard_normal((n, s, 6)).astype("float32")
        x.tofile(tmp_path / "values")
        done = subprocess.run(
            ["./program", str(n), str(s), "values"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (n, s, done.returncode, done.stdout)
        given = np.fromfile(tmp_path / "values", "float32")[: n * s * s + n * s]
        y, rest = g.run(x)
        np.testing.assert_allclose(given, np.concatenate([y.reshape(-1), rest.reshape(-1)]), rtol=1e-4, atol=1e-5)


@needs_cc
@pytest.mark.parametrize("weights", ["embed", "file"])
def test_a_loaded_model_is_called_as_the_model_that_it_was(tmp_path: Path, weights: Literal["embed", "file"]) -> None:
    m = tw.build(classifier())
    image = np.random.default_rng(5).standard_normal((1, 3, 9, 7)).astype("float32")
    net: Any = tw.load(m.export(tmp_path / "libnet.so", weights=weights)[0])
    score = m(image)
    assert list(net.inputs) == list(m.inputs) and list(net.outputs) == list(m.outputs)
    assert np.array_equal(net(image), score) and np.array_equal(net(image=image.copy(order="F")), score)
    given = np.zeros((1, 5), "float32")
    for _ in range(3):
        given[:] = 0
        assert net(image, out=given) is given and np.array_equal(given, score)
        assert np.array_equal(net(image), score) and np.array_equal(net(image=image), score)
        assert np.array_equal(net(image[::-1]), score) and net(image) is not net(image)
    given.flags.writeable = False
    with pytest.raises(tw.CallError, match=r"TW0510"):
        net(image, out=given)
    assert net.time(image, repeat=1, min_repeat_ms=0).min > 0
    with pytest.raises(tw.CallError, match=r"TW0501: net gives 1 outputs, and out= names 2"):
        net(image, out=[given, given])
    with pytest.raises(tw.CallError, match=r"TW0501: net takes 1 arguments, 2 were given"):
        net(image, image)


@needs_cc
def test_a_loaded_model_updates_its_state_and_takes_any_size(tmp_path: Path) -> None:
    b = Builder("sums")
    x, past = b.input("x", ("n", 4)), b.input("past", (1, 4))
    b.output("now", b.node("add", past, b.node("sum", x, axes=(0,), keepdims=True)))
    b.output("twice", b.node("add", x, x))
    b.state("past", "now")
    net: Any = tw.load(tw.build(b.graph()).export(tmp_path / "libsums.so")[0])
    past = np.zeros((1, 4), "float32")
    for rows in (1, 7, 3):
        given = np.full((rows, 4), rows, "float32")
        assert np.array_equal(net(given, past), 2 * given)
    assert np.array_equal(past, np.full((1, 4), 1 + 49 + 9, "float32"))
    past.flags.writeable = False
    with pytest.raises(tw.CallError, match=r"TW0510"):
        net(given, past)
    with pytest.raises(tw.CallError, match=r"TW0505: 'x' .* has 1 \(shape \(4,\)\) dimensions; 2 are expected"):
        net(given[0], past)


@needs_cc
def test_a_loaded_model_without_its_file_of_weights_says_which_is_missing(tmp_path: Path) -> None:
    tw.build(classifier()).export(tmp_path / "libnet.so", weights="file")
    (tmp_path / "net.weights").rename(tmp_path / "elsewhere")
    net: Any = tw.load(tmp_path / "libnet.so")
    with pytest.raises(
        tw.ExportError, match=r"TW0745: cannot open the weights of net\n  net.weights: .*cannot be opened"
    ):
        net(np.zeros((1, 3, 9, 7), "float32"))
    (tmp_path / "elsewhere").rename(tmp_path / "net.weights")
    assert net(np.zeros((1, 3, 9, 7), "float32")).shape == (1, 5)
