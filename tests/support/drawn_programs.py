"""Hybrid scripts of floats, drawn: nested loops, choices by data, scalars and memory that are overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from drawn_scripts import script_of

__all__ = ["drawn_program"]

_HEAD = """def script(x, w, k):
    n, m = x.shape[0], w.shape[0]
    y = output_tensor((n, m), "float64")
    z = output_tensor((n,), "float64")
    own = allocate((m,), "float64")
"""


class _Text:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.lines = rng, list[str]()
        self.rows, self.columns = list[str](), list[str]()
        """The variables of loops over n and over m."""
        self.scalars = list[str]()
        self.count = 0

    def pick(self, *choices: str) -> str:
        return choices[self.rng.integers(len(choices))]

    def put(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def row(self) -> str:
        return self.pick(*self.rows, "n - 1") if self.rows else self.pick("0", "n - 1")

    def column(self) -> str:
        return self.pick(*self.columns) if self.columns else self.pick("0", "m - 1")

    def place(self) -> str:
        elements = (f"y[{self.row()}, {self.column()}]", f"z[{self.row()}]", f"own[{self.column()}]")
        return self.pick(*elements, *self.scalars, *self.scalars)

    def value(self, depth: int = 2) -> str:
        if not depth or self.rng.random() < 0.25:
            return self.pick(f"x[{self.row()}]", f"w[{self.column()}]", self.place(), self.place(), "0.5", "1.25")
        a, b = self.value(depth - 1), self.value(depth - 1)
        return self.pick(
            f"({a} + {b})",
            f"({a} - {b})",
            f"{a} * {b}",
            f"tanh({a})",
            f"sin({a})",
            f"exp(-({a} * {a}))",
            f"max({a}, {b})",
            f"{a} / ({b} * {b} + 1.0)",
        )

    def block(self, depth: int, more: int) -> None:
        """Statements; more: how deep loops and choices may nest in it."""
        for _ in range(self.rng.integers(1, 4)):
            kind = self.rng.random()
            if more and kind < 0.4:
                self.loop(depth, more)
            elif more and kind < 0.6:
                self.put(depth, f"if {self.value(1)} {self.pick('<', '>')} {self.pick('0.3', '-0.2', '0.7')}:")
                self.block(depth + 1, more - 1)
                if self.rng.random() < 0.5:
                    self.put(depth, "else:")
                    self.block(depth + 1, more - 1)
            else:
                self.put(depth, f"{self.place()} = tanh({self.value()}) * 1.5")

    def loop(self, depth: int, more: int) -> None:
        name, self.count = f"i{self.count}", self.count + 1
        kind = self.pick("n", "m", "m", "2", f"k[{self.row()}]", *(f"{row} + 1" for row in self.rows))
        self.put(depth, f"for {name} in range({kind}):")
        variables = self.rows if kind == "n" else self.columns if kind == "m" else []
        variables.append(name)
        scalar = self.rng.random() < 0.4
        if scalar:
            own = f"s{self.count}"
            self.put(depth + 1, f"{own} = {self.value()}")
            self.scalars.append(own)
            self.put(depth + 1, f"{own} = {self.value()}")
        self.block(depth + 1, more - 1)
        if scalar:
            self.put(depth + 1, f"{self.pick(f'y[{self.row()}, {self.column()}]', f'z[{self.row()}]')} = {own} * 0.7")
            self.scalars.pop()
        variables.pop()


def drawn_program(seed: int) -> tuple[str, Callable[..., Any]]:
    """The text of a script of x (n,), w (m,) and k (n,), counts of iterations, that gives y (n, m) and z (n,), and the script."""
    draw = _Text(np.random.default_rng(seed))
    for _ in range(2):
        draw.loop(1, 3)
    text = _HEAD + "\n".join(draw.lines) + "\n    return y, z\n"
    return text, script_of(text, f"program {seed}")
