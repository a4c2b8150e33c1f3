"""Constant folding: what depends on weights alone is computed once, by the interpreter."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from sardonyx.errors import RunError
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Iterate, Load, Local, Size
from sardonyx.kernel.interpret import extents, interpret
from sardonyx.kernel.ir import Compute, Kernel, Stmt, Store, expressions, statements
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.program import Launch, Origin, Program, unused
from sardonyx.passes.scattered import assigned, scatter_of
from sardonyx.types import Array, TensorType, float32

LARGE = 256  # elements of a weight of which it is told how it came about
FOLDED = 1 << 26  # elements that are made of fewer: more are left to the runs, unless at most
GROWTH = 4  # times as many as they are made of


def fold_constants(program: Program, fused: bool = True) -> Program:
    """Launches, and single Computes into temporaries, that read only weights become weights; stores
    at places that weights decide are made."""
    program = drop_unused(program)
    weights = dict(program.weights)
    tensors, origins = dict(program.tensors), dict(program.origins)
    launches = []
    for launch in program.launches:
        folded = _fold(launch, weights, tensors, origins, fused)
        if folded is not None:
            launches.append(folded)
    made = replace(program, weights=weights, tensors=tensors, launches=tuple(launches))
    return drop_unused(replace(made, origins=origins))


def drop_unused(program: Program) -> Program:
    """Without the launches, the inputs of kernels and the weights that no output depends on."""
    wanted = set(program.outputs)
    kept: list[Launch] = []
    for launch in reversed(program.launches):
        if any(name in wanted for name in launch.writes):
            kept.append(_trimmed(_wanted(launch, wanted)))
            wanted.update(filter(None, kept[-1].reads))
    weights = {n: w for n, w in program.weights.items() if n in wanted}
    return replace(program, weights=weights, launches=tuple(reversed(kept)))


def _wanted(launch: Launch, names: Collection[str]) -> Launch:
    """The launch without those of its results that are not among the names."""
    kernel = launch.kernel
    body = [s for s in kernel.body if isinstance(s, Compute)]
    if launch.call is not None or len(launch.writes) < 2 or len(body) < len(kernel.body):
        return launch
    loads = [e for s in body for e in walk(s.expr) if isinstance(e, Load)]
    used = {e.buffer.root for e in loads}
    given = list(zip(launch.writes, kernel.outputs, strict=True))
    kept = [i for i, (n, b) in enumerate(given) if n in names or b in used]
    if len(kept) == len(given) or any(e.mode == "trap" for e in loads):
        return launch
    outputs = tuple(kernel.outputs[i] for i in kept)
    gone = {*kernel.outputs} - {*outputs}
    slim = replace(
        kernel,
        outputs=outputs,
        body=tuple(s for s in body if s.buffer.root not in gone),
        views=tuple((kept.index(o), i) for o, i in kernel.views if o in kept),
    )
    return replace(launch, kernel=slim, writes=tuple(launch.writes[i] for i in kept))


def _trimmed(launch: Launch) -> Launch:
    """The launch without the inputs that its kernel does not load: a shape that is known, say."""
    if launch.call is not None:
        return launch
    kernel = launch.kernel
    every = [e for s in statements(kernel.body) for e in expressions(s)]
    used = {e.buffer.root for e in walk(*every) if isinstance(e, Load)}
    kept = [i for i, b in enumerate(kernel.inputs) if b is not None and b in used]
    if len(kept) == len(kernel.inputs):
        return launch
    views = tuple((o, kept.index(i)) for o, i in kernel.views if i in kept)
    slim = replace(kernel, inputs=tuple(kernel.inputs[i] for i in kept), views=views)
    return replace(launch, kernel=slim, reads=tuple(launch.reads[i] for i in kept))


def _fold(
    launch: Launch,
    weights: dict[str, Array],
    tensors: dict[str, TensorType],
    origins: dict[int, Origin],
    fused: bool,
) -> Launch | None:
    """The launch without its constant part; None if nothing is left of it."""
    kernel = launch.kernel
    names = zip(launch.reads, kernel.inputs, strict=True)
    known = {b: weights[n] for n, b in names if n in weights and b is not None}
    known |= {b: b.data for b in kernel.constants if b.data is not None}
    scattered = _scattered(kernel, known, fused)
    if scattered is not None:
        weights[launch.writes[0]] = scattered
        return None
    found: dict[Buffer, Array] = {}
    rest: list[Stmt] = []
    stored = {s.buffer.root for s in statements(kernel.body) if isinstance(s, Store)}
    for s in kernel.body:
        value = _value(s, {**known, **found}, fused, stored)
        if value is None:
            rest.append(s)
        else:
            found[value[0]] = value[1]
            origin = _origin(s, value[1], {**known, **found}, origins)
            if origin is not None:
                origins[id(value[1])] = origin
    if not found:
        return launch
    for name, b in zip(launch.writes, kernel.outputs, strict=True):
        if b in found:
            weights[name] = found[b]
    if not rest:
        return None
    return _without(launch, found, tuple(rest), weights, tensors)


def _scattered(kernel: Kernel, known: Mapping[Buffer, Array], fused: bool) -> Array | None:
    """The one output of a kernel that stores known values at known places, none outside."""
    scatter = scatter_of(kernel)
    if scatter is None:
        return None
    made = list[Array]()
    for s in (scatter.before, scatter.values, *scatter.places):
        value = _value(s, known, fused, set())
        if value is None:
            return None
        made.append(value[1])
    before, values, *places = made
    return assigned(before, places, values)


def _value(
    s: Stmt, known: Mapping[Buffer, Array], fused: bool, stored: set[Buffer]
) -> tuple[Buffer, Array] | None:
    """The buffer that s computes and its value, where s is a Compute of known buffers and of no
    variables, and no Store changes what it wrote."""
    if not isinstance(s, Compute) or s.buffer.root in stored:
        return None
    if any(isinstance(e, Local) for e in walk(s.expr)):
        return None
    read = {e.buffer.root for e in walk(*expressions(s)) if isinstance(e, Load)}
    root = s.buffer.root
    if not read <= set(known) or not _is_concrete(s, (root, *read)):
        return None
    sizes = [prod(extents(b)) for b in (root, *read)]
    if sizes[0] > max(FOLDED, GROWTH * sum(sizes[1:])):
        return None
    array = np.zeros(extents(root), root.dtype.numpy)
    inputs = {b: v.reshape(extents(b)) for b, v in known.items() if b in read}
    try:
        interpret(Kernel("constant", (), (root,), (), (), (s,)), {**inputs, root: array}, fused)
    except RunError:
        return None
    return root, array


def _origin(
    s: Stmt, value: Array, known: Mapping[Buffer, Array], origins: Mapping[int, Origin]
) -> Origin | None:
    """How s has computed value, where that takes fewer bytes to tell."""
    whole = isinstance(s, Compute) and s.buffer.base is None and s.buffer.dtype is float32
    if not isinstance(s, Compute) or not whole or value.size < LARGE:
        return None
    made = {b: origins[id(x)] for b, x in known.items() if id(x) in origins}

    def load(e: Load) -> Expr | None:
        origin = made.get(e.buffer)
        if origin is None or e.default is not None:
            return None
        there: dict[Axis, Expr] = dict(zip(origin.axes, e.index, strict=True))
        return rewrite(origin.expr, there)

    expr = rewrite(s.expr, {}, load)
    nodes = list(walk(expr))
    read = {e.buffer.root for e in nodes if isinstance(e, Load)}
    arrays = dict(known)
    for origin in made.values():
        arrays |= origin.known
    bits = sum(b.dtype.bits * arrays[b].size for b in read)
    if any(isinstance(e, Fold | Iterate) for e in nodes) or bits >= 8 * value.nbytes:
        return None
    return Origin(value, s.axes, expr, {b: arrays[b] for b in read})


def _is_concrete(s: Compute, touched: Iterable[Buffer]) -> bool:
    """Whether no symbolic dim occurs in s."""
    dims = [d for b in touched for d in b.shape]
    for e in walk(s.expr):
        match e:
            case Size(dim):
                dims.append(dim)
            case Fold(_, axes, _, _):
                dims += [a.extent for a in axes]
            case Load(buffer, _, _, _):
                dims += buffer.shape
    return all(isinstance(d, int) for d in dims)


def _without(
    launch: Launch,
    found: Mapping[Buffer, Array],
    rest: tuple[Stmt, ...],
    weights: dict[str, Array],
    tensors: dict[str, TensorType],
) -> Launch:
    """The launch whose folded temporaries are read as weights."""
    kernel = launch.kernel
    every = [e for s in statements(rest) for e in expressions(s)]
    used = {e.buffer.root for e in walk(*every) if isinstance(e, Load)}
    inputs, reads = list(kernel.inputs), list(launch.reads)
    for number, b in enumerate(b for b in found if b in used):
        name = unused(f"{launch.writes[0]}.{b.name}.{number}", tensors)
        weights[name], tensors[name] = found[b], TensorType(b.dtype, b.shape)
        inputs.append(b)
        reads.append(name)
    temporaries = tuple(b for b in kernel.temporaries if b not in found)
    outputs = [(n, b) for n, b in zip(launch.writes, kernel.outputs, strict=True) if b not in found]
    slim = replace(
        kernel,
        inputs=tuple(inputs),
        outputs=tuple(b for _, b in outputs),
        temporaries=temporaries,
        body=rest,
        views=(),
    )
    return replace(launch, kernel=slim, reads=tuple(reads), writes=tuple(n for n, _ in outputs))
