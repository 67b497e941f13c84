"""Hybrid scripts and schedules of them, drawn: nests of loops that read and write a few buffers in many ways."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te

__all__ = ["DrawnScript", "draw_schedule", "script_of", "tensors"]

SHAPES = {"c": ("n", "m"), "d": ("n",), "e": ("m",), "a": ("n", "m"), "w": ("n",), "own": ("n", "m")}


class DrawnScript:
    """The text of a script over a: (n, m) and w: (n,), which holds places of rows, both int32."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.lines: list[str] = [
            "def script(a, w):",
            "    n, m = a.shape[0], a.shape[1]",
            '    c = output_tensor((n, m), "int32")',
            '    d = output_tensor((n,), "int32")',
            '    e = output_tensor((m,), "int32")',
            '    own = allocate((n, m), "int32")',
        ]
        self.loops: list[tuple[str, str]] = []
        self.from_one: set[str] = set()
        self.count = 0
        for _ in range(rng.integers(1, 4)):
            self.nest(1, rng.integers(1, 4))
        self.lines.append("    return c, d, e")

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def put(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def nest(self, depth: int, more: int) -> None:
        """A loop, with what is in it."""
        name, self.count = f"{'ijkl'[min(depth, 4) - 1]}{self.count}", self.count + 1
        extent = self.pick("n", "m", "n", "m", "3")
        around = [loop for loop, over in self.loops if over == extent]
        bounds = extent
        if around and self.rng.random() < 0.2:
            bounds = self.pick(f"{around[-1]}", f"{around[-1]}, {extent}", f"{around[-1]} + 1, {extent}")
        elif self.rng.random() < 0.35:
            bounds = self.pick(f"1, {extent}", f"1, {extent}", f"0, {extent}, 2", f"{extent} - 1, -1, -1")
            if bounds.startswith("1"):
                self.from_one.add(name)
        self.put(depth, f"for {name} in range({bounds}):")
        self.loops.append((name, extent))
        if more > 1 and self.rng.random() < 0.75:
            if self.rng.random() < 0.25:
                self.statement(depth + 1)
            self.nest(depth + 1, more - 1)
            if self.rng.random() < 0.25:
                self.statement(depth + 1)
        else:
            scalar = self.rng.random() < 0.3
            if scalar:
                self.put(depth + 1, f"x{self.count} = {self.value()}")
                self.put(depth + 1, f"x{self.count} += {self.value()}")
            for _ in range(self.rng.integers(1, 3)):
                self.statement(depth + 1, f" + x{self.count}" if scalar else "")
        self.loops.pop()

    def statement(self, depth: int, also: str = "") -> None:
        if self.rng.random() < 0.3:
            self.put(depth, f"if {self.value()} % 3 {self.pick('>', '==', '<')} 1:")
            depth += 1
        target = self.pick("c", "c", "d", "e", "own")
        kind = self.pick("=", "+=", "=")
        place = self.element(target)
        first = self.value() if self.rng.random() < 0.5 else self.element(target)
        value = f"{first} {self.pick('+', '-', '*')} {self.value()}{also}"
        self.put(depth, f"{place} = ({place} + {value}) % 97" if kind == "+=" else f"{place} = ({value}) % 97")

    def element(self, name: str) -> str:
        return f"{name}[{', '.join(self.index(extent) for extent in SHAPES[name])}]"

    def index(self, extent: str) -> str:
        """An index within [0, extent) wherever there is one."""
        loops = [loop for loop, over in self.loops if over == extent]
        if loops and self.rng.random() < 0.8:
            loop = loops[-1] if self.rng.random() < 0.7 else loops[self.rng.integers(len(loops))]
            if loop in self.from_one:
                return self.pick(loop, f"{loop} - 1")
            odd = (f"{extent} - 1 - {loop}", f"max({loop} - 1, 0)", f"({loop} + 1) % {extent}")
            return self.pick(*[loop] * 5, *odd)
        any_loop = self.loops[self.rng.integers(len(self.loops))][0]
        rows = [loop for loop, over in self.loops if over == "n"]
        if extent == "n" and rows and self.rng.random() < 0.5:
            return f"w[{rows[0]}]"
        return self.pick("0", f"({any_loop} * 2 + 1) % {extent}", f"{any_loop} % {extent}")

    def value(self) -> str:
        loop = self.loops[self.rng.integers(len(self.loops))][0]
        return self.pick(self.element("a"), self.element("a"), self.element(self.pick("c", "d", "e", "own")), loop, "5")


def script_of(text: str, name: str) -> Any:
    """The script that a text defines as `script`, whose lines errors can show."""
    place = f"<drawn {name}>"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    scope: dict[str, Any] = {}
    exec(compile(text, place, "exec"), scope)
    return te.hybrid.script(scope["script"])


def draw_schedule(rng: np.random.Generator, s: Any, tensor: Any) -> list[str]:
    """Primitives on the loops of the script; those that are refused must change nothing. What was done and refused."""
    done: list[str] = []
    stage = s[tensor]
    for _ in range(rng.integers(2, 8)):
        leaves = list(stage.leaf_iter_vars)
        axis = leaves[rng.integers(len(leaves))]
        at = leaves.index(axis)
        kind = rng.choice(["split", "fuse", "reorder", "parallel", "vectorize", "unroll"])
        before = (stage.save_state()[:8], s.records)
        try:
            if kind == "split":
                stage.split(axis, int(rng.integers(1, 6)))
            elif kind == "fuse" and at + 1 < len(leaves):
                stage.fuse(axis, leaves[at + 1])
            elif kind == "reorder":
                stage.reorder(*(leaves[place] for place in rng.permutation(len(leaves))[: rng.integers(2, 4)]))
            elif kind in ("vectorize", "unroll"):  # of a length that is known
                _, inner = stage.split(axis, int(rng.integers(2, 9)))
                getattr(stage, kind)(inner)
            elif kind == "parallel":
                stage.parallel(axis)
            done.append(f"{kind} {axis.name}")
        except tw.ScheduleError as error:
            done.append(f"{kind} {axis.name}: {error.code}")
            if kind not in ("vectorize", "unroll"):
                assert (stage.save_state()[:8], s.records) == before
    return done


def tensors(n: Any, m: Any) -> list[Any]:
    """The arguments of a drawn script."""
    return [te.placeholder((n, m), "int32", name="a"), te.placeholder((n,), "int32", name="w")]
