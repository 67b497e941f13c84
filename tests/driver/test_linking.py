"""Functions that are compiled one by one and linked: kept one by one, and found again by whatever shares them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import topi
from tilewright.driver import linking
from tilewright.driver.cache import key as key_module
from tilewright.driver.cache.store import SUFFIX
from tilewright.graph import Builder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where entries go: a cache of the test's own, on."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    key_module._sources.cache_clear()  # a source may be edited while tests run
    return tmp_path / "cache" / "kernels"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that were compiled, in order."""
    names: list[str] = []
    plain: Callable[..., Any] = linking.prepare

    def counting(functions: Any, *args: Any) -> Any:
        names.extend(function.name for function in functions)
        return plain(functions, *args)

    monkeypatch.setattr(linking, "prepare", counting)
    return names


def net(layers: int, seed: int = 0, last: str = "tanh") -> tw.graph.Graph:
    """Equal layers relu(x w), and another at the end."""
    random = np.random.default_rng(seed)
    b = Builder("net")
    x = b.input("x", (3, 7))
    for at in range(layers):
        x = b.node(
            "relu", b.node("matmul", x, b.param(f"w{at}", (random.standard_normal((7, 7)) / 4).astype("float32")))
        )
    b.output("y", b.node("softmax", b.node(last, x)))
    return b.graph()


DAMAGES: tuple[Callable[[bytes], bytes], ...] = (
    lambda content: b"",  # gone
    lambda content: content[:-7],  # cut off
    lambda content: content.replace(b"TWKERNL1", b"TWKERNL0"),  # of another version
    lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
)


def right(g: tw.graph.Graph) -> bool:
    x = np.random.default_rng(5).standard_normal((3, 7)).astype("float32")
    return bool(np.allclose(tw.build(g)(x), g.run(x)[0], rtol=1e-4, atol=1e-6))


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def test_a_second_build_compiles_nothing(folder: Path, built: list[str]) -> None:
    assert right(net(3))
    count = len(built)
    assert count == 4  # the layer, that with tanh, softmax, and what calls them
    assert len(entries(folder)) == count + 2  # and the archive of the first three, and how the graph is cut
    assert right(net(3))
    assert len(built) == count


def test_models_share_what_they_have_in_common(folder: Path, built: list[str]) -> None:
    assert right(net(3))
    built.clear()
    assert right(net(5, seed=1, last="exp"))
    assert [name.partition("_")[0] for name in built] == ["matmul", "main"], "the layer with another tail"


def test_other_weights_are_no_other_kernels_but_are_read(folder: Path, built: list[str]) -> None:
    assert right(net(2, seed=1))
    built.clear()
    assert right(net(2, seed=2))
    assert set(built) <= {"main"}


def test_entries_that_are_damaged_or_gone_are_built_again(folder: Path, built: list[str]) -> None:
    assert right(net(2))
    whole = list(built)
    (archive,) = (path for path in entries(folder) if b'{"kernels"' in path.read_bytes())
    archive.unlink()
    for damage in DAMAGES:
        for path in entries(folder):
            content = damage(path.read_bytes())
            path.unlink()
            if content:
                path.write_bytes(content)
                path.chmod(0o600)
            built.clear()
            assert right(net(2))
            assert len(built) == 1, "only what was damaged"
            assert built[0] in whole
            archive.unlink()
    assert len(entries(folder)) == len(whole)


def test_an_archive_serves_alone_and_is_written_again(
    folder: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert right(net(2))
    paths = {b'{"kernels"' in path.read_bytes(): path for path in entries(folder)}
    for path in entries(folder):
        if path != paths[True]:
            path.unlink()
    built.clear()
    with monkeypatch.context() as patch:
        patch.setattr("tilewright.graph.variants.declared_kernel", pytest.fail)  # nothing is declared
        assert right(net(2, seed=3))
    assert built == ["main"]
    for damage in DAMAGES:
        content = damage(paths[True].read_bytes())
        paths[True].unlink()
        if content:
            paths[True].write_bytes(content)
            paths[True].chmod(0o600)
        assert right(net(2)) and paths[True].exists()
    built.clear()
    tw.build(net(2), exact=True)
    assert len(built) == 3, "options are part of its key"


def test_operators_of_others_are_known_by_what_they_declare(
    folder: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.graph.operators import OPERATORS

    assert right(net(2))
    row = OPERATORS["relu"]
    other: Any = replace(row, declare=lambda x: topi.nn.relu(x) * 2)
    monkeypatch.setitem(OPERATORS, "relu", other)
    assert not right(net(2))


def test_options_are_part_of_what_is_kept(folder: Path, built: list[str]) -> None:
    assert right(net(2))
    built.clear()
    tw.build(net(2), fast_math=True)
    assert len(built) == 4


def test_what_fails_in_llvm_comes_back_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise tw.TilewrightError("LLVM is out of order")

    monkeypatch.setattr(linking, "_finish", failing)
    with pytest.raises(tw.TilewrightError, match="out of order"):
        tw.build(net(2))
