"""Fusion: a producer's expression takes the place of the loads of what it wrote.

A launch that ends in one Compute is inlined into its readers where that neither repeats much work
nor changes a bit: a sum of products gets its epilogue (bias, normalisation, activation, residual),
chains of elementwise operations become one loop, and permutations vanish into index expressions.
What is stored in between was float32 anyhow, or keeps its rounding as a Cast; a NaN may carry
another payload inside the fused kernel, but is canonical again when it is stored, so a producer is
not put under a selection that would move its bits, nor under a BitCast (numerics contract, NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sardonyx import types as t
from sardonyx.dims import Dim, atom, product
from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.print_near import near_of
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Expr, Fold, Iterate, Load, Where
from sardonyx.kernel.ir import Compute, Kernel, Stmt
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.verify import unproven
from sardonyx.kernel.walk import children, free_axes, is_move, walk
from sardonyx.ops.registry import INTERNAL
from sardonyx.ops.winograd import NAME as WINOGRAD
from sardonyx.passes.choices import is_short
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.factors import is_chosen, is_packed_by, scales, still_walks
from sardonyx.passes.finished import integer_sums, is_narrow, is_tile, turns
from sardonyx.passes.groups import is_split, split_index, split_like
from sardonyx.passes.program import Launch, Program
from sardonyx.passes.tables import looks_up

CHEAP = 4  # arithmetic operations that may be done again at each reader
LONG = 10  # arithmetic operations that need whole vectors
LONGEST = 40  # those that need several: sums that become bytes are finished a vector at a time
VECTORS = 64  # elements that are worth a launch of their own, if that takes them in vectors


def fuse(program: Program) -> Program:
    """Inlines producers into readers until nothing more can be."""
    launches: list[Launch | None] = list(program.launches)
    makers = {name: i for i, launch in enumerate(program.launches) for name in launch.writes}
    readers = {name: set(found) for name, found in program.readers().items()}
    kept = set(program.outputs)
    for at in range(len(launches)):
        while True:
            merged = _absorb(at, launches, makers, readers, kept)
            if merged is None:
                break
            launches[at] = merged
            for name in filter(None, merged.reads):
                readers.setdefault(name, set()).add(at)
    left = tuple(launch for launch in launches if launch is not None)
    return drop_unused(replace(program, launches=left))


def _absorb(
    at: int,
    launches: list[Launch | None],
    makers: Mapping[str, int],
    readers: Mapping[str, set[int]],
    kept: set[str],
) -> Launch | None:
    """Launch `at` with one of its producers inlined, or None where none can be."""
    consumer = launches[at]
    if consumer is None:
        return None
    for name in dict.fromkeys(filter(None, consumer.reads)):
        producer = launches[makers[name]] if name in makers else None
        if producer is None or len(producer.writes) != 1:
            continue
        alone = readers[name] == {at} and name not in kept
        if not alone and _chooses(producer):
            continue
        merged = inline(producer, consumer, name, alone)
        if merged is not None:
            readers[name].discard(at)
            if alone:
                _retire(makers[name], launches, readers)
            return merged
    return None


def _chooses(launch: Launch) -> bool:
    """Whether it only moves elements, and decides of each from where: what is written anyway, as a
    cache of keys that is returned or what several read, is read sooner than decided again."""
    last = launch.kernel.body[-1]
    return isinstance(last, Compute) and isinstance(last.expr, Where) and is_move(last.expr)


def _retire(at: int, launches: list[Launch | None], readers: Mapping[str, set[int]]) -> None:
    gone = launches[at]
    if gone is not None:
        for name in filter(None, gone.reads):
            readers[name].discard(at)
    launches[at] = None


@dataclass(frozen=True, slots=True)
class _Use:
    """One Compute of the consumer and its loads of the producer's tensor."""

    compute: Compute
    loads: tuple[Load, ...]
    folded: bool


