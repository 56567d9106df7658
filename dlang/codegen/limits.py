"""What the CPU can't run yet, refused with a diagnostic."""

from __future__ import annotations

from dlang.diagnostics import DlangError, Span, error
from dlang.ir.anf import Function, Program, Token, is_handle

UNSUPPORTED = "E0901"


def unsupported(what: str, span: Span | None, *help: str) -> DlangError:
    """The error for a program that is right but has no code on the CPU."""
    return error(UNSUPPORTED, f"{what} not supported on the CPU", span, help=help)


def refuse_handles(program: Program, f: Function) -> None:
    """A function that is called from outside takes and gives no nodes: they live only as long as a run does."""
    for var in (*f.params, *f.results):
        if not isinstance(var.type, Token) and is_handle(var.type.dtype):
            datatype = program.datatypes[var.type.dtype]
            given = "as an argument from" if var in f.params else "as a result to"
            raise unsupported(f"a value of `{datatype.label or datatype.name}` {given} outside is", f.span)
