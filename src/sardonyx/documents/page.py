"""An operator's document in SONNX's template, made of its definition and of the checker's rules.

page("Conv", find_profile("sonnx"))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx.defs
from onnx.defs import OpSchema

from sardonyx.checker import Profile, Rule, Severity, all_rules
from sardonyx.checker.nodes import attribute_value
from sardonyx.checker.profile import SETS
from sardonyx.checker.rules.attributes import AXES, EXEMPT, OWN, STEERING
from sardonyx.checker.rules.elementwise import BINARY
from sardonyx.documents.conditions import Condition, conditions
from sardonyx.documents.formula import formula
from sardonyx.documents.instances import INSTANCES, Instance, kernel_of
from sardonyx.errors import SardonyxError
from sardonyx.kernel.ir import Kernel
from sardonyx.ops.registry import Operator, find

PREFIX = {"BatchNormalization": "BN"}
FAMILIES = {"FLOAT": "float", "INT": "signed", "UINT": "unsigned"}
LEGEND = """`Σ[c < C] a · b` is the sum of products in the order of its indices, the last fastest:
one accumulator from +0, one fused multiply-add per term (of float64: multiply, then add).
`Σ[i < N] a` is the sum in 16 partial sums. `X{0}[i]` is X with 0 outside of its bounds, `X![i]` a
run-time error there, `X:(n)[i]` X under another shape. Functions such as exp are Sardonyx's own.
All of it is exact to the bit in every engine: [numerics](../numerics.md)."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a page is made of."""

    name: str
    schema: OpSchema
    operator: Operator
    profile: Profile
    instance: Instance
    kernel: Kernel

    @property
    def types(self) -> frozenset[str]:
        """The element types of the data: those of the profile for this operator that ONNX has."""
        own = self.profile.operators[self.name].types
        formal = self.schema.inputs or self.schema.outputs
        data = formal[1 if self.name == "Where" else 0]
        return (self.profile.types if own is None else own) & {_type(t) for t in data.types}

    @property
    def families(self) -> list[str]:
        """The families of types that the operator has here, as tags spell them."""
        found = [f for f, word in FAMILIES.items() if self.types.intersection(SETS[word])]
        return found or ["BOOL"]


def document(name: str, profile: Profile) -> Document:
    """The parts of an operator's page; SardonyxError where the profile does not list it."""
    entry = profile.operators.get(name)
    instance = INSTANCES.get(name)
    if entry is None or instance is None:
        there = ", ".join(sorted(set(profile.operators) & set(INSTANCES)))
        raise SardonyxError(f"{profile} has no document of '{name}'; it has {there}")
    limit = int((profile.option("opset") or ("25",))[0])
    newest = onnx.defs.get_schema(name, limit).since_version
    since = max(entry.since) if entry.since else newest
    schema, operator = onnx.defs.get_schema(name, since), find("", name, since)
    if operator is None:
        raise SardonyxError(f"Sardonyx does not have {name}-{since}")
    kernel = kernel_of(operator, instance, _inputs(schema, instance))
    return Document(name, schema, operator, profile, instance, kernel)


def page(name: str, profile: Profile) -> str:
    """The page of an operator in Markdown."""
    doc = document(name, profile)
    parts = (
        _head(doc), _signature(doc), _restrictions(doc), _function(doc), _errors(doc),
        _attributes(doc), _operands(doc), _tags(doc),
    )  # fmt: skip
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _inputs(schema: OpSchema, instance: Instance) -> list[str]:
    """The names of the operands; a variadic one is counted."""
    names = [formal.name for formal in schema.inputs]
    more = len(instance.operands) - len(names)
    if more > 0:
        last = names.pop()
        names += [f"{last}{i}" for i in range(more + 1)]
    return names


def _head(doc: Document) -> str:
    entry = doc.profile.operators[doc.name]
    also = sorted(set(entry.since) - {doc.schema.since_version})
    covered = f" (the same meaning: {', '.join(map(str, also))})" if also else ""
    stands = "specified" if entry.specified else "listed, without a document of the working group"
    where = doc.operator.define.__module__.replace(".", "/").removeprefix("sardonyx/")
    return f"""# {doc.name}

Based on ONNX {doc.name} version {doc.schema.since_version}{covered}.
In {doc.profile}: {stands}.
Families of types: {", ".join(doc.families).lower()}.
Defined once in `src/sardonyx/{where}.py`. This page is made of that definition and of the
[rules](../profile.md) by `python tools/operator_pages.py`."""


