"""ImageDecoder, by Pillow."""

from __future__ import annotations

import io

import numpy as np

from sardonyx.errors import InvalidModel, LimitExceeded, UnsupportedModel
from sardonyx.ops.registry import host
from sardonyx.types import Array

MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
PIXELS = 1 << 27  # of one image


@host("ImageDecoder", 20)
def image_decoder(encoded_stream: Array, *, pixel_format: str = "RGB") -> Array:
    """The uint8 pixels [height, width, channels] of a file; [0, 0, channels] where it is no image.

    Raises LimitExceeded for an image of more than PIXELS.
    """
    if pixel_format not in MODES:
        raise InvalidModel(f"pixel_format is {pixel_format!r}, expected {', '.join(MODES)}")
    try:
        from PIL import Image
    except ImportError as error:
        raise UnsupportedModel('it needs Pillow: pip install "sardonyx[image]"') from error
    try:
        with Image.open(io.BytesIO(encoded_stream.tobytes())) as image:
            if image.width * image.height > PIXELS:
                raise LimitExceeded(f"the image has {image.width} x {image.height} pixels")
            pixels = np.array(image.convert(MODES[pixel_format]))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return np.zeros((0, 0, 1 if pixel_format == "Grayscale" else 3), np.uint8)
    if pixel_format == "Grayscale":
        return pixels[:, :, np.newaxis]
    return np.ascontiguousarray(pixels[:, :, ::-1]) if pixel_format == "BGR" else pixels
