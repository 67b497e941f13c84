"""LLVM IR text of functions that go straight on, but for exits."""

from __future__ import annotations

__all__ = ["StraightLine"]


class StraightLine:
    """Straight-line code with exits: every `leave_if` starts a new block."""

    def __init__(self) -> None:
        self.lines = ["entry:"]  # line 0 is the label, so that emit_at_entry inserts at 1
        self.block = "entry"
        self.exits: list[tuple[int, str]] = []
        self._count = 0

    def add(self, line: str) -> None:
        self.lines.append("  " + line)

    def value(self, text: str) -> str:
        self._count += 1
        self.add(f"%v{self._count} = {text}")
        return f"%v{self._count}"

    def emit_at_entry(self, text: str) -> str:
        """A value that is made before all others."""
        self._count += 1
        self.lines.insert(1, f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def label(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def start(self, block: str) -> None:
        self.lines.append(f"{block}:")
        self.block = block

    def leave_if(self, condition: str, target: str, status: int = 0) -> None:
        """Go to `target` (with `status`, for its phi) where the condition holds."""
        self.exits.append((status, self.block))  # the exit's phi asks from which block each status came
        following = self.label("b")  # code after a branch needs a block of its own
        self.add(f"br i1 {condition}, label %{target}, label %{following}")
        self.start(following)

    def load(self, kind: str, base: str, offset: int) -> str:
        if offset:  # an offset of 0 needs no getelementptr
            base = self.value(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.value(f"load {kind}, ptr {base}")

    def store(self, kind: str, value: str, base: str, offset: int) -> None:
        if offset:
            base = self.value(f"getelementptr i8, ptr {base}, i64 {offset}")
        self.add(f"store {kind} {value}, ptr {base}")

    def both(self, a: str, b: str) -> str:
        return self.value(f"and i1 {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.value(f"or i1 {a}, {b}")

    def compare(self, how: str, kind: str, a: str, b: object) -> str:
        return self.value(f"icmp {how} {kind} {a}, {b}")
