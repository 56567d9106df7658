"""A library for C, with its header (`dlc build --shared`), and a program whose options are the parameters of `main`
(`dlc build --exe`): neither needs Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite, isnan, lcm
from pathlib import Path
from typing import Any

from dlang.aot import program
from dlang.aot.exports import Built, Export
from dlang.aot.interface import Declared, Place, Types, c_name, declare, header, places
from dlang.aot.program import entry_name, quoted
from dlang.aot.toolchain import SOURCES, link, refuse_other_systems
from dlang.codegen.abi import EntryPoint
from dlang.drafts import write
from dlang.inequalities import LARGEST
from dlang.ir.crossing import Items, leaves_of
from dlang.ir.terms import Array, Scalar, Size, Token, Var
from dlang.ops.dtypes import DTYPES, HALF
from dlang.runtime.compiled import Compared, PassedSize, Solved
from dlang.typecheck.printing import Names
from dlang.typecheck.types import SizeVar


def definitions(built: Built, name: str) -> str:
    """The functions of the header, in terms of `runtime.h`."""
    prefix = c_name(name)
    types = Types(prefix)
    out = [definition(declare(types, e), k, built) for k, e in enumerate(built.exports)]
    return "\n".join([*out, _COMMON_DEFINITIONS.format(prefix=prefix)])


_COMMON_DEFINITIONS = """
PUBLIC const char *{prefix}_message(void) {{ return dl_message(); }}
PUBLIC const char *{prefix}_error_code(void) {{ return dl_error_code(); }}
PUBLIC void {prefix}_free(void *memory) {{ dl_give_back(memory); }}
PUBLIC int {prefix}_set_threads(int threads) {{ return dl_set_threads(threads); }}
"""


def definition(f: Declared, k: int, built: Built) -> str:
    """A function of the interface. k: its number among the exports."""
    e = f.export
    point = built.compiled.entries[e.signature.name]
    arguments = [
        p
        for part, (_, name) in zip(
            [part for part in e.signature.layout.params if part != Items(())], f.params[e.signature.seed :], strict=True
        )
        for p in places(part, name)
    ]
    body = _Body(e, point, entry_name(k), arguments)
    return f"PUBLIC {f.head} {{\n" + "\n".join(f"    {line}" for line in body.lines()) + "\n}\n"


@dataclass(slots=True)
class _Body:
    """The body of a function. names: what C calls the variables of sizes; found: those that are known."""

    export: Export
    point: EntryPoint
    entry: str
    arguments: list[Place]
    names: dict[Var, str] = field(default_factory=dict)
    found: list[Var] = field(default_factory=list)

    def lines(self) -> list[str]:
        e, point = self.export, self.point
        params = [p for p in point.function.params if not isinstance(p.type, Token)]
        for k, v in enumerate(e.signature.sizes):
            self.names[v] = f"dl_size_{k}"
        out = [f"int64_t {', '.join(self.names.values())};"] if self.names else []
        if any(not isinstance(v.type, Token) for v in point.function.results):
            refuse = f'dl_fail("E0960", "there is no place for the result of `%s`", {quoted(e.name)})'
            out.append(f"if (!result) return {refuse};")
        for step in e.steps:
            out += self._step(step)
            if not isinstance(step, Compared):
                self.found.append(step.var)
        out += self._memory_and_indices()
        values: list[str] = [self.names[v] for v in e.signature.sizes]
        values += ["seed"] if e.signature.seed else []
        for p in self.arguments:
            values.append(p.access)
        for v, value in zip(params, values, strict=True):
            if v not in self.names and isinstance(v.type, Scalar) and v.type.dtype == "i64":
                self.names[v] = f"((int64_t)({value}))"
        count = len(params) + len(point.outs) + point.raw
        out += [f"int64_t dl_words[{max(count, 1)}];", f"dl_context *dl_c = dl_open(&{self.entry});"]
        out.append("if (!dl_c) return 1;")
        for k, (v, value) in enumerate(zip(params, values, strict=True)):
            out.append(_to_word(f"dl_words[{k}]", value, v))
        out += self._results(list(places(e.signature.layout.result, "(*result)")), len(params))
        return out

    # ---- before the call ---------------------------------------------------------------------------------------------
    def _step(self, step: PassedSize | Solved | Compared) -> list[str]:
        place = self.arguments[step.leaf]
        match step:
            case PassedSize(var, _):
                name = self.names[var]
                out = [f"{name} = {place.access};"]
                refuse = 'dl_fail("E0960", "argument `%s` of `%s`: a size is not negative, got %lld", '
                refuse += f"{quoted(place.access)}, {quoted(self.export.name)}, (long long){name})"
                exhausted = 'dl_fail("E0806", "the memory is exhausted")'
                return [*out, f"if ({name} < 0) return {refuse};", f"if ({name} > {LARGEST}) return {exhausted};"]
            case Solved(var, _, axis, factor, rest):
                if factor == 1 and not rest.terms:
                    value = f"{place.access}.size[{axis}]"
                    wrong = f"({value} < 0 || {value} > {LARGEST})"
                    return [f"{self.names[var]} = {value};", f"if {wrong} return {self._wrong(place)};"]
                (by, d), (less, e) = self.number(factor), self.number(rest)
                scale = lcm(d, e)
                top = f"((__int128){scale} * {place.access}.size[{axis}] - {scale // e} * {less})"
                low = f"({scale // d} * {by})"
                test = f"!{low} || {top} % {low} || {top} / {low} < 0 || {place.access}.size[{axis}] < 0"
                return [f"if ({test}) return {self._wrong(place)};", f"{self.names[var]} = (int64_t)({top} / {low});"]
            case Compared(_, axis, size):
                value, scale = self.number(size)
                return [f"if ((__int128){scale} * {place.access}.size[{axis}] != {value}) return {self._wrong(place)};"]

    def _memory_and_indices(self) -> list[str]:
        """Checks that arrays have memory, and that indices are in range."""
        out = []
        for p in self.arguments:
            if rank := len(p.leaf.shape):
                out.append(f"if (!{p.access}.data && dl_count({p.access}.size, {rank})) return {self._wrong(p)};")
        first = _first(self.export)
        for k, below in self.export.terms.indices:
            bound, scale = self.number(below)
            out.append(self._within(self.arguments[first[k]], "an index that is out of range", bound, scale))
        for place in self.arguments:
            if place.variants is not None:
                out.append(self._within(place, "the number of a variant that there is not", str(place.variants)))
        return out

    def _within(self, place: Place, wrong: str, bound: str, scale: int = 1) -> str:
        """Compares an integer, or each of an array, with 0 and with what it is to be below."""
        rank = len(place.leaf.shape)
        item = f"{place.access}.data[dl_k]" if rank else place.access
        refuse = f'dl_fail("E0960", "argument `%s` of `%s` has {wrong}", '
        refuse += f"{quoted(place.access)}, {quoted(self.export.name)})"
        test = f"if ({item} < 0 || (__int128){scale} * {item} >= {bound}) return {refuse};"
        loop = f"for (int64_t dl_k = 0; dl_k < dl_count({place.access}.size, {rank}); dl_k++) "
        return loop + test if rank else test

    def _wrong(self, place: Place) -> str:
        """The call that says what is wrong with the shape of an argument."""
        shape = ", ".join(self.shown(self.export.signature.layout.sizes[n]) for n in place.leaf.shape)
        rank = len(place.leaf.shape)
        array = f"(dl_array){{{place.access}.data, {place.access}.size, {rank}}}"
        names_of_sizes = self.own_names()
        said = [
            v for v in self.found if any(v in self.export.signature.layout.sizes[n].atoms() for n in place.leaf.shape)
        ]
        known = ", ".join(f"{names_of_sizes.get(v, '_')} = %lld" for v in said if v in names_of_sizes)
        values = "".join(f", (long long){self.names[v]}" for v in said if v in names_of_sizes)
        texts = (self.export.name, place.access, f"{place.leaf.dtype}[{shape}]", place.leaf.dtype)
        return f"dl_wrong_shape({', '.join(map(quoted, texts))}, {array}, {quoted(known)}{values})"

    def shown(self, size: Size) -> str:
        """A size as its author wrote it, as far as its variables have names."""
        names_of_sizes = self.own_names()
        return size.render(lambda v: names_of_sizes.get(v, "_"))

    def own_names(self) -> dict[Var, str]:
        """Returns the names that the author of the function gave to its sizes."""
        names, decl, sizes = Names(), self.export.decl, self.export.signature.sizes
        declared = [v for v in decl.variables if isinstance(v, SizeVar) and v not in decl.opened]
        return {v: names.of(s) for s, v in zip(declared, sizes, strict=True)} if len(declared) == len(sizes) else {}

    def number(self, size: Size) -> tuple[str, int]:
        """An expression, and what it is to be divided by."""
        scale = lcm(*[Fraction(c).denominator for c in size.terms.values()]) if size.terms else 1
        terms = []
        for m, c in size.terms.items():
            term = f"(__int128){int(c * scale)}"
            for v in m:
                term = f"dl_wide_product({term}, {self.names[v]})"
            terms.append(term)
        return f"({' + '.join(terms) or '0'})", scale

    # ---- the call and what it gives ----------------------------------------------------------------------------------
    def _results(self, wanted: Sequence[Place], first: int) -> list[str]:
        """wanted: where the leaves of the result go. first: how many words are arguments."""
        point, extra = self.point, len(self.export.signature.extra)
        formals = [v for v in point.function.results if not isinstance(v.type, Token)]
        order = [o for o in point.order if o is not None]
        numbered = list(enumerate(zip(formals, order, strict=True)))
        abandon = f"return dl_abandon(dl_c, dl_outs, {len(formals)})"
        out = [f"dl_out dl_outs[{max(len(formals), 1)}] = {{{{0}}}};"]
        for k, (v, (where, position)) in numbered:
            if where == "out" and isinstance(v.type, Array):
                out.append(self._sizes(k, v.type))
                out.append(f"if (dl_make(&dl_outs[{k}], {self._memory(k, wanted[k - extra], v.type)})) {abandon};")
                out.append(f"dl_words[{first + position}] = (intptr_t)dl_outs[{k}].made;")
        out.append(f"if (dl_run(dl_c, &{self.entry}, dl_words)) {abandon};")
        for k, (v, (where, _)) in numbered:
            if (
                where == "out"
                and isinstance(v.type, Array)
                and any(c < 0 for s in v.type.shape for c in s.terms.values())
            ):
                sizes = f"{quoted(self.export.name)}, dl_sizes_{k}, {len(v.type.shape)}"
                out.append(f"if (dl_refuse_negative({sizes})) {abandon};")
        words = {k: f"dl_words[{first + len(point.outs) + position}]" for k, (_, (_, position)) in numbered}
        for k, (v, (where, _)) in numbered:
            if v.type == Scalar("i64"):
                self.names[v] = words[k]
            elif v.type == Scalar("str"):
                out.append(f"if (dl_text_out(&dl_outs[{k}], {words[k]})) {abandon};")
            elif where != "out" and isinstance(v.type, Array):
                out.append(self._sizes(k, v.type))
                memory = self._memory(k, wanted[k - extra], v.type)
                out.append(f"if (dl_hand_over(dl_c, &dl_outs[{k}], {words[k]}, {memory})) {abandon};")
        for k, (v, _) in numbered[extra:]:
            access = wanted[k - extra].access
            if isinstance(v.type, Array):
                out.append(f"{access}.data = dl_outs[{k}].made;")
                out += [f"{access}.size[{n}] = dl_sizes_{k}[{n}];" for n in range(len(v.type.shape))]
            elif v.type == Scalar("str"):
                out.append(f"{access} = dl_outs[{k}].made;")
            else:
                out.append(_from_word(access, words[k], v))
        return [*out, "dl_close(dl_c);", "return 0;"]

    def _sizes(self, k: int, type: Array) -> str:
        """The sizes of a result."""
        values = []
        for size in type.shape:
            value, scale = self.number(size)
            values.append(f"dl_size({value}{f' / {scale}' if scale != 1 else ''})")
        return f"const int64_t dl_sizes_{k}[] = {{{', '.join(values)}}};"

    def _memory(self, k: int, place: Place, type: Array) -> str:
        """The arguments of what finds the memory of a result."""
        a = place.access
        name, rank = quoted(self.export.name), len(type.shape)
        return f"{name}, {a}.data, {a}.size, dl_sizes_{k}, {rank}, sizeof *{a}.data"


def _first(e: Export) -> list[int]:
    """The number of the first leaf of each parameter."""
    counts = [sum(1 for _ in leaves_of((part,))) for part in e.signature.layout.params]
    return [sum(counts[:k]) for k in range(len(counts))]


def _to_word(word: str, value: str, v: Var) -> str:
    if isinstance(v.type, Array):
        return f"{word} = (intptr_t){value}.data;"
    assert isinstance(v.type, Scalar)
    match v.type.dtype:
        case "f64":
            return f"{word} = ((union {{ double x; int64_t w; }}){{{value}}}).w;"
        case "f32":
            return f"{word} = ((union {{ float x; int32_t w; }}){{{value}}}).w;"
        case dtype if dtype in HALF:
            return f"{word} = ((union {{ float x; int32_t w; }}){{dl_rounded_{dtype}({value})}}).w;"
        case "str":
            return f"if (dl_text_in(dl_c, &{word}, {value})) return dl_abandon(dl_c, 0, 0);"
        case _:
            return f"{word} = (int64_t)({value});"


def _from_word(target: str, word: str, v: Var) -> str:
    assert isinstance(v.type, Scalar)
    match v.type.dtype:
        case "f64":
            return f"{target} = ((union {{ int64_t w; double x; }}){{{word}}}).x;"
        case dtype if DTYPES[dtype].register == "f32":
            return f"{target} = ((union {{ int32_t w; float x; }}){{(int32_t){word}}}).x;"
        case "bool":
            return f"{target} = {word} & 1;"
        case dtype:
            return f"{target} = ({DTYPES[dtype].c}){word};"


# ---- the library -----------------------------------------------------------------------------------------------------

PUBLIC = '#define PUBLIC __attribute__((visibility("default")))'


def build_shared(built: Built, name: str, folder: Path) -> list[Path]:
    """Writes `libNAME.so` and `NAME.h`; gives the files."""
    refuse_other_systems()
    library, declarations = folder / f"lib{c_name(name)}.so", folder / f"{c_name(name)}.h"
    text = header(built, name)
    parts = ['#include "runtime.h"', program.definitions(built), text, PUBLIC, definitions(built, name)]
    options = ["-shared", f"-Wl,-soname,{library.name}"]
    library_file = link(built, "\n".join(parts), library, options, SOURCES, visible=f"{c_name(name)}_*")
    write(declarations, text)
    return [declarations, *library_file]


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
        definition(start, 0, built),
        _main(line, start.name, export.signature.seed),
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
