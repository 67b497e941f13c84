"""Models as graphs: what users hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..base.arguments import to_items
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..runtime.tables import html_table
from .constant_inputs import bind_inputs, convert_inputs
from .export import WeightsIn, export_graph
from .file import write_file
from .gradient import training_graph, with_gradients
from .model import Model, refuse_foreign
from .node import Parts
from .passes import default_passes, difference_text, grouped, passes_named, transformed
from .printer import graph_text
from .reference import run
from .rewrite import replace_shapes
from .tasks import Task, list_tasks
from .types import Extent
from .variants import Buckets, Variants

__all__ = ["Graph"]

_MOST_SHOWN = 200
"""Nodes in a notebook's table."""

if TYPE_CHECKING:
    from ..autotune.records import Database


class Graph(Parts):
    """A model. Two are equal if they have the same inputs, parameters (to the bit), nodes and outputs under the same names.

    `str(g)` is its text, which tw.graph.parse reads. It never changes: a Builder makes a new one.
    """

    @staticmethod
    def of(parts: Parts) -> Graph:
        """The graph of these parts."""
        return Graph(parts.name, parts.inputs, parts.constants, parts.nodes, parts.results, parts.state)

    def run(self, *arrays: Any, **named: Any) -> list[NDArray[Any]]:
        """The outputs, state among them, for these inputs (in order, or by name), node by node by the reference: slow, and the
        oracle for what is built. Raises BadGraphInput (TW0906), UnboundParam (TW0907)."""
        return run(self, arrays, named)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the text and the parameters to a file of the format safetensors, for tw.graph.load. Raises BadGraphFile (TW0905),
        UnboundParam (TW0907)."""
        write_file(path, graph_text(self), self.params)

    def transform(self, *names: str) -> Graph:
        """The graph after these passes, which run in this order, and again until none of them changes anything; without names,
        after those that tw.build runs, with a node for each kernel. tw.graph.PASSES lists them. Raises UnknownPass (TW0914)."""
        made = transformed(self, passes_named(names)) if names else grouped(self)
        return self if made is self else Graph.of(made)

    def with_shapes(self, shapes: Mapping[str, Sequence[Extent]]) -> Graph:
        """The graph whose inputs have these shapes, by name: numbers in place of symbols, which have them everywhere then. Raises
        BadGraphInput (TW0906) for shapes that are not its inputs'."""
        made = replace_shapes(self, shapes)
        return self if made is self else Graph.of(made)

    def with_values(self, values: Mapping[str, Any]) -> Graph:
        """The graph in which inputs have these values, by name: numbers, lists or arrays. It does not take them any more. Raises
        BadGraphInput (TW0906)."""
        return Graph.of(bind_inputs(self, convert_inputs(self.inputs, values)))

    def show(self, path: str | PathLike[str], *names: str) -> Path:
        """Write a page about what passes make of the graph, HTML that needs nothing else: step by step what each changes, and the
        graph at last. names: as transform takes them. Returns its absolute path. Raises UnknownPass (TW0914)."""
        from ..views.model_page import ModelFacts, Step, write_model_page

        steps: list[Step] = []
        after: Parts = self
        for passes in [passes_named(names)] if names else [default_passes(built=False), passes_named(["groups"])]:
            after = transformed(
                after, passes, lambda name, before, now: steps.append(Step(name, difference_text(before, now)))
            )
        facts = [
            ("nodes before", str(len(self.nodes))),
            ("nodes after", str(len(after.nodes))),
            ("steps", str(len(steps))),
        ]
        return write_model_page(ModelFacts(self.name, facts, [], graph_text(after), steps), path)

    def gradient(self, of: str, wrt: str | Sequence[str], checkpoints: Sequence[str] = ()) -> Graph:
        """The graph with gradients as further outputs, grad_NAME for each value of `wrt`.

        What `of` does not depend on has zeros. Where a function has a kink, one side is taken.

        Parameters
        ----------
        of : str
            The name of an output, a single float.
        wrt : str or sequence of str
            Inputs, parameters, or values of nodes, by name, all of floats.
        checkpoints : sequence of str, default ()
            Values of nodes. The graph is cut behind them, and the way back computes each part anew, from what it reads of others, rather
            than keep its values: less memory for one more way forward.

        Raises
        ------
        NoGradient (TW0930)
            `of` is no single float, `wrt` no floats, or an operator on the way has no derivative.
        """
        made = with_gradients(self, of, to_items(wrt), checkpoints)
        return Graph.of(made)

    def training_step(
        self,
        loss: str,
        wrt: Sequence[str] | None = None,
        optimizer: str = "adam",
        checkpoints: Sequence[str] = (),
        **options: Any,
    ) -> Graph:
        """A step of training as a graph, one native call when it is built.

        It takes what this graph takes, then weights and the optimizer's moments, which are state and updated where they lie; it gives what
        this graph gives. `step.state` names what is to be passed: weights, which begin as g.params has them, and moments, which begin as
        zeros.

        Parameters
        ----------
        loss : str
            The name of an output, a single float, that is to become small.
        wrt : sequence of str, optional
            The weights, parameters or inputs of floats. Without it, all parameters of floats but constants: numbers of the program, a
            torch module's buffers and what requires no gradient, the statistics of an ONNX model's batch norms.
        optimizer : str, default "adam"
            "sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop" or "adagrad", as torch.optim computes them.
        checkpoints : sequence of str, default ()
            As of gradient.
        **options
            lr, a number, or the name of an input to be; weight_decay, momentum, betas, eps, alpha.

        Raises
        ------
        NoGradient (TW0930)
            As of gradient.
        BadTraining (TW0931)
            The optimizer or an option of it is not known, or there is nothing to train.
        """
        return Graph.of(training_graph(self, loss, wrt, optimizer, options, checkpoints))

    def built(
        self, target: Any, tuned: Any, options: BuildOptions, exact: bool, buckets: Buckets | None = None
    ) -> Model:
        """Build the graph, as tw.build(g) does.

        Parameters
        ----------
        target : str or Target
            As of tw.build.
        tuned : str, PathLike, Database or None
            As of tw.build.
        options : BuildOptions
            bounds_check, fast_math and fp_contract, as of tw.build.
        exact : bool
            As of tw.build.
        buckets : sequence of dict, optional
            As of tw.build.

        Raises
        ------
        TargetTakesNoGraph (TW0908)
            No model can be built for the target, or with an option.
        UnboundParam (TW0907)
            The graph's text was parsed without the values of its parameters.
        BadBuckets (TW0909)
            The buckets are no sizes of the graph's symbols.
        """
        # before the passes, which take seconds for large models
        chosen = refuse_foreign(self, target, here=True)
        after = transformed(self, default_passes(options.fast_math, exact, target=chosen))
        return Model(after, str(target), options, tuned, exact, buckets)

    def tasks(self, buckets: Buckets | None = None, target: str | Target = "llvm") -> list[Task]:
        """The distinct kernels of what tw.build(g, target) makes, with how often each runs in a call: what autotune.tune(g) spends
        its trials on. buckets: as tw.build takes them, whose kernels are among these. target: other than of a processor, layouts are
        those of this one. Raises BadBuckets (TW0909)."""
        chosen = Target.parse(target)
        passes = default_passes(target=chosen if chosen.backend.rules == "cpu" else None)
        variants = Variants.of(transformed(self, passes), buckets)
        # names of buckets distinguish tasks only where there are some
        several = len(variants.each) > 1
        found = [task for each in variants.each for task in list_tasks(each.plan, str(each) if several else "")]
        return list({task.name: task for task in reversed(found)}.values())[::-1]

    def export(
        self,
        path: str | PathLike[str],
        weights: WeightsIn = "embed",
        threads: str = "openmp",
        target: str | Target = "llvm",
        tuned: str | PathLike[str] | Database | None = None,
        fast_math: bool = False,
        exact: bool = False,
        buckets: Buckets | None = None,
    ) -> list[Path]:
        """Export the graph, as tw.build(g).export does, without building it for this process.

        Parameters
        ----------
        path : str or PathLike
            As of Model.export.
        weights : "embed" or "file", default "embed"
            As of Model.export.
        threads : str, default "openmp"
            As of Kernel.export.
        target : str or Target, default "llvm"
            This machine's, or another's, "llvm -mtriple=...".
        tuned : str, PathLike or Database, optional
            As of tw.build.
        fast_math : bool, default False
            As of tw.build.
        exact : bool, default False
            As of tw.build.
        buckets : sequence of dict, optional
            As of tw.build.

        Returns
        -------
        list of Path
            The files.

        Raises
        ------
        TilewrightError
            What Model.export and tw.build raise.
        """
        options = BuildOptions(fast_math=fast_math)
        chosen = refuse_foreign(self, target)
        after = transformed(self, default_passes(fast_math, exact, target=chosen))
        return export_graph(after, path, weights, threads, chosen, options, tuned, exact, buckets)

    def __str__(self) -> str:
        return graph_text(self)

    def __repr__(self) -> str:
        return f"Graph({self.name}: {len(self.nodes)} nodes, {len(self.constants)} params)"

    def _repr_html_(self) -> str:
        """The graph in a notebook: what it takes and gives, and its first nodes."""
        kinds = {"input": self.inputs, "output": self.outputs}
        rows = [(what, name, kind, "", "") for what, each in kinds.items() for name, kind in each.items()]
        rows += [
            (
                node.operator,
                ", ".join(node.outputs),
                ", ".join(map(str, node.types)),
                ", ".join(node.inputs),
                node.source,
            )
            for node in self.nodes[:_MOST_SHOWN]
        ]
        rest = len(self.nodes) - _MOST_SHOWN
        rows += [("...", f"{rest} more nodes: print(g)", "", "", "")] if rest > 0 else []
        caption = f"graph {self.name}: {len(self.nodes)} nodes, {len(self.constants)} params"
        return html_table(caption, ("", "gives", "type", "takes", "from"), rows)
