"""A function of the language as a Python callable."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from dlang.diagnostics import DlangError, Span, error
from dlang.polynomials import Poly
from dlang.python.arguments import Given, Matcher
from dlang.python.instances import Prepared, Program
from dlang.python.repeats import Conversion, conversions, converted, seen_before
from dlang.typecheck import core
from dlang.typecheck.types import RowVar, Shape, Size, SizeVar, Type, TypeFn, TypeVar

REMEMBERED = 512  # kinds of call that a function recognises without matching them again


class Function:
    """Takes NumPy arrays, Python's numbers, tuples and structs; checks them; compiles what is new; gives the value."""

    def __init__(self, program: Program, decl: core.FnDecl, expression: str, settle: bool) -> None:
        """expression: how the module itself would write the function; settle: its scheme has constraints."""
        self.program = program
        self.decl = decl
        self.expression = expression
        self.settle = settle
        self._partial: dict[tuple[core.Param, ...], core.FnDecl] = {}
        self._sizes = [p.local.size is not None for p in decl.params]
        self._prepared: dict[tuple[object, ...], tuple[Prepared, tuple[Conversion, ...]]] = {}
        self.__name__ = self.__qualname__ = decl.name
        self.__module__ = decl.module
        self.__doc__ = decl.doc or None

    def __call__(self, *args: Any, **named: Any) -> Any:
        fits = not named and len(args) <= len(self._sizes)
        seen = seen_before(args, self._sizes) if fits else None
        known = self._prepared.get(seen.key) if seen is not None else None
        if seen is not None and known is not None:
            ready = converted(seen.leaves, known[1])
            if ready is not None:
                return known[0](ready)
        prepared, leaves = self._matched(self._assigned(args, named))
        how = conversions(seen.leaves, leaves) if seen is not None else None
        if seen is not None and how is not None:
            if len(self._prepared) >= REMEMBERED:
                self._prepared.clear()
            self._prepared[seen.key] = prepared, how
        return prepared(leaves)

    def _matched(self, given: Mapping[core.Param, Any]) -> tuple[Prepared, list[Any]]:
        """Arguments compared with the declared types; raises a `DlangError` where one does not fit."""
        matcher = Matcher(self.decl)
        found = matcher.match(given)
        if self.settle:
            return self._settled(given, found)
        decl = self.decl if len(given) == len(self.decl.params) else self._without_defaults(tuple(given))
        return self.program.prepare(decl, matcher.bindings()), [leaf for g in found for leaf in g.leaves]

    def _settled(self, given: Mapping[core.Param, Any], found: Sequence[Given]) -> tuple[Prepared, list[Any]]:
        """The call of a function that the checker infers for these dtypes and ranks."""
        names = [p.local.name for p in given]
        by_name = self.expression == self.decl.name
        if not by_name and len(given) < len(self.decl.params):
            missing = next(p.local.name for p in self.decl.params if p not in given)
            raise self._misuse(f"needs `{missing}`")
        decl = self.program.settled.at(self.decl, self.expression, names, found, by_name)
        matcher = Matcher(decl)
        again = matcher.match({p: given[old] for p, old in zip(decl.params, given, strict=True)})
        return self.program.prepare(decl, matcher.bindings()), [leaf for g in again for leaf in g.leaves]

    def __repr__(self) -> str:
        from dlang.typecheck.program import scheme_text

        return f"<dlang function {self.decl.name}: {scheme_text(self.decl)}>"

    @cached_property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [
            inspect.Parameter(p.local.name, kind, default=inspect.Parameter.empty if p.default is None else ...)
            for p in self.decl.params
        ]
        return inspect.Signature(parameters)

    def _assigned(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[core.Param, Any]:
        """The value given for each parameter; those left to their defaults are missing."""
        params = self.decl.params
        if len(args) > len(params):
            raise self._misuse(f"takes {_arguments(len(params))}, got {len(args)}")
        given = dict(zip(params, args, strict=False))
        by_name = {p.local.name: p for p in params}
        for name, value in named.items():
            if name not in by_name:
                raise self._misuse(f"has no parameter `{name}`")
            if by_name[name] in given:
                raise self._misuse(f"is given `{name}` twice")
            given[by_name[name]] = value
        missing = [f"`{p.local.name}`" for p in params if p not in given and p.default is None]
        if missing:
            raise self._misuse(f"needs {' and '.join(missing)}")
        return {p: given[p] for p in params if p in given}

    def _misuse(self, problem: str) -> DlangError:
        names = ", ".join(p.local.name for p in self.decl.params)
        help = (f"it is `{self.decl.name}({names})`",)
        return error("E0961", f"`{self.decl.name}` {problem}", self.decl.span, help=help)

    def _without_defaults(self, given: tuple[core.Param, ...]) -> core.FnDecl:
        """A function of the given parameters alone, which calls this one."""
        if given not in self._partial:
            args = tuple(reference(p, self.decl.span) if p in given else None for p in self.decl.params)
            self._partial[given] = calling(self.decl, self.decl.name, given, at_its_own_types(self.decl), args)
        return self._partial[given]


def calling(
    decl: core.FnDecl,
    name: str,
    params: tuple[core.Param, ...],
    function: core.Expr,
    args: tuple[core.Expr | None, ...],
    result: Type | None = None,
) -> core.FnDecl:
    """A function with the scheme of `decl` that calls `function`."""
    wanted = result if result is not None else decl.result
    assert wanted is not None
    body = core.Call(wanted, decl.span, function, args, decl.opened)
    return core.FnDecl(
        name, decl.module, decl.span, params, wanted, decl.variables, decl.opened, body,
        effects=decl.effects, doc=decl.doc,
    )  # fmt: skip


def at_its_own_types(decl: core.FnDecl) -> core.FnRef:
    """A function where each variable of its scheme stands for itself."""
    assert decl.result is not None
    t = TypeFn(tuple(p.local.type for p in decl.params), decl.result)
    return core.FnRef(t, decl.span, decl, tuple((v, _itself(v)) for v in decl.variables if v not in decl.opened))


def reference(param: core.Param, span: Span) -> core.Ref:
    return core.Ref(param.local.type, span, param.local)


def _itself(v: TypeVar | SizeVar | RowVar) -> Type | Size | Shape:
    match v:
        case TypeVar():
            return v
        case SizeVar():
            return Size(Poly.of(v))
        case RowVar():
            return Shape((), v, ())


def _arguments(n: int) -> str:
    return "no arguments" if n == 0 else "1 argument" if n == 1 else f"{n} arguments"
