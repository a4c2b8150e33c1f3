"""What several commands share: options, feeds, progress, and how things are printed."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from sardonyx.dims.given import MOST
from sardonyx.errors import FeedError, shown
from sardonyx.graph import Graph
from sardonyx.settings import MOST_THREADS
from sardonyx.types import Array, TensorType

if TYPE_CHECKING:
    from sardonyx.settings import Numerics, Reading, Tuning
    from sardonyx.trace import Trace


SHOWN = 8  # names in an error


class ReadAs(TypedDict):
    """How a model is read, as open_model takes it."""

    qdq: Reading
    numerics: Numerics


def model_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL, --dim, --qdq and --numerics."""
    parser.add_argument("model", metavar="MODEL", help="an ONNX file (.onnx, or text: .onnxtxt)")
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="the size of a symbolic dim; `sardonyx info` names them",
    )
    parser.add_argument(
        "--qdq",
        choices=["integer", "float"],
        default="integer",
        help="how DequantizeLinear -> operator -> QuantizeLinear is read (default integer)",
    )
    parser.add_argument(
        "--numerics",
        choices=["default", "winograd"],
        default="default",
        help="winograd: 3 x 3 convolutions with fewer products, in another rounding",
    )


def feed_arguments(parser: argparse.ArgumentParser) -> None:
    """--input and --seed."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="FILE",
        help="FILE.npz, FILE.npy, FILE.pb (a TensorProto), or NAME=FILE; "
        "without inputs, random ones are made",
    )
    seed_argument(parser, "of random inputs and random operators (default 0)")


def seed_argument(parser: argparse.ArgumentParser, text: str) -> None:
    """--seed."""
    parser.add_argument("--seed", type=at_least("--seed", 0), default=0, help=text)


def at_least(option: str, least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that takes a number; FeedError where it is less than `least`, or more
    than `most`."""

    def number(text: str) -> int:
        found = int(text)
        if found < least:
            raise FeedError(f"{option} {found}: expected at least {least}")
        if most is not None and found > most:
            raise FeedError(f"{option} {found}: expected {least} to {most}")
        return found

    return number


def output_path(text: str) -> Path:
    """The type of --output; FeedError for "", which Path takes for the working directory."""
    if not text:
        raise FeedError("--output is empty: expected the path of what is to be written")
    return Path(text)


def check_written(
    option: str, path: Path | None, args: argparse.Namespace, model: str = "the model"
) -> None:
    """FeedError, before any work, where no file can be written at `path`, or where it is an input
    or what `args.model` names (`model` says what that is), which are read."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise FeedError(f"{option} {path}: expected a file in a folder that is there")
    inputs = [p for text in getattr(args, "input", ()) for p in (text, text.partition("=")[2])]
    for name, what in {**dict.fromkeys(inputs, "an input"), args.model: model}.items():
        if name and path.exists() and Path(name).exists() and path.samefile(name):
            raise FeedError(f"{option} {path} is {what} itself; choose another file")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around what writes a file: an OSError that does not name it (a full disk) does then."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write(path: Path, data: str | bytes) -> None:
    """Writes a file; text in UTF-8, as it is."""
    with writing(path):
        path.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)


def model_path(text: str) -> Path:
    """The type of --output for a model; FeedError for what would be read as ONNX text."""
    path = output_path(text)
    if path.suffix == ".onnxtxt":
        raise FeedError(f"-o {path}: models are not written as text; expected OUT.onnx")
    return path


def refuse_beside(args: argparse.Namespace, names: Sequence[str], what: str) -> None:
    """FeedError for an option that is given though it would mean nothing; `what` says why."""
    for name in names:
        value = getattr(args, name)
        if value is not None and value is not False and value != []:
            option = f"--{name.replace('_', '-')}"
            raise FeedError(f"{option} means nothing {what}; leave it out")


def kept_values(folder: Path) -> Path:
    """The folder that --values names, to be read; FeedError where it is none."""
    if not folder.is_dir():
        raise FeedError(f"--values {folder}: expected a folder that `sardonyx trace` filled")
    return folder


def reading(args: argparse.Namespace) -> ReadAs:
    """What --qdq and --numerics say."""
    return {"qdq": args.qdq, "numerics": args.numerics}


def thread_arguments(parser: argparse.ArgumentParser, default: int) -> None:
    """--threads, at least the default: 0 where that stands for all."""
    shown = "all that the process may use" if default == 0 else str(default)
    parser.add_argument(
        "--threads",
        type=at_least("--threads", default, MOST_THREADS),
        default=default,
        metavar="N",
        help=f"threads of a run; no result depends on it (default {shown})",
    )


def tuning_arguments(parser: argparse.ArgumentParser) -> None:
    """--tune and --schedule."""
    parser.add_argument(
        "--tune",
        action="store_true",
        help="choose schedules by measurement, on this computer; they are kept in the cache",
    )
    parser.add_argument(
        "--schedule",
        type=Path,
        metavar="FILE",
        help="schedules to use; with --tune, what it lacks is measured and written to it",
    )


def tuning(args: argparse.Namespace) -> Tuning:
    """What --tune and --schedule say; FeedError where no schedules could be written there."""
    from sardonyx.settings import Tuning

    if args.tune:
        check_written("--schedule", args.schedule, args)
    return Tuning(args.tune, args.schedule)


def dims_of(given: Sequence[str], option: str = "--dim") -> dict[str, int]:
    """The sizes that --dim options give. FeedError where one is not NAME=SIZE, or again."""
    found: dict[str, int] = {}
    for text in given:
        name, _, size = text.rpartition("=")
        if not name or not re.fullmatch("[0-9]+", size):
            raise FeedError(f"{option} {text}: expected NAME=SIZE, as in {option} N=1")
        if len(size) > len(str(MOST)):
            raise FeedError(
                f"{option} {name}: a size of {len(size)} digits, expected at most {MOST}"
            )
        if name in found:
            raise FeedError(
                f"{option} {text}: {name} is given twice, before as {found[name]}; give one"
            )
        found[name] = int(size)
    return found


def ranges_of(given: Sequence[str], form: str) -> dict[str, tuple[float, float]]:
    """The ranges that --range options give, by name, "" where one has none. FeedError where one is
    not of the form NAME=LOW:HIGH, is empty, or is given again."""
    found: dict[str, tuple[float, float]] = {}
    for text in given:
        name, _, ends = text.rpartition("=")
        low, _, high = ends.partition(":")
        try:
            pair = float(low), float(high)
        except ValueError as error:
            raise FeedError(f"--range {text}: expected {form}") from error
        if not pair[0] <= pair[1]:
            raise FeedError(f"--range {text}: it is empty, expected the lower number first")
        if name in found:
            raise FeedError(f"--range {text}: {name or 'all inputs'} had a range before; give one")
        found[name] = pair
    return found


def whole_trace(path: Path) -> Trace:
    """The trace in a file; FeedError, which names the file, where it is not whole."""
    from sardonyx.trace import InvalidTrace, read

    try:
        return read(path.read_bytes())
    except InvalidTrace as error:
        raise FeedError(f"{path}: {error}") from error


def say(line: str) -> None:
    """Prints a line; what a model names is printed by this or by `table`."""
    print(shown(line))


def progress(done: int, total: int, what: str) -> None:
    """One line on a terminal's stderr that is written over; nothing elsewhere."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r\x1b[K[{done}/{total}] {shown(what)}", end=end, file=sys.stderr, flush=True)


