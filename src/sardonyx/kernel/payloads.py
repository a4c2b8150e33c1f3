"""What a NaN's payload cannot be seen of: temporaries that arithmetic alone reads.

A sum, product or fold of a NaN is a NaN of no defined payload, and is canonical again when it is
stored. So what is written only to be read by such operations needs no canonical form of its own.
"""

from __future__ import annotations

from sardonyx.kernel.expr import Alu, Buffer, Expr, Fold, Load
from sardonyx.kernel.ir import Kernel, expressions, statements
from sardonyx.kernel.walk import children, walk

ARITHMETIC = frozenset(("add", "sub", "mul", "div", "fma"))
FOLDS = frozenset(("sum", "dot", "min", "max"))


def unseen(kernel: Kernel) -> frozenset[Buffer]:
    """The temporaries of floats whose every element that is read is an operand of arithmetic."""
    found = {b.root for b in kernel.temporaries if b.dtype.is_float and not b.dtype.is_storage}
    for s in statements(kernel.body):
        roots = expressions(s)
        found -= {e.buffer.root for e in roots if isinstance(e, Load)}
        for e in walk(*roots):
            if not is_arithmetic(e):
                found -= {x.buffer.root for x in children(e) if isinstance(x, Load)}
    return frozenset(found)


def is_arithmetic(e: Expr) -> bool:
    """Whether what e gives of a NaN is a NaN, whatever its payload and sign."""
    if isinstance(e, Fold):
        return e.kind in FOLDS and e.dtype.is_float
    return isinstance(e, Alu) and e.op in ARITHMETIC
