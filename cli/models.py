"""The commands about models: `tilewright transform`, `tilewright compile`, and how commands read a model.

What they need is imported when they run: other commands start faster so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import user_source
from ..base.untrusted_input import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..graph import Graph, OpenGraph
    from ..graph.errors import UnsupportedModel

    Shapes = Mapping[str, Sequence[int | str]]
    """By an input's name its shape."""

__all__ = ["SUFFIXES", "add_commands", "add_shape", "read_model", "report_model"]

SUFFIXES = (".onnx", ".pt2", ".safetensors", ".txt")
"""How the names of models end."""
_MOST_BYTES = 1 << 28
"""Of a graph's text."""
_MODELS = "model.onnx, model.pt2, graph.safetensors or graph.txt"


def add_commands(commands: Any) -> None:
    """Add the commands to argparse's subparsers."""
    transform = commands.add_parser(
        "transform",
        help="run graph passes over a model",
        description=(
            "Reads a model (.onnx, .pt2 of torch.export, .safetensors of g.save, or a graph's text), runs passes over it, "
            "and prints the graph, or writes it with its parameters. --list shows the passes in order, and which change rounding."
        ),
    )
    transform.add_argument("model", nargs="?", metavar="MODEL", help=_MODELS)
    add_shape(transform)
    _add_state(transform)
    _add_value(transform)
    transform.add_argument(
        "--passes", metavar="NAME,...", help="which, in this order (default: those that tw.build runs)"
    )
    transform.add_argument(
        "--out", "-o", metavar="FILE", help="graph.safetensors, or graph.txt (default: print the text)"
    )
    transform.add_argument(
        "--page", metavar="FILE.html", help="write a page of what each pass changes, in place of the text"
    )
    transform.add_argument("--list", action="store_true", help="list the passes")
    transform.set_defaults(command=_transform, usage_error=transform.error)
    compiled = commands.add_parser(
        "compile",
        help="compile a model to a library for C",
        description=(
            "Reads a model (as transform does) and writes it as a library of one function, with its header beside it."
        ),
    )
    compiled.add_argument("model", metavar="MODEL", help=_MODELS)
    add_shape(compiled)
    _add_state(compiled)
    _add_value(compiled)
    compiled.add_argument("--out", "-o", metavar="FILE", required=True, help="libnet.so, libnet.a or net.o")
    compiled.add_argument(
        "--passes",
        metavar="NAME,...",
        help="passes to run first, as weights_int8 and weights_int4, which no build runs by itself",
    )
    compiled.add_argument("--target", default="llvm", help='target to compile for (default: "llvm", this machine)')
    compiled.add_argument(
        "--weights", choices=("embed", "file"), default="embed", help="in the library, or in net.weights beside it"
    )
    compiled.add_argument(
        "--threads", choices=("openmp", "none", "hook"), default="openmp", help="threading of parallel loops"
    )
    compiled.add_argument(
        "--fast-math", action="store_true", help="floats may be reassociated and divided by reciprocals"
    )
    compiled.add_argument(
        "--bucket",
        action="append",
        metavar="N=SIZE,...",
        type=_bucket,
        help=(
            "sizes of symbols that get code of their own in the library, as n=1 or h=224,w=224; may be given several times"
        ),
    )
    compiled.add_argument(
        "--jobs",
        type=_count,
        default=0,
        metavar="N",
        help="processes that compile kernels at once (default: TILEWRIGHT_JOBS, else one for each CPU)",
    )
    compiled.set_defaults(command=_compile)


def add_shape(parser: Any) -> None:
    """Add the option by which a command fixes, or names, dimensions of a model's inputs."""
    text = "the shape of an input, whose dimensions are numbers, or names where any size is to do"
    _add_repeated(parser, "--shape", "INPUT=1,3,h,w", _shape, text)


def _add_state(parser: Any) -> None:
    text = "an input that a call updates in place, and the output that follows it (.onnx and .pt2)"
    _add_repeated(parser, "--state", "INPUT=OUTPUT", _pair, text)
    parser.add_argument(
        "--find-state", action="store_true", help="update in place the inputs that outputs are updates of"
    )


