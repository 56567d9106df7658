"""Writes what the runtime in c/ has to know of a compiled program as C: its places and messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dlang.aot.exports import NOT_EXPORTED, Built, Export
from dlang.codegen.abi import Signature, Site, entry_symbol, holds_reference, words
from dlang.codegen.llvm import collector, pool, support
from dlang.codegen.llvm.collector import node_header
from dlang.codegen.llvm.objects import Processor
from dlang.diagnostics import DlangError, Span, error, excerpt
from dlang.host.saved import Case, Form, Member, decoded, page_text, titles
from dlang.ir.terms import Datatype, Variant, is_handle
from dlang.remedies import REMEDIES
from dlang.runtime.threads import MOST

# ---- definitions of C ------------------------------------------------------------------------------------------------
# Definitions of C, collected: literals, arrays, and places in the program.


def quoted(text: str) -> str:
    """A text as a literal of C."""
    out = ""
    for byte in text.encode():
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        out += chr(byte) if plain else f"\\{byte:03o}"
    return f'"{out}"'


@dataclass(slots=True)
class Writer:
    """Collects definitions; equal ones are one. places: the names of those that are written."""

    lines: list[str] = field(default_factory=list)
    places: dict[Span, tuple[str, int]] = field(default_factory=dict)

    def place(self, label: str, span: Span | None) -> str:
        """A place, as an initialiser."""
        if span is None:
            return f"{{{quoted(label)}, 0, 0}}"
        plain = span.plain
        if plain not in self.places:
            text, width = excerpt(plain)
            name = f"excerpt_{len(self.places)}"
            self.lines.append(f"static const char {name}[] = {quoted(text)};")
            self.places[plain] = name, width
        name, width = self.places[plain]
        return f"{{{quoted(label)}, {name}, {width}}}"

    def calls(self, name: str, span: Span | None) -> str:
        """The calls by which a place was reached, as two values: where they are, and how many."""
        calls = [] if span is None else list(span.calls())
        return self.array("dl_place", name, [self.place(c.label, c.span) for c in calls])

    def array(self, type: str, name: str, items: Sequence[str]) -> str:
        if not items:
            return "0, 0"
        self.lines.append(f"static const {type} {name}[] = {{{', '.join(items)}}};")
        return f"{name}, {len(items)}"


def dtype(name: str) -> str:
    """The address of a dtype; nodes are words."""
    return f"&dl_{'i64' if is_handle(name) else name}"


# ---- the program -----------------------------------------------------------------------------------------------------

KINDS = {"check": "DL_CHECK", "memory": "DL_MEMORY", "stack": "DL_STACK", "interrupt": "DL_STOPPED", "call": "DL_CALL"}
HOST = {
    "format": "DL_FORMAT", "print": "DL_PRINT", "library": "DL_LIBRARY",
    "io.read_clock": "DL_CLOCK", "io.read_exists": "DL_EXISTS",
    "io.read_text": "DL_READ_TEXT", "io.write_text": "DL_WRITE_TEXT",
    "io.read_csv": "DL_READ_CSV", "io.write_csv": "DL_WRITE_CSV", "io.write_row": "DL_WRITE_ROW",
    "io.read_npy": "DL_READ_NPY", "io.write_npy": "DL_WRITE_NPY", "io.read_npz": "DL_READ_NPZ",
    "io.read_value": "DL_READ_VALUE", "io.write_value": "DL_WRITE_VALUE", "io.progress": "DL_PROGRESS",
}  # fmt: skip
"""The host's work that the runtime does."""
READ = ("io.read_csv", "io.read_npy", "io.read_npz")
VALUES = ("io.read_value", "io.write_value")
CHECKED = {
    (1, "ecx"): {
        "sse3": 0, "pclmul": 1, "ssse3": 9, "fma": 12, "cx16": 13, "sse4.1": 19, "sse4.2": 20, "movbe": 22,
        "popcnt": 23, "aes": 25, "xsave": 26, "avx": 28, "f16c": 29,
    },
    (7, "ebx"): {
        "bmi": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "avx512ifma": 21, "avx512cd": 28, "avx512bw": 30,
        "avx512vl": 31,
    },
    (7, "ecx"): {
        "avx512vbmi": 1, "avx512vbmi2": 6, "gfni": 8, "vaes": 9, "vpclmulqdq": 10, "avx512vnni": 11,
        "avx512bitalg": 12, "avx512vpopcntdq": 14,
    },
    (0x80000001, "ecx"): {"sahf": 0, "lzcnt": 5, "sse4a": 6},
}  # fmt: skip
"""The bits by which the processor announces features: in the words of its instruction `cpuid`, by leaf and register."""


