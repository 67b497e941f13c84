"""Every rule of the simplifier's tables is proved, and fires.

Rules for integers that wrap are checked for all values of 4-bit integers, signed and unsigned, and all constants.
Rules for arithmetic that does not wrap are proved by z3 over the integers, with small constants; a ramp stands for its
lane k. Float rules are checked for all float16 values.
"""

from __future__ import annotations

import itertools

import numpy
import pytest
import z3
from tilewright.ir import expr as E
from tilewright.ir.arith import Analyzer
from tilewright.ir.arith import pattern as P
from tilewright.ir.arith.rules import TABLES
from tilewright.ir.arith.rules.add import EXACT_SUM_RULES, SUM_RULES
from tilewright.ir.arith.rules.cast import cast_of_cast
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import BOOL, FLOAT32, INT32, DType
from tilewright.ir.ops import cast, const

WRAPPING = [(t, r) for t in ("integer", "integer-compare", "vector", "logic", "bool-compare") for r in TABLES[t].rules]
WRAPPING += [("sum", r) for r in SUM_RULES]
EXACT = [(t, r) for t in ("exact", "exact-compare", "exact-vector") for r in TABLES[t].rules]
EXACT += [("exact-sum", r) for r in EXACT_SUM_RULES]
FLOATS = [("float", r) for r in TABLES["float"].rules]
EVERY = list(dict.fromkeys(r for _, r in [*WRAPPING, *EXACT, *FLOATS] + [("", r) for r in TABLES["broadcast"].rules]))


def named(rules):
    return pytest.mark.parametrize("table, rule", rules, ids=[f"{t}:{r.name}" for t, r in rules])


def leaves(pattern, kind) -> list[str]:
    """Names of the variables of one kind in a pattern, in order."""
    if isinstance(pattern, kind):
        return [pattern.name]
    if isinstance(pattern, P.Operation):
        return list(dict.fromkeys(name for operand in pattern.operands for name in leaves(operand, kind)))
    return []


def conditions_of(pattern) -> set[str]:
    """Variables that stand where a bool is needed."""
    found = set()
    if isinstance(pattern, P.Operation):
        if pattern.kind in (E.Select, E.IfThenElse) and isinstance(pattern.operands[0], P.Wild):
            found.add(pattern.operands[0].name)
        if pattern.kind in (E.And, E.Or, E.Not):
            found |= {o.name for o in pattern.operands if isinstance(o, P.Wild)}
        found.update(*map(conditions_of, pattern.operands))
    return found


def test_names_are_unique() -> None:
    names = [rule.name for rule in EVERY]
    assert len(names) == len(set(names))


# Arithmetic that wraps


class Small:
    """4-bit integers as numpy arrays of wider ones."""

    def __init__(self, signed: bool) -> None:
        self.least, self.greatest = (-8, 7) if signed else (0, 15)

    def wrap(self, values):
        return ((values - self.least) & 15) + self.least

    def value(self, pattern, bound):
        if isinstance(pattern, (P.Wild, P.Constant)):
            return bound[pattern.name]
        if isinstance(pattern, (bool, int)):
            return pattern
        if isinstance(pattern, P.Number):
            return pattern.value
        folded = P.evaluate(pattern, bound)
        if folded is not None:
            return folded
        operands = [self.value(operand, bound) for operand in pattern.operands]
        found = OPERATORS[pattern.kind](*operands, bound.get("k"))
        return found if is_logical(pattern) else self.wrap(found)


def is_logical(pattern) -> bool:
    """Results that are a truth value or one of the operands: nothing to wrap."""
    return issubclass(pattern.kind, (E.CompareOp, E.LogicalOp, E.Not, E.Select, E.IfThenElse))


