"""Rules about attributes and default values, for all operators."""

from __future__ import annotations

from collections import Counter
from typing import Any

from onnx import AttributeProto, ModelProto, helper

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.nodes import Node
from sardonyx.checker.registry import Found, at, rule
from sardonyx.checker.rules.use import fixed_nodes
from sardonyx.checker.samples import model
from sardonyx.errors import InvalidModel
from sardonyx.resolve.operators import FIELDS, check_attributes

RELU = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
# attributes whose absence the operator's own rule reports
OWN = {
    "ArgMax": ("axis", "keepdims", "select_last_index"),
    "BatchNormalization": ("epsilon", "training_mode"),
    "Concat": ("axis",),
    "Constant": ("value",),
    "Conv": ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"),
    "Flatten": ("axis",),
    "Gemm": ("alpha", "beta", "transA", "transB"),
    "LeakyRelu": ("alpha",),
    "LSTM": ("activations", "direction", "hidden_size", "input_forget", "layout"),
    "MaxPool": ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order",
                "strides"),
    "Reshape": ("allowzero",),
    "Shape": ("start", "end"),
    "Softmax": ("axis",),
}  # fmt: skip
# attributes that mean something when they are absent, or nothing in this node
EXEMPT = {
    "BatchNormalization": ("momentum",),
    "Cast": ("round_mode", "saturate"),
    "Constant": ("sparse_value", "value_float", "value_floats", "value_int", "value_ints",
                 "value_string", "value_strings"),
    "ConvTranspose": ("output_shape",),
    "DequantizeLinear": ("output_dtype",),
    "GRU": ("activation_alpha", "activation_beta", "clip"),
    "LSTM": ("activation_alpha", "activation_beta", "clip"),
    "QuantizeLinear": ("output_dtype", "precision", "saturate"),
    "Resize": ("axes",),
    "Split": ("num_outputs",),
}  # fmt: skip


@rule("A01", "no default values", Severity.ERROR, "GR4, REQ-OP-070", "F1",
      good=RELU, implies=("G12",),
      bad="g (int64[2,2] x) => (int64[2,2] y) { y = Transpose (x) }")  # fmt: skip
def given(check: Context) -> Found:
    """Every attribute that the operator's schema has is given in the node.

    Why: general restriction GR4: a default value is a part of the model that the model hides.
    Example: Transpose without perm.
    Limits: not attributes that mean something by being absent, or nothing in an inference model
    (BatchNormalization's momentum); where an operator's own rule asks for an attribute, that rule
    reports it. (Transpose, here, has no document yet: G12.)
    """
    for node in check.nodes:
        if node.schema is None or node.domain:
            continue
        silent = {*OWN.get(node.op, ()), *EXEMPT.get(node.op, ())}
        for name in sorted(node.schema.attributes):
            if name not in node.given and name not in silent:
                default = node.value(name)
                yield at(node, f"not given (default {default})", "given", attribute=name)


def _unknown() -> ModelProto:
    made = model(RELU)
    made.graph.node[0].attribute.append(helper.make_attribute("slope", 0.5))
    return made


@rule("A02", "attributes are known, typed and single", Severity.ERROR, "REQ-OP-030", good=RELU,
      bad=_unknown, blocks=True)  # fmt: skip
def known(check: Context) -> Found:
    """Each attribute is one of the schema's, holds a value of the schema's type, and occurs once.

    Why: an attribute that a reader does not know may be ignored by it.
    Example: Relu with an attribute slope.
    Limits: for operators of ai.onnx; a reference to an attribute of a function is refused too.
    """
    for node in check.nodes:
        if node.schema is None:
            continue
        for name, count in Counter(a.name for a in node.proto.attribute).items():
            if count > 1:
                yield at(node, f"{count} times", "once", attribute=name)
        for attribute in node.proto.attribute:
            yield from _one(node, attribute)


def _one(node: Node, attribute: AttributeProto) -> Found:
    assert node.schema is not None
    formal = node.schema.attributes.get(attribute.name)
    if formal is None:
        yield at(node, "an attribute that the operator does not have",
                 f"one of {sorted(node.schema.attributes)}", attribute=attribute.name)  # fmt: skip
        return
    if attribute.ref_attr_name:
        yield at(node, f"refers to {attribute.ref_attr_name}", "a value", attribute=attribute.name)
        return
    kind: Any = formal.type
    wanted = int(kind.value)
    if attribute.type != wanted:
        found = FIELDS.get(attribute.type, "nothing")
        yield at(node, f"holds {found}", FIELDS[wanted], attribute=attribute.name)
        return
    alone = helper.make_node(node.op, [], [])
    alone.attribute.append(attribute)
    try:
        check_attributes(alone, node.op)
    except InvalidModel as error:
        yield at(node, error, f"one value in {FIELDS[wanted]}", attribute=attribute.name)


