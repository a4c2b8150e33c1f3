"""Only what is read of a tensor is computed.

    y = f(x) of all rows;  z = y[0]      =>   y = f(x) of row 0;  z = y
    y = f(x) of all rows;  z = g(y[::2])  =>   y = f(x) of rows 0, 2, ...;  z = g(y)

A classifier reads one token of what its last layer makes, so that layer need not make the others.
A block of a residual network that begins with 1 x 1 convolutions in steps of 2 reads a fourth of
the pixels of the block before it. Of a dimension of which at most half is read (at most one more
of an odd number, in steps), the range in even steps from the first to the last that is stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from math import gcd
from typing import TypeAlias, TypeVar

from sardonyx.dims import Dim, floordiv
from sardonyx.kernel.affine import affine, bounds, expression, replace_axes
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.fuse import may_trap
from sardonyx.passes.program import Launch, Program

Box: TypeAlias = dict[int, range]  # of the dimensions that are not needed whole
K = TypeVar("K")


def compute_needed(program: Program) -> Program:
    """The program without what no launch reads of the tensors between them."""
    boxes: dict[str, Box] = {n: {} for n in (*program.outputs, *program.weights, *program.inputs)}
    needing = (_needing(x, program, boxes) for x in reversed(program.launches))
    made = tuple(_reading(x, boxes) for x in [x for x in needing if x is not None][::-1])
    tensors = {
        n: replace(kind, shape=_shape(kind.shape or (), boxes[n])) if boxes.get(n) else kind
        for n, kind in program.tensors.items()
    }
    return replace(program, tensors=tensors, launches=made)


def _needing(launch: Launch, program: Program, boxes: dict[str, Box]) -> Launch | None:
    """The launch that makes no more than is needed, None where nothing is; what it needs of others
    is added."""
    kernel, write = launch.kernel, launch.writes[0]
    body = [s for s in kernel.body if isinstance(s, Compute)]
    traps = any(may_trap(s.expr) for s in body)  # which is reported though nobody reads it
    unread = launch.call is None and not any(n in boxes for n in launch.writes)
    if unread and not traps and len(body) == len(kernel.body):
        return None
    if (0, 0) in kernel.views and len(launch.reads) == len(launch.writes) == 1 and write in boxes:
        return _view(launch, program, boxes)
    plain = len(body) == len(kernel.body) and not kernel.views and len(launch.writes) == 1
    if not plain or launch.call is not None or write not in boxes or traps:
        for name in (*launch.reads, *launch.writes):
            boxes[name or ""] = {}
        return launch
    boxes[write] = _few(boxes[write], kernel.outputs[0].shape)
    needed = {kernel.outputs[0]: boxes[write]}
    made: list[Compute] = []
    for s in reversed(body):
        root = s.buffer.root
        whole = s.buffer.base is not None or sum(x.buffer.root is root for x in body) > 1
        needed[root] = {} if whole else _few(needed.get(root, {}), root.shape)
        made.append(_narrowed(s, needed[root]))
        for e in walk(made[-1].expr):
            if isinstance(e, Load):
                _join(needed, e.buffer.root, _box_of(e))
    boxes[write] = needed[kernel.outputs[0]]
    own = {b: needed[b] for b in (*kernel.outputs, *kernel.temporaries) if needed.get(b)}
    slim = _replaced(replace(kernel, body=tuple(reversed(made))), own)
    for name, b in zip(launch.reads, kernel.inputs, strict=True):
        if name is not None and b is not None:
            _join(boxes, name, needed.get(b, {}))
    return replace(launch, kernel=slim)


def _view(launch: Launch, program: Program, boxes: dict[str, Box]) -> Launch:
    """Another view of the same: what is needed of dimensions before any that differ."""
    (read,), (write,) = launch.reads, launch.writes
    have, want = (program.tensors[n].shape or () for n in (read or "", write))
    same = sum(1 for _ in takewhile(lambda d: d[0] == d[1], zip(have, want, strict=False)))
    boxes[write] = {d: r for d, r in _few(boxes[write], want).items() if d < same}
    _join(boxes, read or "", boxes[write])
    return launch


def _reading(launch: Launch, boxes: dict[str, Box]) -> Launch:
    """The launch that reads what is left of its inputs."""
    kernel = launch.kernel
    if launch.call is not None:
        return launch
    if (0, 0) in kernel.views and len(launch.reads) == len(launch.writes) == 1:
        box = boxes[launch.writes[0]] = boxes.get(launch.reads[0] or "", {})
        source = kernel.inputs[0]
        if not box or source is None:
            return launch
        k = Builder(0)
        x = Tensor(Buffer("x", source.dtype, _shape(source.shape, box)))
        y = k.view(x, _shape(kernel.outputs[0].shape, box))
        return replace(launch, kernel=k.kernel(kernel.name, (x,), (y,)))
    read = zip(launch.reads, kernel.inputs, strict=True)
    small = {b: boxes[n] for n, b in read if b is not None and n is not None and boxes.get(n)}
    return replace(launch, kernel=_replaced(kernel, small)) if small else launch


def _replaced(kernel: Kernel, small: Mapping[Buffer, Box]) -> Kernel:
    """The kernel with these buffers as long as they are needed."""
    new = {b: Buffer(b.name, b.dtype, _shape(b.shape, box)) for b, box in small.items()}

    def load(e: Load) -> Expr | None:
        if e.buffer not in new:
            return None
        box = small[e.buffer]
        index = (_place(i, box[d]) if d in box else i for d, i in enumerate(e.index))
        return Load(new[e.buffer], tuple(index), e.mode, e.default)

    body = (
        Compute(new.get(s.buffer, s.buffer), s.axes, rewrite(s.expr, {}, load))
        for s in kernel.body
        if isinstance(s, Compute)
    )
    return replace(
        kernel,
        inputs=tuple(b if b is None else new.get(b, b) for b in kernel.inputs),
        outputs=tuple(new.get(b, b) for b in kernel.outputs),
        temporaries=tuple(new.get(b, b) for b in kernel.temporaries),
        body=tuple(body),
    )


def _narrowed(s: Compute, box: Box) -> Compute:
    """s for the indices of the box alone."""
    axes, given = list(s.axes), dict[Axis, Expr]()
    for d, kept in box.items():
        axes[d] = Axis(s.axes[d].name, len(kept))
        given[s.axes[d]] = _apart(axes[d], kept)
    return Compute(s.buffer, tuple(axes), rewrite(s.expr, given)) if box else s


def _apart(axis: Axis, kept: range) -> Expr:
    """Where the elements that axis counts were."""
    wide = axis * kept.step if kept.step > 1 else axis
    return wide + kept.start if kept.start else wide


def _place(i: Expr, kept: range) -> Expr:
    """Where the element that was at i is among those that are kept."""
    form = _form(i)
    if kept.step == 1 or form is None:
        return i - kept.start if kept.start else i
    return expression(floordiv(form - kept.start, kept.step))


def _box_of(e: Load) -> Box:
    """The ranges that a load takes of its buffer."""
    box: Box = {}
    if e.buffer.base is not None or e.mode == "trap":
        return box
    for d, (i, n) in enumerate(zip(e.index, e.buffer.shape, strict=True)):
        form = _form(i)
        low, high = (None, None) if form is None else bounds(form)
        if not (isinstance(low, int) and isinstance(high, int) and isinstance(n, int)):
            continue
        if low >= 0 and high < n:  # a guard looks at the other dimensions alone
            box[d] = range(low, high + 1, max(_step(form), 1))
    return box


def _form(i: Expr) -> Dim | None:
    """The index over the axes that have more than one value."""
    form = affine(i)
    if form is None or isinstance(form, int):
        return form
    single = {a: 0 for atoms, _ in form.terms for a in atoms if isinstance(a, Axis)}
    return replace_axes(form, {a: n for a, n in single.items() if a.extent == 1})


def _step(form: Dim | None) -> int:
    """What the values of a form are apart, or a divisor of that; 0 where there is one value."""
    if form is None or isinstance(form, int):
        return 0
    return gcd(*(c for atoms, c in form.terms if atoms))


def _join(boxes: dict[K, Box], key: K, box: Box) -> None:
    """Adds what is needed to what was."""
    known = boxes.get(key)
    if known is None:
        boxes[key] = box
        return
    both = known.keys() & box.keys()
    boxes[key] = {d: _hull(known[d], box[d]) for d in both}


def _hull(a: range, b: range) -> range:
    """The least range in even steps with all of both."""
    if not a or not b:  # loops that never run
        return a or b
    steps = (r.step for r in (a, b) if len(r) > 1)
    first, last = min(a[0], b[0]), max(a[-1], b[-1])
    return range(first, last + 1, gcd(*steps, a[0] - b[0]) or 1)


def _few(box: Box, shape: Sequence[Dim]) -> Box:
    """The ranges that are at most half of their dimension."""
    sizes = {d: n for d, n in enumerate(shape) if isinstance(n, int)}
    return {d: r for d, r in box.items() if d in sizes and 2 * len(r) <= sizes[d] + (r.step > 1)}


def _shape(shape: Iterable[Dim], box: Box) -> tuple[Dim, ...]:
    sizes = {d: len(kept) for d, kept in box.items()}
    return tuple(sizes.get(d, n) for d, n in enumerate(shape))
