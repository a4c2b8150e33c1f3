#!/usr/bin/env python3
"""Proves the formal specification, and shows that the proofs say something.

    prove.py                  every theorem; fails on one unproved goal
    prove.py -k REGEX [...]   those whose name matches
    prove.py --extract        the C of the checker; fails if the package's file differs
    prove.py --mutations      with each wrong definition of mutations.txt its theorem must fail

Why3 splits a theorem into goals and prints them for a prover; Z3 and CVC4 try each in turn, for a
short time first. The limits are processor time, so a busy machine changes nothing but the wait.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from shutil import copytree

HERE = Path(__file__).resolve().parent
FILES = ("semantics", "plan", "machine", "bound", "control", "inline", "checker")
Z3 = ("Z3,4.8.12", "z3 -smt2 sat.random_seed=42 nlsat.randomize=false smt.random_seed=42")
CVC4 = ("CVC4,1.8", "cvc4 --lang=smt2")
PROVERS = {"Z3": Z3, "CVC4": CVC4}
SHORT = (("Z3", 1), ("CVC4", 4), ("Z3", 10))  # prover, processor seconds
BRIEF = (("Z3", 1), ("CVC4", 1))
ROUNDS = (*SHORT, ("CVC4", 20), ("Z3", 40), ("CVC4", 60))
MEMORY = 3 << 30
EXTRACTED = HERE.parent / "src" / "sardonyx" / "plan" / "plan_check.c"
Theorem = tuple[str, str, str]  # file, module, goal
Rounds = Sequence[tuple[str, int]]


def why3(folder: Path, command: str, *arguments: str) -> str:
    """The output; ends the program where the files do not type-check."""
    config = ["-C", str(HERE / "why3.conf"), "-L", "."]
    line = ["why3", command, *config, *arguments]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    if "rror" in done.stderr or (done.returncode and not done.stdout):
        raise SystemExit(done.stderr)
    return done.stdout


def theorems(folder: Path, pattern: str, files: Sequence[str] = FILES) -> list[Theorem]:
    found = []
    for file in files:
        module = ""
        for line in why3(folder, "prove", f"{file}.mlw").splitlines():
            if match := re.match(r"theory (\S+)", line):
                module = match[1]
            elif (match := re.match(r"  goal (\S+?):?(?:\s|$)", line)) and re.search(
                pattern, match[1]
            ):
                found.append((file, module, match[1]))
    return found


@cache
def printed(folder: Path, theorem: Theorem, prover: str) -> list[str]:
    """The goals of a theorem in a prover's language, in their order."""
    file, module, goal = theorem
    name = goal.removesuffix("'vc")
    found = {}
    with tempfile.TemporaryDirectory() as made:
        chosen = [f"{file}.mlw", "-T", module, "-G", goal, "-a", "split_vc"]
        why3(folder, "prove", *chosen, "-P", PROVERS[prover][0], "-o", made)
        for path in Path(made).iterdir():
            match = re.fullmatch(rf"{file}-{module}-{name}qtvc(\d*)\.smt2", path.name)
            if match is None:
                raise SystemExit(f"unexpected {path.name}")
            found[int(match[1] or 0)] = path.read_text()
    if not found:
        raise SystemExit(f"{file}.{goal} has no goals")
    return [found[i] for i in sorted(found)]


