"""The loop-nest IR as text."""

from __future__ import annotations

from collections.abc import Iterable

from dlang.codegen import loops
from dlang.ir.anf import Lit
from dlang.ir.forms import Hole, written


def _list(xs: Iterable[object]) -> str:
    return ", ".join(map(_text, xs))


def _text(x: object) -> str:
    match x:
        case Lit(value, dtype):
            return f'"{value}"' if dtype == "str" else f"{value}{'' if dtype in ('i64', 'bool') else dtype}"
        case loops.ArrayValue() | loops.Matrix() | loops.Scattered() | loops.Panels() | loops.Partial():
            return written(x.FORM, x, _field)
        case tuple():
            return _list(x)
        case _:
            return str(x)


def _field(hole: Hole, value: object) -> str:
    """The text of what a statement holds."""
    text = _text(value)
    if hole.how and isinstance(value, tuple) and len(value) > 1:
        return f"{hole.how}({text})"
    return f"{hole.open}{text}{hole.close}"


def _lines(stmts: Iterable[loops.Stmt], out: list[str], pad: str) -> None:
    for stmt in stmts:
        out.append(f"{pad}{head_of(stmt)}")
        _inside(stmt, out, pad)


def head_of(stmt: loops.Stmt) -> str:
    """The text of a statement without those inside it."""
    match stmt:
        case loops.OnDevice(inner):
            return f"on device: {head_of(inner)}"
        case loops.OnHost(_, arrays, changed, held, made, still, parts):
            names = [f"{a}{' changed' if a in changed else ' held' if a in still else ''}" for a in arrays]
            names = [f"{name}, {dict(parts)[a]}" if a in dict(parts) else name for name, a in zip(names, arrays)]
            names += [*[f"{a} as {copy}" for a, copy in held], *[f"{m} made" for m in made]]
            return f"on host ({', '.join(names)})"
        case loops.Loop(scratch=scratch):
            head = written(stmt.FORM, stmt, _field)
            return head + "".join([f", scratch {r.buffer} {r.buffer.dtype}[{_list(r.shape)}]" for r in scratch])
        case _:
            return written(stmt.FORM, stmt, _field)


def _inside(stmt: loops.Stmt, out: list[str], pad: str) -> None:
    """The lines of what is inside a statement, and of what it gives."""
    inner = pad + "  "
    match stmt:
        case loops.Loop() | loops.Parallel():
            _lines(stmt.stmts, out, inner)
            out += [f"{inner}{written(r.FORM, r, _field)}" for r in stmt.reductions]
            return
        case loops.OnHost():
            _lines(stmt.stmts, out, inner)
            return
        case loops.For():
            _body(stmt.body, out, inner)
        case loops.While():
            _body(stmt.condition, out, inner)
            out.append(f"{pad}do")
            _body(stmt.body, out, inner)
        case loops.Branch():
            _body(stmt.then, out, inner)
            out.append(f"{pad}else")
            _body(stmt.otherwise, out, inner)
        case _:
            return
    out.append(f"{pad}=> {_list(stmt.results)}")


def _body(body: loops.Body, out: list[str], pad: str) -> None:
    _lines(body.stmts, out, pad)
    out.append(f"{pad}-> {_list(body.results)}")


def print_function(function: loops.Function) -> str:
    """A function of the loop-nest IR as text."""
    out = [f"fn {function.name}({_list(function.params)}) -> ({_list(function.outs)})"]
    _body(function.body, out, "  ")
    return "\n".join(out) + "\n"


def print_program(program: loops.Program) -> str:
    """A program of the loop-nest IR as text."""
    return "\n".join(print_function(f) for f in program.functions.values())
