"""Single operations, run by the interpreter or lowered, for tests."""

from __future__ import annotations

from typing import Any

import node_cases
import numpy as np
import onnx

from sardonyx import types as t
from sardonyx.kernel.build import Tensor, concrete, operand
from sardonyx.kernel.ir import Kernel
from sardonyx.ops.registry import find, lower
from sardonyx.types import Array

RANDOM = np.random.default_rng(7)


def version(op_type: str, opset: int) -> int:
    return onnx.defs.get_schema(op_type, opset, "").since_version


def run(op_type: str, *feeds: Any, opset: int = 22, outputs: int = 1, **attributes: Any) -> Any:
    """The output, or the list of outputs, of one operation by the interpreter."""
    arrays = [None if x is None else np.asarray(x) for x in feeds]
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(arrays)]
    node = onnx.helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], **attributes)
    found = node_cases.run_node(node, version(op_type, opset), arrays)
    return found[0] if outputs == 1 else found


def lowered(
    op_type: str, *operands: Any, opset: int = 22, outputs: int = 1, **attributes: Any
) -> Kernel:
    """The kernel for operands given as shapes (tuples), known sizes (lists) or values (arrays)."""
    op = find("", op_type, version(op_type, opset))
    assert op is not None
    return lower(
        op, [as_operand(i, x) for i, x in enumerate(operands)], attributes, [True] * outputs
    )


def as_operand(i: int, x: Any) -> Tensor | None:
    match x:
        case None:
            return None
        case tuple():
            return operand(f"x{i}", t.float32, x)
        case list():
            value = concrete(x)
            return operand(f"x{i}", t.int64, value.shape, value)
    dtype = t.by_numpy(x.dtype)
    assert dtype is not None
    return operand(f"x{i}", dtype, x.shape, x)


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)
