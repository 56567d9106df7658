"""Marks on a device around what it is asked for, in a program that measures itself: when it begins and ends there.

A mark is an event of CUDA, which the device notes when it comes to it; nobody waits. Marks are in one array of words,
which the run hands out, with as many events as it has room for; Python reads them when there is no more, and at the end
of the run.

    words:  the function that marks · how many pairs there are · the nest under way · for each pair: begin · end · nest
"""

from __future__ import annotations

from dlang.codegen.llvm.writer import Writer

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
    count = w.emit(f"load i64, ptr {_word(w, marks, COUNT)}")
    pair = _word(w, marks, w.emit(f"add i64 {w.emit(f'mul i64 {count}, {PAIR}')}, {PAIRS}"))
    w.code.append(f"  store i64 {number}, ptr {_word(w, pair, 2)}")
    return pair, _mark(w, marks, pair, 0, stream)


def end(w: Writer, marks: str, pair: str, stream: str) -> tuple[str, str]:
    """Marks the end; gives what the function that marks gives, and how many pairs there are now."""
    status = _mark(w, marks, pair, 1, stream)
    place = _word(w, marks, COUNT)
    count = w.emit(f"add i64 {w.emit(f'load i64, ptr {place}')}, 1")
    w.code.append(f"  store i64 {count}, ptr {place}")
    return status, count


def under_way(w: Writer, marks: str, number: int) -> None:
    """Says which nest it is that Python will do something for."""
    w.code.append(f"  store i64 {number}, ptr {_word(w, marks, NEST)}")


def _mark(w: Writer, marks: str, pair: str, which: int, stream: str) -> str:
    function = w.emit(f"load ptr, ptr {_word(w, marks, RECORD)}")
    event = w.emit(f"load i64, ptr {_word(w, pair, which)}")
    return w.emit(f"call i32 {function}(i64 {event}, i64 {stream})")


def _word(w: Writer, base: str, word: int | str) -> str:
    return w.emit(f"getelementptr i64, ptr {base}, i64 {word}")
