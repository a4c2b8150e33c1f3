"""Channels-blocked layout through chains of convolutions, and padded inputs for them.

A tensor (N, C, H, W, ...) with C a multiple of 16 becomes (N, C/16, H, W, ..., 16): sixteen
channels of a pixel lie together, which are the lanes of a vector. It is a rewriting of kernels:
index expressions change, what is computed does not. Launches in between (normalisation,
activation, pooling, residual sums) follow; reorders stand only at the ends of a chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sardonyx import types as t
from sardonyx.dims import Dim, at_least, divide
from sardonyx.kernel.affine import affine, bounds, expression, quotient_of
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Alu, Axis, Buffer, Const, Expr, Fold, Load, walk
from sardonyx.kernel.ir import Compute, Kernel, Stmt
from sardonyx.kernel.rewrite import rewrite
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.program import Launch, Program
from sardonyx.types import TensorType

LANES = 16


def block_channels(program: Program) -> Program:
    """The program with blocked layout from the first convolution of each chain to its last."""
    state = _State(program, dict(program.tensors))
    for launch in program.launches:
        _place(launch, state)
    for name in program.outputs:
        state.need_plain(name)
    done = replace(program, tensors=state.tensors, launches=tuple(state.launches))
    return drop_unused(done)


def pad_inputs(program: Program) -> Program:
    """Convolutions read a padded copy, so that no load of the fold needs a check."""
    tensors = dict(program.tensors)
    launches: list[Launch] = []
    for launch in program.launches:
        launches.extend(_padded(launch, tensors))
    return replace(program, tensors=tensors, launches=tuple(launches))


def convolution(launch: Launch) -> Fold | None:
    """The launch's sum of products over a window, of two loads, if it has one."""
    for s in launch.kernel.body:
        if not isinstance(s, Compute):
            return None
        for e in walk(s.expr):
            if isinstance(e, Fold) and _is_window(e):
                return e
    return None


def _is_window(e: Fold) -> bool:
    loads = all(isinstance(x, Load) for x in e.terms)
    return e.kind == "dot" and e.dtype is t.float32 and len(e.axes) >= 3 and loads


@dataclass(slots=True)
class _State:
    """What the pass has made so far. plain, blocked: the tensors that exist in that layout."""

    program: Program
    tensors: dict[str, TensorType]
    launches: list[Launch] = field(default_factory=list)
    blocked: set[str] = field(default_factory=set)
    only_blocked: set[str] = field(default_factory=set)

    def need_plain(self, name: str) -> None:
        if name in self.only_blocked:
            self.only_blocked.discard(name)
            self.launches.append(_reorder(name, self.tensors[name], to_blocked=False))

    def need_blocked(self, name: str) -> None:
        if name not in self.blocked:
            self.blocked.add(name)
            self.tensors[_blocked_name(name)] = _blocked_type(self.tensors[name])
            self.launches.append(_reorder(name, self.tensors[name], to_blocked=True))


def _place(launch: Launch, state: _State) -> None:
    """Appends the launch in the layout that suits it."""
    found = convolution(launch)
    source = None if found is None else _name_of(launch, found.terms[0])
    suits = source is not None and _suits(state.tensors[source])
    if source and suits and _blocks(launch, {source}, False, state) is not None:
        state.need_blocked(source)
    reads = {n for n in launch.reads if n in state.blocked}
    if found is not None or reads:
        for write in (True, False):
            changed = _blocks(launch, reads, write, state)
            if changed is not None:
                for name in launch.reads:
                    if name is not None and name not in reads:
                        state.need_plain(name)
                if write:
                    state.blocked.update(launch.writes)
                    state.only_blocked.update(launch.writes)
                    for name in launch.writes:
                        state.tensors[_blocked_name(name)] = _blocked_type(state.tensors[name])
                state.launches.append(changed)
                return
    for name in filter(None, launch.reads):
        state.need_plain(name)
    state.launches.append(launch)


def _name_of(launch: Launch, load: Expr) -> str | None:
    """The tensor that a load of one of the launch's inputs reads."""
    names = zip(launch.kernel.inputs, launch.reads, strict=True)
    return next((n for b, n in names if isinstance(load, Load) and b is load.buffer), None)


