"""Scratch memory for rows that the iterations of a loop make one after another: allocated once, before the first.

    loop i in 0..n                  loop i in 0..n, in each iteration &e[m]
      &e = allocate f64[m]     →      …
      …
      free &e

Iterations then share memory, though none reads what another one has stored in it; `Loop.scratch` says which. This comes
after loops have been cut into pieces, so each piece has scratch memory of its own. Only rows: where arrays with several
axes take turns in an iteration, they had better share memory with each other.

Iterations are independent otherwise, so a load may leave a loop in which its address does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.codegen.loops import Allocate, Assert, Free, Function, Loop, Program, Stmt
from dlang.codegen.traverse import kept, map_inside, walk, with_stmts
from dlang.ir.anf import Var


def with_scratch(program: Program) -> Program:
    """The program whose loops allocate memory for rows once, where the parameters of the function say how much."""
    return replace(program, functions={name: _function(f) for name, f in program.functions.items()})


def _function(f: Function) -> Function:
    known = {p for p in f.params if isinstance(p, Var)}
    body = with_stmts(f.body, _statements(f.body.stmts, known))
    return f if body is f.body else replace(f, body=body)


def _statements(stmts: Sequence[Stmt], known: set[Var]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for stmt in stmts:
        inner = map_inside(stmt, lambda inside: _statements(inside, known))
        out.append(_loop(inner, known) if isinstance(inner, Loop) else inner)
    return kept(stmts, out)


def _loop(loop: Loop, known: set[Var]) -> Loop:
    freed = {stmt.buffer for stmt in loop.stmts if isinstance(stmt, Free)}
    scratch: list[Allocate] = []
    for stmt in loop.stmts:
        if any(isinstance(inner, Assert) for inner in walk([stmt])):
            break  # which may be about the sizes of what comes after it
        if isinstance(stmt, Allocate) and stmt.buffer in freed and len(stmt.shape) == 1:
            if all(atom in known for atom in stmt.shape[0].atoms()):
                scratch.append(stmt)
    if not scratch:
        return loop
    buffers = {s.buffer for s in scratch}
    stmts = [s for s in loop.stmts if not (isinstance(s, Allocate | Free) and s.buffer in buffers)]
    return replace(loop, stmts=tuple(stmts), scratch=tuple(scratch))
