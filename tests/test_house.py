"""The house keeps its floors, and its tests keep their manners."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_BELOW_DRIVER = {"base", "ir", "te", "schedule", "topi", "autoschedule", "codegen", "runtime", "autotune"}
ALLOWED = {
    "base": set(),
    "importing": {"base"},
    "ir": {"base"},
    "runtime": {"base"},
    "te": {"base", "ir"},
    "schedule": {"base", "ir", "te"},
    "codegen": {"base", "ir", "te", "runtime"},
    "topi": {"base", "ir", "te", "codegen.target", "codegen.machine"},
    "autoschedule": {"base", "ir", "te", "schedule", "topi", "codegen.target", "codegen.gpus", "codegen.machine"},
    "autotune": {"base", "ir", "te", "schedule", "topi", "autoschedule", "codegen", "runtime"},
    "driver": _BELOW_DRIVER,
    "graph": {"base", "ir", "te", "topi", "schedule", "autoschedule", "autotune", "codegen", "runtime", "driver"},
    "views": {"base", "ir", "te", "schedule", "autoschedule", "codegen", "runtime", "driver"},
}
"""Which of our floors, or modules of them, each floor may import; all may import COMMON. TOP and the package's own face stand
on top of all. CONTRIBUTING.md shows this table to people."""

COMMON = ("base", "importing")

TOP = ("compat", "demo", "cli", "tools")

INSIDE_IR = {
    "nodes": set(),
    "arith": {"nodes"},
    "analysis": {"nodes", "arith"},
    "passes": {"nodes", "arith", "analysis"},
}
INSIDE_SCHEDULE = {
    "errors": set(),
    "model": {"errors"},
    "primitives": {"errors", "model", "lowering"},
    "lowering": {"errors", "model", "tensorize"},
    "tensorize": {"model", "lowering"},
}
"""The rooms of ir/ and of schedule/, likewise."""

LARGEST_CIRCLE = 5
"""Files that import each other, TYPE_CHECKING counted. It only falls; 6 is the most that was ever meant to be."""


@dataclass(frozen=True)
class Import:
    """module: what is imported, as a dotted name below the package, '' for its face. late: not when the file is imported."""

    module: str
    late: bool


@cache
def modules() -> dict[str, Path]:
    """Every file of the package by its dotted name."""
    files = [
        *ROOT.glob("*.py"),
        *(path for folder in (*ALLOWED, *TOP) for path in sorted((ROOT / folder).rglob("*.py"))),
    ]
    return {name_of(path): path for path in files}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports_of(path: Path) -> frozenset[Import]:
    """What a file imports of ours: by statements wherever they stand, and by import_module, whose names may stand in a table."""
    return frozenset(one for one in _looked_at(path)[0] if one.module != name_of(path))


@cache
def _looked_at(path: Path) -> tuple[list[Import], list[int]]:
    """A file's imports from the package, and the lines of those that are absolute. The tree is not kept: a thousand of them would
    have the collector of garbage look through a million nodes in every test that follows."""
    package = path.relative_to(ROOT).parts[:-1]
    imports: list[Import] = []
    absolute: list[int] = []
    nodes: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while nodes:
        node, late = nodes.pop()
        if isinstance(node, ast.Import):
            absolute += [node.lineno for alias in node.names if floor_of(alias.name) == "tilewright"]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            absolute += [node.lineno] * (floor_of(node.module or "") == "tilewright")
        elif isinstance(node, ast.ImportFrom):
            base = (*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else ()))
            imports += [Import(_module((*base, alias.name)), late) for alias in node.names]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _IMPORTERS:
            name = node.args[0]
            if isinstance(name, ast.Constant) and str(name.value).startswith("."):
                below = str(name.value).lstrip(".")
                above = len(str(name.value)) - len(below) - 1
                imports.append(Import(_module((*package[: len(package) - above], *below.split("."))), True))
        late = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        nodes += [(child, late) for child in ast.iter_child_nodes(node)]
    return imports, absolute


_IMPORTERS = ("import_module", "import_on_thread", "_room")


def _module(parts: tuple[str, ...]) -> str:
    """The module that holds a name."""
    return next((name for end in range(len(parts), 0, -1) if (name := ".".join(parts[:end])) in modules()), "")


def floor_of(module: str) -> str:
    return module.partition(".")[0]


def allowed(own: str, module: str) -> bool:
    """Whether a floor may import a module: its own, COMMON, and those of ALLOWED with all that is below them."""
    return floor_of(module) in (own, *COMMON) or any(f"{module}.".startswith(f"{one}.") for one in ALLOWED[own])


LAZY_API = {
    ("te/__init__.py", "schedule"),
    ("graph/model.py", "views.model_page"),
    ("graph/graph.py", "views.model_page"),
} | {
    ("schedule/model/lazy_api.py", module)
    for module in (
        "schedule.lowering.normalize",
        "schedule.lowering.text",
        "schedule.model.exactness",
        "schedule.model.python_code",
        "schedule.model.replay",
        "autoschedule.lowered_nests",
        "views.explain",
        "views.options",
        "views.report",
        "views.verify",
    )
}
"""Names of an upper floor in the face of a lower one, where a user looks for them: te.create_schedule, print(s), s.show(). They
are loaded when they are asked for, and make no circle. What a face imports by a table is below it."""

LATE = {
    "__init__.py": "te.errors te.unknown_names",
    "autoschedule/registry.py": "autoschedule.plan",
    "autoschedule/scheduler.py": "autoschedule.cpu.rules autoschedule.cpu.siblings autoschedule.gpu.rules",
    "autotune/report.py": "schedule",
    "autotune/worker.py": "autotune.gpu_ranking",
    "cli/export.py": "autotune.records codegen.export.errors driver.build driver.library ir",
    "cli/command.py": "cli.calibration cli.doctor cli.explain codegen.target demo driver.cache.store "
    "driver.lower ir.passes.common.runner schedule views.report",
    "cli/development.py": "tools.benchmarks.harness tools.fuzz.cli tools.fuzz.reduce_command",
    "cli/passes.py": "codegen.c.pipeline codegen.llvm.pipeline codegen.target ir.passes.common.options "
    "ir.passes.common.runner ir.text.parser ir.text.printer",
    "cli/doctor.py": "codegen.calibration codegen.host codegen.target driver.cache.store runtime.threads",
    "cli/database.py": "autotune.record_lookup autotune.json_lines autotune.progress autotune.records autotune.report autotune.task "
    "autotune.templates compat.tvm.logs cli.tuning schedule schedule.model.positional_code",
    "cli/models.py": "driver.build driver.helpers graph graph.errors graph.types",
    "cli/tuning.py": "autotune.progress autotune.task autotune.templates autotune.tuner",
    "codegen/export/exporter.py": "codegen.export.library",
    "compat/tvm/autotvm/task/__init__.py": "compat.tvm.autotvm.history",
    "compat/tvm/topi/__init__.py": "compat.tvm.topi.utils",
    "compat/tvm/topi/schedules.py": "compat.tvm.topi compat.tvm.topi.nn",
    "demo/__init__.py": "autotune",
    "driver/frameworks/origin.py": "driver.frameworks.jax_call driver.frameworks.torch_op",
    "driver/jit.py": "topi",
    "driver/schedule.py": "autoschedule.scheduler autotune.record_lookup",
    "base/errors.py": "base.tracebacks base.untrusted_input",
    "graph/model.py": "views.model_page",
    "graph/graph.py": "views.model_page",
    "importing.py": "base.errors",
    "ir/passes/common/runner.py": "ir.errors ir.verify",
    "runtime/device.py": "runtime.cuda_driver",
    "schedule/model/lazy_api.py": "autoschedule.lowered_nests schedule.lowering.normalize schedule.lowering.text schedule.model.exactness "
    "schedule.model.python_code schedule.model.replay views.explain views.options views.report views.verify",
    "schedule/model/replay.py": "te.intrinsics",
    "schedule/primitives/fast_fourier.py": "te.fourier",
    "schedule/primitives/tensorize.py": "te.intrinsics",
    "te/__init__.py": "schedule te.autodiff",
    "te/hybrid/expressions.py": "te.math",
    "tools/benchmarks/page.py": "tools.benchmarks.harness tools.benchmarks.measure",
    "tools/benchmarks/resnet18.py": "tools.benchmarks.harness",
    "tools/benchmarks/resnet18_cases.py": "tools.benchmarks.resnet18",
    "tools/fuzz/cli.py": "tools.fuzz.aim tools.fuzz.modes tools.fuzz.tally tools.fuzz.workers",
    "tools/fuzz/modes.py": "tools.fuzz.case tools.fuzz.kernels tools.fuzz.operators tools.fuzz.reproduction tools.fuzz.selections",
    "topi/lazy.py": "topi.signatures",
    "topi/nn/conv2d.py": "topi.nn.winograd",
    "topi/nn/dilation.py": "topi.image.resize",
}
"""Imports that wait until they are needed, so that starting is quick: the whole list."""


def test_modules_import_lower_floors_only() -> None:
    assert [
        f"{file}: {own} may not import {one.module}"
        for name, path in modules().items()
        if (own := floor_of(name)) in ALLOWED
        for one in imports_of(path)
        if not allowed(own, one.module) and ((file := path.relative_to(ROOT).as_posix()), one.module) not in LAZY_API
    ] == []


def test_every_door_is_there_and_opens_late() -> None:
    late = {
        (path.relative_to(ROOT).as_posix(), one.module)
        for path in modules().values()
        for one in imports_of(path)
        if one.late
    }
    assert late >= LAZY_API


def test_imports_inside_the_package_are_relative() -> None:
    absolute = [
        f"{path.relative_to(ROOT)}:{line}"
        for name, path in modules().items()
        if floor_of(name) in ALLOWED
        for line in _looked_at(path)[1]
    ]
    assert absolute == []


def test_numpys_type_of_arrays_is_nobodys_base() -> None:
    """From numpy 2.5 on, which needs Python 3.12, NDArray is a type alias, and no class."""
    derived = [
        name for name, path in modules().items() if re.search(r"^ *class .*\(.*\bNDArray\[", path.read_text(), re.M)
    ]
    assert derived == []


def test_dataclasses_are_those_of_base() -> None:
    """Python's own cost the first kernel of a process a fifth of a second."""
    assert [
        name
        for name, path in modules().items()
        if floor_of(name) != "tools" and re.search(r"^from dataclasses import .*\bdataclass\b", path.read_text(), re.M)
    ] == []


