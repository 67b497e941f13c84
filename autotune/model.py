"""Cost models: trained on what was measured, they order what was not.

RankingModel learns by pairs which of two candidates is faster (xgboost). Where xgboost is not installed, PlainModel
stands in: a ridge regression on the features and their squares. Scores are higher for faster candidates, and mean
nothing else.
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Model", "PlainModel", "RankingModel", "make_model"]

Matrix = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float64]

_PAIRS = 8
_ROUNDS = 40
_SETTINGS: dict[str, Any] = {
    "objective": "rank:pairwise", "lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": _PAIRS,
    "lambdarank_normalization": True, "max_depth": 6, "eta": 0.2, "min_child_weight": 0.1, "lambda": 0.1, "nthread": 1,
    "tree_method": "hist", "seed": 0,
}


class Model(Protocol):
    """What the search asks."""

    name: str

    def fit(self, rows: Matrix, seconds: Vector) -> None:
        """Learns from candidates; seconds: inf for those that failed."""

    def score(self, rows: Matrix) -> Vector:
        """A score for each candidate."""
        ...


class RankingModel:
    """Gradient-boosted trees, trained to order pairs."""

    name = "xgboost"

    def __init__(self) -> None:
        self._booster: Any = None

    def fit(self, rows: Matrix, seconds: Vector) -> None:
        import xgboost

        speed = np.log2(1 + 100 * np.nanmin(seconds) / seconds) if np.isfinite(seconds).any() else np.zeros(len(seconds))
        data: Any = xgboost.DMatrix(rows, label=speed)
        data.set_group([len(rows)])
        self._booster = xgboost.train(_SETTINGS, data, num_boost_round=_ROUNDS)

    def score(self, rows: Matrix) -> Vector:
        import xgboost

        return np.asarray(self._booster.predict(xgboost.DMatrix(rows)), np.float64)


class PlainModel:
    """Ridge regression of the logarithm of the time."""

    name = "ridge regression"

    def __init__(self) -> None:
        self._weights: Vector = np.zeros(1)
        self._mean = self._scale = np.zeros(1)

    def fit(self, rows: Matrix, seconds: Vector) -> None:
        worst = seconds[np.isfinite(seconds)].max(initial=1.0)
        target = -np.log2(np.where(np.isfinite(seconds), seconds, worst))
        self._mean, self._scale = rows.mean(0), rows.std(0) + 1e-6
        expanded = self._expand(rows)
        gram = expanded.T @ expanded + 3.0 * np.eye(expanded.shape[1])
        self._weights = np.asarray(np.linalg.solve(gram, expanded.T @ (target - target.mean())), np.float64)

    def score(self, rows: Matrix) -> Vector:
        return self._expand(rows) @ self._weights

    def _expand(self, rows: Matrix) -> Vector:
        normal = np.clip((rows.astype(np.float64) - self._mean) / self._scale, -4, 4)
        return np.hstack([normal, normal * normal, np.ones((len(rows), 1))])


def make_model() -> Model:
    """The ranking model; where xgboost is not installed, the plain one, and a warning that says so."""
    if importlib.util.find_spec("xgboost") is not None:
        return RankingModel()
    warnings.warn(
        "xgboost is not installed: the tuner orders its candidates by ridge regression, which needs more trials to find "
        "schedules as good; pip install 'tilewright[tune]' brings xgboost", stacklevel=2)
    return PlainModel()
