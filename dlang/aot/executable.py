"""A program without Python, whose options are the parameters of `main`: `dlc build --exe`."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, isnan
from pathlib import Path
from typing import Any

from dlang.aot import program, shared
from dlang.aot.exports import Built
from dlang.aot.interface import Types, declare
from dlang.aot.program import quoted
from dlang.aot.toolchain import SOURCES, link, refuse_other_systems
from dlang.ops.dtypes import DTYPES

SEED, THREADS = "seed", "threads"


@dataclass(frozen=True, slots=True)
class Option:
    """An option, of one of the scalar types. default: None for one that has to be given."""

    name: str
    dtype: str
    default: Any


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The arguments of a program: the parameters of `main` in order, `--seed` and `--threads` where they are not among
    these.

    usage, help: what it says of itself.
    """

    params: tuple[Option, ...]
    own: tuple[Option, ...]
    usage: str
    help: str


def build_executable(built: Built, name: str, line: CommandLine, folder: Path) -> list[Path]:
    """Writes the program `NAME`; gives the file. The program has one export, which is what it runs."""
    refuse_other_systems()
    types = Types("dl_run")
    (export,) = built.exports
    start = declare(types, export)
    parts = [
        '#include "runtime.h"',
        '#include "options.h"',
        program.definitions(built),
        *types.lines,
        "#define PUBLIC static",
        shared.definition(start, 0, built),
        _main(line, start.name, export.face.seed),
    ]
    return link(built, "\n".join(parts), folder / name, (), (*SOURCES, "options.c"))


def _main(line: CommandLine, start: str, seed: bool) -> str:
    options = [*line.params, *line.own]
    rows = ",\n    ".join(map(_row, options))
    at = {o.name: k for k, o in enumerate(options)}
    given = [_value(k, o) for k, o in enumerate(line.params)]
    if seed:
        given.insert(0, _value(at[SEED], options[at[SEED]]))
    threads = ""
    if any(o.name == THREADS for o in line.own):
        k = at[THREADS]
        value = f"(int)options[{k}].value.integer"
        threads = f"    if (options[{k}].given && dl_set_threads({value})) return dl_end_program();\n"
    return f"""
int main(int count, char **words) {{
    dl_option options[{len(options) + 1}] = {{
    {rows}
    }};
    dl_read_options(count, words, options, {len(options)}, {quoted(line.usage)}, {quoted(line.help)});
{threads}    return {start}({", ".join(given)}) ? dl_end_program() : 0;
}}
"""


def _row(o: Option) -> str:
    plain, dashed = f"--{o.name}", f"--{o.name.replace('_', '-')}"
    names = quoted(dashed) + (f", {quoted(plain)}" if plain != dashed else "")
    kind, field = _kind(o.dtype)
    bits = int(o.dtype[1:]) if o.dtype[1:].isdigit() else 0
    value = "" if o.default is None else f", .value.{field} = {_literal(o)}"
    required = str(o.default is None).lower()
    return f"{{{{{names}}}, {kind}, {quoted(o.dtype)}, {bits}, {required}{value}}}"


def _kind(dtype: str) -> tuple[str, str]:
    match DTYPES[dtype].kind:
        case "text":
            return "DL_STRING", "text"
        case "truth":
            return "DL_TRUTH", "truth"
        case "float":
            return "DL_FLOAT", "number"
        case "signed":
            return "DL_INTEGER", "integer"
        case "unsigned":
            return "DL_UNSIGNED", "natural"


def _literal(o: Option) -> str:
    match o.default:
        case str():
            return quoted(o.default)
        case bool():
            return str(o.default).lower()
        case float() | int() if DTYPES[o.dtype].is_float:
            x = float(o.default)
            if isfinite(x):
                return x.hex()
            return '__builtin_nan("")' if isnan(x) else f"{'-' if x < 0 else ''}__builtin_inf()"
        case value:
            return f"{value}u" if o.dtype[0] == "u" else f"({value + 1} - 1)" if value < 0 else str(value)


def _value(k: int, o: Option) -> str:
    return f"options[{k}].value.{_kind(o.dtype)[1]}"
