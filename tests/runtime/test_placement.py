"""CPUs of the pool's threads: apart from the caller's, within its mask; nothing of the caller's, or of a child's, is changed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from exported import compile_program, needs_compiler, run, scale_add
from tilewright import te
from tilewright.runtime import threads

needs_two = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2 or not threads._may_have_pool(), reason="one CPU, or no threads of our own here"
)

PROGRAM = """
import os, sys, threading, time
import numpy as np, tilewright as tw
from tilewright import te
full = os.sched_getaffinity(0)
if sys.argv[1:]:
    f = tw.load(sys.argv[1])
    given = np.ones((4096, 6), "float32"), 2.0, np.ones(6, "float32")
    out = np.empty((4096, 6), "float32")
else:
    A = te.placeholder((1 << 16,))
    B = te.compute(A.shape, lambda i: A[i] * 2 + 1)
    s = te.create_schedule(B.op)
    s[B].parallel(B.op.axis[0])
    f, given, out = tw.build(s, [A, B]), (np.ones(1 << 16, "float32"),), np.empty(1 << 16, "float32")
tw.set_num_threads(2)
before = set(os.listdir("/proc/self/task"))

def call(pause=0.003, out=out):
    time.sleep(pause)
    out[...] = 0
    f(*given, out)
    assert (out == 3).all()

def masks():
    return [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task") if task not in before]

def settle(holds):
    # A thread that waited behind others has been brought elsewhere, and is placed again by a later call.
    for _ in range(300):
        call()
        if masks() and all(map(holds, masks())):
            return True
    return False

def apart(mask):
    return mask < full and len(full - mask) == 1
"""


def output_of(code: str, *arguments: object, **variables: str) -> str:
    """What a program prints that begins like PROGRAM."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **variables}
    command = [sys.executable, "-c", PROGRAM + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_two
def test_loaded_libraries_place_their_threads(tmp_path: Path) -> None:
    library = scale_add().export(tmp_path / "libscale_add.so", threads="openmp")[0]
    assert output_of("print(settle(apart), os.sched_getaffinity(0) == full)", library) == "True True"


@needs_two
def test_placement_can_be_switched_off() -> None:
    code = "[call() for _ in range(20)]; print(all(mask == full for mask in masks()), len(masks()))"
    assert output_of(code, OMP_PROC_BIND="false") == "True 1"


# Each leaves its result in `holds`; all run in one process, one after the other.
SECTIONS = {
    "threads leave out the caller's CPU": "holds = settle(apart) and len(masks()) == (4 if len(full) == 2 else 1)",
    "a change of the mask is followed": """
holds = True
for few in [set(sorted(full)[:1]), *([set(sorted(full)[:2])] if len(full) > 2 else [])]:  # one CPU: nothing is placed
    os.sched_setaffinity(0, few)
    holds &= settle(lambda mask: len(few) == 1 or mask < few) and os.sched_getaffinity(0) == few
os.sched_setaffinity(0, full)
holds &= settle(apart)
""",
    "a child has its parent's mask": """
child = os.fork()
if child == 0:
    call()
    os._exit(0 if os.sched_getaffinity(0) == full and tw.num_threads() == 1 else 3)
holds = os.waitpid(child, 0)[1] == 0
""",
    "callers that are bound stay so": """
def work(cpu):
    os.sched_setaffinity(0, {cpu})
    mine = np.empty_like(out)
    for _ in range(100):
        call(0.0005, mine)
    kept.append(os.sched_getaffinity(0) == {cpu})

kept = []
workers = [threading.Thread(target=work, args=(cpu,)) for cpu in full]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
holds = len(kept) == len(full) and all(kept)
""",
    "threads are placed after all of it": "holds = settle(apart)",
}


@pytest.fixture(scope="module")
def held() -> set[str]:
    """The sections that hold."""
    report = "\nif holds and os.sched_getaffinity(0) == full: print({!r})\n"
    return set(output_of("".join(code + report.format(name) for name, code in SECTIONS.items())).splitlines())


@needs_two
@pytest.mark.parametrize("section", SECTIONS)
def test_placement(held: set[str], section: str) -> None:
    assert section in held


def test_callers_at_once_beside_busy_processes() -> None:
    """Owners that wait for threads which wait for a CPU, and bring them to theirs, while others offer jobs and pause."""

    def work(seed: int) -> None:
        rng, out = np.random.default_rng(seed), np.empty(n, "float32")
        while time.monotonic() < end:
            out[:] = 0
            kernel(a, out)
            calls.append(bool((out == expected).all()))
            time.sleep(float(rng.choice([0, 5e-5, 1e-3])))

    n = 1 << 16
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: te.exp(te.sin(te.exp(A[i]))), name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(B.op.axis[0])
    kernel, a, calls = tw.build(s, [A, B]), np.linspace(0, 1, n, dtype="float32"), list[bool]()
    before = threads.num_threads()
    tw.set_num_threads(1)
    expected = np.empty(n, "float32")
    kernel(a, expected)
    tw.set_num_threads(3)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    end = time.monotonic() + (60 if os.environ.get("TILEWRIGHT_SOAK") else 2)
    try:
        callers = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(3)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(180)
        assert not any(caller.is_alive() for caller in callers), "somebody waits for ever"
    finally:
        tw.set_num_threads(before)
        for other in others:
            other.kill()
            other.wait()
    assert len(calls) >= 3 and all(calls)


BOUND = """
#define _GNU_SOURCE
#include "scale_add.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static float a[4096 * 6], b[6], c[4096 * 6];

int main(int count, char **words) {
    cpu_set_t before, after;
    int i;
    (void)words;
    if (count > 1) {
        CPU_ZERO(&before);
        CPU_SET(sched_getcpu(), &before);
        sched_setaffinity(0, sizeof before, &before);
    }
    sched_getaffinity(0, sizeof before, &before);
    for (i = 0; i < 4096 * 6; i++) a[i] = 1;
    for (i = 0; i < 10; i++)
        if (CALL) return 2;
    for (i = 0; i < 4096 * 6; i++)
        if (c[i] != 2) return 3;
    sched_getaffinity(0, sizeof after, &after);
    puts(CPU_EQUAL(&before, &after) ? "kept" : "changed");
    return 0;
}
"""


@needs_compiler
@pytest.mark.parametrize("bound", [[], ["bound"]])
def test_a_program_in_c_keeps_its_mask(tmp_path: Path, bound: list[str]) -> None:
    scale_add().export(tmp_path / "libscale_add.so", threads="openmp")
    program = compile_program(tmp_path, BOUND.replace("CALL", "scale_add(4096, a, 2, b, c)"), ["libscale_add.so"])
    done = run([program, *bound])
    assert (done.returncode, done.stdout.strip()) == (0, "kept"), done.stderr