def _add_value(parser: Any) -> None:
    text = (
        "the value of an input on which shapes depend, or of another, which the function does not take then: a number, or 2,3 for "
        "several"
    )
    _add_repeated(parser, "--value", "INPUT=16000", _value, text)


def _add_repeated(parser: Any, name: str, metavar: str, kind: Callable[[str], object], text: str) -> None:
    text = f"{text}; may be given several times"
    parser.add_argument(name, action="append", metavar=metavar, type=kind, default=[], help=text)


def _value(text: str) -> tuple[str, Any]:
    """An input's name and its value. Raises ValueError."""
    name, said = _pair(text)
    numbers = [_number(one.strip()) for one in said.split(",") if one.strip()]
    return name, numbers[0] if "," not in said else numbers


def _number(text: str) -> bool | int | float:
    """Raise ValueError."""
    if text in ("true", "false"):
        return text == "true"
    return float(text) if any(letter in text.lower() for letter in ".en") else int(text)


def _pair(text: str) -> tuple[str, str]:
    """Two names. Raises ValueError."""
    first, equals, second = text.partition("=")
    if not (first.strip() and equals and second.strip()):
        raise ValueError
    return first.strip(), second.strip()


def _shape(text: str) -> tuple[str, tuple[int | str, ...]]:
    """An input's name and its shape; a scalar's is "()". Raises ValueError."""
    name, said = _pair(text)
    extents = [] if said == "()" else [extent.strip() for extent in said.split(",")]
    if not all(extents):
        raise ValueError
    return name, tuple(int(extent) if extent.isdecimal() else extent for extent in extents)


def _count(text: str) -> int:
    """A number of processes. Raises ValueError."""
    count = int(text)
    if not 0 < count <= 1024:
        raise ValueError
    return count


def _bucket(text: str) -> dict[str, int]:
    """Sizes by the names of symbols. Raises ValueError."""
    return {name.strip(): int(size) for name, _, size in (part.partition("=") for part in text.split(","))}


def _compile(options: argparse.Namespace) -> int:
    from ..driver.helpers import limit_jobs

    g = read_model(options.model, dict(options.shape), options.find_state or dict(options.state), dict(options.value))
    if options.passes:
        g = g.transform(*options.passes.split(","))
    with limit_jobs(options.jobs):
        written = g.export(
            options.out,
            options.weights,
            options.threads,
            options.target,
            fast_math=options.fast_math,
            buckets=options.bucket,
        )
    print("\n".join(f"{path}: {path.stat().st_size} bytes" for path in written))
    return 0


def report_model(path: str, out: str, target: str, shapes: Shapes) -> Path:
    """Write the page about a model with the times of a call on drawn inputs. shapes: as read_model takes them. Raises
    BadGraphInput (TW0906) where sizes are left open."""
    import numpy as np

    from ..driver.build import build
    from ..graph.errors import BadGraphInput
    from ..graph.types import array_dtype

    model = build(read_model(path, shapes), target=target)
    rng = np.random.default_rng(0)
    if not all(kind.is_static for kind in model.inputs.values()):
        some = next(name for name, kind in model.inputs.items() if not kind.is_static)
        raise BadGraphInput(
            f"{path!r} has inputs of any size",
            called=user_source(),
            reason="a page is about one size",
            allowed=", ".join(f"{name}: {kind}" for name, kind in model.inputs.items()),
            fix=f"--shape {some}={','.join(str(extent) for extent in model.inputs[some].shape)}, with numbers",
        )
    arrays = [
        np.asarray(
            rng.standard_normal(tuple(map(int, kind.shape)))
            if "float" in kind.dtype
            else np.zeros(tuple(map(int, kind.shape)))
        ).astype(array_dtype(kind.dtype))
        for kind in model.inputs.values()
    ]
    return model.show(out, *arrays)


