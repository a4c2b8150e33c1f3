"""Padded inputs for convolutions and pools: no load of the fold needs a check."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

from sardonyx import types as t
from sardonyx.dims import Dim, at_least
from sardonyx.kernel.affine import affine, bounds
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.c99.along import along_of, pays
from sardonyx.kernel.c99.contract import factors
from sardonyx.kernel.c99.print_lanes import suits_lanes
from sardonyx.kernel.c99.windows import window_of
from sardonyx.kernel.expr import Alu, Buffer, Const, Expr, Fold, Load
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.absent import drop_absent, is_taken, leave_out
from sardonyx.passes.program import Launch, Program, unused
from sardonyx.passes.sources import convolution, name_of
from sardonyx.types import Array, TensorType


def pad_inputs(program: Program, matrices: bool = False) -> Program:
    """Convolutions, and pools whose windows are not taken in lanes, read a padded copy. matrices:
    as for block_channels; of bytes no terms are left out then, which would be rows apart."""
    tensors = dict(program.tensors)
    launches: list[Launch] = []
    for launch in program.launches:
        whole = _without_absent(launch, program.weights)
        launches.extend(_padded(whole, tensors, program.weights, matrices))
    return replace(program, tensors=tensors, launches=tuple(launches))


def _without_absent(launch: Launch, weights: Mapping[str, Array]) -> Launch:
    """The launch without the terms of a convolution that are outside of its picture everywhere."""
    fold = convolution(launch)
    guarded = [] if fold is None else [x for x in fold.terms if isinstance(x, Load) and _fills(x)]
    if fold is None or len(guarded) != 1:
        return launch
    return drop_absent(launch, fold, guarded[0], weights)


def _padded(
    launch: Launch, tensors: dict[str, TensorType], weights: Mapping[str, Array], matrices: bool
) -> Iterator[Launch]:
    fold = None if _has_windows(launch) else convolution(launch) or _pool(launch)
    terms = None if fold is None else fold.terms
    if fold is not None and fold.kind == "dot":
        terms = factors(fold)
    for x in terms or ():
        name = name_of(launch, x)
        if fold is None or name is None or not isinstance(x, Load) or not _fills(x):
            continue
        frame = _frame(x, fold.when)
        if frame is None or [e for e in _loads(launch, x.buffer) if e.mode == "guard"] != [x]:
            continue
        before, shape = frame
        if any(before) or shape != x.buffer.shape:
            padded = unused(f"{name}.padded.{launch.writes[0]}", tensors)
            tensors[padded] = TensorType(x.buffer.dtype, shape)
            yield _pad(launch, name, padded, x, before, shape)
            source = Buffer("xp", x.buffer.dtype, shape)
            whole, less = launch, None
            whole_rows = matrices and source.dtype is t.uint8
            if not (whole_rows or _goes_along(launch, weights)):
                less = leave_out(launch, fold, x, weights)
            launch = _reading(less or whole, x, source, before, padded)
            if less is not None and not is_taken(launch, weights):
                launch = _reading(whole, x, source, before, padded)
        else:
            launch = _reading(launch, x, x.buffer, before, name)
    yield launch


def _has_windows(launch: Launch) -> bool:
    """Whether its sum of products knows borders itself (kernel/c99/windows.h)."""
    body = launch.kernel.body
    return len(body) == 1 and isinstance(body[0], Compute) and window_of(body[0]) is not None


def _goes_along(launch: Launch, weights: Container[str]) -> bool:
    """Whether the places of its sum of products are lanes, which all take the same terms."""
    found = [along_of(s) for s in launch.kernel.body if isinstance(s, Compute)]
    return any(a is not None and name_of(launch, a.c.a) in weights and pays(a, 0) for a in found)


def _pool(launch: Launch) -> Fold | None:
    """The launch's maximum over a window that moves along the last axis in steps."""
    for s in launch.kernel.body:
        if not isinstance(s, Compute) or len(launch.kernel.body) != 1 or suits_lanes(s):
            return None
        folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
        if len(folds) == 1 and folds[0].kind in ("min", "max") and folds[0].dtype is t.float32:
            return folds[0]
    return None


