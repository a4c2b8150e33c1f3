"""The models that are timed: all but those in wheels of others are made here, with seeded random
weights.

The light models of the onnx package have constants for weights: here they get seeded random ones,
of a size that keeps activations near 1, so that the outputs say something.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks import audio, detector, pictures, quantising, sequences, small, wheels

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
DIGITS = Path(__file__).parent.parent / "examples/digits/digits.onnx"


def models() -> dict[str, Callable[[], onnx.ModelProto]]:
    """name -> what makes the model."""
    light = ("resnet50", "densenet121", "squeezenet", "shufflenet")
    return {
        **{name: partial(_light, name) for name in light},
        "encoder": sequences.encoder,
        **({"digits": partial(onnx.load, DIGITS)} if DIGITS.exists() else {}),
        "mobilenetv2": pictures.mobilenetv2,
        "efficientnet": pictures.efficientnet,
        "resnet18": pictures.resnet18,
        "unet": pictures.unet,
        "vgg": pictures.vgg,
        "yolo": detector.yolo,
        "ppocr_det": partial(wheels.ppocr, "det", 1, 3, 640, 640),
        "ppocr_rec": partial(wheels.ppocr, "rec", 1, 3, 48, 320),
        "ppocr_cls": partial(wheels.ppocr, "cls", 1, 3, 48, 192),
        "magika": wheels.magika,
        "quantised": pictures.quantised,
        "vit": sequences.vit,
        "minilm": sequences.minilm,
        "minilm_any": sequences.minilm_any,
        "bert": sequences.bert,
        "gpt2prefill": sequences.gpt2prefill,
        "gpt2decode": sequences.gpt2decode,
        "gpt2step": sequences.gpt2step,
        "bilstm": sequences.bilstm,
        "gru": sequences.gru,
        "whisper": audio.whisper,
        "vad": audio.vad,
        "mlp": small.mlp,
        "chain": small.chain,
        "forest1": partial(small.forest, 1),
        "forest256": partial(small.forest, 256),
        "resnet50_int8": partial(quantising.static, partial(_light, "resnet50"), quantising.OPSET),
        "resnet50_full8": partial(
            quantising.static, partial(_light, "resnet50"), quantising.OPSET, full=True
        ),
        "mobilenetv2_int8": partial(quantising.static, pictures.mobilenetv2),
        "mobilenetv2_full8": partial(quantising.static, pictures.mobilenetv2, full=True),
        "minilm_int8": partial(quantising.dynamic, sequences.minilm),
        "mobilenetv2_b8": partial(_batch, pictures.mobilenetv2, 8),
        "efficientnet_b8": partial(_batch, pictures.efficientnet, 8),
        "unet_b8": partial(_batch, pictures.unet, 8),
        "boosted1": partial(small.boosted, 1),
        "boosted256": partial(small.boosted, 256),
    }


def written(made: Callable[[], onnx.ModelProto], path: Path) -> Path:
    """The file of a model, made where it is not there."""
    if not path.exists():
        onnx.save(made(), path)
    return path


def inputs(path: Path) -> dict[str, np.ndarray]:
    """Seeded values for the inputs, floats normal, integers 0 or 1; a dim without a number is 1.
    The model's metadata may give a `value of` or a `shape of` an input instead."""
    model = onnx.load(path)
    stated = {
        p.key: [int(n) for n in p.value.split()]
        for p in model.metadata_props
        if p.key.startswith(("shape of ", "value of "))
    }
    known = {x.name for x in model.graph.initializer}
    random, feeds = np.random.default_rng(0), {}
    for x in model.graph.input:
        if x.name not in known:
            sizes = [d.dim_value or 1 for d in x.type.tensor_type.shape.dim]
            shape = stated.get(f"shape of {x.name}", sizes)
            wanted = helper.tensor_dtype_to_np_dtype(x.type.tensor_type.elem_type)
            made = random.integers(0, 2, shape) if wanted.kind in "iu" else None
            if f"value of {x.name}" in stated:
                made = np.reshape(stated[f"value of {x.name}"], shape)
            feeds[x.name] = (random.standard_normal(shape) if made is None else made).astype(wanted)
    return feeds


def _batch(made: Callable[[], onnx.ModelProto], size: int) -> onnx.ModelProto:
    """The model for so many pictures."""
    model = made()
    for x in (*model.graph.input, *model.graph.output):
        x.type.tensor_type.shape.dim[0].dim_value = size
    return model


def _light(name: str) -> onnx.ModelProto:
    """The light model with random weights instead of ConstantOfShape."""
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    shapes = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    made = {n.output[0]: shapes[n.input[0]] for n in model.graph.node if _is_filled(n, shapes)}
    roles = {x: (n.op_type, i) for n in model.graph.node for i, x in enumerate(n.input)}
    random = np.random.default_rng(0)
    nodes = [n for n in model.graph.node if n.output[0] not in made]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for output, shape in made.items():
        value = _weights(random, [int(d) for d in shape], roles.get(output, ("", 0)))
        model.graph.initializer.append(numpy_helper.from_array(value, output))
    model.ir_version = 8  # where weights need not be inputs
    weights = {x.name for x in model.graph.initializer}
    given = [x for x in model.graph.input if x.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(given)
    return model


def _is_filled(node: onnx.NodeProto, shapes: dict[str, np.ndarray]) -> bool:
    value = next((a.t for a in node.attribute if a.name == "value"), None)
    is_float = value is None or value.data_type == TensorProto.FLOAT
    return node.op_type == "ConstantOfShape" and node.input[0] in shapes and is_float


def _weights(random: np.random.Generator, shape: list[int], role: tuple[str, int]) -> np.ndarray:
    if role in (("BatchNormalization", 1), ("BatchNormalization", 4)):
        return random.uniform(0.8, 1.2, shape).astype(np.float32)
    scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
    return (random.standard_normal(shape) * scale).astype(np.float32)