def _signature(doc: Document) -> str:
    optional = OpSchema.FormalParameterOption.Optional
    outputs = ", ".join(o.name for o in doc.schema.outputs)
    inputs = ", ".join(f"[{i.name}]" if i.option == optional else i.name for i in doc.schema.inputs)
    return f"## Signature\n\n`{outputs} = {doc.name}({inputs})`"


GENERAL = (
    ("GR1", "no sparse tensors", "T01"),
    ("GR2", "element types are explicit", "T02"),
    ("GR3", "no implicit conversion of element types", "T06"),
    ("GR4", "no default values", "A01"),
)


def _restrictions(doc: Document) -> str:
    rows = [(f"`{r.id}`", _statement(r), _origin(r)) for r in rules_of(doc.name)]
    rows += [(f"`{rule}`", text, name) for name, text, rule in GENERAL]
    return "## Restrictions and constraints\n\n" + _table(("rule", "statement", "origin"), rows)


def _statement(rule: Rule) -> str:
    first = (rule.check.__doc__ or "").partition("\n\n")[0]
    return " ".join(first.split())


def _origin(rule: Rule) -> str:
    more = " (transient)" if rule.severity == Severity.TRANSIENT else ""
    return rule.reference + more


def rules_of(name: str) -> list[Rule]:
    """The checker's rules that are about one operator."""
    mine = {"EW.3"}
    mine |= {"EW.1"} if name in BINARY else set()
    mine |= {"EW.2"} if name in BINARY and BINARY[name][1] else set()
    mine |= {"A03"} if name == "Constant" else set()
    mine |= {"A04"} if name in AXES else set()
    mine |= {"A05"} if name in STEERING else set()
    mine |= {"Max.1"} if name == "Min" else set()
    mine |= {"G17"} if name in ("Concat", "Max", "Min") else set()
    mine |= {"N01"} if name in ("Exp", "Pow", "Div", "Softmax") else set()
    mine |= {"N02"} if name in ("MatMul", "ConvInteger") else set()
    prefix = f"{PREFIX.get(name, name)}."
    return [r for r in all_rules() if r.id in mine or r.id.startswith(prefix)]


def _function(doc: Document) -> str:
    names = dict(zip(doc.kernel.outputs, _outputs(doc), strict=True))
    text = formula(doc.kernel, names)
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    return f"## Function\n\n{_about(doc)}\n\n{lines}\n\n{LEGEND}"


def _outputs(doc: Document) -> list[str]:
    names = [formal.name for formal in doc.schema.outputs]
    while len(names) < len(doc.kernel.outputs):
        names.append(f"{names[0]}{len(names)}")
    return names[: len(doc.kernel.outputs)]


def _about(doc: Document) -> str:
    operands = ", ".join(
        f"{b.name}: {b.dtype}[{', '.join(map(str, b.shape))}]"
        for b in doc.kernel.inputs
        if b is not None
    )
    given = ", ".join(f"{k} = {_plain(v)}" for k, v in sorted(doc.instance.attributes.items()))
    names = _inputs(doc.schema, doc.instance)
    values = ", ".join(f"{names[i]} = {_plain(v)}" for i, v in doc.instance.values.items())
    rest = "; ".join(filter(None, (given, values)))
    subject = f"For {operands}" if operands else "Without operands"
    return f"{subject}{f', and {rest}' if rest else ''}, each element of the output is:"


def _plain(value: Any) -> str:
    if hasattr(value, "tolist"):
        return str(value.tolist())
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _errors(doc: Document) -> str:
    rows = []
    for family, found in _conditions(doc):
        rows += [(family.lower(), c.what, c.result, c.disposition) for c in found]
    head = "## Error conditions\n\n"
    if not rows:
        return f"{head}None: bits are moved, and no arithmetic takes place."
    return head + _table(("family", "condition", "result", "disposition"), rows)


