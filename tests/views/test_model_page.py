"""The page about a model: m.show and `tilewright report MODEL`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.cli import main


def digits(rows: int | str = 5) -> tw.graph.Graph:
    rng = np.random.default_rng(0)
    b = tw.graph.Builder("digits <& co>")
    x = b.input("x", (rows, 17))
    y = b.node(
        "relu", b.node("matmul", x, b.param("v", rng.standard_normal((17, 3)).astype("float32"))), source="first layer"
    )
    b.output("score", b.node("softmax", y))
    return b.graph()


def test_a_page_tells_of_every_kernel_and_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")  # the main of a model is well formed at each stage
    m = tw.build(digits())
    page = m.show(tmp_path / "page.html", np.ones((5, 17), "float32"))
    text = page.read_text()
    assert page == tmp_path / "page.html"
    assert text.count("<tr>") == 1 + sum(m.kernels.values())
    assert "first layer" in text and "float32[5, 3]" in text and "softmax" in text
    assert re.search(r"[\d.]+ %</td>", text) and "204 bytes" in text
    assert "digits &lt;&amp; co&gt;" in text and "<& co>" not in text, "names are text, not markup"
    assert not re.search(r'(src|href)="http', text)


def test_without_inputs_kernels_have_no_times(tmp_path: Path) -> None:
    text = tw.build(digits()).show(tmp_path / "page.html").read_text()
    assert "GFLOP/s" not in text and "softmax" in text and "<th>nodes</th>" in text
    g = tw.graph.parse("graph g {\n  input x: float32[2]\n  y: float32[2] = exp(x)\n  output y\n}")
    page = tw.build(g).show(tmp_path / "page.html").read_text()
    assert "<td>y</td>" in page, "nodes that no importer has named go by the name of their result"


def test_inputs_of_another_shape_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(tw.GraphError, match="TW0906"):
        tw.build(digits()).show(tmp_path / "page.html", np.ones((5, 18), "float32"))
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_writes_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits().save(tmp_path / "digits.safetensors")
    assert main(["report", str(tmp_path / "digits.safetensors"), "-o", str(tmp_path / "page.html")]) == 0
    assert "GFLOP/s" in (tmp_path / "page.html").read_text()
    digits("n").save(tmp_path / "open.safetensors")
    assert main(["report", str(tmp_path / "open.safetensors"), "-o", str(tmp_path / "open.html")]) != 0
    assert "TW0906" in capsys.readouterr().err and not (tmp_path / "open.html").exists()
