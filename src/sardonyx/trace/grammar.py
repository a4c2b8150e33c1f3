"""What the lines of a trace are made of. A chain shows that no byte was changed by one who does not
make it anew; whoever does can put anything into a line, so each is looked at before it is used.

    misfit(value, STEP)     "" if the JSON value has that form, else what is wrong with it

A form is a type; a pattern, of texts; a range, of numbers; [form], a list of any length; a tuple, a
list with these elements; a dict, an object that has these keys, those with "?" perhaps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sardonyx.monitor import KINDS


@dataclass(frozen=True, slots=True)
class Maybe:
    """null, or what has the form."""

    form: object


COUNT = range(1 << 63)
DIGEST = re.compile(r"[0-9a-f]{64}|")  # "": of what was not there
TENSOR = {"name": str, "dtype": str, "shape": [COUNT], "offset": range(-1, 1 << 63), "size": COUNT}
READ = {**TENSOR, "sha256": DIGEST}
WRITE = {**TENSOR, "before": DIGEST, "after": DIGEST}
OPERATION = {
    **{"name": str, "path": [COUNT], "domain": str, "op_type": str, "since": COUNT},
    **{"attributes": DIGEST, "inputs": [str], "outputs": [str]},
}
SCOPE = [([COUNT], str, COUNT)]
FLAGS = dict.fromkeys(KINDS, COUNT)
STEP = {
    **{"step": COUNT, "operation": OPERATION, "reads": [READ], "writes": [WRITE], "flags": FLAGS},
    **{"scope?": SCOPE, "layout?": Maybe(COUNT)},
}
LAYOUT = {"layout": COUNT, "scope": SCOPE, "plan": DIGEST, "memory": COUNT, "initial": [READ]}
BODY = {
    **{"body": bool, "scope": SCOPE, "inputs": [READ], "captured": [READ], "initial": [READ]},
    "outputs": [str],
}
HEADER = {
    **{"trace": COUNT, "numerics": {"revision": COUNT, "fused": bool, "conv?": str}},
    **{"model": {"name": str, "sha256": DIGEST}, "profile": Maybe(str), "graph": DIGEST},
    **{"initial": [READ], "outputs": [str]},
}
PLANNED = {**HEADER, "plan": DIGEST, "memory": COUNT}
FOOTER = {
    **{"end": re.compile("complete|trapped"), "steps": COUNT, "root": DIGEST},
    "outputs": [{"name": str, "sha256": DIGEST}],
}


def misfit(value: Any, form: Any, where: str = "it") -> str:
    """What of a JSON value has not the form; "" if all has. where: what the value is called."""
    match form:
        case dict():
            return _object(value, form, where)
        case list():
            items = [(x, form[0]) for x in value] if isinstance(value, list) else None
            return _items(value, items, where)
        case tuple():
            fits = isinstance(value, list) and len(value) == len(form)
            return _items(value, list(zip(value, form, strict=True)) if fits else None, where)
        case Maybe():
            return "" if value is None else misfit(value, form.form, where)
        case re.Pattern():
            fits = isinstance(value, str) and bool(form.fullmatch(value))
        case range():
            fits = type(value) is int and value in form
        case _:
            fits = type(value) is form
    return "" if fits else f"{where} is {value!r:.40}"


def _items(value: Any, items: Sequence[tuple[Any, Any]] | None, where: str) -> str:
    if items is None:
        return f"{where} is {value!r:.40}"
    found = (misfit(x, form, f"{where}[{i}]") for i, (x, form) in enumerate(items))
    return next(filter(None, found), "")


def _object(value: Any, form: Mapping[str, Any], where: str) -> str:
    if not isinstance(value, dict):
        return f"{where} is {value!r:.40}"
    for key, inner in form.items():
        name = key.removesuffix("?")
        if name not in value:
            if name == key:
                return f"{where} has no {name}"
        elif wrong := misfit(value[name], inner, name if where == "it" else f"{where}.{name}"):
            return wrong
    return ""
