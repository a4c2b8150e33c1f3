"""The compiler and the cache of libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sardonyx import build, compiler
from sardonyx.errors import BuildError

FILES = {
    "answer.h": "int answer(void);\n",
    "a.c": '#include "answer.h"\nint other(void);\n'
    '__attribute__((visibility("default"))) int answer(void) { return other(); }\n',
    "b.c": "int other(void) { return 42; }\n",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path / "cache"


def test_several_files_become_one_library() -> None:
    assert build.load(build.library(FILES)).answer() == 42


def test_the_same_files_are_compiled_once() -> None:
    heard: list[str] = []
    first = build.library(FILES, progress=lambda done, total, what: heard.append(what))
    again = build.library(FILES, progress=lambda done, total, what: heard.append("again"))
    assert first == again
    assert heard == ["compiling", "compiled a.c", "compiled b.c", "linked"]


def test_what_many_libraries_have_is_compiled_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, compiled = build._run, list[str]()

    def run(command: Sequence[str], folder: Path) -> None:
        compiled.extend(x for x in command if x.endswith(".c"))
        real(command, folder)

    monkeypatch.setattr(build, "_run", run)
    other = {**FILES, "a.c": FILES["a.c"].replace("other();", "other() + 1;")}
    assert build.load(build.library(FILES, common=["b.c"])).answer() == 42
    assert build.load(build.library(other, common=["b.c"])).answer() == 43
    assert sorted(compiled) == ["a.c", "a.c", "b.c"]
    (kept,) = cache.glob("*.o")
    damaged = bytearray(kept.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    for number, damage in enumerate((b"", b"no object", damaged), 2):
        kept.write_bytes(damage)
        compiled.clear()
        again = {**FILES, "a.c": FILES["a.c"].replace("other();", f"other() + {number};")}
        assert build.load(build.library(again, common=["b.c"])).answer() == 42 + number
        assert sorted(compiled) == ["a.c", "b.c"]


def test_another_text_is_another_library() -> None:
    changed = {**FILES, "b.c": "int other(void) { return 43; }\n"}
    assert build.load(build.library(changed)).answer() == 43
    assert build.library(changed) != build.library(FILES)


def test_the_key_depends_on_all_that_changes_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    gcc, other = compiler.Compiler(("cc",), "12"), compiler.Compiler(("cc",), "13")
    keys = {build.digest(FILES, gcc, ["-O3"]), build.digest(FILES, other, ["-O3"])}
    keys |= {build.digest(FILES, gcc, ["-O2"]), build.digest({}, gcc, ["-O3"])}
    monkeypatch.setattr(build, "cpu_identity", lambda: "another")
    keys.add(build.digest(FILES, gcc, ["-O3"]))
    monkeypatch.setattr(build, "NUMERICS_REVISION", 99)
    keys.add(build.digest(FILES, gcc, ["-O3"]))
    assert len(keys) == 6


def test_the_least_recently_used_library_goes_first(tmp_path: Path) -> None:
    a, b, c = (f"{letter * 40}.so" for letter in "abc")
    for i, name in enumerate((a, b, c)):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (i, i))
    os.utime(tmp_path / a, (9, 9))
    build.evict(tmp_path, 200)
    assert sorted(p.name for p in tmp_path.iterdir()) == [a, c]


@pytest.mark.parametrize("name", ["mine.so", "notes", "model.weights", f"{'A' * 40}.so", "build"])
def test_files_of_others_in_the_folder_stay(name: str, cache: Path) -> None:
    """SARDONYX_CACHE may name any folder."""
    kept, inner = cache / name, cache / "folder" / "inner"
    inner.parent.mkdir(parents=True)
    for path in (kept, inner):
        path.write_bytes(b"1234")
    build.library(FILES)
    build.evict(cache, 0)
    build.clear()
    assert sorted(cache.iterdir()) == sorted([kept, inner.parent])
    assert kept.read_bytes() == inner.read_bytes() == b"1234"


def test_the_library_just_built_is_kept_whatever_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE_BYTES", "1")
    assert build.library(FILES).exists()


def test_clear_empties_the_cache(cache: Path) -> None:
    build.library(FILES)
    assert build.clear() > 0
    assert list(cache.iterdir()) == []
    assert build.load(build.library(FILES)).answer() == 42


def test_nothing_but_the_library_and_its_lock_stays(cache: Path) -> None:
    build.library(FILES)
    assert sorted(p.suffix for p in cache.iterdir()) == [".lock", ".so"]


def test_processes_may_build_the_same_library_at_once(cache: Path) -> None:
    program = f"from sardonyx import build\nprint(build.load(build.library({FILES!r})).answer())"
    command = [sys.executable, "-c", program]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    assert [p.communicate()[0].strip() for p in running] == [b"42"] * 4
    assert len(list(cache.glob("*.so"))) == 1


def test_a_refusal_shows_the_compilers_words() -> None:
    with pytest.raises(BuildError, match="nonsense"):
        build.library({"a.c": "nonsense\n"})


def test_without_a_compiler_the_error_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(compiler, "find_spec", lambda name: None)
    compiler._find.cache_clear()
    with pytest.raises(BuildError, match=r"pip install \"sardonyx\[zig\]\""):
        compiler.find_compiler()
    compiler._find.cache_clear()


def test_a_wrong_cc_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler --flag")
    with pytest.raises(BuildError, match="no-such-compiler --flag"):
        compiler.find_compiler()


def test_a_cc_that_makes_nothing_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "true --for-all")
    with pytest.raises(BuildError, match=r"true --for-all: .* makes nothing of a C file; name"):
        build.library(FILES)


def test_a_compiler_that_links_nothing_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "odd"
    odd.write_text('#!/bin/sh\ncase "$*" in *-shared*) exit 0; esac\nexec cc "$@"\n')
    odd.chmod(0o755)
    monkeypatch.setenv("CC", str(odd))
    words = rf"did not make library.so \({odd} -shared .*\); is it a compiler\? CC can name"
    with pytest.raises(BuildError, match=words):
        build.library(FILES)


def test_cc_is_used_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "clang -O1")
    assert compiler.find_compiler().command == ("clang", "-O1")


def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path / "file"))
    with pytest.raises(BuildError, match="SARDONYX_CACHE"):
        build.library(FILES)


def test_a_cache_may_be_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SARDONYX_CACHE", ".")
    assert build.load(build.library(FILES)).answer() == 42


def test_no_place_for_temporary_files_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(compiler.tempfile, "TemporaryDirectory", refuse)
    with pytest.raises(BuildError, match="TMPDIR"):
        compiler._accepts(compiler.Compiler(("cc",), "1"), ("-Dx",))


def test_a_user_without_a_folder_is_told_to_name_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("SARDONYX_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", home)
    with pytest.raises(BuildError, match=r"HOME is not set.*SARDONYX_CACHE can name one"):
        build.library(FILES)


@pytest.mark.slow
def test_the_zig_wheel_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.setenv("CC", f"{sys.executable} -m ziglang cc")
    assert build.load(build.library(FILES)).answer() == 42


def test_a_cc_whose_quotes_do_not_match_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc '")
    with pytest.raises(BuildError, match="gcc '"):
        compiler.find_compiler()


def test_a_bound_that_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE_BYTES", "2GiB")
    with pytest.raises(BuildError, match="'2GiB', expected a number of bytes"):
        build.library(FILES)


def test_a_cache_that_may_only_be_read_serves(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build.library(FILES)

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(build, "_build", refuse)
    assert build.library(FILES) == path


def test_a_library_of_which_a_crash_left_nothing_is_built_again() -> None:
    build.library(FILES).write_bytes(b"")
    assert build.load(build.library(FILES)).answer() == 42


def test_what_a_killed_process_left_goes_after_a_day(tmp_path: Path) -> None:
    old, new = tmp_path / "build-old", tmp_path / "place-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "a.c").write_text("")
    os.utime(old, (1, 1))
    build.evict(tmp_path, build.BOUND)
    assert [*tmp_path.iterdir()] == [new]


def test_a_library_that_is_removed_before_it_is_loaded_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, removed = build.load, list[Path]()

    def load(path: Path) -> Any:
        if not removed:
            removed.append(path)
            path.unlink()
        return real(path)

    monkeypatch.setattr(build, "load", load)
    assert build.loaded(FILES)[1].answer() == 42


def test_a_folder_that_is_removed_while_the_compiler_works_is_made_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, removed = build._run, list[bool]()

    def run(command: Sequence[str], folder: Path) -> None:
        if not removed:
            removed.append(True)
            shutil.rmtree(cache)
        real(command, folder)

    monkeypatch.setattr(build, "_run", run)
    assert build.load(build.library(FILES)).answer() == 42


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_lock_ends_though_a_process_was_forked_meanwhile(cache: Path) -> None:
    cache.mkdir()
    there, ends = os.pipe()
    with build.locked(cache / "x.lock"):
        child = os.fork()
        if child == 0:
            os.close(ends)
            os.read(there, 1)  # until the other end is closed
            os._exit(0)
    try:
        with (cache / "x.lock").open("a") as file:
            build.fcntl.flock(file, build.fcntl.LOCK_EX | build.fcntl.LOCK_NB)
    finally:
        os.close(ends)
        os.waitpid(child, 0)
        os.close(there)


def test_a_lock_of_another_users_is_no_hindrance(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.open

    def opened(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if self.suffix == ".lock":
            raise PermissionError
        return real(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", opened)
    assert build.load(build.library(FILES, common=["b.c"])).answer() == 42


def test_what_may_not_be_evicted_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = build.library({"b.c": FILES["b.c"]})

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setenv("SARDONYX_CACHE_BYTES", "1")
    monkeypatch.setattr(Path, "unlink", refuse)
    assert build.library(FILES) in {*cache.glob("*.so")} - {old}


def test_a_file_that_cannot_be_written_leaves_nothing(cache: Path) -> None:
    cache.mkdir()

    def pieces() -> Iterator[bytes]:
        yield bytes(100)
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        build.place(cache / "x.weights", pieces())
    assert not [*cache.iterdir()]


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_other_users_may_read_what_the_mask_lets_them(cache: Path) -> None:
    cache.mkdir()
    before = os.umask(0o022)
    try:
        build.place(cache / "x.weights", [b"x"])
    finally:
        os.umask(before)
    assert (cache / "x.weights").stat().st_mode & 0o777 == 0o644