def some(names: Iterable[str]) -> str:
    """The first of the names that there are, for an error."""
    every = list(dict.fromkeys(filter(None, names)))
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return f"there are {', '.join(every[:SHOWN])}{more}" if every else "there are none"


def size_text(count: int) -> str:
    """Bytes for people: 1234567 -> "1,234,567 bytes (1.2 MiB)"."""
    exact = f"{count:,} bytes"
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{exact} ({count / scale:.1f} {unit})"
    return exact


def type_of(graph: Graph, name: str) -> str:
    """The type of a tensor as text."""
    found = graph.kind(name)
    return "a type that is not known" if found is None else str(found)


def memory_text(size: int, bound: int) -> str:
    """N against its lower bound."""
    over = f", {size / bound - 1:.1%} above" if bound and size > bound else ", equal to"
    return f"{size_text(size)}{over} the lower bound" + (f" of {bound:,}" if size > bound else "")


def table(rows: Sequence[Sequence[object]], indent: str = "  ") -> str:
    """Rows as aligned columns."""
    texts = [[shown(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in texts]
    return "\n".join(indent + line.rstrip() for line in lines)


def concrete(graph: Graph, dims: Mapping[str, int]) -> tuple[Graph, dict[str, int]]:
    """The graph with 1 for each symbolic dim that is left, and those dims."""
    from sardonyx.dims import substitute
    from sardonyx.infer import bind

    ones = {name: dims.get(name, 1) for name in graph.symbols}
    if not ones:
        return graph, {}

    def size(atom: object) -> int | None:
        return ones.get(getattr(atom, "name", ""))

    types = {}
    for name in (*graph.inputs, *graph.overridable):
        known = graph.types.get(name)
        if known is not None and known.shape is not None:
            shape = tuple(substitute(d, size) for d in known.shape)
            types[name] = TensorType(known.dtype, shape)
    return bind(graph, types, {}), ones


def statistics(value: Array) -> str:
    """min, max and the number of NaNs of a value."""
    import numpy as np

    if not value.size:
        return "empty"
    if value.dtype == object:
        return "strings"
    if value.dtype == bool:
        return f"{int(value.sum())} of {value.size} true"
    if value.dtype.kind in "iu":
        return f"min {value.min()} max {value.max()}"
    if value.dtype.kind == "c":
        return f"magnitudes: {statistics(np.abs(value))}"
    wide = value.astype(np.float64)
    nans = int(np.isnan(wide).sum())
    rest = wide[~np.isnan(wide)]
    ends = f"min {rest.min():.6g} max {rest.max():.6g}" if rest.size else "only NaN"
    return ends + (f" NaN {nans}" if nans and rest.size else "")
