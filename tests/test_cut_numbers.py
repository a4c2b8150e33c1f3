"""Floats that become integers and floats again: towards zero, which has no sign then, though gcc 12
takes (float)(int)x for trunc(x)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net, check_engines
from onnx import helper
from targets import Target
from test_targets import OF_FLOATS, check_net

INTEGERS = np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16


def net(kind: type[np.generic]) -> Net:
    """Through every integer, as it is and between two bounds; 1 / x shows the sign of zero."""
    made = Net(opsets={"": 13})
    near = np.concatenate([[-0.0, np.nan, np.inf, -np.inf, 3e4], np.linspace(-3, 3, 97)])
    x = made.feed("x", near.astype(kind))
    for integer in INTEGERS:
        cut = made.op("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(integer)))
        for y in (cut, made.op("Clip", cut, integer(0), integer(2))):
            back = made.op("Cast", y, to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
            made.give(made.op("Reciprocal", back))
    return made


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_zeros_have_no_sign(kind: type[np.generic]) -> None:
    check_engines(net(kind))


@pytest.mark.parametrize("target", OF_FLOATS, ids=str)
def test_zeros_have_no_sign_on_targets(target: Target, tmp_path: Path) -> None:
    check_net(net(np.float32), target, tmp_path / "source")
