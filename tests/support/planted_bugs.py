"""Bugs to plant, one at a time, in a process of their own: does the fuzzer find them?

Each is a change of the text of one module, made when the module is imported; nothing in the product knows of it.

    python tests/support/planted_bugs.py NAME SEED [SECONDS]    # a worker of the fuzzer with the bug, which shrinks for so long
    python tests/support/planted_bugs.py --run NAME FILE.py     # a program with the bug
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Bug:
    """name: what is wrong. path: the module. before, after: its text, which stands there once, and what replaces it."""

    name: str
    path: str
    before: str
    after: str
    target: str = "llvm"


BUGS = (
    Bug(
        "dropped guard",
        "schedule/lowering/predicates.py",
        "if axis in inexact and axis not in overshot and axis in offsets",
        "if False and axis in offsets",
    ),
    Bug(
        "guard one too far",
        "schedule/lowering/predicates.py",
        "skipped:\n            _unless_proved(offsets[axis] < bounds.ranges",
        "skipped:\n            _unless_proved(offsets[axis] <= bounds.ranges",
    ),
    Bug("region one short", "schedule/lowering/bounds.py", "axis.dtype) - low + 1)", "axis.dtype) - low)"),
    Bug(
        "union keeps the first begin",
        "ir/analysis/regions.py",
        "low = (\n                span.low\n                if distances.is_at_most(span.low, result.low)",
        "low = (\n                result.low\n                if True",
    ),
    Bug(
        "a clamp by a choice ends one off",
        "ir/analysis/choices.py",
        "return self.by + apart.const if apart.const else self.by",
        "return self.by",
    ),
    Bug(
        "a mirrored window is not moved inside",
        "ir/analysis/regions.py",
        "maximum(minimum(low, extent - width), 0)",
        "maximum(low, 0)",
    ),
    Bug(
        "wrong fuse order",
        "schedule/model/relations.py",
        "floordiv(fused, inner.extent), floormod(fused, inner.extent)",
        "floormod(fused, inner.extent), floordiv(fused, inner.extent)",
    ),
    Bug(
        "lost init",
        "schedule/lowering/reduction.py",
        "body = seq(_init(nest, reduction, data, nest.buffers), _update(",
        "body = seq(seq(), _update(",
    ),
    Bug(
        "where= is forgotten",
        "schedule/lowering/reduction.py",
        "return body if is_const(condition, 1) else If(condition, body)",
        "return body",
    ),
    Bug("rfactor without its predicate", "schedule/primitives/rfactor.py", "    if conditions:\n", "    if False:\n"),
    Bug(
        "inlined at swapped indices",
        "schedule/lowering/dataflow.py",
        "substitute_axes(inlined[key[0]], op.axis, node.indices)",
        "substitute_axes(inlined[key[0]], op.axis, tuple(reversed(node.indices)))",
    ),
    Bug("wrong division rule", "ir/arith/rules/div.py", "x // (c0 * c1), when=", "x // (c0 + c1), when="),
    Bug(
        "remainder rule without its condition",
        "ir/arith/rules/mod.py",
        "c1 != 0 and c0 % c1 == 0 and c0 != 0",
        "c1 != 0 and c0 != 0",
    ),
    Bug(
        "loops are cut one too far",
        "ir/passes/common/loop_partition.py",
        "const(high, var.dtype), tuple(guards))",
        "const(min(high + 1, end), var.dtype), tuple(guards))",
    ),
    Bug(
        "unrolling drops the last copy",
        "ir/passes/common/unroll.py",
        "for step in range(extent)",
        "for step in range(max(extent - 1, 1))",
    ),
    Bug(
        "operands in any order are one value",
        "ir/passes/common/numbering.py",
        "(own_key(node), operands)",
        "(own_key(node), tuple(sorted(operands)))",
    ),
    Bug(
        "partly active vectors are skipped",
        "ir/passes/cpu/lane_conditions.py",
        "0 if signs == {1} else lanes - 1",
        "lanes - 1 if signs == {1} else 0",
    ),
    Bug(
        "storage is used again too early",
        "ir/passes/common/storage.py",
        "a.last < b.first or b.last < a.first",
        "a.first < b.first or b.first < a.first",
    ),
    Bug(
        "padding is loaded eagerly",
        "ir/passes/common/unsafe_select.py",
        "and numbering.number(node) not in done",
        "and False",
    ),
    Bug("widened without the sign", "codegen/llvm/arithmetic.py", '"zext nneg" if not_negative else "sext"', '"zext"'),
    Bug(
        "dropped mask",
        "codegen/llvm/emitter.py",
        "if predicate is not None and self.constant_int(predicate) != 1:",
        "if False:",
    ),
    Bug("false alias fact", "codegen/llvm/outline.py", "'' if written else 'readonly '", "'readonly '"),
    Bug(
        "unsigned compared as signed",
        "codegen/llvm/arithmetic.py",
        'sign = "s" if dtype.kind == "int" else "u"',
        'sign = "s"',
    ),
    Bug(
        "floor division truncates",
        "codegen/llvm/arithmetic.py",
        'quotient = f.op(f"add {kind} {quotient}, {_extend(f, down, dtype)}")',
        "pass",
    ),
    Bug(
        "minimum drops NaN",
        "codegen/llvm/arithmetic.py",
        "return f.op(\n        f\"call {flags}{kind} @llvm.{'minimum' if least else",
        "return select(f, compare(f, '<' if least else '>', a, b, dtype), a, b, dtype)\n"
        "    return f.op(\n        f\"call {flags}{kind} @llvm.{'minimum' if least else",
    ),
    Bug("cast does not saturate", "codegen/llvm/arithmetic.py", "if int(greatest) != target.greatest:", "if False:"),
    Bug(
        "sums round their products",
        "ir/passes/common/fused_sums.py",
        'Call("fma", node.args, node.dtype) if fuses else Add(c, Mul(a, b))',
        "Add(c, Mul(a, b))",
    ),
    Bug(
        "every product is fused",
        "codegen/llvm/build.py",
        "fp_contract=options.fp_contract,",
        "fp_contract=True,",
    ),
    Bug(
        "extrema forget the signs of zeros",
        "codegen/llvm/arithmetic.py",
        "f\"call {flags}{kind} @llvm.{'minimum' if least",
        "f\"call nsz {flags}{kind} @llvm.{'minimum' if least",
    ),
    Bug(
        "a reordered sum is called exact",
        "schedule/model/exactness.py",
        "    if not schedule.losses and not any(map(_disorder, schedule.stages)):",
        "    if True:",
    ),
    Bug(
        "a rolling buffer is not filled first",
        "schedule/primitives/rolling_buffer.py",
        "disjunction(loop.value.equal(0), *new)",
        "disjunction(*new)",
    ),
    Bug(
        "a rotated loop does not go around",
        "schedule/primitives/rotate.py",
        "cast(floormod(moved, cast(within.extent, self.dtype)), self.rotated.dtype)",
        "cast(moved, self.rotated.dtype)",
    ),
    Bug(
        "both halves of a double buffer are one",
        "schedule/lowering/software_pipelining.py",
        "(floormod(var, turns), *indices)",
        "(const(0, var.dtype), *indices)",
    ),
    Bug(
        "a layout's padding is not filled",
        "schedule/primitives/transform_layout.py",
        "    if condition is not None and op.reduction is None:\n",
        "    if False:\n",
    ),
    Bug(
        "virtual threads share what each stores",
        "ir/passes/gpu/vthread.py",
        "        if buffer in self.touched:\n",
        "        if False:\n",
    ),
    Bug(
        "a split's parts are swapped",
        "schedule/model/relations.py",
        "values[self.outer] * ranges[self.inner].extent + values[self.inner]",
        "values[self.inner] * ranges[self.outer].extent + values[self.outer]",
    ),
    Bug(
        "a split's parts are taken for each other",
        "schedule/model/relations.py",
        "return {self.outer: floordiv(value, extent), self.inner: floormod(value, extent)}",
        "return {self.outer: floormod(value, extent), self.inner: floordiv(value, extent)}",
    ),
    Bug(
        "shifts to the right know no sign",
        "codegen/llvm/intrinsics.py",
        '"ashr" if dtype.kind == "int" else "lshr"',
        '"lshr"',
    ),
    Bug(
        "what a loop changes is read before it",
        "ir/passes/common/hoist.py",
        "if isinstance(node, BufferLoad) or isinstance(node, Var) and node in bound:",
        "if isinstance(node, Var) and node in bound:",
    ),
    Bug("dropped barrier", "ir/passes/gpu/barriers.py", "done.append(barrier())", "pass", "cuda"),
)
BY_NAME = {bug.name: bug for bug in BUGS}


def plant(bug: Bug) -> None:
    """Change the source of the module as loaders read it; it must not have been imported yet."""
    read = SourceFileLoader.get_data
    path = str(ROOT / bug.path)

    def get_data(loader: SourceFileLoader, name: str) -> bytes:
        data = read(loader, name)
        if name != path and str(Path(name).resolve()) != path:
            return data
        text = data.decode()
        assert text.count(bug.before) == 1, f"{bug.name}: the text of {bug.path} has changed"
        return text.replace(bug.before, bug.after).encode()

    SourceFileLoader.get_data = get_data  # type: ignore[method-assign]


def worker(bug: Bug, seed: int) -> list[str]:
    """The command of a worker in which the bug is planted."""
    return [sys.executable, "-X", "faulthandler", str(Path(__file__).resolve()), bug.name, str(seed)]


def first_failure(bug: Bug, seed: int, limit: int) -> int | None:
    """How many cases it takes to find the bug; None where `limit` do not."""
    from tilewright.tools.fuzz.workers import run_all

    reports: Iterator[dict[str, Any]] = run_all(worker(bug, seed), range(limit), workers=2)
    for done, report in enumerate(reports):
        if report["failure"]:
            reports.close()  # pyright: ignore[reportAttributeAccessIssue]
            return done + 1
    return None


def _serve(bug: Bug, seed: int, seconds: float) -> None:
    from tilewright.tools.fuzz.case import run_case
    from tilewright.tools.fuzz.workers import serve

    serve(lambda case: run_case(seed, case, bug.target, shrink_seconds=seconds))


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        plant(BY_NAME[sys.argv[2]])
        runpy.run_path(sys.argv[3], run_name="__main__")
    else:
        plant(BY_NAME[sys.argv[1]])
        _serve(BY_NAME[sys.argv[1]], int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.0)