def inline(producer: Launch, consumer: Launch, name: str, alone: bool) -> Launch | None:
    """The consumer with the producer's last Compute in place of its loads of `name`."""
    last = producer.kernel.body[-1]
    target = producer.kernel.outputs[0]
    if not isinstance(last, Compute) or (last.buffer is not target and not is_split(last.buffer)):
        return None
    if any(not isinstance(s, Compute) for s in (*producer.kernel.body, *consumer.kernel.body)):
        return None
    buffers = [b for n, b in zip(consumer.reads, consumer.kernel.inputs, strict=True) if n == name]
    uses = _uses(consumer.kernel.body, {b for b in buffers if b is not None})
    if _shows_bits(consumer) and not is_move(last.expr):
        return None
    lengths = len(producer.kernel.body), len(consumer.kernel.body)
    if uses is None or not _reaches(last, lengths[0], consumer, uses):
        return None
    if not all(_allowed(last, lengths[0], u, alone, lengths[1]) for u in uses):
        return None
    if may_trap(last.expr) and not any(_reads_all(u, last) for u in uses):
        return None
    if _has_fold(last.expr) and (len(uses) != 1 or consumer.performs(INTERNAL, WINOGRAD)):
        return None
    replaced = {b for b in buffers if b is not None}
    split = consumer if last.buffer is target else _split(uses, last, consumer)
    merged = None if split is None else _merge(producer, last, split, replaced)
    if merged is None or not still_walks(merged, [u.compute for u in uses], scales(last.expr)):
        return None
    return merged


def may_trap(e: Expr) -> bool:
    """Whether a load in e may be an error of the run."""
    return any(isinstance(x, Load) and x.mode == "trap" for x in walk(e))


def _reads_all(use: _Use, last: Compute) -> bool:
    """Whether the reader loads each element, whatever it chooses: no error is lost then."""
    todo, always = [use.compute.expr], set[Expr]()
    while todo:
        e = todo.pop()
        always.add(e)
        todo += (e.cond,) if isinstance(e, Where) else children(e)
    for load in use.loads:
        large = [i for i, a in zip(load.index, last.axes, strict=True) if a.extent != 1]
        sizes = [a.extent for a in last.axes if a.extent != 1]
        whole = [i.extent for i in large if isinstance(i, Axis)] == sizes
        if load in always and whole and len(set(large)) == len(large):
            return True
    return False


def _shows_bits(launch: Launch) -> bool:
    """Whether the payload of a NaN that is read may be seen in what is written."""
    return any(op.op_type == "BitCast" for op in launch.operations)


def _split(uses: Sequence[_Use], last: Compute, consumer: Launch) -> Launch | None:
    """The consumer of a producer that writes groups of channels, over such groups as well."""
    exact = all(_is_own(x, u.compute) for u in uses for x in u.loads)
    s = split_like(uses[0].compute, last.buffer)
    if len(consumer.kernel.body) != 1 or not exact or s is None:
        return None
    return replace(consumer, kernel=replace(consumer.kernel, body=(s,), views=()))


def _is_own(load: Load, s: Compute) -> bool:
    """Whether the load is of the element that s computes."""
    return len(load.index) == len(s.axes) and all(
        i is a or (a.extent == 1 and affine(i) == 0)
        for i, a in zip(load.index, s.axes, strict=True)
    )


def _uses(body: Iterable[Stmt], buffers: set[Buffer]) -> list[_Use] | None:
    """Where the buffers are loaded; None if one is seen under another shape."""
    found = []
    for s in body:
        assert isinstance(s, Compute)
        nodes = [e for e in walk(s.expr) if isinstance(e, Load) and e.buffer.root in buffers]
        if any(e.buffer.base is not None for e in nodes):
            return None
        if nodes:
            loops = [f for f in walk(s.expr) if isinstance(f, Fold | Iterate)]
            below = [x for f in loops for x in (f.terms if isinstance(f, Fold) else children(f))]
            inside = {id(e) for e in walk(*below)}
            found.append(_Use(s, tuple(nodes), any(id(e) in inside for e in nodes)))
    return found


