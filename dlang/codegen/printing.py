"""The loop-nest IR as text."""

from __future__ import annotations

from collections.abc import Iterator

from dlang.codegen import loops
from dlang.ir.anf import Lit, Size
from dlang.ir.types import dtype_of


def _list(xs: tuple[object, ...]) -> str:
    return ", ".join(map(_text, xs))


def _text(x: object) -> str:
    match x:
        case Lit(value, dtype):
            return f'"{value}"' if dtype == "str" else f"{value}{'' if dtype in ('i64', 'bool') else dtype}"
        case loops.ArrayValue(buffer, shape):
            return f"{buffer}[{_list(shape)}]"
        case loops.Matrix(buffer, offset, stride, transposed):
            return f"{buffer}[{offset}, stride {stride}]{'ᵀ' if transposed else ''}"
        case loops.Scattered(buffer, offset, rows, columns):
            return f"{buffer}[{offset} + {rows} + {columns}]"
        case loops.Panels(buffer, offset, width):
            return f"{buffer}[{offset}, panels of {width}]"
        case _:
            return str(x)


def _bound(word: str, sizes: tuple[Size, ...]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{word}({_list(sizes)})"


def _lines(stmts: tuple[loops.Stmt, ...], out: list[str], pad: str) -> None:
    inner = pad + "  "
    for stmt in stmts:
        match stmt:
            case loops.Compute(var, name, args):
                out.append(f"{pad}{var} = {name}({_list(args)})")
            case loops.Convert(var, arg):
                out.append(f"{pad}{var} = {dtype_of(var)}({_text(arg)})")
            case loops.Evaluate(var, size):
                out.append(f"{pad}{var} = {size}")
            case loops.Load(var, buffer, offset):
                out.append(f"{pad}{var} = {buffer}[{offset}]")
            case loops.Store(buffer, offset, value, monoid):
                out.append(f"{pad}{buffer}[{offset}] {'' if monoid == 'set' else monoid}= {_text(value)}")
            case loops.Move(target, source, size):
                out.append(f"{pad}move {target} <- {source}, {size}")
            case loops.Slice(result, source, offset):
                out.append(f"{pad}{result} = address {source}[{offset}]")
            case loops.Allocate(buffer, shape, extra):
                out.append(f"{pad}{buffer} = allocate {buffer.dtype}[{_list(shape)}]{f' + {extra}' if extra else ''}")
            case loops.Free(buffer):
                out.append(f"{pad}free {buffer}")
            case loops.Assert(condition, code, _, values):
                out.append(f"{pad}guard {_text(condition)} else {code}({_list(values)})")
            case loops.Runtime(name, _, args, outs, results):
                out.append(f"{pad}{_list(results)} = runtime {name}({_list(args)}) -> ({_list(outs)})")
            case loops.TextOp(var, name, texts):
                out.append(f"{pad}{var} = {name} of texts ({_list(texts)})")
            case loops.Invoke(function, arguments, targets, bound):
                out.append(f"{pad}{_list(bound)} = call {function}({_list(arguments)}) -> ({_list(targets)})")
            case loops.CallC(target, arguments, result):
                out.append(f"{pad}{f'{result} = ' if result is not None else ''}{target}({_list(arguments)})")
            case loops.Product(a, b, c, rows, columns, k, adds=adds, followed=followed, batch=batch):
                sign, more = "+=" if adds else "=", f", the next one behind it if {followed}" if followed else ""
                if batch is not None:
                    more = f", {batch.count} times, by {batch.a}, {batch.b} and {batch.c}"
                out.append(f"{pad}{_text(c)} {sign} {_text(a)} · {_text(b)}  # {rows} × {k} × {columns}{more}")
            case loops.Pack(target, source, rows, columns):
                out.append(f"{pad}{_text(target)} = pack {_text(source)}  # {rows} × {columns}")
            case loops.Launch(kernel, count, arguments, _, block, reach):
                each = "" if block is None else f", blocks of {_text(block)}"
                each += f", indices up to {', '.join(map(_text, reach))}" if reach else ""
                out.append(f"{pad}launch kernel {kernel}, {_text(count)} iterations{each} ({_list(arguments)})")
            case loops.OnDevice(inner_stmt):
                _lines((inner_stmt,), out, pad + "on device: ")
            case loops.OnHost(body_stmts, arrays, changed, held, made, still, parts):
                names = [f"{a}{' changed' if a in changed else ' held' if a in still else ''}" for a in arrays]
                names = [f"{name}, {dict(parts)[a]}" if a in dict(parts) else name for name, a in zip(names, arrays)]
                names += [*[f"{a} as {copy}" for a, copy in held], *[f"{m} made" for m in made]]
                out.append(f"{pad}on host ({', '.join(names)})")
                _lines(body_stmts, out, inner)
            case loops.Hold(buffer, begins):
                out.append(f"{pad}hold {buffer}{'' if begins else ' no longer'}")
            case loops.Fetch(var, buffer, offset):
                out.append(f"{pad}{var} = fetch {buffer}[{offset}]")
            case loops.Transfer(target, source, size, up):
                out.append(f"{pad}{'upload' if up else 'download'} {target} <- {source}, {size}")
            case loops.Node(var, tag, references, scalars):
                out.append(f"{pad}{var} = node {tag} ({_list(references)}) ({_list(scalars)})")
            case loops.LoadTag(var, node):
                out.append(f"{pad}{var} = tag {_text(node)}")
            case loops.LoadField(slot, node, word):
                out.append(f"{pad}{slot} = word {word} of {_text(node)}")
            case loops.Room(buffer, shape):
                out.append(f"{pad}{buffer} = room {buffer.dtype}[{_list(shape)}]")
            case loops.Mark(var):
                out.append(f"{pad}{var} = mark")
            case loops.Release(var):
                out.append(f"{pad}release {var}")
            case loops.Collect(mark, trigger, handles, arrays, results, following):
                given, moved = _list((*handles, *arrays)), _list((*results, following))
                out.append(f"{pad}{moved} = collect {mark} at {trigger} ({given})")
            case loops.At(span):
                out.append(f"{pad}# {span!r}")
            case loops.Enter(nest) | loops.Leave(nest):
                out.append(f"{pad}{type(stmt).__name__.lower()} nest {nest}")
            case loops.Count(nest, bytes, operations):
                out.append(f"{pad}count of nest {_text(nest)}: {bytes} bytes, {operations} operations")
            case loops.Loop():
                lanes = f" by {stmt.lanes}" if stmt.lanes > 1 else ""
                lanes += ", short" if stmt.short else ""
                lanes += "".join(f", room {r.buffer} {r.buffer.dtype}[{_list(r.shape)}]" for r in stmt.rooms)
                out.append(f"{pad}loop {stmt.var} in {_bound('max', stmt.lows)}..{_bound('min', stmt.highs)}{lanes}")
                _lines(stmt.stmts, out, inner)
                out.extend(_reductions(stmt.reductions, inner))
            case loops.Pieces(length, lows, highs, cost, grain):
                iterations = f"{_bound('max', lows)}..{_bound('min', highs)}"
                out.append(f"{pad}{length} = pieces of {iterations}, work {cost}, each {grain}")
            case loops.Parallel():
                iterations = f"{_bound('max', stmt.lows)}..{_bound('min', stmt.highs)} by {stmt.length}"
                partials = "".join(f", {p.own} for {p.whole}[{p.size}]" for p in stmt.partials)
                out.append(f"{pad}parallel {stmt.first}..{stmt.last} of {iterations}{partials}")
                _lines(stmt.stmts, out, inner)
                out.extend(_reductions(stmt.reductions, inner))
            case loops.For():
                out.append(f"{pad}for {stmt.index} in {stmt.low}..{stmt.high} {_carried(stmt.params, stmt.init)}")
                _body(stmt.body, out, inner)
                out.append(f"{pad}=> {_list(stmt.results)}")
            case loops.While():
                out.append(f"{pad}while {_carried(stmt.params, stmt.init)}")
                _body(stmt.condition, out, inner)
                out.append(f"{pad}do")
                _body(stmt.body, out, inner)
                out.append(f"{pad}=> {_list(stmt.results)}")
            case loops.Branch():
                out.append(f"{pad}if {_text(stmt.condition)}{', rarely' if stmt.rare else ''}")
                _body(stmt.then, out, inner)
                out.append(f"{pad}else")
                _body(stmt.otherwise, out, inner)
                out.append(f"{pad}=> {_list(stmt.results)}")


def _reductions(reductions: tuple[loops.Reduction, ...], pad: str) -> Iterator[str]:
    for r in reductions:
        place = f" at {r.position} = {_text(r.rank)}" if r.position is not None else ""
        yield f"{pad}{r.result} {r.monoid}= {_text(r.value)}{place}"


def _carried(params: tuple[loops.Slot, ...], init: tuple[loops.Value, ...]) -> str:
    return "(" + ", ".join(f"{p} = {_text(i)}" for p, i in zip(params, init, strict=True)) + ")"


def _body(body: loops.Body, out: list[str], pad: str) -> None:
    _lines(body.stmts, out, pad)
    out.append(f"{pad}-> {_list(body.results)}")


def print_function(function: loops.Function) -> str:
    """A function of the loop-nest IR as text."""
    out = [f"fn {function.name}({_list(function.params)}) -> ({_list(function.outs)})"]
    _body(function.body, out, "  ")
    return "\n".join(out) + "\n"


def head_of(stmt: loops.Stmt) -> str:
    """The text of a statement without those inside it."""
    out: list[str] = []
    _lines((stmt,), out, "")
    return out[0]


def print_program(program: loops.Program) -> str:
    """A program of the loop-nest IR as text."""
    return "\n".join(print_function(f) for f in program.functions.values())
