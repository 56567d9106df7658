"""Recursive functions that hand on a part of an array are given the whole array, and where the part begins.

    fn f(n, x: [n]) { … f(n - 1, x[1..]) … }
    fn f(n, x: [n]) { f'(n, n, x, 0) }    fn f'(n, N, X: [N], o) { x = X[o..o + n]  … f'(n - 1, N, X, o + 1) … }

Slices are views, so a call costs no more by this. A derivative does: the cotangent of a slice is an array of its own
that is added into that of the whole, at each level of the recursion. That of an array which is handed on unchanged is
one array for all levels, and each adds to the elements that it reads. So this comes before derivatives, and is done to
what they are taken of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from dlang.graphs import components, reached
from dlang.ir import anf
from dlang.ir.axes import section
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import application, called_by, map_blocks, walk, with_lets, with_op
from dlang.ir.types import I64, array_type
from dlang.optimize.windows import Windows


def parts(program: anf.Program) -> anf.Program:
    """The program in which the recursive functions that are differentiated hand on whole arrays."""
    wanted = set(_differentiated(program))
    calls = {name: sorted(set(called_by(f))) for name, f in program.functions.items() if name in wanted}
    functions = dict(program.functions)
    for names in components(calls):
        cycle = _Cycle.of([functions[name] for name in names])
        if cycle.handed:
            functions.update(cycle.split())
    return program if functions.keys() == program.functions.keys() else replace(program, functions=functions)


def whole_arrays(f: anf.Function) -> dict[str, anf.Function]:
    """A function that calls itself, and the one that is given whole arrays; nothing if it hands on no part of one."""
    cycle = _Cycle.of([f])
    return cycle.split() if cycle.handed else {}


def _differentiated(program: anf.Program) -> Sequence[str]:
    """The functions that derivatives are taken of, and what these call."""
    ops = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, anf.Derivative)]
    taken = dict.fromkeys(applied[0] for op in ops if (applied := application(op)) is not None)
    return list(reached(list(taken), lambda name: called_by(program.functions[name])))


Position = tuple[str, int]
"""A parameter of a function: its name, and the position."""


@dataclass(frozen=True, slots=True)
class _Cycle:
    """Functions that call one another. handed: the array parameters that are parts of a parameter of theirs.

    alike: the array parameters that are, in each call among these functions, a parameter `alike` or a part of one.
    """

    members: dict[str, anf.Function]
    windows: dict[str, Windows]
    alike: frozenset[Position] = frozenset()
    handed: frozenset[Position] = frozenset()

    @staticmethod
    def of(members: Sequence[anf.Function]) -> _Cycle:
        cycle = _Cycle({f.name: f for f in members}, {f.name: Windows.of(f.body) for f in members})
        if any(f.rules is not None or f.continues for f in members):
            return cycle
        calls = [
            (f.name, let.op)
            for f in members
            for let in walk(f.body)
            if isinstance(let.op, anf.Call) and let.op.function in cycle.members
        ]
        arrays = [(f.name, k) for f in members for k, p in enumerate(f.params) if isinstance(p.type, anf.Array)]
        cycle = replace(cycle, alike=frozenset(arrays))
        while True:
            others = {
                (op.function, k)
                for caller, op in calls
                for k, arg in enumerate(op.args)
                if (op.function, k) in cycle.alike and cycle.source(caller, arg) is None
            }
            if not others:
                break
            cycle = replace(cycle, alike=cycle.alike - others)
        handed: set[Position] = set()
        while True:
            more = {
                (op.function, k)
                for caller, op in calls
                for k, arg in enumerate(op.args)
                if (op.function, k) in cycle.alike - handed and cycle.is_part(caller, arg, handed)
            }
            if not more:
                return replace(cycle, handed=frozenset(handed))
            handed |= more

    def source(self, caller: str, arg: anf.Atom) -> tuple[int, tuple[anf.Size, ...]] | None:
        """The parameter of a caller that an argument is a part of, or is, and where it begins there."""
        for k, param in enumerate(self.members[caller].params):
            if (caller, k) in self.alike and (start := self.windows[caller].start(arg, param)) is not None:
                return k, start
        return None

    def is_part(self, caller: str, arg: anf.Atom, handed: Set[Position]) -> bool:
        """Tells whether an argument is less than a parameter of its caller, or one that is a part itself."""
        source = self.source(caller, arg)
        assert source is not None and isinstance(arg, anf.Var)
        param = self.members[caller].params[source[0]]
        return (caller, source[0]) in handed or array_type(arg).shape != array_type(param).shape

    def split(self) -> dict[str, anf.Function]:
        """The functions, and those which are given whole arrays in the place of parameters that are parts."""
        parts = {(name, k): _Part.of(self.members[name].params[k]) for name, k in sorted(self.handed)}
        out: dict[str, anf.Function] = {}
        for name, f in self.members.items():
            body = self._body(f.body, name, parts)
            parts_of_function = {k: part for (owner, k), part in parts.items() if owner == name}
            if not parts_of_function:
                out[name] = replace(f, body=body)
                continue
            params = [
                v
                for k, p in enumerate(f.params)
                for v in (parts_of_function[k].params if k in parts_of_function else (p,))
            ]
            views = tuple([part.view() for part in parts_of_function.values()])
            inner = _inner(name)
            out[inner] = replace(
                f, name=inner, params=tuple(params), body=anf.Block((*views, *body.lets), body.results)
            )
            out[name] = _entry(f, inner, parts_of_function)
        return out

    def _body(self, block: anf.Block, caller: str, parts: Mapping[Position, _Part]) -> anf.Block:
        lets: list[anf.Let] = []
        for let in block.lets:
            op = let.op
            if isinstance(op, anf.Call) and any((op.function, k) in parts for k in range(len(op.args))):
                b = Builder({}, let.span)
                with b.scope() as before:
                    args: list[anf.Atom] = []
                    for k, arg in enumerate(op.args):
                        args += self._args(arg, caller, parts, b) if (op.function, k) in parts else [arg]
                lets += before
                let = anf.Let(let.vars, anf.Call(_inner(op.function), tuple(args)), let.span)
            else:
                let = with_op(let, let.vars, map_blocks(op, lambda inner: self._body(inner, caller, parts)))
            lets.append(let)
        return with_lets(block, lets, block.results)

    def _args(self, arg: anf.Atom, caller: str, parts: Mapping[Position, _Part], b: Builder) -> list[anf.Atom]:
        """The sizes of the whole array, itself, and where the part begins that an argument is."""
        source = self.source(caller, arg)
        assert source is not None
        k, skipped = source
        part = parts.get((caller, k))
        if part is None:
            param = self.members[caller].params[k]
            return [*(b.size(s) for s in array_type(param).shape), param, *(b.size(s) for s in skipped)]
        begin = [b.size(anf.poly(first) + more) for first, more in zip(part.begin, skipped, strict=True)]
        return [*part.sizes, part.whole, *begin]


def _inner(name: str) -> str:
    return f"{name}.parts"


def _entry(f: anf.Function, inner: str, parts: Mapping[int, _Part]) -> anf.Function:
    """The function that calls the other one with whole arrays."""
    renaming = Renaming({}, renew=True)
    params = tuple([renaming.bind(p) for p in f.params])
    formals = tuple([renaming.bind(r) for r in f.results])
    b = Builder({}, f.span)
    with b.scope() as lets:
        args: list[anf.Atom] = []
        for k, p in enumerate(params):
            if k in parts:
                sizes = [b.size(s) for s in array_type(p).shape]
                args += [*sizes, p, *(anf.Lit(0, "i64") for _ in sizes)]
            else:
                args.append(p)
        ends = Renaming(renaming.env, renew=True)
        results = tuple([ends.bind(r) for r in f.results])
        b.emit_as(results, anf.Call(inner, tuple(args)))
    body = anf.Block(tuple(lets), results)
    return replace(f, params=params, results=formals, body=body, sizes=renaming.size_params(f))


@dataclass(frozen=True, slots=True)
class _Part:
    """A parameter that is a part of an array: the sizes of that array, itself, and where the part begins."""

    param: anf.Var
    sizes: tuple[anf.Var, ...]
    whole: anf.Var
    begin: tuple[anf.Var, ...]

    @staticmethod
    def of(param: anf.Var) -> _Part:
        type = array_type(param)
        sizes = tuple([anf.fresh("n", I64) for _ in type.shape])
        whole = anf.fresh(param.name, anf.Array(type.dtype, tuple(map(anf.poly, sizes))))
        return _Part(param, sizes, whole, tuple([anf.fresh("begin", I64) for _ in sizes]))

    @property
    def params(self) -> tuple[anf.Var, ...]:
        return (*self.sizes, self.whole, *self.begin)

    def view(self) -> anf.Let:
        """Binds the parameter to the part."""
        starts = tuple(map(anf.poly, self.begin))
        return anf.Let((self.param,), section(self.whole, starts, array_type(self.param).shape))