def _reaches(last: Compute, length: int, consumer: Launch, uses: Sequence[_Use]) -> bool:
    """Whether what the consumer finds out of bounds of `last` stays so: each load is proven, or is
    out of bounds along dimensions alone that `last`, a part of another tensor, has as they are."""
    checked = {x for u in uses for x in u.loads if x.mode != "proven"}
    if not checked:
        return True
    sums = any(isinstance(e, Fold) and e.kind == "dot" for u in uses for e in walk(u.compute.expr))
    whole = _whole_dimensions(last, turned=not sums)  # tiles want channels in front
    if length != 1 or whole is None or any(x.mode != "guard" for x in checked):
        return False
    left = unproven(consumer.kernel)
    return all(whole.issuperset(left[x]) for x in checked)


def _whole_dimensions(last: Compute, turned: bool) -> set[int] | None:
    """The dimensions of a part of a tensor that it has as the tensor has them; None if it is not
    one: not all of a range of indices along each dimension. turned: it may be transposed."""
    e = last.expr
    if not isinstance(e, Load) or e.mode != "proven" or len(e.index) != len(last.axes):
        return None
    if last.buffer.base is not None:
        return None
    free = free_axes(*e.index)
    order = [d for i in e.index for d, a in enumerate(last.axes) if a in free[id(i)]]
    if (sorted(order) if turned else order) != [*range(len(last.axes))]:
        return None
    forms = [affine(i) for i in e.index]
    pairs = zip(forms, order, strict=True)
    offsets = [None if f is None else f - atom(last.axes[d]) for f, d in pairs]
    if not all(isinstance(n, int) for n in offsets):
        return None
    sizes = zip(order, offsets, e.buffer.shape, strict=True)
    return {d for d, n, size in sizes if n == 0 and size == last.buffer.shape[d]}


def _allowed(last: Compute, length: int, use: _Use, alone: bool, siblings: int) -> bool:
    e = last.expr
    if looks_up(e) or (looks_up(use.compute.expr) and not isinstance(e, Load)):
        return False
    if isinstance(e, Load) and e.mode == "proven" and not is_chosen(e):
        return length == 1 and all(affine(i) is not None for i in e.index)
    chooses = is_move(use.compute.expr) and not isinstance(use.compute.expr, Load)
    if chooses and e.dtype is not t.bool_:  # a condition has no bits of a NaN
        return False
    if use.folded:
        once = is_chosen(e) and _takes_each(use, last)
        scaled = scales(e) and is_packed_by(use.compute, use.loads)
        return length == 1 and alone and (once or scaled)
    if is_tile(e) and (siblings > 1 or turns(last, use.compute, use.loads)):
        return False
    if is_narrow(last) and _cost(use.compute.expr) >= LONG:
        return False
    small = use.compute.buffer.dtype.bits < 32
    if small and integer_sums(e) and _cost(use.compute.expr) >= LONGEST:
        return False
    if _has_fold(e) and near_of(use.compute) is not None:
        return False
    if _has_fold(e) or length > 1:
        return alone and not _has_fold(use.compute.expr) and all(_whole(use, x) for x in use.loads)
    if isinstance(use.compute.expr, Load) and _repeats(use.compute):
        return False
    once = _points(use.compute.axes) == _points(last.axes) and len(_indices(use)) == 1
    return (_cost(e) <= CHEAP and (alone or not _shortens(e))) or (alone and once)


def _shortens(e: Expr) -> bool:
    """Whether it makes bytes of floats: what is stored anyway takes less to read than to make."""
    return isinstance(e, Cast) and e.dtype.bits == 8 and e.x.dtype.is_float


def _repeats(s: Compute) -> bool:
    """Whether it reads elements again along an axis: what they are is computed once, before."""
    free = free_axes(s.expr)[id(s.expr)]
    return any(a.extent != 1 and a not in free for a in s.axes)


def _takes_each(use: _Use, last: Compute) -> bool:
    """Whether a short fold takes each element once."""
    folds = [x for x in walk(use.compute.expr) if isinstance(x, Fold)]
    axes = (*use.compute.axes, *(a for x in folds for a in x.axes))
    once = len(use.loads) == 1 and _points(axes) == _points(last.axes)
    return once and is_short(use.compute.expr)


