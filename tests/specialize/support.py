"""Small programs, specialised and run: what tests of specialisation share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dlang.diagnostics import Source
from dlang.driver import check
from dlang.interpret.interpreter import Interpreter
from dlang.ir import anf
from dlang.ir.verify import verify
from dlang.pipeline import optimise
from dlang.specialize.specialize import Entry, Specializer
from dlang.specialize.types import Bindings
from dlang.typecheck import types as ty


@dataclass
class Lowered:
    specializer: Specializer
    entry: Entry

    @property
    def program(self) -> anf.Program:
        return self.specializer.program

    def functions_of(self, name: str) -> list[anf.Function]:
        """The instances of a function."""
        return [f for f in self.program.functions.values() if f.name.split(".")[0] == name and "entry" not in f.name]

    @cached_property
    def optimised(self) -> anf.Program:
        """The program after all passes, which run once for all runs of a test."""
        return optimise(self.program, [self.entry.name], verify=True)

    def run(self, *args: Any, optimised: bool = False) -> list[Any]:
        """Runs the entry: one number for each size, then the leaves; gives the leaves of the result."""
        program = self.optimised if optimised else self.program
        return Interpreter(program).run(self.entry.name, list(args))[len(self.entry.extra) :]


def lowered(text: str, name: str = "f", bindings: Bindings | None = None) -> Lowered:
    """The entry of a function at sizes that may be anything; the program is verified."""
    checked = check(Source("test.dl", text))
    assert not checked.diagnostics, [d.message for d in checked.diagnostics]
    decl = checked.module.functions[name]
    if bindings is None:
        bindings = {v: anf.poly(0) for v in decl.variables if isinstance(v, ty.SizeVar) and v not in decl.opened}
    specializer = Specializer()
    entry = specializer.entry(decl, bindings)
    verify(specializer.program)
    return Lowered(specializer, entry)


def ops(program: anf.Program) -> list[anf.Op]:
    """Every operation of a program, nested ones included."""
    from dlang.ir.traverse import walk

    return [let.op for f in program.functions.values() for let in walk(f.body)]
