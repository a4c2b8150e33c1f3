"""The timeline of a program, for the plan of its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sardonyx.dims import Dim, Sym, substitute
from sardonyx.kernel.expr import Buffer
from sardonyx.passes.program import Launch, Program
from sardonyx.plan import Step, Timeline, step_of
from sardonyx.plan.kernels import byte_size
from sardonyx.types import TensorType


def timeline_of(program: Program, dims: Mapping[str, int] | None = None) -> Timeline:
    """The program's steps and sizes; inputs, weights and outputs lie outside M.

    dims: the numbers of the symbolic dims of a program whose offsets are looked up in a table; such
    a program has no views of what lies outside M, and does not overwrite it.
    """
    outside = frozenset({*program.inputs, *program.weights, *program.outputs})
    names = {*program.inputs, *program.weights}.union(*(x.writes for x in program.launches))
    sizes = {n: byte_size(n, _bound(program.tensors[n], dims or {})) for n in names}
    steps = tuple(_step(x, outside, dims) for x in program.launches)
    initial = tuple(dict.fromkeys((*program.inputs, *program.weights)))
    final = tuple(dict.fromkeys(program.outputs))
    return Timeline(steps, sizes, initial, final, outside)


def _bound(tensor: TensorType, dims: Mapping[str, int]) -> TensorType:
    shape = None if tensor.shape is None else tuple(_number(d, dims) for d in tensor.shape)
    return replace(tensor, shape=shape)


def _number(d: Dim, dims: Mapping[str, int]) -> Dim:
    return substitute(d, lambda a: dims.get(a.name) if isinstance(a, Sym) else None)


def _step(launch: Launch, outside: frozenset[str], dims: Mapping[str, int] | None) -> Step:
    if dims is None:
        return step_of(launch.kernel, launch.reads, launch.writes)
    scratch = tuple(_scratch(b, dims) for b in launch.kernel.temporaries)
    step = step_of(replace(launch.kernel, temporaries=()), launch.reads, launch.writes)
    inside = tuple(pair for pair in step.views if not outside & set(pair))
    over = tuple(pair for pair in step.in_place if not outside & set(pair))
    return replace(step, scratch=scratch, views=inside, in_place=over)


def _scratch(b: Buffer, dims: Mapping[str, int]) -> int:
    return byte_size(b.name, _bound(TensorType(b.dtype, b.shape), dims))