def _whole(use: _Use, load: Load) -> bool:
    """Whether the load reads each element exactly once over the reader's axes."""
    seen = [i for i in load.index if isinstance(i, Axis)]
    large = [a for a in use.compute.axes if a.extent != 1]
    fixed = [i for i in load.index if not isinstance(i, Axis)]
    return (
        len(_indices(use)) == 1
        and set(large) <= set(seen)
        and len(set(seen)) == len(seen)
        and all(affine(i) == 0 for i in fixed)
    )


def _indices(use: _Use) -> set[tuple[Dim | None, ...]]:
    return {tuple(affine(i) for i in load.index) for load in use.loads}


def _points(axes: tuple[Axis, ...]) -> Dim:
    return product(tuple(a.extent for a in axes))


def _has_fold(e: Expr) -> bool:
    return any(isinstance(x, Fold | Iterate) for x in walk(e))


def _cost(e: Expr) -> int:
    return sum(isinstance(x, Alu) and x.dtype.is_float for x in walk(e))


def is_long(s: Compute) -> bool:
    """Whether it computes many elements by so much that they are taken in vectors."""
    points = _points(s.axes)
    return isinstance(points, int) and points >= VECTORS and _cost(s.expr) >= LONG


def _merge(producer: Launch, last: Compute, consumer: Launch, replaced: set[Buffer]) -> Launch:
    """One launch; a tensor that both read is one input of it."""
    inputs: dict[str, Buffer] = {}
    same: dict[Buffer, Buffer] = {}
    for launch in (consumer, producer):
        for name, b in zip(launch.reads, launch.kernel.inputs, strict=True):
            if name is not None and b is not None and b not in replaced:
                same[b] = inputs.setdefault(name, b)
    made: dict[tuple[Dim | None, ...], Expr] = {}

    def load(e: Load) -> Expr | None:
        if e.buffer in replaced:
            if e.mode == "guard":
                return _guarded(e, last, load)
            key = tuple(affine(i) for i in e.index)
            if key not in made or None in key:
                index = e.index if last.buffer.base is None else split_index(e.index, last.buffer)
                assert index is not None
                axes = dict(zip(last.axes, index, strict=True))
                made[key] = rewrite(last.expr, axes, load)
            return made[key]
        target = renamed(e.buffer, same)
        return None if target is e.buffer else Load(target, e.index, e.mode, e.default)

    body: list[Stmt] = []
    for s in (*producer.kernel.body[:-1], *consumer.kernel.body):
        assert isinstance(s, Compute)
        made.clear()
        body.append(Compute(s.buffer, s.axes, rewrite(s.expr, {}, load)))
    kernel = Kernel(
        name=f"{producer.kernel.name}_{consumer.kernel.name}",
        inputs=tuple(inputs.values()),
        outputs=consumer.kernel.outputs,
        temporaries=(*producer.kernel.temporaries, *consumer.kernel.temporaries),
        constants=(*producer.kernel.constants, *consumer.kernel.constants),
        body=tuple(body),
    )
    operations = dict.fromkeys((*producer.operations, *consumer.operations))
    return Launch(kernel, tuple(inputs), consumer.writes, tuple(operations))


def _guarded(e: Load, last: Compute, load: Callable[[Load], Expr | None]) -> Expr:
    """A checked load of a part of a tensor as one of the tensor."""
    found = rewrite(last.expr, dict(zip(last.axes, e.index, strict=True)), load)
    assert isinstance(found, Load)
    return replace(found, mode=e.mode, default=e.default)


def renamed(b: Buffer, same: Mapping[Buffer, Buffer]) -> Buffer:
    """The buffer, or another shape of it, as the merged kernel knows it."""
    root = same.get(b.root, b.root)
    if root is b.root:
        return b
    return root if b.base is None else Buffer(b.name, b.dtype, b.shape, base=root)
