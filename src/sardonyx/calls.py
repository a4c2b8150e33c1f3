"""Calls of compiled programs whose sizes are fixed, with little between caller and code.

    call = prepared(program)
    call({"x": x})      the outputs in order; None where the feeds are not what was prepared for

Where Python's and NumPy's headers are found, calls.c is compiled once and kept in the cache; where
not, ctypes does the same, somewhat slower.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from math import prod
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import numpy as np

from sardonyx import build
from sardonyx.compiler import find_compiler
from sardonyx.errors import BuildError
from sardonyx.feeds import Values, values_key
from sardonyx.memory import aligned, read
from sardonyx.threads import ALONE, Pool
from sardonyx.types import Array, by_numpy, in_memory

Call: TypeAlias = Callable[[Mapping[str, Array]], list[Array] | None]
Typed: TypeAlias = tuple[str, "np.dtype[np.generic]", tuple[int, ...]]
Memory: TypeAlias = tuple[int, int]
MODULE = "sardonyx_calls"
RECENT = 64  # calls that are kept at hand, for each set of values and of such sets


class Context(ctypes.Structure):
    """The context of emitted programs (emit/model.py)."""

    _fields_ = [
        ("memory", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("dims", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("operation", ctypes.c_int32),
        ("parallel_for", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("threads", ctypes.c_int64),
    ]


def pointers(arrays: Sequence[Array | None]) -> ctypes.Array[ctypes.c_void_p]:
    """The addresses of arrays, 0 for None; at least one entry."""
    addresses = [0 if a is None else a.ctypes.data for a in arrays]
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)


def entry(library: ctypes.CDLL) -> Callable[[int], int]:
    """The function that runs a program, given the address of a context."""
    run: Callable[[int], int] = library.sardonyx_run
    library.sardonyx_run.argtypes, library.sardonyx_run.restype = [ctypes.c_void_p], ctypes.c_int
    return run


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What a call needs: the entry point, the tables, N, the memories that are idle, the name,
    element type and shape of each input and output, the threads, and where in M their scratch
    begins. blocks: what large outputs lay in, which is used again once nobody else has it."""

    run: Callable[[int], int]
    weights: Array
    dims: Array
    offsets: Array
    size: int
    idle: list[Array]
    inputs: tuple[Typed, ...]
    outputs: tuple[Typed, ...]
    pool: Pool = ALONE
    scratch: int = 0
    blocks: list[Array] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Recent:
    """The calls of a program for the sizes that came last, each of which answers feeds of its own
    sizes alone. deciding: inputs whose values decide sizes, too; there are calls for each of their
    last values. memory: of M of the last run, N and its lower bound."""

    deciding: tuple[str, ...] = ()
    memory: Memory | None = None
    _last: Call | None = None  # where no values decide
    _kept: dict[Values, dict[Call, Memory]] = field(default_factory=dict)  # the last one last
    _ran: Call | None = None
    _after: dict[Call, Call] = field(default_factory=dict)  # what came after a call before

    def quick(self, feeds: Mapping[str, Array]) -> list[Array] | None:
        """The outputs in order; None where no call answers these feeds."""
        call = self._last
        if call is not None:
            outputs = call(feeds)
            if outputs is not None:
                return outputs
        if not self._kept:
            return None
        key = values_key(self.deciding, feeds)
        known = self._kept.get(key, {})
        likely = None if self._ran is None else self._after.get(self._ran)
        if likely is not None and (memory := known.get(likely)) is not None:
            outputs = likely(feeds)
            if outputs is not None:
                self.add(likely, memory, key)
                return outputs
        for call, memory in reversed(list(known.items())):  # others may change it meanwhile
            outputs = call(feeds)
            if outputs is not None:
                self.add(call, memory, key)
                return outputs
        return None

    def add(self, call: Call, memory: Memory, key: Values) -> None:
        """The call comes first from now on; key: the values of what decides, as values_key's."""
        if key not in self._kept and len(self._kept) >= RECENT:
            self._kept.clear()
        known = self._kept.setdefault(key, {})
        known.pop(call, None)
        known[call] = memory
        if len(known) > RECENT:
            first, *_ = known
            known.pop(first, None)
        if len(self._after) > 2 * RECENT:
            self._after.clear()
        if self._ran is not None:
            self._after[self._ran] = call
        self.memory, self._ran = memory, call
        self._last = None if self.deciding else call


def prepared(p: Prepared) -> Call | None:
    """The call; None where the feeds must be looked at (strings)."""
    if any(dtype.kind == "O" for _, dtype, _ in p.inputs):
        return None
    if any(_is_packed(x) for x in (*p.inputs, *p.outputs)):
        return _packing(p)
    module = glue()
    made = None if module is None else _by_glue(module, p)
    return made or _by_ctypes(p)


def _packing(p: Prepared) -> Call | None:
    """The call of a program some of whose tensors are packed in memory."""
    inputs, outputs = (tuple(map(_raw, xs)) for xs in (p.inputs, p.outputs))
    inner = prepared(replace(p, inputs=inputs, outputs=outputs))
    packed = [x for x in p.inputs if _is_packed(x)]

    def call(feeds: Mapping[str, Array]) -> list[Array] | None:
        given = dict(feeds)
        for x in packed:
            if x[0] not in given or _given(given[x[0]], x) is None:
                return None
            given[x[0]] = in_memory(given[x[0]])
        found = None if inner is None else inner(given)
        if found is None:
            return None
        return [_read(y, x) for y, x in zip(found, p.outputs, strict=True)]

    return call


