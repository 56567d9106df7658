"""Emits as C what the runtime in c/ needs to know of values in files: their leaves, and the fields of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlang.aot.writer import Writer, dtype, quoted
from dlang.codegen.llvm.collector import node_header
from dlang.codegen.node_layout import holds_reference, words
from dlang.host.contents import Case, Form, Member, titles
from dlang.host.saved import page_text
from dlang.ir.terms import Datatype, Variant


def write_form(w: Writer, name: str, form: Form, datatypes: Mapping[str, Datatype]) -> str:
    """Defines a `dl_form`; gives its address."""
    named = titles(form)
    types = []
    for k, (of, cases) in enumerate(form.types.items()):
        variants = datatypes[of].variants
        rows = [
            _case(w, f"{name}_{k}_{n}", case, variant, named)
            for n, (case, variant) in enumerate(zip(cases, variants, strict=True))
        ]
        types.append(f"{{{quoted(named[of])}, {w.array('dl_case', f'{name}_{k}', rows)}}}")
    members = _members(w, f"{name}_members", form.members, [0] * len(form.members), named)
    former = "0" if form.former is None else write_form(w, f"{name}_former", form.former, datatypes)
    parts = (members, w.array("dl_node_type", f"{name}_types", types), quoted(page_text(form)), former)
    w.lines.append(f"static const dl_form {name} = {{{', '.join(parts)}}};")
    return f"&{name}"


def _case(w: Writer, name: str, case: Case, variant: Variant, named: Mapping[str, str]) -> str:
    places = words(variant)
    header = node_header(variant.tag, sum(map(holds_reference, variant.fields)), len(variant.fields))
    own = w.array("int", f"{name}_own", list(map(str, places[: case.own]))).split(", ")[0]
    literals = w.array("int64_t", f"{name}_literals", list(map(str, case.literals)))
    members = _members(w, name, case.members, places[case.own :], named)
    parts = (quoted(case.name), f"(int64_t){header}u", str(len(places)), str(case.own), own, literals, members)
    return f"{{{', '.join(parts)}}}"


def _members(w: Writer, name: str, members: Sequence[Member], places: Sequence[int], named: Mapping[str, str]) -> str:
    """An array of `dl_member`, and how many there are. places: their words in a node."""
    numbers = {m.name: k for k, m in enumerate(members)}
    types = list(named)
    rows = []
    for k, (m, word) in enumerate(zip(members, places, strict=True)):
        axes = w.array("int", f"{name}_axes_{k}", list(map(str, m.axes))).split(", ")[0]
        variants = w.array("char *const", f"{name}_variants_{k}", list(map(quoted, m.variants)))
        under = [str(x) for tag, number in m.under for x in (numbers[tag], number)]
        pairs = w.array("int", f"{name}_under_{k}", under).split(", ")[0]
        parts = (
            quoted(m.name), dtype(m.dtype), quoted(named.get(m.dtype, m.dtype)),
            str(types.index(m.dtype) if m.dtype in named else -1), str(word), str(len(m.axes)), axes, variants,
            pairs, str(len(m.under)),
        )  # fmt: skip
        rows.append(f"{{{', '.join(parts)}}}")
    return w.array("dl_member", name, rows)
