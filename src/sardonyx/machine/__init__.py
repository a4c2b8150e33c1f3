"""The machine (G, M, T), the definition of what a graph computes: docs/machine.md."""

from sardonyx.machine.machine import MEMORY_LIMIT, Machine
from sardonyx.machine.state import Access, Entry, State, StepRecord

__all__ = ["MEMORY_LIMIT", "Access", "Entry", "Machine", "State", "StepRecord"]
