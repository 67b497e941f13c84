"""tvm.tir.transform: passes over lowered functions: one's own by prim_func_pass, and TVM's by their names.

Those that ours do too are ours. What TVM does in a pass between lowering and code, where ours is done in lowering or by the build
for its target (`_DONE_ELSEWHERE`), leaves a module as it is, so that lists of passes run. Others say what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...ir import For, Function, LoopKind, Node, rewrite
from ...ir.passes.common.bound_checks import bound_checks
from ...ir.passes.common.cse import share_subexpressions
from ...ir.passes.common.flatten import flatten
from ...ir.passes.common.hoist import hoist_invariants
from ...ir.passes.common.loop_partition import loop_partition
from ...ir.passes.common.narrow import narrow_offsets
from ...ir.passes.common.options import PassOptions, apply_options
from ...ir.passes.common.simplify import simplify
from ...ir.passes.common.storage import plan_storage
from ...ir.passes.common.unroll import unroll
from ...ir.passes.common.unsafe_select import unsafe_select
from ...ir.passes.gpu.vthread import inject_virtual_threads
from .ir_module import IRModule
from .nodes import ours
from .transform import ModulePass, PassContext


def _serial(node: Node) -> Node | None:
    return replace(node, kind=LoopKind.SERIAL) if isinstance(node, For) and node.kind is LoopKind.PARALLEL else None


_OURS: dict[str, Callable[[Function], Function]] = {
    "CommonSubexprElimTIR": share_subexpressions,
    "ConvertForLoopsToSerial": lambda function: function.with_body(rewrite(function.body, _serial)),
    "FlattenBuffer": flatten,
    "HoistExpression": hoist_invariants,
    "HoistIfThenElse": hoist_invariants,
    "InjectVirtualThread": lambda function: function.with_body(inject_virtual_threads(function.body)),
    "LoopPartition": loop_partition,
    "NarrowDataType": narrow_offsets,
    "RemoveNoOp": simplify,
    "RewriteUnsafeSelect": unsafe_select,
    "Simplify": simplify,
    "StorageFlatten": flatten,
    "StorageRewrite": plan_storage,
    "UnrollLoop": unroll,
}
"""By TVM's names."""

_DONE_ELSEWHERE = (
    "AnnotateEntryFunc",
    "BF16CastElimination",
    "BF16ComputeLegalize",
    "BF16Legalize",
    "BF16Promote",
    "BF16StorageLegalize",
    "BF16TypeLowering",
    "BindTarget",
    "CombineContextCall",
    "CompactBufferAllocation",
    "ConvertBlocksToOpaque",
    "DecorateDeviceScope",
    "FP8ComputeLegalize",
    "FP8StorageLegalize",
    "InferFragment",
    "InjectCopyIntrin",
    "InjectDoubleBuffer",
    "InjectPrefetch",
    "InjectSoftwarePipeline",
    "LegalizePackedCalls",
    "LiftAttrScope",
    "LowerDeviceKernelLaunch",
    "LowerDeviceStorageAccessInfo",
    "LowerInitBlock",
    "LowerIntrin",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "LowerTVMBuiltin",
    "LowerThreadAllreduce",
    "LowerWarpMemory",
    "MakePackedAPI",
    "MakeUnpackedAPI",
    "MergeDynamicSharedMemoryAllocations",
    "PlanAndUpdateBufferAllocationLocation",
    "PointerValueTypeRewrite",
    "RemoveAssume",
    "RemoveStoreUndef",
    "RenormalizeSplitPattern",
    "SkipAssert",
    "SplitHostDevice",
    "ThreadSync",
    "UnifyThreadBinding",
    "VerifyMemory",
)
"""What lowering has done, or the build for its target does."""

_ELSEWHERE = {
    "CoProcSync": 'target "vdla" places its queues\' tokens itself',
    "InjectPermutedLayout": "s[T].transform_layout takes swizzles",
    "InjectRollingBuffer": "s[T].rolling_buffer() of the schedule",
    "LowerCrossThreadReduction": "s[T].bind of a reduction axis",
    "LowerCustomDatatypes": "dtypes are those of tilewright.ir.dtype",
    "TextureFlatten": "there are no textures",
    "DefaultGPUSchedule": 'tilewright.autoschedule.schedule(outputs, target="cuda")',
}

PrimFuncPass = ModulePass

__all__ = ["Apply", "Filter", "InstrumentBoundCheckers", "PrimFuncPass", "VectorizeLoop", "prim_func_pass"]


def prim_func_pass(pass_func: Any = None, opt_level: int = 0, name: str = "", **_: object) -> Any:
    """The decorator of a function of (function, module, context) that gives a function."""
    del opt_level

    def made(function: Callable[..., Any]) -> ModulePass:
        return ModulePass(
            lambda mod: _each(mod, lambda f: function(f, mod, PassContext.current())), name or function.__name__
        )

    return made if pass_func is None else made(pass_func)


def _each(mod: IRModule, step: Callable[[Function], Function]) -> IRModule:
    return IRModule({key: step(function) for key, function in mod.functions.items()})


def _identity(function: Function) -> Function:
    return function


def _ours(name: str, step: Callable[[Function], Function]) -> Callable[..., ModulePass]:
    def make(*_: object, **__: object) -> ModulePass:
        return ModulePass(lambda mod: _each(mod, lambda function: step(ours(function))), f"tir.{name}")

    make.__name__ = name
    make.__doc__ = f"TVM's {name}, as a pass of ours over every function."
    return make


def __getattr__(name: str) -> Any:
    if name in _OURS:
        return _ours(name, _OURS[name])
    if name in _DONE_ELSEWHERE:
        return _ours(name, _identity)
    hint = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return [*__all__, *_OURS, *_DONE_ELSEWHERE]


def Apply(ftransform: Callable[[Function], Function]) -> ModulePass:
    """A function from function to function as a pass."""
    return ModulePass(lambda mod: _each(mod, ftransform), "tir.Apply")


def Filter(fcond: Callable[[Function], bool]) -> ModulePass:
    """The functions of a module for which fcond holds."""
    return ModulePass(
        lambda mod: IRModule({key: each for key, each in mod.functions.items() if fcond(each)}), "tir.Filter"
    )


def InstrumentBoundCheckers() -> ModulePass:
    """Every access checked while the function runs, as tw.build(..., bounds_check=True) does."""
    return ModulePass(
        lambda mod: _each(mod, lambda function: bound_checks(ours(function))), "tir.InstrumentBoundCheckers"
    )


def VectorizeLoop(enable_vectorize: bool = True) -> ModulePass:
    """Off, vectorized loops become serial. On, they are kept: lanes are made when the function is built."""
    options = PassOptions(vectorize=enable_vectorize)
    return ModulePass(
        lambda mod: _each(mod, lambda function: apply_options(ours(function), options)), "tir.VectorizeLoop"
    )
