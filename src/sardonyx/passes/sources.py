"""The tensor of pixels and channels that a launch is about: that its convolution reads, or that it
takes samples of. Where it has its channels side by side decides how fast the launch is."""

from __future__ import annotations

from dataclasses import replace

from sardonyx.dims import at_least
from sardonyx.kernel.c99.contract import factors
from sardonyx.kernel.c99.write_folds import limits
from sardonyx.kernel.expr import Expr, Fold, Load
from sardonyx.kernel.ir import Compute, expressions
from sardonyx.kernel.walk import walk
from sardonyx.passes.patches import transform_in
from sardonyx.passes.program import Launch

LEAST = 8  # channels


def source_of(launch: Launch) -> str | None:
    """The tensor of pixels and channels that a convolution reads, or that samples are taken of."""
    found = convolution(launch)
    terms = None if found is None else factors(found)
    if terms is not None:
        return name_of(launch, terms[0])
    return _transformed(launch) or _sampled(launch)


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
    found = factors(e) if e.kind == "dot" and len(e.axes) >= 3 else None
    return found is not None and all(isinstance(x, Load) for x in found)


def _transformed(launch: Launch) -> str | None:
    """The tensor whose patches a convolution by tiles transforms first."""
    first = transform_in(launch.kernel)
    if first is None:
        return None
    loads = (e for e in walk(*expressions(first)) if isinstance(e, Load))
    return next((name for e in loads if (name := name_of(launch, e)) is not None), None)


def _sampled(launch: Launch) -> str | None:
    """The tensor of which a launch takes channels side by side at pixels that another tells, one
    by one or from where to where."""
    s = launch.kernel.body[-1] if launch.kernel.body else None
    if not isinstance(s, Compute) or len(s.axes) < 3:
        return None
    channel, nodes = s.axes[1], list(walk(s.expr))
    limited = {a for e in nodes if isinstance(e, Fold) for a in limits(e)}
    for e in nodes:
        if isinstance(e, Load) and len(e.index) >= 3 and e.index[1] is channel:
            places, wide = list(walk(*e.index[2:])), at_least(e.buffer.shape[1], LEAST)
            told = any(isinstance(x, Load) or x in limited for x in places)
            if told and channel not in places and wide:
                return name_of(launch, replace(e, buffer=e.buffer.root))
    return None


def name_of(launch: Launch, load: Expr) -> str | None:
    """The tensor that a load of one of the launch's inputs reads."""
    names = zip(launch.kernel.inputs, launch.reads, strict=True)
    return next((n for b, n in names if isinstance(load, Load) and b is load.buffer), None)