def floor(a, b, k):
    return numpy.where(b == 0, 0, a // numpy.where(b == 0, 1, b))


def trunc(a, b, k):
    return numpy.where((a < 0) == (b < 0), 1, -1) * floor(abs(a), abs(b), k)


OPERATORS = {
    E.Add: lambda a, b, k: a + b,
    E.Sub: lambda a, b, k: a - b,
    E.Mul: lambda a, b, k: a * b,
    E.FloorDiv: floor,
    E.TruncDiv: trunc,
    E.FloorMod: lambda a, b, k: numpy.where(b == 0, 0, a - b * floor(a, b, k)),
    E.Min: lambda a, b, k: numpy.minimum(a, b),
    E.TruncMod: lambda a, b, k: numpy.where(b == 0, 0, a - b * trunc(a, b, k)),
    E.Max: lambda a, b, k: numpy.maximum(a, b),
    E.LT: lambda a, b, k: a < b,
    E.LE: lambda a, b, k: a <= b,
    E.GT: lambda a, b, k: a > b,
    E.GE: lambda a, b, k: a >= b,
    E.EQ: lambda a, b, k: a == b,
    E.NE: lambda a, b, k: a != b,
    E.And: lambda a, b, k: (a != 0) & (b != 0),
    E.Or: lambda a, b, k: (a != 0) | (b != 0),
    E.Not: lambda a, k: a == 0,
    E.Select: lambda c, a, b, k: numpy.where(c, a, b),
    E.IfThenElse: lambda c, a, b, k: numpy.where(c, a, b),
    E.Cast: lambda condition, k: numpy.where(condition, 1, 0),
    E.Ramp: lambda base, stride, k: base + k * stride,
    E.Broadcast: lambda value, k: value,
}


def constant_choices(rule, least: int, greatest: int):
    """All constants that satisfy the rule's condition."""
    names = leaves(rule.pattern, P.Constant)
    for values in itertools.product(range(least, greatest + 1), repeat=len(names)):
        bound = dict(zip(names, values, strict=True))
        if rule.applies(bound):
            yield bound


def computed_fits(pattern, bound, least: int, greatest: int) -> bool:
    """Whether the constants that a result computes fit the dtype: the engine refuses the rule where they don't."""
    value = P.evaluate(pattern, bound) if isinstance(pattern, P.Pattern) else None
    if value is not None:
        return least <= value <= greatest
    return not isinstance(pattern, P.Operation) or all(
        computed_fits(o, bound, least, greatest) for o in pattern.operands
    )


@named(WRAPPING)
@pytest.mark.parametrize("signed", [True, False])
def test_rule_holds_for_all_small_integers(table: str, rule, signed: bool) -> None:
    small = Small(signed)
    names = leaves(rule.pattern, P.Wild)
    truths = set(names) if table in ("logic", "bool-compare") else conditions_of(rule.pattern)
    spaces = [range(2) if name in truths else range(small.least, small.greatest + 1) for name in names]
    points = numpy.array(list(itertools.product(*spaces, range(16) if table == "vector" else range(1)))).reshape(
        -1, len(names) + 1
    )
    wilds = {name: points[:, at] for at, name in enumerate([*names, "k"])}
    checked = 0
    for constants in constant_choices(rule, small.least, small.greatest):
        if not computed_fits(rule.result, constants, small.least, small.greatest):
            continue
        bound = {**wilds, **constants}
        holds = numpy.ones(len(points), dtype=bool)
        for condition in rule.given:
            holds &= small.value(condition, bound)
        left, right = small.value(rule.pattern, bound), small.value(rule.result, bound)
        wrong = holds & (left != right)
        assert not wrong.any(), (rule.name, constants, {n: v[wrong][0] for n, v in wilds.items()})
        checked += int(holds.sum())
    assert checked


# Arithmetic over the integers


def z3_value(pattern, bound):
    if isinstance(pattern, (P.Wild, P.Constant)):
        return bound[pattern.name]
    if isinstance(pattern, bool):
        return z3.BoolVal(pattern)
    if isinstance(pattern, int):
        return z3.IntVal(pattern)
    if isinstance(pattern, P.Number):
        return z3.BoolVal(pattern.value) if isinstance(pattern.value, bool) else z3.IntVal(pattern.value)
    operands = [z3_value(operand, bound) for operand in pattern.operands]
    return Z3_OPERATORS[pattern.kind](*operands, bound)


def z3_divide(a, b, bound):
    """Floor division as an unknown that satisfies its definition, so that a symbolic divisor stays first-order."""
    quotient, rest = z3.FreshInt("q"), z3.FreshInt("r")
    bound["facts"] += [
        z3.Implies(b == 0, z3.And(quotient == 0, rest == 0)),
        z3.Implies(b > 0, z3.And(a == b * quotient + rest, rest >= 0, rest < b)),
        z3.Implies(b < 0, z3.And(a == b * quotient + rest, b < rest, rest <= 0)),
    ]
    for divisor, other in bound["quotients"]:  # b * p and b * q are unrelated to z3, which does not multiply symbols
        for low, high, apart in itertools.product((quotient, other), (quotient, other), (1, 2)):
            if divisor.eq(b):
                bound["facts"].append(z3.Implies(z3.And(b > 0, low + apart <= high), b * low + b * apart <= b * high))
    bound["quotients"].append((b, quotient))
    return quotient, rest


Z3_OPERATORS = {
    E.Add: lambda a, b, _: a + b,
    E.Sub: lambda a, b, _: a - b,
    E.Mul: lambda a, b, _: a * b,
    E.FloorDiv: lambda a, b, bound: z3_divide(a, b, bound)[0],
    E.FloorMod: lambda a, b, bound: z3_divide(a, b, bound)[1],
    E.Min: lambda a, b, _: z3.If(a < b, a, b),
    E.Max: lambda a, b, _: z3.If(a > b, a, b),
    E.LT: lambda a, b, _: a < b,
    E.LE: lambda a, b, _: a <= b,
    E.GT: lambda a, b, _: a > b,
    E.GE: lambda a, b, _: a >= b,
    E.EQ: lambda a, b, _: a == b,
    E.NE: lambda a, b, _: a != b,
    E.Cast: lambda condition, _: z3.If(condition, 1, 0),
    E.Ramp: lambda base, stride, bound: base + bound["k"] * stride,
    E.Broadcast: lambda value, _: value,
}


@named(EXACT)
def test_rule_is_proved_over_the_integers(table: str, rule) -> None:
    proved = 0
    for constants in constant_choices(rule, -6, 12):
        bound = {name: z3.Int(name) for name in leaves(rule.pattern, P.Wild)}
        bound |= {name: z3.IntVal(value) for name, value in constants.items()}
        bound |= {"lanes": z3.Int("lanes"), "k": z3.Int("k"), "facts": [], "quotients": []}
        solver = z3.Solver()
        solver.set("timeout", 20_000)
        solver.add(bound["k"] >= 0, bound["k"] < bound["lanes"])
        solver.add(*[z3_value(condition, bound) for condition in rule.given])
        different = z3_value(rule.pattern, bound) != z3_value(rule.result, bound)
        solver.add(different, *bound["facts"])
        assert solver.check() == z3.unsat, (rule.name, constants)
        proved += 1
    assert proved


# Vectors: an operator on broadcasts is lane by lane the same operator


@pytest.mark.parametrize("rule", TABLES["broadcast"].rules, ids=lambda rule: rule.name)
def test_broadcast_rule_is_the_same_in_each_lane(rule) -> None:
    def lane(pattern):
        if isinstance(pattern, P.Operation):
            operands = tuple(lane(operand) for operand in pattern.operands)
            return operands[0] if pattern.kind is E.Broadcast else P.Operation(pattern.kind, operands)
        return pattern

    assert lane(rule.pattern) == lane(rule.result)
    assert rule.when is None
    assert not rule.given


# Floats


@named(FLOATS)
def test_float_rule_holds_for_every_half(table: str, rule) -> None:
    with numpy.errstate(invalid="ignore"):
        _check_halves(rule)


def _check_halves(rule) -> None:
    every = numpy.arange(1 << 16, dtype=numpy.uint16).view(numpy.float16)
    names = leaves(rule.pattern, P.Wild)
    bound = {name: numpy.roll(every, 7919 * at) for at, name in enumerate(names)}
    for name in conditions_of(rule.pattern):
        bound[name] = bound[name] > 0

    def value(pattern):
        if isinstance(pattern, P.Wild):
            return bound[pattern.name]
        if isinstance(pattern, (float, P.Number)):
            return numpy.float16(pattern if isinstance(pattern, float) else pattern.value)
        operands = [value(operand) for operand in pattern.operands]
        return {
            E.Mul: numpy.multiply,
            E.Div: numpy.divide,
            E.Add: numpy.add,
            E.Sub: numpy.subtract,
            E.Select: numpy.where,
            E.IfThenElse: numpy.where,
            E.Not: numpy.logical_not,
        }[pattern.kind](*operands)

    left, right = value(rule.pattern), value(rule.result)
    both_nan = numpy.isnan(left) & numpy.isnan(right)
    same = left.view(numpy.uint16) == right.view(numpy.uint16)
    assert (same | both_nan).all(), every[~(same | both_nan)][:5]


# Evaluation: what a rule leaves is evaluated only where it was before


CHOICES = [r for r in EVERY if any(k in str(r.pattern) + str(r.result) for k in ("Select", "IfThenElse"))]


@pytest.mark.parametrize("rule", CHOICES, ids=lambda rule: rule.name)
def test_choice_evaluates_nothing_more(rule) -> None:
    names = leaves(rule.pattern, P.Wild)

    def traps(pattern, truth, trap) -> bool:
        if isinstance(pattern, P.Wild):
            return trap[pattern.name]
        if not isinstance(pattern, P.Operation):
            return False
        if pattern.kind is E.IfThenElse:
            condition = pattern.operands[0]
            holds = truth[condition.name] if isinstance(condition, P.Wild) else not truth[condition.operands[0].name]
            return traps(condition, truth, trap) or traps(pattern.operands[1 if holds else 2], truth, trap)
        return any(traps(operand, truth, trap) for operand in pattern.operands)

    for truths in itertools.product([False, True], repeat=len(names)):
        for flags in itertools.product([False, True], repeat=len(names)):
            truth, trap = dict(zip(names, truths, strict=True)), dict(zip(names, flags, strict=True))
            assert not traps(rule.result, truth, trap) or traps(rule.pattern, truth, trap), (rule.name, truth, trap)


# Casts


INTEGERS = [DType(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")]
FLOAT_TYPES = [DType(name) for name in ("float16", "bfloat16", "float32", "float64")]


def test_cast_of_cast_keeps_every_value() -> None:
    merged = 0
    for source, middle, target in itertools.product(INTEGERS + FLOAT_TYPES, repeat=3):
        if not cast_of_cast(source, middle, target):
            continue
        merged += 1
        if source.is_float:
            values = [
                0.0,
                -0.0,
                0.5,
                -1.5,
                3.7,
                1000.5,
                -70000.0,
                1e9,
                -1e30,
                float("inf"),
                float("-inf"),
                float("nan"),
            ]
        else:
            near = {sign * (1 << bit) + d for bit in range(0, 65, 4) for d in (-1, 0, 1) for sign in (1, -1)}
            values = [value for value in near if source.least <= value <= source.greatest]
        for value in values:
            start = const(value, source)
            once, twice = cast(start, target), cast(cast(start, middle), target)
            assert repr(once.value) == repr(twice.value), (source, middle, target, value)
    assert merged > 100


# Firing


SURROUNDINGS = ("free", "positive", "around", "negative", "between", "multiple", "load", "vector")
VECTORS = ("integer", "integer-compare", "logic", "bool-compare", "float", "broadcast")


def instances(table: str, rule):
    """Expressions that the rule's pattern matches, over leaves of the kinds that the table serves: variables without
    bounds, above, around and below 0, between symbols, loads, and vectors."""
    names = leaves(rule.pattern, P.Wild)
    bools = set(names) if table in ("logic", "bool-compare") else conditions_of(rule.pattern)
    dtype = FLOAT32 if table == "float" else BOOL if table in ("logic", "bool-compare") else INT32
    for seed, kind in itertools.product(range(12), SURROUNDINGS):
        if kind == "vector" and table not in VECTORS:
            continue
        lanes = 4 if kind == "vector" else 1
        rng = numpy.random.default_rng(seed)
        analyzer = Analyzer()
        bound = {}
        for name in names:
            of = (BOOL if name in bools else dtype).with_lanes(lanes)
            if kind in ("load", "vector"):
                index = const(0) if lanes == 1 else E.Ramp(const(0), const(1), lanes)
                bound[name] = E.BufferLoad(Buffer(name, (const(4),), of.element), (index,))
            else:
                bound[name] = E.Var(name, of)
        if kind in ("positive", "around", "negative"):
            for var in bound.values():
                if var.dtype == INT32:
                    lo = {"positive": 1, "around": -3, "negative": -60}[kind] + int(rng.integers(3))
                    analyzer.bind(var, (lo, lo + int(rng.integers(1, 40))))
        if kind == "between" and "y" in bound:
            ends = (const(0), bound["y"] - 30) if seed % 2 else (bound["y"] + 1, const(5))
            analyzer.bind(bound["x"], E.Range(*ends))
        if kind == "multiple" and bound["x"].dtype == INT32:
            bound["x"] = bound["x"] * 2520
        constants = list(constant_choices(rule, -1 if seed % 2 else 1, 9))
        if constants:
            bound |= constants[int(rng.integers(len(constants)))]
        yield analyzer, made(rule.pattern, bound, dtype.with_lanes(lanes), 4)


def made(pattern, bound, dtype, lanes):
    if isinstance(pattern, P.Wild):
        return bound[pattern.name]
    if isinstance(pattern, P.Constant):
        return const(bound[pattern.name], dtype)
    if isinstance(pattern, P.Number):
        return const(pattern.value, BOOL if isinstance(pattern.value, bool) else dtype)
    operands = [made(operand, bound, dtype, lanes) for operand in pattern.operands]
    if pattern.kind is E.Broadcast and operands[0].dtype.lanes > 1:
        operands[0] = E.Shuffle((operands[0],), (0,))
    if pattern.kind is E.Cast:
        return E.Cast(operands[0], dtype)
    return pattern.kind(*operands, lanes) if pattern.lanes else pattern.kind(*operands)


@pytest.fixture
def fired():
    seen: list[str] = []
    watcher = lambda rule: seen.append(rule.name)
    P.WATCHERS.append(watcher)
    yield seen
    P.WATCHERS.remove(watcher)


TABLED = [(t, r) for t, table in TABLES.items() for r in table.rules] + [
    ("sum", r) for r in (*SUM_RULES, *EXACT_SUM_RULES)
]


@named(TABLED)
def test_rule_fires(table: str, rule, fired: list[str]) -> None:
    for analyzer, expr in instances(table, rule):
        analyzer.simplify(expr)
        if rule.name in fired:
            return
    pytest.fail(f"{rule.name} never fired: something before it decides, so it may go")
