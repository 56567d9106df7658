"""Functions that tail-call one another become one that tail-calls itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlang.ir.anf import Array, Atom, Block, Call, Function, If, Let, Lit, Prim, Program, Scalar, Token, Var, fresh
from dlang.ir.substitution import Renaming, refresh, refresh_vars
from dlang.ir.traverse import type_vars
from dlang.optimize.tails import blank, tail_calls, tail_let


def merge_mutual(program: Program) -> Program:
    """The program in which the functions of a cycle of tail calls are calls of one function, which is new."""
    functions = dict(program.functions)
    for names in _cycles(program):
        members = [program.functions[name] for name in names]
        if not _alike(members):
            continue
        merger = _Merger.of(members)
        functions[merger.name] = merger.merged()
        for k, member in enumerate(members):
            functions[member.name] = merger.wrapper(k)
    return replace(program, functions=functions)


def _cycles(program: Program) -> list[list[str]]:
    """The sets of two functions or more that can reach one another by tail calls."""
    calls = {name: {c.function for c in tail_calls(f.body)} for name, f in program.functions.items()}
    calls = {name: callees for name, callees in calls.items() if callees - {name}}
    reach: dict[str, set[str]] = {}
    for name in calls:
        seen: set[str] = set()
        work = [name]
        while work:
            new = calls.get(work.pop(), set()) - seen
            seen |= new
            work += new
        reach[name] = seen
    out: list[list[str]] = []
    done: set[str] = set()
    for name in calls:
        if name not in done:
            members = [other for other in calls if other in reach[name] and name in reach[other]]
            done.update(members)
            if len(members) > 1:
                out.append(members)
    return out


def _alike(members: Sequence[Function]) -> bool:
    """Tells whether all have results of the same types, in which no parameter is mentioned, and all or none a token."""
    first = members[0]
    for f in members:
        env = Renaming(dict(zip(f.results, first.results, strict=False)))
        if [env.type(r.type) for r in f.results] != [r.type for r in first.results]:
            return False
        if any(v not in f.results for r in f.results for v in type_vars(r.type)):
            return False
        if _tokens(f) != _tokens(first):
            return False
    return True


def _tokens(f: Function) -> int:
    return sum(isinstance(p.type, Token) for p in f.params)


@dataclass(slots=True)
class _Merger:
    """slots: the parameters of the merged function but the first. maps: from the parameters of each member to them."""

    members: list[Function]
    name: str
    slots: list[Var]
    maps: list[dict[Var, Var]]

    @staticmethod
    def of(members: list[Function]) -> _Merger:
        merger = _Merger(members, " ".join(f.name for f in members), [], [])
        for f in members:
            env = Renaming({})
            mapping: dict[Var, Var] = {}
            for param in f.params:
                type = env.type(param.type)
                free = [s for s in merger.slots if s.type == type and s not in mapping.values()]
                slot = free[0] if free else fresh(param.name, type)
                if not free:
                    merger.slots.append(slot)
                env.env[param] = mapping[param] = slot
            merger.maps.append(mapping)
        return merger

    def merged(self) -> Function:
        """The function that is all members: which one is its first parameter."""
        which = fresh("which", Scalar("i64"))
        bodies = [
            self._redirected(refresh(f.body, mapping)) for f, mapping in zip(self.members, self.maps, strict=True)
        ]
        block = bodies[-1]
        for k in range(len(bodies) - 2, -1, -1):
            chosen = fresh("chosen", Scalar("bool"))
            vars = refresh_vars(self.members[0].results, {})
            test = Let((chosen,), Prim("eq", (which, Lit(k, "i64"))))
            block = Block((test, Let(vars, If(chosen, bodies[k], block))), vars)
        label = " and ".join(f.label or f.name for f in self.members)
        results = refresh_vars(self.members[0].results, {})
        return Function(self.name, (which, *self.slots), results, block, label, self.members[0].span)

    def wrapper(self, k: int) -> Function:
        """A member as a call of the merged function."""
        f = self.members[k]
        lets: list[Let] = []
        args = self._arguments(k, f.params, {}, lets)
        vars = refresh_vars(f.results, {})
        lets.append(Let(vars, Call(self.name, args), f.span))
        return replace(f, body=Block(tuple(lets), vars))

    def _redirected(self, block: Block) -> Block:
        """A block of the merged function in which tail calls of members are tail calls of itself."""
        last = tail_let(block)
        match last.op if last is not None else None:
            case Call(function=callee, args=args):
                position = next((k for k, f in enumerate(self.members) if f.name == callee), None)
                if position is None or last is None:
                    return block
                lets = list(block.lets[:-1])
                values: dict[Var, Atom] = {slot: slot for slot in self.slots}
                call = Call(self.name, self._arguments(position, args, values, lets))
                return Block((*lets, Let(last.vars, call, last.span)), block.results)
            case If(condition, then, otherwise) if last is not None:
                op = If(condition, self._redirected(then), self._redirected(otherwise))
                return Block((*block.lets[:-1], Let(last.vars, op, last.span)), block.results)
        return block

    def _arguments(self, k: int, args: Sequence[Atom], values: dict[Var, Atom], lets: list[Let]) -> tuple[Atom, ...]:
        """The arguments of the merged function for those of a member. values: values for slots that it does not use."""
        given = {self.maps[k][p]: a for p, a in zip(self.members[k].params, args, strict=True)}
        env = Renaming({})
        out: list[Atom] = [Lit(k, "i64")]
        for slot in self.slots:
            value = given.get(slot)
            if value is None:
                type = env.type(slot.type)
                value = values.get(slot)
                if value is None or (isinstance(type, Array) and type != value.type):
                    value = blank(Var(slot.name, type), lets)
            env.env[slot] = value
            out.append(value)
        return tuple(out)
