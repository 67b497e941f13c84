"""tw.graph.from_torch: modules, exported programs, and their archives, which are read without torch."""

from __future__ import annotations

import io
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from ...base.errors import FAULTS, is_interruption, user_source
from ..caches import State
from ..errors import NotAModel, UnsupportedModel
from ..graph import Graph
from ..open_graph import OpenGraph, import_graph
from .archive import Archive
from .flexible import expand_flex_attention
from .frame import is_known
from .importer import Importer

__all__ = ["from_torch"]


def from_torch(
    model: Any,
    example_args: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    state: State = None,
) -> Graph | OpenGraph:
    """Read a model of torch as a graph, its inputs in the order of torch's pytree.

    What a module writes to its buffers or inputs comes as further outputs, after the user's own, under their names.

    Parameters
    ----------
    model : str, PathLike, bytes, torch.export.ExportedProgram or torch.nn.Module
        The path of a file .pt2 (or its bytes), which is read without torch; an exported program, before its operators are taken apart;
        or a module with example_args and example_kwargs, which is exported here, in the state that it is in (`module.eval()` first).
    example_args : sequence, optional
        Of a module: arguments to export it with.
    example_kwargs : dict, optional
        Of a module: arguments by name to export it with.
    dynamic_shapes : optional
        As torch.export.export takes it; what is dynamic is a symbol.
    state : dict of str to str, or True, optional
        Inputs that are updated in place, each with the output that follows it: `{"cache": "cache"}` of an input, a buffer or a constant
        that the module writes. A buffer and a constant become inputs, after the others. True: all that the module writes, and the
        inputs of which an output is an update (put, scatter, where, a slice and what is appended), as of a decoder's caches.

    Returns
    -------
    Graph or OpenGraph
        An OpenGraph where sizes depend on values, as of what masks choose; it is closed when it is called.

    Raises
    ------
    NotAModel (TW0911)
        It is none of these.
    UnsupportedModel (TW0912)
        Something is not supported; everything that is not is listed.
    BadExternalData (TW0913)
        Weights are not there, or pickled.
    BadGraph (TW0901)
        `state` names no inputs and outputs.
    """
    if isinstance(model, (str, os.PathLike, bytes)):
        path = cast("str | os.PathLike[str] | bytes", model)
        return _graph(Archive(path), "main" if isinstance(path, bytes) else Path(path).name.partition(".")[0], state)
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(model).__mro__}
    if "torch.nn.modules.module.Module" in kinds and example_args is not None:
        program: Any = sys.modules["torch"].export.export(
            model, tuple(example_args), dict(example_kwargs or {}), dynamic_shapes=dynamic_shapes
        )
        return _graph(_archive(program), type(model).__name__, state)
    if "torch.export.exported_program.ExportedProgram" in kinds:
        return _graph(_archive(model), "main", state)
    raise NotAModel(
        f"from_torch takes no {type(model).__name__}" + (" without example_args" if example_args is None else ""),
        called=user_source(),
        fix="a torch.nn.Module with example_args=(x,), a torch.export.ExportedProgram, or the path of a file .pt2",
    )


def _archive(program: Any) -> Archive:
    """An exported program, in the form in which torch keeps it."""
    program = remove_rounding(decompose(expand_flex_attention(program), is_known))
    try:
        try:
            content = _save_program(program)
        except NotImplementedError:
            content = _save_program(flatten_results(program))
    except Exception as problem:
        if not isinstance(problem, NotImplementedError) and not type(problem).__module__.startswith("torch."):
            raise
        raise UnsupportedModel(
            "torch cannot write the program to a file, from which it is read",
            called=user_source(),
            reason=f"{type(problem).__name__}: {problem}"[:500],
            fix="leave out what torch.export.save(program, path) refuses",
        ) from problem
    return Archive(content)


def _save_program(program: Any) -> bytes:
    content = io.BytesIO()
    sys.modules["torch"].export.save(program, content)
    return content.getvalue()


def _graph(archive: Archive, name: str, state: State) -> Graph | OpenGraph:
    return import_graph(Importer(archive, re.sub(r"[^A-Za-z0-9_.]", "_", name) or "main", state))


