"""Numbers that the device has: which those are, and what they are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from dlang.codegen import loops
from dlang.codegen.cuda.kernels import results_of
from dlang.codegen.cuda.nests import is_number
from dlang.codegen.cuda.spaces import Launching, Spaces, is_worth_it
from dlang.codegen.traverse import bound_by, captures
from dlang.ir.anf import Var
from dlang.ir.types import dtype_of


def needed(there: Mapping[Var, loops.Stmt], vars: Iterable[Var]) -> list[Var]:
    """The numbers of the device that some are computed from, in order, with those themselves."""
    found: set[Var] = set()
    open = [v for v in vars if v in there]
    while open:
        var = open.pop()
        if var not in found:
            found.add(var)
            open += [v for v in captures((there[var],), ()) if isinstance(v, Var) and v in there]
    return [var for var in there if var in found]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Finds the numbers of a function that are computed on the device."""

    launches: Launching
    spaces: Spaces

    def is_for_device(self, loop: loops.Loop) -> bool:
        """Tells whether a loop is a kernel: of many iterations, or on arrays that are on the device anyway."""
        if self.launches.nest(loop) is None:
            return False
        arrays = [v for v in captures((loop,), ()) if isinstance(v, loops.Buffer)]
        return is_worth_it(loop) or (bool(arrays) and all(map(self.spaces.on_device, arrays)))

    def made(self, stmts: Sequence[loops.Stmt], there: Set[Var]) -> set[Var]:
        """Returns the numbers that the device has after some statements, given those that it has before."""
        found = set(there)
        for stmt in stmts:
            match stmt:
                case loops.Load(var, buffer) if self.spaces.on_device(buffer):
                    found.add(var)
                case _ if stmt.IS.scalar:
                    if not found.isdisjoint(captures((stmt,), ())):
                        found.update(v for v in bound_by(stmt) if isinstance(v, Var))
                case loops.Loop() if self.is_for_device(stmt):
                    nest = self.launches.nest(stmt)
                    assert nest is not None
                    found.update(results_of(nest))
                case loops.InOrder():
                    found |= {r for k in self.carried(stmt, found) if isinstance(r := stmt.results[k], Var)}
                case loops.Branch():
                    found |= {r for k in self.chosen(stmt, found) if isinstance(r := stmt.results[k], Var)}
                case _:
                    pass
        return found

    def carried(self, loop: loops.For | loops.While, there: Set[Var]) -> list[int]:
        """Lists the positions, among all that a loop carries, of the numbers that the device computes."""
        if self.launches.stays_on_host(loop):
            return []
        found: list[int] = []
        while True:
            params = {p for k, p in enumerate(loop.params) if k in found and isinstance(p, Var)}
            made = self.made(loop.body.stmts, {*there, *params})
            more = [k for k, (p, r) in enumerate(zip(loop.params, loop.following, strict=True)) if _is_one(p, r, made)]
            if more == found:
                return found
            found = more

    def chosen(self, branch: loops.Branch, there: Set[Var]) -> list[int]:
        """The same of the numbers that a branch gives."""
        if self.launches.stays_on_host(branch):
            return []
        arms: list[tuple[loops.Body, set[Var]]] = [
            (b, self.made(b.stmts, there)) for b in (branch.then, branch.otherwise)
        ]
        slots = enumerate(branch.results)
        return [k for k, slot in slots if any(_is_one(slot, arm.results[k], made) for arm, made in arms)]


def _is_one(slot: loops.Slot, value: loops.Value, made: Set[Var]) -> bool:
    return isinstance(slot, Var) and is_number(dtype_of(slot)) and value in made
