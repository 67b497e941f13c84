"""te's names for code of ours that is written for expressions and tensors alike: here what functions of elements give is Any. The
face (te/__init__.pyi) tells of which operands it is an expression and of which a tensor, which operands of any kind leave open."""

from __future__ import annotations

from ..ir.expr import Expr as Expr
from ..ir.expr import IterVar as IterVar
from ..ir.expr import SizeVar as SizeVar
from ..ir.expr import Var as Var
from .axis import *  # noqa: F403
from .boundaries import *  # noqa: F403
from .compute import *  # noqa: F403
from .constant import *  # noqa: F403
from .extern import *  # noqa: F403
from .extern_calls import *  # noqa: F403
from .intrin_declaration import *  # noqa: F403
from .math import *  # noqa: F403
from .operation import *  # noqa: F403
from .reduce import *  # noqa: F403
from .scan import *  # noqa: F403
from .tag import *  # noqa: F403
from .tensor import *  # noqa: F403
from .tensor_compute import *  # noqa: F403
from .tensor_intrin import *  # noqa: F403
from .tf32 import *  # noqa: F403
from .trace import *  # noqa: F403
