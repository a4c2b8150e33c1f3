"""The passes in order."""

from __future__ import annotations

from sardonyx.passes.constants import fold_constants
from sardonyx.passes.fuse import fuse
from sardonyx.passes.layout import block_channels, pad_inputs
from sardonyx.passes.pack import pack
from sardonyx.passes.program import Program, verify


def optimise(program: Program, fused: bool = True) -> Program:
    """The scheduled graph: the same bits, for less time. `fused` is as in the numerics contract;
    constants are folded by its rules."""
    verify(program)
    for step in (lambda p: fold_constants(p, fused), fuse, block_channels, pad_inputs, pack):
        program = step(program)
        verify(program)
    return fold_constants(program, fused)
