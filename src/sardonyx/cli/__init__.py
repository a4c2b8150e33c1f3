"""The command `sardonyx`.

Exit codes: 0 well, 1 findings or a mismatch, 2 the input cannot be used. One file per command; only
the one that is called is imported.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper

COMMANDS = {
    "run": "run a model and print its result",
    "info": "what a model is made of, and what it needs",
    "bench": "how long a run takes, also beside onnxruntime and OpenVINO",
    "step": "walk the machine, step by step",
    "check": "whether a model is one of a profile (SONNX)",
    "legalize": "make a model one of a profile, every bit of its results kept",
    "trace": "a run as a file that can be checked and repeated",
    "replay": "check a trace, and execute its steps again",
    "diff": "the first step in which two traces differ",
    "accuracy": "a bound on the error of each tensor, against exact real arithmetic",
    "monitor": "watch a run for NaN, infinities, wraps and divisions by zero",
    "compile": "write a folder of C99 that computes a model",
    "extract": "cut a part out of a model",
    "operators": "the operators that Sardonyx has",
    "doctor": "the compiler, its flags and the cache",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, TextIOWrapper):  # a name may be in no encoding that a terminal has
        sys.stdout.reconfigure(errors="backslashreplace")
    from sardonyx.errors import SardonyxError, shown

    try:  # what is interrupted may be the import of a command
        parser, parsers = _parser()
        name = next((word for word in given if not word.startswith("-")), "")
        if name in COMMANDS:
            import_module(f"sardonyx.cli.{name}").arguments(parsers[name])
        args = parser.parse_args(given)
        if args.command is None:
            parser.print_help()
            return 0
        code = import_module(f"sardonyx.cli.{args.command}").execute(args)
        if sys.stdout is not None:  # it may have been closed before
            sys.stdout.flush()
    except SardonyxError as error:
        return _fail(str(error))
    except MemoryError as error:
        return _fail(f"this computer does not have the memory for it: {error}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        said = f"{error.filename or ''}: {error.strerror or error}".removeprefix(": ")
        return _fail(shown(said))
    except KeyboardInterrupt:
        print("sardonyx: interrupted", file=sys.stderr)
        return 130
    return int(code)


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = argparse.ArgumentParser(
        prog="sardonyx",
        description="Runs ONNX models and compiles them to C99: the same bits everywhere.",
    )
    parser.add_argument("--version", action="version", version=f"sardonyx {version('sardonyx')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    parsers = {
        name: commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        for name, text in COMMANDS.items()
    }
    return parser, parsers


def _fail(message: str) -> int:
    print(f"sardonyx: error: {message}", file=sys.stderr)
    return 2
