"""The machine (G, M, T), the definition of what a graph computes: docs/machine.md."""

from sardonyx.machine.machine import Machine
from sardonyx.machine.segment import Segment
from sardonyx.machine.state import Access, Entry, State, StepRecord

__all__ = ["Access", "Entry", "Machine", "Segment", "State", "StepRecord"]
