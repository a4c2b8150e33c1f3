"""AffineGrid: the places that affine matrices give to the pixels of an image."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, cast, lift, where
from sardonyx.ops.common import compute_type
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree
from sardonyx.types import DType


@operator("AffineGrid", 20, accuracy="rounding")
def affine_grid(k: Builder, theta: Tensor, size: Tensor, *, align_corners: int = 0) -> Tensor:
    """[N, (D,) H, W, r]: row r of theta times (x, y, (z,) 1), one fused multiply-add for each, in
    theta's compute type; size is (N, C, (D,) H, W), the last axis of the image is x."""
    batch, _, *image = size.known()
    rank = len(image)
    if rank not in (2, 3):
        raise InvalidModel(f"size has {rank + 2} elements, expected 4 or 5")
    agree(theta.shape[0], batch, "the batch of theta and size[0]")
    agree(theta.shape[1], rank, "the rows of theta and the axes of the image")
    agree(theta.shape[2], rank + 1, "the columns of theta")
    wide = compute_type(theta.dtype)

    def element(n: Axis, *rest: Axis) -> Expr:
        *pixel, row = rest
        total = lift(0.0, wide)
        places = [*_places(pixel, image, wide, bool(align_corners)), lift(1.0, wide)]
        for column, place in enumerate(places):
            total = alu("fma", cast(theta[n, row, column], wide), place, total)
        return total

    return k.compute((batch, *image, rank), element, theta.dtype)


def _places(pixel: Sequence[Expr], image: Sequence[Dim], dtype: DType, align: bool) -> list[Expr]:
    """start + i * step for each axis of the image, the last first.

    -1 and 1 are the centers of the corner pixels (align), or their outer edges; an only pixel is
    at -1 with align."""
    found: list[Expr] = []
    for i, extent in zip(reversed(pixel), reversed(image), strict=True):
        count = cast(lift(extent), dtype)
        if align:
            step, start = where(count.eq(1.0), 0.0, 2.0 / (count - 1.0)), lift(-1.0, dtype)
        else:
            step = 2.0 / count
            start = step / 2.0 - 1.0
        found.append(start + cast(i, dtype) * step)
    return found
