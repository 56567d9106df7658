"""First-order inlining, callees before callers.

A call is replaced by the body of the function where that is small, called once, or works on arrays and all copies
together are not large: array code gains from standing in one block. Recursive and large scalar functions stay
functions, save where the arguments of a call decide which few statements run: of a `match` of many arms, for a variant
that is known. What a derivative names stays, and is inlined into; so does what has rules of its own, until derivatives
are expanded. Where `checkpoint` asks for code to run again it stays a function, or what is computed again would be
found to be known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from dlang.diagnostics import CallSite, Span
from dlang.graphs import components, in_cycles
from dlang.ir import anf
from dlang.ir.marks import has_marks
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import Replacement
from dlang.ir.traverse import named_function, op_blocks, walk, with_body
from dlang.ir.types import BOOL, I64
from dlang.ops import figures
from dlang.optimize.algebra import fold

_ARRAY_CODE = (
    anf.Comp,
    anf.Contract,
    anf.Update,
    anf.View,
    anf.Reshape,
    anf.Concat,
    anf.Scan,
    anf.LinalgOp,
    anf.Compact,
)


def inline(program: anf.Program, entries: Sequence[str]) -> anf.Program:
    """The program with calls inlined and without the functions that no entry reaches."""
    functions = program.functions
    derivatives = any(isinstance(let.op, anf.Derivative) for f in functions.values() for let in walk(f.body))
    called = {name: _called(f, derivatives) for name, f in functions.items()}
    order, recursive = _callees_first(called, entries)
    sites: dict[str, int] = {}
    for name in order:
        for callee in called[name]:
            sites[callee] = sites.get(callee, 0) + 1
    chosen: dict[str, _Code] = {}
    large: dict[str, _Code] = {}
    for name in order:
        f = functions[name]
        ruled = f.rules is not None and (derivatives or f.rules.checkpoint)
        if name in recursive or ruled:
            continue
        code = _code(f, chosen)
        (chosen if code.is_worthwhile(sites.get(name, 0)) else large)[name] = code
    done: dict[str, anf.Function] = {}
    work = list(entries)
    while work:
        name = work.pop()
        if name not in done:
            f = done[name] = functions[name]
            if any(callee in chosen for callee in called[name]) or any(
                _decided(large, let.op, let.op.args) for let in walk(f.body) if isinstance(let.op, anf.Call)
            ):
                f = done[name] = with_body(f, _Inliner(chosen, large, {}).block(f.body))
            work += _called(f, derivatives)
    return replace(program, functions={name: done[name] for name in functions if name in done})


@dataclass(frozen=True, slots=True)
class _Code:
    """A function in which calls are inlined. lets: how many it has then; arrays: whether some are array code.

    followed: whether somebody is to follow the program.
    """

    function: anf.Function
    lets: int
    arrays: bool
    followed: bool

    def is_worthwhile(self, places: int) -> bool:
        """Tells whether the function is inlined at the places that call it: so code grows no faster than the program,
        though as many statements call a function as it has."""
        if self.arrays:
            few = self.lets <= figures.INLINED_ARRAYS and places * self.lets <= figures.COPIED_ARRAYS
        else:
            few = self.lets <= figures.INLINED
        return places == 1 or few


def _code(f: anf.Function, chosen: Mapping[str, _Code]) -> _Code:
    """Counts the code that a function has when the calls of the chosen ones are inlined: some, if it calls any."""
    count, arrays = 0, False
    for let in walk(f.body):
        op = let.op
        callee = chosen.get(op.function) if isinstance(op, anf.Call) else None
        count += 1 if callee is None else callee.lets
        arrays = arrays or (isinstance(op, _ARRAY_CODE) if callee is None else callee.arrays)
    return _Code(f, max(count, min(len(f.body.lets), 1)), arrays, has_marks(f.body))


def _decided(large: Mapping[str, _Code], op: anf.Call, args: Sequence[anf.Atom]) -> bool:
    """Tells whether arguments that are known leave few statements of a large function."""
    code = large.get(op.function)
    if code is None or code.followed or not any(map(_is_known, args)):
        return False
    known = {p: a for p, a in zip(code.function.params, args, strict=True) if isinstance(a, anf.Lit)}
    return _left(code.function.body, known, figures.INLINED) >= 0


def _left(block: anf.Block, known: dict[anf.Var, anf.Lit], room: int) -> int:
    """How many lets there is room for beside those of a block where some variables are known; below 0 if for less."""
    for let in block.lets:
        if (arm := _arm(let.op, known)) is not None:
            room = _left(arm, known, room)
            known.update({v: r for v, a in zip(let.vars, arm.results, strict=True) if (r := _literal(a, known))})
        elif (value := _value(let.op, known)) is not None:
            known[let.vars[0]] = value
        else:
            room -= 1
            for inner in op_blocks(let.op):
                room -= sum(1 for _ in islice(walk(inner), max(room, 0) + 1))
        if room < 0:
            break
    return room


def _arm(op: anf.Op, known: Mapping[anf.Var, Replacement]) -> anf.Block | None:
    """The arm of a branch of which the condition is known."""
    if isinstance(op, anf.If) and (condition := _literal(op.condition, known)) is not None:
        return op.then if condition.value else op.otherwise
    return None


def _value(op: anf.Op, known: Mapping[anf.Var, Replacement]) -> anf.Lit | None:
    """The number or truth value that an operation gives where its operands are known."""
    if not isinstance(op, anf.Prim):
        return None
    operands = [lit for a in op.args if (lit := _literal(a, known)) is not None and _is_known(lit)]
    value = fold(op.name, tuple(operands)) if len(operands) == len(op.args) else None
    return value if value is not None and _is_known(value) else None


def _literal(atom: anf.Atom, known: Mapping[anf.Var, Replacement]) -> anf.Lit | None:
    found = known.get(atom, atom) if isinstance(atom, anf.Var) else atom
    return found if isinstance(found, anf.Lit) else None


def _is_known(atom: anf.Atom) -> bool:
    """Tells whether an atom is a number, or a truth value, by which branches are decided."""
    return isinstance(atom, anf.Lit) and atom.type in (I64, BOOL)


def _called(f: anf.Function, derivatives: bool) -> list[str]:
    """Lists the functions that one calls or differentiates, once for each place, with its rules if `derivatives`."""
    called = [name for let in walk(f.body) if (name := named_function(let.op)) is not None]
    if derivatives and f.rules is not None:
        called += [name for name in (f.rules.pullback, f.rules.pushforward) if name is not None]
    return called


def _callees_first(called: dict[str, list[str]], entries: Sequence[str]) -> tuple[list[str], set[str]]:
    """The functions that the entries reach, each after what it calls, and those that can reach themselves."""
    cycles = components(called, entries)
    return [name for component in cycles for name in reversed(component)], in_cycles(called, cycles)


class _Inliner(Rewriter):
    """Replaces calls in one function, or in a copy of one that takes the place of a call, by what they call.

    large: the functions of which only those calls are replaced that leave few statements. decides: whether branches of
    the copy are decided by what is known.
    """

    def __init__(
        self,
        chosen: Mapping[str, _Code],
        large: Mapping[str, _Code],
        mapping: Mapping[anf.Var, Replacement],
        site: CallSite | None = None,
        followed: bool = False,
        decides: bool = False,
    ) -> None:
        super().__init__(mapping, site is not None, site, followed)
        self.chosen, self.large, self.decides = chosen, large, decides

    def rule(self, let: anf.Let) -> None:
        op = let.op
        if isinstance(op, anf.Call) and op.function in self.chosen:
            self.env.update(zip(let.vars, self.called(self.chosen[op.function], op, let.span), strict=True))
        elif isinstance(op, anf.Call) and _decided(self.large, op, [self.atom(a) for a in op.args]):
            self.env.update(zip(let.vars, self.called(self.large[op.function], op, let.span, True), strict=True))
        elif self.decides and (arm := _arm(op, self.env)) is not None:
            self.splice(arm, let.vars)
        elif self.decides and (value := _value(op, self.env)) is not None:
            self.env[let.vars[0]] = value
        else:
            super().rule(let)

    def called(self, code: _Code, op: anf.Call, span: Span | None, decides: bool = False) -> list[anf.Atom]:
        """Writes a fresh copy of what a call runs, and returns its results."""
        f = code.function
        if self.site is not None and span is not None:
            span = span.reached(self.site)
        mapping = dict(zip(f.params, [self.atom(a) for a in op.args], strict=True))
        site = CallSite(f.label or f.name, span)
        inside = _Inliner(self.chosen, self.large, mapping, site, code.followed, decides)
        inside.lets = self.lets  # a call in a call in a call writes each let once
        for let in f.body.lets:
            inside.rule(let)
        return [inside.atom(r) for r in f.body.results]
