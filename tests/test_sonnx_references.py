"""Operators of the profile on element types for which ONNX has no vectors, against NumPy: the whole
range of each integer type, on the machine, and one type of each on the native engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from sardonyx.checker.samples import model
from sardonyx.engines import make_engine
from sardonyx.resolve import resolve
from sardonyx.settings import Kind
from sardonyx.types import Array

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
BOTH = (*SIGNED, *UNSIGNED)
WIDE = ("int32", "int64", "uint32", "uint64")
SHAPES = {"x": (2, 3), "z": (2, 3), "m": (3, 4), "p": (1, 1, 4, 4)}


@dataclass(frozen=True)
class Reference:
    """An operator as a graph's body in ONNX text over x, z: [2,3], m: [3,4], p: [1,1,4,4]; y is
    its output, of `out` (T: the type of the operands). exact: what NumPy says, in that type."""

    op: str
    types: tuple[str, ...]
    body: str
    shape: str
    exact: Callable[..., Array]
    out: str = "T"


def wrapped_sum(x: Array) -> Array:
    return x.sum(1, dtype=x.dtype)


def pooled(p: Array) -> Array:
    return np.lib.stride_tricks.sliding_window_view(p, (2, 2), (2, 3)).max((4, 5))


def truncated_mean(x: Array) -> Array:
    """The wrapping sum over the number, towards zero."""
    total = [int(v) for v in wrapped_sum(x)]
    return np.array([abs(v) // 3 * (1 if v >= 0 else -1) for v in total]).astype(x.dtype)


def squares(p: Array) -> Array:
    return np.sum(p.astype(np.int32) ** 2, dtype=np.int32).reshape(1, 1, 1, 1)


I = "y = {} <{}> ({})"  # noqa: E741  # an item
REFERENCES = [
    Reference("Abs", SIGNED, "y = Abs (x)", "2,3", np.abs),
    Reference("Abs", UNSIGNED, "y = Abs (x)", "2,3", lambda x: x),
    Reference("ArgMax", BOTH,
              I.format("ArgMax", "axis=1, keepdims=0, select_last_index=0", "x"),
              "2", lambda x: x.argmax(1), "int64"),
    Reference("Cast", BOTH, I.format("Cast", "to=7", "x"), "2,3",
              lambda x: x.astype(np.int64), "int64"),
    Reference("Clip", BOTH, "l = Constant <value = {t} {{3}}> ()"
              "  h = Constant <value = {t} {{99}}> ()  y = Clip (x, l, h)", "2,3",
              lambda x: x.clip(3, 99)),
    Reference("Concat", BOTH, I.format("Concat", "axis=1", "x, z"), "2,6",
              lambda x, z: np.concatenate((x, z), 1)),
    Reference("Constant", BOTH, "c = Constant <value = {t}[2,3] {{1, 2, 3, 4, 5, 6}}> ()"
              "  y = Max (c, c)", "2,3", lambda x: np.arange(1, 7, dtype=x.dtype).reshape(2, 3)),
    Reference("Expand", BOTH, "s = Constant <value = int64[3] {{2, 1, 3}}> ()  y = Expand (x, s)",
              "2,2,3", lambda x: np.broadcast_to(x, (2, 2, 3))),
    Reference("Flatten", BOTH, I.format("Flatten", "axis=0", "x"), "1,6",
              lambda x: x.reshape(1, 6)),
    Reference("Gather", BOTH, "i = Constant <value = int64[2] {{2, -3}}> ()"
              "  y = Gather <axis=1> (x, i)", "2,2", lambda x: x[:, [2, 0]]),
    Reference("Gemm", WIDE, I.format("Gemm", "alpha=1.0, beta=1.0, transA=1, transB=0", "x, z"),
              "3,3", lambda x, z: x.T @ z),
    Reference("Identity", BOTH, "y = Identity (x)", "2,3", lambda x: x),
    Reference("MatMul", WIDE, "y = MatMul (x, m)", "2,4", lambda x, m: x @ m),
    Reference("MaxPool", ("int8", "uint8"), I.format("MaxPool", "kernel_shape=[2,2]", "p"),
              "1,1,3,3", pooled),
    Reference("Neg", SIGNED, "y = Neg (x)", "2,3", np.negative),
    Reference("Pad", BOTH, "s = Constant <value = int64[4] {{0, 1, 1, 0}}> ()"
              "  y = Pad <mode=\"constant\"> (x, s)", "3,4",
              lambda x: np.pad(x, ((0, 1), (1, 0)))),
    Reference("ReduceMean", WIDE, "a = Constant <value = int64[1] {{1}}> ()"
              "  y = ReduceMean <keepdims=0> (x, a)", "2", truncated_mean),
    Reference("ReduceSum", WIDE, "a = Constant <value = int64[1] {{1}}> ()"
              "  y = ReduceSum <keepdims=0> (x, a)", "2", wrapped_sum),
    Reference("Relu", SIGNED, "y = Relu (x)", "2,3", lambda x: np.maximum(x, 0)),
    Reference("Reshape", BOTH, "s = Constant <value = int64[2] {{3, -1}}> ()  y = Reshape (x, s)",
              "3,2", lambda x: x.reshape(3, 2)),
    Reference("Resize", BOTH, "s = Constant <value = float[2] {{1.0, 2.0}}> ()"
              "  y = Resize <mode=\"nearest\", nearest_mode=\"floor\", "
              "coordinate_transformation_mode=\"asymmetric\"> (x, \"\", s)", "2,6",
              lambda x: x.repeat(2, 1)),
    Reference("ScatterND", BOTH, "i = Constant <value = int64[2,1] {{1, 0}}> ()"
              "  y = ScatterND <reduction=\"none\"> (x, i, z)", "2,3", lambda x, z: z[::-1]),
    Reference("Shape", BOTH, I.format("Shape", "start=0, end=2", "x"), "2",
              lambda x: np.array([2, 3]), "int64"),
    Reference("Slice", BOTH, "s = Constant <value = int64[1] {{2}}> ()"
              "  e = Constant <value = int64[1] {{-9}}> ()"
              "  a = Constant <value = int64[1] {{1}}> ()"
              "  p = Constant <value = int64[1] {{-2}}> ()  y = Slice (x, s, e, a, p)", "2,2",
              lambda x: x[:, ::-2]),
    Reference("Split", BOTH, "s = Constant <value = int64[2] {{1, 2}}> ()"
              "  w, y = Split <axis=1> (x, s)", "2,2", lambda x: x[:, 1:]),
    Reference("Squeeze", BOTH, "a = Constant <value = int64[2] {{0, 1}}> ()  y = Squeeze (p, a)",
              "4,4", lambda p: p[0, 0]),
    Reference("Transpose", BOTH, I.format("Transpose", "perm=[1,0]", "x"), "3,2", lambda x: x.T),
    Reference("Unsqueeze", BOTH, "a = Constant <value = int64[1] {{1}}> ()  y = Unsqueeze (x, a)",
              "2,1,3", lambda x: x[:, None]),
    Reference("Where", BOTH, "l = Equal (x, z)  c = Not (l)  y = Where (c, x, z)", "2,3",
              lambda x, z: np.where(x != z, x, z)),
    Reference("Equal", ("float", "double", "float16"), "y = Equal (x, z)", "2,3", np.equal, "bool"),
    Reference("ConvInteger", ("int8",), I.format("ConvInteger", "kernel_shape=[4,4]", "p, p"),
              "1,1,1,1", squares, "int32"),
    Reference("QuantizeLinear", ("int32",), "s = Constant <value = float {{4194304.0}}> ()"
              "  o = Constant <value = int8 {{1}}> ()  y = QuantizeLinear (x, s, o)", "2,3",
              lambda x: (np.rint(x.astype(np.float32) / np.float32(2**22)) + 1)
              .clip(-128, 127).astype(np.int8), "int8"),
]  # fmt: skip
FAMILY = {**dict.fromkeys(SIGNED, "INT"), **dict.fromkeys(UNSIGNED, "UINT")}
COMPARED = {(r.op, FAMILY.get(kind, "FLOAT")) for r in REFERENCES for kind in r.types}
CASES: list[tuple[Reference, str, Kind]] = [
    (r, kind, "machine") for r in REFERENCES for kind in r.types
]
if shutil.which("gcc"):
    CASES += [(r, r.types[-1], "native") for r in REFERENCES]
NUMPY = {"float": "float32", "double": "float64"}


def operands(reference: Reference, kind: str) -> dict[str, Array]:
    """Random operands over the whole range, the ends of it among them."""
    source = np.random.default_rng(11)
    dtype = np.dtype(NUMPY.get(kind, kind))
    code = reference.exact.__code__ if hasattr(reference.exact, "__code__") else None
    known = [n for n in (code.co_varnames[: code.co_argcount] if code else ()) if n in SHAPES]
    names = known or (["x", "z"] if reference.op == "Equal" else ["x"])
    found = {}
    for name in names:
        if dtype.kind == "f":
            found[name] = source.integers(-1, 2, SHAPES[name]).astype(dtype)
            continue
        info = np.iinfo(dtype)
        value = source.integers(info.min, info.max, SHAPES[name], dtype, endpoint=True)
        value.reshape(-1)[:2] = info.min, info.max
        found[name] = value
    return found


@pytest.mark.parametrize(("reference", "kind", "engine"), CASES, ids=lambda v: getattr(v, "op", v))
def test_an_operator_does_what_numpy_says(reference: Reference, kind: str, engine: Kind) -> None:
    feeds = operands(reference, kind)
    inputs = ", ".join(f"{kind}[{','.join(map(str, v.shape))}] {n}" for n, v in feeds.items())
    out = kind if reference.out == "T" else reference.out
    body = reference.body.format(t=kind)
    text = f"g ({inputs}) => ({out}[{reference.shape}] y) {{ {body} }}"
    with np.errstate(all="ignore"):
        expected = np.asarray(reference.exact(*feeds.values()))
    found = make_engine(resolve(model(text)), engine).run(feeds)["y"]
    assert found.dtype == expected.dtype
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()
