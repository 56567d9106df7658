"""Clocks and counters of a program that measures itself, in one array of words: what each nest took, and when.

    words:  for each nest: calls · ticks · bytes · operations        then: events · for each: nest · begin · end

Ticks are those of the processor's clock. A nest's are its own: those of nests inside are taken off, for which a context
keeps how much has been measured in it. Counts may come from several threads.

Marks on a device around what it is asked for, in a program that measures itself: when it begins and ends there.

A mark is an event of CUDA, which the device notes when it comes to it; nobody waits. Marks are in one array of words,
which the run hands out, with as many events as it has room for; Python reads them when there is no more, and at the end
of the run.

    words:  the function that marks · how many pairs there are · the nest under way · for each pair: begin · end · nest
"""

from __future__ import annotations

from dlang.codegen import loops
from dlang.codegen.abi import PROFILE
from dlang.codegen.llvm import support
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.writer import Writer

CALLS, TICKS, BYTES, OPERATIONS = range(4)
ROW = 4  # words of a nest
EVENT = 3  # words of an event
EVENTS = 1 << 16  # that are kept; later ones are only counted


def words(nests: int) -> int:
    """How many words the array has."""
    return nests * ROW + 1 + EVENTS * EVENT


def definitions(nests: int) -> str:
    """The array, and what reads the clock."""
    clock = "declare i64 @llvm.readcyclecounter()\n"
    return f"@{PROFILE} = global [{words(nests)} x i64] zeroinitializer, align 64\n{clock}"


def enter(w: Writer, stmt: loops.Enter) -> None:
    _add(w, _counter(w, str(stmt.nest), CALLS), "1")
    inside = w.emit(f"load i64, ptr {w.in_context(support.MEASURED)}")
    w.clocks[stmt.nest] = w.emit("call i64 @llvm.readcyclecounter()"), inside


def leave(w: Writer, stmt: loops.Leave) -> None:
    end = w.emit("call i64 @llvm.readcyclecounter()")
    begin, before = w.clocks.pop(stmt.nest)
    ticks = w.emit(f"sub i64 {end}, {begin}")
    address = w.in_context(support.MEASURED)
    inside = w.emit(f"sub i64 {w.emit(f'load i64, ptr {address}')}, {before}")
    _add(w, _counter(w, str(stmt.nest), TICKS), w.emit(f"sub i64 {ticks}, {inside}"))
    w.code.append(f"  store i64 {w.emit(f'add i64 {before}, {ticks}')}, ptr {address}")
    _note(w, stmt.nest, begin, end)


def _note(w: Writer, nest: int, begin: str, end: str) -> None:
    """Keeps an event, while there is room."""
    events = len(w.program.nests) * ROW
    number = w.emit(f"atomicrmw add ptr {_word(w, str(events))}, i64 1 monotonic")
    keeping, kept = w.label("keep"), w.label("kept")
    w.fork(w.emit(f"icmp ult i64 {number}, {EVENTS}"), keeping, kept)
    w.begin(keeping)
    first = w.emit(f"add i64 {w.emit(f'mul i64 {number}, {EVENT}')}, {events + 1}")
    for k, value in enumerate((str(nest), begin, end)):
        w.code.append(f"  store i64 {value}, ptr {_word(w, w.emit(f'add i64 {first}, {k}'))}")
    w.jump(kept)
    w.begin(kept)


def count(w: Writer, stmt: loops.Count) -> None:
    nest = w.scalar(stmt.nest)
    for counter, size in ((BYTES, stmt.bytes), (OPERATIONS, stmt.operations)):
        if size.terms:
            amount = size_value(w, size)
            if w.lane is not None:
                amount = w.emit(f"mul i64 {amount}, {_lanes(w)}")
            _add(w, _counter(w, nest, counter), amount)


def _lanes(w: Writer) -> str:
    """How many lanes are in use."""
    assert w.lane is not None
    if w.lane.mask is None:
        return str(w.lane.width)
    bits = w.emit(f"bitcast <{w.lane.width} x i1> {w.lane.mask} to i{w.lane.width}")
    return w.ops().intrinsic("ctpop", "i64", w.emit(f"zext i{w.lane.width} {bits} to i64"))


def _word(w: Writer, word: str) -> str:
    return w.emit(f"getelementptr i64, ptr @{PROFILE}, i64 {word}")


def _counter(w: Writer, nest: str, counter: int) -> str:
    if nest.isdigit():
        return _word(w, str(int(nest) * ROW + counter))
    return _word(w, w.emit(f"add i64 {w.emit(f'mul i64 {nest}, {ROW}')}, {counter}"))


def _add(w: Writer, address: str, amount: str) -> None:
    w.emit(f"atomicrmw add ptr {address}, i64 {amount} monotonic")


# ---- marks on a device -----------------------------------------------------------------------------------------------
RECORD, COUNT, NEST, PAIRS = range(4)
PAIR = 3  # words of a pair of marks
ROOM = 4096  # pairs


def nest(w: Writer) -> int | None:
    """The nest that is under way; None in a program that does not measure itself."""
    return next(reversed(w.clocks), None)


def begin(w: Writer, marks: str, number: int, stream: str) -> tuple[str, str]:
    """Marks the beginning; gives the address of the pair, and what the function that marks gives.

    marks: the address of the array.
    """
    count = w.emit(f"load i64, ptr {_word_of(w, marks, COUNT)}")
    pair = _word_of(w, marks, w.emit(f"add i64 {w.emit(f'mul i64 {count}, {PAIR}')}, {PAIRS}"))
    w.code.append(f"  store i64 {number}, ptr {_word_of(w, pair, 2)}")
    return pair, _mark(w, marks, pair, 0, stream)


def end(w: Writer, marks: str, pair: str, stream: str) -> tuple[str, str]:
    """Marks the end; gives what the function that marks gives, and how many pairs there are now."""
    status = _mark(w, marks, pair, 1, stream)
    place = _word_of(w, marks, COUNT)
    count = w.emit(f"add i64 {w.emit(f'load i64, ptr {place}')}, 1")
    w.code.append(f"  store i64 {count}, ptr {place}")
    return status, count


def under_way(w: Writer, marks: str, number: int) -> None:
    """Says which nest it is that Python will do something for."""
    w.code.append(f"  store i64 {number}, ptr {_word_of(w, marks, NEST)}")


def _mark(w: Writer, marks: str, pair: str, which: int, stream: str) -> str:
    function = w.emit(f"load ptr, ptr {_word_of(w, marks, RECORD)}")
    event = w.emit(f"load i64, ptr {_word_of(w, pair, which)}")
    return w.emit(f"call i32 {function}(i64 {event}, i64 {stream})")


def _word_of(w: Writer, base: str, word: int | str) -> str:
    return w.emit(f"getelementptr i64, ptr {base}, i64 {word}")
