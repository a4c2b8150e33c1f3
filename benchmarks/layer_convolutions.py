"""Convolutions of models, each a model of its own."""

from __future__ import annotations

from functools import partial

import onnx

from benchmarks.layer import Made, Shape, layer, normal


def _conv(
    channels: int,
    filters: int,
    kernel: int | Shape,
    size: int | Shape,
    *,
    stride: int = 1,
    group: int = 1,
    apart: int = 1,
    padded: bool = True,
) -> onnx.ModelProto:
    """A convolution with a bias that keeps the size (divided by the stride), unless not padded."""
    place = (size, size) if isinstance(size, int) else size
    taps = (kernel,) * len(place) if isinstance(kernel, int) else kernel
    pads = [apart * (k - 1) // 2 * padded for k in taps]
    return layer(
        "Conv", (1, channels, *place), normal(filters, channels // group, *taps), normal(filters),
        kernel_shape=taps, pads=pads + pads, strides=[stride] * len(place), group=group,
        dilations=[apart] * len(place),
    )  # fmt: skip


def _transposed(
    channels: int, filters: int, kernel: int, size: int, stride: int, pad: int = 0
) -> onnx.ModelProto:
    return layer(
        "ConvTranspose", (1, channels, size, size), normal(channels, filters, kernel, kernel),
        kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
    )  # fmt: skip


def convolutions() -> dict[str, Made]:
    p = partial
    return {
        "conv7x7_3_64_224_by2": p(_conv, 3, 64, 7, 224, stride=2),
        "conv3x3_3_32_224_by2": p(_conv, 3, 32, 3, 224, stride=2),
        "conv11x11_3_96_224_by4": p(_conv, 3, 96, 11, 224, stride=4),
        "conv4x4_3_96_224_by4": p(_conv, 3, 96, 4, 224, stride=4, padded=False),
        "conv16x16_3_192_224_by16": p(_conv, 3, 192, 16, 224, stride=16, padded=False),
        "conv5x5_1_64_224": p(_conv, 1, 64, 5, 224),
        "conv5x5_1_32_28": p(_conv, 1, 32, 5, 28),
        "conv3x3_64_64_56": p(_conv, 64, 64, 3, 56),
        "conv3x3_128_128_28": p(_conv, 128, 128, 3, 28),
        "conv3x3_256_256_14": p(_conv, 256, 256, 3, 14),
        "conv3x3_512_512_7": p(_conv, 512, 512, 3, 7),
        "conv3x3_64_128_56_by2": p(_conv, 64, 128, 3, 56, stride=2),
        "conv3x3_48_80_28": p(_conv, 48, 80, 3, 28),
        "conv5x5_32_64_28": p(_conv, 32, 64, 5, 28),
        "conv1x7_128_128_17": p(_conv, 128, 128, (1, 7), 17),
        "conv7x1_128_128_17": p(_conv, 128, 128, (7, 1), 17),
        "conv3x3_32_9_224": p(_conv, 32, 9, 3, 224),
        "conv9x9_64_3_128": p(_conv, 64, 3, 9, 128),
        "conv1x1_64_256_56": p(_conv, 64, 256, 1, 56),
        "conv1x1_256_64_56": p(_conv, 256, 64, 1, 56),
        "conv1x1_1024_256_14": p(_conv, 1024, 256, 1, 14),
        "conv1x1_512_2048_7": p(_conv, 512, 2048, 1, 7),
        "conv1x1_256_512_56_by2": p(_conv, 256, 512, 1, 56, stride=2),
        "conv1x1_128_255_80": p(_conv, 128, 255, 1, 80),
        "conv1x1_256_21_65": p(_conv, 256, 21, 1, 65),
        "conv1x1_32_1_64": p(_conv, 32, 1, 1, 64),
        "conv1x1_16_96_112": p(_conv, 16, 96, 1, 112),
        "depthwise3x3_96_112": p(_conv, 96, 96, 3, 112, group=96),
        "depthwise3x3_144_56_by2": p(_conv, 144, 144, 3, 56, stride=2, group=144),
        "depthwise3x3_576_14": p(_conv, 576, 576, 3, 14, group=576),
        "depthwise3x3_192_28_2apart": p(_conv, 192, 192, 3, 28, group=192, apart=2),
        "depthwise5x5_240_14": p(_conv, 240, 240, 5, 14, group=240),
        "depthwise7x7_96_56": p(_conv, 96, 96, 7, 56, group=96),
        "conv3x3_32groups_of_4_56": p(_conv, 128, 128, 3, 56, group=32),
        "conv3x3_32groups_of_1_to_2_56": p(_conv, 32, 64, 3, 56, group=32),
        "conv1x1_8groups_of_30_28": p(_conv, 240, 240, 1, 28, group=8),
        "conv3x3_256_256_33_12apart": p(_conv, 256, 256, 3, 33, apart=12),
        "conv3x3_2048_256_33_6apart": p(_conv, 2048, 256, 3, 33, apart=6),
        "conv10_1_512_16000_by5": p(_conv, 1, 512, 10, (16000,), stride=5, padded=False),
        "conv3_512_512_3199_by2": p(_conv, 512, 512, 3, (3199,), stride=2, padded=False),
        "conv3_80_384_3000": p(_conv, 80, 384, 3, (3000,)),
        "conv2_64_64_4000_8apart": p(_conv, 64, 64, 2, (4000,), apart=8, padded=False),
        "conv3x3x3_32_32_16x56x56": p(_conv, 32, 32, 3, (16, 56, 56)),
        "transposed2x2_64_32_56": p(_transposed, 64, 32, 2, 56, 2),
        "transposed4x4_512_256_8": p(_transposed, 512, 256, 4, 8, 2, 1),
        "transposed9x9_56_1_64_by4": p(_transposed, 56, 1, 9, 64, 4, 3),
    }
