"""Foreign code on hostile input, in a process of its own with a time and a memory limit.

ONNX's shape inference is C++ that can be made to loop for hours or to exhaust memory (a tensor of
2^31 elements used as a shape). A helper process runs it: whatever happens there ends as an error
here. It is started afresh, never forked (a fork beside other threads may hang or crash), serves one
request at a time, and leaves when it has had nothing to do for `IDLE` seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pickle
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO

from sardonyx.errors import InvalidModel, LimitExceeded

IDLE = 20  # seconds
_PROGRAM = "import sys; sys.path[:] = {path!r}; from sardonyx.resolve.contain import serve; serve()"

Work = Callable[[bytes], bytes]
_lock = threading.Lock()
_helpers: dict[int, subprocess.Popen[bytes]] = {}  # of this process, by its id: a fork has none


def contained(work: Work, data: bytes, what: str, seconds: float, memory: int) -> bytes:
    """`work(data)`, for a function of a module. Its exceptions become InvalidModel; LimitExceeded
    if it takes longer than `seconds` (0: no limit, and no other process) or needs more than
    `memory` bytes; `what` names it in errors."""
    if seconds == 0 or not sys.executable or getattr(sys, "frozen", False):
        ok, result = _outcome(work, data)
    else:
        request = pickle.dumps((work.__module__, work.__qualname__, memory, data))
        with _lock:
            answer = _ask(request, what, seconds)
        ok, result = pickle.loads(answer)
    if not ok:
        raise InvalidModel(f"{what}: {result.decode(errors='replace')}")
    return bytes(result)


def _outcome(work: Work, data: bytes) -> tuple[bool, bytes]:
    try:
        return True, work(data)
    except MemoryError:
        return False, b"it needs too much memory"
    except Exception as error:
        return False, str(error).encode(errors="replace")


def _ask(request: bytes, what: str, seconds: float) -> bytes:
    """The helper's answer. One that was there before may have left: then a new one is asked."""
    helper = _helpers.pop(os.getpid(), None)
    if helper is not None and (answer := _exchange(helper, request, what, seconds)) is not None:
        return answer
    helper = _start()
    answer = _exchange(helper, request, what, seconds)
    if answer is None:
        status = helper.wait()
        raise InvalidModel(f"{what}: it crashed with status {status}; the model is malformed")
    return answer


def _start() -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    program = [sys.executable, "-c", _PROGRAM.format(path=sys.path)]
    return subprocess.Popen(
        program, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
    )


def _exchange(
    helper: subprocess.Popen[bytes], request: bytes, what: str, seconds: float
) -> bytes | None:
    """What the helper answers, None if it is gone; it is kept if it answered."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        helper.kill()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    assert helper.stdin is not None
    assert helper.stdout is not None
    answer = None
    try:
        with contextlib.suppress(OSError):  # it is gone, or was stopped
            _write(helper.stdin, request)
            answer = _read(helper.stdout)
    finally:
        timer.cancel()
        if answer is None:
            _end(helper)
    if answer is not None:
        _helpers[os.getpid()] = helper
    elif late.is_set():
        raise LimitExceeded(f"{what}: it takes longer than {seconds:g} s (Limits.type_seconds)")
    return answer


def _end(helper: subprocess.Popen[bytes]) -> None:
    helper.kill()
    helper.wait()
    for pipe in (helper.stdin, helper.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


@atexit.register
def _leave() -> None:
    if (helper := _helpers.pop(os.getpid(), None)) is not None:
        _end(helper)


def _write(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(len(message).to_bytes(8, "little") + message)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """The next message, None where the other side has left."""
    head = pipe.read(8)
    message = pipe.read(int.from_bytes(head, "little")) if len(head) == 8 else b""
    return message if message else None


def serve() -> None:
    """The helper process: answers requests from its standard input until there are none."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what foreign code prints is no answer
    own = _address_space()
    while _comes(requests) and (request := _read(requests)) is not None:
        module, name, memory, data = pickle.loads(request)
        _limit_memory(own + memory + 2 * len(data))
        _write(
            answers, pickle.dumps(_outcome(getattr(importlib.import_module(module), name), data))
        )


def _comes(pipe: IO[bytes]) -> bool:
    """Whether a request comes while one may wait; where the system cannot tell, one waits."""
    with contextlib.suppress(OSError):
        return bool(select.select([pipe], [], [], IDLE)[0])
    return True


def _address_space() -> int:
    """The bytes of address space of this process, and of the libraries that it will load; 0 where
    the system does not tell."""
    import onnx.shape_inference  # noqa: F401  # its libraries count

    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _limit_memory(total: int) -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if os.path.exists("/proc/self/statm"):
            resource.setrlimit(resource.RLIMIT_AS, (total, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
