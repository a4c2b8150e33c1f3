"""Rules about element types."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, TypeProto, helper, numpy_helper

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.registry import Found, at, of, rule
from sardonyx.checker.samples import model

RELU = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
CHAIN = "g (float[2] x) => (float[2] y) { h = Relu (x)  y = Sigmoid (h) }"
EQUAL = ("Add", "Sub", "Mul", "Div", "Less", "Where")  # EW.2 speaks of them


def _sparse() -> ModelProto:
    import numpy as np

    made = model("g (float[3] x) => (float[3] y) { y = Add (x, w) }")
    values = numpy_helper.from_array(np.array([1.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([1], np.int64), "w_at")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))
    return made


@rule("T01", "no sparse tensors", Severity.ERROR, "GR1", good=RELU, bad=_sparse,
      blocks=True)  # fmt: skip
def sparse(check: Context) -> Found:
    """No sparse initializer, no sparse attribute, no sparse type.

    Why: general restriction GR1: the profile has dense tensors alone.
    Example: a sparse_initializer of the graph.
    Limits: Constant's sparse_value is A03's.
    """
    for tensor in check.proto.graph.sparse_initializer:
        yield of(tensor.values.name, "a sparse initializer", "a dense one")
    for name, kind in check.declared.items():
        if kind.HasField("sparse_tensor_type"):
            yield of(name, "a sparse type", "a dense one")
    for node in check.nodes:
        for attribute in node.proto.attribute:
            sparse = attribute.HasField("sparse_tensor") or attribute.sparse_tensors
            if sparse and node.op != "Constant":
                yield at(node, "a sparse tensor", "a dense one", attribute=attribute.name)


def _undeclared() -> ModelProto:
    made = model(CHAIN)
    del made.graph.value_info[:]
    return made


@rule("T02", "types are explicit", Severity.ERROR, "GR2, REQ-GR-000 (explicit_types_shapes)", "F2",
      good=CHAIN, bad=_undeclared)  # fmt: skip
def explicit(check: Context) -> Found:
    """Every graph input and output and every tensor that a node makes states its element type.

    Why: general restriction GR2: no type is inferred.
    Example: a tensor between two nodes that is not in value_info.
    Limits: an initializer states its own type.
    """
    for name in _named(check):
        kind = check.declared.get(name)
        if kind is None or (kind.HasField("tensor_type") and not kind.tensor_type.elem_type):
            yield of(name, "no type", "an element type in value_info")


def _named(check: Context) -> list[str]:
    """The tensors that must state a type."""
    return list(dict.fromkeys((*check.inputs, *check.outputs, *check.producers)))


@rule("T03", "element types of the profile", Severity.ERROR, "types of the profile", good=RELU,
      bad="g (bfloat16[2] x) => (bfloat16[2] y) { y = Concat <axis=0> (x) }")  # fmt: skip
def allowed(check: Context) -> Found:
    """Tensors are dense and of one of the profile's element types.

    Why: the documents give the meaning for these types alone.
    Example: bfloat16; a sequence of tensors.
    Limits: which types those are is data of the profile.
    """
    for name in _named(check):
        kind = check.declared.get(name)
        if kind is None or kind.HasField("sparse_tensor_type"):
            continue
        found = _element(kind)
        if found is not None and found not in check.profile.types:
            yield of(name, found, f"one of {', '.join(sorted(check.profile.types))}")
    for tensor in check.proto.graph.initializer:
        found = _word(tensor.data_type)
        if found not in check.profile.types:
            yield of(tensor.name, found, f"one of {', '.join(sorted(check.profile.types))}")


def _element(kind: TypeProto) -> str | None:
    if not kind.HasField("tensor_type"):
        return str(kind.WhichOneof("value")).removesuffix("_type")
    return _word(kind.tensor_type.elem_type) if kind.tensor_type.elem_type else None


def _word(code: int) -> str:
    if code not in TensorProto.DataType.values():
        return f"type {code}"
    words = {"FLOAT": "float32", "DOUBLE": "float64"}
    name = TensorProto.DataType.Name(code)
    return words.get(name, str(name).lower())


@rule("T06", "no implicit conversion", Severity.ERROR, "GR3", "F5", good=RELU,
      bad="""g (float[2] x) => (float[2] y) <int32[2] n = {2, 3}> { y = Pow (x, n) }""",
      blocks=True)  # fmt: skip
def conversion(check: Context) -> Found:
    """The operands that an operator computes with have one element type.

    Why: general restriction GR3: no data is converted silently.
    Example: Pow of a float32 base and an int32 exponent.
    Limits: where ONNX has one type variable for the operands, a model that breaks this is no ONNX
    model either. Add, Sub, Mul, Div, Less and Where are EW.2's.
    """
    for node in check.nodes:
        if node.schema is None or node.op in EQUAL or node.domain:
            continue
        bound: dict[str, str] = {}
        names = list(zip(node.schema.inputs, node.inputs, strict=False))
        for formal, name in names:
            variable = "T" if node.op == "Pow" else formal.type_str
            found = check.stated_element(name) if name else ""
            if not found or "(" in variable:
                continue
            if bound.setdefault(variable, found) != found:
                yield at(node, f"{bound[variable]} and {found}", "one element type", tensor=name)
