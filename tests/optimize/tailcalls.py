"""Programs with tail calls: what the pass makes of them, and what they give."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Call, Program, While
from dlang.ir.reader import read_program
from dlang.ir.traverse import walk
from dlang.ir.verify import verify
from dlang.optimize.tailcalls import tail_calls_to_loops
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine


def looped(text: str) -> Program:
    """The program through the pass alone."""
    program = tail_calls_to_loops(read_program(text))
    verify(program)
    return program


def count(program: Program, op: type) -> int:
    return sum(isinstance(let.op, op) for f in program.functions.values() for let in walk(f.body))


def loops_and_calls(program: Program) -> tuple[int, int]:
    return count(program, While), count(program, Call)


def agrees(text: str, *args: Any) -> list[Any]:
    """What `main` gives: interpreted as written and optimised, and compiled."""
    program = read_program(text)
    verify(program)
    wanted = Interpreter(program).run("main", list(args))
    optimised = optimise(program, ["main"], verify=True)
    engine = Engine(Host(io.StringIO()))
    for found in (
        Interpreter(optimised).run("main", list(args)),
        engine.compile(optimised, ["main"]).run("main", args),
    ):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(f, w)
    return wanted


def fast(text: str, *args: Any) -> list[Any]:
    """What `main` gives, compiled."""
    program = optimise(read_program(text), ["main"], verify=True)
    return Engine(Host(io.StringIO())).compile(program, ["main"]).run("main", args)
