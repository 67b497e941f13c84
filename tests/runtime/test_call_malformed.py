"""No call crashes the process: malformed calls, drawn from faults × arguments × kinds of kernel, each end in a
CallError that names the argument. They run in a process of their own, so that a crash would be seen as one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import drawn

CALLS = 1_000

PROGRAM = r"""
import array, collections, faulthandler, sys
faulthandler.enable()
import handwritten_kernels, numpy as np
from handwritten_kernels import Signature, Symbol, ScalarParam, BufferParam, buffers
from tilewright.base.errors import CallError
from tilewright.runtime.array import Array, empty

seed, calls = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(seed)

ADD = handwritten_kernels.elementwise
KERNELS = [
    (handwritten_kernels.build(Signature("fixed", buffers("A:float32[4,5] B:float32[4,5] out C:float32[4,5]")),
                    ADD("20", symbols=0)),
     [(4, 5)] * 3, "float32"),
    (handwritten_kernels.build(Signature("free", buffers("A:float64[n,m] B:float64[n,m] out C:float64[n,m]"),
                              (Symbol("n"), Symbol("m"))),
                    ADD("%n0", "double", 2)), [(6, 3)] * 3, "float64"),
    (handwritten_kernels.build(Signature("ints", buffers("A:int16[n] B:int16[n] out C:int16[n]"), (Symbol("n", "int64"),)),
                    ADD("%n0", "i16", operation="add")), [(33,)] * 3, "int16"),
]

def released(x):
    view = memoryview(x.copy())
    view.release()
    return view

def misaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    return raw[1:].view(x.dtype).reshape(x.shape)

def fixed(x):
    x = x.copy()
    x.flags.writeable = False
    return x

class Liar:
    __array_interface__ = {"version": 3, "shape": "?", "typestr": "<f4", "data": (8, False)}

class Thrower:
    def __dlpack__(self, **options):
        raise RuntimeError("not today")
    def __dlpack_device__(self):
        return (1, 0)

class Elsewhere(Thrower):
    shape, dtype = (4, 5), "float32"
    def __dlpack_device__(self):
        return (2, 0)

class NoCapsule(Thrower):
    def __dlpack__(self, **options):
        return 17

FAULTS = {
    "None": lambda x: None,
    "str": lambda x: "A",
    "bytes": lambda x: b"0123",
    "int": lambda x: 3,
    "object": lambda x: object(),
    "type": lambda x: np.ndarray,
    "dict": lambda x: {"a": x},
    "list": lambda x: x.tolist(),
    "tuple": lambda x: (x, x),
    "lambda": lambda x: len,
    "released memoryview": released,
    "lying interface": lambda x: Liar(),
    "throwing dlpack": lambda x: Thrower(),
    "device": lambda x: Elsewhere(),
    "no capsule": lambda x: NoCapsule(),
    "masked": lambda x: np.ma.masked_array(x),
    "dtype": lambda x: x.astype(rng.choice(["int8", "uint64", "complex64", "bool", "float16"])),
    "big endian": lambda x: x.astype(x.dtype.newbyteorder()),
    "structured": lambda x: x.view([("x", x.dtype)]),
    "objects": lambda x: x.astype(object),
    "strings": lambda x: x.astype("U3"),
    "dates": lambda x: np.zeros(x.shape, "datetime64[s]"),
    "rank 0": lambda x: x.reshape(-1)[0],
    "0-d": lambda x: np.array(1, x.dtype),
    "more dimensions": lambda x: x[None],
    "flat": lambda x: x.reshape(-1)[:, None, None],
    "longer": lambda x: np.concatenate([x, x]),
    "shorter": lambda x: x[:-1],
    "empty": lambda x: x[:0],
    "many dimensions": lambda x: x.reshape((1,) * 20 + x.shape),
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "negative": lambda x: x[::-1],
    "broadcast": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "wild strides": lambda x: np.lib.stride_tricks.as_strided(x, x.shape, (x.strides[0] + 4,) + x.strides[1:]),
    "misaligned": misaligned,
    "other array": lambda x: array.array("b", [1, 2]),
}
OUTPUT_FAULTS = {"read-only": fixed, "read-only memoryview": lambda x: memoryview(fixed(x))}
counts = collections.Counter()
for call in range(calls):
    kernel, shapes, dtype = KERNELS[rng.integers(len(KERNELS))]
    make = [np.zeros, lambda s, d: empty(s, d)][rng.integers(2)]
    args = [make(shape, dtype) for shape in shapes]
    place = int(rng.integers(3))
    faults = {**FAULTS, **(OUTPUT_FAULTS if place == 2 else {}), "overlap": None, "count": None, "keyword": None}
    fault = str(rng.choice(list(faults)))
    name, named = kernel.signature.params[place].name, {}
    if fault == "overlap":
        place = int(rng.integers(2))
        memory = np.zeros(args[2].size + 1, dtype)
        offset = int(rng.integers(2))
        args[2] = memory[: args[2].size].reshape(shapes[2])
        args[place] = memory[offset : offset + args[place].size].reshape(shapes[place])
        name = "C"
    elif fault == "count":
        del args[place:]
    elif fault == "keyword":
        del args[place:]
        named, name = {"nobody": np.zeros(3)}, kernel.name
    else:
        args[place] = faults[fault](args[place])
    before = [a.copy() if isinstance(a, np.ndarray) else None for a in args]
    try:
        kernel(*args, **named)
    except CallError as error:
        text = str(error)
        assert name in text and error.code.startswith("TW05") and error.fix, (fault, text)
        assert fault in ("count", "keyword") or f"'{name}' (argument" in text, (fault, text)
        assert "called at" in text, text
        counts[error.code] += 1
        continue
    raise AssertionError((call, kernel.name, place, fault))
print(sum(counts.values()), dict(sorted(counts.items())))
"""


def test_a_thousand_malformed_calls_give_a_thousand_errors():
    seed = str(int(drawn.rng("malformed").integers(1 << 31)))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, seed, str(CALLS)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[1] / "support",
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}: status {done.returncode}\n{done.stderr[-3000:]}"
    print(done.stdout)
    assert done.stdout.startswith(f"{CALLS} ")
    assert len(set(done.stdout.split("TW")[1:])) >= 12