def _fills(x: Load) -> bool:
    return x.mode == "guard" and (isinstance(x.default, Const) or is_scalar(x.default))


def is_scalar(e: Expr | None) -> bool:
    """Whether e is the only element of a tensor."""
    return isinstance(e, Load) and e.mode == "proven" and all(n == 1 for n in e.buffer.shape)


def _loads(launch: Launch, buffer: Buffer) -> list[Load]:
    every = (s.expr for s in launch.kernel.body if isinstance(s, Compute))
    return [e for e in walk(*every) if isinstance(e, Load) and e.buffer.root is buffer]


def _frame(x: Load, when: Expr | None) -> tuple[list[int], tuple[Dim, ...]] | None:
    """How much to pad before each dimension, and the padded shape, so that x is in bounds where
    `when` holds. Less than 0: the first places are not read; nor is what lies beyond the shape.
    Where the launch computes nothing it may read no places at all."""
    ends: list[tuple[Dim, Dim, Dim]] = []
    for index, size in zip(x.index, x.buffer.shape, strict=True):
        form = affine(index)
        low, high = (None, None) if form is None else _bounds(form, when)
        if low is None or high is None:
            return None
        ends.append((low, high, size))
    inside = [at_least(low, 0) and at_least(size - 1 - high, 0) for low, high, size in ends]
    if all(inside):
        return [0] * len(ends), x.buffer.shape
    before, shape = list[int](), list[Dim]()
    for (low, high, size), whole in zip(ends, inside, strict=True):
        if whole and not (isinstance(low, int) and isinstance(high, int)):
            before.append(0)
            shape.append(size)
        elif isinstance(low, int):
            before.append(-low)
            places = high + 1 - low
            shape.append(max(places, 0) if isinstance(places, int) else places)
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


def _pad(
    launch: Launch, name: str, padded: str, x: Load, before: list[int], shape: tuple[Dim, ...]
) -> Launch:
    """The copy of what x loads with a border of x's default, which may be a tensor's element."""
    k, b = Builder(0), x.buffer
    source, border = Tensor(Buffer("x", b.dtype, b.shape)), x.default
    assert border is not None
    inputs, reads = [source], [name]
    if isinstance(border, Load):
        inputs.append(Tensor(Buffer("z", b.dtype, border.buffer.shape)))
        reads.append(name_of(launch, border) or "")
        border = inputs[-1][(0,) * len(border.index)]
    out = k.compute(
        shape, lambda *i: source.guard([j - p for j, p in zip(i, before, strict=True)], border)
    )
    return Launch(k.kernel("pad", inputs, (out,)), tuple(reads), (padded,), ())


def _reading(launch: Launch, x: Load, target: Buffer, before: list[int], name: str) -> Launch:
    """The launch with the guarded load x replaced by a proven one of `target`; what else is read of
    its buffer, as by a sum with the input of a convolution, stays."""

    def load(e: Load) -> Expr | None:
        if e.buffer is not x.buffer or e.mode != "guard":
            return None
        index = tuple(i + p for i, p in zip(e.index, before, strict=True))
        return Load(target, index)

    body = tuple(
        Compute(s.buffer, s.axes, rewrite(s.expr, {}, load)) if isinstance(s, Compute) else s
        for s in launch.kernel.body
    )
    inputs, reads = launch.kernel.inputs, launch.reads
    if len(_loads(launch, x.buffer)) == 1:
        at = inputs.index(x.buffer)
        inputs = tuple(target if i == at else b for i, b in enumerate(inputs))
        reads = tuple(name if i == at else n for i, n in enumerate(reads))
    elif target is not x.buffer:
        inputs, reads = (*inputs, target), (*reads, name)
    kernel: Kernel = replace(launch.kernel, inputs=inputs, body=body)
    return replace(launch, kernel=kernel, reads=reads)
