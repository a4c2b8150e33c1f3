"""Fixes of operands: versions, element types, broadcasting, ranks."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import onnx.version_converter
from onnx import NodeProto, helper

from sardonyx.checker.rules.elementwise import BINARY
from sardonyx.legalize.work import Work, attribute, given, is_of, label, put
from sardonyx.types import by_numpy

LARGEST = 1 << 22  # elements of a constant that is broadcast here
EXPAND, RESHAPE = 8, 14  # the operator sets that have Expand, and Reshape as the profile has it


def versions(work: Work) -> Iterator[str]:
    """F9: a model with an operator of a version that the profile does not cover, or of an operator
    set without what other fixes need (Reshape of F11, Expand of F4), is converted, by ONNX's
    version converter, to the profile's operator set."""
    old = _early(work)
    for node in work.nodes:
        entry, schema = work.profile.operators.get(node.op_type), work.schema(node)
        if entry is not None and entry.since and schema is not None:
            old += [node.op_type] * (schema.since_version not in entry.since)
    words = work.profile.option("opset")
    if old and words:
        target = int(words[0])
        _bound_clips(work)
        work.proto.CopyFrom(onnx.version_converter.convert_version(work.proto, target))
        yield f"converted to operator set {target} for {', '.join(sorted(set(old)))}"


def _bound_clips(work: Work) -> None:
    """Gives each Clip of attributes both bounds: one that is absent is the largest float, which an
    absent input of a later Clip is not."""
    for node in work.of("Clip"):
        schema = work.schema(node)
        if schema is None or schema.since_version != 6:
            continue
        for name in ("min", "max"):
            if attribute(node, name) is None:
                known: Any = schema.attributes[name]
                put(node, name, known.default_value.f)


def _early(work: Work) -> list[str]:
    """The operators that cannot be mended with the operators of the model's operator set."""
    free = work.profile.option("broadcast")
    found = [n for n in work.of("MatMul") if work.version < RESHAPE and not _is_plain(work, n)]
    if work.version < EXPAND:
        found += [n for n in work.of(*BINARY) if n.op_type not in free and not _is_even(work, n)]
    return [n.op_type for n in found]


def _is_plain(work: Work, node: NodeProto) -> bool:
    """Whether a MatMul is of matrices."""
    shapes = [work.shape(name) for name in node.input]
    return all(shape is None or len(shape) == 2 for shape in shapes)


def _is_even(work: Work, node: NodeProto) -> bool:
    """Whether the operands of an operation have one shape."""
    return len({work.shape(name) for name in node.input}) == 1


def casts(work: Work) -> Iterator[str]:
    """F5: Pow of two element types gets a Cast of its exponent; a constant one is cast here.
    Only where no exponent changes by it: an int32 does not fit float32, where a large odd one would
    become even."""
    for node in work.of("Pow"):
        base, exponent = (work.dtype(n) for n in node.input)
        kind = None if base is None else by_numpy(base)
        if base is None or exponent is None or kind is None or base == exponent:
            continue
        value = work.constant(node.input[1])
        if value is not None and (value.astype(base).astype(value.dtype) == value).all():
            node.input[1] = work.add_constant(f"{node.output[0]}_exponent", value.astype(base))
        elif not np.can_cast(exponent, base):
            continue
        else:
            name = work.fresh(f"{node.output[0]}_exponent")
            _before(work, node, helper.make_node("Cast", [node.input[1]], [name], to=kind.onnx))
            node.input[1] = name
        yield f"{label(node)}: its exponent is cast from {exponent} to {base}"


def sums(work: Work) -> Iterator[str]:
    """F17: Sum, which is not of the profile, becomes the Adds that it stands for, from left to
    right; of one operand an Identity."""
    if "Sum" in work.profile.operators or not work.profile.operators:
        return
    kept: list[NodeProto] = []
    for node in work.nodes:
        if not is_of(node, "Sum"):
            kept.append(node)
            continue
        total, last = node.input[0], len(node.input) - 1
        if last == 0:
            kept.append(helper.make_node("Identity", [total], [node.output[0]]))
        for i in range(1, last + 1):
            made = node.output[0] if i == last else work.fresh(f"{node.output[0]}_sum_{i}")
            kept.append(helper.make_node("Add", [total, node.input[i]], [made]))
            total = made
        yield f"{label(node)}: became {max(last, 1)} {'Add' if last else 'Identity'}"
    work.replace_nodes(kept)


def broadcasts(work: Work) -> Iterator[str]:
    """F4: an operand that would be broadcast is written out: a constant here, others by Expand."""
    free = work.profile.option("broadcast")
    for node in work.of(*(op for op in BINARY if op not in free)):
        shape = work.shape(node.output[0])
        for i in BINARY[node.op_type][0] if shape is not None else ():
            assert shape is not None
            found = work.shape(node.input[i])
            if found is not None and found != shape:
                _expand(work, node, i, shape)
                yield f"{label(node)}: operand {i} {list(found)} expanded to {list(shape)}"


def gemm_broadcast(work: Work) -> Iterator[str]:
    """F4: Gemm's C gets the shape of Y."""
    for node in work.of("Gemm"):
        shape = work.shape(node.output[0])
        found = work.shape(node.input[2]) if len(node.input) > 2 else None
        if shape is not None and found is not None and found != shape:
            _expand(work, node, 2, shape)
            yield f"{label(node)}: C {list(found)} expanded to {list(shape)}"


