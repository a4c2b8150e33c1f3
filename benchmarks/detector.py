"""A detector like YOLOv8n: C2f blocks, SPPF, a path up and down, a head with distributions."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.net import Net

SIZE = 640
KINDS = 80  # of objects
BINS = 16  # of a side's distance
STRIDES = (8, 16, 32)


def yolo() -> onnx.ModelProto:
    """The detector at 640 x 640."""
    net = Net()
    x = _conv(net, _conv(net, "x", 3, 16, 3, 2), 16, 32, 3, 2)
    x = _c2f(net, x, 32, 32, 1, True)
    p3 = _c2f(net, _conv(net, x, 32, 64, 3, 2), 64, 64, 2, True)
    p4 = _c2f(net, _conv(net, p3, 64, 128, 3, 2), 128, 128, 2, True)
    p5 = _c2f(net, _conv(net, p4, 128, 256, 3, 2), 256, 256, 1, True)
    p5 = _sppf(net, p5, 256)
    p4 = _c2f(net, net.op("Concat", _double(net, p5), p4, axis=1), 384, 128, 1, False)
    p3 = _c2f(net, net.op("Concat", _double(net, p4), p3, axis=1), 192, 64, 1, False)
    x = net.op("Concat", _conv(net, p3, 64, 64, 3, 2), p4, axis=1)
    p4 = _c2f(net, x, 192, 128, 1, False)
    x = net.op("Concat", _conv(net, p4, 128, 128, 3, 2), p5, axis=1)
    p5 = _c2f(net, x, 384, 256, 1, False)
    y = _head(net, [(p3, 64), (p4, 128), (p5, 256)])
    places = sum((SIZE // s) ** 2 for s in STRIDES)
    return net.model({"x": [1, 3, SIZE, SIZE]}, {y: [1, 4 + KINDS, places]})


def _conv(net: Net, x: str, channels: int, filters: int, kernel: int, stride: int = 1) -> str:
    x = net.conv(x, channels, filters, kernel, stride=stride)
    return net.op("Mul", x, net.op("Sigmoid", x))


def _c2f(net: Net, x: str, channels: int, filters: int, blocks: int, around: bool) -> str:
    """Half of the channels through blocks of two convolutions; all that they give, together.
    around: whether what a block reads is added to what it gives."""
    half = filters // 2
    parts = net.ops("Split", _conv(net, x, channels, filters, 1), count=2, axis=1, num_outputs=2)
    for _ in range(blocks):
        y = _conv(net, _conv(net, parts[-1], half, half, 3), half, half, 3)
        parts.append(net.op("Add", parts[-1], y) if around else y)
    return _conv(net, net.op("Concat", *parts, axis=1), (2 + blocks) * half, filters, 1)


def _sppf(net: Net, x: str, channels: int) -> str:
    """Maxima of growing windows."""
    parts = [_conv(net, x, channels, channels // 2, 1)]
    for _ in range(3):
        parts.append(net.op("MaxPool", parts[-1], kernel_shape=[5, 5], pads=[2] * 4))
    return _conv(net, net.op("Concat", *parts, axis=1), 2 * channels, channels, 1)


def _double(net: Net, x: str) -> str:
    scales = net.weight(np.array([1, 1, 2, 2], np.float32))
    return net.op("Resize", x, "", scales, mode="nearest")


def _head(net: Net, levels: list[tuple[str, int]]) -> str:
    """Boxes (middle, width, height) and the scores of the kinds, for all places of all levels."""
    boxes, scores = [], []
    for x, channels in levels:
        for found, inner, out in ((boxes, 4 * BINS, 4 * BINS), (scores, KINDS, KINDS)):
            y = _conv(net, _conv(net, x, channels, inner, 3), inner, inner, 3)
            w = net.weight(net.normal((out, inner, 1, 1), inner**-0.5))
            y = net.op("Conv", y, w, net.weight(net.normal((out,), 0.1)))
            found.append(net.op("Reshape", y, net.ints(1, out, -1)))
    sides = net.op("Reshape", net.op("Concat", *boxes, axis=2), net.ints(1, 4, BINS, -1))
    likely = net.op("Softmax", net.op("Transpose", sides, perm=[0, 2, 1, 3]), axis=1)
    bins = net.weight(np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
    far = net.op("Reshape", net.op("Conv", likely, bins), net.ints(1, 4, -1))
    box = _boxes(net, far)
    return net.op("Concat", box, net.op("Sigmoid", net.op("Concat", *scores, axis=2)), axis=1)


def _boxes(net: Net, far: str) -> str:
    """The boxes whose sides are so far from their places."""
    grids = [np.mgrid[0 : SIZE // s, 0 : SIZE // s][::-1].reshape(2, -1) + 0.5 for s in STRIDES]
    counts = [grid.shape[1] for grid in grids]
    steps = np.repeat(np.array([STRIDES]), counts, axis=1)
    place = net.weight(np.concatenate(grids, 1).astype(np.float32)[None])
    near, end = net.ops("Split", far, count=2, axis=1, num_outputs=2)
    low, high = net.op("Sub", place, near), net.op("Add", place, end)
    middle = net.op("Div", net.op("Add", low, high), net.scalar(2))
    size = net.op("Sub", high, low)
    whole = net.op("Concat", middle, size, axis=1)
    return net.op("Mul", whole, net.weight(steps.astype(np.float32)[None]))
