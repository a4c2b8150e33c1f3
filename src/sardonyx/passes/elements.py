"""A kernel for one element of a batch, where it computes each from that element alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sardonyx.dims import Dim, divide, symbols
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load, Size
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import bound, children, walk


def element_shape(shape: Sequence[Dim], size: Dim) -> tuple[Dim, ...] | None:
    """What one of `size` elements has of a tensor of this shape: as many rows as are for each; None
    where they do not come out even."""
    rows = divide(shape[0], size) if shape else None
    if rows is None or any(symbols(size) & symbols(d) for d in (rows, *shape[1:])):
        return None
    return (rows, *shape[1:])


def element_of(kernel: Kernel, size: Dim) -> tuple[Kernel, frozenset[Buffer]] | None:
    """The kernel that computes one of `size` elements, and the inputs of which it reads that
    element; of all others it reads the same for each. None where that is not how it computes."""
    if kernel.views:
        return _view(kernel, size)
    batch = set[Buffer]()  # has rows for each
    shared = set[Buffer]()
    for s in kernel.body:
        if not isinstance(s, Compute) or not _is_apart(s, symbols(size), batch, shared):
            return None
    roots = {b.root for b in batch}
    known = {*kernel.inputs, *kernel.outputs, *kernel.temporaries}
    if not roots <= known or roots & {b.root for b in shared}:
        return None
    one: dict[Buffer, Buffer] = {}
    for b in sorted(roots | batch, key=lambda b: b.base is not None):
        shape = element_shape(b.shape, size)
        if shape is None or b.start or b.dtype.is_packed:
            return None
        one[b] = Buffer(b.name, b.dtype, shape, base=None if b.base is None else one[b.root])
    small = replace(
        kernel,
        inputs=tuple(one.get(b, b) if b is not None else b for b in kernel.inputs),
        outputs=tuple(one[b] for b in kernel.outputs),
        temporaries=tuple(one.get(b, b) for b in kernel.temporaries),
        body=tuple(_first(s, one) for s in kernel.body if isinstance(s, Compute)),
    )
    return small, frozenset(b for b in kernel.inputs if b is not None and b in roots)


def _view(kernel: Kernel, size: Dim) -> tuple[Kernel, frozenset[Buffer]] | None:
    """Another shape of the same bytes, where both have rows for each element."""
    if len(kernel.inputs) != 1 or kernel.views != ((0, 0),) or len(kernel.outputs) != 1:
        return None
    (x,), (y,) = kernel.inputs, kernel.outputs
    have, want = (None if b is None else element_shape(b.shape, size) for b in (x, y))
    if x is None or have is None or want is None or x.dtype.is_packed:
        return None
    k = Builder(0)
    source = Tensor(Buffer(x.name, x.dtype, have))
    made = k.view(source, want)
    return k.kernel(kernel.name, (source,), (made,)), frozenset({x})


def _is_apart(s: Compute, names: frozenset[str], batch: set[Buffer], shared: set[Buffer]) -> bool:
    """Whether each row is computed from that row of what is added to `batch`, and from what is
    added to `shared`. names: the symbols of the size of the batch."""
    if not s.axes or s.axes[0].extent != s.buffer.shape[0]:
        return False
    n = s.axes[0]
    batch.add(s.buffer)
    for e in walk(s.expr):
        if isinstance(e, Size) and names & symbols(e.dim):
            return False
        if any(names & symbols(a.extent) for a in bound(e)):
            return False
        inner = children(e)
        if isinstance(e, Load):
            apart = bool(e.index) and e.index[0] is n
            if e.mode == "trap" or (apart and e.buffer.shape[0] != s.buffer.shape[0]):
                return False
            (batch if apart else shared).add(e.buffer)
            inner = inner[apart:]
        if n in inner:
            return False
    return s.expr is not n


def _first(s: Compute, one: Mapping[Buffer, Buffer]) -> Compute:
    """The statement for one element."""

    def load(e: Load) -> Expr | None:
        b = one.get(e.buffer)
        return None if b is None else Load(b, e.index, e.mode, e.default)

    n = Axis(s.axes[0].name, one[s.buffer].shape[0])
    return Compute(one[s.buffer], (n, *s.axes[1:]), rewrite(s.expr, {s.axes[0]: n}, load))
