from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from ...autoschedule.plan import Plan
from ...ir.expr import Var
from ...te.operation import Operation
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from ...views.explain import Explanation
from ...views.options import Options
from ...views.verify import Verification
from .exactness import Exactness
from .records import Record
from .schedule import Schedule
from .stage import Stage

__all__ = ["LazyScheduleMethods"]

class LazyScheduleMethods:
    def normalize(self) -> Schedule: ...
    @staticmethod
    def replay(
        records: Iterable[Record], ops: Operation | Tensor | Sequence[Operation | Tensor],
        intrinsics: Mapping[str, TensorIntrin] | None = None,
    ) -> Schedule: ...
    @property
    def is_exact(self) -> Exactness: ...
    @property
    def plan(self) -> Plan: ...
    def as_python(self) -> str: ...
    def explain(self, stage: Stage | Tensor | Operation) -> Explanation: ...
    def options(self, stage: Stage | Tensor | Operation, target: str = "llvm") -> Options: ...
    def show(self, path: str | PathLike[str] | None = None, target: str = "llvm") -> Path | None: ...
    def verify(
        self, shapes: Mapping[Var | str, int] | Sequence[Mapping[Var | str, int]] | None = None, seed: int = 0,
        target: str = "llvm",
    ) -> Verification: ...
    def _repr_html_(self) -> str: ...
    def __str__(self) -> str: ...
