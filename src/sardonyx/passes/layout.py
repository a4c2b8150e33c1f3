"""Channels-first tensors in the layouts that convolutions are fast in.

    (N, C, H, W, ...)  ->  (N, C/B, H, W, ..., B)

With B = 16 (channels in multiples of 16), sixteen channels of a pixel lie together, which are the
lanes of a vector; with B = C, the channels are last. It is a rewriting of kernels: index
expressions change, what is computed does not. Launches in between (normalisation, activation,
pooling, residual sums) follow; reorders stand only at the ends of a chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sardonyx import types as t
from sardonyx.dims import Dim, at_least, divide, product
from sardonyx.kernel.affine import affine, expression, position, quotient_of
from sardonyx.kernel.c99.along import along_of, pays
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Load, lift
from sardonyx.kernel.ir import Compute, Stmt
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.groups import is_split
from sardonyx.passes.program import Launch, Program, unused
from sardonyx.passes.reorders import LANES, PLAIN, in_order, placed, reorder, seen_as
from sardonyx.passes.repeats import is_repeated
from sardonyx.passes.sources import convolution, name_of, source_of
from sardonyx.passes.turns import has_product, keeps_channels, takes_rows, towards, turned, turns
from sardonyx.types import TensorType

LARGEST = 4096  # more channels are not kept last
KINDS = (t.float32, t.int16, t.int8, t.uint8)


def block_channels(program: Program, matrices: bool = False) -> Program:
    """The program with these layouts from the first convolution of each chain to its last.
    matrices: the host multiplies matrices of bytes: of bytes channels are last, terms in a row."""
    grouped = frozenset(n for x in program.launches if _by_groups(x) for n in x.reads if n)
    near, rows = towards(program, source_of), turned(program, source_of)
    state = _State(program, dict(program.tensors), grouped, near, rows, matrices)
    for launch in program.launches:
        _place(launch, state)
    for name in program.outputs:
        state.need(name, PLAIN)
    done = replace(program, tensors=state.tensors, launches=tuple(state.launches))
    return drop_unused(done)


@dataclass(slots=True)
class _State:
    """What the pass has made so far. grouped: what convolutions by groups read; towards, turned: as
    turns.py has them; matrices: as given. have: tensor -> the layouts it has, oldest first."""

    program: Program
    tensors: dict[str, TensorType]
    grouped: frozenset[str]
    towards: frozenset[str]
    turned: frozenset[str]
    matrices: bool
    launches: list[Launch] = field(default_factory=list)
    have: dict[str, list[int]] = field(default_factory=dict)
    names: dict[tuple[str, int], str] = field(default_factory=dict)

    def layouts(self, name: str) -> list[int]:
        return self.have.get(name, [PLAIN])

    def preferred(self, name: str, near: Iterable[int], first: int = 0) -> list[int]:
        """As _preferred, of a tensor with this name."""
        last = self.matrices and self.tensors[name].dtype in (t.int8, t.uint8)
        return _preferred(self.tensors[name], (LARGEST,) if last else near, first)

    def made(self, name: str, block: int) -> None:
        """Tensor `name` exists in a layout from now on, and in no other so far."""
        self.have[name] = [block]
        self._declare(name, block)

    def need(self, name: str, block: int) -> None:
        """Sees to it that the tensor exists in this layout too."""
        known = self.layouts(name)
        if block not in known:
            self._declare(name, block)
            reads, writes = (self.name(name, known[0]),), (self.name(name, block),)
            kernel = reorder(self.tensors[name], known[0], block)
            self.launches.append(Launch(kernel, reads, writes, ()))
            self.have[name] = [*known, block]

    def _declare(self, name: str, block: int) -> None:
        self.tensors[self.name(name, block)] = placed(self.tensors[name], block)

    def name(self, name: str, block: int) -> str:
        """What the tensor is called in a layout."""
        if block == PLAIN:
            return name
        if (name, block) not in self.names:
            stem = f"{name}.blocked" if block == LANES else f"{name}.last"
            self.names[name, block] = unused(stem, self.tensors)
        return self.names[name, block]


def _place(launch: Launch, state: _State) -> None:
    """Appends the launch in the layouts that suit it."""
    if keeps_channels(launch, state.tensors) and _carried(launch, state):
        return
    found, source = convolution(launch), source_of(launch)
    if source is not None and found is None and launch.writes[0] not in state.towards:
        source = None if is_repeated(launch, state.program.weights) else source
    if found is not None and source is not None:
        ends = [state.tensors[name] for name in (source, *launch.writes)]
        source = None if _is_thin(found, ends) else source
        if _goes_along(launch, state):
            _leave(launch, state)
            return
    given = {n: state.layouts(n)[0] for n in launch.reads if n is not None}
    tries = [given]
    if source is not None:
        kinds = state.preferred(source, given.values(), first=given[source])
        tries = [given | {source: b} for b in kinds] + [given]
    else:
        rows = {n: _last(state.tensors[n]) for n, b in given.items() if b and takes_rows(launch, n)}
        tries += [given | rows, dict.fromkeys(given, PLAIN)]
    for reads in tries:
        moved = {n: b for n, b in reads.items() if b != PLAIN}
        for block in _blocks(launch, source, moved, state):
            beside = _beside(launch, reads, block, state) if source is not None else {}
            changed = _changed(launch, moved | beside, block, state)
            if changed is not None:
                for name, b in (reads | beside).items():
                    state.need(name, b)
                state.launches.append(changed)
                if block != PLAIN:
                    state.made(launch.writes[0], block)
                return
    _leave(launch, state)


def _beside(launch: Launch, reads: Mapping[str, int], block: int, state: _State) -> dict[str, int]:
    """The layouts of what is as large as the result of a convolution, and would be read in steps by
    what finishes its sums, as the model has it: that of the result."""
    (write,) = launch.writes
    alike = (n for n, b in reads.items() if b == PLAIN and n not in state.program.weights)
    shape = state.tensors[write].shape
    return {n: block for n in alike if block != PLAIN and state.tensors[n].shape == shape}


def _blocks(
    launch: Launch, source: str | None, moved: Mapping[str, int], state: _State
) -> list[int]:
    """The layouts that what the launch writes may have, the best first; none where the launch has
    nothing to do with layouts."""
    if len(launch.writes) != 1:
        return []
    (write,) = launch.writes
    rows = [n for n in moved if source is None and takes_rows(launch, n)]
    turning = source is None and write in state.towards and turns(launch, rows)
    if source is None and not moved and not turning:
        return []
    if not turning and rows and len(rows) == len(moved):
        return [PLAIN]
    if not (source or turning or convolution(launch)) and has_product(launch):
        return []
    near: Iterable[int] = moved.values()
    if turning or (source is not None and write in state.turned):
        near = (LARGEST,)
    elif convolution(launch) is not None and not _by_groups(launch) and write not in state.grouped:
        near = ()
    return [*state.preferred(write, near), PLAIN]


def _carried(launch: Launch, state: _State) -> bool:
    """Whether the launch, another view of the pixels, is one in the layout of what it reads."""
    (read,), (write,) = launch.reads[:1], launch.writes
    block = PLAIN if read is None else state.layouts(read)[0]
    if read is None or block == PLAIN:
        return False
    state.made(write, block)
    names = state.name(read, block), state.name(write, block)
    kernel = seen_as(*(state.tensors[n] for n in names))
    state.launches.append(Launch(kernel, names[:1], names[1:], launch.operations))
    return True


def _leave(launch: Launch, state: _State) -> None:
    """Appends the launch with all that it reads as the model has it."""
    for name in launch.reads:
        if name is not None:
            state.need(name, PLAIN)
    state.launches.append(launch)


def _goes_along(launch: Launch, state: _State) -> bool:
    """Whether the places of its sum of products are lanes, and that saves more than the reorders
    that it asks for in a chain take."""
    s, *more = launch.kernel.body
    found = along_of(s) if isinstance(s, Compute) and not more else None
    if found is None or name_of(launch, found.c.a) not in state.program.weights:
        return False
    moved: Dim = 0
    for name in launch.reads:
        if name is not None and name not in state.program.weights:
            size = product(state.tensors[name].shape or ())
            moved = moved - size if PLAIN in state.layouts(name) else moved + size
    for name in launch.writes:
        inside = name not in state.program.outputs
        moved = moved + product(state.tensors[name].shape or ()) if inside else moved
    return pays(found, moved)


def _is_thin(fold: Fold, ends: Sequence[TensorType]) -> bool:
    """Whether it is depthwise, of so few channels that neighbours in a row fill more lanes. ends:
    what it reads and writes."""
    load, (_, _, *space) = fold.terms[0], ends[0].shape or (0, 0)
    channels = [n for x in ends for n in (x.shape or ())[1:2]]
    few = all(isinstance(n, int) and n < LANES // 2 for n in channels)
    if not (few and isinstance(load, Load)):
        return False
    summed = [a for a in fold.axes if a.extent != 1]
    deep = any(a in summed for a in walk(load.index[1]))
    return not deep and bool(space) and at_least(space[-1], LANES)


def _by_groups(launch: Launch) -> bool:
    """Whether it writes groups and their channels as two axes."""
    return any(isinstance(s, Compute) and is_split(s.buffer) for s in launch.kernel.body)


def _last(tensor: TensorType) -> int:
    """The layout of the tensor with its channels last, where it may have it."""
    return max(_preferred(tensor, (LARGEST,)), default=PLAIN)


def _preferred(tensor: TensorType, near: Iterable[int], first: int = 0) -> list[int]:
    """The layouts that a tensor may have, the best first: what it has, then blocks of channels; but
    channels last where its neighbours have them last."""
    shape = tensor.shape or ()
    channels = shape[1] if len(shape) >= 3 else 0
    if tensor.dtype not in KINDS or not isinstance(channels, int) or channels < 2:
        return []
    last = any(b > LANES for b in near)
    kinds = [LANES] if channels % LANES == 0 else []
    kinds += [channels] if channels != LANES and channels <= LARGEST else []
    kinds = kinds[::-1] if last else kinds
    return sorted(kinds, key=lambda b: b != first)


def _changed(launch: Launch, reads: Mapping[str, int], write: int, state: _State) -> Launch | None:
    """The launch with the tensors `reads`, and its output if `write`, in these layouts; None
    where an index would not stay affine, or there is nothing to change."""
    kernel = launch.kernel
    if not (reads or write) or not all(isinstance(s, Compute) for s in kernel.body):
        return None
    changed: dict[Buffer, Buffer] = {}
    for name, b in zip(launch.reads, kernel.inputs, strict=True):
        if name is not None and name in reads and b is not None:
            changed[b] = _placed_buffer(b, reads[name])
    if write:
        changed[kernel.outputs[0]] = _placed_buffer(kernel.outputs[0], write)
    body = _rewritten(kernel.body, changed)
    if body is None or (write and _is_turned(body, changed)):
        return None
    slim = replace(
        kernel,
        inputs=tuple(b if b is None else changed.get(b, b) for b in kernel.inputs),
        outputs=tuple(changed.get(b, b) for b in kernel.outputs),
        body=body,
        views=((0, 0),) if _stays(body) and len(kernel.inputs) == 1 else (),
    )
    names = tuple(n and state.name(n, reads.get(n, PLAIN)) for n in launch.reads)
    writes = tuple(state.name(n, write) for n in launch.writes)
    return replace(launch, kernel=slim, reads=names, writes=writes)


def _stays(body: Sequence[Stmt]) -> bool:
    """Whether each element is written where it was read, and all are."""
    match body:
        case (Compute(b, axes, Load(read, index, _, None)),) if b.dtype is read.dtype:
            place, whole = position(axes, b.shape), product(b.shape) == product(read.shape)
            return whole and place is not None and place == position(index, read.shape)
    return False


def _is_turned(body: Sequence[Stmt], changed: Mapping[Buffer, Buffer]) -> bool:
    """Whether what is written along its last axis is read in steps: after a Transpose the channels
    are those of another tensor, and lie well as they are."""
    new = set(changed.values())
    for s in body:
        assert isinstance(s, Compute)
        if s.buffer.root not in new:
            continue
        lane = s.axes[-1]
        loads = [e for e in walk(s.expr) if isinstance(e, Load) and e.buffer in new]
        free = free_axes(*(i for e in loads for i in e.index))
        for e in loads:
            if any(lane in free[id(i)] for i in e.index[:-1]) and lane not in free[id(e.index[-1])]:
                return True
    return False


def _placed_buffer(b: Buffer, block: int) -> Buffer:
    return Buffer(b.name, b.dtype, placed(TensorType(b.dtype, b.shape), block).shape or ())


def _rewritten(body: Sequence[Stmt], changed: Mapping[Buffer, Buffer]) -> tuple[Stmt, ...] | None:
    made: list[Stmt] = []
    for s in body:
        assert isinstance(s, Compute)
        target, axes, given = s.buffer, s.axes, dict[Axis, Expr]()
        if s.buffer.root in changed:
            found = _target(s, changed[s.buffer.root])
            if found is None:
                return None
            target, axes, given = found
        expr = _loads_placed(in_order(s.expr, changed), given, changed)
        if expr is None:
            return None
        made.append(Compute(target, axes, expr))
    return tuple(made)


def _target(s: Compute, new: Buffer) -> tuple[Buffer, tuple[Axis, ...], dict[Axis, Expr]] | None:
    """What s writes in the new layout, its axes in that order, and what becomes of its own axes.

    Where s writes channels as two axes (groups, channels of a group), so it does then.
    """
    if s.buffer.base is not None and not is_split(s.buffer):
        return None
    n, *rest = s.axes
    groups, (c, *space) = ([], rest) if s.buffer.base is None else (rest[:1], rest[1:])
    block = new.shape[-1]
    if new.shape[1] == 1 and block == s.buffer.root.shape[1]:
        axes = (n, *space, *groups, c)
        given = {}
    else:
        whole = divide(c.extent, LANES)
        if block != LANES or whole is None:
            return None
        outer, lane = Axis(f"{c.name}b", whole), Axis(f"{c.name}l", LANES)
        axes, given = (n, *groups, outer, *space, lane), {c: outer * LANES + lane}
    shape = tuple(a.extent for a in axes)
    target = new if shape == new.shape else Buffer(new.name, new.dtype, shape, base=new)
    return target, axes, dict(given)


def _loads_placed(
    e: Expr, given: Mapping[Axis, Expr], changed: Mapping[Buffer, Buffer]
) -> Expr | None:
    failed = False

    def load(x: Load) -> Expr | None:
        nonlocal failed
        if x.buffer.root not in changed:
            return None
        new = _seen(x.buffer, changed[x.buffer.root])
        index = None if new is None else _index(x, new)
        if new is None or index is None:
            failed = True
            return None
        return Load(new, index, x.mode, x.default)

    made = rewrite(e, given, load)
    return None if failed else made


def _seen(b: Buffer, new: Buffer) -> Buffer | None:
    """`new`, the root of b in a layout, with one axis of pixels where b has one; None where b is
    another view."""
    if b.base is None:
        return new
    n, blocks, *space, lanes = new.shape
    shape = n, blocks, product(tuple(space)), lanes
    flat = b.shape == (*b.root.shape[:2], shape[2]) and not b.start
    return Buffer(b.name, b.dtype, shape, base=new) if flat else None


def _index(x: Load, new: Buffer) -> tuple[Expr, ...] | None:
    """The index of the element in the new layout, if it is affine."""
    n, c, *space = x.index
    if new.shape[-1] == x.buffer.shape[1]:
        return (n, lift(0), *space, c)
    form = affine(c)
    whole = None if form is None else quotient_of(form, LANES)
    if form is None or whole is None:
        return None
    return (n, expression(whole), *space, expression(form - whole * LANES))
