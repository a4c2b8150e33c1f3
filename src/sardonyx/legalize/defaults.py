"""Fixes of what a node leaves unsaid: default attributes, optional inputs, automatic padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto

from sardonyx.checker.rules.attributes import EXEMPT
from sardonyx.legalize.work import (
    Work,
    attribute,
    drop,
    given,
    integers,
    label,
    put,
    put_input,
)
from sardonyx.types import Array

WINDOWS = (
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "ConvInteger",
    "QLinearConv",
    "LpPool",
)


def attributes(work: Work) -> Iterator[str]:
    """F1: every attribute that has a default is given: the schema's, or what it stands for."""
    for node in work.nodes:
        schema = work.schema(node)
        if schema is None or node.domain not in ("", "ai.onnx"):
            continue
        added = []
        for name, formal in sorted(schema.attributes.items()):
            if attribute(node, name) is not None or name in EXEMPT.get(node.op_type, ()):
                continue
            known: Any = formal
            if known.default_value.name:
                node.attribute.append(
                    AttributeProto.FromString(known.default_value.SerializeToString())
                )
                added.append(name)
            elif (value := _derived(work, node, name)) is not None:
                put(node, name, value)
                added.append(name)
        if added:
            yield f"{label(node)}: {', '.join(added)} given"


def _derived(work: Work, node: NodeProto, name: str) -> object:
    """What an absent attribute without a default stands for; None where that is not known."""
    op = node.op_type
    data = work.shape(node.input[0]) if node.input else None
    if data is None:
        return None
    if op in WINDOWS:
        return _window(work, node, name, len(data) - 2)
    if op == "Transpose" and name == "perm":
        return list(reversed(range(len(data))))
    if op == "Shape" and name == "end":
        return len(data)
    if op in ("LSTM", "GRU", "RNN"):
        return _recurrent(work, node, name)
    return None


def _window(work: Work, node: NodeProto, name: str, spatial: int) -> object:
    place = 3 if node.op_type == "QLinearConv" else 1
    if name == "kernel_shape" and len(node.input) > place:
        weights = work.shape(node.input[place])
        return None if weights is None else list(weights[2:])
    if name in ("strides", "dilations"):
        return [1] * spatial
    if name == "pads" and given(node, "auto_pad", "NOTSET") == "NOTSET":
        return [0] * (2 * spatial)
    return [0] * spatial if name == "output_padding" else None


def _recurrent(work: Work, node: NodeProto, name: str) -> object:
    weights = work.shape(node.input[2])
    if name == "hidden_size" and weights is not None:
        return weights[2]
    if name != "activations" or weights is None:
        return None
    row = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
    return row[node.op_type] * weights[0]


