"""The types of what was built, for checkers of Python: the text of a `.pyi`."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dlang.aot.exports import Built, Export
from dlang.runtime.classes import fields_of
from dlang.runtime.crossing import Choice, Fields, Items, Leaf, Part, Rows, Tree
from dlang.typecheck import core
from dlang.typecheck.program import scheme_text

OWN = {"f64": "float", "i64": "int", "bool": "bool", "str": "str"}
NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "float32", "bool": "bool",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
}  # fmt: skip
HEAD = """\
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

class DlangError(Exception): ...
"""


def stubs(built: Built) -> str:
    """Stubs for the functions, and for the dataclasses of their structs."""
    types = _Types()
    functions = [_function(types, e) for e in built.exports]
    return "\n".join([HEAD, *types.lines, *functions]) + "\n"


@dataclass(slots=True)
class _Types:
    """The classes that are written, by name, with the types of their fields."""

    lines: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def of(self, part: Part, given: bool) -> str:
        """given: as an argument, for which more will do."""
        match part:
            case Leaf("str", shape):
                return "list[Any] | NDArray[np.object_]" if shape else "str"
            case Leaf(dtype, ()):
                number = OWN.get(dtype, f"np.{NUMPY[dtype]}")
                return f"float | np.{NUMPY[dtype]}" if given and dtype[0] in "fb" and dtype not in OWN else number
            case Leaf(dtype, _):
                return "ArrayLike" if given else f"NDArray[np.{NUMPY[dtype]}]"
            case Items(items):
                return f"tuple[{', '.join(self.of(i, given) for i in items)}]" if items else "None"
            case Fields(type, items):
                return self._class(type, items)
            case Choice(types, variants):
                names = ["None" if t is None else self._class(t, v) for t, v in zip(types, variants, strict=True)]
                return " | ".join(names)
            case Rows(_, element):
                return f"list[{self.of(element, given)}]"
            case _:
                return "Any"

    def _class(self, type: type, items: Sequence[Part]) -> str:
        if type.__name__ not in self.known:
            self.known.add(type.__name__)
            fields = [f"    {n}: {self._field(p)}" for n, p in zip(fields_of(type), items, strict=True)] or ["    ..."]
            self.lines += ["@dataclass(frozen=True, eq=False)", f"class {type.__name__}:", *fields, ""]
        return type.__name__

    def _field(self, part: Part) -> str:
        return "Any" if isinstance(part, Leaf | Tree | Rows) and not _is_plain(part) else self.of(part, given=False)


def _is_plain(part: Part) -> bool:
    return isinstance(part, Leaf) and not part.shape and part.dtype in OWN


def _function(types: _Types, e: Export) -> str:
    params = [*_parameters(types, e)]
    if e.face.seed and all(p.local.name != "seed" for p in e.decl.params):
        params += ["*", "seed: int = 0"]
    result = types.of(e.face.border.result, given=False)
    doc = "\n".join([scheme_text(e.decl), *([""] if e.decl.doc else []), *e.decl.doc.splitlines()])
    lines = "\n    ".join(doc.replace("\\", "\\\\").replace('"""', "'''").splitlines())
    return f'def {e.name}({", ".join(params)}) -> {result}:\n    """{lines}"""\n'


def _parameters(types: _Types, e: Export) -> Iterator[str]:
    for p, part in zip(e.decl.params, e.face.border.params, strict=True):
        name = p.local.name
        if not name.isidentifier() or keyword.iskeyword(name):
            name = name.replace("'", "_") + "_"
        default = " = ..." if p.has_default and isinstance(p.default, core.Literal) else ""
        yield f"{name}: {types.of(part, given=True)}{default}"
