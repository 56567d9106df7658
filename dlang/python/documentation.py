"""Documents functions of the language for `help`, `inspect.signature` and editors."""

from __future__ import annotations

import inspect
import keyword
from typing import TYPE_CHECKING, Any

from dlang.host.classes import Written, python_names
from dlang.lazy_modules import lazy_module
from dlang.typecheck.headers import FnDecl

if TYPE_CHECKING:
    from dlang.typecheck import core, program
else:
    core = lazy_module("dlang.typecheck.core")
    program = lazy_module("dlang.typecheck.program")


class Documentation:
    """The `__doc__` of functions, made when it is asked for: the head with all types, then what its comment says.

    of_class: that of the class itself.
    """

    def __init__(self, of_class: str) -> None:
        self.of_class = of_class

    def __get__(self, function: Any, owner: type | None = None) -> str:
        if function is None:
            return self.of_class
        decl: FnDecl = function.decl
        return f"{program.function_text(decl)}\n\n{decl.doc}".strip()


def is_name(name: str) -> bool:
    """Tells whether Python takes it for a name."""
    return name.isidentifier() and not keyword.iskeyword(name)


def parameter_names(decl: FnDecl) -> tuple[list[str], int]:
    """The names of parameters in Python, and up to which they cannot be given by name: `_` and a pattern have a number
    instead.
    """
    plain = [name if is_named(name := p.local.name) else None for p in decl.params]
    unnamed = max((k + 1 for k, name in enumerate(plain) if name is None), default=0)
    return python_names(plain), unnamed


def is_named(name: str) -> bool:
    """Tells whether a parameter has a name, and is no pattern."""
    return name != "_" and name.replace("'", "_").isidentifier()


def signature(decl: FnDecl, draws: bool) -> inspect.Signature:
    """The parameters with their types and defaults, a default that is no literal as `...`. draws: it takes a seed."""
    types, result = program.signature_texts(decl)
    names, unnamed = parameter_names(decl)
    parameters: list[inspect.Parameter] = []
    for k, (name, p, written) in enumerate(zip(names, decl.params, types, strict=True)):
        kind = inspect.Parameter.POSITIONAL_ONLY if k < unnamed else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default: Any = inspect.Parameter.empty
        if p.has_default:
            default = p.default.value if isinstance(p.default, core.Literal) else ...
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=Written(written)))
    if draws:
        seed = inspect.Parameter("seed", inspect.Parameter.KEYWORD_ONLY, default=0, annotation=Written("i64"))
        parameters.append(seed)
    return inspect.Signature(parameters, return_annotation=Written(result))
