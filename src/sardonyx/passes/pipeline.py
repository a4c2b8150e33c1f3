"""The passes in order."""

from __future__ import annotations

from sardonyx.passes.collapse import collapse
from sardonyx.passes.constants import fold_constants
from sardonyx.passes.fuse import fuse
from sardonyx.passes.groups import join_shuffles
from sardonyx.passes.layout import block_channels
from sardonyx.passes.pack import pack
from sardonyx.passes.padding import pad_inputs
from sardonyx.passes.program import Program, verify
from sardonyx.passes.rows import join_rows

STEPS = (join_shuffles, fuse, block_channels, pad_inputs, pack)


def optimise(program: Program, fused: bool = True) -> Program:
    """The scheduled graph: the same bits, for less time. `fused` is as in the numerics contract;
    constants are folded by its rules."""
    verify(program)
    for step in (lambda p: fold_constants(p, fused), *STEPS):
        program = step(program)
        verify(program)
    program = collapse(join_rows(fold_constants(program, fused)))
    verify(program)
    return program
