"""tvm.error."""

from ...base.errors import InternalError
from ...base.errors import TilewrightError as TVMError

__all__ = ["InternalError", "TVMError"]
