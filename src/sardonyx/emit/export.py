"""The folder that `sardonyx compile` writes: C99 without dependencies, with a test of its own.

model.h, model.c    the program          model.map.json   the true names of everything
weights.c           the weights, to link  weights.bin      the same bytes, to map or to flash
test_main.c         a recorded run, compared byte by byte
Makefile            make test             CMakeLists.txt   cmake and ctest
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from sardonyx.emit.model import CONTRACT_FLAGS
from sardonyx.emit.source import Extent, Program, Source, bounds_of
from sardonyx.emit.weights import ALIGNMENT, c_bytes, c_file, lying, quiet
from sardonyx.errors import BuildError, FeedError, Undetermined
from sardonyx.graph import Operation
from sardonyx.kernel import NUMERICS_REVISION
from sardonyx.plan.outline import capacity
from sardonyx.types import Array, TensorType

# The first file that is written, by which a folder is known again, whatever stops the rest.
KNOWN_BY = "model.c"


def export(
    program: Program,
    source: Source,
    folder: Path,
    feeds: Sequence[Array],
    results: Sequence[Array],
    extents: Sequence[Extent] = (),
) -> list[Path]:
    """Writes the folder; the files written.

    source: what `emit` made of the program with a plan. feeds, results: a run to record, in the
    order of the program's inputs and outputs. Raises Undetermined where the dims are not fixed,
    BuildError where the folder cannot be written.
    """
    if source.memory is None:
        raise Undetermined("exported C needs fixed dims: give each a value with --dim NAME=VALUE")
    for names, arrays in ((program.inputs, feeds), (program.outputs, results)):
        _fits(program, names, arrays)
    texts = {
        **source.files(),
        "weights.c": c_file(source.prefix, source.blob),
        "test_main.c": test_main(source, feeds, results, _capacities(program, extents)),
        "Makefile": makefile(source),
        "CMakeLists.txt": cmake_lists(source),
        "model.map.json": json.dumps(name_map(program, source), indent=1) + "\n",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_whole(folder / KNOWN_BY, texts[KNOWN_BY])
        for name in [n for n in texts if n != KNOWN_BY]:
            (folder / name).write_text(texts[name], encoding="utf-8", newline="\n")
        source.blob.write(folder / "weights.bin")
    except OSError as error:
        raise BuildError(f"the folder {folder} cannot be written: {error}") from error
    return [folder / name for name in (*texts, "weights.bin")]


def _write_whole(path: Path, text: str) -> None:
    """Writes a file, or leaves what there was (build.place, for the cache, is a layer above)."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _fits(program: Program, names: Sequence[str], arrays: Sequence[Array]) -> None:
    if len(names) != len(arrays):
        raise FeedError(f"the run to record has {len(arrays)} arrays for {len(names)} tensors")
    for name, array in zip(names, arrays, strict=True):
        tensor = program.tensors[name]
        pairs = zip(tensor.shape or (), array.shape, strict=False)
        fits = tensor.dtype.numpy == array.dtype and len(tensor.shape or ()) == array.ndim
        if not fits or any(isinstance(a, int) and a != b for a, b in pairs):
            raise FeedError(f"'{name}' is {tensor}, the array is {array.dtype}{list(array.shape)}")


def _capacities(program: Program, extents: Sequence[Extent]) -> list[int]:
    """The bytes that each output may have."""
    bounds = bounds_of(extents)
    return [capacity(program.tensors[name], bounds) for name in program.outputs]


def test_main(
    source: Source, feeds: Sequence[Array], results: Sequence[Array], capacities: Sequence[int]
) -> str:
    """test_main.c: runs the model on the recorded input and compares every byte."""
    given = [c_bytes(f"input{i}", lying(x), static=True) for i, x in enumerate(feeds)]
    wanted = [c_bytes(f"expected{i}", lying(x), static=True) for i, x in enumerate(results)]
    made = [
        f"static unsigned char output{i}[{max(1, size)}] SX_ALIGNED;"
        for i, size in enumerate(capacities)
    ]
    rows = [f"{{output{i}, expected{i}, {len(lying(x))}}}" for i, x in enumerate(results)]
    return _TEST.format(
        p=source.prefix,
        threads=", 0, 0, 0, 0" if source.threads else "",
        quiet=quiet(),
        alignment=ALIGNMENT,
        data="\n".join([*given, *wanted]),
        made="\n".join(made),
        memory=max(1, source.memory or 0),
        inputs=", ".join(f"input{i}" for i in range(len(feeds))) or "0",
        outputs=", ".join(f"output{i}" for i in range(len(results))) or "0",
        rows=",\n    ".join(rows) or "{0, 0, 0}",
        count=len(results),
    )


def makefile(source: Source) -> str:
    """Makefile: `make`, `make test`, `make clean`."""
    units = " ".join(f"{name[:-2]}.o" for name in _units(source))
    return _MAKEFILE.format(flags=CONTRACT_FLAGS, units=units)


