"""Where each node of an expression is evaluated: the outermost place that may.

    block = root | loop(axis) inside a block | branch inside a block

A node goes to the outermost block that binds the axes it depends on. A branch (an arm of a Where,
the terms of a fold under their predicate, the default of a load) is left only by nodes that are
safe to evaluate when the branch is not taken: arithmetic is, a load that only the branch makes
valid is not. Such a node may be evaluated in several branches, each on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sardonyx.dims import at_least
from sardonyx.kernel.expr import Axis, Const, Expr, Fold, Iterate, Load, Local, Size, Where
from sardonyx.kernel.ranges import inside
from sardonyx.kernel.verify import checks
from sardonyx.kernel.walk import bound, children, walk


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A place in the C text. axis: of a loop; None for the root and for branches."""

    parent: Block | None = None
    axis: Axis | None = None

    def outwards(self) -> Iterator[Block]:
        """This block and those around it, the innermost first."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent


Copy = tuple[Expr, Block]


@dataclass(slots=True, eq=False)
class Placement:
    """What `place` found.

    nodes: block -> the nodes evaluated there, operands first. arms: a Where's copy -> its two
    branches; loops: a Fold's copy -> the blocks of its loops, then that of its terms, an Iterate's
    -> that of its step; defaults: a
    load's copy -> the branch of its default. uses: copy -> from where it is used, with repeats.
    """

    nodes: dict[Block, list[Expr]] = field(default_factory=dict)
    arms: dict[Copy, tuple[Block, Block]] = field(default_factory=dict)
    loops: dict[Copy, list[Block]] = field(default_factory=dict)
    defaults: dict[Copy, Block] = field(default_factory=dict)
    uses: dict[Copy, list[Block]] = field(default_factory=dict)


def is_leaf(e: Expr) -> bool:
    """Whether e needs no evaluation."""
    return isinstance(e, Const | Size | Axis | Local)


def checked(e: Load) -> tuple[bool, ...]:
    """For each dimension of the index, whether it must be checked at run time."""
    return (False,) * len(e.index) if e.mode == "proven" else _open(e)


@lru_cache(maxsize=4096)
def _open(e: Load) -> tuple[bool, ...]:
    """For each dimension of the index, whether it may be out of bounds at some point."""
    if all(inside(i, d) for i, d in zip(e.index, e.buffer.shape, strict=True)):
        return (False,) * len(e.index)
    found = checks(e)
    return tuple(d in found for d in range(len(e.index)))


def place(roots: Sequence[Copy], known: Iterable[Expr] = ()) -> Placement:
    """Places all nodes below roots, each of which is used in its block. `known` are nodes whose
    value is there already, everywhere."""
    given = set(known)
    order = [e for e in _walk([e for e, _ in roots], given) if not is_leaf(e) and e not in given]
    facts = _Facts(order)
    found = Placement()
    used: dict[Expr, list[Block]] = {e: [] for e in order}
    for e, block in roots:
        if e in used:
            used[e].append(block)
    for e in reversed(order):
        homes = _outermost(e, used[e], facts)
        for block in homes:
            found.nodes.setdefault(block, []).append(e)
            for operand, where in _operands(e, block, found):
                if operand in used:
                    used[operand].append(where)
        for where in used[e]:
            home = next(b for b in where.outwards() if b in homes)
            found.uses.setdefault((e, home), []).append(where)
    for nodes in found.nodes.values():
        nodes.reverse()
    return found


def _walk(roots: Sequence[Expr], given: set[Expr]) -> Iterator[Expr]:
    if not given:
        yield from walk(*roots)
        return
    done: set[Expr] = set()
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        e, ready = stack.pop()
        if e in done:
            continue
        if ready or e in given:
            done.add(e)
            yield e
        else:
            stack.append((e, True))
            stack.extend((c, False) for c in reversed(children(e)))


class _Facts:
    """Of each node: the axes it depends on, whether it may be evaluated where it is not needed,
    whether it may trap."""

    def __init__(self, order: Sequence[Expr]) -> None:
        self.axes: dict[Expr, frozenset[Axis]] = {}
        self.safe: dict[Expr, bool] = {}
        self.traps: dict[Expr, bool] = {}
        for e in order:
            below = children(e)
            axes = frozenset().union(*(self.free(c) for c in below))
            self.axes[e] = axes - frozenset(bound(e))
            self.safe[e] = _is_safe(e) and all(self.safe.get(c, True) for c in below)
            self.traps[e] = (isinstance(e, Load) and e.mode == "trap" and any(checked(e))) or any(
                self.traps.get(c, False) for c in below
            )

    def free(self, e: Expr) -> frozenset[Axis]:
        return frozenset((e,)) if isinstance(e, Axis) else self.axes.get(e, frozenset())


def _is_safe(e: Expr) -> bool:
    match e:
        case Fold() | Iterate():
            return False
        case Load(mode="guard"):
            return True
        case Load():
            return not any(_open(e))
    return True


def _outermost(e: Expr, used: Sequence[Block], facts: _Facts) -> list[Block]:
    """The blocks to evaluate e in, so that each use is inside one of them."""
    homes = list(dict.fromkeys(_hoisted(e, block, facts) for block in used))
    return [b for b in homes if not any(o in homes for o in b.outwards() if o is not b)]


def _hoisted(e: Expr, block: Block, facts: _Facts) -> Block:
    while block.parent is not None:
        if block.axis is None:
            stays = not facts.safe[e]
        else:
            empty = not at_least(block.axis.extent, 1)
            stays = block.axis in facts.axes[e] or (facts.traps[e] and empty)
        if stays:
            return block
        block = block.parent
    return block


def _operands(e: Expr, block: Block, found: Placement) -> Iterator[Copy]:
    """The operands of the copy of e in block, with the blocks that use them."""
    match e:
        case Where(cond, a, b):
            arms = found.arms[e, block] = Block(block), Block(block)
            yield from ((cond, block), (a, arms[0]), (b, arms[1]))
        case Fold(_, axes, terms, when):
            inner, loops = block, []
            for axis in axes:
                inner = Block(inner, axis)
                loops.append(inner)
            if when is not None:
                yield when, inner
            loops.append(Block(inner) if when is not None else inner)
            found.loops[e, block] = loops
            yield from ((x, loops[-1]) for x in terms)
        case Iterate(axis, start, step, _):
            found.loops[e, block] = [Block(block, axis)]
            yield start, block
            yield step, found.loops[e, block][0]
        case Load(_, index, _, default):
            for i, check in zip(index, checked(e), strict=True):
                yield from ((i, block),) * (2 if check else 1)
            if default is not None:
                found.defaults[e, block] = Block(block)
                yield default, found.defaults[e, block]
        case _:
            yield from ((x, block) for x in children(e))