def _expand(work: Work, node: NodeProto, i: int, shape: tuple[int, ...]) -> None:
    value = work.constant(node.input[i])
    if value is not None and prod(shape) <= LARGEST:
        node.input[i] = work.add_constant(
            f"{node.output[0]}_operand", np.broadcast_to(value, shape)
        )
        return
    size = work.add_constant(f"{node.output[0]}_shape", np.array(shape, np.int64))
    name = work.fresh(f"{node.output[0]}_operand")
    _before(work, node, helper.make_node("Expand", [node.input[i], size], [name]))
    node.input[i] = name


def _before(work: Work, node: NodeProto, *made: NodeProto) -> None:
    """Puts nodes before a node. `node` stays the message in the list."""
    nodes = work.proto.graph.node
    place = next(i for i, n in enumerate(nodes) if n is node or n == node)
    for offset, new in enumerate(made):
        nodes.insert(place + offset, new)


def matmul(work: Work) -> Iterator[str]:
    """F11: a MatMul of higher rank becomes one of matrices between Reshapes, where B is a matrix or
    all batch dims are 1."""
    kept: list[NodeProto] = []
    for node in work.nodes:
        made = _flat(work, node) if is_of(node, "MatMul") else None
        kept += made or [node]
        if made:
            yield f"{label(node)}: as a product of matrices"
    if len(kept) != len(work.nodes):
        work.replace_nodes(kept)


def _flat(work: Work, node: NodeProto) -> list[NodeProto] | None:
    a, b, y = (work.shape(n) for n in (*node.input, node.output[0]))
    if a is None or b is None or y is None or (len(a) == 2 and len(b) == 2):
        return None
    if len(a) < 2 or len(b) < 2 or 0 in (*a, *b):
        return None
    if prod(b[:-2]) != 1 or (len(b) > len(a) and prod(a[:-2]) != 1):
        return None
    return [
        *_reshaped(work, node, 0, (prod(a[:-1]), a[-1])),
        *_reshaped(work, node, 1, b[-2:]),
        *_result(work, node, (prod(a[:-1]), b[-1]), y),
    ]


def _reshaped(work: Work, node: NodeProto, i: int, shape: tuple[int, ...]) -> list[NodeProto]:
    """Binds input i to a Reshape of itself; a constant is reshaped here."""
    if work.shape(node.input[i]) == shape:
        return []
    value = work.constant(node.input[i])
    if value is not None:
        node.input[i] = work.add_constant(f"{node.output[0]}_matrix", value.reshape(shape))
        return []
    size = work.add_constant(f"{node.output[0]}_shape", np.array(shape, np.int64))
    name = work.fresh(f"{node.output[0]}_matrix_{i}")
    made = helper.make_node("Reshape", [node.input[i], size], [name], allowzero=0)
    node.input[i] = name
    return [made]


def _result(
    work: Work, node: NodeProto, flat: tuple[int, ...], shape: tuple[int, ...]
) -> list[NodeProto]:
    product = NodeProto()
    product.CopyFrom(node)
    if flat == shape:
        return [product]
    name = node.output[0]
    product.output[0] = work.fresh(f"{name}_product")
    size = work.add_constant(f"{name}_shape", np.array(shape, np.int64))
    return [product, helper.make_node("Reshape", [product.output[0], size], [name], allowzero=0)]


def gemm(work: Work) -> Iterator[str]:
    """F12: a constant B (or A) that Gemm transposes is transposed here; where restrictions that are
    to be confirmed are enforced, Gemm becomes Transpose, MatMul, Mul and Add."""
    for node in work.of("Gemm"):
        for i, name in ((0, "transA"), (1, "transB")):
            value = work.constant(node.input[i])
            if given(node, name, 0) and value is not None:
                node.input[i] = work.add_constant(f"{node.output[0]}_transposed", value.T)
                put(node, name, 0)
                yield f"{label(node)}: a constant transposed, {name} = 0"
    if work.strict:
        yield from _plain_gemm(work)


def _plain_gemm(work: Work) -> Iterator[str]:
    kept: list[NodeProto] = []
    for node in work.nodes:
        plain = given(node, "alpha", 1.0) == 1.0 == given(node, "beta", 1.0)
        straight = not given(node, "transA", 0) and not given(node, "transB", 0)
        if not is_of(node, "Gemm") or (plain and straight):
            kept.append(node)
            continue
        made = _products(work, node)
        kept += made or [node]
        if made:
            yield f"{label(node)}: became {', '.join(n.op_type for n in made)}"
    work.replace_nodes(kept)


def _products(work: Work, node: NodeProto) -> list[NodeProto] | None:
    """alpha * op(A) op(B) + beta * C as nodes of their own; None where a shape is not known."""
    y, shape, dtype = node.output[0], work.shape(node.output[0]), work.dtype(node.output[0])
    if shape is None or dtype is None:
        return None
    made: list[NodeProto] = []

    def step(op: str, inputs: list[str], last: bool = False, **attributes: Any) -> str:
        name = y if last else work.fresh(f"{y}_{op.lower()}_{len(made)}")
        made.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def scaled(name: str, factor: str, last: bool = False) -> str:
        value = given(node, factor, 1.0)
        if value == 1.0:
            return name
        constant = work.add_constant(f"{y}_{factor}", np.full(shape, value).astype(dtype))
        return step("Mul", [name, constant], last)

    operands = [
        step("Transpose", [node.input[i]], perm=[1, 0]) if given(node, trans, 0) else node.input[i]
        for i, trans in ((0, "transA"), (1, "transB"))
    ]
    has_c = len(node.input) > 2 and bool(node.input[2]) and given(node, "beta", 1.0) != 0.0
    if not has_c and given(node, "alpha", 1.0) == 1.0:
        step("MatMul", operands, True)
        return made
    product = scaled(step("MatMul", operands), "alpha", not has_c)
    if has_c:
        step("Add", [product, scaled(node.input[2], "beta")], True)
    return made
