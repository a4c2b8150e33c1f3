"""The elementary functions, written once in the kernel IR; no libm.

Each takes an Expr (storage types are widened to float32) and gives an Expr of alu nodes, without
branches and made of operations that compilers turn into vector instructions. Accuracy, tried on
every float32 and published in docs/accuracy.md (`python -m sardonyx.accuracy`): float32 at most
1 ulp, float64 at most 2 ulp, in both numerics modes. Special values are those of C99 Annex F.

    parts.py         formats, exact sums and products        exp.py    exp, tanh, sigmoid, ...
    coefficients.py  polynomials (tools/minimax.py)          log.py    log, log1p, softplus, ...
    trig.py          sin, cos, tan                           arc.py    asin, ..., atanh
    erf.py           erf                                     power.py  pow
"""

from __future__ import annotations

from sardonyx.kernel.elementary.arc import acos, acosh, asin, asinh, atan, atanh
from sardonyx.kernel.elementary.erf import erf
from sardonyx.kernel.elementary.exp import (
    cosh,
    exp,
    exp2,
    expm1,
    sigmoid,
    sinh,
    tanh,
    tanh_softplus,
)
from sardonyx.kernel.elementary.exp import exp_nonpositive as exp_nonpositive
from sardonyx.kernel.elementary.log import log, log1p, log2, softplus
from sardonyx.kernel.elementary.power import pow
from sardonyx.kernel.elementary.trig import cos, sin, tan

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2",
    "expm1", "log", "log1p", "log2", "pow", "sigmoid", "sin", "sinh", "softplus", "tan", "tanh",
    "tanh_softplus",
]  # fmt: skip
# What gives the bits of a function on a part of its domain, and is told as that function.
PARTS = {"exp": exp_nonpositive}
