"""Threads of the native engine: how many there may be, and the pool that runs them (pool.c).

    pool_of(threads)    what a program's context takes; None for one thread

The pool is compiled once for this host and kept in the cache. Where it cannot be had, the caller
does all the work.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from sardonyx import build
from sardonyx.errors import BuildError
from sardonyx.processors import available
from sardonyx.settings import MOST_THREADS


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A number of threads, and the addresses that a context takes. held: what must stay alive."""

    threads: int
    parallel_for: int = 0
    argument: int = 0
    held: object = None


ALONE = Pool(1)


def pool_of(threads: int = 0) -> Pool:
    """The pool for so many threads, the caller included; 0 or less: all that are available."""
    wanted = min(threads if threads > 0 else available(), MOST_THREADS)
    function = None if wanted < 2 else _parallel_for()
    if function is None:
        return ALONE
    argument = ctypes.c_int64(wanted)
    return Pool(wanted, function, ctypes.addressof(argument), argument)


def _compiled() -> Path:
    return build.library({"pool.c": files("sardonyx").joinpath("pool.c").read_text("utf-8")})


@cache
def _parallel_for() -> int | None:
    """The address of sardonyx_pool_for; None where the pool cannot be compiled."""
    try:
        library = build.load(build.own("pool.c", _compiled))
    except BuildError:
        return None
    return ctypes.cast(library.sardonyx_pool_for, ctypes.c_void_p).value
