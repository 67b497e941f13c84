"""tvm.error."""

from ...errors import InternalError
from ...errors import TilewrightError as TVMError

__all__ = ["InternalError", "TVMError"]
