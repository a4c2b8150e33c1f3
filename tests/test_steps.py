"""Operators that compute number by number in several steps: one statement, which joins the sums
before it, and in which what two steps read is computed once."""

from __future__ import annotations

import numpy as np
from nets import Net, check_engines
from test_plain_u8 import Bytes

from sardonyx.graph import Graph
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.ir import Compute
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch


def launches(graph: Graph, op_type: str) -> list[Launch]:
    """Those that perform it."""
    program = optimise(lower(graph), roomy=True, dots=True)
    return [x for x in program.launches if any(o.op_type == op_type for o in x.operations)]


def enlarged() -> Net:
    """Sums of floats as bytes, which Concat wants with another scale."""
    made = Bytes(1)
    w = made.rng.standard_normal((20, 16, 2, 2)).astype(np.float32)
    y = made.both(made.net.op("ConvTranspose", made.start(1, 20, 5, 6), w, strides=[2, 2]), 0.05, 7)
    x = made.start(1, 16, 10, 12)
    made.net.give(made.bytes(made.net.op("Concat", y, x, axis=1), 0.03, 130))
    return made.net


def twice() -> Net:
    """A byte that a sum reads, and the product with that sum."""
    made = Bytes(2)
    x = made.both(made.conv(made.start(1, 20, 6, 7), 32, 20, 1), 0.04, 120)
    y = made.both(made.net.op("Add", x, made.start(1, 32, 6, 7)), 0.05, 3)
    made.net.give(made.bytes(made.net.op("Mul", x, y), 0.04, 120))
    return made.net


def test_the_engines_agree() -> None:
    check_engines(enlarged())
    check_engines(twice())


def test_what_is_quantised_anew_is_stored_once() -> None:
    found = launches(enlarged().graph(), "ConvTranspose")
    assert [[type(s) for s in x.kernel.body] for x in found] == [[Compute]]
    assert found[0].performs("", "QuantizeLinear")


def test_a_byte_that_two_steps_read_is_rounded_once() -> None:
    (found,) = launches(twice().graph(), "QMul")
    text = print_scheduled(found.kernel, threads=False).text
    assert text.count("sx_near_unsigned(f") == 3  # the sum, what is added, both
    assert "sx_u8_of_f32" not in text
