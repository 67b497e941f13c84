"""Models on Arm's and RISC-V's processors: exported, called from C under qemu, and held against this machine's results."""

from __future__ import annotations

from pathlib import Path

import cross
import drawn
import numpy as np
import pytest
import tilewright as tw

from net.programs import load_models

MODELS = load_models()
MACHINES = ("v8.0", "dotprod", "i8mm", "sve128", "sve256", "sve512", "rv64gc", "rvv128", "rvv256", "rvv512")
PAIRS = [(name, MACHINES[(at + drawn.SEED) % len(MACHINES)]) for at, name in enumerate(MODELS) if "open" not in name]
"""A machine for each model of fixed shapes, another one with every seed."""
_PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
static const size_t sizes[] = {{ {sizes} }};
static void *room(size_t bytes) {{ return aligned_alloc(64, (bytes + 64) / 64 * 64); }}
int main(void) {{
  void *b[{count}];
  for (int at = 0; at < {count}; at++) {{
    b[at] = room(sizes[at]);
    if (at < {inputs} && fread(b[at], 1, sizes[at], stdin) != sizes[at]) return 2;
  }}
  if (net({arguments}, room(net_arena_bytes()))) return 1;
  for (int at = {inputs}; at < {count}; at++) fwrite(b[at], 1, sizes[at], stdout);
  return 0;
}}
"""


@cross.needs(*MACHINES)
@pytest.mark.parametrize(("name", "machine"), drawn.part(PAIRS, 1))
def test_a_model_computes_there_what_it_computes_here(name: str, machine: str, tmp_path: Path) -> None:
    g, rng = MODELS[name](), np.random.default_rng(1)
    inputs = [
        (rng.normal(size=kind.shape) if "float" in kind.dtype else rng.integers(0, 2, kind.shape)).astype(kind.dtype)
        for kind in g.inputs.values()
    ]
    here = tw.build(g)(*inputs)
    outputs = here if isinstance(here, list) else [here]
    g.export(tmp_path / "net.o", threads="none", target=cross.MACHINES[machine][0])
    sizes = [array.nbytes for array in (*inputs, *outputs)]
    (tmp_path / "main.c").write_text(
        _PROGRAM.format(
            sizes=", ".join(map(str, sizes)),
            count=len(sizes),
            inputs=len(inputs),
            arguments=", ".join(f"b[{at}]" for at in range(len(sizes))),
        )
    )
    content = b"".join(array.tobytes() for array in inputs)
    try:
        received = cross.run_sources(["main.c", "net.o"], content, machine, tmp_path)
    except cross.EmulatorFault:
        pytest.skip("qemu stops at an assertion of its own")
    at = 0
    for array in outputs:
        there = np.frombuffer(received, array.dtype, array.size, at).reshape(array.shape)
        at += array.nbytes
        np.testing.assert_allclose(there, array, rtol=1e-4, atol=1e-4 * max(float(np.abs(array).max()), 1e-30))
