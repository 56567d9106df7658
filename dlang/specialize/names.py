"""The names of the source, for someone who follows a program step by step.

Where a local gets a value, a mark (`ir/marks.py`) says so, and what follows uses what the mark binds. What else is to
be known of the local is in a table beside the program.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Atom, Var, fresh, is_handle
from dlang.ir.marks import Mark
from dlang.specialize.emitter import Emitter
from dlang.specialize.values import Value, contains_function, leaves, rebuild
from dlang.typecheck import core

RESULT = "result"  # the name of what a function gives: no name of a local, which says more than its span


@dataclass(frozen=True, slots=True)
class Name:
    """A local where it gets a value. span: where it was declared. value: how its leaves are arranged.

    passed, others: the positions of the leaves that the mark guards, and of those that are only mentioned. Any
    leaf besides is a literal. The leaves of a function are those of what it has captured. given: whether a function
    begins with it, as a parameter.
    """

    text: str
    span: Span | None
    local: object
    value: Value
    passed: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    given: bool = False

    @property
    def is_result(self) -> bool:
        return self.text == RESULT


@dataclass(slots=True)
class Names:
    """All names of one program, by the keys of their marks."""

    table: dict[str, Name] = field(default_factory=dict)

    def mark(self, e: Emitter, local: core.Local, v: Value, span: Span | None = None) -> Value:
        """The value, behind a mark that names it."""
        if local.span is None and local.name != RESULT:
            return v  # nobody wrote it
        key = str(len(self.table))
        given = span is not None and span == local.span
        if contains_function(v):
            self._held(e, key, Name(local.name, local.span, local, v, given=given), span)
            return v
        atoms = list(leaves(v))
        passed = [k for k, a in enumerate(atoms) if is_passed(a)]
        others = [k for k, a in enumerate(atoms) if isinstance(a, Var) and not is_passed(a)]
        self.table[key] = Name(local.name, local.span, local, v, tuple(passed), tuple(others), given)
        bound = tuple([fresh(local.name, atoms[k].type) for k in passed])
        op = Mark(key).check(tuple([atoms[k] for k in others]), tuple([atoms[k] for k in passed]))
        self.emit(e, op, bound, span)
        named: list[Atom] = list(atoms)
        for k, var in zip(passed, bound, strict=True):
            named[k] = var
        return rebuild(v, iter(named))

    def function(self, e: Emitter, decl: core.FnDecl, v: Value, span: Span) -> None:
        """Names a local function, or a lambda that a `let` gives a name."""
        self._held(e, str(len(self.table)), Name(decl.name, decl.span, decl, v), span)

    def _held(self, e: Emitter, key: str, name: Name, span: Span | None) -> None:
        """Names a value with functions in it, by a mark that mentions what these have captured."""
        atoms = list(leaves(name.value))
        others = [k for k, a in enumerate(atoms) if isinstance(a, Var) and not isinstance(a.type, anf.Token)]
        self.table[key] = replace(name, others=tuple(others))
        self.emit(e, Mark(key).check(tuple([atoms[k] for k in others])), (), span)

    def emit(self, e: Emitter, op: anf.Assert, bound: tuple[Var, ...], span: Span | None) -> None:
        if span is None:
            e.bind(op, bound)
            return
        with e.at(span):
            e.bind(op, bound)


def is_passed(a: Atom) -> bool:
    """Tells whether a mark guards a leaf: a float, or a node that may hold some."""
    if not isinstance(a, Var) or isinstance(a.type, anf.Token):
        return False
    return a.type.dtype in anf.FLOATS or is_handle(a.type.dtype)
