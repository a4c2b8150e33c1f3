"""Rotary position embeddings (arXiv 2104.09864): RotaryEmbedding of ai.onnx, and what those of
com.microsoft share with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, cast, lift, where
from sardonyx.ops.common import compute_type
from sardonyx.ops.index import wrapped
from sardonyx.ops.ms_attention import Heads, of_tensor
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import numbers


@dataclass(frozen=True, slots=True)
class Turn:
    """How pairs of elements are turned: the cosine and sine of each (batch, place, pair), how many
    of a head's elements have a pair (0: all), whether pairs are neighbours or else an element of
    the first half and one of the second, and whether each operation is rounded and the other
    elements are moved, as in the function body of onnx's schema, or all is rounded once."""

    cos: Tensor
    sin: Tensor
    part: Dim
    interleaved: bool
    as_body: bool = False


@operator("RotaryEmbedding", 23, accuracy="rounding")
def rotary_embedding(
    k: Builder,
    x: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """x (batch, heads, sequence, elements) or (batch, sequence, num_heads * elements); the caches
    (positions, pairs) with position_ids (batch, sequence), else (batch, sequence, pairs)."""
    places = places_of(x)
    cos, sin = cos_cache, sin_cache
    if position_ids is None:
        k.need_shape(cos, (*places, *cos.shape[2:]), "cos_cache")
        k.need_shape(sin, cos.shape, "sin_cache")
    else:
        k.need_shape(position_ids, places, "position_ids")
        cos, sin = gathered(
            k, cos, sin, places, lambda b, s: wrapped(position_ids[b, s], cos_cache.shape[0])
        )
    turn = Turn(cos, sin, rotary_embedding_dim, bool(interleaved), as_body=True)
    return embedded(k, x, num_heads, turn)


def places_of(x: Tensor) -> tuple[Dim, Dim]:
    """The batch and the sequence of an input of rank 3 or 4."""
    if x.rank not in (3, 4):
        raise InvalidModel(f"the input has rank 3 or 4, found {x.rank}")
    return x.shape[0], x.shape[x.rank - 2]


def split(x: Tensor, count: int | None) -> Tensor:
    """(batch, sequence, heads, elements) of an input of rank 3."""
    if not count:
        raise InvalidModel("num_heads is needed")
    (width,) = numbers(x.shape[2:], "the elements of all heads")
    if width % count:
        raise InvalidModel(f"{width} elements do not make {count} heads")
    return x.reshaped((*x.shape[:2], count, width // count))


def gathered(
    k: Builder,
    cos: Tensor,
    sin: Tensor,
    places: tuple[Dim, Dim],
    position: Callable[[Axis, Axis], Operand],
) -> tuple[Tensor, Tensor]:
    """The rows of the caches (positions, pairs) at the position of each (batch, place)."""
    if cos.rank != 2:
        raise InvalidModel(f"cos_cache has rank 2 where there are positions, found {cos.rank}")
    k.need_shape(sin, cos.shape, "sin_cache")
    shape = (*places, cos.shape[1])
    return (
        k.compute(shape, lambda b, s, j: cos.trap((position(b, s), j))),
        k.compute(shape, lambda b, s, j: sin.trap((position(b, s), j))),
    )


def embedded(k: Builder, x: Tensor, count: int | None, turn: Turn) -> Tensor:
    """x (batch, heads, sequence, elements) or (batch, sequence, count * elements), turned."""
    out = k.tensor(x.shape, x.dtype)
    if x.rank == 4:
        rotate(k, of_tensor(x), turn, lambda b, n, s: (b, s), out)
    else:
        rotate(k, of_tensor(split(x, count)), turn, lambda b, s, n: (b, s), out)
    return out


def rotate(
    k: Builder, x: Heads, turn: Turn, place: Callable[..., tuple[Axis, Axis]], out: Tensor
) -> None:
    """Writes the elements of heads with their pairs turned:

        first * cos - second * sin, second * cos + first * sin

    x: the heads by any three axes, of which place(...) gives those of cos and sin."""
    *places, width = x.shape
    size, part = numbers(
        (width, turn.part or width), "the elements of a head and those that are turned"
    )
    if part % 2 or part > size:
        raise InvalidModel(f"{part} of the {size} elements of a head do not make pairs")
    half = part // 2
    k.need_equal(turn.cos.shape[2], half, "the pairs of the caches and those of a head")
    each = out.dtype if turn.as_body else compute_type(out.dtype)

    def turned(p: Axis, q: Axis, r: Axis, a: Axis, b: Axis) -> Expr:
        pair, side = (a, b) if turn.interleaved else (b, a)
        first, second = (
            x.at(p, q, r, lift(pair) * 2 + s if turn.interleaved else lift(pair) + s * half)
            for s in (0, 1)
        )
        cos, sin = (angle[(*place(p, q, r), pair)] for angle in (turn.cos, turn.sin))
        real = cast(first * cos, each) - cast(second * sin, each)
        return where(side < 1, real, cast(second * cos, each) + cast(first * sin, each))

    def whole(p: Axis, q: Axis, r: Axis, h: Axis) -> Expr:
        rest = x.at(p, q, r, h) if turn.as_body else x.at(p, q, r, h) * 1.0
        return where(h < part, pairs.guard((p, q, r, h)), rest)

    sides = (*places, half, 2) if turn.interleaved else (*places, 2, half)
    if part == size:
        k.compute(sides, turned, into=out.reshaped(sides))
        return
    pairs = k.compute(sides, turned, out.dtype).reshaped((*places, part))
    k.compute(x.shape, whole, into=out.reshaped(x.shape))
