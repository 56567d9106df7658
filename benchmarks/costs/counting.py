"""Counts what functions of the files beside this one, and their derivatives, cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from dlang.driver import check, read_source
from dlang.dump_ir import request
from dlang.python.arguments import Matcher
from dlang.tools.law import Counted, counted
from dlang.typecheck import types as ty

HERE = Path(__file__).resolve().parent


@cache
def compiled(file: str, function: str) -> Counted:
    """A function of a file beside this one, with its derivatives."""
    checked = check(read_source(str(HERE / file)))
    assert not checked.diagnostics, [d.message for d in checked.diagnostics]
    decl = checked.module.functions[function]
    wanted = request(decl)
    variables = [v for v in decl.variables if v in wanted.bindings and not isinstance(v, ty.TypeVar)]
    return counted(decl, wanted, variables, [v.name or "_" for v in variables], ("value", "gradient", "tangent"))


def operations(module: Any, name: str, args: Sequence[Any]) -> int:
    """What a function of a module takes that was loaded for the interpreter."""
    function = getattr(module, name)
    matcher = Matcher(function.decl)
    matcher.match(dict(zip(function.decl.params, args, strict=True)))
    prepared = function.program.prepare(function.decl, matcher.bindings())
    found = prepared.given(args)
    assert found is not None, "arguments that hold themselves"
    prepared, leaves = found
    before = prepared.instance.runner.operations
    prepared(leaves)
    return int(prepared.instance.runner.operations - before)