def cmake_lists(source: Source) -> str:
    """CMakeLists.txt with a library `model` and a test."""
    return _CMAKE.format(flags=CONTRACT_FLAGS, units=" ".join(_units(source)))


def _units(source: Source) -> Iterator[str]:
    yield from (name for name in source.files() if name.endswith(".c"))
    yield "weights.c"


def name_map(program: Program, source: Source) -> dict[str, object]:
    """model.map.json: what the parts of the C are called in the model."""
    return {
        "numerics": {"revision": NUMERICS_REVISION, "fused": not source.unfused},
        "memory_bytes": source.memory,
        "weights_bytes": source.blob.size,
        "inputs": [_tensor(name, program.tensors[name]) for name in program.inputs],
        "outputs": [_tensor(name, program.tensors[name]) for name in program.outputs],
        **_contents(program, source),
    }


def _contents(program: Program, source: Source) -> dict[str, object]:
    """The operations and weights of a program, and of the programs that its operations call."""
    offsets = {name: source.blob.find(array) for name, array in program.weights.items()}
    operations = [
        {
            "number": i,
            "function": source.functions[launch],
            "nodes": [_node(op) for op in launch.operations],
            "reads": [name for name in launch.reads if name],
            "writes": list(launch.writes),
        }
        for i, launch in enumerate(program.launches)
    ]
    for found, launch in zip(operations, program.launches, strict=True):
        if launch.call is not None:
            found["calls"] = [_contents(body.program, source) for body in launch.call.bodies]
    weights = {name: offset for name, offset in offsets.items() if offset is not None}
    return {"operations": operations, "weights": weights}


def _node(op: Operation) -> dict[str, object]:
    return {
        "name": op.origin.name,
        "path": list(op.origin.path),
        "op_type": op.op_type,
        "domain": op.domain,
        "since_version": op.since,
    }


def _tensor(name: str, tensor: TensorType) -> dict[str, object]:
    return {
        "name": name,
        "dtype": tensor.dtype.name,
        "shape": [d if isinstance(d, int) else str(d) for d in tensor.shape or ()],
    }


_TEST = """\
/* A recorded run of the model: the outputs must be equal to the last bit. */
#include <stdio.h>
#include <string.h>
#include "model.h"
{quiet}
#if defined(__GNUC__) || defined(__clang__)
#define SX_ALIGNED __attribute__((aligned({alignment})))
#else
#define SX_ALIGNED
#endif

{data}
{made}
static unsigned char memory[{memory}] SX_ALIGNED;

int main(void) {{
  static const void *const inputs[] = {{{inputs}}};
  static void *const outputs[] = {{{outputs}}};
  static const struct {{
    const void *found, *expected;
    size_t bytes;
  }} pairs[] = {{
    {rows}
  }};
  {p}_context context = {{memory, 0, 0, 0, inputs, outputs, 0{threads}}};
  int i, wrong = 0, error;
  context.weights = {p}_weights();
  error = {p}_run(&context);
  if (error) {{
    printf("error %d in operation %d\\n", error, (int)context.operation);
    return 1;
  }}
  for (i = 0; i < {count}; i++)
    if (memcmp(pairs[i].found, pairs[i].expected, pairs[i].bytes) != 0) {{
      printf("output %d differs from the recorded one\\n", i);
      wrong = 1;
    }}
  if (!wrong) printf("{count} outputs are equal to the recorded ones\\n");
  return wrong;
}}
"""

_MAKEFILE = """\
# make        builds the library and the test
# make test   runs the recorded input and compares the output byte by byte
# The flags in SX_FLAGS belong to the numerics; choose the target in CC and CFLAGS.
CC ?= cc
AR ?= ar
CFLAGS ?= -O3
SX_FLAGS = {flags}
OBJECTS = {units}

all: libmodel.a test_model

libmodel.a: $(OBJECTS)
	$(AR) rcs $@ $(OBJECTS)

test_model: test_main.o libmodel.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ test_main.o libmodel.a -lm

.c.o:
	$(CC) $(CFLAGS) $(SX_FLAGS) -c -o $@ $<

$(OBJECTS) test_main.o: model.h

test: test_model
	./test_model

clean:
	rm -f *.o libmodel.a test_model

.PHONY: all test clean
.SUFFIXES: .c .o
"""

_CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project(model C)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_EXTENSIONS OFF)
add_library(model STATIC {units})
target_include_directories(model PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
if(NOT MSVC)
  separate_arguments(SX_FLAGS UNIX_COMMAND "{flags}")
  target_compile_options(model PRIVATE ${{SX_FLAGS}})
  target_link_libraries(model PUBLIC m)
endif()
enable_testing()
add_executable(test_model test_main.c)
set_target_properties(test_model PROPERTIES C_STANDARD 99)
target_link_libraries(test_model PRIVATE model)
add_test(NAME recorded COMMAND test_model)
"""
