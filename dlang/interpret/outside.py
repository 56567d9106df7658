"""Functions outside of the language, of Python and of C, as whatever evaluates a program calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlang.diagnostics import Span
from dlang.host.c_functions import call_c
from dlang.host.errors import RunError
from dlang.host.foreign import call_python
from dlang.ir.anf import Array, Atom, Program, Token, Var
from dlang.ir.kernels import is_kernel, no_device
from dlang.ir.values import accept, extent_of


def call_outside(
    program: Program,
    target: str,
    args: list[Any],
    atoms: Sequence[Atom],
    vars: Sequence[Var],
    env: Mapping[Var, Any],
    span: Span | None,
) -> list[Any]:
    """The results of a function, as the variables want them.

    args: what the atoms are. env: has the variables that sizes mention. Raises RunError where the function fails, and
    E0901 for a kernel of a GPU.
    """
    if is_kernel(target):
        raise no_device(target, span)
    try:
        if target.startswith("c:"):
            wanted = [
                (v.type.dtype, [extent_of(s, env) for s in v.type.shape] if isinstance(v.type, Array) else None)
                for v in vars
                if not isinstance(v.type, Token)
            ]
            results = call_c(target, args, [a.type for a in atoms], wanted)
        else:
            results = call_python(program.python[target], args)
    except RunError as error:
        error.at(span)
        raise
    return [accept(r, v.type) for r, v in zip(results, vars, strict=True)]
