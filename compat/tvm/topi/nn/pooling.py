"""topi.nn.pooling."""

from .....topi.nn import adaptive_pool, global_pool, pool1d, pool2d, pool3d
from . import pool

__all__ = ["adaptive_pool", "global_pool", "pool", "pool1d", "pool2d", "pool3d"]
