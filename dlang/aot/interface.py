"""The header of a library: its functions as C calls them.

A function gives 0, or 1 after a failure, and writes its result behind a pointer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dlang.aot.exports import Built, Export, not_exported
from dlang.host.classes import enum_name, fields_of
from dlang.ir.crossing import Choice, Code, Fields, Items, Leaf, Part, Rows, Tree, leaves_of
from dlang.ops.dtypes import DTYPES
from dlang.typecheck.program import scheme_text

# ---- types of C ------------------------------------------------------------------------------------------------------
# Values of the language as values of C: an array is a struct with its memory and its sizes, a struct or a tuple is a
# struct, an array of structures a struct of arrays, an enum a struct with a number that says which of its parts counts.

RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true "
    "false and or not xor alignas asm class delete explicit export friend mutable namespace new operator private "
    "protected public template this throw try catch typename using virtual result seed data size".split()
)


def c_name(text: str) -> str:
    """A name of the language as one of C: `θ'` is `theta_`."""
    out = ""
    for c in unicodedata.normalize("NFKD", text):
        if c == "'":
            out += "_"
        elif c.isascii() and (c.isalnum() or c == "_"):
            out += c
        elif not unicodedata.combining(c):
            out += unicodedata.name(c, f"u{ord(c):x}").split(" WITH ")[0].split()[-1].lower()
    if not out or out[0].isdigit():
        out = "_" + out
    return out + "_" if out in RESERVED or out.startswith("dl_") else out


# ---- types -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Place:
    """A leaf of a value: how C writes it, and what it is with all its axes. variants: how many there are of what it is
    the tag of."""

    access: str
    leaf: Leaf
    variants: int | None = None


OWN = ("message", "error_code", "free", "set_threads")
"""Functions that every library has."""


@dataclass(slots=True)
class Types:
    """The types of a header, by what they are, and its functions. prefix: of all their names; taken: these."""

    prefix: str
    lines: list[str] = field(default_factory=list)
    arrays: dict[tuple[str, int], str] = field(default_factory=dict)
    structs: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.taken.update(f"{self.prefix}_{name}" for name in OWN)

    def function(self, name: str) -> str:
        """Returns the name of a function in C."""
        if name not in self.functions:
            self.functions[name] = self._unused(f"{self.prefix}_{c_name(name)}")
        return self.functions[name]

    def of(self, part: Part, export: Export, given: bool, axes: int = 0) -> str | None:
        """The type of a value, None for one of nothing. given: as an argument; axes: of arrays around it."""
        match part:
            case Leaf("str", shape):
                if shape or axes:
                    raise not_exported(export, "C has no arrays of texts", "pass numbers, or build a wheel")
                return "const char *" if given else "char *"
            case Leaf(dtype, shape):
                return self.array(dtype, axes + len(shape)) if shape or axes else DTYPES[dtype].c
            case Items(items):
                names = [f"item{k}" for k in range(len(items))]
                return self._struct("tuple", names, items, export, given, axes) if items else None
            case Fields(type, items):
                return self._struct(type.__name__, field_names(type), items, export, given, axes)
            case Choice(types, variants):
                if any(leaf.shape or leaf.dtype == "str" for v in variants for leaf in leaves_of(v)) or axes:
                    raise not_exported(export, "C gets no enum that holds arrays or texts", "build a wheel")
                return self._enum(types, variants, export, given)
            case Rows(shape, element):
                return self.of(element, export, given, axes + len(shape))
            case Tree():
                raise not_exported(export, "a value that contains itself has no form in C", "build a wheel")
            case Code():
                raise AssertionError("refused before")

    def array(self, dtype: str, rank: int) -> str:
        key = dtype, rank
        if key not in self.arrays:
            self.arrays[key] = self._unused(f"{self.prefix}_{dtype}_{rank}d")
            pointer = f"{DTYPES[dtype].c_element} *data"
            bits = f" /* the bits of {dtype} */" if DTYPES[dtype].is_half else ""
            self.lines.append(f"typedef struct {{ {pointer}; int64_t size[{rank}]; }} {self.arrays[key]};{bits}")
        return self.arrays[key]

    def _struct(
        self, name: str, names: Sequence[str], items: Sequence[Part], export: Export, given: bool, axes: int
    ) -> str | None:
        pairs = [(self.of(i, export, given, axes), n) for n, i in zip(names, items, strict=True)]
        return self._named(name, [(t, n) for t, n in pairs if t is not None])

    def _named(self, name: str, fields: Sequence[tuple[str, str]]) -> str:
        key = ((name, ""), *fields)
        if key not in self.structs:
            self.structs[key] = self._unused(f"{self.prefix}_{c_name(name)}")
            inner = "".join(f"    {declared(t, n)};\n" for t, n in fields) or "    char nothing;\n"
            self.lines.append(f"typedef struct {{\n{inner}}} {self.structs[key]};")
        return self.structs[key]

    def _enum(
        self, types: Sequence[type | None], variants: Sequence[Sequence[Part]], export: Export, given: bool
    ) -> str:
        """A struct with a number, for which there are names, and a part for each variant that holds something."""
        names = ["None" if t is None else t.__name__ for t in types]
        whole = next((name for t in types if (name := enum_name(t)) is not None), "Enum")
        fields = [("int64_t", "tag")]
        for t, name, items in zip(types, names, variants, strict=True):
            if items and t is not None:
                pairs = [(self.of(i, export, given), n) for n, i in zip(field_names(t), items, strict=True)]
                inner = " ".join(f"{declared(kind, n)};" for kind, n in pairs if kind is not None)
                fields.append((f"struct {{ {inner} }}", f"of_{c_name(name)}"))
        before = len(self.structs)
        struct_name = self._named(whole, fields)
        if len(self.structs) > before:
            tags = ", ".join(f"{struct_name}_{c_name(name)}" for name in names)
            self.lines.append(f"enum {{ {tags} }};")
        return struct_name

    def _unused(self, name: str) -> str:
        free, k = name, 1
        while free in self.taken:
            k += 1
            free = f"{name}_{k}"
        self.taken.add(free)
        return free


def declared(type: str, name: str) -> str:
    return f"{type}{'' if type.endswith('*') else ' '}{name}"


def field_names(type: type) -> list[str]:
    return [c_name(n) for n in fields_of(type)]


def places(part: Part, access: str, axes: tuple[int, ...] = ()) -> Iterator[Place]:
    """The leaves of a value, in order."""
    match part:
        case Leaf(dtype, shape):
            yield Place(access, Leaf(dtype, axes + shape))
        case Items(items):
            for k, item in enumerate(items):
                yield from places(item, f"{access}.item{k}", axes)
        case Fields(type, items):
            for name, item in zip(field_names(type), items, strict=True):
                yield from places(item, f"{access}.{name}", axes)
        case Choice(types, variants):
            yield Place(f"{access}.tag", Leaf("i64", axes), len(types))
            for t, items in zip(types, variants, strict=True):
                if t is not None:
                    for name, item in zip(field_names(t), items, strict=True):
                        yield from places(item, f"{access}.of_{c_name(t.__name__)}.{name}", axes)
        case Rows(shape, element):
            yield from places(element, access, axes + shape)
        case _:
            raise AssertionError("refused before")


# ---- the header ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declared:
    """A function of the header: its parameters with their types, and what its result is, if it has one."""

    export: Export
    name: str
    params: tuple[tuple[str, str], ...]
    result: str | None

    @property
    def head(self) -> str:
        items = [declared(t, n) for t, n in self.params]
        if self.result is not None:
            items.append(declared(self.result, "*result"))
        return f"int {self.name}({', '.join(items) or 'void'})"


def declare(types: Types, e: Export) -> Declared:
    """How C calls a function; what it cannot take or give is refused."""
    params: list[tuple[str, str]] = []
    if e.signature.seed:
        params.append(("int64_t", "seed"))
    for p, part in zip(e.decl.params, e.signature.layout.params, strict=True):
        name = c_name(p.local.name)
        while name in [n for _, n in params]:
            name += "_"
        t = types.of(part, e, given=True)
        if t is not None:
            params.append((t, name))
    result = types.of(e.signature.layout.result, e, given=False)
    return Declared(e, types.function(e.name), tuple(params), result)


def fits_c(e: Export) -> None:
    """Raises for a function that C cannot call."""
    declare(Types(""), e)


def header(built: Built, name: str) -> str:
    """The text of `NAME.h`."""
    prefix = c_name(name)
    types = Types(prefix)
    functions = [declare(types, e) for e in built.exports]
    guard = f"{prefix.upper()}_H"
    out = [_INTRODUCTION.format(prefix=prefix, guard=guard, processor=built.processor.name), *types.lines, ""]
    for f in functions:
        out += [_comment(f.export), f"{f.head};", ""]
    out += [_COMMON.format(prefix=prefix), "#ifdef __cplusplus", "}", "#endif", "#endif", ""]
    return "\n".join(out)


def _comment(e: Export) -> str:
    lines = [f"{e.name}: {scheme_text(e.decl)}", *e.decl.doc.strip().splitlines()]
    return "/* " + "\n   ".join(lines).replace("*/", "* /").replace("/*", "/ *") + " */"


_INTRODUCTION = """\
/* Functions that dlang has compiled, for {processor}.

   Each gives 0, or 1 after a failure; `{prefix}_message()` then says what was wrong. They may be called by several
   threads at once. Arrays lie in memory by rows and without gaps, and are not changed. On `seed` the random numbers
   depend that a function draws.

   A result is written to `*result`, which has to be set before: where a pointer in it is NULL, memory is allocated, to
   be freed by `{prefix}_free`; where it is not, the result goes there, `size` says how large that is, and it must not
   overlap with an argument. Texts are always allocated. After a failure `*result` is as it was. */
#ifndef {guard}
#define {guard}
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif
"""
_COMMON = """\
/* What was wrong with the last call in this thread that failed, with the place in the source; and just its code. Both
   are there until the next failure. */
const char *{prefix}_message(void);
const char *{prefix}_error_code(void);
/* Frees what a function has allocated for a result; NULL is nothing. */
void {prefix}_free(void *memory);
/* How many threads work on a large loop, this one included; one for each processor, unless this or the environment
   variable DLANG_THREADS says otherwise. */
int {prefix}_set_threads(int threads);
"""