def auto_pad(work: Work) -> Iterator[str]:
    """F6: auto_pad VALID and SAME_* become the pads that they stand for."""
    for node in work.of("Conv", "MaxPool", "AveragePool", "ConvInteger", "QLinearConv", "LpPool"):
        mode = given(node, "auto_pad", "NOTSET")
        data = work.shape(node.input[0])
        if mode == "NOTSET" or data is None:
            continue
        spatial = len(data) - 2
        kernel = integers(node, "kernel_shape", [])
        if not kernel:
            weights = work.shape(node.input[3 if node.op_type == "QLinearConv" else 1])
            kernel = [] if weights is None else list(weights[2:])
        strides = integers(node, "strides", [1] * spatial)
        dilations = integers(node, "dilations", [1] * spatial)
        begin, end = [0] * spatial, [0] * spatial
        for i in range(spatial if mode != "VALID" else 0):
            reach = dilations[i] * (kernel[i] - 1) + 1
            total = max((-(-data[2 + i] // strides[i]) - 1) * strides[i] + reach - data[2 + i], 0)
            small = total // 2
            begin[i] = small if mode == "SAME_UPPER" else total - small
            end[i] = total - begin[i]
        put(node, "auto_pad", "NOTSET")
        put(node, "pads", begin + end)
        yield f"{label(node)}: {mode} became pads {begin + end}"


def conv_bias(work: Work) -> Iterator[str]:
    """F7: a Conv without B gets one of negative zeros, which change no sum, not even -0."""
    for node in work.of("Conv"):
        weights, dtype = work.shape(node.input[1]), work.dtype(node.input[1])
        if len(node.input) > 2 and node.input[2]:
            continue
        if weights is not None and dtype is not None:
            bias = np.full(weights[0], -0.0).astype(dtype)
            put_input(node, 2, work.add_constant(f"{node.output[0]}_bias", bias))
            yield f"{label(node)}: B of {weights[0]} negative zeros"


def gemm_c(work: Work) -> Iterator[str]:
    """F7: a Gemm without C gets one of negative zeros, with beta 1."""
    for node in work.of("Gemm"):
        shape, dtype = work.shape(node.output[0]), work.dtype(node.output[0])
        if len(node.input) > 2 and node.input[2]:
            continue
        if shape is not None and dtype is not None:
            put_input(node, 2, work.add_constant(f"{node.output[0]}_c", _zeros(shape, dtype)))
            put(node, "beta", 1.0)
            yield f"{label(node)}: C of negative zeros"


def _zeros(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Zeros that change no sum: negative ones where the type has them."""
    if np.issubdtype(dtype, np.integer):
        return np.zeros(shape, dtype)
    return np.full(shape, -0.0).astype(dtype)


def clip_bounds(work: Work) -> Iterator[str]:
    """F7: a Clip without min or max gets the type's extremes: infinities, or its least and largest
    integer."""
    for node in work.of("Clip"):
        schema, dtype = work.schema(node), work.dtype(node.input[0])
        if schema is None or schema.since_version < 11 or dtype is None:
            continue
        for i, what in ((1, "min"), (2, "max")):
            if len(node.input) > i and node.input[i]:
                continue
            name = work.add_constant(f"{node.output[0]}_{what}", _extreme(dtype, what == "max"))
            put_input(node, i, name)
            yield f"{label(node)}: {what} given, the type's extreme"


def _extreme(dtype: np.dtype[np.generic], largest: bool) -> Array:
    if not np.issubdtype(dtype, np.integer):
        return np.array(np.inf if largest else -np.inf).astype(dtype)
    info = np.iinfo(dtype)  # type: ignore[type-var]  # an integer's, as was asked
    return np.array(info.max if largest else info.min, dtype)


def slice_axes(work: Work) -> Iterator[str]:
    """F7: a Slice gets axes and steps, and an entry for each axis, counted from the beginning."""
    for node in work.of("Slice"):
        data = work.shape(node.input[0])
        schema = work.schema(node)
        if data is None or schema is None or schema.since_version < 10:
            continue
        values = [work.constant(n) if n else np.array(()) for n in node.input[1:]]
        if any(v is None for v in values):
            continue
        lists = [[int(e) for e in v.reshape(-1)] for v in values if v is not None]
        full = _full_slice(lists, data)
        if len(lists) == 4 and lists == full:
            continue
        del node.input[1:]
        for what, numbers in zip(("starts", "ends", "axes", "steps"), full, strict=True):
            name = f"{node.output[0]}_{what}"
            node.input.append(work.add_constant(name, np.array(numbers, np.int64)))
        yield f"{label(node)}: starts, ends, axes, steps for every axis"


def _full_slice(lists: list[list[int]], data: tuple[int, ...]) -> list[list[int]]:
    """starts, ends, axes and steps for all axes, clamped to the sizes as Slice itself does."""
    starts, ends = lists[0], lists[1]
    axes = lists[2] if len(lists) > 2 and lists[2] else list(range(len(starts)))
    steps = lists[3] if len(lists) > 3 and lists[3] else [1] * len(starts)
    full = [(0, size, 1) for size in data]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = data[axis]
        low, high = (v + size if v < 0 else v for v in (start, end))
        if step > 0:
            low, high = min(max(low, 0), size), min(max(high, 0), size)
            low, high = (0, 0) if low >= high else (low, high)
        else:
            low, high = min(max(low, 0), size - 1), min(max(high, -1), size - 1)
            high = -size - 1 if high < 0 else high
        full[axis] = (low, high, step)
    columns = list(zip(*full, strict=True)) or [(), (), ()]
    return [list(columns[0]), list(columns[1]), list(range(len(data))), list(columns[2])]


def lstm_inputs(work: Work) -> Iterator[str]:
    """F7: an LSTM gets the inputs that it leaves out: biases, states and peepholes that change
    nothing, and the full length of every sequence. No peepholes where a cell may become infinite,
    of which 0 times as much is NaN."""
    for node in work.of("LSTM"):
        data, r, dtype = (
            work.shape(node.input[0]),
            work.shape(node.input[2]),
            work.dtype(node.input[0]),
        )
        if data is None or r is None or dtype is None:
            continue
        directions, hidden = r[0], r[2]
        batch_first = bool(given(node, "layout", 0))
        steps, batch = (data[1], data[0]) if batch_first else (data[0], data[1])
        state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
        values = {
            3: ("b", _zeros((directions, 8 * hidden), dtype)),
            4: ("lengths", np.full(batch, steps, np.int32)),
            5: ("h", np.zeros(state, dtype)),
            6: ("c", np.zeros(state, dtype)),
        }
        if _is_finite(work, node):
            values[7] = ("p", _zeros((directions, 3 * hidden), dtype))
        added = [i for i in values if len(node.input) <= i or not node.input[i]]
        for i in added:
            stem, value = values[i]
            put_input(node, i, work.add_constant(f"{node.output[0] or 'lstm'}_{stem}", value))
        if added:
            yield f"{label(node)}: inputs {added} given"


def _is_finite(work: Work, node: NodeProto) -> bool:
    """Whether no cell of an LSTM becomes infinite: it begins finite, and grows by 1 in a step."""
    found = attribute(node, "activations")
    shapes = [] if found is None else list(found.strings)
    begins = work.constant(node.input[6]) if len(node.input) > 6 and node.input[6] else np.zeros(1)
    steady = all(s == (b"Tanh" if i % 3 else b"Sigmoid") for i, s in enumerate(shapes) if i % 3 < 2)
    return steady and begins is not None and bool(np.isfinite(begins.astype(np.float64)).all())


def negative_axes(work: Work) -> Iterator[str]:
    """F8: axes count from the beginning: attributes, and inputs that are constants."""
    for node in work.nodes:
        if node.domain not in ("", "ai.onnx") or not node.input:
            continue
        data = work.shape(node.input[0])
        axis = given(node, "axis")
        new = node.op_type in ("OneHot", "SplitToSequence", "ConcatFromSequence")
        if data is not None and isinstance(axis, int) and axis < 0 and not new:
            put(node, "axis", axis + len(data))
            yield f"{label(node)}: axis {axis} is {axis + len(data)}"
        yield from _axes_input(work, node, data)


def _axes_input(work: Work, node: NodeProto, data: tuple[int, ...] | None) -> Iterator[str]:
    place = {"Unsqueeze": 1, "Squeeze": 1, "ReduceSum": 1, "ReduceMean": 1, "ReduceMax": 1}
    i = place.get(node.op_type)
    if i is None or len(node.input) <= i or not node.input[i] or data is None:
        return
    axes = work.constant(node.input[i])
    if axes is None or not (axes < 0).any():
        return
    rank = len(data) + (axes.size if node.op_type == "Unsqueeze" else 0)
    node.input[i] = work.add_constant(
        f"{node.output[0]}_axes", np.where(axes < 0, axes + rank, axes)
    )
    yield f"{label(node)}: axes {axes.tolist()} count from the beginning"


__all__ = [
    "attributes", "auto_pad", "clip_bounds", "conv_bias", "drop", "gemm_c", "lstm_inputs",
    "negative_axes", "slice_axes",
]  # fmt: skip
