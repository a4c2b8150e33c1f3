"""Convolutional networks, made like the ones that they are named after."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx

from benchmarks.net import Net

CLASSES = 1000
# times wider inside, channels, blocks, stride of the first, (EfficientNet) kernel
MOBILE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))
MOBILE_STAGES = [(*stage, 3) for stage in (*MOBILE, (6, 160, 3, 2), (6, 320, 1, 1))]
EFFICIENT = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3))
EFFICIENT_STAGES = [*EFFICIENT, (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]


def mobilenetv2() -> onnx.ModelProto:
    """MobileNetV2 at 224 x 224."""
    return _inverted(Net(), MOBILE_STAGES, _relu6, squeeze=False)


def efficientnet() -> onnx.ModelProto:
    """EfficientNet-B0 at 224 x 224: SiLU, and squeeze and excitation."""
    return _inverted(Net(), EFFICIENT_STAGES, _silu, squeeze=True)


def resnet18() -> onnx.ModelProto:
    """ResNet-18 at 224 x 224."""
    net = Net()
    x = net.op("Relu", net.conv("x", 3, 64, 7, stride=2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    before = 64
    for channels in (64, 128, 256, 512):
        for _ in range(2):
            x, before = _basic(net, x, before, channels), channels
    y = net.pooled(x, 512, CLASSES)
    return net.model({"x": [1, 3, 224, 224]}, {y: [1, CLASSES]})


def vgg() -> onnx.ModelProto:
    """The convolutions of VGG-16 at 224 x 224, and one classifier after a mean."""
    net, x, before = Net(), "x", 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x, before = net.op("Relu", net.conv(x, before, width, 3)), width
        x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    y = net.pooled(x, before, CLASSES)
    return net.model({"x": [1, 3, 224, 224]}, {y: [1, CLASSES]})


def unet() -> onnx.ModelProto:
    """A U-Net of 16 to 128 channels at 128 x 128."""
    net, widths = Net(), (16, 32, 64, 128)
    x, before, skipped = "x", 3, []
    for width in widths:
        if skipped:
            x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        x, before = _twice(net, x, before, width), width
        skipped.append(x)
    for width, skip in zip(widths[-2::-1], skipped[-2::-1], strict=True):
        w = net.weight(net.normal((before, width, 2, 2), before**-0.5))
        x = net.op("Concat", net.op("ConvTranspose", x, w, strides=[2, 2]), skip, axis=1)
        x, before = _twice(net, x, 2 * width, width), width
    y = net.op("Sigmoid", net.conv(x, before, 1, 1))
    return net.model({"x": [1, 3, 128, 128]}, {y: [1, 1, 128, 128]})


def quantised() -> onnx.ModelProto:
    """A CNN of six convolutions at 56 x 56 in QDQ: uint8 activations, int8 weights per channel."""
    net = Net()
    x, before = _requantised(net, "x", 0.02, 128), 3
    for channels, stride in ((32, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        w = net.weight(net.random.integers(-127, 128, (channels, before, 3, 3)).astype(np.int8))
        scales = net.weight(np.full(channels, 0.02 * (9 * before) ** -0.5, np.float32))
        zeros = net.weight(np.zeros(channels, np.int8))
        w = net.op("DequantizeLinear", w, scales, zeros, axis=0)
        x = net.op("Relu", net.op("Conv", x, w, pads=[1] * 4, strides=[stride] * 2))
        x, before = _requantised(net, x, 0.02, 0), channels
    y = net.pooled(x, before, 10)
    return net.model({"x": [1, 3, 56, 56]}, {y: [1, 10]})


def _requantised(net: Net, x: str, scale: float, zero: int) -> str:
    about = net.scalar(scale), net.weight(np.uint8(zero))
    return net.op("DequantizeLinear", net.op("QuantizeLinear", x, *about), *about)


def _relu6(net: Net, x: str) -> str:
    return net.op("Clip", x, net.scalar(0), net.scalar(6))


def _silu(net: Net, x: str) -> str:
    return net.op("Mul", x, net.op("Sigmoid", x))


def _twice(net: Net, x: str, channels: int, filters: int) -> str:
    x = net.op("Relu", net.conv(x, channels, filters, 3))
    return net.op("Relu", net.conv(x, filters, filters, 3))


def _basic(net: Net, x: str, channels: int, filters: int) -> str:
    """The block of ResNet-18; the first of a wider stage halves the picture."""
    stride = 1 if channels == filters else 2
    y = net.op("Relu", net.conv(x, channels, filters, 3, stride=stride))
    y = net.conv(y, filters, filters, 3)
    x = x if channels == filters else net.conv(x, channels, filters, 1, stride=stride)
    return net.op("Relu", net.op("Add", y, x))


def _inverted(
    net: Net,
    stages: list[tuple[int, int, int, int, int]],
    activation: Callable[[Net, str], str],
    *,
    squeeze: bool,
) -> onnx.ModelProto:
    """Stages of inverted residual blocks, between a first and a last convolution."""
    act = partial(activation, net)
    x, before = act(net.conv("x", 3, 32, 3, stride=2)), 32
    for times, channels, blocks, first, kernel in stages:
        for stride in (first, *[1] * (blocks - 1)):
            inner = times * before
            y = x if times == 1 else act(net.conv(x, before, inner, 1))
            y = act(net.conv(y, inner, inner, kernel, stride=stride, group=inner))
            y = _excited(net, y, inner, max(1, before // 4), act) if squeeze else y
            y = net.conv(y, inner, channels, 1)
            x = net.op("Add", x, y) if (stride, before) == (1, channels) else y
            before = channels
    y = net.pooled(act(net.conv(x, before, 1280, 1)), 1280, CLASSES)
    return net.model({"x": [1, 3, 224, 224]}, {y: [1, CLASSES]})


def _excited(net: Net, x: str, channels: int, inner: int, act: Callable[[str], str]) -> str:
    """Each channel times a number that all channels' means decide."""
    down = net.weight(net.normal((inner, channels, 1, 1), channels**-0.5))
    up = net.weight(net.normal((channels, inner, 1, 1), inner**-0.5))
    hidden = act(net.op("Conv", net.op("GlobalAveragePool", x), down))
    return net.op("Mul", x, net.op("Sigmoid", net.op("Conv", hidden, up)))