def _suits(tensor: TensorType) -> bool:
    shape = tensor.shape or ()
    return (
        tensor.dtype is t.float32
        and len(shape) >= 3
        and isinstance(shape[1], int)
        and shape[1] > 0
        and shape[1] % LANES == 0
    )


def _blocked_name(name: str) -> str:
    return f"{name}.blocked"


def _blocked_type(tensor: TensorType) -> TensorType:
    n, c, *space = tensor.shape or ()
    whole = divide(c, LANES)
    assert whole is not None
    return TensorType(tensor.dtype, (n, whole, *space, LANES))


def _blocks(launch: Launch, reads: set[str], write: bool, state: _State) -> Launch | None:
    """The launch with the tensors `reads`, and its output if `write`, in blocked layout; None
    where an index would not stay affine, or there is nothing to change."""
    kernel = launch.kernel
    if not (reads or write) or not all(isinstance(s, Compute) for s in kernel.body):
        return None
    if write and not (len(launch.writes) == 1 and _suits(state.tensors[launch.writes[0]])):
        return None
    changed: dict[Buffer, Buffer] = {}
    for name, b in zip(launch.reads, kernel.inputs, strict=True):
        if name in reads and b is not None:
            changed[b] = Buffer(b.name, b.dtype, _blocked_type(state.tensors[name]).shape or ())
    if write:
        b = kernel.outputs[0]
        changed[b] = Buffer(
            b.name, b.dtype, _blocked_type(state.tensors[launch.writes[0]]).shape or ()
        )
    body = _rewritten(kernel.body, changed)
    if body is None:
        return None
    slim = replace(
        kernel,
        inputs=tuple(b if b is None else changed.get(b, b) for b in kernel.inputs),
        outputs=tuple(changed.get(b, b) for b in kernel.outputs),
        body=body,
        views=(),
    )
    names = tuple(_blocked_name(n) if n is not None and n in reads else n for n in launch.reads)
    writes = tuple(_blocked_name(n) for n in launch.writes) if write else launch.writes
    return replace(launch, kernel=slim, reads=names, writes=writes)


def _rewritten(body: Sequence[Stmt], changed: dict[Buffer, Buffer]) -> tuple[Stmt, ...] | None:
    made: list[Stmt] = []
    for s in body:
        assert isinstance(s, Compute)
        target, axes, given = s.buffer, s.axes, {}
        if s.buffer in changed:
            n, c, *space = s.axes
            outer = Axis(f"{c.name}b", changed[s.buffer].shape[1])
            lane = Axis(f"{c.name}l", LANES)
            given = {c: outer * LANES + lane}
            target, axes = changed[s.buffer], (n, outer, *space, lane)
        elif s.buffer.root in changed:
            return None
        expr = _loads_blocked(s.expr, given, changed)
        if expr is None:
            return None
        made.append(Compute(target, axes, expr))
    return tuple(made)


def _loads_blocked(e: Expr, given: dict[Axis, Expr], changed: dict[Buffer, Buffer]) -> Expr | None:
    failed = False

    def load(x: Load) -> Expr | None:
        nonlocal failed
        if x.buffer.root not in changed:
            return None
        form = affine(x.index[1]) if x.buffer.base is None else None
        whole = None if form is None else quotient_of(form, LANES)
        if form is None or whole is None:
            failed = True
            return None
        n, _, *space = x.index
        index = (n, expression(whole), *space, expression(form - whole * LANES))
        return Load(changed[x.buffer], index, x.mode, x.default)

    made = rewrite(e, given, load)
    return None if failed else made


