"""NonMaxSuppression: the boxes that no better box overlaps, selected first, then copied."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, cast, lift, where
from sardonyx.kernel.folds import LANES
from sardonyx.ops.common import maximum, minimum
from sardonyx.ops.contest import NOTHING, contest, entry_of, index_of
from sardonyx.ops.registry import INTERNAL, operator, sized
from sardonyx.ops.scatter import loops
from sardonyx.ops.sizes import agree, ceil_div, clamp

sized("NonMaxSuppression", 10, 11, count="NonMaxSuppressionCount", fill="NonMaxSuppressionFill")
Box = Sequence[Expr]  # least y, least x, greatest y, greatest x


@operator("NonMaxSuppressionCount", 1, domain=INTERNAL)
def non_max_suppression_count(
    k: Builder,
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Tensor | None = None,
    iou_threshold: Tensor | None = None,
    score_threshold: Tensor | None = None,
    *,
    center_point_box: int = 0,
) -> tuple[Tensor, Tensor]:
    """The number of selected boxes, and [batch, class, box] of each, in the first rows of a tensor.

    In each class the boxes are taken by descending score, equal ones by ascending index (a NaN is
    first; with a score threshold it is removed). A box is selected unless its intersection over
    union with a selected one is above the threshold.
    """
    batches, n, four = boxes.shape
    classes = scores.shape[1]
    agree(four, 4, "the last axis of boxes")
    agree(scores.shape[0], batches, "the batches of scores and of boxes")
    agree(scores.shape[2], n, "the last axis of scores and the number of boxes")
    limit = k.local(_scalar(max_output_boxes_per_class, lift(0)))
    threshold = _scalar(iou_threshold, lift(0.0, boxes.dtype))
    most = _most(max_output_boxes_per_class, n)
    room = ceil_div(most, LANES) * LANES
    selected = k.compute((batches * classes * most, 3), lambda *_: 0, t.int64)
    total = k.local(lift(0))
    with loops(k, (batches, classes)) as (b, c):
        start = k.local(total)
        corners = [k.compute((room,), lambda _: 0.0, boxes.dtype) for _ in range(4)]

        def entry(i: Expr) -> Expr:
            score = scores.guard((b, c, i))
            own = entry_of(score, i, largest=True)
            return where(_is_candidate(score, score_threshold), own, NOTHING)

        candidates = contest(k, n, entry)
        with k.loop(n), k.when((candidates.first > NOTHING) & (total - start < limit)):
            best = k.local(index_of(candidates.first))
            box = tuple(k.local(x) for x in _box(boxes, b, best, bool(center_point_box)))

            is_lost = _is_lost(k, box, corners, total - start, threshold)
            with k.when(~is_lost):
                for corner, own in zip(corners, box, strict=True):
                    k.store(corner, (total - start,), own)
                for column, value in enumerate((b, c, best)):
                    k.store(selected, (total, lift(column)), value)
                k.set(total, total + 1)
            candidates.take()
    return k.compute((), lambda: total, t.int64), selected


def _is_lost(
    k: Builder, box: Box, selected: Sequence[Tensor], count: Expr, threshold: Expr
) -> Expr:
    """Whether one of the first `count` selected boxes overlaps a box; sixteen at once."""

    def overlaps(s: Expr) -> Expr:
        other = [x.guard((s,)) for x in selected]
        return where(s < count, _overlap(box, other, threshold), False).cast(t.int32)

    lost, left = k.local(lift(False, t.bool_)), k.local(count)
    blocks = floordiv(selected[0].shape[0], LANES)
    with k.loop(blocks) as block, k.when(~lost & (left > 0)):
        k.set(lost, k.fold("max", (LANES,), lambda j: overlaps(block * LANES + j)) > 0)
        k.set(left, left - LANES)
    return lost


@operator("NonMaxSuppressionFill", 1, domain=INTERNAL)
def non_max_suppression_fill(
    k: Builder,
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Tensor | None = None,
    iou_threshold: Tensor | None = None,
    score_threshold: Tensor | None = None,
    size: Tensor | None = None,
    selected: Tensor | None = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """The rows that count, of the selected ones; the last two operands are always there."""
    assert size is not None
    assert selected is not None
    return k.compute((size.known()[0], 3), lambda i, j: selected[i, j])


def _is_candidate(score: Expr, threshold: Tensor | None) -> Expr:
    return lift(True, t.bool_) if threshold is None else score > _scalar(threshold, score)


def _most(limit: Tensor | None, n: Dim) -> Dim:
    """At most so many boxes are selected in a class."""
    if limit is None:
        return 0
    known = None if limit.value is None else limit.known()[0]
    return n if known is None else clamp(known, 0, n)


def _scalar(x: Tensor | None, default: Expr) -> Expr:
    """The only element of x, of shape [] or [1]."""
    return default if x is None else cast(x[(0,) * x.rank], default.dtype)


def _box(boxes: Tensor, batch: Expr, i: Expr, center: bool) -> Box:
    p = [boxes.guard((batch, i, lift(j))) for j in range(4)]
    if center:
        x, y, width, height = p
        return y - height / 2.0, x - width / 2.0, y + height / 2.0, x + width / 2.0
    return minimum(p[0], p[2]), minimum(p[1], p[3]), maximum(p[0], p[2]), maximum(p[1], p[3])


def _overlap(a: Box, b: Box, threshold: Expr) -> Expr:
    """Whether intersection / union > threshold; boxes without an area overlap nothing."""
    low = [maximum(a[d], b[d]) for d in (0, 1)]
    high = [minimum(a[d], b[d]) for d in (2, 3)]
    common = (high[1] - low[1]) * (high[0] - low[0])
    areas = [_area(a), _area(b)]
    union = areas[0] + areas[1] - common
    meet = (high[0] > low[0]) & (high[1] > low[1])
    positive = (common > 0) & (areas[0] > 0) & (areas[1] > 0) & (union > 0)
    return meet & positive & (common / union > threshold)


def _area(box: Box) -> Expr:
    return (box[3] - box[1]) * (box[2] - box[0])