def holds(text: str, prover: str, seconds: int) -> bool:
    """Whether the prover finds that the negated goal contradicts what is given."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    with tempfile.NamedTemporaryFile("w", suffix=".smt2") as goal:
        goal.write(text)
        goal.flush()
        line = [*PROVERS[prover][1].split(), goal.name]
        done = subprocess.run(line, capture_output=True, text=True, preexec_fn=limit)
    return done.stdout.split()[:1] == ["unsat"]


def places(folder: Path, theorem: Theorem) -> list[str]:
    """Where the goals of a theorem stand, and what they are."""
    file, module, goal = theorem
    chosen = [f"{file}.mlw", "-T", module, "-G", goal, "-a", "split_vc"]
    text = why3(folder, "prove", *chosen, "-P", Z3[0], "-t", "1", "--json")
    found, decoder, at = [], json.JSONDecoder(), 0
    while text[at:].strip():
        answer, at = decoder.raw_decode(text, len(text) - len(text[at:].lstrip()))
        term = answer["term"]
        line = term.get("loc", {}).get("line", "?")
        found.append(f"{file}.mlw:{line} {term.get('explanations')}")
    return found


def prove(folder: Path, theorem: Theorem, rounds: Rounds) -> list[bool]:
    """Of each goal of a theorem, in their order, whether it is proved."""
    done: list[bool] = []
    for i in range(len(printed(folder, theorem, "Z3"))):
        tries = ((printed(folder, theorem, p)[i], p, limit) for p, limit in rounds)
        done.append(any(holds(*tried) for tried in tries))
    missing = [i for i, ok in enumerate(done) if not ok]
    print(f"{theorem[0]}.{theorem[2]}: {len(done)} goals, {len(missing)} unproved", flush=True)
    stand = places(folder, theorem) if missing else []
    for i in missing:
        print("   ", stand[i], flush=True)
    return done


def prove_all(
    folder: Path, pattern: str, jobs: int, files: Sequence[str] = FILES, rounds: Rounds = ROUNDS
) -> bool:
    start = time.monotonic()
    every = theorems(folder, pattern, files)
    with ThreadPoolExecutor(jobs) as pool:
        done = [ok for made in pool.map(lambda t: prove(folder, t, rounds), every) for ok in made]
    bad = done.count(False)
    took = time.monotonic() - start
    print(f"{len(every)} theorems, {len(done)} goals, {bad} unproved, {took:.0f} s")
    return bool(done) and not bad


def extracted(folder: Path) -> str:
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / "plan_check.c"
        how = ["-D", "c", "-D", "checker.drv", "--recursive", "checker.Check", "-o", str(made)]
        why3(folder, "extract", *how)
        return made.read_text()


def goals(folder: Path, theorem: Theorem, prover: str) -> list[str]:
    """As `printed`, without the comments, which say where a goal stands."""
    return [re.sub(r"(?m)^\s*;.*\n", "", text) for text in printed(folder, theorem, prover)]


def is_proved(folder: Path, theorem: Theorem, i: int) -> bool:
    """Whether goal i of a theorem is proved in a short time."""
    return any(holds(goals(folder, theorem, p)[i], p, limit) for p, limit in BRIEF)


def fails(folder: Path, theorem: Theorem) -> bool:
    """Whether some goal of a theorem is not proved in the folder, but is here, in the same time."""
    old, new = (goals(where, theorem, "Z3") for where in (HERE, folder))
    changed = [i for i, text in enumerate(new) if len(old) != len(new) or old[i] != text]
    for i in changed:
        if not is_proved(folder, theorem, i):
            same = [i] if len(old) == len(new) else range(len(old))
            if all(is_proved(HERE, theorem, j) for j in same):
                return True
    return False


def mutate(block: str, every: Sequence[Theorem]) -> str:
    """What comes of a wrong definition: "" where its theorem fails, else what is wrong."""
    head, old, new = block.split("\n")[:3]
    goal, file = head.split()
    (theorem,) = (t for t in every if t[2] == f"{goal}'vc")
    with tempfile.TemporaryDirectory() as name:
        folder = copytree(HERE, Path(name) / "formal")
        text = (folder / file).read_text()
        if text.count(old[2:]) != 1:
            return f"{file} does not hold once: {old[2:]}"
        (folder / file).write_text(text.replace(old[2:], new[2:]))
        try:
            return "" if fails(folder, theorem) else "IS STILL PROVED"
        except SystemExit as error:
            return f"IS NO DEFINITION: {error}"


def mutations(pattern: str, jobs: int) -> bool:
    """mutations.txt: blocks of `theorem file`, `- old text`, `+ new text`. With the old text the
    theorem is proved, with the new one it is not, within the same limits. A mutation that does
    not type-check shows nothing, and counts as an error."""
    start = time.monotonic()
    blocks = (HERE / "mutations.txt").read_text().strip().split("\n\n")
    blocks = [block for block in blocks if re.search(pattern, block.split()[0])]
    every = theorems(HERE, "")

    def one(block: str) -> bool:
        wrong = mutate(block, every)
        head, _, new = block.split("\n")[:3]
        print(f"{head}: {wrong or 'fails, as it must,'} with {new[2:]}", flush=True)
        return not wrong

    with ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(one, blocks))
    took = time.monotonic() - start
    print(f"{len(done)} mutations, {done.count(False)} of them in vain, {took:.0f} s")
    return bool(done) and all(done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="theorems whose name matches")
    parser.add_argument("-f", nargs="+", default=FILES, choices=FILES, help="in these files")
    parser.add_argument("-j", type=int, default=2, help="provers at once")
    parser.add_argument("--short", action="store_true", help="give each goal up after 15 s")
    parser.add_argument("--extract", action="store_true")
    parser.add_argument("--write", action="store_true", help="with --extract: write the file")
    parser.add_argument("--mutations", action="store_true")
    given = parser.parse_args()
    if given.extract and given.write:
        EXTRACTED.write_text(extracted(HERE))
    if given.extract:
        sys.exit(extracted(HERE) != EXTRACTED.read_text())
    if given.mutations:
        sys.exit(not mutations(given.k, given.j))
    sys.exit(not prove_all(HERE, given.k, given.j, given.f, SHORT if given.short else ROUNDS))


if __name__ == "__main__":
    main()
