"""Rules about shapes and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from onnx import ModelProto, TensorShapeProto

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.registry import Found, Seen, at, of, rule
from sardonyx.checker.samples import model

RELU = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
DEFINED_EMPTY = (
    "Abs", "Add", "ArgMax", "Concat", "Conv", "Div", "Exp", "Flatten", "LeakyRelu", "Less",
    "Log", "MatMul", "Max", "MaxPool", "Mul", "Neg", "Pow", "Range", "Relu", "Reshape", "Shape",
    "Sigmoid", "Slice", "Softmax", "Sqrt", "Sub", "Tanh", "Unsqueeze", "Where",
)  # fmt: skip


@rule("T04", "shapes are explicit and static", Severity.ERROR,
      "REQ-GR-000 (explicit_types_shapes)", "F2", good=RELU,
      bad="g (float[N] x) => (float[N] y) { y = Relu (x) }")  # fmt: skip
def static(check: Context) -> Found:
    """Every tensor that states a type states its shape, and each dim is a number.

    Why: no shape is inferred; memory and time are known before the model runs.
    Example: float[N, 3].
    Limits: with --dynamic batch the first dim may be symbolic. A tensor without a type is T02's.
    """
    for name, kind in check.declared.items():
        if not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
            continue
        if not kind.tensor_type.HasField("shape"):
            yield of(name, "no shape", "a shape")
            continue
        for axis, dim in enumerate(kind.tensor_type.shape.dim):
            if not _number(dim) and not (check.batch and axis == 0):
                found = dim.dim_param or "no size"
                yield of(name, f"dim {axis} is {found}", "a number")
                break


def _number(dim: TensorShapeProto.Dimension) -> bool:
    return dim.HasField("dim_value") and dim.dim_value >= 0


def _lies() -> ModelProto:
    made = model("g (float[2] x) => (float[2] y) { h = Relu (x)  y = Sigmoid (h) }")
    made.graph.value_info[0].type.tensor_type.shape.dim[0].dim_value = 3
    return made


@rule("T05", "stated types are the inferred ones", Severity.ERROR, "AI-008", "F2", good=RELU,
      bad=_lies, stage="graph", blocks=True)  # fmt: skip
def agree(check: Context) -> Found:
    """What the file states of a tensor is what the operators give.

    Why: a stated type that is wrong is found by one reader and believed by another.
    Example: value_info says float[3], Relu gives float[2].
    Limits: a dim that is no number in one of the two is not compared.
    """
    assert check.graph is not None
    for name, kind in check.declared.items():
        found = check.graph.types.get(name)
        if found is None or not kind.HasField("tensor_type"):
            continue
        stated = kind.tensor_type
        right = found.dtype.onnx == stated.elem_type
        if stated.HasField("shape") and found.shape is not None:
            pairs = list(zip(stated.shape.dim, found.shape, strict=False))
            right &= len(stated.shape.dim) == len(found.shape)
            right &= all(d.dim_value == n for d, n in pairs if _number(d) and isinstance(n, int))
        if not right and stated.elem_type:
            sizes = [d.dim_value if _number(d) else d.dim_param or "?" for d in stated.shape.dim]
            yield of(name, f"type {stated.elem_type} of shape {sizes}", found)


@rule("T07", "empty tensors", Severity.WARNING, "common/definitions.md", good=RELU,
      bad="""g (float[0,3,2,2] x, float[3] s) => (float[0,3,2,2] y) {
             y = BatchNormalization <epsilon=1e-5, training_mode=0> (x, s, s, s, s)
             }""")  # fmt: skip
def empty(check: Context) -> Found:
    """An operator with an empty operand is one whose document says what it then gives.

    Why: the formal tensor library asks for positive dims; few documents speak of empty tensors.
    Example: BatchNormalization of float[0, 3, 2, 2].
    Limits: the list of documents that do is kept by hand.
    """
    for node in check.nodes:
        if node.op in DEFINED_EMPTY:
            continue
        for name in filter(None, node.inputs):
            shape = check.shape(name)
            if shape is not None and 0 in shape:
                yield at(node, f"shape {list(shape)}", "at least one element", tensor=name)


@rule("T08", "memory bound", Severity.WARNING, "AI-009", good=RELU, stage="graph",
      bad="g (float[600000000] x) => (float[600000000] y) { y = Relu (x) }")  # fmt: skip
def memory(check: Context) -> Found:
    """All tensors together have fewer bytes than the profile's limit.

    Why: the reference tensor library has offsets of 32 bits; memory must be bounded beforehand.
    Example: an input and an output of 600,000,000 float32.
    Limits: the sum over all tensors, which no plan of the memory exceeds; `sardonyx info` tells N.
    """
    total = sum(_sizes(check))
    limit = check.profile.limits.get("memory", 1 << 31)
    if total >= limit:
        yield Seen(f"{total:,} bytes", f"fewer than {limit:,}")


def _sizes(check: Context) -> Iterator[int]:
    assert check.graph is not None
    for kind in check.graph.types.values():
        if kind.shape is not None:
            yield kind.dtype.bytes(prod(d if isinstance(d, int) else 1 for d in kind.shape))
