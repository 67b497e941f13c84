"""A graph that was built: called on arrays, timed, compared with the reference."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ..base.errors import user_source
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..ir.constant import Constant, aligned_empty
from ..runtime.known_calls import KnownCall, KnownCalls
from ..runtime.tables import html_table
from ..runtime.timing import TimingResult
from .comparison import Comparison, first_difference
from .errors import BadGraphInput, TargetTakesNoGraph
from .export import WeightsIn, export_graph
from .node import Parts
from .printer import graph_text
from .profile import Profile, measure_profile
from .program import Program, build_family
from .reference import bound_inputs, solve_sizes
from .rewrite import specialised
from .size_conditions import check_sizes
from .tasks import ModelPlan
from .types import TensorType, array_dtype
from .variants import Buckets, Variant

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["Model", "refuse_foreign"]

_MOST_SIZES = 16
"""So many sizes of symbols have their program at once."""


class Model:
    """A graph as machine code: `y = m(x)`. What tw.build(g) gives.

    inputs, outputs: (shape, dtype) by name, in order. Where shapes have symbols, a program is made when sizes are first met, and
    kept; with buckets, there is one for all sizes from the beginning. Safe to call from several threads at once: each call works in
    an arena of its own.
    """

    def __init__(
        self,
        g: Parts,
        target: str,
        options: BuildOptions,
        tuned: str | PathLike[str] | Database | None,
        exact: bool,
        buckets: Buckets | None = None,
    ) -> None:
        self._graph, self._how, self._buckets = g, (target, options, tuned, exact), buckets
        self._programs: OrderedDict[tuple[int, ...], Program] = OrderedDict()
        self._packed: WeakValueDictionary[str, Constant] = WeakValueDictionary()
        self._arenas: list[NDArray[np.uint8]] = []
        self._known: KnownCalls[tuple[Program, tuple[int, ...]]] = KnownCalls(tuple(g.inputs))
        self._family = build_family(g, buckets, *self._how, self._packed) if buckets is not None else None
        if not g.symbols:
            self._program({})

    @property
    def inputs(self) -> dict[str, TensorType]:
        """The shape and the dtype of each input by its name, in the order of a call."""
        return dict(self._graph.inputs)

    @property
    def outputs(self) -> dict[str, TensorType]:
        """The shape and the dtype of each output by its name, in the order in which a call gives them. What follows state is none
        of them: it is in the memory of the input."""
        state = set(self._graph.state.values())
        return {name: kind for name, kind in self._graph.outputs.items() if name not in state}

    @property
    def state(self) -> dict[str, str]:
        """The inputs that a call updates in place: by an input's name that of the output of the graph which is in its memory
        afterwards."""
        return dict(self._graph.state)

    @property
    def arena_bytes(self) -> int:
        """The memory that a call works in beside inputs, outputs and parameters: of the largest sizes met so far."""
        return max((program.arena_bytes for program in self._programs.values()), default=0)

    @property
    def kernels(self) -> dict[str, int]:
        """The number of times a call runs each kernel, by its name: nodes of one structure share one. Of the sizes met last."""
        return next(reversed(self._programs.values())).plan.counts if self._programs else {}

    @property
    def plan(self) -> ModelPlan:
        """The kernels of a call, in their order, each with the schedule that was chosen for it; with buckets, of every variant,
        else of the sizes met last. `print` shows a table, for which the schedules are chosen once more."""
        target, _, tuned, exact = self._how
        met = [Variant({}, next(reversed(self._programs.values())).plan)] if self._programs else []
        return ModelPlan.of(self._family.variants.each if self._family else met, target, tuned, exact)

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """The outputs for these inputs, in order or by name: an array for a single output, else a list.

        arrays: numpy arrays, or anything with DLPack, of the dtypes and shapes of `inputs`. out: an array, or a list of one for
        each output, that are written instead of fresh ones. What is given for state is updated: an array, or a tensor on the CPU,
        that is compact and may be written. Raises BadGraphInput (TW0906).
        """
        ordered = self._known.order(arrays, named) if named else arrays
        known = self._known.find(ordered)
        results = known.outputs(out) if known is not None else None
        if known is not None and results is not None:
            program, order = known.how
            self._run(program, [ordered[at] for at in order], results)
        else:
            program, given, results = self._bound(arrays, named, out)
            self._run(program, given, results)
            self._known.add(ordered, self._known_call(program))
        return results[0] if len(results) == 1 else results

    def time(
        self, *arrays: Any, number: int = 1, repeat: int = 9, min_repeat_ms: float = 10.0, **named: Any
    ) -> TimingResult:
        """Time a call, as Kernel.time does; state that is given stays as it is.

        Parameters
        ----------
        *arrays
            Inputs in order.
        number : int, default 1
            Calls a measurement, at least.
        repeat : int, default 9
            Measurements.
        min_repeat_ms : float, default 10.0
            Time of a measurement at least, in milliseconds: `number` grows until it takes that.
        **named
            Inputs by name.

        Returns
        -------
        TimingResult
            Seconds a call.

        Raises
        ------
        BadGraphInput (TW0906)
            The arrays are not what the model takes.
        WrongTiming (TW0524)
            Timing cannot work with one of the numbers.
        """
        program, given, results = self._bound(arrays, named, None, keeps=True)
        arena = self._arena(program)[: program.arena_bytes]
        return program.main.time(*given, *results, arena, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)

    def profile(self, *arrays: Any, **named: Any) -> Profile:
        """Measure each kernel of a call: for each kernel, in order, its time, its share, the rates of its operations and of the
        bytes that it reads and gives, what it gives, and the nodes that it is made of. `print` shows a table. State that is given
        stays as it is. Raises BadGraphInput (TW0906)."""
        program, given, results = self._bound(arrays, named, None, keeps=True)
        arena = self._arena(program)
        self._arenas.append(arena)
        return measure_profile(program, given, results, arena)

    def show(self, path: str | PathLike[str], *arrays: Any, **named: Any) -> Path:
        """Write a page about the model, HTML that needs nothing else: what it takes and gives, its kernels in the order of a call, and its
        graph.

        Parameters
        ----------
        path : str or PathLike
            The file.
        *arrays
            Inputs in order; with them, the page has the time of each kernel, as `profile` tells.
        **named
            Inputs by name.

        Returns
        -------
        Path
            The file's absolute path.

        Raises
        ------
        BadGraphInput (TW0906)
            The arrays are not what the model takes.
        """
        from ..views.model_page import KernelRow, ModelFacts, write_model_page

        if arrays or named or not self._programs:
            profile = self.profile(*arrays, **named)
            rows = [
                KernelRow(row.operators, row.shapes, row.nodes, row.seconds, row.gflops, row.gbytes)
                for row in profile.rows
            ]
        else:
            plan = next(reversed(self._programs.values())).plan
            rows = [KernelRow(step.operators, plan.shapes_text(step), step.sources) for step in plan.steps]
        facts = [
            ("takes", ", ".join(f"{name}: {kind}" for name, kind in self.inputs.items())),
            ("gives", ", ".join(f"{name}: {kind}" for name, kind in self.outputs.items())),
            ("parameters", f"{sum(array.nbytes for array in self._graph.params.values()):,} bytes"),
            ("arena", f"{self.arena_bytes:,} bytes"),
            ("different kernels", str(len(self.kernels))),
            ("target", self._how[0]),
        ]
        return write_model_page(ModelFacts(self._graph.name, facts, rows, graph_text(self._graph)), path)

    def verify(self, *arrays: Any, **named: Any) -> Comparison:
        """Compares every value with the reference, kernel by kernel, each on what the kernels before it gave: true where all agree,
        else it names the first node that differs. Raises BadGraphInput (TW0906)."""
        given = bound_inputs(self._graph, arrays, named)
        sizes = solve_sizes(self._graph, given)
        return first_difference(
            self._specialize_graph(sizes),
            given,
            lambda whole: self._build_program(whole, sizes),
            self._run,
            self._program(sizes),
        )

    def export(self, path: str | PathLike[str], weights: WeightsIn = "embed", threads: str = "openmp") -> list[Path]:
        """Write the model as a library that C calls, with its header net.h and net.json beside it.

            int32_t net(const float *x, float *y, void *arena);     0, or a status that net_error explains
            int64_t net_arena_bytes(void);

        A call allocates nothing and may be made from several threads, each with an arena of its own.

        Parameters
        ----------
        path : str or PathLike
            "libnet.so", "libnet.a" or "net.o".
        weights : "embed" or "file", default "embed"
            "embed" puts the parameters into the library; "file" into net.weights beside it, which net_open maps, and then what that gives
            is the first argument.
        threads : str, default "openmp"
            As Kernel.export takes it.

        Returns
        -------
        list of Path
            The files.

        Raises
        ------
        ModelNotExportable (TW0915)
            It cannot be written as a library, or not in this way.
        ExportError
            What Kernel.export raises.
        """
        target, options, tuned, exact = self._how
        return export_graph(
            self._graph, path, weights, threads, Target.parse(target), options, tuned, exact, self._buckets
        )

    def _bound(
        self,
        arrays: Sequence[Any],
        named: Mapping[str, Any],
        out: Any,
        keeps: bool = False,
    ) -> tuple[Program, list[Any], list[Any]]:
        """Bind the inputs, in main's order, and the outputs of a call. keeps: state is copied, so that it stays as it is."""
        given = bound_inputs(self._graph, arrays, named)
        for name in self._graph.state:
            self._check_state(name, given[name], {**dict(zip(self.inputs, arrays, strict=False)), **named}[name])
            given[name] = given[name].copy() if keeps else given[name]
        sizes = solve_sizes(self._graph, given)
        program = self._program(sizes)
        types = {name: kind.at(sizes) for name, kind in self.outputs.items()}
        if out is None:
            results: list[Any] = [
                np.empty(cast("tuple[int, ...]", kind.shape), array_dtype(kind.dtype)) for kind in types.values()
            ]
        else:
            results = list(cast("Sequence[Any]", out)) if isinstance(out, (list, tuple)) else [out]
            fits = len(results) == len(types) and all(
                getattr(one, "shape", ()) == kind.shape
                and str(getattr(one, "dtype", "")).rpartition(".")[2] == kind.dtype
                for one, kind in zip(results, types.values(), strict=False)
            )
            if not fits:
                raise BadGraphInput(
                    f"graph {self._graph.name} cannot write to out",
                    called=user_source(),
                    reason="it is not an array for each output",
                    fix="leave out= out, and take what the call returns",
                    allowed=", ".join(f"{name}: {kind}" for name, kind in types.items()),
                )
        return (
            program,
            [np.ascontiguousarray(given[name]).reshape(given[name].shape) for name in program.plan.inputs],
            results,
        )

    def _known_call(self, program: Program) -> KnownCall[tuple[Program, tuple[int, ...]]]:
        """Return the call of a program: its inputs, by their positions, in main's order."""
        places = {name: at for at, name in enumerate(self._graph.inputs)}
        types = (kind.at(program.sizes) for kind in self.outputs.values())
        return KnownCall(
            (program, tuple(places[name] for name in program.plan.inputs)),
            tuple(places[name] for name in self._graph.state),
            tuple((cast("tuple[int, ...]", kind.shape), array_dtype(kind.dtype)) for kind in types),
        )

    def _check_state(self, name: str, array: NDArray[Any], given: Any) -> None:
        """State is updated where the caller has it."""
        reason = (
            "it is not an array, so that nobody would see what follows it"
            if not hasattr(given, "dtype")
            else "its elements do not stand side by side, row by row"
            if not array.flags.c_contiguous
            else "it may not be written"
            if not array.flags.writeable
            else ""
        )
        if reason:
            raise BadGraphInput(
                f"graph {self._graph.name} cannot update {name}",
                reason=reason,
                called=user_source(),
                allowed=f"{name}: {self._graph.inputs[name]}, compact, and writable",
                fix="np.zeros of its shape and dtype, passed to one call after another",
            )

    def _run(self, program: Program, given: Sequence[Any], results: Sequence[Any]) -> None:
        arena = self._arena(program)
        program.main(*given, *results, arena if arena.size == program.arena_bytes else arena[: program.arena_bytes])
        self._arenas.append(arena)

    def _arena(self, program: Program) -> NDArray[np.uint8]:
        """Memory for a call that nobody else works in, of at least so many bytes, aligned."""
        try:
            arena = self._arenas.pop()
        except IndexError:
            arena = np.empty(0, np.uint8)
        return arena if arena.size >= program.arena_bytes else aligned_empty((program.arena_bytes,), np.dtype(np.uint8))

    def _program(self, sizes: Mapping[str, int]) -> Program:
        key = tuple(sizes.values())
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = (
                self._build_program(self._specialize_graph(sizes), sizes)
                if self._family is None
                else self._family.at(sizes)
            )
            while len(self._programs) > _MOST_SIZES:
                self._programs.popitem(last=False)
                self._known.clear()  # which hold programs
        return program

    def _specialize_graph(self, sizes: Mapping[str, int]) -> Parts:
        """The graph that runs for these sizes, as far as what runs knows them."""
        if self._family is None:
            check_sizes(self._graph, sizes)
        known = sizes if self._family is None else self._family.known(sizes)
        return specialised(self._graph, known) if known else self._graph

    def _build_program(self, g: Parts, sizes: Mapping[str, int]) -> Program:
        """A graph as a program for these sizes, as this model is built."""
        return build_family(g, None, *self._how, self._packed).at(sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        """A model is pickled as its graph, weights and all, and built where it is loaded."""
        target, options, tuned, exact = self._how
        return Model, (self._graph, target, options, getattr(tuned, "path", tuned), exact, self._buckets)

    def __repr__(self) -> str:
        takes, gives = (
            ", ".join(f"{name}: {kind}" for name, kind in kinds.items()) for kinds in (self.inputs, self.outputs)
        )
        return f"Model {self._graph.name}({takes}) -> {gives}"

    def _repr_html_(self) -> str:
        rows = [(name, kind, "in") for name, kind in self.inputs.items()]
        rows += [(name, kind, "out") for name, kind in self.outputs.items()]
        count = f"{sum(self.kernels.values())} kernels a call" if self._programs else "kernels are built at a call"
        return html_table(f"model {self._graph.name}: {count}", ("", "type", ""), rows)


def refuse_foreign(g: Parts, target: str | Target, here: bool = False) -> Target:
    """Return the target of a graph. Raises TargetTakesNoGraph (TW0908) for one that is no processor, and where the model is to run
    here for one of another machine."""
    chosen = Target.parse(target)
    if chosen.backend.name == "llvm" and (chosen.runs_here or not here):
        return chosen
    raise TargetTakesNoGraph(
        f"graph {g.name} cannot be built for {str(target)!r}",
        called=user_source(),
        reason="a model is machine code" + (" for this machine's processor" if here else ""),
        allowed='"llvm", with its options',
        fix='tw.build(g, target="llvm")' if here else 'target="llvm"',
    )