def _conditions(doc: Document) -> Iterator[tuple[str, tuple[Condition, ...]]]:
    """The conditions of each family, from the kernel of one of its types."""
    example = {"FLOAT": "float32", "INT": "int32", "UINT": "uint32", "BOOL": "bool"}
    for family in doc.families:
        dtype = next((t for t in (example[family], *sorted(doc.types)) if t in doc.types), "")
        if family in ("INT", "UINT") and not dtype.startswith(FAMILIES[family][:1]):
            dtype = {"INT": "int8", "UINT": "uint8"}[family]
        yield family, _conditions_of(doc, dtype or "bool")


def _conditions_of(doc: Document, dtype: str) -> tuple[Condition, ...]:
    if doc.instance.dtype == dtype:
        return conditions(doc.kernel)
    other = replace(
        doc.instance,
        dtype=dtype,
        operands=tuple(s.replace("float32:", f"{dtype}:") for s in doc.instance.operands),
    )
    try:
        names = _inputs(doc.schema, other)
        return conditions(kernel_of(doc.operator, other, names))
    except (SardonyxError, KeyError, TypeError, ValueError):
        return ()


def _attributes(doc: Document) -> str:
    rows = []
    for name, formal in sorted(doc.schema.attributes.items()):
        known: Any = formal
        default = attribute_value(known.default_value) if known.default_value.name else None
        shown = "required" if known.required else "-" if default is None else str(default)
        rows.append((f"`{name}`", known.type.name.lower(), shown, _demand(doc.name, name)))
    if not rows:
        return "## Attributes\n\nNone."
    return "## Attributes\n\n" + _table(("attribute", "type", "ONNX default", "here"), rows)


def _demand(op: str, name: str) -> str:
    if name in EXEMPT.get(op, ()):
        return "may be absent"
    rule = PREFIX.get(op, op) if name in OWN.get(op, ()) else "A01"
    return "given" + ("" if rule == "A01" else f" (`{'A03' if op == 'Constant' else rule + '.*'}`)")


def _operands(doc: Document) -> str:
    rows = []
    for kind, formals in (("input", doc.schema.inputs), ("output", doc.schema.outputs)):
        for formal in formals:
            types = sorted(t for t in map(_type, formal.types) if t in doc.profile.types)
            own = doc.types if formal.type_str in ("T", "V", "T1") else doc.profile.types
            shown = [t for t in types if t in own] or types
            option: Any = formal.option
            rows.append((kind, f"`{formal.name}`", ", ".join(shown), option.name.lower()))
    return "## Inputs and outputs\n\n" + _table(("", "name", "element types", "in ONNX"), rows)


def _type(text: str) -> str:
    inner = text.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64"}.get(inner, inner)


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of SONNX's grammar, what it marks, and the rule that checks it, if one does."""

    tag: str
    what: str
    rule: str = ""


def tags(name: str, profile: Profile) -> tuple[Tag, ...]:
    """The tags of an operator: one for the function of each family, one for each rule."""
    doc = document(name, profile)
    first = doc.schema.inputs[0].name.upper() if doc.schema.inputs else "OP"
    found = []
    for family in doc.families:
        stem = f"E_{name.upper()}_{family}"
        found.append(Tag(f"{stem}_FUNC_0010", "the function"))
        for number, rule in enumerate(rules_of(name), 1):
            if family in ONLY.get(rule.id, doc.families):
                tag = KNOWN.get((rule.id, family), f"{stem}_CONSTR_{first}_{number * 10:04}")
                found.append(Tag(tag, rule.title, rule.id))
    return tuple(found)


# the rules that are about one family of types, and the tags that the working group has for them
ONLY = {
    "Abs.1": ("INT",), "Div.1": ("INT", "UINT"), "Div.2": ("INT",), "Pow.1": ("INT",),
    "N01": ("FLOAT",), "N02": ("INT", "UINT"), "Log.1": ("FLOAT",), "Sqrt.1": ("FLOAT",),
}  # fmt: skip
KNOWN = {
    ("Abs.1", "INT"): "E_ABS_INT_CONSTR_X_020",
    ("Div.1", "INT"): "E_DIV_INT_CONSTR_B_0030",
}


def _tags(doc: Document) -> str:
    rows = [
        (f"`{t.tag}`", t.what, f"`{t.rule}`" if t.rule else "[compliance](../compliance.md)")
        for t in tags(doc.name, doc.profile)
    ]
    note = "The tags follow SONNX's grammar; where the working group has none they are ours."
    return f"## Tags\n\n{note}\n\n" + _table(("tag", "what", "checked by"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)
