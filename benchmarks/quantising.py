"""Models in bytes, made of those in float32 by onnxruntime's tools, as users make them.

    static    QDQ: uint8 activations whose ranges a calibration run finds, int8 weights per channel
    dynamic   DynamicQuantizeLinear and MatMulInteger, int8 weights per column

Weights have 7 bits, as onnxruntime advises for processors without VNNI: its products of 8 bits
saturate there, and give other results. Both are deterministic: the weights and the calibration's
inputs are seeded.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx

BATCHES = 4
OPSET = 17  # the light models state older ones, where DequantizeLinear has no axis

Feeds = dict[str, np.ndarray]


def static(
    make: Callable[[], onnx.ModelProto], opset: int | None = None, full: bool = False
) -> onnx.ModelProto:
    """The model in QDQ, its BatchNormalization folded into the weights first; full: weights of all
    8 bits."""
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Normal(CalibrationDataReader):
        """Pictures of normal numbers."""

        def __init__(self, model: onnx.ModelProto) -> None:
            self.batches = _normal(model)

        def get_next(self) -> Feeds | None:
            return next(self.batches, None)

    model = make()
    for node in model.graph.node:
        if node.op_type == "Sum" and len(node.input) == 2:
            node.op_type = "Add"  # as exporters write it now; a Sum would stay float32
    with tempfile.TemporaryDirectory() as name:
        source, plain, made = (Path(name) / f"{x}.onnx" for x in ("source", "plain", "made"))
        onnx.save(model, source)
        quant_pre_process(source, plain, skip_symbolic_shape=True)
        if opset is not None:
            newer = onnx.load(plain)
            newer.opset_import[0].version = opset
            onnx.save(newer, plain)
        quantize_static(
            plain,
            made,
            Normal(model),
            per_channel=True,
            reduce_range=not full,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(made)


def dynamic(make: Callable[[], onnx.ModelProto], full: bool = False) -> onnx.ModelProto:
    """The model with the products of its weights in bytes."""
    from onnxruntime.quantization import quantize_dynamic

    logging.getLogger().setLevel(logging.ERROR)  # it advises to preprocess
    with tempfile.TemporaryDirectory() as name:
        source, made = (Path(name) / f"{x}.onnx" for x in ("source", "made"))
        onnx.save(make(), source)
        quantize_dynamic(source, made, per_channel=True, reduce_range=not full)
        return onnx.load(made)


def _normal(model: onnx.ModelProto) -> Iterator[Feeds]:
    random = np.random.default_rng(1)
    (x,) = model.graph.input
    shape = [d.dim_value or 1 for d in x.type.tensor_type.shape.dim]
    for _ in range(BATCHES):
        yield {x.name: random.standard_normal(shape).astype(np.float32)}