@rule("A03", "Constant has a value", Severity.ERROR, "Constant [R1], [R2]", "F13",
      good="g (float[2] x) => (float[2] y) { c = Constant <value = float[2] {1.0, 2.0}> ()  "
           "y = Add (x, c) }",
      bad="g (float[2] x) => (float[2] y) { c = Constant <value_floats=[1.0, 2.0]> ()  "
          "y = Add (x, c) }")  # fmt: skip
def constant_form(check: Context) -> Found:
    """Constant has the attribute `value`, and only it.

    Why: a constant is written in one way, with its type and its shape; no sparse_value (GR1).
    Example: Constant with value_floats.
    Limits: none.
    """
    for node in check.of("Constant"):
        if set(node.given) != {"value"}:
            yield at(node, f"{sorted(node.given)}", "value", attribute="value")


# operator: (attribute, whether the rank itself may be given, whether the profile wants it >= 0)
AXES = {
    "ArgMax": (False, "ArgMax.2"), "Concat": (False, "Concat.1"), "Flatten": (True, "Flatten.1"),
    "Gather": (False, ""), "Softmax": (False, "Softmax.1"), "Split": (False, ""),
    "LayerNormalization": (False, ""), "QuantizeLinear": (False, ""),
    "DequantizeLinear": (False, ""),
}  # fmt: skip


@rule("A04", "axes are in range", Severity.ERROR, "Concat, Softmax, ArgMax: axis", "F8",
      blocks=True,
      good="g (float[2,3] x) => (float[2,3] y) { y = Softmax <axis=1> (x) }",
      bad="g (float[2,3] x) => (float[2,3] y) { y = Softmax <axis=2> (x) }")  # fmt: skip
def axis_range(check: Context) -> Found:
    """An axis lies in [-r, r-1], where r is the rank of the operand; Flatten's may be r.

    Why: an axis out of range means nothing.
    Example: Softmax with axis 2 of a matrix.
    Limits: that axes are not negative is said by the rules of the operators that ask for it
    (Concat.1, Softmax.1, ArgMax.2).
    """
    for node in check.nodes:
        axis, rank = node.integer("axis"), check.rank(node.input(0))
        if node.op not in AXES or node.domain or axis is None or rank is None:
            continue
        top = rank if AXES[node.op][0] else rank - 1
        if not -rank <= axis <= top:
            yield at(node, axis, f"{-rank} to {top}", attribute="axis")


# operator: the inputs that say what shape comes out, or along which axes
STEERING = {
    "ConstantOfShape": (0,), "Expand": (1,), "Pad": (1, 3), "Range": (0, 1, 2), "ReduceMean": (1,),
    "ReduceSum": (1,), "Reshape": (1,), "Resize": (1, 2, 3), "Slice": (1, 2, 3, 4), "Split": (1,),
    "Squeeze": (1,), "Unsqueeze": (1,),
}  # fmt: skip


@rule("A05", "shapes do not depend on data", Severity.ERROR, "REQ-GR-000 (explicit_types_shapes)",
      good="""g (float[4] x) => (float[2,2] y) <int64[2] s = {2, 2}>
              { y = Reshape <allowzero=0> (x, s) }""",
      bad="g (float[4] x, int64[2] s) => (float[2,2] y) "
          "{ y = Reshape <allowzero=0> (x, s) }")  # fmt: skip
def steering(check: Context) -> Found:
    """The inputs that decide a shape (Reshape's shape, Slice's starts, ...) are constants.

    Why: shapes are explicit and static; a size that is data is neither.
    Example: Reshape by a graph input.
    Limits: a constant is an initializer, a Constant, or computed of these alone. Clip's bounds
    decide no shape: a warning.
    """
    fixed = {*check.constants, *check.initializers - set(check.inputs)}
    fixed.update(name for node in fixed_nodes(check, fixed) for name in node.outputs)
    for node in check.nodes:
        for i in STEERING.get(node.op, ()) if not node.domain else ():
            name = node.input(i)
            if name and name not in fixed:
                yield at(node, "not a constant", "a constant", tensor=name)
    for node in check.of("Clip"):
        for name in filter(None, node.inputs[1:]):
            if name not in fixed:
                yield at(node, "not a constant", "a constant", tensor=name,
                         severity=Severity.WARNING)  # fmt: skip
