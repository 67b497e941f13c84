"""Several functions, shapes and processors in one library with one header."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ..base import dataclass, replace, user_source
from ..base.arguments import to_list
from ..codegen.cuda.unit import DeviceUnit, build_unit
from ..codegen.export.cases import same_kinds
from ..codegen.export.companion import Companion
from ..codegen.export.cpu import baseline_target
from ..codegen.export.errors import DoesNotFit, NameTaken, NotACName
from ..codegen.export.exporter import Exporter
from ..codegen.export.files import check_place
from ..codegen.export.final_kernel import FinalKernel
from ..codegen.export.gpu import GpuFunction
from ..codegen.export.names import check_names, check_version, library_identifier
from ..codegen.export.variants import Variant, best_first, rename_kernels
from ..codegen.gpus import library_architectures
from ..codegen.names import machine_and_system
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..ir import Var, deep_recursion
from ..runtime.errors import NothingToExport
from ..runtime.signature import BufferParam, Signature
from ..te import Tensor
from .build import tuned_program
from .compile import BuildItem, Request, lowered_programs
from .linking import prepared_request
from .lower import Buildable, check_name, collect_evidence
from .reproduction_bundle import bundling

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["Library"]


@dataclass(frozen=True)
class _Case:
    """A function for one combination of shapes and dtypes: its code for each target, in the order in which it was added."""

    signature: Signature
    variants: tuple[Variant, ...]

    def join(self, signature: Signature, variant: Variant) -> _Case:
        """Join the case with the code for a further target."""
        params = tuple(
            # both variants must accept the arguments: the stricter alignment holds
            replace(ours, alignment=max(ours.alignment, theirs.alignment))
            if isinstance(ours, BufferParam) and isinstance(theirs, BufferParam)
            else ours
            for ours, theirs in zip(self.signature.params, signature.params, strict=True)
        )
        both = replace(
            self.signature, params=params, long_running=self.signature.long_running or signature.long_running
        )
        return _Case(both, (*self.variants, variant))


class Library:
    """Functions on their way into one library with one header.

        lib = tw.Library("layers")
        lib.add("conv", [A, W, C], target=["llvm -mcpu=x86-64-v2", "llvm -mcpu=x86-64-v3"])
        lib.add("conv", [D, V, E])
        lib.export("liblayers.so")

    A name that is added again for other shapes or dtypes is one function of several cases: in C `conv_1`, `conv_2`, ..., in this
    order, and `conv_checked`, which goes to the first case that takes its tensors; in Python `tw.load(path)["conv"]`. Added again
    for another target, it is the same function with code for several processors, of which the most demanding that the processor
    runs is taken, by asking it once. A processor that runs none gets a status, and tw.load raises MissingInstructions (TW0742).

    A function for a target "cuda" takes a stream first, and tensors in a GPU's memory; added again for another architecture, it has
    the schedule of each. It finds the driver when it runs, and C alone calls it: tw.load gives the functions for CPUs.

    Parameters
    ----------
    name : str
        Of the library: letters, digits and underscores.
    tuned : str, PathLike or Database, optional
        A database of autotune's, from which lists of tensors take their schedules.
    bounds_check : bool, default False
        Of all functions, as tw.build has it.
    fast_math : bool, default False
        Of all functions, as tw.build has it.
    fp_contract : bool, default False
        Of all functions, as tw.build has it.
    exact : bool, default False
        Of all functions, as tw.build has it.
    version : str, default "0.1.0"
        Of the library, for CMake, pkg-config and pip.

    Raises
    ------
    NotACName (TW0703)
        No file and no C function could be called `name`, or no package could have the version.
    """

    def __init__(
        self,
        name: str,
        tuned: str | PathLike[str] | Database | None = None,
        bounds_check: bool = False,
        fast_math: bool = False,
        fp_contract: bool = False,
        exact: bool = False,
        version: str = "0.1.0",
    ) -> None:
        if not isinstance(name, str) or library_identifier(name) != name or len(name) > 100:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise NotACName(
                f"no library can be called {name!r}",
                called=user_source(),
                fix='tw.Library("layers")',
                reason="files, C functions and Python's packages are called like it",
                allowed="up to 100 letters, digits and underscores, of which the first is a letter",
            )
        check_version(version)
        self.name, self.version = name, version
        self._tuned, self._exact = tuned, exact
        self._options = BuildOptions(bounds_check=bounds_check, fast_math=fast_math, fp_contract=fp_contract)
        self._functions: dict[str, tuple[_Case, ...]] = {}
        self._gpu: dict[str, tuple[DeviceUnit, ...]] = {}

    def add(
        self,
        name: str,
        what: Buildable,
        args: Sequence[Tensor | Var] | None = None,
        target: str | Target | Sequence[str | Target] = "llvm",
    ) -> None:
        """Add a function, or shapes or processors to one that is there. Nothing is added where an error is raised.

        Parameters
        ----------
        name : str
            Of the C function.
        what : Schedule, sequence of Tensor or Function
            As tw.build takes it: a schedule with its args, a list of tensors, or a lowered function.
        args : sequence of Tensor or Var, optional
            Of a schedule: tensors and scalars in the order of a call.
        target : str, Target or sequence of these, default "llvm"
            The processor that it is compiled for, or several.

        Raises
        ------
        NotACName (TW0703)
            No C function can be called so.
        NameTaken (TW0704)
            There are these shapes for this target already.
        DoesNotFit (TW0710)
            Parameters are of other kinds than those that are there, or the target is another machine's.
        TilewrightError
            What tw.build raises.
        """
        check_name(name)
        check_names([name], (), ())
        targets = [Target.parse(each) for each in to_list(target)]
        is_gpu = [each.kind == "cuda" for each in targets]
        # a function for CPUs and one for GPUs have different parameters
        if name in (self._functions if any(is_gpu) else self._gpu) or any(is_gpu) > all(is_gpu):
            raise DoesNotFit(
                f"{name!r} cannot be in library {self.name!r} for CPUs and for GPUs",
                called=user_source(),
                reason="a function for GPUs takes a stream, and one for CPUs does not",
                fix="give each its own name",
            )
        if any(is_gpu):
            self._add_gpu(name, what, args, targets)
            return
        cases = self._functions.get(name, ())  # nothing is added unless every target could be lowered
        with deep_recursion(), bundling(lambda: collect_evidence(what)):
            for each in targets:
                self._check_target(name, each, targets)
                program = BuildItem(name, tuned_program(what, each, self._tuned, self._exact), args)
                (kernel,) = prepared_request(
                    Request((program,), each, self._options, renamed=True, exact=self._exact)
                ).programs
                cases = _add_kernel(name, cases, kernel, each)
        if not targets:
            raise DoesNotFit(
                f"{name!r} is for no processor",
                called=user_source(),
                reason="the list of targets is empty",
                fix='target="llvm"',
            )
        self._functions[name] = cases

    def _add_gpu(
        self, name: str, what: Buildable, args: Sequence[Tensor | Var] | None, targets: Sequence[Target]
    ) -> None:
        """A function for GPUs, or further architectures of one that is there."""
        units = self._gpu.get(name, ())
        with deep_recursion():
            for each in targets:
                if each.has_flag("emulate"):
                    raise DoesNotFit(
                        f"{name!r} cannot be in library {self.name!r} for {str(each)!r}",
                        called=user_source(),
                        reason="code for an emulated GPU runs in this process alone",
                        fix='target="cuda -arch=sm_80"',
                    )
                program = BuildItem(name, tuned_program(what, each, self._tuned, self._exact), args)
                (function,) = lowered_programs(
                    Request((program,), each, self._options, renamed=True, exact=self._exact)
                )
                unit = build_unit(function, each, self._options)
                if any(_shapes(unit.signature) != _shapes(other.signature) for other in units):
                    raise DoesNotFit(
                        f"{name!r} is there already with other parameters",
                        called=user_source(),
                        reason=f"{unit.signature} differs from {units[0].signature}",
                        fix="give it another name",
                    )
                taken = {arch for other in units for arch in library_architectures(other.target)}
                if not taken.isdisjoint(library_architectures(each)):
                    raise NameTaken(
                        f"{unit.signature} would be exported twice",
                        called=user_source(),
                        reason=f"it was added for {', '.join(sorted(taken))} already",
                        fix="give it another name, or another architecture",
                    )
                units = (*units, unit)
        self._gpu[name] = units

    def _check_target(self, name: str, target: Target, among: Sequence[Target]) -> None:
        others = [variant.target for cases in self._functions.values() for case in cases for variant in case.variants]
        if target.kind != "llvm":  # a library links machine code
            raise DoesNotFit(
                f"{name!r} cannot be in library {self.name!r} for {str(target)!r}",
                called=user_source(),
                reason="libraries of several functions hold machine code",
                fix='target="llvm", or "cuda"',
                allowed='for "c", tw.build({"name": what}, target="c").export("name.c")',
            )
        lengths = sorted({each.sve_bits for each in (*others, *among)} - {0})
        if len(lengths) > 1:  # SVE's length is asked of the processor once
            raise DoesNotFit(
                f"{name!r} cannot be in library {self.name!r} for vectors of {lengths[0]} and of {lengths[1]} bits",
                called=user_source(),
                reason="a library asks a processor for one length of SVE's vectors",
                fix="make a library for each length",
            )
        for other in (*others, *among):
            # one file has one machine
            if machine_and_system(other.llvm_triple) != machine_and_system(target.llvm_triple):
                raise DoesNotFit(
                    f"{name!r} for {target.llvm_triple} cannot be in library {self.name!r}",
                    called=user_source(),
                    reason=f"another function of it is for {other.llvm_triple}",
                    fix="make a library for each machine",
                )

    def exporter(self) -> tuple[Exporter, Companion]:
        """Return what writes the library, and what is in it beside its kernels. Raises NothingToExport (TW0740) for one without
        functions."""
        targets = dict.fromkeys(
            variant.target for cases in self._functions.values() for case in cases for variant in case.variants
        )
        if not targets and not self._gpu:
            raise NothingToExport(
                f"library {self.name!r} has no functions",
                called=user_source(),
                fix='lib.add("name", [A, B]) before it is exported',
            )
        kernels: list[FinalKernel] = []
        several: dict[str, tuple[str, ...]] = {}
        for name, cases in self._functions.items():
            names = tuple(f"{name}_{at}" for at in range(1, len(cases) + 1)) if len(cases) > 1 else (name,)
            if len(cases) > 1:
                several[name] = names
            # variants are chosen at run time only where there are several targets
            kernels += [_kernel(own, case, len(targets) > 1) for own, case in zip(names, cases, strict=True)]
        target = next(iter(targets), Target())
        gpu = tuple(reduce(GpuFunction.join, (unit.exported() for unit in units)) for units in self._gpu.values())
        exporter = Exporter(
            tuple(kernels),
            self._options.fast_math,
            self._options.fp_contract,
            target if len(targets) == 1 else baseline_target(target),
            gpu=gpu,
        )
        return exporter, Companion(cases=several, version=self.version)

    def export(
        self, path: str | PathLike[str], threads: str = "openmp", loadable: bool = False
    ) -> tuple[Path, Path, Path]:
        """Write the library, its header and its manifest, as Kernel.export does, and what CMake and pkg-config ask for.

        Parameters
        ----------
        path : str or PathLike
            libname.so, libname.a or name.o; or a folder, in which it is called like the library.
        threads : str, default "openmp"
            As Kernel.export takes it.
        loadable : bool, default False
            As Kernel.export takes it.

        Returns
        -------
        tuple of Path
            Library, header and manifest. tw.load gives a Module of the functions.

        Raises
        ------
        NothingToExport (TW0740)
            Nothing was added.
        NameTaken (TW0704)
            Two C functions have one name.
        ExportError
            What Kernel.export raises.
        """
        place = check_place(path)
        place = place / f"lib{self.name}.so" if place.is_dir() else place
        exporter, companion = self.exporter()
        return exporter(place, threads, loadable, companion)

    def export_python(self, folder: str | PathLike[str], version: str | None = None) -> Path:
        """Write a Python package of the functions into a folder, which pip installs and makes a wheel of, and returns the folder.

        The package has the library's name, and its version unless another one is given. It needs numpy alone (and ml_dtypes, for
        bfloat16): what loads the library and checks calls is part of it. Its functions take what tw.load's take, and are typed. Raises
        NotACName (TW0703) for a name or version that no package can have, NotWritten (TW0705), and what export raises.
        """
        exporter, companion = self.exporter()
        return exporter.python_package(
            check_place(folder), self.name, self.version if version is None else version, companion
        )

    def __repr__(self) -> str:
        return f"Library({self.name!r}: {', '.join((*self._functions, *self._gpu)) or 'empty'})"


def _kernel(name: str, case: _Case, varied: bool) -> FinalKernel:
    function, symbols = replace(case.variants[0].function, name=name), case.variants[0].symbols
    return FinalKernel(
        function,
        replace(case.signature, name=name),
        symbols,
        variants=rename_kernels(name, best_first(case.variants)) if varied else (),
    )


def _add_kernel(name: str, cases: tuple[_Case, ...], kernel: FinalKernel, target: Target) -> tuple[_Case, ...]:
    """The cases of a function with a further kernel."""
    variant = Variant(target, kernel.function, kernel.symbols)
    for at, case in enumerate(cases):
        # a dispatcher tells cases by dtype and shape, not by the kind of parameter
        if not same_kinds(case.signature, kernel.signature):
            raise DoesNotFit(
                f"{name!r} is there already with parameters of other kinds",
                called=user_source(),
                reason=f"{kernel.signature} cannot be called as {case.signature} is",
                fix="give it another name",
                allowed="for several shapes and dtypes: tensors, outputs and kinds of numbers in the same places",
            )
        if _shapes(case.signature) == _shapes(kernel.signature):  # the same shapes again: code for another processor
            if any(each.target == target for each in case.variants):
                raise NameTaken(
                    f"{kernel.signature} would be exported twice",
                    called=user_source(),
                    reason=f"it was added for {str(target)!r} already",
                    fix="give it another name, another shape or dtype, or another target",
                )
            return (*cases[:at], case.join(kernel.signature, variant), *cases[at + 1 :])
    return (*cases, _Case(kernel.signature, (variant,)))


def _shapes(signature: Signature) -> list[object]:
    """Return what a call is told by: the dtypes and shapes, whatever the parameters are called."""
    return [
        signature.symbols,
        *((p.dtype, p.shape) if isinstance(p, BufferParam) else p.dtype for p in signature.params),
    ]
