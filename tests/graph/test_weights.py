"""What kernels read of parameters: packed once, and not in each call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright.codegen.export.weights import HEADER_BYTES
from tilewright.graph import Builder
from tilewright.graph.node import Computed, computed_param
from tilewright.graph.program import Program

ANY_MACHINE = "llvm -mcpu=haswell"
"""Which tiles are chosen, and so which sizes pack alike, is another thing on each machine but not for a named one."""


def layers(rows: int | str = 33, shared: bool = False) -> tw.graph.Graph:
    """Three equal layers, relu(x w) of 65 columns, which are no whole panels; the last two of one weight if `shared`."""
    random = np.random.default_rng(7)
    b = Builder("layers")
    x = b.input("x", (rows, 65))
    weights = [b.param(f"w{at}", (random.standard_normal((65, 65)) / 8).astype("float32")) for at in range(3)]
    for at in range(3):
        x = b.node("relu", b.node("matmul", x, weights[min(at, 1) if shared else at]))
    b.output("y", x)
    return b.graph()


def program(m: tw.graph.Model) -> Program:
    return next(reversed(m._programs.values()))


def numbers(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).standard_normal((rows, 65)).astype("float32")


def test_equal_layers_share_a_kernel_and_have_packed_weights_of_their_own() -> None:
    g = layers()
    m = tw.build(g)
    assert list(m.kernels.values()) == [3]
    assert m.verify(numbers(33))
    held = program(m).weights.held
    assert len(held) == 3
    for name, packed in zip(g.params, held.values(), strict=True):
        assert packed.data.ndim == 3, "panels of columns, each as deep as the sum"
        assert packed.data.size >= 65 * 65
        assert not np.shares_memory(packed.data, g.params[name])
        assert np.isin(g.params[name], packed.data).all()


def test_weights_that_several_steps_read_are_packed_once() -> None:
    m = tw.build(layers(shared=True))
    assert len(program(m).weights.held) == 2
    assert [len(read) for read in program(m).weights.read] == [1, 1, 1]
    assert m.verify(numbers(33))


def test_sizes_that_pack_alike_share_what_is_packed() -> None:
    m = tw.build(layers("n"), target=ANY_MACHINE)
    held = []
    for rows in (33, 47):
        m(numbers(rows))
        held.append(program(m).weights.held)
    assert held[0].keys() == held[1].keys()
    assert all(held[0][digest] is held[1][digest] for digest in held[0])


def test_an_input_is_no_weight() -> None:
    b = Builder()
    b.output("y", b.node("matmul", b.input("x", (33, 65)), b.input("w", (65, 65))))
    m = tw.build(b.graph())
    assert not program(m).weights.held
    w = np.random.default_rng(1).standard_normal((65, 65)).astype("float32")
    for scale in (1, 2):
        np.testing.assert_allclose(m(numbers(33), w * scale), numbers(33) @ (w * scale), rtol=1e-4, atol=1e-4)


def test_the_file_beside_a_library_holds_what_is_packed_alone(tmp_path: Path) -> None:
    g = layers()
    g.export(tmp_path / "net.so", weights="file", target=ANY_MACHINE)
    panels = -(-65 // 24) * 24 * 65 * 4 + 64  # of the widest tiles that there are
    assert (tmp_path / "net.weights").stat().st_size <= HEADER_BYTES + 3 * max(panels, 65 * 96 * 4)


def test_a_library_for_another_machine_holds_weights_packed_for_that(tmp_path: Path) -> None:
    files = layers().export(
        tmp_path / "net.o", weights="file", target="llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72"
    )
    content = np.frombuffer(files[-1].read_bytes()[HEADER_BYTES:], "float32")
    assert np.isin(layers().params["w2"], content).all()


def test_what_is_packed_of_a_kernels_own_constants_is_theirs() -> None:
    """Transforms forth and back are one program but for their constants."""
    b = Builder()
    x = b.input("x", (1, 66, 2))
    b.output("y", b.node("dft", b.node("dft", x, axis=1), axis=1, inverse=True))
    given = np.random.default_rng(0).standard_normal((1, 66, 2)).astype("float32")
    np.testing.assert_allclose(tw.build(b.graph())(given), given, atol=1e-5)


def test_scaled_and_laid_weights_are_computed_when_they_are_read() -> None:
    random = np.random.default_rng(3)
    b = Builder("normed")
    x = b.input("x", (1, 16, 9, 9))
    for at in range(2):
        weight = b.param(f"w{at}", (random.standard_normal((32, 16 * (at + 1), 3, 3)) / 8).astype("float32"))
        norm = [b.param(f"n{at}{part}", random.random(32).astype("float32") + 0.5) for part in range(4)]
        x = b.node("batch_norm", b.node("conv", x, weight), *norm)
    b.output("y", x)
    g = b.graph()
    after = g.transform()
    computed = [param for param in after.constants.values() if isinstance(param.numbers, Computed)]
    assert len(computed) == 2
    assert tw.build(g).verify(random.standard_normal((1, 16, 9, 9)).astype("float32"))
    assert not any("array" in vars(param.numbers) for param in computed), "nobody has read them"
    read_again = tw.graph.parse(str(after), params=after.params)
    assert read_again == after, "a text shows the digest of the contents"
    assert not any(isinstance(param.numbers, Computed) for param in read_again.constants.values())
    other = computed_param(computed[0].type, computed[0].numbers.function, *computed[1].numbers.params)
    assert other.digest != computed[0].digest
