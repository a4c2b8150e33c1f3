"""Foreign code on hostile input, in a child process with a time and a memory limit.

ONNX's shape inference is C++ that can be made to loop for hours or to exhaust memory (a tensor of
2^31 elements used as a shape). Where the system can fork, it runs in a child: whatever happens
there ends as an error here. Elsewhere, and with a time limit of 0, it runs in this process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from typing import NoReturn

from sardonyx.errors import InvalidModel, LimitExceeded

PATIENCE = 20  # seconds for each child but the last


def contained(work: Callable[[], bytes], what: str, seconds: float, memory: int) -> bytes:
    """The result of `work`. Its exceptions become InvalidModel; LimitExceeded if it takes longer
    than `seconds` or more than `memory` bytes; `what` names it in errors."""
    if seconds == 0 or not hasattr(os, "fork"):
        ok, result = _outcome(work)
    else:
        ok, result = _in_child(work, what, seconds, memory)
    if not ok:
        raise InvalidModel(f"{what}: {result.decode(errors='replace')}")
    return result


def _outcome(work: Callable[[], bytes]) -> tuple[bool, bytes]:
    try:
        return True, work()
    except MemoryError:
        return False, b"it needs too much memory"
    except Exception as error:
        return False, str(error).encode(errors="replace")


def _in_child(
    work: Callable[[], bytes], what: str, seconds: float, memory: int
) -> tuple[bool, bytes]:
    for limit in (min(seconds, PATIENCE), min(seconds, PATIENCE), seconds):
        data, status = _try(work, limit, memory)
        if data and not status:
            break
    if data is None:
        raise LimitExceeded(f"{what}: it takes longer than {seconds:g} s (Limits.type_seconds)")
    if not data or status:
        raise InvalidModel(f"{what}: it crashed with status {status}; the model is malformed")
    return data[:1] == b"+", data[1:]


def _try(work: Callable[[], bytes], seconds: float, memory: int) -> tuple[bytes | None, int]:
    """What a child says within `seconds`, None if nothing, and its status."""
    reader, writer = os.pipe()
    child = _fork()
    if child == 0:
        _child(work, writer, memory)
    os.close(writer)
    data = None
    try:
        data = _read_all(reader, time.monotonic() + seconds)
    finally:
        os.close(reader)
        if data is None:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return data, status


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns where there are threads: a lock that another thread held at the fork may
        # hold up the child for ever, or crash it. That is rare, and another child is tried then.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _child(work: Callable[[], bytes], writer: int, memory: int) -> NoReturn:
    """Runs in the child: writes "+" and the result, or "-" and the error, and leaves."""
    status = 1
    try:
        faulthandler.disable()
        _limit_memory(memory)
        ok, result = _outcome(work)
        with os.fdopen(writer, "wb") as file:
            file.write((b"+" if ok else b"-") + result)
        status = 0
    finally:
        os._exit(status)


def _limit_memory(more: int) -> None:
    """Lets this process take `more` bytes than it has; where the system tells how much it has."""
    import resource

    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/statm") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (taken + more, hard))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read_all(reader: int, deadline: float) -> bytes | None:
    """All that comes until the writer closes, or None at the deadline."""
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    parts: list[bytes] = []
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            return None
        part = os.read(reader, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
