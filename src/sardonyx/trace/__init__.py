"""Traces: a run as lines of JSON that can be checked, executed again, compared and disclosed.

The lines are described in trace/form.py and docs/trace.md.
"""

from sardonyx.trace.again import matches_stages, replay_stages
from sardonyx.trace.compare import Difference, differences, distance, first_write
from sardonyx.trace.form import Subject
from sardonyx.trace.read import InvalidTrace, Trace, disclose, disclosed, read
from sardonyx.trace.replay import Replayed, machine_of, matches, replay
from sardonyx.trace.scopes import check
from sardonyx.trace.write import Store, trace

__all__ = [
    "Difference",
    "InvalidTrace",
    "Replayed",
    "Store",
    "Subject",
    "Trace",
    "check",
    "differences",
    "disclose",
    "disclosed",
    "distance",
    "first_write",
    "machine_of",
    "matches",
    "matches_stages",
    "read",
    "replay",
    "replay_stages",
    "trace",
]