def layout(built: Built) -> str:
    """The words of contexts and pools, and what the code was made for."""
    words = {
        name: getattr(support, name)
        for name in (
            "SITE", "STACK_LIMIT", "CALLBACK", "CALLS", "ARENA_TOP", "ARENA_LIMIT", "ARENA_END", "ARENA_SEEN",
            "ARENA_CREDIT", "DEADLINE", "INTERVAL", "POOL", "TRACE", "TRACE_LENGTH", "SLOTS", "LOOK", "DEEPER", "START",
            "FINE",
        )
    }  # fmt: skip
    for name in ("THREADS", "STARTED", "CLOSING", "CHANGES", "EPOCH", "POOL_WORDS", "OF_POOL", "NUMBER"):
        words[name] = getattr(pool, name)
    words |= {"WORKER_CONTEXT": pool.WORKER_CONTEXT, "WORKER_WORDS": pool.WORKER_WORDS, "MOST_THREADS": MOST}
    room = max(built.compiled.words, support.MESSAGE_ROOM)
    words["ROOM"] = 1 << (room - 1).bit_length()  # few sizes, so that what is compiled serves many programs
    for name in ("ARRAY", "OF_REFERENCES", "TAG_SHIFT", "TAG_MASK"):
        words[name] = getattr(collector, name)
    lines = [f"#define DL_{name} ({value})" for name, value in words.items()]
    return "\n".join([*lines, f"#define DL_PROCESSOR {quoted(built.processor.name)}", ""])


def definitions(built: Built) -> str:
    """The sites and entries of a program, for `runtime.h`."""
    w = Writer()
    sites = [_site(w, k, site, built.compiled.datatypes) for k, site in enumerate(built.compiled.sites)]
    w.lines.append("const dl_site dl_sites[] = {\n    " + ",\n    ".join(sites) + "\n};")
    helps = [f"{{{quoted(code)}, {quoted(help)}}}" for code, help in REMEDIES.items() if code.startswith("E08")]
    w.lines.append("const dl_remedy dl_remedies[] = {\n    " + ",\n    ".join([*helps, "{NULL, NULL}"]) + "\n};")
    for k, e in enumerate(built.exports):
        w.lines += _entry(w, k, e, built)
    w.lines += [_processor(built.processor), _libraries(built.compiled.imports)]
    w.lines += [_jump(name, target) for name, target in built.compiled.foreign]
    return "\n".join(w.lines)


def _site(w: Writer, k: int, site: Site, datatypes: Mapping[str, Datatype]) -> str:
    if site.kind == "runtime" and site.name not in HOST:
        raise unsupported(site)
    kind = HOST[site.name] if site.kind == "runtime" else KINDS[site.kind]
    values, count = w.array("dl_signature", f"values_{k}", [signature(s) for s in _values(site)]).split(", ")
    parts = w.array("char *const", f"parts_{k}", [quoted(p) for p in site.parts]).split(", ")[0]
    label = site.name if site.kind == "call" else ""
    place, calls = w.place(label, site.span), w.calls(f"calls_{k}", site.span)
    wanted = signature(Signature(site.parts[0], int(site.parts[1]))) if site.name in READ else "{0, 0}"
    form = write_form(w, f"form_{k}", decoded(site.parts[0]), datatypes) if site.name in VALUES else "0"
    return f"{{{kind}, {quoted(site.name)}, {place}, {calls}, {parts}, {count}, {values}, {wanted}, {form}}}"


def _values(site: Site) -> Iterable[Signature]:
    """Lists the values that the runtime reads before it writes results; for a check, those that its message shows."""
    return site.args if site.name in HOST or site.kind != "runtime" else (*site.args, *site.outs)


def signature(s: Signature) -> str:
    return f"{{{dtype(s.dtype)}, {s.rank}}}"


def unsupported(site: Site) -> DlangError:
    """A place of the program calls a function of Python: all else of the host's work is done without."""
    assert site.name == "foreign", site.name
    message = f"there is no Python in what is built: `{site.parts[0]}` is a function of Python"
    return error(NOT_EXPORTED, message, site.span, help=("write it in the language, or in C",))


def entry_name(k: int) -> str:
    return f"entry_{k}"


