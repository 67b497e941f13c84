"""tvm.auto_scheduler.search_policy and cost_model: which of autotune's searches runs, and what it knows beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

__all__ = ["EmptyPolicy", "PreloadMeasuredStates", "RandomModel", "SketchPolicy", "XGBModel"]

File = str | PathLike[str]


class PreloadMeasuredStates:
    """The trials of a log are known: the search learns from them and measures none of them again."""

    def __init__(self, filename: File) -> None:
        self.filename = filename


class XGBModel:
    """Autotune's cost model. num_warmup_sample, seed and the like are taken, without effect."""

    search = "evolution"

    def __init__(self, *_: object, **__: object) -> None:
        self.files: list[File] = []

    def update_from_file(self, file_name: File, n_lines: int | None = None) -> None:
        """Learns from the trials of a log."""
        del n_lines
        self.files.append(file_name)


class RandomModel(XGBModel):
    """No model: candidates are drawn evenly."""

    search = "random"


class SketchPolicy:
    """Search of a task. program_cost_model: XGBModel(), or RandomModel() for candidates drawn evenly. seed: of what is
    drawn. params chose among TVM's ways and are taken, without effect."""

    def __init__(
        self,
        task: object,
        program_cost_model: XGBModel | None = None,
        params: object = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[PreloadMeasuredStates] = (),
    ) -> None:
        del params
        self.task, self.verbose, self.seed = task, verbose, seed or 0
        self.cost_model = program_cost_model if program_cost_model is not None else XGBModel()
        self.files = [*self.cost_model.files, *(callback.filename for callback in init_search_callbacks or ())]


class EmptyPolicy(SketchPolicy):
    """Candidates drawn evenly, without a model."""

    def __init__(self, task: object, init_search_callbacks: Sequence[PreloadMeasuredStates] = ()) -> None:
        super().__init__(task, RandomModel(), init_search_callbacks=init_search_callbacks)
