"""Calls of functions outside of the language: they are found here, and their values flattened to leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from dlang.diagnostics import DlangError, error
from dlang.host.c_functions import find_c
from dlang.host.foreign import Missing
from dlang.host.python_modules import find_python
from dlang.ir import anf
from dlang.ir.anf import Atom, Size, Var, fresh, poly
from dlang.ir.crossing import PythonFunction, holds_blanks, holds_code
from dlang.ir.types import I64
from dlang.ops.dtypes import TRUNCATED
from dlang.polynomials import Poly
from dlang.specialize.bodies import check_sizes
from dlang.specialize.borders import Describer, unsized
from dlang.specialize.frame import Frame, scalar, unsupported
from dlang.specialize.types import Mono, MonoArray, MonoData, MonoEnum, MonoNode, MonoTuple, sizes_of_mono
from dlang.specialize.values import ClosureV, Value, leaf_vars, leaves, mono_of, template
from dlang.typecheck import core
from dlang.typecheck.printing import Names
from dlang.typecheck.terms import variables
from dlang.typecheck.types import RowVar, SizeVar, TypeVar


def call_foreign(f: Frame, closure: ClosureV, e: core.Foreign, args: list[Value]) -> Value:
    """The value of a call of an `extern`, at the place of the call."""
    check_sizes(f.emitter, closure, args)
    inner = f.inner(dict(closure.bindings), {})
    for param, a in zip(e.decl.params, args, strict=True):
        if param.local.size is not None:
            inner.bindings[param.local.size] = f.emitter.sized(scalar(a))
    for param, a in zip(e.decl.params, args, strict=True):
        inner.env[param.local] = f.fit(a, inner.mono(param.local.type))
    return foreign(inner, e, [inner.env[p.local] for p in e.decl.params])


def foreign(f: Frame, e: core.Foreign, args: list[Value]) -> Value:
    """The call, in a frame that knows what the variables of the scheme stand for."""
    decl, em = e.decl, f.emitter
    assert decl.result is not None
    opened = tuple([fresh("k", I64) for _ in decl.opened])
    for v, k in zip(decl.opened, opened, strict=True):
        f.bindings[v] = poly(k)
        em.facts.size(k)
    mono = f.mono(decl.result)
    for crossing in (*map(mono_of, args), mono):
        _refuse(f, e, crossing)
    value = template(mono, lambda t: fresh("r", t))
    atoms: list[Atom] = [a for v in args for a in leaves(v)]
    name = e.target if e.function is None else f"python:{decl.name}"
    if e.target.startswith("c:"):
        library, _, symbol = e.target.removeprefix("c:").rpartition(":")
        target = _found(e, lambda folder: find_c(library, symbol, folder)) if f.instances.runs else e.target
    elif e.target.startswith("cuda:"):
        file, _, kernel = e.target.removeprefix("cuda:").rpartition(":")
        target = f"cuda:{Path(e.span.source.path).parent / file}:{kernel}"
        if any(isinstance(a.type, anf.Scalar) for a in leaves(value)):
            raise _no_kernel(e)
    else:
        made = e.function
        if made is None and f.instances.runs:
            made = _found(e, lambda folder: find_python(e.target.removeprefix("python:"), folder))
        function, given = _described(f, e, made, args, mono, opened)
        target = _registered(f, name, function)
        atoms = [*[em.atom(s) for s in given], *atoms]
    results = (*opened, *leaf_vars(value))
    if not decl.effects:
        em.bind(anf.Foreign(target, tuple(atoms)), results)
        return value
    if f.world.token is None:
        raise unsupported(f"an effect of `{decl.name}` inside a comprehension or a derivative", em.span)
    token = fresh("world", anf.Token())
    em.bind(anf.Effect("foreign", f.world.token, tuple(atoms), (target,)), (token, *results))
    f.world.token = token
    return value


def _found(e: core.Foreign, find: Callable[[Path], Any]) -> Any:
    try:
        return find(Path(e.span.source.path).parent)
    except Missing as missing:
        raise error("E0604", str(missing), e.span, help=(missing.help,)) from missing


def _no_kernel(e: core.Foreign) -> DlangError:
    message = f"the kernel `{e.decl.name}` gives a number, and a kernel fills arrays"
    return error("E0418", message, e.span, help=("have it give an array of one element",))


def _refuse(f: Frame, e: core.Foreign, mono: Mono) -> None:
    """A variable of the scheme may stand for what cannot cross."""
    match mono:
        case anf.Scalar(dtype) if dtype in TRUNCATED:
            raise _crossing(f, e, f"a {dtype}")
        case anf.Scalar():
            pass
        case MonoArray(element, _):
            _refuse(f, e, element)
        case MonoTuple(items) | MonoData(_, items):
            for item in items:
                _refuse(f, e, item)
        case MonoEnum():
            for item in mono.fields:
                _refuse(f, e, item)
        case MonoNode():
            pass
        case _:
            raise _crossing(f, e, "a function")


def _crossing(f: Frame, e: core.Foreign, what: str) -> DlangError:
    message = f"`{e.decl.name}` is used with {what}, which cannot cross to Python"
    return error("E0418", message, f.emitter.span or e.span, help=("pass what it stands for as numbers and arrays",))


# ---- functions of Python ---------------------------------------------------------------------------------------------
def _described(
    f: Frame,
    e: core.Foreign,
    function: Callable[..., object] | None,
    args: list[Value],
    result: Mono,
    opened: tuple[Var, ...],
) -> tuple[PythonFunction, list[Size]]:
    """Describes how the function is called, and which sizes it gets first. function: None if nothing runs."""
    decl = e.decl
    assert decl.result is not None
    inside = set(opened)
    given: dict[Size, int] = {}
    names = Names()
    text = names.type(decl.result)
    known: list[tuple[str, Size | tuple[Size, ...] | str]] = []
    for v in variables(decl.result):
        bound = f.bindings.get(v)
        if isinstance(v, RowVar) and isinstance(bound, tuple):
            known.append((f"..{names.of(v)}", bound))
        elif isinstance(v, SizeVar) and isinstance(bound, Poly) and not v.opened:
            known.append((names.of(v), bound))
        elif isinstance(v, TypeVar) and isinstance(bound, anf.Scalar):
            known.append((names.of(v), bound.dtype))
    for s in [*sizes_of_mono(result), *[s for _, b in known if not isinstance(b, str) for s in _several(b)]]:
        if not s.mentions(inside):
            given.setdefault(s, len(given))
        elif s.atom not in inside:
            raise unsupported("a size computed from a `?` in the result of an `extern`", e.span)
    position = given | {poly(k): len(given) + n for n, k in enumerate(opened)}

    describer = Describer(f)
    params = tuple([describer.part(mono_of(a), unsized) for a in args])
    gives = describer.part(result, lambda shape: tuple([position[s] for s in shape]))
    if any(holds_code(x, describer.trees) for x in (*params, gives)):
        raise _crossing(f, e, "a function")
    if any(holds_blanks(x, describer.trees) for x in (*params, gives)):
        raise _crossing(f, e, "an array of values that hold nothing")
    described = PythonFunction(
        decl.name,
        cast(Any, function),
        params,
        gives,
        len(given),
        len(opened),
        text,
        tuple([(n, b if isinstance(b, str) else tuple([position[s] for s in _several(b)])) for n, b in known]),
        describer.trees,
        str(Path(e.span.source.path).parent),
    )
    return described, list(given)


def _several(b: Size | tuple[Size, ...]) -> tuple[Size, ...]:
    return b if isinstance(b, tuple) else (b,)


def _registered(f: Frame, target: str, function: PythonFunction) -> str:
    """The name of a function of Python in the program: its target, with a number if it is used at several types."""
    table = f.instances.python
    name, number = target, 1
    while name in table and table[name] != function:
        number += 1
        name = f"{target}#{number}"
    table[name] = function
    return name
