"""The operations of Alu: one key set, their types here, their meaning in `interpret` and in C.

    key set     ALU, below
    in NumPy    kernel/arith.py: MEANING[op]
    in C99      kernel/c99/print_c.py: SPELLING[op]

A test asserts that the three have the same keys.

Integers wrap as two's complement. idiv and imod by zero give 0 and the dividend; INT_MIN / -1
wraps to INT_MIN, with remainder 0; tdiv and fmod of integers likewise. A shift count is read as
unsigned; past the width a shift gives 0 (-1 for an arithmetic right shift of a negative). min and
max are IEEE 754-2019 minimum and maximum: a NaN wins, -0 < +0. fma of float64 multiplies, then
adds.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Result: TypeAlias = Literal["same", "bool", "bits"]

ALU: dict[str, tuple[int, str, Result]] = {
    # name: (operands, kinds of operands, result)
    "add": (2, "fiu", "same"),
    "sub": (2, "fiu", "same"),
    "mul": (2, "fiu", "same"),
    "div": (2, "f", "same"),  # IEEE division
    "tdiv": (2, "iu", "same"),  # integers, towards zero
    "idiv": (2, "iu", "same"),  # integers, towards minus infinity
    "imod": (2, "iu", "same"),  # x - idiv(x, y) * y: the sign of y
    "fmod": (2, "fiu", "same"),  # x - trunc(x / y) * y, exact: the sign of x
    "fma": (3, "f", "same"),  # float32: one rounding; numerics="unfused": mul, then add
    "neg": (1, "fiu", "same"),
    "abs": (1, "fiu", "same"),
    "sqrt": (1, "f", "same"),
    "floor": (1, "f", "same"),
    "ceil": (1, "f", "same"),
    "trunc": (1, "f", "same"),
    "rint": (1, "f", "same"),  # to the nearest, ties to even
    "min": (2, "fiub", "same"),
    "max": (2, "fiub", "same"),
    "lt": (2, "fiub", "bool"),
    "le": (2, "fiub", "bool"),
    "eq": (2, "fiub", "bool"),
    "ne": (2, "fiub", "bool"),
    "isnan": (1, "f", "bool"),
    "signbit": (1, "f", "bool"),
    "and": (2, "iub", "same"),  # bitwise; logical on bool
    "or": (2, "iub", "same"),
    "xor": (2, "iub", "same"),
    "not": (1, "iub", "same"),
    "shl": (2, "iu", "same"),
    "shr": (2, "iu", "same"),  # arithmetic on signed types
    "pick": (9, "f", "same"),  # of the last eight the one at the lowest 3 bits of the first
    "bits": (1, "fiub", "bits"),  # as another type of the same width: int32 <-> float32, ...
}
