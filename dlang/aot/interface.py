"""The header of a library: its functions as C calls them.

A function gives 0, or 1 after a failure, and writes its result behind a pointer.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlang.aot.c_types import Types, c_name, declared
from dlang.aot.exports import Built, Export
from dlang.typecheck.program import scheme_text


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
    if e.face.seed:
        params.append(("int64_t", "seed"))
    for p, part in zip(e.decl.params, e.face.border.params, strict=True):
        name = c_name(p.local.name)
        while name in [n for _, n in params]:
            name += "_"
        t = types.of(part, e, given=True)
        if t is not None:
            params.append((t, name))
    result = types.of(e.face.border.result, e, given=False)
    return Declared(e, types.function(e.name), tuple(params), result)


def fits_c(e: Export) -> None:
    """Raises for a function that C cannot call."""
    declare(Types(""), e)


def prefix_of(name: str) -> str:
    """Returns the prefix of all names of a library."""
    return c_name(name)


def header(built: Built, name: str) -> str:
    """The text of `NAME.h`."""
    prefix = prefix_of(name)
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
