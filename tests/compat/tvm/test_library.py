"""TVM's export_library and load_module."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.compat import tvm
from tilewright.compat.tvm import te


def add_one(name: str) -> tvm.Module:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    return tvm.build(te.create_schedule(B.op), [A, B], "llvm", name=name)


@pytest.mark.parametrize("suffix", ["so", "tar"])
def test_what_export_library_writes_load_module_reads(tmp_path: Path, suffix: str) -> None:
    path = str(tmp_path / f"lib.{suffix}")
    add_one("myadd").export_library(path)
    loaded = tvm.runtime.load_module(path)
    assert loaded.entry_name == "myadd"
    for function in (loaded, loaded["myadd"], loaded.get_function("myadd")):
        out = tvm.nd.array(np.zeros(4, "float32"))
        function(tvm.nd.array(np.arange(4, dtype="float32")), out)
        assert out.numpy().tolist() == [1, 2, 3, 4]
    assert loaded.time_evaluator(loaded.entry_name, tvm.cpu(0), number=1)(tvm.nd.empty((4,)), out).mean > 0


def test_modules_of_several_functions_keep_their_names(tmp_path: Path) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B.op)
    module = tvm.build([tvm.lower(s, [A, B], name="main"), tvm.lower(s, [A, B], name="twice")], target="llvm")
    module.export_library(tmp_path / "both.so")
    assert tvm.runtime.load_module(tmp_path / "both.so").names == ["main", "twice"]
    module.export_library(tmp_path / "both.o")
    assert (tmp_path / "both.h").exists()


def test_archives_without_a_library_are_refused(tmp_path: Path) -> None:
    import tarfile

    tarfile.open(tmp_path / "empty.tar", "w").close()
    with pytest.raises(tw.ExportError, match=r"TW0741: .*empty.so' is not a library of tilewright's"):
        tvm.runtime.load_module(tmp_path / "empty.tar")
