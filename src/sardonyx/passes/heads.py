"""Heads that share keys: what Expand repeats for each of them is read where it is.

    k (1, 2, n, d) -> Expand (1, 2, 4, n, d) -> Reshape (1, 8, n, d)
    s[h, i, j] = sum over d of q[h, i, d] * k[h, j, d]

        =>  s[g, m, i, j] = sum over d of q[4 * g + m, i, d] * k[g, j, d]

Exporters write the attention of grouped queries so. The heads are groups and their members in all
that is made of the repeated tensor, back to where a view sees the bytes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sardonyx.dims import Dim
from sardonyx.graph import Operation
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Load
from sardonyx.kernel.ir import Compute, Kernel, Stmt
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.program import Launch, Program, unused
from sardonyx.passes.reorders import seen_as
from sardonyx.passes.squeezed import is_squeezed
from sardonyx.types import TensorType


def share_heads(program: Program) -> Program:
    """The program without what is repeated for the heads of a batched product."""
    state = _State(dict(program.tensors), set(program.outputs))
    launches = [x for launch in program.launches for x in state.launches(launch)]
    if not state.shares:
        return program
    return drop_unused(replace(program, tensors=state.tensors, launches=tuple(launches)))


@dataclass(frozen=True, slots=True)
class _Split:
    """A tensor whose dimension `at` is two: its name so, and their sizes."""

    name: str
    at: int
    sizes: tuple[int, int]


@dataclass(slots=True)
class _State:
    """tensors: by name, with those that are made; repeated: those with an axis that Expand made, at
    this dimension; shares: whether a product reads what was repeated for its heads."""

    tensors: dict[str, TensorType]
    outputs: set[str]
    repeated: dict[str, int] = field(default_factory=dict)
    split: dict[str, _Split] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)
    shares: bool = False

    def launches(self, launch: Launch) -> Iterator[Launch]:
        """What stands in the place of the launch."""
        repeated = _repeated(launch)
        if repeated is not None:
            self.repeated[launch.writes[0]] = repeated
        made = self._begun(launch) or self._rewritten(launch)
        if made is None:
            for name in dict.fromkeys(launch.reads):
                if name in self.split and name not in self.merged:
                    yield self._whole(name)
            yield launch
            return
        yield made
        yield from (self._whole(n) for n in launch.writes if n in self.split and n in self.outputs)

    def _begun(self, view: Launch) -> Launch | None:
        """The view of a repeated tensor that puts what is repeated beside that of which it is."""
        name = view.reads[0] if view.kernel.views == ((0, 0),) and len(view.writes) == 1 else None
        if name not in self.repeated:
            return None
        shape, at = self.tensors[name].shape or (), self.repeated[name]
        new = self.tensors[view.writes[0]]
        groups, members = (shape[at - 1] if at else 1), shape[at]
        if not (isinstance(groups, int) and isinstance(members, int)) or groups == 1:
            return None
        whole = groups * members
        for i, d in enumerate(new.shape or ()):
            split = _Split("", i, (groups, members))
            if d == whole and is_squeezed(_divided(new, split).shape or (), shape):
                return self._seen(view, name, view.writes[0], split)
        return None

    def _seen(self, view: Launch, source: str, target: str, split: _Split) -> Launch:
        """The view of the source as the target with that dimension in two."""
        made = self._added(target, split, _divided(self.tensors[target], split))
        return self._view(source, made, view.operations)

    def _added(self, name: str, split: _Split, kind: TensorType) -> str:
        made = unused(f"{name}.heads", self.tensors)
        self.tensors[made] = kind
        self.split[name] = replace(split, name=made)
        return made

    def _whole(self, name: str) -> Launch:
        """The view of a split tensor as what it was."""
        self.merged.add(name)
        return self._view(self.split[name].name, name, ())

    def _view(self, source: str, target: str, operations: tuple[Operation, ...]) -> Launch:
        kernel = seen_as(self.tensors[source], self.tensors[target])
        return Launch(kernel, (source,), (target,), operations)

    def _rewritten(self, launch: Launch) -> Launch | None:
        """The launch over groups and their members; None where it reads nothing of them, or does
        not keep them apart from other axes."""
        found = [self.split[n] for n in launch.reads if n is not None and n in self.split]
        if not found or launch.call is not None or len({x.sizes for x in found}) != 1:
            return None
        if launch.kernel.views:
            return self._view_of(launch, found[0])
        names = zip(launch.reads, launch.kernel.inputs, strict=True)
        given = {b: self.split[n].at for n, b in names if b is not None and n in self.split}
        made = _over(launch.kernel, given, found[0].sizes)
        if made is None:
            return None
        kernel, places = made
        reads = tuple(self.split[n].name if n in self.split else n for n in launch.reads)
        writes = list[str]()
        buffers = zip(launch.kernel.outputs, kernel.outputs, strict=True)
        for name, (old, new) in zip(launch.writes, buffers, strict=True):
            split = None if old is new else _Split("", places[old], found[0].sizes)
            kind = TensorType(new.dtype, new.shape)
            writes.append(name if split is None else self._added(name, split, kind))
        self.shares |= any(_is_batch(s, given) for s in launch.kernel.body)
        return replace(launch, kernel=kernel, reads=reads, writes=tuple(writes))

    def _view_of(self, view: Launch, split: _Split) -> Launch | None:
        """The same view of a split tensor, where it only adds or drops dimensions of one point."""
        old, new = (self.tensors[n].shape or () for n in (view.reads[0] or "", view.writes[0]))
        if len(view.writes) != 1 or view.kernel.views != ((0, 0),) or not is_squeezed(old, new):
            return None
        number = sum(d != 1 for d in old[: split.at])
        at = [i for i, d in enumerate(new) if d != 1][number]
        return self._seen(view, split.name, view.writes[0], replace(split, at=at))


def _repeated(launch: Launch) -> int | None:
    """The one dimension along which a launch repeats what it reads, and is nothing else."""
    match launch.kernel.body:
        case (Compute(b, axes, Load(mode="proven") as e),) if b is launch.kernel.outputs[0]:
            free = free_axes(e)[id(e)]
            found = [i for i, a in enumerate(axes) if a.extent != 1 and a not in free]
            return found[0] if len(found) == 1 and not launch.kernel.views else None
    return None


def _divided(kind: TensorType, split: _Split) -> TensorType:
    return TensorType(kind.dtype, _in_two(kind.shape or (), split.at, split.sizes))


def _in_two(shape: tuple[Dim, ...], at: int, sizes: tuple[int, int]) -> tuple[Dim, ...]:
    return (*shape[:at], *sizes, *shape[at + 1 :])


def _over(
    kernel: Kernel, given: Mapping[Buffer, int], sizes: tuple[int, int]
) -> tuple[Kernel, dict[Buffer, int]] | None:
    """The kernel over groups and members where these buffers have them at these dimensions, and
    those dimensions of all buffers."""
    at = dict(given)
    new = {b: Buffer(b.name, b.dtype, _in_two(b.shape, i, sizes)) for b, i in at.items()}
    body = list[Stmt]()
    for s in kernel.body:
        if not isinstance(s, Compute) or s.buffer.base is not None:
            return None
        loads = [e for e in walk(s.expr) if isinstance(e, Load) and e.buffer.root in at]
        if any(e.buffer.base is not None or e.mode != "proven" for e in loads):
            return None
        found = {e.index[at[e.buffer]] for e in loads}
        axis = found.pop() if len(found) == 1 else None
        if axis is None and not loads:
            body.append(s)
            continue
        if not isinstance(axis, Axis) or axis not in s.axes:
            return None
        place = s.axes.index(axis)
        at[s.buffer] = place
        new[s.buffer] = Buffer(s.buffer.name, s.buffer.dtype, _in_two(s.buffer.shape, place, sizes))
        body.append(_statement(s, axis, at, new, sizes))
    slim = replace(
        kernel,
        inputs=tuple(b if b is None else new.get(b, b) for b in kernel.inputs),
        outputs=tuple(new.get(b, b) for b in kernel.outputs),
        temporaries=tuple(new.get(b, b) for b in kernel.temporaries),
        body=tuple(body),
    )
    return slim, at


def _statement(
    s: Compute,
    axis: Axis,
    at: Mapping[Buffer, int],
    new: Mapping[Buffer, Buffer],
    sizes: tuple[int, int],
) -> Compute:
    """s over groups and members in the place of the axis."""
    two = Axis(f"{axis.name}g", sizes[0]), Axis(f"{axis.name}m", sizes[1])

    def load(e: Load) -> Expr | None:
        if e.buffer not in at:
            return None
        place = at[e.buffer]
        return Load(new[e.buffer], (*e.index[:place], *two, *e.index[place + 1 :]), e.mode)

    place = s.axes.index(axis)
    axes = (*s.axes[:place], *two, *s.axes[place + 1 :])
    expr = rewrite(s.expr, {axis: two[0] * sizes[1] + two[1]}, load)
    return Compute(new[s.buffer], axes, expr)


def _is_batch(s: Stmt, given: Mapping[Buffer, int]) -> bool:
    """Whether it is a sum of products whose factors both are of one head."""
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)] if isinstance(s, Compute) else []
    for fold in folds:
        free = free_axes(*fold.terms)
        for x in fold.terms if fold.kind == "dot" and len(fold.terms) == 2 else ():
            if isinstance(x, Load) and x.buffer in given:
                axis = x.index[given[x.buffer]]
                return all(axis in free[id(y)] for y in fold.terms)
    return False
