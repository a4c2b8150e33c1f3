"""Sums of products of float16 and bfloat16 by copies in float32: the same bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from nets import Net, check_engines
from test_half import values

from sardonyx import types as t
from sardonyx.kernel.expr import Fold, Load
from sardonyx.kernel.ir import expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise


def net(kind: Any) -> Net:
    """Products of weights and of what is fed, with NaN and infinity; convolutions in a chain."""
    made, rng = Net(), np.random.default_rng(3)

    def some(*shape: int) -> Any:
        return values(rng, *shape).astype(kind)

    x = some(2, 9, 33)
    x[0, 0, 0], x[0, 1, 1], x[1, 2, 3] = np.nan, np.inf, 60000.0
    made.give(made.op("MatMul", made.feed("x", x), made.weight(some(33, 20))))
    made.give(made.op("MatMul", "x", made.feed("b", some(33, 18))))
    made.give(made.op("Gemm", made.feed("r", some(1, 33)), "b", made.weight(some(18))))
    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    y = made.op("Conv", made.feed("i", some(1, 3, 9, 8)), some(32, 3, 3, 3), some(32), **pads)
    y = made.op("Relu", y)
    y = made.op("Add", made.op("Conv", y, some(32, 1, 3, 3), group=32, **pads), y)
    made.give(made.op("Conv", y, some(20, 32, 1, 1)))
    return made


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_scheduled_equals_plain_equals_machine(kind: Any) -> None:
    check_engines(net(kind))


def test_no_product_reads_float16_where_a_copy_pays() -> None:
    program = optimise(lower(net(np.float16).graph()), roomy=True)
    every = [e for x in program.launches for s in statements(x.kernel.body) for e in expressions(s)]
    folds = [e for e in walk(*every) if isinstance(e, Fold) and e.kind == "dot"]
    kinds = [{x.buffer.dtype for x in walk(*f.terms) if isinstance(x, Load)} for f in folds]
    assert sorted(t.float16 in found for found in kinds) == [False] * 5 + [True]
