"""What people write who come from other languages, and what they are told: `habits.txt` has a program each.

    == what it is about
    a program, in which ‹the mistake› is marked
    -- E0115 the message
    help: what to do

`python -m tests.diagnostics.habits` writes the marks and messages anew; read the difference before you keep it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlang.diagnostics import Diagnostic, Source
from dlang.driver import check

FILE = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True)
class Habit:
    title: str
    marked: str
    told: str

    @property
    def program(self) -> str:
        return self.marked.replace("‹", "").replace("›", "")

    @property
    def text(self) -> str:
        return f"== {self.title}\n{self.marked}\n{self.told}\n"


def read() -> Iterator[Habit]:
    for case in ("\n" + FILE.read_text(encoding="utf-8")).split("\n== ")[1:]:
        title, _, rest = case.partition("\n")
        marked, separator, told = rest.partition("\n-- ")
        yield Habit(title, marked.strip("\n"), (separator + told).strip("\n"))


def told(habit: Habit) -> Habit:
    """The same program, marked where its one mistake is found, with what is said about it."""
    found: list[Diagnostic] = check(Source("program.dl", habit.program + "\n")).diagnostics
    if len(found) != 1 or found[0].span is None:
        return Habit(habit.title, habit.program, "\n".join(f"-- {d.code} {d.message}" for d in found))
    (d,) = found
    program, start, end = habit.program, d.span.first, d.span.last
    marked = f"{program[:start]}‹{program[start:end]}›{program[end:]}"
    return Habit(habit.title, marked, "\n".join([f"-- {d.code} {d.message}", *(f"help: {h}" for h in d.help)]))


if __name__ == "__main__":
    FILE.write_text("\n".join(told(h).text for h in read()), encoding="utf-8")
