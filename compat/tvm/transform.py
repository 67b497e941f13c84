"""tvm.transform: the context that builds run in, and passes over modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ...base.arguments import is_a
from ...ir import Function
from ...ir.passes.common.options import PassOptions
from .ir_module import IRModule

__all__ = ["KEEPS_SCHEDULES", "ModulePass", "PassContext", "Sequential", "build_config", "module_pass"]

_CHECKS_BOUNDS, _LOWER_PASSES = "tir.instrument_bound_checkers", "tir.add_lower_pass"
KEEPS_SCHEDULES = "te.keep_schedule_record"
"""Whether schedules show what they were after each primitive."""
_HINTS = {
    "tir.debug_keep_trivial_loop",
    "tir.detect_global_barrier",
    "tir.disable_assert",
    "tir.dma_bypass_cache",
    "tir.enable_buffer_level_predication",
    "tir.enable_debug",
    "tir.enable_equiv_terms_in_cse_tir",
    "tir.HoistExpression",
    "tir.InjectDoubleBuffer",
    "tir.InjectSoftwarePipeline",
    "tir.is_entry_func",
    "tir.instrument_lwp",
    "tir.merge_static_smem",
    "tir.noalias",
    "tir.ptx_ldg32",
    "tir.ReduceBranchingThroughOvercompute",
    "tir.RemoveNoOp",
    "tir.Simplify",
    "tir.use_async_copy",
    "tir.usmp.enable",
    "relay.backend.use_auto_scheduler",
    "relay.backend.use_meta_schedule",
}
"""Keys that tell TVM's passes how to go about their work, where ours decide for themselves: taken, without effect."""
_KEYS = {
    _CHECKS_BOUNDS,
    _LOWER_PASSES,
    KEEPS_SCHEDULES,
    "tir.disable_cse_tir",
    "tir.disable_storage_rewrite",
    "tir.disable_vectorize",
    "tir.HoistIfThenElse",
    "tir.LoopPartition",
    "tir.UnrollLoop",
    *_HINTS,
}
_PASSES = {"tir.CommonSubexprElimTIR": "cse", "tir.LoopPartition": "loop_partition", "tir.HoistIfThenElse": "hoist"}
"""Passes that can be left out, by TVM's names."""


class PassContext:
    """`with tvm.transform.PassContext(opt_level=3, config={...}):`. What the keys do stands in docs/migrating-from-tvm.md;
    unknown ones are refused, as in TVM."""

    _entered: ClassVar[list[PassContext]] = []

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[object] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.opt_level = opt_level
        self.required_pass, self.disabled_pass = list(required_pass or ()), list(disabled_pass or ())
        self.instruments, self.config = list(instruments or ()), dict(config or {})
        for key in self.config:
            if key not in _KEYS:
                raise AttributeError(f"invalid config option {key!r}; candidates are {', '.join(sorted(_KEYS))}")

    @property
    def checks_bounds(self) -> bool:
        """Return whether kernels are to check their indices while they run."""
        return bool(self.config.get(_CHECKS_BOUNDS, False))

    @property
    def lower_passes(self) -> list[Callable[[Any], Any]]:
        """The passes of tir.add_lower_pass, in the order of their phases."""
        return [step for _, step in sorted(self.config.get(_LOWER_PASSES, ()), key=lambda pair: int(pair[0]))]

    @property
    def options(self) -> PassOptions:
        """Options of the house's passes."""
        unrolling = _fields(self.config.get("tir.UnrollLoop"))
        off = set(self.disabled_pass)
        if self.config.get("tir.disable_cse_tir"):
            off.add("tir.CommonSubexprElimTIR")
        if _fields(self.config.get("tir.LoopPartition")).get("partition_const_loop") is False:
            off.add("tir.LoopPartition")
        return PassOptions(
            vectorize=not self.config.get("tir.disable_vectorize") and "tir.VectorizeLoop" not in off,
            unrolled="tir.UnrollLoop" not in off,
            unroll_steps=int(unrolling.get("auto_max_step", 0)),
            unroll_explicit=bool(unrolling.get("explicit_unroll", True)),
            without=frozenset(ours for theirs, ours in _PASSES.items() if theirs in off),
            share_memory=not self.config.get("tir.disable_storage_rewrite") and "tir.StorageRewrite" not in off,
        )

    @staticmethod
    def current() -> PassContext:
        """The innermost context entered by `with`, or one of defaults."""
        return PassContext._entered[-1] if PassContext._entered else PassContext()

    def __enter__(self) -> PassContext:
        PassContext._entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        PassContext._entered.pop()


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a pass's configuration: a dict, or an object of TVM's older kind."""
    if value is None:
        return {}
    named: Mapping[str, Any] = value if is_a(value, Mapping) else value.__dict__
    return dict(named)


_OLD_KEYS = {
    "instrument_bound_checkers": _CHECKS_BOUNDS,
    "add_lower_pass": _LOWER_PASSES,
    "disable_vectorize": "tir.disable_vectorize",
    "disable_storage_rewrite": "tir.disable_storage_rewrite",
    "restricted_func": "tir.noalias",
    "detect_global_barrier": "tir.detect_global_barrier",
    "disable_select_rewriting": "tir.Simplify",
}


def build_config(**options: Any) -> PassContext:
    """The context as TVM spelled it before 0.7: tvm.build_config(auto_unroll_max_step=16, unroll_explicit=True, ...)."""
    config = {_OLD_KEYS[name]: value for name, value in options.items() if name in _OLD_KEYS}
    steps, explicit = options.get("auto_unroll_max_step", 0), options.get("unroll_explicit", True)
    config["tir.UnrollLoop"] = {"auto_max_step": steps, "explicit_unroll": explicit}
    if "partition_const_loop" in options:
        config["tir.LoopPartition"] = {"partition_const_loop": options["partition_const_loop"]}
    return PassContext(config=config)


class ModulePass:
    """A pass over modules: `p(mod)` gives another module. step: a function from module to module."""

    def __init__(self, step: Callable[[IRModule], IRModule], name: str) -> None:
        self._step, self.name = step, name

    def __call__(self, mod: IRModule | Function) -> Any:
        if isinstance(mod, Function):
            return self._step(IRModule({mod.name: mod}))[mod.name]
        return self._step(mod)

    def __repr__(self) -> str:
        return f"Pass({self.name})"


def module_pass(pass_func: Any = None, opt_level: int = 0, name: str = "", **_: object) -> Any:
    """The decorator of a function of (module, context) that gives a module."""
    del opt_level

    def made(function: Callable[..., Any]) -> ModulePass:
        return ModulePass(lambda mod: function(mod, PassContext.current()), name or function.__name__)

    return made if pass_func is None else made(pass_func)


def Sequential(
    passes: Sequence[Callable[[Any], Any]], *_: object, name: str = "sequential", **__: object
) -> ModulePass:
    """Passes one after another, as one."""

    def run(mod: Any) -> Any:
        for step in passes:
            mod = step(mod)
        return mod

    return ModulePass(run, name)
