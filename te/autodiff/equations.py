"""Linear equations over iteration variables: which element reads which, turned round.

The adjoint of `A` in `C[y] = sum(A[y * 2 + k] * W[k], k)` sums over the (y, k) with y * 2 + k == j. Solving that for k
leaves one variable free, y, and k = j - 2 * y. The method is Gaussian elimination over the integers: an equation is
divided by the common divisor of its coefficients (a condition on its right side), a variable with coefficient 1 is
eliminated, and where there is none a change of variables makes the coefficients smaller, as Euclid's algorithm does
(W. Pugh, "The Omega test", 1991, section 2.2).

Index equations whose coefficients are symbols: tensors of symbolic shape that are flattened, cut and put together.

i * n + j == c, where 0 <= j < n      →      i == c // n and j == c % n
e // n == c                           →      0 <= e - n * c < n
e % n == r, where e // n == c         →      e == n * c + r
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from ...ir import ops
from ...ir.analysis.boxes import Bound
from ...ir.arith.analyzer import Analyzer
from ...ir.arith.linear import LinearForm
from ...ir.dtype import DType
from ...ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Cast,
    CompareOp,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Mul,
    ProducerLoad,
    Var,
)
from ...ir.ops import integer_value
from ...ir.visit import post_order

__all__ = ["System", "equate_symbolic", "expression", "reads_tensors"]


def expression(form: LinearForm) -> Expr:
    """A form over unknowns as an expression. Its constant is an expression without unknowns."""
    value: Expr = form.const
    # coefficients are numbers, the constant may be any expression without unknowns
    for var, coeff in form.coeffs.items():
        value = ops.add(value, ops.multiply(var, coeff))
    return value


class System:
    """Equations and conditions over unknowns; `solve` eliminates what the equations determine.

    After it `free` holds the unknowns that are left, `solved` gives each other one over the free ones, `bounds` are
    the conditions in linear form, `guards` those on what is known alone, and `opaque` those that are not linear, over
    the unknowns as they were.
    """

    def __init__(self, analyzer: Analyzer, unknowns: Sequence[IterVar]) -> None:
        self.analyzer = analyzer
        self.free: dict[Var, None] = dict.fromkeys(unknowns)
        self.solved: dict[Var, LinearForm] = {}
        self.bounds: list[Bound] = []
        self.guards: list[Expr] = []
        self.opaque: list[Expr] = []
        self.nested: list[IterVar] = []
        """Unknowns whose domain depends on others in a way that is not linear, or reads tensors."""
        self.quotients: dict[tuple[Expr, Expr], Expr] = {}
        """What a quotient by a symbol is known to be."""
        self._unknowns: set[Var] = set(unknowns)
        self._equations: list[LinearForm] = []
        self._left: list[tuple[Expr, Expr]] = []
        """Equations that are not linear, so far."""
        self._quotients: dict[tuple[Expr, int], Var] = {}
        for var in unknowns:
            self._add_domain(var)

    def _add_domain(self, var: IterVar) -> None:
        assert var.dom is not None
        begin, extent = self.affine(var.dom.begin), self.affine(var.dom.extent)
        # bounds that are data cannot be solved for
        if begin is None or extent is None or any(map(reads_tensors, (begin.const, extent.const))):
            self.nested.append(var)
            return
        own = LinearForm({var: 1}, ops.const(0, var.dtype)).plus(begin, -1)
        if not extent.coeffs:
            width = self.analyzer.simplify(ops.subtract(extent.const, 1))
            # one iteration: its variable is known
            if isinstance(width, IntImm) and width.value == 0 and not begin.coeffs:
                self._eliminate(var, begin)
                return
            self.bounds.append(Bound(own, width))
        else:
            self.bounds.append(Bound(own))
            self.bounds.append(Bound(extent.plus(own, -1).shift(-1)))  # extent - 1 - var >= 0

    def knows(self, expr: Expr) -> bool:
        """Return whether no unknown occurs in an expression."""
        return not any(node in self._unknowns for node in post_order(expr) if isinstance(node, Var))

    def affine(self, expr: Expr) -> LinearForm | None:
        """An integer expression in linear form, or None. Quotients and remainders by constants become unknowns of
        their own: q = e // c means 0 <= e - c * q < c."""
        form = self.analyzer.linear(expr)
        if form is None:
            # what has no unknown is a constant, however it looks
            return LinearForm({}, expr) if expr.dtype.is_integer and self.knows(expr) else None
        total = LinearForm({}, ops.const(form.const, expr.dtype))
        for atom, coeff in form.coeffs.items():
            part = self._atom(atom)
            if part is None:
                return None
            total = total.plus(part, coeff)
        return total

    def _atom(self, atom: Expr) -> LinearForm | None:
        if isinstance(atom, Var) and atom in self._unknowns:
            return self.solved.get(atom) or LinearForm({atom: 1}, ops.const(0, atom.dtype))
        if self.knows(atom):
            return LinearForm({}, atom)
        if isinstance(atom, Cast) and atom.value.dtype.is_integer and self.analyzer.linear(atom.value) is not None:
            inner = self.affine(atom.value)  # of int32 in int64: loop arithmetic does not overflow
            return inner if atom.dtype.bits >= atom.value.dtype.bits else None  # a narrowing cast may wrap
        if isinstance(atom, (FloorDiv, FloorMod)) and isinstance(atom.b, IntImm) and atom.b.value > 0:
            divided = self.affine(atom.a)
            # remainders of nested domains are not told in linear form
            if divided is None or self._find_nested(divided):
                return None
            quotient = self._quotient(atom.a, divided, atom.b.value)
            # e % c = e - c * (e // c)
            return quotient if isinstance(atom, FloorDiv) else divided.plus(quotient, -atom.b.value)
        return None

    def _quotient(self, numerator: Expr, form: LinearForm, divisor: int) -> LinearForm:
        key = (numerator, divisor)  # the analyzer gives equal expressions as one object
        var = self._quotients.get(key)
        if var is None:
            var = self._quotients[key] = self._fresh("q", numerator)
            own = LinearForm({var: 1}, ops.const(0, var.dtype))
            # 0 <= e - c q <= c - 1
            self.bounds.append(Bound(form.plus(own, -divisor), ops.const(divisor - 1, var.dtype)))
        return self.solved.get(var) or LinearForm({var: 1}, ops.const(0, var.dtype))

    def _fresh(self, name: str, like: Expr) -> Var:
        var = Var(name, like.dtype)
        self._unknowns.add(var)
        self.free[var] = None
        return var

    def equate(self, a: Expr, b: Expr) -> None:
        """Require a == b."""
        left, right = self.affine(a), self.affine(b)
        if left is not None and right is not None:  # both sides linear
            self._equations.append(right.plus(left, -1))
        elif right is None or right.coeffs or not equate_symbolic(self, a, b):
            self._left.append((a, b))

    def within(self, form: LinearForm, begin: Expr, width: Expr) -> None:
        """Require begin <= form <= begin + width."""
        self.bounds.append(Bound(form.plus(LinearForm({}, begin), -1), width))

    def require(self, condition: Expr) -> None:
        """Require a condition that reads no tensor and is not a conjunction."""
        if isinstance(condition, EQ) and condition.a.dtype.is_integer:
            self.equate(condition.a, condition.b)
        # what is not linear is tested instead of solved
        elif not (isinstance(condition, CompareOp) and condition.a.dtype.is_integer and self._order(condition)):
            self.opaque.append(condition)

    def _order(self, node: CompareOp) -> bool:
        """Take in a comparison of integers by size, if it is linear."""
        if not isinstance(node, (LT, LE, GT, GE)):
            return False
        small, great = (node.a, node.b) if isinstance(node, (LT, LE)) else (node.b, node.a)
        a, b = self.affine(small), self.affine(great)
        if a is None or b is None:
            return False
        difference = b.plus(a, -1)
        # a < b is b - a - 1 >= 0
        self.bounds.append(Bound(difference.shift(-1) if isinstance(node, (LT, GT)) else difference))
        return True

    def solve(self) -> None:
        """Eliminate the unknowns that the equations determine."""
        count = 0
        while self._left and len(self._left) != count:  # a remainder tells something once the quotient is known
            left, self._left = self._left, []
            count = len(left)
            for a, b in left:
                self.equate(a, b)
        self.opaque += (ops.equal(a, b) for a, b in self._left)
        for equation in self._equations:
            form = self.reduce(equation)
            # a nested unknown has to be determined exactly
            if any(abs(form.coeffs[var]) != 1 for var in self._find_nested(form)):
                self.opaque.append(ops.equal(expression(form), 0))
                continue
            while form.coeffs:
                common = gcd(*form.coeffs.values())
                if common > 1:
                    # without a solution unless the right side is divisible
                    self.guards.append(ops.equal(ops.floormod(form.const, common), 0))
                    form = LinearForm(
                        {v: c // common for v, c in form.coeffs.items()}, ops.floordiv(form.const, common)
                    )
                pivot = self._pivot(form)
                if pivot is not None:
                    sign = form.coeffs[pivot]
                    others = form.without(pivot)
                    self._eliminate(pivot, LinearForm({}, ops.const(0, form.const.dtype)).plus(others, -sign))
                    break
                form = self._smaller(form)
            else:
                self.guards.append(ops.equal(form.const, 0))  # nothing unknown is left: a condition on what is known
        self.bounds = [Bound(self.reduce(bound.form), bound.width) for bound in self.bounds]

    def _pivot(self, form: LinearForm) -> Var | None:
        """Return what to eliminate: of the unknowns with coefficient 1 one whose domain depends on others, or that was made
        here, or else the one that runs farthest (a symbolic extent counts as endless; of equals a data axis)."""
        units = self._find_nested(form) or [var for var, coeff in form.coeffs.items() if abs(coeff) == 1]

        def rank(var: Var) -> tuple[float, bool]:
            if not isinstance(var, IterVar) or var.dom is None:
                return (float("inf"), True)
            extent = var.dom.extent
            return (integer_value(extent, 1e30), var.kind != "reduce")  # a symbolic extent counts as endless

        return max(units, key=rank, default=None)

    def _find_nested(self, form: LinearForm) -> list[Var]:
        return [var for var in self.nested if var in form.coeffs]

    def _smaller(self, form: LinearForm) -> LinearForm:
        """The same equation after a change of variables, with coefficients reduced by the least of them."""
        least = min(form.coeffs, key=lambda var: abs(form.coeffs[var]))
        divisor = form.coeffs[least]  # Euclid's step: coefficients become remainders
        unknown = self._fresh("t", least)
        value = LinearForm({unknown: 1}, ops.const(0, unknown.dtype))
        for var, coeff in form.coeffs.items():
            if var is not least and coeff // divisor:
                value = value.plus(LinearForm({var: 1}, ops.const(0, var.dtype)), -(coeff // divisor))
        self._eliminate(least, value)
        return form.replaced(least, value)

    def _eliminate(self, var: Var, value: LinearForm) -> None:
        del self.free[var]
        # what was solved before may refer to it
        self.solved = {other: form.replaced(var, value) for other, form in self.solved.items()}
        self.solved[var] = value

    def reduce(self, form: LinearForm) -> LinearForm:
        """A form over the free unknowns alone."""
        for var in list(form.coeffs):
            value = self.solved.get(var)
            if value is not None:
                form = form.replaced(var, value)
        return form


def reads_tensors(expr: Expr) -> bool:
    """Return whether an expression reads a tensor."""
    return any(isinstance(node, ProducerLoad) for node in post_order(expr))


def equate_symbolic(system: System, a: Expr, b: Expr) -> bool:
    """Put `a == b`, in which `a` is not linear in the system's unknowns, into linear form; False where that fails.

    b: free of unknowns.
    """
    index = system.analyzer.simplify(a)
    if isinstance(index, FloorDiv) and system.knows(index.b) and _positive(system, index.b, index.a):
        return _quotient(system, index, b)
    if isinstance(index, FloorMod):
        quotient = system.quotients.get((index.a, index.b))
        if quotient is None:
            return False
        system.guards += [ops.compare(GE, b, 0), ops.compare(LT, b, index.b)]
        system.equate(index.a, ops.add(ops.multiply(quotient, index.b), b))
        return True
    return _digits(system, index, b)


def _quotient(system: System, index: FloorDiv, value: Expr) -> bool:
    form = system.affine(index.a)
    system.quotients[(index.a, index.b)] = value
    if form is None:  # a quotient of a quotient: what the remainder tells may do
        system.opaque.append(ops.equal(index, value))
    else:
        system.within(form, ops.multiply(index.b, value), ops.subtract(index.b, 1))
    return True


def _positive(system: System, divisor: Expr, numerator: Expr) -> bool:
    """Return whether a divisor is above 0 whenever the numerator is taken at all: where the loops of its unknowns are empty for
    a divisor of 0, that is no matter."""
    if system.analyzer.can_prove(ops.compare(LT, ops.const(0, divisor.dtype), divisor)):
        return True
    if not system.analyzer.can_prove(ops.compare(GE, divisor, 0)):
        return False
    loops = [node for node in post_order(numerator) if isinstance(node, IterVar) and node.dom is not None]
    return any(divisor in _factors(system.analyzer.simplify(axis.dom.extent)) for axis in loops if axis.dom is not None)


def _digits(system: System, index: Expr, value: Expr) -> bool:
    """Split at n: n * high + low == value with 0 <= low < n."""
    form = system.analyzer.linear(index)
    if form is None:
        return False
    for base, high, low in _splits(system, form, index.dtype):
        if system.analyzer.can_prove(ops.compare(GE, low, 0)) and system.analyzer.can_prove(ops.compare(LT, low, base)):
            system.equate(system.analyzer.simplify(high), ops.floordiv(value, base))
            system.equate(system.analyzer.simplify(low), ops.floormod(value, base))
            return True
    return False


def _splits(system: System, form: LinearForm, dtype: DType) -> Iterator[tuple[Expr, Expr, Expr]]:
    """(n, high, low) with form = n * high + low, for each n by which the products of unknowns and symbols divide."""
    products = [(_factors(atom), coeff) for atom, coeff in form.coeffs.items() if isinstance(atom, Mul)]
    if not products:
        return
    number = gcd(*(coeff for _, coeff in products))
    if number > 1:
        high = {atom: coeff // number for atom, coeff in form.coeffs.items() if coeff % number == 0}
        low = {atom: coeff for atom, coeff in form.coeffs.items() if coeff % number}
        yield ops.const(number, dtype), _sum(high, 0, dtype), _sum(low, form.const, dtype)
    for base in dict.fromkeys(products[0][0]):
        if system.knows(base) and all(base in factors for factors, _ in products):
            high = {_remove_factor(atom, base): coeff for atom, coeff in form.coeffs.items() if isinstance(atom, Mul)}
            low = {atom: coeff for atom, coeff in form.coeffs.items() if not isinstance(atom, Mul)}
            yield base, _sum(high, 0, dtype), _sum(low, form.const, dtype)


def _sum(coeffs: dict[Expr, int], const: int, dtype: DType) -> Expr:
    total: Expr = ops.const(const, dtype)
    for atom, coeff in coeffs.items():
        total = ops.add(total, ops.multiply(atom, coeff))
    return total


def _remove_factor(product: Expr, factor: Expr) -> Expr:
    """A product without one of its factors."""
    factors = _factors(product)
    factors.remove(factor)
    rest = factors[0]
    for other in factors[1:]:
        rest = ops.multiply(rest, other)
    return rest


def _factors(expr: Expr) -> list[Expr]:
    """The factors of a product, from left to right; of anything else itself."""
    factors: list[Expr] = []
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Mul):
            stack += (node.b, node.a)
        else:
            factors.append(node)
    return factors
