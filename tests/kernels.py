"""Kernels, values and compilation that the tests of the printed C share."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx import types as t
from sardonyx.dims import evaluate as evaluate_dim
from sardonyx.errors import RunError
from sardonyx.kernel import interpret
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.c99.print_c import Function, prelude, print_c
from sardonyx.kernel.expr import Buffer, Expr
from sardonyx.kernel.ir import Kernel
from sardonyx.memory import read
from sardonyx.types import Array, DType

STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
Case = tuple[Kernel, list[Array]]


def edges(dtype: DType) -> Array:
    """Values at which arithmetic on dtype goes wrong first; all values of the small floats."""
    if dtype is t.bool_:
        return np.array([False, True])
    if dtype.is_integer and not dtype.is_storage:
        near = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100, 1 << 23, (1 << 24) + 1, 65519, 65520)
        wide = ((1 << 53) + 1, (1 << 62) + 1, (1 << 40) + (1 << 15), 16908289)
        values = {v for n in (*near, *wide) for v in (n, -n, dtype.max - n, dtype.min + n)}
        return np.array(sorted(v for v in values if dtype.min <= v <= dtype.max), dtype.numpy)
    if dtype.bits <= 16:
        return np.arange(1 << dtype.bits, dtype=f"u{dtype.size}").view(dtype.numpy)
    plain = [0, 0.5, 1, 1.5, 2, 2.5, 3, 1 / 3, 127, 127.5, 128, 255.5, 256, 32767.5, 65519.99]
    large = [65520, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63, 2**64, 1e38]
    small = [2**-24, 2**-25, 3 * 2**-25, 1e-8, 2**-126, 2**-133, 3 * 2**-135, 2**-149, 1e-40]
    wide = [1 + 2**-24 + 2**-50, 1 + 2**-9 + 2**-40, 1 + 2**-11 + 2**-45, 1e300, 5e-324, 2.0**-1022]
    every = np.array([*plain, *large, *small, *wide, np.inf, np.nan], np.float64)
    with np.errstate(all="ignore"):
        values = np.concatenate([every, -every]).astype(dtype.numpy)
        return np.concatenate([values, np.nextafter(values, dtype.numpy.type(1))])


def elementwise(name: str, inputs: Sequence[Array], element: Callable[..., Expr]) -> Kernel:
    """A kernel over vectors of one length."""
    k = Builder(1)
    operands = [operand(f"x{i}", dtype_of(x), x.shape) for i, x in enumerate(inputs)]
    y = k.compute(inputs[0].shape, lambda i: element(*(x[i] for x in operands)))
    return k.kernel(name, operands, [y])


def dtype_of(x: Array) -> DType:
    found = t.by_numpy(x.dtype)
    assert found is not None
    return found


def compile_all(
    texts: Sequence[str], folder: Path, compiler: str, flags: Sequence[str]
) -> ctypes.CDLL:
    """One shared library of many functions, compiled without a warning."""
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    body = re.sub(r"^static void", "void", "\n".join(texts), flags=re.M)
    declared = re.findall(r"^(void \w+\([^{]*\)) \{", body, re.M)
    body = "\n".join(f"{d};" for d in declared) + "\n" + body
    source, library = folder / "all.c", folder / "all.so"
    source.write_text(prelude(body) + "\n" + body)
    command = [compiler, *STRICT, *flags, "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run([*command, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def call(function: Function, code: Any, arrays: dict[Buffer, Array], **dims: int) -> None:
    """Calls a compiled kernel; raises RunError if it traps."""
    status = (ctypes.c_int32 * 2)()
    arguments: list[Any] = [ctypes.byref(status)] if function.traps else []
    arguments += [ctypes.c_void_p(arrays[b].ctypes.data) for b in function.pointers]
    arguments += [ctypes.c_int64(evaluate_dim(d, dims)) for d in function.sizes]
    code(*arguments)
    if status[0]:
        raise RunError(f"trap {status[0]}")


def check(case: Case, code: Any, fused: bool = True) -> None:
    """The compiled kernel gives the interpreter's bytes."""
    kernel, inputs = case
    expected = interpret.evaluate(kernel, inputs, fused)
    given = zip(kernel.inputs, inputs, strict=True)
    arrays = {b: np.ascontiguousarray(x) for b, x in given if b is not None}
    arrays |= {b: b.data for b in kernel.constants if b.data is not None}
    for b in (*kernel.outputs, *kernel.temporaries):
        arrays[b] = np.full(interpret.extents(b), 77, b.dtype.numpy)
    arrays = {b: t.in_memory(x) for b, x in arrays.items()}
    call(print_c(kernel), code, arrays)
    for b, want in zip(kernel.outputs, expected, strict=True):
        found = read(arrays[b], b.dtype, want.shape)
        assert found.tobytes() == want.tobytes(), _difference(case, found, want)
        assert arrays[b].tobytes() == t.in_memory(want).tobytes()


def _difference(case: Case, found: Array, want: Array) -> str:
    kernel, inputs = case
    rows = [x.reshape(-1).view(np.uint8).reshape(x.size, -1) for x in (found, want)]
    at = int(np.flatnonzero((rows[0] != rows[1]).any(1))[0])
    given = [x.reshape(-1)[at] for x in inputs if x.size == found.size]
    return f"{kernel.name}{given}: {found.reshape(-1)[at]!r}, not {want.reshape(-1)[at]!r}"
