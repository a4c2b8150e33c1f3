"""The pool of threads: how many there are, and who takes what."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sardonyx.processors import available, quotas
from sardonyx.threads import pool_of


def test_quotas_of_control_groups_of_either_version(tmp_path: Path) -> None:
    def write(name: str, text: str) -> None:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write("proc/self/cgroup", "0::/a/b\n")
    write("sys/fs/cgroup/a/cpu.max", "250000 100000\n")
    write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    assert list(quotas(tmp_path)) == [2.5]
    write("proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n3:memory:/y\n")
    write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n")
    write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert list(quotas(tmp_path)) == [1.5]
    assert not list(quotas(tmp_path / "nowhere"))


def test_a_pool_has_as_many_threads_as_asked_for_or_available() -> None:
    assert pool_of(1).parallel_for == 0
    assert pool_of(7).threads == 7
    assert pool_of().threads == available() <= (os.cpu_count() or 1)


WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def shared_out(count: int, threads: int, work: Callable[[int, int, int], None]) -> None:
    """Calls work(begin, end, worker) for ranges of `count` points by the pool."""
    pool = pool_of(threads)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, WORK, ctypes.c_void_p, ctypes.c_int64)
    given = WORK(lambda _, begin, end, worker: work(begin, end, worker))
    call(pool.parallel_for)(pool.argument, given, None, count)


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_the_pool_takes_each_point_once(count: int, threads: int) -> None:
    taken = list[int]()
    shared_out(count, threads, lambda begin, end, _: taken.extend(range(begin, end)))
    assert sorted(taken) == list(range(count))


def test_a_worker_begins_with_its_own_part() -> None:
    """What each of two claims first ends when the other has claimed something."""
    first, both = dict[int, int](), threading.Barrier(2)

    def work(begin: int, end: int, worker: int) -> None:
        if worker not in first:
            first[worker] = begin
            both.wait(60)

    shared_out(100, 2, work)
    assert first == {0: 0, 1: 50}


AWAKE = """
import ctypes, os, time
from pathlib import Path
from sardonyx.threads import pool_of

WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, WORK, ctypes.c_void_p, ctypes.c_int64)
work = WORK(lambda *_: None)
pools = {n: pool_of(n) for n in (2, 6)}

def switches():
    time.sleep(0.2)  # all that spin have gone to sleep
    told = {x.name: (x / "status").read_text() for x in Path("/proc/self/task").iterdir()}
    lines = {n: t.split("nonvoluntary")[0].rsplit("voluntary", 1)[1] for n, t in told.items()}
    return {n: x for n, x in lines.items() if n != str(os.getpid())}

before = switches()
CALL(pools[6].parallel_for)(pools[6].argument, work, None, 100)
first = switches()
for _ in range(20):
    CALL(pools[2].parallel_for)(pools[2].argument, work, None, 100)
    time.sleep(0.001)
second = switches()
print(len(first) - len(before), sum(first[n] != second[n] for n in first if n not in before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_launch_wakes_no_more_threads_than_it_has_parts() -> None:
    done = subprocess.run([sys.executable, "-c", AWAKE], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["5", "1"]
