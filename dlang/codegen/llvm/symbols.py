"""Names the symbols that machine code and the process that loads it share, in characters that any linker takes."""

from __future__ import annotations

PROFILE = "dl.profile"  # the words in which a program that measures itself counts


def entry_symbol(name: str) -> str:
    """The wrapper of a function, which is called from outside."""
    return "entry." + name.encode().hex()


def caller_symbol(name: str) -> str:
    """Returns the name of the function that Python calls directly in the place of a function."""
    return "call." + name.encode().hex()
