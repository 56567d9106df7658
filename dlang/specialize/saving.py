"""Whole values in files: `io.save` and `io.load`."""

from __future__ import annotations

from dlang.diagnostics import Span, error
from dlang.host.contents import Form, encoded, form_of
from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Size, Var, fresh, poly
from dlang.ir.crossing import holds_blanks, holds_code
from dlang.ir.types import I64
from dlang.specialize.borders import Describer, unsized
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.types import Mono
from dlang.specialize.values import Value, leaves, mono_of, rebuild, template
from dlang.typecheck import core
from dlang.typecheck.terms import variables
from dlang.typecheck.types import SizeVar


def write_value(f: Frame, path: Atom, value: Value) -> tuple[list[Atom], tuple[str, ...]]:
    """The arguments of the effect that writes a value, and what it knows when it is compiled."""
    return [path, *leaves(value)], (encoded(_form(f, mono_of(value), "saved")),)


def append_row(f: Frame, path: Atom, record: Value, span: Span) -> tuple[list[Atom], tuple[str, ...]]:
    """Appends a row to a log, like `write_value`: every leaf is a number or a text."""
    form = _form(f, mono_of(record), "logged")
    for m in form.members:
        if m.axes or m.dtype in form.types:
            message = f"a row of a log has one number or text in each column, and `{m.name}` is no such thing"
            help = ("log what sums it up, such as its `mean`; `io.save` keeps the whole of it",)
            raise error("E0418", message, span, help=help)
    return [path, *leaves(record)], tuple([m.name for m in form.members])


def read_value(f: Frame, b: core.Builtin, path: Atom) -> Value:
    """A value from a file. A size that nothing else says is that of an axis in the file; the others are checked."""
    e = f.emitter
    if f.world.token is None:
        raise unsupported("`io.load` inside a comprehension or a derivative", e.span)
    unknown: dict[Var, SizeVar] = {}
    for v in variables(b.type):
        if isinstance(v, SizeVar) and v not in f.bindings:
            stand_in = fresh(v.name or "n", I64)
            unknown[stand_in] = v
            f.bindings[v] = poly(stand_in)
    mono = f.mono(b.type)
    wanted = [a.type for a in leaves(template(mono, lambda t: fresh("x", t)))]
    results: list[Var] = []
    found: list[Var] = []
    for t in wanted:
        dims = [fresh("n", I64) for _ in t.shape] if isinstance(t, Array) else []
        found.append(fresh("x", Array(t.dtype, tuple(map(poly, dims))) if isinstance(t, Array) else t))
        results += [*dims, found[-1]]
    token = fresh("w", anf.Token())
    form = _form(f, mono, "loaded")
    e.bind(anf.Effect("io.read_value", f.world.token, (path,), (encoded(form),)), (token, *results))
    f.world.token = token
    known: dict[Var, Size] = {}
    for t, x in zip(wanted, found, strict=True):
        for s, d in zip(_shape(t), _shape(x.type), strict=True):
            if s.atom in unknown and s.atom not in known:
                known[s.atom] = d
                f.bindings[unknown[s.atom]] = d
                assert d.atom is not None
                e.facts.size(d.atom)
    missing = [v for k, v in unknown.items() if k not in known]
    if missing:
        names = ", ".join(f"`{v.name or '_'}`" for v in missing)
        raise error(
            "E0412",
            f"no axis of what is loaded has the size {names} and nothing more, so it is not known",
            b.span,
            help=("state the size: a constant, or one that is known where the value is loaded",),
        )
    atoms: list[Atom] = []
    for t, x, member in zip(wanted, found, form.members, strict=True):
        shape = tuple([s.substitute(known.get) for s in _shape(t)])
        atoms.append(e.resized(x, shape, f"axis {{}} of `{member.name}` in the file") if shape else x)
    return rebuild(template(f.mono(b.type), lambda t: fresh("x", t)), iter(atoms))


def _shape(t: anf.Type) -> tuple[Size, ...]:
    return t.shape if isinstance(t, Array) else ()


def _form(f: Frame, m: Mono, what: str) -> Form:
    describer = Describer(f)
    part = describer.part(m, unsized)
    if holds_code(part, describer.trees):
        message = f"a value with a function in it cannot be {what}: a function has no form in a file"
        raise error("E0418", message, f.emitter.span, help=("keep the parameters that it depends on",))
    if holds_blanks(part, describer.trees):
        message = f"a value with an array in it whose elements hold nothing cannot be {what}"
        raise error("E0418", message, f.emitter.span, help=("keep its length",))
    return form_of(part, describer.trees)
