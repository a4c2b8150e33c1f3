"""The fixed models and inputs of tests/golden/manifest.json: single operations of every family,
chosen by the clauses of docs/numerics.md, and the graphs of slices.py.

A case is named by what it does, so that a name never stands for another computation. Inputs are
made from that name: (dtype, shape) are numbers of usual size, arrays are taken as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import seeded
from kernels import edges
from nets import Net
from slices import FUNCTIONS, PARTS, PLAIN, UNARY, ints

from sardonyx import types as t
from sardonyx.types import Array, DType

Case = tuple[str, Net]  # a name, and a graph with what it is fed
F = t.float32


@cache
def every() -> dict[str, Net]:
    """name -> the graph, what it is fed, and its outputs."""
    found: dict[str, Net] = {}
    for name, net in _all():
        assert name not in found, f"two cases are called {name}"
        found[name] = net
    return found


def _all() -> Iterator[Case]:
    for family in (
        elements, integers, casts, folds, products, convolutions, pools, norms, movements, indices,
    ):  # fmt: skip
        yield from family()
    for part, write in PARTS.items():
        net = Net()
        write(net)
        yield f"graph {part}", net


def op(op_type: str, *inputs: Any, count: int = 1, note: str = "", **attributes: Any) -> Case:
    """One operation. An input is (dtype, *shape) for a fed one with seeded numbers, an array for a
    weight, (array,) for a fed array, "" for none; `note` tells arrays of equal shape apart."""
    shown = ", ".join(f"{k}={_shown(v)}" for k, v in sorted(attributes.items()))
    name = " ".join(filter(None, [op_type, *map(_spec, inputs), shown, note]))
    net = Net()
    names: list[Any] = []
    for i, x in enumerate(inputs):
        match x:
            case (DType() as dtype, *shape):
                names.append(net.feed(f"x{i}", seeded.values(f"{name}/{i}", dtype, *shape)))
            case (np.ndarray() as value,):
                names.append(net.feed(f"x{i}", value))
            case _:
                names.append(x)
    made = net.op(op_type, *names, count=count, **attributes)
    net.give(*([made] if count == 1 else made))
    return name, net


def _shown(value: Any) -> str:
    return str(value).replace(" ", "")


def _spec(x: Any) -> str:
    match x:
        case (DType() as dtype, *shape):
            return f"{dtype}{_shown(shape)}"
        case (np.ndarray() as value,):
            return f"{value.dtype}{_shown(list(value.shape))}"
        case np.ndarray():
            return _shown(x.tolist()) if x.size <= 8 else f"weight{_shown(list(x.shape))}"
    return "-"


def edge(dtype: DType) -> Array:
    """The edges of a dtype, or a part of them where they are all its values."""
    values = edges(dtype)
    return values[:: 1 + len(values) // 4000]


def elements() -> Iterator[Case]:
    """Clauses 1, 2 and 6: arithmetic, NaN, minimum and maximum, elementary functions."""
    wild = np.concatenate([edges(F), seeded.bit_patterns("golden", F, 2000)])
    near = seeded.normal("near", 2000) * np.float32(8)
    for name in UNARY:
        yield op(name, (np.concatenate([wild, near]),), note="edges")
    for dtype in (t.float64, t.float16, t.bfloat16):
        for name in FUNCTIONS:
            yield op(name, (edge(dtype),), note=f"edges of {dtype}")
    for dtype in t.FLOATS:
        few = edges(dtype)[:: 1 + len(edges(dtype)) // 60]
        for name in ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Less", "Equal"):
            yield op(name, (few[:, None],), (few,), note=f"edges of {dtype}")
    few = edges(F)[::2]
    yield op("Mod", (few[:, None],), (few,), fmod=1, note="edges")
    yield op("Where", (np.isnan(few),), (few[:, None],), (few,), note="edges")
    yield op("PRelu", (few,), np.float32([-0.25]), note="edges")
    yield op("Clip", (edges(F),), np.float32(-1), np.float32(2), note="edges")
    yield op("Sum", (F, 3, 4), (F, 4), (F, 3, 1))
    yield op("Mean", (F, 3, 4), (F, 4), (F, 3, 1))
    yield op("Gelu", (edges(F),), approximate="tanh", note="edges")
    for name in ("And", "Or", "Xor"):
        yield op(name, (t.bool_, 40), (t.bool_, 7, 40))
    for name, settings in (
        ("Celu", {"alpha": 0.5}), ("Elu", {"alpha": 1.5}), ("Shrink", {"bias": 0.5, "lambd": 1.0}),
        ("ThresholdedRelu", {"alpha": 0.3}), ("LeakyRelu", {"alpha": 0.2}), ("Swish", {}),
    ):  # fmt: skip
        yield op(name, (near,), note="near", **settings)


def integers() -> Iterator[Case]:
    """Clause 8."""
    for dtype in t.INTEGERS:
        few = edges(dtype)[:: 1 + len(edges(dtype)) // 40]
        note = f"edges of {dtype}"
        for name in ("Add", "Sub", "Mul", "Div", "Mod", "Max"):
            yield op(name, (few[:, None],), (few,), note=note)
        yield op("Mod", (few[:, None],), (few,), fmod=1, note=note)
        if dtype.kind == "u":
            for direction in ("LEFT", "RIGHT"):
                yield op("BitShift", (few[:, None],), (few,), direction=direction, note=note)
        else:
            yield op("Neg", (few,), note=note)
            yield op("Abs", (few,), note=note)
    for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield op(name, (edges(t.int32)[:, None],), (edges(t.int32),), note="edges of int32")


def casts() -> Iterator[Case]:
    """Clause 7: each type to all others."""
    for source in PLAIN:
        net = Net()
        x = net.feed("x", edge(source))
        net.give(*(net.op("Cast", x, to=to.onnx) for to in PLAIN if to is not source))
        yield f"Cast {source} to all others", net


def folds() -> Iterator[Case]:
    """Clauses 2 and 4: sums of sixteen, products, extremes; Softmax."""
    names = (
        "ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
        "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    )  # fmt: skip
    for name in names:
        for n in (5, 16, 17, 1000):
            yield op(name, (F, 3, n), ints(1), keepdims=0)
        yield op(name, (F, 4, 5, 6, 7), ints(1, 3))
        yield op(name, (F, 4, 5, 6), ints(0))
    for dtype in (t.float64, t.float16, t.bfloat16, t.int32, t.int64):
        for name in ("ReduceSum", "ReduceMean", "ReduceMax"):
            yield op(name, (dtype, 3, 37), ints(1))
    wild = seeded.bit_patterns("wild", F, 9, 33)
    for name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"):
        yield op(name, (wild,), ints(0), note="wild")
    for name in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (-1, 0, 1):
            yield op(name, (F, 3, 37, 5), axis=axis)
    for name in ("ArgMax", "ArgMin"):
        yield op(name, (F, 3, 20), axis=1)


def products() -> Iterator[Case]:
    """Clause 3: MatMul, Gemm, Einsum."""
    for a, b in (
        ((5, 7), (7, 19)), ((1, 300), (300, 17)), ((3, 4, 9), (3, 9, 33)), ((4, 9), (2, 9, 5)),
        ((9,), (9, 16)), ((6, 9), (9,)), ((2, 1, 5, 8), (3, 8, 6)), ((40, 600), (600, 48)),
    ):  # fmt: skip
        yield op("MatMul", (F, *a), (F, *b))
    for dtype in (t.float64, t.float16, t.bfloat16, t.int32, t.int64, t.uint64):
        yield op("MatMul", (dtype, 5, 23), (dtype, 23, 18))
    for e in (0, -70, 60):
        x, y = (
            seeded.delicate(f"golden{s}{e}", e, *n) for s, n in (("a", (9, 31)), ("b", (31, 20)))
        )
        yield op("MatMul", (x,), (y,), note=f"delicate at 2^{e}")
    for a, b, settings in (
        ((5, 7), (7, 19), {}),
        ((7, 5), (7, 19), {"transA": 1}),
        ((5, 7), (19, 7), {"transB": 1, "alpha": 0.3, "beta": -1.7}),
        ((7, 5), (19, 7), {"transA": 1, "transB": 1, "alpha": 2.5}),
    ):
        yield op("Gemm", (F, *a), (F, *b), (F, 19), **settings)
    yield op("Einsum", (F, 3, 4, 5), (F, 3, 5, 18), equation="bij,bjk->bik")
    yield op("Einsum", (F, 3, 4, 5), (F, 4, 6), equation="bij,ik->bjk")


def convolutions() -> Iterator[Case]:
    """Clause 3: channels in blocks of sixteen, groups, strides, dilations, padding."""
    for x, w, settings in (
        ((1, 3, 9, 8), (5, 3, 3, 3), {}),
        ((2, 7, 9, 8), (19, 7, 3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ((1, 33, 6, 6), (18, 33, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 18, 5, 7), (34, 18, 1, 1), {}),
        ((1, 12, 7, 7), (9, 4, 3, 2), {"group": 3, "auto_pad": "SAME_UPPER"}),
        ((1, 20, 7, 7), (20, 1, 3, 3), {"group": 20, "pads": [1, 1, 1, 1]}),
        ((1, 6, 9, 9), (4, 6, 3, 3), {"dilations": [2, 3], "auto_pad": "SAME_LOWER"}),
        ((2, 5, 20), (7, 5, 4), {"strides": [3], "pads": [2, 1]}),
        ((1, 4, 5, 6, 7), (6, 4, 2, 3, 2), {"strides": [1, 2, 2]}),
    ):
        yield op("Conv", (F, *x), (F, *w), (F, w[0]), **settings)
        yield op("Conv", (F, *x), seeded.normal(f"w{w}", *w), **settings)
    for dtype in (t.float64, t.float16):
        yield op("Conv", (dtype, 1, 5, 6, 6), (dtype, 4, 5, 3, 3), pads=[1, 1, 1, 1])
    yield op("Conv", (F, 1, 2, 4, 4), np.full((3, 2, 3, 3), np.inf, np.float32), pads=[1, 1, 1, 1])
    for x, w, settings in (
        ((1, 3, 5, 4), (3, 4, 3, 3), {}),
        ((1, 20, 5, 4), (20, 5, 3, 3), {"strides": [2, 2], "pads": [1, 0, 1, 1]}),
        ((1, 6, 5, 5), (6, 2, 2, 3), {"group": 3, "strides": [2, 3], "output_padding": [1, 2]}),
        ((2, 4, 9), (4, 3, 4), {"strides": [2], "dilations": [2]}),
    ):
        yield op("ConvTranspose", (F, *x), (F, *w), **settings)
    x, w, offset = (F, 1, 3, 6, 6), (F, 4, 3, 3, 3), (F, 1, 18, 4, 4)
    yield op("DeformConv", x, w, offset, kernel_shape=[3, 3])


def pools() -> Iterator[Case]:
    """Clauses 2 and 4."""
    image = (F, 2, 3, 11, 9)
    for settings in (
        {"kernel_shape": [3, 3]},
        {"kernel_shape": [5, 4], "strides": [2, 3], "pads": [2, 1, 1, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"kernel_shape": [2, 2], "dilations": [2, 3]},
    ):
        yield op("MaxPool", image, **settings)
        yield op("AveragePool", image, **settings)
        yield op("LpPool", image, p=3, **settings)
    pads = {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}
    yield op("AveragePool", image, count_include_pad=1, **pads)
    yield op("MaxPool", image, count=2, storage_order=1, **pads)
    for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield op(name, image)
    wild = seeded.bit_patterns("pool", F, 1, 1, 9, 9)
    yield op("MaxPool", (wild,), kernel_shape=[2, 2], note="wild")


def norms() -> Iterator[Case]:
    """Clauses 4 and 5."""
    vectors = [seeded.normal(s, 6) for s in ("scale", "shift", "mean")]
    spread = seeded.positive("variance", 6)
    for dtype in (F, t.float64, t.float16, t.bfloat16):
        rest = [v.astype(dtype.numpy) for v in (*vectors, spread)]
        yield op("BatchNormalization", (dtype, 2, 6, 5, 7), *rest, epsilon=1e-3)
        yield op("LayerNormalization", (dtype, 5, 6), rest[0], rest[1])
    yield op("LayerNormalization", (F, 4, 5, 100), seeded.normal("s", 100), seeded.normal("b", 100))
    yield op("LayerNormalization", (F, 4, 5, 6), seeded.normal("s", 5, 6), axis=1, epsilon=1e-2)
    yield op("InstanceNormalization", (F, 2, 6, 5, 7), *vectors[:2])
    yield op("GroupNormalization", (F, 2, 6, 5, 7), *vectors[:2], num_groups=3)
    yield op("RMSNormalization", (F, 5, 6), vectors[0])
    yield op("LRN", (F, 2, 7, 4, 4), size=3, alpha=2e-3, beta=0.6, bias=1.5)
    yield op("LRN", (F, 2, 7, 4, 4), size=5)
    for p in (1, 2):
        yield op("LpNormalization", (F, 4, 21), p=p)
    yield op("MeanVarianceNormalization", (F, 2, 3, 5, 5))


def movements() -> Iterator[Case]:
    """Clause 2: what moves elements keeps their bits."""
    wild = (seeded.bit_patterns("moves", F, 4, 5, 6),)
    image = (F, 1, 2, 5, 6)
    yield op("Transpose", wild, perm=[2, 0, 1])
    yield op("Concat", wild, wild, axis=1)
    yield op("Split", wild, ints(2, 3), axis=1, count=2)
    yield op("Slice", wild, ints(-1, 5), ints(-9, 0), ints(0, 2), ints(-2, -2))
    yield op("Expand", (seeded.bit_patterns("e", F, 5, 1),), ints(3, 5, 4))
    yield op("Tile", wild, ints(2, 1, 3))
    yield op("Reshape", wild, ints(0, -1))
    yield op("Trilu", wild, upper=0)
    yield op("DepthToSpace", (F, 1, 12, 2, 3), blocksize=2, mode="CRD")
    yield op("SpaceToDepth", (F, 1, 3, 4, 6), blocksize=2)
    yield op("ReverseSequence", wild, ints(2, 4, 1, 3, 4), time_axis=0, batch_axis=1)
    for mode in ("constant", "edge", "reflect", "wrap"):
        yield op("Pad", wild, ints(1, 0, 2, 0, 1, 3), mode=mode)
    for dtype in (t.float64, t.float16, t.bfloat16, t.int8, t.bool_):
        yield op("Transpose", (seeded.bit_patterns(f"{dtype}", dtype, 5, 7),))
    for mode in ("nearest", "linear", "cubic"):
        for transform in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            settings = {"mode": mode, "coordinate_transformation_mode": transform}
            yield op("Resize", image, "", np.float32([1, 1, 1.7, 0.6]), **settings)
    yield op("Resize", image, "", np.float32([1, 1, 0.6, 0.7]), mode="linear", antialias=1)
    for mode in ("linear", "nearest", "cubic"):
        yield op("GridSample", image, (F, 1, 4, 4, 2), mode=mode, padding_mode="reflection")


def indices() -> Iterator[Case]:
    """Gathering and scattering."""
    data, at = (F, 5, 6), (seeded.integers("at", -5, 5, 3, 4),)
    yield op("Gather", data, at, axis=0)
    yield op("GatherElements", data, (seeded.integers("ge", -5, 5, 4, 6),), axis=0)
    yield op("GatherND", data, (seeded.integers("gnd", 0, 5, 3, 2),))
    for reduction in ("none", "add", "max"):
        where = (np.int64([[0, 2, 4], [4, 1, 0]]),)
        yield op("ScatterElements", data, where, (F, 2, 3), reduction=reduction, note="indices")
        yield op("ScatterND", data, (np.int64([[1], [4], [1]]),), (F, 3, 6), reduction=reduction)
    yield op("OneHot", (seeded.integers("hot", -4, 4, 9),), np.int64(4), np.float32([-1, 2]))
    yield op("TopK", (F, 4, 30), ints(5), axis=1, count=2)
    yield op("Range", np.float32(0.1), np.float32(2), np.float32(0.3))
    yield op("EyeLike", (F, 4, 6), k=1)
