"""Records where instructions come from, as LLVM's metadata, so that debuggers and profilers show lines of the language.

While a function is written, places stand among its lines and say which one what follows comes from; when it is finished
they become references to locations. A location knows the calls that the compiler took away.

Only statements outside of comprehensions are preceded by their places, if this is wanted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.codegen.llvm.assembly import Label, Line, Place
from dlang.diagnostics import Span

FIRST = 3  # numbers of metadata that are taken: the weights of branches, and what nothing is known of


@dataclass(slots=True)
class Lines:
    """The metadata of a module."""

    nodes: list[str] = field(default_factory=list)
    known: dict[object, int] = field(default_factory=dict)

    # ---- metadata ----------------------------------------------------------------------------------------------------
    def node(self, key: object, text: str) -> int:
        """The number of a node, made if it is new."""
        if key not in self.known:
            self.known[key] = FIRST + len(self.nodes)
            self.nodes.append(text)
        return self.known[key]

    def file(self, path: str) -> int:
        folder, name = os.path.split(os.path.abspath(path))
        return self.node(("file", path), f"!DIFile(filename: {_quoted(name)}, directory: {_quoted(folder)})")

    def unit(self, path: str) -> int:
        return self.node(
            "unit",
            f'distinct !DICompileUnit(language: DW_LANG_C, file: !{self.file(path)}, producer: "dlang", '
            "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)",
        )

    def function(self, label: str, span: Span, symbol: str = "") -> int:
        """A function, by how a person calls it; span: of it, or of something in it.

        symbol: of its definition; without one it is a function that is there only inside others.
        """
        path = span.source.path
        file, unit = self.file(path), self.unit(path)
        nothing = self.node("nothing", "!{null}")
        type = self.node("type", f"!DISubroutineType(types: !{nothing})")
        return self.node(
            ("function", label, path, symbol),
            f"distinct !DISubprogram(name: {_quoted(label)}, scope: !{file}, file: !{file}, line: {span.line}, "
            f"type: !{type}, scopeLine: {span.line}, spFlags: DISPFlagLocalToUnit | DISPFlagDefinition | "
            f"DISPFlagOptimized, unit: !{unit})",
        )

    def location(self, span: Span, function: int) -> int:
        """A place in the code of a function, or of one whose call it took the place of."""
        around = None
        if span.via is not None and span.via.span is not None:
            around = self.location(span.via.span, function)
            scope = self.function(span.via.label, span)
        else:
            file = self.file(span.source.path)
            scope = self.node(
                ("part", function, file), f"!DILexicalBlockFile(scope: !{function}, file: !{file}, discriminator: 0)"
            )
        line, column = span.source.position(span.start)
        inlined = "" if around is None else f", inlinedAt: !{around}"
        return self.node(
            ("location", line, column, scope, around),
            f"distinct !DILocation(line: {line}, column: {column}, scope: !{scope}{inlined})",
        )

    # ---- text --------------------------------------------------------------------------------------------------------
    def attached(self, lines: Sequence[Line], function: int, start: Span) -> list[Line]:
        """The instructions of a function with their locations; start: where it is before the first place."""
        first = location = self.location(start, function)
        out: list[Line] = []
        for line in lines:
            match line:
                case Place(span):
                    location = self.location(span, function) if span.source.text else first
                case Label():
                    out.append(line)
                case _:
                    out.append(f"{line}, !dbg !{location}")
        return out

    def text(self) -> str:
        """The metadata itself."""
        if "unit" not in self.known:
            return ""
        nodes = [f"!{FIRST + k} = {text}" for k, text in enumerate(self.nodes)]
        last = FIRST + len(self.nodes)
        flags = [
            f'!{last} = !{{i32 2, !"Debug Info Version", i32 3}}',
            f'!{last + 1} = !{{i32 7, !"Dwarf Version", i32 4}}',
        ]
        named = [f"!llvm.dbg.cu = !{{!{self.known['unit']}}}", f"!llvm.module.flags = !{{!{last}, !{last + 1}}}"]
        return "\n".join([*nodes, *flags, *named]) + "\n"


def _quoted(text: str) -> str:
    """A string of LLVM's."""
    return '"' + "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else _escaped(c) for c in text) + '"'


def _escaped(c: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in c.encode())
