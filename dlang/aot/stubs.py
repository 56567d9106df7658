"""The types of what was built, for checkers of Python: the text of a `.pyi`."""

from __future__ import annotations

from collections.abc import Container, Iterator

from dlang.aot.exports import Built, Export
from dlang.python.documentation import is_name
from dlang.python.hints import Hints
from dlang.python.module import datatypes
from dlang.python.stubs import datatype, docstring, imports, parameters
from dlang.runtime.archive import trailing
from dlang.typecheck.program import scheme_text

IMPORTS = {
    "dataclasses": ("dataclass",),
    "typing": ("Any", "TypeAlias"),
    "numpy.typing": ("NDArray",),
}
ERROR = "DlangError"


def stubs(built: Built, classes: Container[str]) -> str:
    """Stubs for the functions, and for the dataclasses that they take and give, which are known by their names."""
    types = [d for d in datatypes(built.checked.module) if any(v.name in classes for v in d.variants)]
    names = [e.name for e in built.exports]
    hints = Hints({ERROR, *names, *[d.name for d in types], *[v.name for d in types for v in d.variants]})
    parts = ["\n".join(imports(hints, IMPORTS)), f"class {ERROR}(Exception): ..."]
    parts += ["\n".join(datatype(hints, d)) for d in types]
    parts += ["\n".join(_function(hints, e)) for e in built.exports]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _function(hints: Hints, e: Export) -> Iterator[str]:
    if not is_name(e.name):
        yield f"# `{e.name}` is no name of Python: getattr(module, {e.name!r})"
        return
    assert e.decl.result is not None
    types = [hints.of(p.local.type, given=True) for p in e.decl.params]
    given = ", ".join(parameters(hints, e.decl, types, trailing(e.defaults)))
    yield f"def {e.name}({given}) -> {hints.of(e.decl.result)}:"
    yield from docstring(f"{scheme_text(e.decl)}\n\n{e.decl.doc}".strip())
