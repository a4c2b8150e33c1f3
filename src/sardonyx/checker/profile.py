"""Profiles: which rules hold, how severely, and the data that they read. A profile is a file.

    profile = find_profile("sonnx@ej-2026-10")
    profile = find_profile("mine.yaml")          # or .toml

    extends = "sonnx@wg-2026-08"     # what is not said here is as there
    name, version, title             # texts
    types = ["float32", ...]         # the element types that tensors may have
    only = ["V1.C1", ...]            # the rules that hold; default: all but the founding ones
    [rules]    G07 = "warning"       # another severity: error, transient, warning, dynamic, off
    [limits]   variadic = 64         # numbers
    [options]  broadcast = ["Add"]   # lists of words
    [operators.Add]                  # since: versions that are covered; types; specified = false

Built-in dialects lie in checker/profiles/ as TOML.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx.defs

from sardonyx.checker.finding import Severity
from sardonyx.errors import SardonyxError
from sardonyx.types import DTYPES

FOLDER = Path(__file__).parent / "profiles"
DEFAULT = "sonnx@wg-2026-08"
SETS = {
    "float": ("float16", "float32", "float64"),
    "signed": ("int8", "int16", "int32", "int64"),
    "unsigned": ("uint8", "uint16", "uint32", "uint64"),
}
_KEYS = {
    "extends", "name", "version", "title", "types", "only", "rules", "limits", "options",
    "operators",
}  # fmt: skip


LIMITS = "memory", "variadic"
OPTIONS = "allowed_metadata", "broadcast", "maxpool", "metadata", "opset"


@dataclass(frozen=True, slots=True)
class Entry:
    """One operator of the profile: the versions that its document covers, its element types ("" in
    the data: any of the profile's), and whether there is a document at all."""

    since: tuple[int, ...]
    types: frozenset[str] | None
    specified: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """Data that the rules read, and the severities that differ from theirs."""

    name: str
    version: str
    title: str
    types: frozenset[str]
    only: frozenset[str] | None
    severities: Mapping[str, str]
    limits: Mapping[str, int]
    options: Mapping[str, tuple[str, ...]]
    operators: Mapping[str, Entry]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name

    def has(self, rule: str) -> bool:
        """Whether a rule holds in this profile."""
        if self.only is not None:
            return rule in self.only
        return not rule.startswith(("V1.", "V2.")) and self.severities.get(rule) != "off"

    def severity(self, rule: str, default: Severity) -> Severity:
        """The severity that a rule has here."""
        word = self.severities.get(rule)
        return default if word is None or word == "off" else Severity(word)

    def option(self, name: str) -> tuple[str, ...]:
        return self.options.get(name, ())


def find_profile(text: str) -> Profile:
    """The profile called `text`: NAME, NAME@VERSION or the path of a TOML or YAML file.

    SardonyxError where there is none, the file breaks the form above, or it speaks of a rule, a
    limit, an option or an operator that is not there: what is misspelt would not be enforced.
    """
    found = _profile(_data(text, ()), text)
    _check_names(found, text)
    return found


def dialects() -> tuple[str, ...]:
    """The names of the built-in profiles."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def _data(text: str, seen: tuple[str, ...]) -> dict[str, Any]:
    """The data of a profile with what it extends put under it."""
    if text in seen:
        raise SardonyxError(f"profile {text}: it extends itself")
    data = _read(text)
    unknown = sorted(set(data) - _KEYS)
    if unknown:
        raise SardonyxError(
            f"profile {text}: the key '{unknown[0]}' is not known; known are {', '.join(_KEYS)}"
        )
    if "extends" not in data:
        return data
    base = _data(str(data["extends"]), (*seen, text))
    merged = {**base, **data}
    for key in ("rules", "limits", "options", "operators"):
        merged[key] = {**_table(base, key, text), **_table(data, key, text)}
    return merged


def _read(text: str) -> dict[str, Any]:
    built_in = {name: FOLDER / f"{name}.toml" for name in dialects()}
    built_in["sonnx"] = built_in[DEFAULT]
    path = built_in.get(text, Path(text))
    if text not in built_in and path.suffix not in (".toml", ".yaml", ".yml"):
        raise SardonyxError(
            f"there is no profile '{text}'; there are {', '.join(dialects())}, and files that end "
            "in .toml or .yaml"
        )
    try:
        content = path.read_text(encoding="utf-8")
        data = tomllib.loads(content) if path.suffix == ".toml" else _yaml(content, text)
    except (OSError, ValueError) as error:
        raise SardonyxError(f"profile {text} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise SardonyxError(f"profile {text}: expected a table of keys, found {data!r:.40}")
    return data


def _yaml(content: str, text: str) -> object:
    try:
        import yaml
    except ImportError:
        raise SardonyxError(
            f'profile {text}: YAML needs PyYAML (pip install "sardonyx[yaml]"), or write TOML'
        ) from None
    try:
        found: object = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    return found


def _profile(data: Mapping[str, Any], text: str) -> Profile:
    only = data.get("only")
    severities = {str(k): str(v) for k, v in _table(data, "rules", text).items()}
    for rule, word in severities.items():
        if word not in (*Severity, "off"):
            raise SardonyxError(
                f"profile {text}: rule {rule} has the severity '{word}'; expected "
                f"{', '.join(Severity)} or off"
            )
    limits = _table(data, "limits", text)
    if not all(isinstance(v, int) for v in limits.values()):
        raise SardonyxError(f"profile {text}: limits are whole numbers")
    return Profile(
        name=str(data.get("name", Path(text).stem)),
        version=str(data.get("version", "")),
        title=str(data.get("title", "")),
        types=_types(data.get("types", [d.name for d in DTYPES]), text) or frozenset(),
        only=None if only is None else frozenset(map(str, only)),
        severities=severities,
        limits={str(k): int(v) for k, v in limits.items()},
        options={str(k): _words(v, text) for k, v in _table(data, "options", text).items()},
        operators={
            str(k): _entry(str(k), v, text) for k, v in _table(data, "operators", text).items()
        },
    )


def _check_names(profile: Profile, text: str) -> None:
    from sardonyx.checker.registry import all_rules

    rules = {rule.id for rule in all_rules()}
    _need(
        {*profile.severities, *(profile.only or ())},
        rules,
        text,
        "rule",
        "docs/profile.md has them",
    )
    _need(profile.limits, LIMITS, text, "limit", f"there are {', '.join(LIMITS)}")
    _need(profile.options, OPTIONS, text, "option", f"there are {', '.join(OPTIONS)}")
    if not all(word.isdecimal() for word in profile.option("opset")):
        raise SardonyxError(f"profile {text}: opset is {[*profile.option('opset')]}, expected [25]")
    versions: dict[str, set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            versions.setdefault(schema.name, set()).add(schema.since_version)
    _need(profile.operators, versions, text, "operator", "`sardonyx operators` has them")
    for name, entry in profile.operators.items():
        known = sorted(versions[name])
        there = f"there are {', '.join(map(str, known))}"
        _need(map(str, entry.since), [*map(str, known)], text, f"version of {name}", there)


def _need(names: Iterable[str], known: Collection[str], text: str, what: str, there: str) -> None:
    """SardonyxError for a name that is not known."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise SardonyxError(f"profile {text}: there is no {what} '{unknown[0]}'; {there}")


def _entry(name: str, given: object, text: str) -> Entry:
    if not isinstance(given, dict) or set(given) - {"since", "types", "specified"}:
        raise SardonyxError(
            f"profile {text}: operator {name} is {given!r:.60}; expected since, types, specified"
        )
    since = given.get("since", [])
    if not isinstance(since, list) or not all(isinstance(v, int) for v in since):
        raise SardonyxError(f"profile {text}: since of {name} is a list of versions")
    types = given.get("types")
    known = None if types is None else _types(types, text)
    return Entry(tuple(since), known, bool(given.get("specified", True)))


def _types(given: object, text: str) -> frozenset[str]:
    """Names of types, and of the sets of types float, signed and unsigned."""
    words = _words(given, text)
    found = frozenset(t for word in words for t in SETS.get(word, (word,)))
    unknown = found - {d.name for d in DTYPES} - {"string"}
    if unknown:
        raise SardonyxError(f"profile {text}: there is no type '{sorted(unknown)[0]}'")
    return found


def _words(given: object, text: str) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise SardonyxError(f"profile {text}: expected a list, found {given!r:.40}")
    return tuple(map(str, given))


def _table(data: Mapping[str, Any], key: str, text: str) -> dict[str, Any]:
    found = data.get(key, {})
    if not isinstance(found, dict):
        raise SardonyxError(f"profile {text}: {key} is {found!r:.40}, expected a table")
    return found
