"""log, log2, log10 and log1p of float32.

x = 2^k m with m in [3/4, 3/2); log m of t = m - 1, which is exact, by t + t^2 P(t). Coefficients: tests/support/fit_maths.py, whose
names for them these are.
"""

from __future__ import annotations

from .maths_lanes import Lanes, exponent_and_mantissa, rounded

__all__ = ["log", "log1p", "log2", "log10"]

_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6
_LOG10_2_HIGH, _LOG10_2_LOW = 0.301025390625, 4.605038981195214e-06

_LOG = (
    -0.5,
    0.3333345055580139,
    -0.25000107288360596,
    0.1999082863330841,
    -0.16646894812583923,
    0.14477960765361786,
    -0.13164564967155457,
    0.104725681245327,
    -0.04514699429273605,
)
_LOG_FAST = (
    -0.5000016689300537,
    0.33330705761909485,
    -0.24979279935359955,
    0.20095399022102356,
    -0.17337094247341156,
    0.14153093099594116,
    -0.06719732284545898,
)
_LOG2 = (
    -0.05730496346950531,
    -0.7213475108146667,
    0.48090043663978577,
    -0.36067602038383484,
    0.28839653730392456,
    -0.240141823887825,
    0.2089506983757019,
    -0.1901506781578064,
    0.15111079812049866,
    -0.06493298709392548,
)
_LOG2_FAST = (
    -0.057304747402668,
    -0.7213506102561951,
    0.4808468818664551,
    -0.36033955216407776,
    0.2900983393192291,
    -0.2506226897239685,
    0.20386463403701782,
    -0.09587164223194122,
)
_LOG10 = (
    -0.06570552289485931,
    -0.21714749932289124,
    0.14476607739925385,
    -0.108545683324337,
    0.08675338327884674,
    -0.07304541021585464,
    0.06510309875011444,
    -0.05252837762236595,
    0.023607300594449043,
)
_LOG10_UNFUSED = (
    -0.06570552289485931,
    -0.21714723110198975,
    0.14476627111434937,
    -0.1085774227976799,
    0.08678674697875977,
    -0.0721513107419014,
    0.06304570287466049,
    -0.0587163046002388,
    0.047716956585645676,
    -0.020446831360459328,
)
_LOG10_FAST = (
    -0.06570545583963394,
    -0.21714816987514496,
    0.14474941790103912,
    -0.10847311466932297,
    0.08732712268829346,
    -0.07544302940368652,
    0.06137329339981079,
    -0.028867268934845924,
)


def _natural(v: Lanes, k: str, t: str) -> str:
    """k ln 2 + log(1 + t)."""
    tail = v.mul_add(v.mul(t, t), v.polynomial(t, _LOG_FAST if v.options.fast else _LOG), v.mul(k, _LN2_LOW))
    return v.mul_add(k, _LN2_HIGH, v.add(tail, t))


def log(v: Lanes, x: str) -> str:
    k, m = exponent_and_mantissa(v, x)
    return _natural(v, k, v.sub(m, 1.0))


def log2(v: Lanes, x: str) -> str:
    """k + 3/2 t + the rest, which is small near x = 1: the product is exact."""
    k, m = exponent_and_mantissa(v, x)
    t = v.sub(m, 1.0)
    return v.mul_add(t, v.polynomial(t, _LOG2_FAST if v.options.fast else _LOG2), v.mul_add(t, 1.5, k))


def log10(v: Lanes, x: str) -> str:
    """k log10(2) + t / 2 + the rest, likewise."""
    k, m = exponent_and_mantissa(v, x)
    t = v.sub(m, 1.0)
    coefficients = _LOG10_FAST if v.options.fast else _LOG10 if v.options.fused else _LOG10_UNFUSED
    small = v.mul_add(t, v.polynomial(t, coefficients), v.mul(k, _LOG10_2_LOW))
    return v.add(v.mul_add(k, _LOG10_2_HIGH, v.mul(t, 0.5)), small)


def log1p(v: Lanes, x: str) -> str:
    """log(u) of u = 1 + x as it is rounded, whose rounding error (D. Knuth's sum of two) goes into t."""
    u = v.at_most(v.add(x, 1.0), 3.4028234663852886e38)
    taken = v.sub(u, 1.0)
    lost = v.add(v.sub(1.0, v.sub(u, taken)), v.sub(x, taken))
    k, m = exponent_and_mantissa(v, u)
    t = v.add(_divided_by_power(v, lost, k), v.sub(m, 1.0))
    result = _natural(v, k, t)
    # Beside x the rest is nothing where x is tiny, and a NaN where it is infinite; in other modes of rounding more is lost.
    usual = v.both("and", v.compare(">", v.absolute(x), 2.0**-24), v.compare("<", x, float("inf")))
    result = v.choose(usual, result, x)
    return v.with_sign(result, x)


def _divided_by_power(v: Lanes, x: str, k: str) -> str:
    """x 2^-k of a small x, for k from -30 on; beyond 126 what is left of it does not matter."""
    if v.has_avx512:
        return v.scaled(x, v.negative(v.choose(v.compare("<", k, -30.0), -30.0, k)))
    _, shifted = rounded(v, v.clamp(k, -30.0, 126.0), -1.0)
    return v.mul(x, v.from_bits(v.integer("add", v.integer("shl", v.bits(shifted), 23), 0x3F800000)))
