"""The planner: tensors that may share a place become one block, and blocks are packed.

Blocks are packed one after the other, each into a gap among those placed before that live at the
same time. Several orders and two ways to choose the gap are tried; the smallest N wins. Every plan
is checked before it is handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from sardonyx.errors import InternalError, LimitExceeded
from sardonyx.plan.bound import lower_bound
from sardonyx.plan.check import check_timeline
from sardonyx.plan.guard import violations
from sardonyx.plan.timeline import Plan, Timeline, padded
from sardonyx.types import Array

LARGEST = 1 << 62  # bytes; offsets are computed in int64
MANY = 2000  # blocks, above which the first packing that is good enough is kept
ENOUGH = 1.05  # times the lower bound is good enough

Lives: TypeAlias = Mapping[str, tuple[int, int]]
Pairs: TypeAlias = Sequence[tuple[str, str]]
Scratch: TypeAlias = tuple[int, int]  # step, number of the temporary


@dataclass(slots=True, eq=False)
class Block:
    """Bytes of one place: the tensors that share it, or one temporary; live from first to last.
    Those of `names` that died before the step in hand may be missing."""

    size: int
    first: int
    last: int
    names: list[str] = field(default_factory=list)
    scratch: Scratch | None = None


Order: TypeAlias = Callable[[Block], tuple[int, ...]]
Packing: TypeAlias = tuple[list[int], int]  # the offset of each block, and N


@dataclass(slots=True, eq=False)
class Sharing:
    """What shares a place: the plan's aliases, in_place and hosts, and the block of each tensor."""

    aliases: dict[str, str] = field(default_factory=dict)
    in_place: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    block: dict[str, Block] = field(default_factory=dict)


def plan(timeline: Timeline, no_reuse: bool = False) -> Plan:
    """A valid plan of a timeline.

    no_reuse gives every tensor a place of its own, so that the plan fits every order of the same
    steps. Raises LimitExceeded where the sizes are beyond any memory.
    """
    broken = check_timeline(timeline)
    if broken:
        raise InternalError(f"the steps cannot be planned: {broken[0]}")
    total = sum(map(padded, timeline.sizes.values()))
    if total + sum(padded(s) for step in timeline.steps for s in step.scratch) > LARGEST:
        raise LimitExceeded(f"the tensors take {total} bytes, more than {LARGEST}")
    found = _best(timeline, no_reuse)
    broken = violations(found, timeline)
    if broken:
        raise InternalError(f"the plan is not valid: {broken[0]}")
    return found


def _best(timeline: Timeline, no_reuse: bool) -> Plan:
    """The smallest plan of those tried; the first of equals."""
    bound = lower_bound(timeline)
    best: Plan | None = None
    for overwriting in (False,) if no_reuse else (True, False):
        sharing, blocks = _blocks(timeline, not no_reuse, overwriting)
        if no_reuse:
            _spread(blocks, len(timeline.steps))
        below = LARGEST + 1 if best is None else best.size
        found = _packing(blocks, bound, below, _ORDERS[:1] if no_reuse else _ORDERS)
        if found is not None:
            best = _assemble(timeline, sharing, blocks, found, bound)
        if best is not None and best.size <= bound * ENOUGH:
            return best
    assert best is not None
    return best


def _spread(blocks: Sequence[Block], end: int) -> None:
    """Makes every tensor live from the start to the end."""
    for block in blocks:
        if block.scratch is None:
            block.first, block.last = -1, end


def _assemble(
    timeline: Timeline,
    sharing: Sharing,
    blocks: Sequence[Block],
    packing: Packing,
    bound: int,
) -> Plan:
    offsets, size = packing
    offset = {id(b): o for b, o in zip(blocks, offsets, strict=True)}
    place = {name: offset[id(b)] for name, b in sharing.block.items()}
    temporary = {b.scratch: offset[id(b)] for b in blocks}
    scratch = tuple(
        tuple(temporary[k, i] for i in range(len(step.scratch)))
        for k, step in enumerate(timeline.steps)
    )
    aliases, in_place, hosts = sharing.aliases, sharing.in_place, sharing.hosts
    return Plan(place, scratch, size, bound, aliases, in_place, hosts)