# Operators of a program that have no row here, taken apart by torch into others; and results that torch writes to no file.

_MOST_LEVELS = 4
"""An operator may be made of others that are not known either."""


def decompose(program: Any, is_known: Callable[[str], bool]) -> Any:
    """A torch.export.ExportedProgram in which torch has decomposed the operators that are not known, until all are; itself where
    that does not come to be. is_known: whether an operator, "torch.ops.aten.relu.default", has a row. What is known stays as the
    user wrote it."""
    torch, made = sys.modules["torch"], program
    for _ in range(_MOST_LEVELS):
        others = {
            node.target
            for node in made.graph.nodes
            if isinstance(node.target, torch._ops.OpOverload)
            and (not is_known(f"torch.ops.{node.target!s}") or _is_trained_norm(node))
        }
        if not others:
            return made
        norm = torch.ops.aten.batch_norm.default  # which is taken apart whatever the table says
        table = _find_decompositions(torch, others)
        if any(how is None for operator, how in table.items() if operator is not norm):
            break
        try:
            made = made.run_decompositions({operator: how for operator, how in table.items() if how is not None})
        except FAULTS as error:
            if is_interruption(error):
                raise
            break  # it is refused for what the user wrote then
    return program


def _find_decompositions(torch: Any, operators: set[Any]) -> dict[Any, Callable[..., Any] | None]:
    """Return what torch makes operators of: as exported programs have them, else as its references, else as its kernels do; None of
    what it does not take apart."""
    usual, references = torch.export.default_decompositions(), import_module("torch._decomp").decomposition_table
    composite = torch._C.DispatchKey.CompositeImplicitAutograd

    def find(each: Any) -> Callable[..., Any] | None:
        if each in usual:
            return usual[each]
        if each in references or not torch._C._dispatch_has_kernel_for_dispatch_key(each.name(), composite):
            return references.get(each)
        return partial(each._op_dk, composite)

    return {each: find(each) for each in operators}


def _is_trained_norm(node: Any) -> bool:
    """Return whether it is a batch norm in training, which writes to its running means, though its operator does not say so."""
    return str(node.target) == "aten.batch_norm.default" and node.args[5] is True and node.args[3] is not None


def flatten_results(program: Any) -> Any:
    """A torch.export.ExportedProgram that gives its results as a list: torch writes no tuples with names, as topk returns them."""
    tree = sys.modules["torch.utils._pytree"]
    whole, *inner = program.module_call_graph
    leaves = tree.tree_structure([0] * whole.signature.out_spec.num_leaves)
    plain = copy(program)
    plain._module_call_graph = [replace(whole, signature=replace(whole.signature, out_spec=leaves)), *inner]
    return plain


# Whole numbers that a program makes of quotients of sizes by `math.floor` and `math.ceil`, which torch writes to no
# file, as quotients, which it writes.
#
#     floor(x)    x // 1
#     ceil(x)     -(-x // 1)


def remove_rounding(program: Any) -> Any:
    """A torch.export.ExportedProgram whose graph calls no such function; itself where there is none."""
    if not any(node.target in (math.floor, math.ceil) for node in program.graph.nodes):
        return program
    below: Any = getattr(operator, "floordiv")  # noqa: B009  (typeshed gives its parameters no types)
    module, signature = deepcopy(program.graph_module), deepcopy(program.graph_signature)
    graph = module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in (math.floor, math.ceil):
            continue
        value, what = node.args[0], node.meta["val"]
        with graph.inserting_before(node):
            if node.target is math.floor:
                made = graph.call_function(below, (value, 1))
            else:
                turned = graph.call_function(operator.neg, (value,))
                turned.meta["val"] = -value.meta["val"] if hasattr(value, "meta") else -value
                quotient = graph.call_function(below, (turned, 1))
                quotient.meta["val"] = -what
                made = graph.call_function(operator.neg, (quotient,))
        made.meta.update(node.meta)
        node.replace_all_uses_with(made)
        signature.replace_all_uses(node.name, made.name)
        graph.erase_node(node)
    module.recompile()
    return program._update(module, signature)
