"""What the runtime in c/ has to know of a compiled program, as C: its places, messages and texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dlang.aot.exports import NOT_EXPORTED, Built, Export
from dlang.codegen.llvm import pool, support
from dlang.codegen.llvm.processors import Processor
from dlang.codegen.llvm.sites import Signature, Site
from dlang.codegen.llvm.symbols import entry_symbol, text_symbol
from dlang.codegen.sorting import KEYS
from dlang.diagnostics import DlangError, Span, error, excerpt
from dlang.ir.terms import DTYPES, is_handle
from dlang.runtime.platform.threads import MOST

KINDS = {"check": "DL_CHECK", "memory": "DL_MEMORY", "stack": "DL_STACK", "interrupt": "DL_STOPPED", "call": "DL_CALL"}
HOST = {
    "format": "DL_FORMAT", "order": "DL_ORDER", "print": "DL_PRINT", "library": "DL_LIBRARY",
    "io.read_clock": "DL_CLOCK", "io.read_text": "DL_READ_TEXT", "io.write_text": "DL_WRITE_TEXT",
    "io.read_csv": "DL_READ_CSV", "io.write_csv": "DL_WRITE_CSV", "io.read_npy": "DL_READ_NPY",
    "io.write_npy": "DL_WRITE_NPY", "io.progress": "DL_PROGRESS",
}  # fmt: skip
"""What the runtime does of the host's work."""
READ = ("io.read_csv", "io.read_npy")
NUMBERS = frozenset(DTYPES) - {"bf16", "str"}
"""What is read and written."""
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
"""Where the processor says what it has: the bits of words that its instruction `cpuid` gives, by leaf and register."""


def layout(built: Built) -> str:
    """The words of contexts and pools, and what the code was made for."""
    words = {
        name: getattr(support, name)
        for name in (
            "SITE", "STACK_LIMIT", "CALLBACK", "CALLS", "ARENA_TOP", "ARENA_LIMIT", "ARENA_END", "DEADLINE", "INTERVAL",
            "POOL", "TRACE", "TRACE_LENGTH", "SLOTS", "LOOK", "DEEPER", "START", "FINE",
        )
    }  # fmt: skip
    for name in ("THREADS", "STARTED", "CLOSING", "CHANGES", "EPOCH", "POOL_WORDS", "OF_POOL", "NUMBER"):
        words[name] = getattr(pool, name)
    words |= {"WORKER_CONTEXT": pool.WORKER_CONTEXT, "WORKER_WORDS": pool.WORKER_WORDS, "MOST_THREADS": MOST}
    words["ROOM"] = max(built.compiled.words, support.MESSAGE_ROOM)
    lines = [f"#define DL_{name} ({value})" for name, value in words.items()]
    return "\n".join([*lines, f"#define DL_PROCESSOR {quoted(built.processor.name)}", ""])


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


def definitions(built: Built) -> str:
    """The sites, entries and texts of a program, for `runtime.h`."""
    w = Writer()
    sites = [_site(w, k, site) for k, site in enumerate(built.compiled.sites)]
    w.lines.append("const dl_site dl_sites[] = {\n    " + ",\n    ".join(sites) + "\n};")
    for k, e in enumerate(built.exports):
        w.lines += _entry(w, k, e, built)
    w.lines += _texts(built.compiled.texts)
    w.lines += [_processor(built.processor), _libraries(built.compiled.imports)]
    w.lines += [_jump(name, target) for name, target in built.compiled.foreign]
    return "\n".join(w.lines)


def _site(w: Writer, k: int, site: Site) -> str:
    if site.kind == "runtime" and not is_done(site):
        raise unsupported(site)
    kind = HOST[site.name] if site.kind == "runtime" else KINDS[site.kind]
    values, count = w.array("dl_signature", f"values_{k}", [signature(s) for s in _values(site)]).split(", ")
    parts = w.array("char *const", f"parts_{k}", [quoted(p) for p in site.parts]).split(", ")[0]
    label = site.name if site.kind == "call" else ""
    place, calls = w.place(label, site.span), w.calls(f"calls_{k}", site.span)
    wanted = signature(Signature(site.parts[0], int(site.parts[1]))) if site.name in READ else "{0, 0}"
    return f"{{{kind}, {quoted(site.name)}, {place}, {calls}, {parts}, {count}, {values}, {wanted}}}"


def is_done(site: Site) -> bool:
    """Whether the runtime does what a place of the program leaves to the host."""
    match site.name:
        case "library" if site.parts[0] == "argsort":
            return site.args[0].dtype in KEYS
        case "io.read_csv" | "io.read_npy":
            return site.parts[0] in NUMBERS
        case "io.write_csv" | "io.write_npy":
            return site.args[-1].dtype in NUMBERS
        case name:
            return name in HOST


def _values(site: Site) -> Iterable[Signature]:
    """What the runtime reads before it writes results; of a check, what its message shows."""
    return site.args if site.name in HOST or site.kind != "runtime" else (*site.args, *site.outs)


def signature(s: Signature) -> str:
    dtype = "i64" if is_handle(s.dtype) else s.dtype
    return f"{{&dl_{dtype}, {s.rank}}}"


def unsupported(site: Site) -> DlangError:
    """The work that a place of the program leaves to Python."""
    match site.name:
        case "foreign":
            what, help = f"`{site.parts[0]}` is a function of Python", "write it in the language, or in C"
        case "library":
            what, help = "these keys are sorted by NumPy", "sort numbers of 32 or 64 bits"
        case name if name in HOST:
            what, help = "only numbers that C knows are read and written without it", "convert them to f32 or f64"
        case _:
            what = "this reads or writes a file by means of Python"
            help = "`io.npy`, `io.csv` and `io.text` and what saves such files are there without it"
    return error(NOT_EXPORTED, f"there is no Python in what is built: {what}", site.span, help=(help,))


def entry_name(k: int) -> str:
    return f"entry_{k}"


def _entry(w: Writer, k: int, e: Export, built: Built) -> list[str]:
    point = built.compiled.entries[e.face.name]
    place = w.place(point.function.label, point.function.span)
    flags = f"{str(point.recursive).lower()}, {str(built.compiled.needs_arena).lower()}"
    return [
        f"extern dl_code code_{k} __asm__({quoted(entry_symbol(e.face.name))});",
        f"static const dl_entry {entry_name(k)} = {{{quoted(e.name)}, {place}, code_{k}, {flags}}};",
    ]


def _texts(texts: Sequence[str]) -> list[str]:
    """Compiled code refers to each by its symbol; they are in order, so that equal ones are found."""
    lines = []
    for k, text in enumerate(texts):
        name = f"text_{k}"
        lines.append(f"extern const dl_text {name} __asm__({quoted(text_symbol(k))}) __attribute__((aligned(8)));")
        lines.append(f"const dl_text {name} = {{{len(text.encode())}, {quoted(text)}}};")
    order = sorted(range(len(texts)), key=lambda k: texts[k].encode())
    items = ", ".join(f"&text_{k}" for k in order) or "0"
    lines.append(f"const dl_text *const dl_program_texts[] = {{{items}}};")
    lines.append(f"const size_t dl_program_text_count = {len(texts)};")
    return lines


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
