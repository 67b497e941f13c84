"""Cost models: trained on what was measured, they order what was not.

RankingModel learns by pairs which of two candidates of one function is faster (xgboost), from this function's trials and from
others'. Where xgboost is not installed, PlainModel stands in: ridge regressions on the features and their squares. Scores are
higher for faster candidates, and mean nothing else; a doubt is how far several models, each trained on a part, disagree.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from importlib import import_module
from threading import Thread
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..base.errors import PerformanceWarning, user_source, warn_user

__all__ = ["Measurements", "Model", "PlainModel", "RankingModel", "make_model"]

Matrix = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float64]

_PAIRS = 8
_ROUNDS = 24
_MEMBERS = 3
_SETTINGS: dict[str, Any] = {
    "objective": "rank:pairwise",
    "lambdarank_pair_method": "mean",
    "lambdarank_num_pair_per_sample": _PAIRS,
    "lambdarank_normalization": True,
    "max_depth": 5,
    "eta": 0.25,
    "min_child_weight": 0.1,
    "lambda": 0.1,
    "nthread": 1,
    "tree_method": "hist",
    "subsample": 0.8,
    "colsample_bytree": 0.6,
}


class Measurements(NamedTuple):
    """Measurements of one function. rows: the features of candidates; seconds: inf for those that failed."""

    rows: Matrix
    seconds: Vector

    @classmethod
    def of(cls, measured: Iterable[tuple[npt.NDArray[np.float32], float | None]]) -> Measurements | None:
        """Features of some candidates; None where there is none."""
        pairs = list(measured)
        if not pairs:
            return None
        return cls(
            np.stack([row for row, _ in pairs]),
            np.array([np.inf if seconds is None else seconds for _, seconds in pairs]),
        )

    @property
    def speeds(self) -> Vector:
        """Return speeds from 0 for what failed to the greatest for the fastest, on a scale that all functions share."""
        if not np.isfinite(self.seconds).any():
            return np.zeros(len(self.seconds))
        return np.log2(1 + 100 * self.seconds.min() / self.seconds)


class Model(Protocol):
    """Interface of cost models to the search."""

    name: str

    def prepare(self) -> None:
        """Called where there is time: what takes long to begin with is begun."""

    def fit(self, measured: Sequence[Measurements]) -> None:
        """Learns from candidates of some functions, the last of which is the one that is tuned."""

    def score(self, rows: Matrix) -> tuple[Vector, Vector]:
        """A score for each candidate, and how far it is in doubt."""
        ...


class RankingModel:
    """Gradient-boosted trees, trained to order pairs."""

    name = "xgboost"

    def __init__(self) -> None:
        self._boosters: list[Any] = []

    def prepare(self) -> None:
        """xgboost brings scikit-learn and more: they are imported while processes start."""
        Thread(target=import_module, args=("xgboost",), daemon=True).start()

    def fit(self, measured: Sequence[Measurements]) -> None:
        import xgboost

        data: Any = xgboost.DMatrix(
            np.concatenate([each.rows for each in measured]), label=np.concatenate([each.speeds for each in measured])
        )
        data.set_group([len(each.rows) for each in measured])
        self._boosters = [
            xgboost.train(_SETTINGS | {"seed": seed}, data, num_boost_round=_ROUNDS) for seed in range(_MEMBERS)
        ]

    def score(self, rows: Matrix) -> tuple[Vector, Vector]:
        import xgboost

        data = xgboost.DMatrix(rows)
        scores = np.stack([np.asarray(booster.predict(data), np.float64) for booster in self._boosters])
        return scores.mean(0), scores.std(0)


class PlainModel:
    """Ridge regressions of speeds."""

    name = "ridge regression"

    def __init__(self) -> None:
        self._weights: list[Vector] = []
        self._mean = self._scale = np.zeros(1)

    def prepare(self) -> None:
        """Nothing takes long."""

    def fit(self, measured: Sequence[Measurements]) -> None:
        rows = np.concatenate([each.rows for each in measured])
        speeds = np.concatenate([each.speeds - each.speeds.mean() for each in measured])
        self._mean, self._scale = rows.mean(0), rows.std(0) + 1e-6
        expanded = self._expand(rows)
        self._weights = []
        for member in range(_MEMBERS):
            part = np.arange(len(rows)) % (_MEMBERS + 1) != member
            gram = expanded[part].T @ expanded[part] + 3.0 * np.eye(expanded.shape[1])
            self._weights.append(np.asarray(np.linalg.solve(gram, expanded[part].T @ speeds[part]), np.float64))

    def score(self, rows: Matrix) -> tuple[Vector, Vector]:
        scores = np.stack([self._expand(rows) @ weights for weights in self._weights])
        return scores.mean(0), scores.std(0)

    def _expand(self, rows: Matrix) -> Vector:
        normal = np.clip((rows.astype(np.float64) - self._mean) / self._scale, -4, 4)
        return np.hstack([normal, normal * normal, np.ones((len(rows), 1))])


def make_model() -> Model:
    """The ranking model; where xgboost is not installed, the plain one, and a warning that says so."""
    if importlib.util.find_spec("xgboost") is not None:
        return RankingModel()
    warn_user(
        user_source(),
        "xgboost is not installed: the tuner orders its candidates by ridge regression, which needs more trials to find "
        "schedules as good; pip install 'tilewright[tune]' brings xgboost",
        PerformanceWarning,
    )
    return PlainModel()