def test_imports_inside_functions_are_the_ones_that_are_listed() -> None:
    late = {
        path.relative_to(ROOT).as_posix(): {one.module for one in imports_of(path) if one.late}
        for path in modules().values()
    }
    assert {file: found for file, found in late.items() if found} == {
        file: set(names.split()) for file, names in LATE.items()
    }


def test_few_files_import_each_other() -> None:
    largest = max(circles(), key=len)
    assert len(largest) <= LARGEST_CIRCLE <= 6, f"these import each other: {', '.join(sorted(largest))}"
    assert len(largest) == LARGEST_CIRCLE, f"lower LARGEST_CIRCLE to {len(largest)}"


def circles() -> list[set[str]]:
    """The strongly connected components of the files' imports, by Tarjan's algorithm."""
    graph = {
        name: {
            one.module for one in imports_of(path) if (path.relative_to(ROOT).as_posix(), one.module) not in LAZY_API
        }
        for name, path in modules().items()
    }
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == order[name]:
            at = stack.index(name)
            found.append(set(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in order:
            visit(name)
    return found


def test_contributing_shows_the_layers() -> None:
    house = (ROOT / "CONTRIBUTING.md").read_text().partition("## Layers")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|[^|]*\| ([^|]+) \|$", house, re.MULTILINE)
    shown = {
        floor.removesuffix("/").removesuffix(".py"): set(imports.split(", ")) - {"nothing"}
        for floors, imports in rows
        for floor in re.findall(r"`([^`]+)`", floors)
    }
    assert shown == ALLOWED | {floor: {"everything"} for floor in TOP}


def test_ir_builds_upwards_from_nodes_to_arith_to_analysis_to_passes() -> None:
    def level(parts: list[str]) -> str:
        return parts[1] if len(parts) > 1 and parts[1] in INSIDE_IR else "nodes"

    assert [
        f"{name}: ir's {own} may not import {one.module}"
        for name, path in modules().items()
        if floor_of(name) == "ir" and (own := level(name.split(".")))
        for one in imports_of(path)
        if floor_of(one.module) == "ir" and level(one.module.split(".")) not in INSIDE_IR[own] | {own}
    ] == []


def test_lowering_stands_on_the_model_and_knows_no_primitive() -> None:
    assert [
        f"{name}: schedule's {own} may not import {one.module}"
        for name, path in modules().items()
        if name.startswith("schedule.") and (own := name.split(".")[1])
        for one in imports_of(path)
        if one.module.startswith("schedule.") and (path.relative_to(ROOT).as_posix(), one.module) not in LAZY_API
        if one.module.split(".")[1] not in INSIDE_SCHEDULE[own] | {own}
    ] == []


def test_every_expected_failure_in_the_tests_says_which_message_it_expects() -> None:
    careless = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "tests").rglob("*.py")
        if "pytest.raises" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr, getattr(node.func.value, "id", "")) == ("raises", "pytest")
        and "match" not in {keyword.arg for keyword in node.keywords}
    ]
    assert careless == []


def test_every_slow_test_is_there() -> None:
    named = [line.partition("::") for line in (ROOT / "tests/slow.txt").read_text().split()]
    there = {
        file: re.findall(r"^def (\w+)", (ROOT / "tests" / file).read_text(), re.MULTILINE)
        if (ROOT / "tests" / file).exists()
        else []
        for file in {file for file, _, _ in named}
    }
    gone = [f"{file}::{name}" for file, _, name in named if name not in there[file]]
    assert gone == [], "moved or renamed: say in tests/slow.txt where they are now"
