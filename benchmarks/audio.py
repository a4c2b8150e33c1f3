"""Models of sound: a voice detector, and an encoder made like the one that it is named after."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import onnx

from benchmarks.net import Net
from benchmarks.sequences import Size, layers, norm
from benchmarks.wheels import Absent


def vad() -> onnx.ModelProto:
    """Silero VAD (MIT), both its rates and their Ifs, for 512 samples at 16 kHz and the 64 before.
    The package is not imported, which would ask for torch."""
    found = find_spec("silero_vad")
    if found is None or found.origin is None:
        raise Absent("silero-vad is not installed: pip install --no-deps silero-vad")
    model = onnx.load(Path(found.origin).parent / "data/silero_vad.onnx")
    # not as the model's own shapes: onnxruntime's inference would then refuse the branches
    for name, text in (("shape of input", "1 576"), ("shape of state", "2 1 128")):
        model.metadata_props.add(key=name, value=text)
    model.metadata_props.add(key="value of sr", value="16000")
    return model


def whisper() -> onnx.ModelProto:
    """The sizes of Whisper-tiny's encoder: 80 bands of 3000 frames, 1500 tokens, width 384."""
    size, net, x = Size(4, 1500, 384, 6), Net(), "x"
    for channels, stride in ((80, 1), (size.width, 2)):
        w = net.weight(net.normal((size.width, channels, 3), (3 * channels) ** -0.5))
        b = net.weight(net.normal((size.width,), 0.1))
        x = net.op("Conv", x, w, b, pads=[1, 1], strides=[stride])
        erf = net.op("Erf", net.op("Div", x, net.scalar(2**0.5)))
        half = net.op("Mul", x, net.scalar(0.5))
        x = net.op("Mul", half, net.op("Add", erf, net.scalar(1)))
    x = net.op("Transpose", x, perm=[0, 2, 1])
    x = net.op("Add", x, net.weight(net.normal((1, size.tokens, size.width), 0.1)))
    y = norm(net, layers(net, x, size), size.width)
    return net.model({"x": [1, 80, 3000]}, {y: [1, size.tokens, size.width]})
