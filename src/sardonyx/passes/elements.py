"""A kernel for one element of a batch, where it computes each from that element alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sardonyx.dims import Dim, symbols
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load, Size, bound, children, walk
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.rewrite import rewrite


def element_of(kernel: Kernel, size: Dim) -> tuple[Kernel, frozenset[Buffer]] | None:
    """The kernel that computes one of `size` elements, whose first axis stays as 1, and the inputs
    of which it reads that element; of all others it reads the same for each. None where that is
    not how it computes."""
    if kernel.views:
        return _view(kernel, size)
    batch = set[Buffer]()  # has an element for each
    shared = set[Buffer]()
    for s in kernel.body:
        if not isinstance(s, Compute) or not _is_apart(s, size, batch, shared):
            return None
    roots = {b.root for b in batch}
    known = {*kernel.inputs, *kernel.outputs, *kernel.temporaries}
    if not roots <= known or roots & {b.root for b in shared}:
        return None
    if any(not _has_first(b, size) or b.start or b.dtype.is_packed for b in (*batch, *roots)):
        return None
    one = {b: Buffer(b.name, b.dtype, (1, *b.shape[1:])) for b in roots}
    one |= {
        b: replace(one[b.root], name=b.name, shape=(1, *b.shape[1:]), base=one[b.root])
        for b in batch
        if b.base is not None
    }
    small = replace(
        kernel,
        inputs=tuple(one.get(b, b) if b is not None else b for b in kernel.inputs),
        outputs=tuple(one[b] for b in kernel.outputs),
        temporaries=tuple(one.get(b, b) for b in kernel.temporaries),
        body=tuple(_first(s, one) for s in kernel.body if isinstance(s, Compute)),
    )
    return small, frozenset(b for b in kernel.inputs if b is not None and b in roots)


def _view(kernel: Kernel, size: Dim) -> tuple[Kernel, frozenset[Buffer]] | None:
    """Another shape of the same bytes, if both have the batch as their first axis."""
    if len(kernel.inputs) != 1 or kernel.views != ((0, 0),) or len(kernel.outputs) != 1:
        return None
    (x,), (y,) = kernel.inputs, kernel.outputs
    if x is None or not _has_first(x, size) or not _has_first(y, size) or x.dtype.is_packed:
        return None
    k = Builder(0)
    source = Tensor(Buffer(x.name, x.dtype, (1, *x.shape[1:])))
    made = k.view(source, (1, *y.shape[1:]))
    return k.kernel(kernel.name, (source,), (made,)), frozenset({x})


def _has_first(b: Buffer, size: Dim) -> bool:
    """Whether its first axis, and no other that is a symbol, is the batch."""
    inside = symbols(size) & {n for d in b.shape[1:] for n in symbols(d)}
    return bool(b.shape) and b.shape[0] == size and not inside


def _is_apart(s: Compute, size: Dim, batch: set[Buffer], shared: set[Buffer]) -> bool:
    """Whether each element is computed from that element of what is added to `batch`, and from
    what is added to `shared`."""
    if not s.axes or s.axes[0].extent != size or not _has_first(s.buffer, size):
        return False
    n, names = s.axes[0], symbols(size)
    batch.add(s.buffer)
    for e in walk(s.expr):
        if isinstance(e, Size) and names & symbols(e.dim):
            return False
        if any(names & symbols(a.extent) for a in bound(e)):
            return False
        if isinstance(e, Load):
            if e.mode == "trap":
                return False
            (batch if e.index and e.index[0] is n else shared).add(e.buffer)
        inner = e.index[1:] if isinstance(e, Load) else children(e)
        if n in inner or (isinstance(e, Load) and e.default is n):
            return False
    return s.expr is not n and not any(names & symbols(a.extent) for a in s.axes[1:])


def _first(s: Compute, one: Mapping[Buffer, Buffer]) -> Compute:
    """The statement for one element."""

    def load(e: Load) -> Expr | None:
        b = one.get(e.buffer)
        return None if b is None else Load(b, e.index, e.mode, e.default)

    n = Axis(s.axes[0].name, 1)
    return Compute(one[s.buffer], (n, *s.axes[1:]), rewrite(s.expr, {s.axes[0]: n}, load))
