"""Functions that XLA calls: a C function that reads the frame of a call and runs an entry of compiled code.

XLA knows the sizes of all arrays when it compiles a program, so the words of an entry's arguments are constants but for
the addresses of arrays and for scalars, which lie in memory too. The layout of a frame is that of XLA's
`ffi/api/c_api.h`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlang.codegen.abi import entry_symbol
from dlang.codegen.llvm.support import CALLS, DEADLINE, INTERVAL
from dlang.ops.dtypes import DTYPES, TRUNCATED

NAME = "xla"
API, ARGUMENTS, RESULTS = 16, 72, 112  # in a frame: what XLA offers, and the arrays of its buffers
EXTENSION, EXTENSION_TYPE, METADATA = 8, 8, 24  # a frame that only asks for the version of the interface has one
DATA = 24  # of a buffer
VERSION, CREATE_ERROR = 32, 48  # of what XLA offers
INTERNAL = 13  # the code of an error
BUSY, FAILED = range(2)
"""The words of a state: whether a run is under way, and what gives the address of the message of a failure."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The value of an argument that is the same at every call."""

    word: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array of XLA's, by its number. dtype: of a scalar, which is read from it."""

    number: int
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A result that the entry gives in its words: which, and the buffer where it goes. bytes: of an array."""

    word: int
    number: int
    dtype: str
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Site:
    """Addresses: of the words of a state, of a context, and of what holds the address of the entry. never: the interval
    of a run that is not asked whether to end."""

    state: int
    context: int
    cell: int
    never: int


def handler(
    site: Site,
    arguments: Sequence[Constant | Buffer],
    outs: Sequence[Buffer | Constant],
    raw: int,
    allocated: Sequence[Made],
) -> str:
    """The text of the function.

    outs: where the entry writes arrays. raw: how many words it gives. allocated: which of these are results.
    """
    lines: list[str] = []

    def name() -> str:
        return f"%v{len(lines)}"

    def emit(text: str) -> str:
        result = name()
        lines.append(f"  {result} = {text}")
        return result

    def do(text: str) -> None:
        lines.append(f"  {text}")

    def at(base: str, offset: int) -> str:
        return emit(f"getelementptr i8, ptr {base}, i64 {offset}")

    def data(which: str, number: int) -> str:
        buffer = emit(f"load ptr, ptr {at(which, 8 * number)}")
        return emit(f"load ptr, ptr {at(buffer, DATA)}")

    given = emit(f"load ptr, ptr {at('%frame', ARGUMENTS)}")
    results = emit(f"load ptr, ptr {at('%frame', RESULTS)}")
    for k, word in enumerate((*arguments, *outs)):
        match word:
            case Constant(value):
                text = str(value)
            case Buffer(number, None):
                text = emit(f"ptrtoint ptr {data(given if k < len(arguments) else results, number)} to i64")
            case Buffer(number, dtype):
                text = _word(emit, data(given, number), dtype or "")
        do(f"store i64 {text}, ptr {at('%words', 8 * k)}")
    for slot, value in ((CALLS, 0), (DEADLINE, 0), (INTERVAL, site.never)):
        do(f"store i64 {value}, ptr inttoptr (i64 {site.context + 8 * slot} to ptr)")
    code = emit(f"load ptr, ptr inttoptr (i64 {site.cell} to ptr)")
    status = emit(f"call i32 {code}(ptr inttoptr (i64 {site.context} to ptr), ptr %words)")
    failed = emit(f"icmp ne i32 {status}, 0")
    do(f"br i1 {failed}, label %failed, label %done")
    lines.append("done:")
    first = len(arguments) + len(outs)
    for m in allocated:
        target, source = data(results, m.number), at("%words", 8 * (first + m.word))
        if m.bytes is not None:
            memory = emit(f"load ptr, ptr {source}")
            do(f"call ptr @memcpy(ptr {target}, ptr {memory}, i64 {m.bytes})")
        else:
            _put(emit, do, emit(f"load i64, ptr {source}"), target, m.dtype)
    return "\n".join([_head(site, first + raw), *lines, _tail(site)])


def _head(site: Site, words: int) -> str:
    return f"""
declare ptr @memcpy(ptr, ptr, i64)
declare void @dl_reclaim(ptr)
declare i32 @sched_yield()