def _blocks(timeline: Timeline, aliasing: bool, overwriting: bool) -> tuple[Sharing, list[Block]]:
    """The blocks to be packed, in the order of their first tensors; temporaries come last."""
    lives = timeline.lifetimes()
    sharing = Sharing()
    for name, (first, last) in lives.items():
        if name not in timeline.outside:
            sharing.block[name] = Block(padded(timeline.sizes[name]), first, last, [name])
    if aliasing:
        for step in timeline.steps:
            for y, x in step.views:
                _alias(y, x, timeline, sharing)
    if overwriting:
        for k, step in enumerate(timeline.steps):
            _overwrite(k, step.in_place, lives, sharing)
    blocks = list({id(b): b for b in sharing.block.values()}.values())
    for k, step in enumerate(timeline.steps):
        for i, size in enumerate(step.scratch):
            blocks.append(Block(padded(size), k, k, scratch=(k, i)))
    return sharing, blocks


def _alias(y: str, x: str, timeline: Timeline, sharing: Sharing) -> None:
    """Lets the view y of x share x's place, unless each has to be in outside memory of its own."""
    host = sharing.hosts.get(x, x if x in timeline.outside else None)
    if y in timeline.outside:
        if host is not None or sharing.block[x].first < 0:
            return
        for name in sharing.block[x].names:
            sharing.hosts[name] = y
            del sharing.block[name]
    elif host is not None:
        sharing.hosts[y] = host
        del sharing.block[y]
    else:
        _join(sharing.block[x], sharing.block[y], sharing)
    sharing.aliases[y] = x


def _overwrite(k: int, pairs: Pairs, lives: Lives, sharing: Sharing) -> None:
    """Lets each output of step k take the place of an input that dies there, where it may."""
    for y, x in pairs:
        mine, its = sharing.block.get(y), sharing.block.get(x)
        if mine is None or its is None or mine.first < k or lives[x][1] > k:
            continue
        alive = its.names = [name for name in its.names if lives[name][1] >= k]
        if all(lives[n][1] == k and (y, n) in pairs for n in alive):
            sharing.in_place[y] = x
            _join(its, mine, sharing)


def _join(into: Block, block: Block, sharing: Sharing) -> None:
    """Makes two blocks of one size one."""
    into.names.extend(block.names)
    into.first, into.last = min(into.first, block.first), max(into.last, block.last)
    for name in block.names:
        sharing.block[name] = into


_ORDERS: tuple[Order, ...] = (
    lambda b: (-b.size, b.first),
    lambda b: (-b.size * (b.last - b.first + 1), b.first),
    lambda b: (b.first - b.last, -b.size),
    lambda b: (b.first, -b.size),
)


def _packing(
    blocks: Sequence[Block], bound: int, below: int, orders: Sequence[Order]
) -> Packing | None:
    """The best packing found whose N is less than `below`; None if there is none."""
    best: Packing | None = None
    enough = bound * ENOUGH if len(blocks) > MANY else bound
    for order in orders:
        ranked = sorted(range(len(blocks)), key=lambda i: order(blocks[i]))
        for tight in (True, False):
            found = _pack(blocks, ranked, tight, below)
            if found is not None:
                best, below = found, found[1]
            if below <= enough:
                return best
    return best


def _pack(blocks: Sequence[Block], order: Sequence[int], tight: bool, below: int) -> Packing | None:
    """Places the blocks in this order, each in the tightest or in the lowest gap that takes it;
    None as soon as N reaches `below`."""
    offsets = [0] * len(blocks)
    placed = np.empty((len(blocks), 4), np.int64)  # offset, end, first, last; by offset
    count = top = 0
    for i in order:
        block = blocks[i]
        if block.size == 0:
            continue
        others = placed[:count]
        meets = others[(others[:, 2] <= block.last) & (others[:, 3] >= block.first)]
        offset = offsets[i] = _gap(meets, block.size, tight)
        top = max(top, offset + block.size)
        if top >= below:
            return None
        at = int(np.searchsorted(others[:, 0], offset))
        placed[at + 1 : count + 1] = placed[at:count].copy()
        placed[at] = offset, offset + block.size, block.first, block.last
        count += 1
    return offsets, top


def _gap(taken: Array, size: int, tight: bool) -> int:
    """The offset of a gap of at least `size` among regions sorted by offset, or their end."""
    if not len(taken):
        return 0
    ends = np.maximum.accumulate(taken[:, 1])
    starts = np.concatenate(([0], ends[:-1]))
    room = taken[:, 0] - starts
    fits = np.flatnonzero(room >= size)
    if not len(fits):
        return int(ends[-1])
    return int(starts[fits[np.argmin(room[fits])] if tight else fits[0]])