def _reorder(name: str, plain: TensorType, to_blocked: bool) -> Launch:
    """The launch that copies a tensor from one layout to the other."""
    k = Builder(0)
    kinds = (plain, _blocked_type(plain))
    source_type, target_type = kinds if to_blocked else kinds[::-1]
    source = Tensor(Buffer("x", plain.dtype, source_type.shape or ()))
    shape = target_type.shape or ()
    if all(d == 1 for d in (plain.shape or ())[2:]):
        out = k.view(source, shape)
    elif to_blocked:
        out = k.compute(shape, lambda n, b, *rest: source[(n, b * LANES + rest[-1], *rest[:-1])])
    else:
        out = k.compute(shape, lambda n, c, *rest: source[(n, c // LANES, *rest, c % LANES)])
    kernel = k.kernel("reorder", (source,), (out,))
    names = (name, _blocked_name(name))
    read, write = names if to_blocked else names[::-1]
    return Launch(kernel, (read,), (write,), ())


def _padded(launch: Launch, tensors: dict[str, TensorType]) -> Iterator[Launch]:
    fold = convolution(launch)
    for x in () if fold is None else fold.terms:
        name = _name_of(launch, x)
        if fold is None or name is None or not isinstance(x, Load) or not _fills_zeros(x):
            continue
        frame = _frame(x, fold.when)
        if frame is None or _loads(launch, x.buffer) != [x]:
            continue
        before, shape = frame
        if any(before) or shape != x.buffer.shape:
            padded = f"{name}.padded.{launch.writes[0]}"
            tensors[padded] = TensorType(x.buffer.dtype, shape)
            yield _pad(name, padded, x.buffer, before, shape)
            launch = _reading(launch, x, Buffer("xp", x.buffer.dtype, shape), before, padded)
        else:
            launch = _reading(launch, x, x.buffer, before, name)
    yield launch


def _fills_zeros(x: Load) -> bool:
    return x.mode == "guard" and isinstance(x.default, Const) and x.default.value == 0


def _loads(launch: Launch, buffer: Buffer) -> list[Expr]:
    every = (s.expr for s in launch.kernel.body if isinstance(s, Compute))
    return [e for e in walk(*every) if isinstance(e, Load) and e.buffer.root is buffer]


def _frame(x: Load, when: Expr | None) -> tuple[list[int], tuple[Dim, ...]] | None:
    """How much to pad before each dimension, and the padded shape, so that x is in bounds where
    `when` holds."""
    before, shape = [], []
    for index, size in zip(x.index, x.buffer.shape, strict=True):
        form = affine(index)
        low, high = (None, None) if form is None else _bounds(form, when)
        if low is None or high is None:
            return None
        if at_least(low, 0) and at_least(size - 1 - high, 0):
            before.append(0)
            shape.append(size)
        elif isinstance(low, int):
            before.append(max(0, -low))
            shape.append(high + 1 + max(0, -low))
        else:
            return None
    return before, tuple(shape)


def _bounds(form: Dim, when: Expr | None) -> tuple[Dim | None, Dim | None]:
    """The bounds of an index; `when` may be of the form part < limit, with a part of the index."""
    if isinstance(when, Alu) and when.op == "lt":
        part, limit = affine(when.args[0]), affine(when.args[1])
        if part is not None and limit is not None and _has_part(form, part):
            low, high = bounds(form - part)
            return low, None if high is None else high + limit - 1
    return bounds(form)


def _has_part(form: Dim, part: Dim) -> bool:
    if isinstance(form, int) or isinstance(part, int):
        return False
    return part.terms <= form.terms


def _pad(name: str, padded: str, b: Buffer, before: list[int], shape: tuple[Dim, ...]) -> Launch:
    k = Builder(0)
    source = Tensor(Buffer("x", b.dtype, b.shape))
    out = k.compute(
        shape, lambda *i: source.guard([j - p for j, p in zip(i, before, strict=True)], 0.0)
    )
    return Launch(k.kernel("pad", (source,), (out,)), (name,), (padded,), ())


def _reading(launch: Launch, x: Load, target: Buffer, before: list[int], name: str) -> Launch:
    """The launch with the guarded load x replaced by a proven one of `target`."""

    def load(e: Load) -> Expr | None:
        if e.buffer is not x.buffer:
            return None
        index = tuple(i + p for i, p in zip(e.index, before, strict=True))
        return Load(target, index)

    body = tuple(
        Compute(s.buffer, s.axes, rewrite(s.expr, {}, load)) if isinstance(s, Compute) else s
        for s in launch.kernel.body
    )
    at = launch.kernel.inputs.index(x.buffer)
    inputs = tuple(target if i == at else b for i, b in enumerate(launch.kernel.inputs))
    reads = tuple(name if i == at else n for i, n in enumerate(launch.reads))
    kernel: Kernel = replace(launch.kernel, inputs=inputs, body=body)
    return replace(launch, kernel=kernel, reads=reads)