define ptr @{entry_symbol(NAME)}(ptr %frame) nounwind {{
entry:
  %words = alloca [{max(words, 1)} x i64], align 8
  %error = alloca [4 x i64], align 8
  %apip = getelementptr i8, ptr %frame, i64 {API}
  %api = load ptr, ptr %apip
  %extensionp = getelementptr i8, ptr %frame, i64 {EXTENSION}
  %extension = load ptr, ptr %extensionp
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %wait, label %extended
extended:
  %typep = getelementptr i8, ptr %extension, i64 {EXTENSION_TYPE}
  %type = load i32, ptr %typep
  %asks = icmp eq i32 %type, 1
  br i1 %asks, label %version, label %wait
version:
  %metadatap = getelementptr i8, ptr %extension, i64 {METADATA}
  %metadata = load ptr, ptr %metadatap
  %versionp = getelementptr i8, ptr %api, i64 {VERSION}
  %both = load i64, ptr %versionp
  %outp = getelementptr i8, ptr %metadata, i64 24
  store i64 %both, ptr %outp
  %traitsp = getelementptr i8, ptr %metadata, i64 32
  store i32 0, ptr %traitsp
  ret ptr null
wait:
  %pair = cmpxchg ptr inttoptr (i64 {site.state + 8 * BUSY} to ptr), i64 0, i64 1 acquire monotonic
  %free = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %free, label %run, label %yield
yield:
  %ignored = call i32 @sched_yield()
  br label %wait
run:"""


def _tail(site: Site) -> str:
    return f"""
  call void @dl_reclaim(ptr inttoptr (i64 {site.context} to ptr))
  store atomic i64 0, ptr inttoptr (i64 {site.state + 8 * BUSY} to ptr) release, align 8
  ret ptr null
failed:
  %tell = load ptr, ptr inttoptr (i64 {site.state + 8 * FAILED} to ptr)
  %message = call ptr %tell()
  call void @dl_reclaim(ptr inttoptr (i64 {site.context} to ptr))
  store i64 32, ptr %error
  %nextp = getelementptr i8, ptr %error, i64 8
  store ptr null, ptr %nextp
  %messagep = getelementptr i8, ptr %error, i64 16
  store ptr %message, ptr %messagep
  %codep = getelementptr i8, ptr %error, i64 24
  store i64 {INTERNAL}, ptr %codep
  %createp = getelementptr i8, ptr %api, i64 {CREATE_ERROR}
  %create = load ptr, ptr %createp
  %made = call ptr %create(ptr %error)
  store atomic i64 0, ptr inttoptr (i64 {site.state + 8 * BUSY} to ptr) release, align 8
  ret ptr %made
}}
"""


def _element(dtype: str) -> str:
    """The type in which an element is loaded: bits, but for f16, which LLVM widens."""
    return "half" if dtype == "f16" else f"i{DTYPES[dtype].bits}"


def _word(emit: Callable[[str], str], address: str, dtype: str) -> str:
    """A scalar in memory as a word."""
    kind = _element(dtype)
    value = emit(f"load {kind}, ptr {address}")
    if dtype == "f16":
        wide = emit(f"fpext half {value} to float")
        bits = emit(f"bitcast float {wide} to i32")
        return emit(f"zext i32 {bits} to i64")
    if dtype in TRUNCATED:
        return emit(f"shl i64 {emit(f'zext i16 {value} to i64')}, 16")
    if kind == "i64":
        return value
    return emit(f"{'sext' if dtype[0] == 'i' else 'zext'} {kind} {value} to i64")


def _put(emit: Callable[[str], str], do: Callable[[str], None], word: str, target: str, dtype: str) -> None:
    """Writes a word as a scalar in memory."""
    kind = _element(dtype)
    if dtype == "f16":
        bits = emit(f"trunc i64 {word} to i32")
        wide = emit(f"bitcast i32 {bits} to float")
        value = emit(f"fptrunc float {wide} to half")
    elif dtype in TRUNCATED:
        value = emit(f"trunc i64 {emit(f'lshr i64 {word}, 16')} to i16")
    elif dtype == "bool":
        value = emit(f"and i8 {emit(f'trunc i64 {word} to i8')}, 1")
    else:
        value = word if kind == "i64" else emit(f"trunc i64 {word} to {kind}")
    do(f"store {kind} {value}, ptr {target}")