def _transform(options: argparse.Namespace) -> int:
    from ..graph import PASSES

    if options.list:
        print("\n".join(f"{name:14} {one}" for name, one in PASSES.items()))
        return 0
    if options.model is None:
        options.usage_error("MODEL is missing")
    if options.out is not None and Path(options.out).suffix not in (".safetensors", ".txt", ""):
        options.usage_error(
            f"{options.out!r} is not a place for a graph: graph.safetensors, with its parameters, or graph.txt"
        )
    g = read_model(
        str(options.model), dict(options.shape), options.find_state or dict(options.state), dict(options.value)
    )
    passes = options.passes.split(",") if options.passes else ()
    if options.page is not None:
        print(g.show(options.page, *passes))
        if options.out is None:
            return 0
    after = g.transform(*passes)
    print(f"{g.name}: {len(g.nodes)} nodes before, {len(after.nodes)} after", file=sys.stderr)
    if options.out is None:
        print(after)
    elif Path(options.out).suffix == ".safetensors":
        after.save(options.out)
    else:
        Path(options.out).write_text(f"{after}\n")
    return 0


def read_model(
    path: str,
    shapes: Shapes,
    state: Mapping[str, str] | bool | None = None,
    values: Mapping[str, Any] | None = None,
) -> Graph:
    """The graph of a model, by the kind of its file. shapes: of inputs, as from_onnx takes them; in other files they give numbers
    to dimensions that are open. state: as from_onnx takes it. values: of inputs, which the graph does not take. Raises what its
    reader raises, UnsupportedModel (TW0912), BadGraphInput (TW0906) for shapes and values that are not the model's, BadGraph
    (TW0901) for state."""
    from ..graph import OpenGraph, from_onnx, from_torch, load, parse
    from ..graph.errors import BadGraphInput

    suffix = Path(path).suffix
    if state and suffix not in (".onnx", ".pt2"):
        raise BadGraphInput(
            f"{path!r} is a graph, which says itself what its state is",
            called=user_source(),
            fix="leave --state and --find-state out, or give them where the model is read",
        )
    if suffix in (".onnx", ".pt2"):
        kept = True if isinstance(state, bool) else state
        g = from_onnx(path, shapes=shapes, state=kept) if suffix == ".onnx" else from_torch(path, state=kept)
    else:
        g = load(path) if suffix == ".safetensors" else parse(_text(path))
    if values:
        g = g.with_values(values)
    if isinstance(g, OpenGraph):
        raise _no_graph(path, g)
    return g if suffix == ".onnx" else g.with_shapes(shapes)


def _text(path: str) -> str:
    """The text of a graph. Raises BadGraphText (TW0904) for a path that is none of a file of text."""
    from ..graph.errors import BadGraphText

    try:
        return read_regular(path, _MOST_BYTES).decode()
    except (OSError, ValueError) as problem:
        raise BadGraphText(
            f"{path!r} cannot be read",
            reason=str(problem),
            called=user_source(),
            fix="a file that holds a graph's text",
        ) from None


def _no_graph(path: str, g: OpenGraph) -> UnsupportedModel:
    """Return what to give for a model to be a graph: values of inputs that shapes depend on, or numbers in place of open extents, which it
    may look at."""
    from ..graph.errors import UnsupportedModel

    if g.late:
        reason = f"shapes depend on the values of its inputs {', '.join(g.late)}"
        fixes = [f"--value {name}=...  ({g.inputs[name]})" for name in g.late]
    else:
        reason = "shapes depend on values that it computes"
        fixes = [
            f"--shape {name}={','.join(map(str, kind.shape))}" for name, kind in g.inputs.items() if not kind.is_static
        ]
        reason += ", of the extents of its inputs or of its data" if fixes else ""
        fixes = [f"{' '.join(fixes)}  (with numbers)"] if fixes else []
    reads = "from_onnx" if Path(path).suffix == ".onnx" else "from_torch"
    return UnsupportedModel(
        f"{path!r} is not a graph before it is called",
        called=user_source(),
        reason=reason,
        fix=" ".join(fixes) or f"in Python: tw.graph.{reads}(path).closed(*arrays)",
    )