def _entry(w: Writer, k: int, e: Export, built: Built) -> list[str]:
    point = built.compiled.entries[e.signature.name]
    place = w.place(point.function.label, point.function.span)
    flags = f"{str(point.recursive).lower()}, {str(built.compiled.needs_arena).lower()}"
    return [
        f"extern dl_code code_{k} __asm__({quoted(entry_symbol(e.signature.name))});",
        f"static const dl_entry {entry_name(k)} = {{{quoted(e.name)}, {place}, code_{k}, {flags}}};",
    ]


def _processor(processor: Processor) -> str:
    rows = [
        f"    {{{quoted(name)}, {leaf:#x}u, {register == 'ebx':d}, {bit}}},"
        for (leaf, register), names in CHECKED.items()
        for name, bit in names.items()
        if name in processor.needs
    ]
    return "\n".join(["const dl_feature dl_features[] = {", *rows, "    {0, 0, 0, 0},", "};"])


def _libraries(imports: Sequence[str]) -> str:
    """OpenBLAS computes on the thread that calls, and takes NaN for an input like any other."""
    if not any(name.startswith("scipy_") for name in imports):
        return "void dl_prepare_libraries(void) {}"
    return (
        "extern void scipy_openblas_set_num_threads(int), scipy_LAPACKE_set_nancheck(int);\n"
        "void dl_prepare_libraries(void) { scipy_openblas_set_num_threads(1); scipy_LAPACKE_set_nancheck(0); }"
    )


def _jump(name: str, target: str) -> str:
    """A function of C under the name that compiled code has for it."""
    symbol = target.rpartition(":")[2]
    lines = f".text\\n.globl {name}\\n.hidden {name}\\n{name}: jmp {symbol}@PLT\\n"
    return f'__asm__("{lines}");'


def write_form(w: Writer, name: str, form: Form, datatypes: Mapping[str, Datatype]) -> str:
    """Defines a `dl_form`; gives its address."""
    named = titles(form)
    types = []
    for k, (of, cases) in enumerate(form.types.items()):
        variants = datatypes[of].variants
        rows = [
            _case(w, f"{name}_{k}_{n}", case, variant, named)
            for n, (case, variant) in enumerate(zip(cases, variants, strict=True))
        ]
        types.append(f"{{{quoted(named[of])}, {w.array('dl_case', f'{name}_{k}', rows)}}}")
    members = _members(w, f"{name}_members", form.members, [0] * len(form.members), named)
    former = "0" if form.former is None else write_form(w, f"{name}_former", form.former, datatypes)
    parts = (members, w.array("dl_node_type", f"{name}_types", types), quoted(page_text(form)), former)
    w.lines.append(f"static const dl_form {name} = {{{', '.join(parts)}}};")
    return f"&{name}"


def _case(w: Writer, name: str, case: Case, variant: Variant, named: Mapping[str, str]) -> str:
    places = words(variant)
    header = node_header(variant.tag, sum(map(holds_reference, variant.fields)), len(variant.fields))
    owned_words = w.array("int", f"{name}_own", list(map(str, places[: case.own]))).split(", ")[0]
    literals = w.array("int64_t", f"{name}_literals", list(map(str, case.literals)))
    members = _members(w, name, case.members, places[case.own :], named)
    parts = (quoted(case.name), f"(int64_t){header}u", str(len(places)), str(case.own), owned_words, literals, members)
    return f"{{{', '.join(parts)}}}"


def _members(w: Writer, name: str, members: Sequence[Member], places: Sequence[int], named: Mapping[str, str]) -> str:
    """An array of `dl_member`, and how many there are. places: their words in a node."""
    numbers = {m.name: k for k, m in enumerate(members)}
    types = list(named)
    rows = []
    for k, (m, word) in enumerate(zip(members, places, strict=True)):
        axes = w.array("int", f"{name}_axes_{k}", list(map(str, m.axes))).split(", ")[0]
        variants = w.array("char *const", f"{name}_variants_{k}", list(map(quoted, m.variants)))
        under = [str(x) for tag, number in m.under for x in (numbers[tag], number)]
        pairs = w.array("int", f"{name}_under_{k}", under).split(", ")[0]
        parts = (
            quoted(m.name), dtype(m.dtype), quoted(named.get(m.dtype, m.dtype)),
            str(types.index(m.dtype) if m.dtype in named else -1), str(word), str(len(m.axes)), axes, variants,
            pairs, str(len(m.under)),
        )  # fmt: skip
        rows.append(f"{{{', '.join(parts)}}}")
    return w.array("dl_member", name, rows)
