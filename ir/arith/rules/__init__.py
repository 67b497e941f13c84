"""The rule tables, one file an operator family, and which of them a node is looked up in."""

from __future__ import annotations

from ...expr import CompareOp, Expr
from ..pattern import RuleTable
from .compare import BOOL_COMPARE_RULES, COMPARE_RULES, EXACT_COMPARE_RULES
from .div import DIV_RULES, EXACT_DIV_RULES
from .float import FLOAT_RULES
from .logic import LOGIC_RULES
from .minmax import EXACT_MINMAX_RULES, MINMAX_RULES
from .mod import EXACT_MOD_RULES, MOD_RULES
from .select import BOOL_CHOICE_RULES, CHOICE_RULES, INTEGER_CHOICE_RULES
from .vector import BROADCAST_RULES, EXACT_VECTOR_RULES, VECTOR_RULES

__all__ = ["TABLES", "tables_for"]

INTEGER = RuleTable(DIV_RULES, MOD_RULES, MINMAX_RULES, CHOICE_RULES, INTEGER_CHOICE_RULES)
EXACT = RuleTable(EXACT_DIV_RULES, EXACT_MOD_RULES, EXACT_MINMAX_RULES, exact=True)
INTEGER_COMPARE = RuleTable(COMPARE_RULES)
EXACT_COMPARE = RuleTable(EXACT_COMPARE_RULES, exact=True)
FLOAT = RuleTable(FLOAT_RULES, CHOICE_RULES)
LOGIC = RuleTable(LOGIC_RULES, CHOICE_RULES, BOOL_CHOICE_RULES)
BOOL_COMPARE = RuleTable(BOOL_COMPARE_RULES)
BROADCAST = RuleTable(BROADCAST_RULES)
VECTOR = RuleTable(VECTOR_RULES)
EXACT_VECTOR = RuleTable(EXACT_VECTOR_RULES, exact=True)

TABLES = {
    "integer": INTEGER,
    "exact": EXACT,
    "integer-compare": INTEGER_COMPARE,
    "exact-compare": EXACT_COMPARE,
    "float": FLOAT,
    "logic": LOGIC,
    "bool-compare": BOOL_COMPARE,
    "broadcast": BROADCAST,
    "vector": VECTOR,
    "exact-vector": EXACT_VECTOR,
}


def tables_for(node: Expr) -> tuple[RuleTable, ...]:
    """The tables whose rules hold for `node`, by the kind and lanes of its operands."""
    compared = isinstance(node, CompareOp)
    dtype = node.a.dtype if compared else node.dtype
    kind = "integer" if dtype.is_integer else "float" if dtype.is_float else "bool" if dtype.is_bool else "other"
    return _TABLES_OF.get((kind if dtype.lanes == 1 else kind + "s", compared), ())


_TABLES_OF: dict[tuple[str, bool], tuple[RuleTable, ...]] = {
    ("integer", False): (INTEGER, EXACT),
    ("integer", True): (INTEGER_COMPARE, EXACT_COMPARE),
    ("integers", False): (BROADCAST, VECTOR, INTEGER, EXACT_VECTOR),
    ("integers", True): (BROADCAST, INTEGER_COMPARE, EXACT_VECTOR),
    ("float", False): (FLOAT,),
    ("floats", False): (BROADCAST, FLOAT),
    ("floats", True): (BROADCAST,),
    ("bool", False): (LOGIC,),
    ("bools", False): (BROADCAST, LOGIC),
    ("bool", True): (BOOL_COMPARE,),
    ("bools", True): (BROADCAST, BOOL_COMPARE),
}