def _read(y: Array, x: Typed) -> Array:
    dtype = by_numpy(x[1])
    return y if dtype is None else read(y, dtype, x[2])


def _is_packed(x: Typed) -> bool:
    dtype = by_numpy(x[1])
    return dtype is not None and dtype.is_packed


def _raw(x: Typed) -> Typed:
    """What a packed tensor is in memory."""
    dtype = by_numpy(x[1])
    if dtype is None or not dtype.is_packed:
        return x
    return x[0], np.dtype(np.uint8), (dtype.bytes(prod(x[2])),)


def _by_glue(module: ModuleType, p: Prepared) -> Call | None:
    address = ctypes.cast(p.run, ctypes.c_void_p).value  # type: ignore[arg-type]  # a function
    tables = (p.weights.ctypes.data, p.dims.ctypes.data, p.offsets.ctypes.data)
    allocate, held = partial(aligned, p.size, 0), (p.run, p.weights, p.dims, p.offsets, p.pool)
    made: Call | None = module.make(
        address, *tables, p.size, p.idle, allocate, held, p.inputs, p.outputs,
        p.pool.parallel_for, p.pool.argument, p.scratch, p.blocks,
    )  # fmt: skip
    return made


def _by_ctypes(p: Prepared) -> Call:
    tables = (p.weights.ctypes.data, p.dims.ctypes.data, p.offsets.ctypes.data)
    idle: list[_Frame] = []

    def call(feeds: Mapping[str, Array]) -> list[Array] | None:
        if len(feeds) != len(p.inputs):
            return None
        frame = idle.pop() if idle else _frame(p, tables)
        held = [feeds.get(name) for name, _, _ in p.inputs]  # whatever becomes of the feeds
        for i, (x, wanted) in enumerate(zip(held, p.inputs, strict=True)):
            address = _given(x, wanted)
            if address is None:
                return None
            frame.read[i] = address
        outputs = [np.empty(shape, dtype) for _, dtype, shape in p.outputs]
        for i, y in enumerate(outputs):
            frame.written[i] = _address(y)
        memory = _memory(p)
        frame.context.memory = _address(memory)
        frame.context.scratch = frame.context.memory + p.scratch
        frame.context.threads = p.pool.threads
        error = p.run(frame.address)
        p.idle.append(memory)
        idle.append(frame)
        return None if error else outputs

    return call


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """What one call at a time passes on."""

    context: Context
    read: ctypes.Array[ctypes.c_void_p]
    written: ctypes.Array[ctypes.c_void_p]
    address: int


def _frame(p: Prepared, tables: tuple[int, int, int]) -> _Frame:
    read = (ctypes.c_void_p * max(1, len(p.inputs)))()
    written = (ctypes.c_void_p * max(1, len(p.outputs)))()
    arrays = ctypes.addressof(read), ctypes.addressof(written)
    context = Context(0, *tables, *arrays, 0, p.pool.parallel_for, p.pool.argument)
    return _Frame(context, read, written, ctypes.addressof(context))


def _given(x: Array | None, wanted: Typed) -> int | None:
    """The address of a feed that is as wanted."""
    if type(x) is not np.ndarray or x.dtype != wanted[1]:
        return None
    about = x.__array_interface__
    address: int = about["data"][0]
    fits = about["shape"] == wanted[2] and about["strides"] is None
    if fits and wanted[1].kind == "b":  # any byte that is not 0 is true: that is for the long way
        fits = int(x.view(np.uint8).max(initial=0)) <= 1
    return address if fits and address % wanted[1].alignment == 0 else None


def _memory(p: Prepared) -> Array:
    try:
        memory = p.idle.pop()
    except IndexError:
        return aligned(p.size, 0)
    return memory if len(memory) >= p.size else aligned(p.size, 0)


def _address(x: Array) -> int:
    address: int = x.__array_interface__["data"][0]
    return address


def glue() -> ModuleType | None:
    """calls.c as a module of this process; None where it cannot be had."""
    path = _glue_path()
    try:
        return None if path is None else _loaded(path)
    except (ImportError, OSError):
        return None


@cache
def _glue_path() -> Path | None:
    try:
        return build.own("calls.c", _compiled)
    except (BuildError, OSError):
        return None


def _compiled() -> Path:
    folders = [Path(sysconfig.get_paths()["include"]), Path(np.get_include())]
    there = (folders[0] / "Python.h", folders[1] / "numpy" / "arrayobject.h")
    if sys.implementation.name != "cpython" or not all(x.is_file() for x in there):
        raise BuildError("Python's headers are not here")
    about = f"/* {sys.version}, NumPy {np.__version__}, {sysconfig.get_config_var('SOABI')} */\n"
    source = files("sardonyx").joinpath("calls.c").read_text("utf-8")
    compiler = find_compiler()
    command = (*compiler.command, *(f"-I{folder}" for folder in folders))
    return build.library({"calls.c": about + source}, compiler=replace(compiler, command=command))


@cache
def _loaded(path: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(path))
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader)
    if spec is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
