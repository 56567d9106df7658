"""LLVM text that reads and writes words which lie in a row."""

from __future__ import annotations


def loaded(at: str, *names: str) -> str:
    """The lines that load the words from an address on, under these names. at: the name of the address."""
    lines = [f"  %{names[0]} = load i64, ptr %{at}"]
    for k, name in enumerate(names[1:], 1):
        lines += [f"  %{name}.p = getelementptr i64, ptr %{at}, i64 {k}", f"  %{name} = load i64, ptr %{name}.p"]
    return "\n".join(lines)


def stored(at: str, *values: str) -> str:
    """The lines that store words from an address on. at: the name of the address."""
    lines = [f"  store i64 {values[0]}, ptr %{at}"]
    for k, value in enumerate(values[1:], 1):
        lines += [f"  %{at}.{k} = getelementptr i64, ptr %{at}, i64 {k}", f"  store i64 {value}, ptr %{at}.{k}"]
    return "\n".join(lines)
