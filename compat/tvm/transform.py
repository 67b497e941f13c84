"""tvm.transform: the context that builds run in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

__all__ = ["PassContext", "build_config"]

_CHECKS_BOUNDS = "tir.instrument_bound_checkers"
_KEYS = {
    _CHECKS_BOUNDS, "tir.detect_global_barrier", "tir.disable_assert", "tir.disable_cse_tir", "tir.disable_storage_rewrite",
    "tir.disable_vectorize", "tir.dma_bypass_cache", "tir.enable_buffer_level_predication", "tir.enable_debug",
    "tir.enable_equiv_terms_in_cse_tir", "tir.HoistExpression", "tir.HoistIfThenElse", "tir.InjectDoubleBuffer",
    "tir.LoopPartition", "tir.merge_static_smem", "tir.noalias", "tir.ReduceBranchingThroughOvercompute",
    "tir.RemoveNoOp", "tir.Simplify", "tir.UnrollLoop", "tir.use_async_copy", "tir.usmp.enable",
    "relay.backend.use_auto_scheduler", "relay.backend.use_meta_schedule",
}
"""What TVM's config knows that bears on tensor programs. All but the bound checks say how its passes go about their work,
never what the program means, and ours decide that for themselves."""


class PassContext:
    """`with tvm.transform.PassContext(opt_level=3, config={...}):`. Of the config "tir.instrument_bound_checkers" counts:
    it makes kernels check their indices. The other keys of TVM are taken, and unknown ones refused, as there."""

    _entered: ClassVar[list[PassContext]] = []

    def __init__(
        self, opt_level: int = 2, required_pass: Sequence[str] | None = None, disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[object] | None = None, config: Mapping[str, Any] | None = None,
    ) -> None:
        self.opt_level = opt_level
        self.required_pass, self.disabled_pass = list(required_pass or ()), list(disabled_pass or ())
        self.instruments, self.config = list(instruments or ()), dict(config or {})
        if "tir.add_lower_pass" in self.config:
            raise ValueError("tir.add_lower_pass: passes of one's own over TVM's IR cannot run on ours; change the function "
                             "that tvm.lower returns, and build that")
        for key in self.config:
            if key not in _KEYS:
                raise AttributeError(f"invalid config option {key!r}; candidates are {', '.join(sorted(_KEYS))}")

    @property
    def checks_bounds(self) -> bool:
        """Whether kernels are to check their indices while they run."""
        return bool(self.config.get(_CHECKS_BOUNDS, False))

    @staticmethod
    def current() -> PassContext:
        """The innermost context entered by `with`, or one of defaults."""
        return PassContext._entered[-1] if PassContext._entered else PassContext()

    def __enter__(self) -> PassContext:
        PassContext._entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        PassContext._entered.pop()


def build_config(**options: Any) -> PassContext:
    """The context as TVM spelled it before 0.7: tvm.build_config(instrument_bound_checkers=True)."""
    checks = bool(options.get("instrument_bound_checkers", False))
    return PassContext(config={_CHECKS_BOUNDS: checks} if checks else None)
