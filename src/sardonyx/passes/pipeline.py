"""The passes in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

from sardonyx.passes.apart import part_results
from sardonyx.passes.attention import join_attention
from sardonyx.passes.averages import near_sums
from sardonyx.passes.borders import write_borders
from sardonyx.passes.bounds import constant_bounds
from sardonyx.passes.chains import join_chains
from sardonyx.passes.choices import split_choices
from sardonyx.passes.collapse import collapse
from sardonyx.passes.columns import join_columns
from sardonyx.passes.constants import fold_constants
from sardonyx.passes.fewer import fewer_products
from sardonyx.passes.fours import pair_fours
from sardonyx.passes.fuse import fuse
from sardonyx.passes.gathers import gather_rows
from sardonyx.passes.grids import leave_rounded
from sardonyx.passes.groups import join_shuffles
from sardonyx.passes.half_tables import look_up_halves
from sardonyx.passes.halves import hold_halves
from sardonyx.passes.heads import share_heads
from sardonyx.passes.held import hold_narrow
from sardonyx.passes.joined import write_joined
from sardonyx.passes.known import compute_known
from sardonyx.passes.layout import block_channels
from sardonyx.passes.lengths import end_early
from sardonyx.passes.maxima import split_maxima
from sardonyx.passes.multipliers import repeat_channels
from sardonyx.passes.narrow import narrow
from sardonyx.passes.needed import compute_needed
from sardonyx.passes.one_by_one import one_by_one
from sardonyx.passes.overlaps import overlapping_sums
from sardonyx.passes.pack import pack
from sardonyx.passes.padding import pad_inputs
from sardonyx.passes.phases import split_phases
from sardonyx.passes.places import known_places
from sardonyx.passes.program import Body, Launch, Program, verify
from sardonyx.passes.quotients import without_quotients
from sardonyx.passes.repeats import split_repeats
from sardonyx.passes.round_once import round_once
from sardonyx.passes.rows import join_rows, join_steps
from sardonyx.passes.sequences import split_batches
from sardonyx.passes.squeezed import join_squeezes
from sardonyx.passes.tables import look_up_bytes
from sardonyx.passes.tiles import in_tiles
from sardonyx.passes.timeline import timeline_of
from sardonyx.passes.unsigned import hold_unsigned
from sardonyx.passes.widen import widen
from sardonyx.plan import plan

Step: TypeAlias = Callable[[Program], Program]


def steps(fused: bool = True, roomy: bool = False, dots: int = 0) -> tuple[Step, ...]:
    """The passes in order; each keeps the bits. All else as for `optimise`."""
    fold = partial(fold_constants, fused=fused)
    return (
        fold,
        known_places,
        constant_bounds,
        leave_rounded,
        join_shuffles,
        *((hold_unsigned,) if roomy else ()),
        partial(narrow, roomy=roomy, dots=dots > 0),
        part_results,
        widen,
        join_steps,
        partial(look_up_bytes, fused=fused),
        compute_needed,
        share_heads,
        join_squeezes,
        fuse,
        join_columns,
        *((fewer_products,) if roomy and not dots else ()),
        without_quotients,
        partial(compute_known, fused=fused),
        *((hold_halves, repeat_channels) if roomy else ()),
        partial(block_channels, matrices=dots > 1),
        split_maxima,
        near_sums,
        overlapping_sums,
        split_phases,
        partial(pad_inputs, matrices=dots > 1),
        write_borders,
        pack,
        fold,
        partial(hold_narrow, roomy=roomy),
        pair_fours,
        join_attention,
        join_chains,
        join_rows,
        gather_rows,
        partial(write_joined, roomy=roomy),
        split_repeats,
        split_choices,
        split_batches,
        end_early,
        collapse,
        round_once,
        *((partial(look_up_halves, fused=fused),) if roomy else ()),
        in_tiles,
    )


def optimise(program: Program, fused: bool = True, roomy: bool = False, dots: int = 0) -> Program:
    """The scheduled graph: the same bits, for less time. `fused` is as in the numerics contract;
    constants are folded by its rules. roomy: weights may take several times their memory where that
    saves time. dots: how many rows of bytes the host multiplies by one instruction (1: VNNI, SDOT;
    16: AMX), or 0. What lies between two pieces of control flow is scheduled by itself."""
    if not any(launch.call for launch in program.launches):
        folded = fold_constants(program, fused)
        program = one_by_one(folded, partial(_planned, fused, roomy, dots))
    if not any(launch.call for launch in program.launches):
        return _optimise(program, fused, roomy, dots)
    launches: list[Launch] = []
    tensors, weights, names = dict(program.tensors), dict(program.weights), program.joined
    for i, part in enumerate(_parts(program)):
        if not any(launch.call for launch in part.launches):
            part = _apart(_optimise(part, fused, roomy, dots), program, i)
        launches += part.launches
        tensors.update(part.tensors)
        weights.update(part.weights)
        names |= part.joined
    whole = replace(
        program, launches=tuple(launches), tensors=tensors, weights=weights, joined=names
    )
    verify(whole)
    return whole


def _planned(fused: bool, roomy: bool, dots: int, program: Program) -> Body:
    """A program scheduled and planned."""
    made = _optimise(program, fused, roomy, dots)
    return Body(made, plan(timeline_of(made)))


def _parts(program: Program) -> Iterator[Program]:
    """The launches with calls, and what lies before, between and after them."""
    runs = groupby(enumerate(program.launches), key=lambda item: (item[1].call and item[0], 0))
    for _, group in runs:
        chosen = dict(group)
        inside = list(chosen.values())
        written = {n for launch in inside for n in launch.writes}
        outer = [x for i, x in enumerate(program.launches) if i not in chosen]
        needed = {n for launch in outer for n in launch.reads} | set(program.outputs)
        used = dict.fromkeys(n for x in inside for n in x.reads if n and n not in written)
        yield replace(
            program,
            inputs=tuple(n for n in used if n not in program.weights),
            outputs=tuple(
                n for n in dict.fromkeys(n for x in inside for n in x.writes) if n in needed
            ),
            weights={n: v for n, v in program.weights.items() if n in used},
            launches=tuple(inside),
        )


def _apart(part: Program, whole: Program, number: int) -> Program:
    """The part with names of its own for the tensors that the passes made, or made another type."""

    def name(old: str) -> str:
        same = whole.tensors.get(old) == part.tensors[old]
        return old if same else f"{old}/{number}"

    launches = tuple(
        replace(
            x, reads=tuple(n and name(n) for n in x.reads), writes=tuple(name(n) for n in x.writes)
        )
        for x in part.launches
    )
    tensors = {name(n): kind for n, kind in part.tensors.items()}
    weights = {name(n): v for n, v in part.weights.items()}
    joined = frozenset(map(name, part.joined))
    return replace(part, launches=launches, tensors=tensors, weights=weights, joined=joined)


def _optimise(program: Program, fused: bool, roomy: bool, dots: int) -> Program:
    verify(program)
    for step in steps(fused, roomy, dots):
        program = step(program)
        verify(program)
    return program
