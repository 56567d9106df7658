"""Written types to types: names to variables, sizes to polynomials, `?` to sizes that each use opens."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from dlang.diagnostics import DlangError, Note, Span, error, replacement
from dlang.grammar import syntax as s
from dlang.polynomials import TooManyTerms
from dlang.typecheck import elsewhere, refinements, types as ty
from dlang.typecheck.context import Checker
from dlang.typecheck.limits import size_too_large, within_axes, within_size
from dlang.typecheck.messages import did_you_mean, misspelt
from dlang.typecheck.scope import AliasEntry, Scope
from dlang.typecheck.state import Term
from dlang.typecheck.terms import I64, number, of_var, substitute
from dlang.typecheck.unify import add, exact_division, multiply, subtract

_LIKE_VARIABLE = re.compile(r"([^\W\d_]|[^\W\d_fiuc]\d+)'*$")  # `i3` and the like are meant as dtypes
EFFECTS = frozenset({"print", "io", "random"})


PASSED = (
    "a function that is passed takes arrays of one size, which has a name here",
    "where it is called with parts of several sizes, pass it the whole array and their bounds",
)


@dataclass(slots=True)
class Annotator:
    """Converts the annotations of one signature, `let` or cast.

    rigid: unknown names become variables that the function quantifies, else ones to be inferred. names: those
    introduced here. unknown: the sizes written as `?`, by name; None where `?` may not stand, and `instead` says what
    may. refined: the names of types that mean more than the type that they stand for.
    """

    cx: Checker
    scope: Scope
    rigid: bool
    names: dict[str, ty.Var] = field(default_factory=dict)
    unknown: dict[str, ty.SizeVar] | None = None
    what: str = "this annotation"
    instead: tuple[str, ...] = ("write a name here: a parameter's size is known",)
    refined: dict[s.TypeName, ty.Refinement] = field(default_factory=dict)

    def origin(self, span: Span) -> Note:
        return Note(f"from {self.what}", span)

    # ---- types -------------------------------------------------------------------------------------------------------
    def type(self, t: s.TypeExpr) -> ty.Type:
        """Converts a type annotation; refuses one that refines its type by `Idx`."""
        converted = self.converted(t)
        if self.refinement(t) is not None:
            raise misplaced(t.span, "here", "write `i64`, and `e as Idx<n>` where a value has to be an index")
        return converted

    def refined_type(self, t: s.TypeExpr) -> tuple[ty.Type, ty.Refinement | None]:
        """The type, and what `Idx` in it says beside."""
        return self.converted(t), self.refinement(t)

    def refinement(self, t: s.TypeExpr | s.Dim) -> ty.Refinement | None:
        """The refinement of a type that has been converted."""
        match t:
            case s.TypeName(_, name, written):
                for a in written:
                    if self.refinement(a) is not None:
                        help = f"write `i64`, or declare a type with a field `Idx<n>` in place of `{name}`"
                        raise misplaced(t.span, f"as an argument of `{name}`", help)
                return self.refined.get(t)
            case s.TypeArray(_, element, dims):
                inner = self.refinement(element)
                return refinements.of_elements(inner) if dims else inner
            case s.TypeTuple(_, items):
                return refinements.of_items([self.refinement(i) for i in items])
            case s.TypeFunction(_, parameters, result, _):
                if any(self.refinement(p) is not None for p in (*parameters, result)):
                    help = "write `i64`; a lambda around the function says `e as Idx<n>`"
                    raise misplaced(t.span, "in the type of a function value", help)
                return None
            case s.TypeEffects(_, result, _):
                return self.refinement(result)
            case _:
                return None

    def converted(self, t: s.TypeExpr) -> ty.Type:
        match t:
            case s.TypeName(_, name, arguments):
                return self.named(t, name, arguments)
            case s.TypeArray(_, element, dims):
                return self.array(element, dims)
            case s.TypeTuple(_, items):
                return ty.TypeTuple(tuple(self.converted(i) for i in items))
            case s.TypeFunction(_, parameters, result, effects):
                inner = replace(self, unknown=None, instead=PASSED)
                params = tuple(inner.converted(p) for p in parameters)
                inner.unknown = {}
                result_type = inner.converted(result)
                return ty.TypeFn(params, result_type, self.effects(t.span, effects), tuple(inner.unknown.values()))
            case s.TypeEffects(_, result, names):
                self.effects(t.span, names)
                return self.converted(result)

    def effects(self, span: Span, names: tuple[str, ...] | None) -> ty.Effects:
        known_effects(names or (), span)
        return ty.Effects(set(names or ()), names is not None)

    def named(self, t: s.TypeName, name: str, arguments: tuple[s.TypeExpr | s.Dim, ...]) -> ty.Type:
        if name in ty.DTYPES:
            return ty.TypeCon(name)
        if name == "size":
            return I64
        if name == "Idx":
            self.refined[t] = ty.Below(self.index_size(t))
            return I64
        if not name:  # a syntax error that has been reported
            return self.cx.st.type_var()
        if not name[0].isupper() and "." not in name:
            return self.variable(t, name)
        entry = self.cx.type_of_module(name, t.span) if "." in name else self.cx.find_type(name)
        if entry is None:
            raise self.unknown_type(name, t.span, self.cx.type_names())
        rows = [k for k, p in enumerate(entry.params) if isinstance(p, ty.RowVar)]
        if len(rows) == 1:
            return self.applied(entry, self.with_row(entry.params, arguments, rows[0], name, t.span), t)
        if len(arguments) != len(entry.params):
            kinds = ", ".join(parameter_name(p) for p in entry.params)
            raise error(
                "E0314",
                f"`{name}` takes {len(entry.params)} argument{'s' * (len(entry.params) != 1)}, found {len(arguments)}",
                t.span,
                help=(f"write `{name}<{kinds}>`" if kinds else f"write `{name}`",),
            )
        converted = tuple(self.argument(p, a) for p, a in zip(entry.params, arguments, strict=True))
        return self.applied(entry, converted, t)

    def unknown_type(self, name: str, span: Span, declared: list[str]) -> DlangError:
        """The message for a name that is no type; it says how a variable of the name would be declared."""
        instead = elsewhere.TYPES.get(name)
        help = (instead,) if instead is not None else did_you_mean(name, [*declared, *sorted(ty.DTYPES)])
        if not help and len(name) == 1 and name.isupper():
            help = (f"a type variable is a letter in lower case: `{name.lower()}`",)
        if not help and not name[0].isupper():
            help = (f"a type variable is a single letter, or listed before the parameters: `<{name}>`",)
        name_span = span.head(len(name))
        fixes = misspelt(name_span, name, [*declared, *sorted(ty.DTYPES)])
        if instead is not None:
            written = re.fullmatch(r"write `([\w<>…]+)`", instead)
            fixes = (replacement(name_span, written[1]),) if written is not None and "…" not in written[1] else ()
        return error("E0207", f"unknown type `{name}`", name_span, help=help, fixes=fixes)

    def applied(self, entry: ty.DataDecl | AliasEntry, arguments: tuple[Term, ...], t: s.TypeName) -> ty.Type:
        if isinstance(entry, AliasEntry):
            within_size(entry.body, t.span)
            replace = dict(zip(entry.params, arguments, strict=True))
            refinement = refinements.substituted(entry.refinement, replace)
            if refinement is not None:
                self.refined[t] = refinement
            return substitute(entry.body, replace)
        return ty.TypeData(entry, arguments)

    def index_size(self, t: s.TypeName) -> ty.Size:
        """The n of `Idx<n>`."""
        if len(t.arguments) != 1:
            raise error("E0314", "`Idx` takes one size: `Idx<n>`", t.span)
        argument = t.arguments[0]
        match argument:
            case s.TypeName(_, name, ()) if name not in ty.DTYPES:
                return self.size_name(argument.span, name)
            case s.SizeName() | s.SizeNumber() | s.SizeOperator() | s.SizeAny(_, str()):
                return self.dim(argument)
            case s.SizeHole() | s.SizeAny():
                help = ("name the size: `let y: f64[k] = …`, then `Idx<k>`; or write `i64`",)
                raise error("E0314", "`Idx` needs a size that has a name or a value", argument.span, help=help)
            case _:
                raise error("E0314", "`Idx` takes a size, found a type", argument.span)

    def with_row(
        self, params: tuple[ty.Var, ...], arguments: tuple[s.TypeExpr | s.Dim, ...], row: int, name: str, span: Span
    ) -> tuple[Term, ...]:
        """The arguments of a declaration with one row, which takes those that the others leave: `Boxed<f64, 2, 3>`."""
        after = len(params) - row - 1
        axes = arguments[row : len(arguments) - after]
        if len(arguments) < len(params) - 1:
            kinds = ", ".join(parameter_name(p) for p in params)
            raise error("E0314", f"`{name}` takes at least {len(params) - 1} arguments, found {len(arguments)}", span,
                        help=(f"write `{name}<{kinds}>`",))  # fmt: skip
        dims: list[s.Dim] = []
        for a in axes:
            if isinstance(a, s.TypeName) and not a.arguments:
                dims.append(s.SizeName(a.span, a.name))
            elif isinstance(a, s.SizeRow | s.SizeName | s.SizeNumber | s.SizeOperator | s.SizeHole | s.SizeAny):
                dims.append(a)
            else:
                raise error("E0314", f"`..{params[row].name}` is a shape, found a type", a.span)
        before = [self.argument(p, a) for p, a in zip(params[:row], arguments[:row], strict=True)]
        arguments_after = arguments[len(arguments) - after :] if after else ()
        return (*before, self.shape(tuple(dims)), *map(self.argument, params[row + 1 :], arguments_after))

    def argument(self, parameter: ty.Var, a: s.TypeExpr | s.Dim) -> Term:
        if isinstance(parameter, ty.SizeVar):
            if isinstance(a, s.TypeName) and not a.arguments:
                return self.size_name(a.span, a.name)
            if isinstance(a, s.SizeName | s.SizeNumber | s.SizeOperator | s.SizeHole | s.SizeAny):
                return self.dim(a)
            what = f"`{a.span.text}`, which is any number of axes" if isinstance(a, s.SizeRow) else "a type"
            raise error("E0314", f"`{parameter.name}` is a size, found {what}", a.span)
        if isinstance(parameter, ty.RowVar):
            if isinstance(a, s.SizeRow):
                return ty.Shape((), self.row(a.name))
            raise error("E0314", f"`..{parameter.name}` is one of several shapes: write `..s`", a.span)
        if isinstance(a, s.SizeName):
            return self.variable(a, a.name)
        if isinstance(a, s.SizeHole):
            return self.cx.st.type_var()
        if isinstance(a, s.TypeName | s.TypeArray | s.TypeTuple | s.TypeFunction | s.TypeEffects):
            return self.converted(a)
        raise error("E0314", f"`{parameter.name}` is a type, found a size", a.span)

    def variable(self, node: s.Node, name: str) -> ty.Type:
        variable = self.lookup(name)
        if isinstance(variable, ty.TypeVar):
            return variable
        if variable is not None:
            raise error("E0213", f"`{name}` is a size here, not a type", node.span)
        if name in ("c64", "c128"):
            help = ("keep the two parts as a tuple or a struct of floats",)
            raise error("E0207", f"`{name}` is reserved: complex numbers are not supported yet", node.span, help=help)
        if not _LIKE_VARIABLE.match(name):
            raise self.unknown_type(name, node.span, self.cx.type_names())
        v = ty.TypeVar(self.cx.st.level, name, rigid=self.rigid, origin=self.origin(node.span))
        self.introduce(name, v)
        return v

    def lookup(self, name: str) -> ty.Var | None:
        variable = self.names.get(name)
        return variable if variable is not None else self.scope.find_type(name)

    def introduce(self, name: str, v: ty.Var) -> None:
        self.names[name] = v
        if not self.rigid:
            self.cx.st.made(v)

    # ---- shapes ------------------------------------------------------------------------------------------------------
    def array(self, element: s.TypeExpr, dims: tuple[s.Dim, ...]) -> ty.Type:
        e = self.converted(element)
        shape = self.shape(dims)
        r = ty.resolve(e)
        if shape.row is not None and isinstance(r, ty.TypeVar):
            r.atomic = True
            self.cx.st.changed(r)
        whole = ty.resolve(ty.TypeArray(e, shape))
        if dims:
            within_axes(whole, dims[-1].span)
        return whole

    def shape(self, dims: tuple[s.Dim, ...]) -> ty.Shape:
        pre: list[ty.Size] = []
        post: list[ty.Size] = []
        row: ty.RowVar | None = None
        for d in dims:
            if isinstance(d, s.SizeRow):
                if row is not None:
                    raise error("E0416", "a shape has at most one `..`", d.span)
                row = self.row(d.name)
            else:
                (pre if row is None else post).append(self.dim(d))
        return ty.Shape(tuple(pre), row, tuple(post))

    def row(self, name: str) -> ty.RowVar:
        variable = self.lookup(".." + name)
        if isinstance(variable, ty.RowVar):
            return variable
        v = ty.RowVar(self.cx.st.level, name, rigid=self.rigid)
        self.introduce(".." + name, v)
        return v

    def dim(self, d: s.Dim) -> ty.Size:
        origin = self.origin(d.span)
        match d:
            case s.SizeNumber(_, value):
                return number(value, origin)
            case s.SizeName(_, name):
                return self.size_name(d.span, name)
            case s.SizeHole():
                return self.cx.st.size(origin)
            case s.SizeAny(_, name):
                return self.any_size(d, name)
            case s.SizeOperator(_, operator, left, right):
                a, b = self.dim(left), self.dim(right)
                match operator:
                    case "+":
                        return add(a, b, origin)
                    case "-":
                        return subtract(a, b, origin)
                    case "*":
                        try:
                            return multiply(a, b, origin)
                        except TooManyTerms:
                            raise size_too_large(d.span) from None
                    case "//":
                        return ty.Size(ty.floor_div(a, b).poly, origin)
                    case _:
                        quotient = exact_division(a, b)
                        if quotient is None:
                            raise error("E0417", "exact `/` of sizes needs a number on the right", d.span)
                        whole = quotient.poly.constant
                        if whole is not None and whole != int(whole):
                            raise error("E0417", f"a size is a whole number, {whole} is none", d.span)
                        return ty.Size(quotient.poly, origin)
            case s.SizeRow():
                raise AssertionError("a size has no `..` in it, says the grammar")

    def any_size(self, d: s.SizeAny, name: str | None) -> ty.Size:
        if self.unknown is None:
            raise error(
                "E0413",
                "`?` stands for a size of a result that is known only when it runs",
                d.span,
                help=self.instead,
            )
        key = name or f"_{len(self.unknown)}"
        if key not in self.unknown:
            self.unknown[key] = ty.SizeVar(
                self.cx.st.level, rigid=True, opened=True, origin=Note(f"`?` in {self.what}", d.span)
            )
        return of_var(self.unknown[key])

    def size_name(self, span: Span, name: str) -> ty.Size:
        variable = self.lookup(name)
        if isinstance(variable, ty.SizeVar):
            return of_var(variable, variable.origin)
        if variable is not None:
            raise error("E0213", f"`{name}` is a type here, not a size", span)
        local = self.cx.size_of_name(self.scope, name)
        if local is not None:
            return ty.Size(local.poly, local.origin or self.origin(span))
        v = ty.SizeVar(self.cx.st.level, name, rigid=self.rigid, origin=self.origin(span))
        self.introduce(name, v)
        return of_var(v, v.origin)


def misplaced(span: Span, where: str, help: str) -> DlangError:
    """The message for an `Idx` that nothing could prove or use."""
    notes = (Note("it may stand in the type of a parameter, a `let` or `var`, a result or a field, and in tuples and "
                  "arrays there", None),)  # fmt: skip
    return error("E0420", f"`Idx` has no meaning {where}", span, notes=notes, help=(help,))


def known_effects(names: tuple[str, ...], span: Span) -> None:
    """Checks the effects behind a `!`."""
    for name in names:
        if name not in EFFECTS:
            name_span = span.word(name)
            help = (*did_you_mean(name, sorted(EFFECTS)), "effects are `print`, `io` and `random`")
            raise error(
                "E0211",
                f"`{name}` is not an effect",
                name_span,
                help=help,
                fixes=misspelt(name_span, name, sorted(EFFECTS)),
            )


def parameter_name(p: ty.Var) -> str:
    return (".." if isinstance(p, ty.RowVar) else "") + (p.name or "_")


def check_class(name: str | None, span: Span) -> frozenset[str]:
    """The class of `<a: Float>`."""
    if name is None:
        return frozenset()
    known = ["Num", "Float", "Int", "Ord", "Eq", "Vector"]
    if name not in known and name not in ty.CLASSES:
        fixes = misspelt(span.word(name), name, known)
        help = did_you_mean(name, known) or (f"the classes are {', '.join(f'`{k}`' for k in known)}",)
        raise error("E0207", f"unknown class `{name}`", span.word(name), help=help, fixes=fixes)
    return frozenset({name})
