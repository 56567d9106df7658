"""What the CPU can't run yet, refused with a diagnostic."""

from __future__ import annotations

from collections.abc import Iterator

from dlang.diagnostics import DlangError, Span, error
from dlang.ir.anf import Atom, Function, Program, Token, is_handle
from dlang.ir.traverse import parts, walk

UNSUPPORTED = "E0901"
HALF = ("f16", "bf16")


def unsupported(what: str, span: Span | None, *help: str) -> DlangError:
    """The error for a program that is right but has no code on the CPU."""
    return error(UNSUPPORTED, f"{what} not supported on the CPU", span, help=help)


def refuse_half_precision(f: Function) -> None:
    """No value of a function may be of half precision: not what it takes, binds or gives, and no literal in it."""
    for atom, span in _values(f):
        if not isinstance(atom.type, Token) and atom.type.dtype in HALF:
            raise unsupported(f"`{atom.type.dtype}` is", span or f.span, "use `f32`: convert with `f32(x)`")


def _values(f: Function) -> Iterator[tuple[Atom, Span | None]]:
    for param in f.params:
        yield param, f.span
    for let in walk(f.body):
        inside = parts(let.op)
        atoms: list[Atom] = [*let.vars, *inside.atoms, *inside.binds]
        for block in inside.blocks:
            atoms += block.results
        for atom in atoms:
            yield atom, let.span
    for atom in (*f.body.results, *f.results):
        yield atom, f.span


def refuse_handles(program: Program, f: Function) -> None:
    """A function that is called from outside takes and gives no nodes: they live only as long as a run does."""
    for var in (*f.params, *f.results):
        if not isinstance(var.type, Token) and is_handle(var.type.dtype):
            datatype = program.datatypes[var.type.dtype]
            given = "as an argument from" if var in f.params else "as a result to"
            raise unsupported(f"a value of `{datatype.label or datatype.name}` {given} outside is", f.span)
