"""Ill-formed programs: nesting of every kind, enormous tokens, odd bytes, and mutations of good programs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from dlang.grammar.lexer import tokenize

ROOT = Path(__file__).parents[2]
TEXTS = {
    p.stem: p.read_text(encoding="utf-8")
    for f in ("stdlib", "examples", "tests/programs")
    for p in sorted((ROOT / f).glob("*.dl"))
}
_PIECES = [
    *"()[]{}|=,.:;_x3<>-+*/@!?#\"'\\ \n",
    "fn ",
    "let ",
    "match ",
    "for ",
    "if ",
    "->",
    "=>",
    "..",
    "\0",
    "\r",
    "é",
]

# opening, inside, closing: repeated n times
NESTED = {
    "parentheses": ("(", "1", ")"), "arrays": ("[", "1", "]"), "blocks": ("{", "1", "}"), "minus": ("-", "1", ""),
    "not": ("not ", "true", ""), "powers": ("2 ** ", "1", ""), "lambdas": ("|x| ", "1", ""), "calls": ("f(", "1", ")"),
    "else": ("if true { 1 } else ", "{ 2 }", ""), "if": ("if true { ", "1", " } else { 2 }"), "sum": ("1 + ", "1", ""),
    "match": ("match 1 { _ => ", "1", " }"), "comprehensions": ("[", "1", " for i < 2]"), "open": ("(", "", ""),
    "and": ("true and ", "true", ""), "condition": ("if ", "true", " { true } else { false }"),
    "closed": ("", "1", ")"),
    "pipe": ("", "1", " |> f"), "fields": ("", "f", ".b"), "items": ("", "f", ".0"), "casts": ("", "1.0", " as f64"),
    "indices": ("", "f", "[0]"), "results": ("", "f", "()"), "lets": ("{ let a = ", "1", "\n a }"),
    "open [": ("[", "", ""),
    "loops": ("{ for i < 2 ", "{ }", "}"), "mixed": ("([{", "1", ")]}"),
}  # fmt: skip


def nested(n: int) -> Iterator[tuple[str, str]]:
    for name, (before, inside, after) in NESTED.items():
        yield name, f"fn f() = {before * n}{inside}{after * n}\n"
    yield "types", f"fn f(x: {'(' * n}f64{')' * n}) = 1\n"
    yield "type arguments", f"fn f(x: {'Option<' * n}f64{'>' * n}) = 1\n"
    yield "function types", f"fn f(x: {'f64 -> ' * n}f64) = 1\n"
    yield "axes", f"fn f(x: f64{'[n]' * n}) = 1\n"
    yield "sizes", f"fn f(x: f64[{' + '.join(['n'] * n)}]) = 1\n"
    yield "patterns", f"fn f(x) = match x {{ {'Some(' * n}y{')' * n} => 1, _ => 2 }}\n"
    yield "module path", f"import {'.'.join(['a'] * n)}\n"


def large() -> Iterator[tuple[str, str]]:
    yield "a long string", f'fn f() = "{"x" * 1_000_000}"\n'
    yield "a long name", f"fn f() = {'x' * 1_000_000}\n"
    yield "a long integer", f"fn f() = {'9' * 1_000_000}\n"
    yield "a long index", f"fn f(x: (f64, f64)) = x.{'9' * 100_000}\n"
    yield "junk", "\x01" * 300_000
    yield "quotes", '"' * 100_000
    yield "statements", "fn f() {\nvar a = 1\n" + "a = a + 1\n" * 40_000 + "}\n"
    yield "a script", "1\n" * 50_000
    yield "arms", "fn f(a: i64) = match a {" + "".join(f"{i} => {i}\n" for i in range(5_000)) + " _ => 0 }\n"
    yield "pairs", "fn p(x) = (x, x)\nfn f(x) = " + "p(" * 40 + "x" + ")" * 40 + "\n"
    yield "aliases", "type A0 = f64\n" + "".join(f"type A{i + 1} = (A{i}, A{i})\n" for i in range(30))
    yield "constants", "const c0 = 1\n" + "".join(f"const c{i + 1} = c{i} + 1\n" for i in range(500))


ODD = [
    "",
    "\0",
    "fn f() = 1\0",
    "\ufefffn f() = 1\n",
    "fn f() {\r\n 1\r\n}\r\n",
    "\tfn f() =\t1\n",
    "fn f() = \ud800\n",
]


def mutation(text: str, rng: random.Random) -> str:
    """The text with one token dropped, doubled, or replaced by another, or with something else put in."""
    tokens = [t for t in tokenize(text) if t.kind != "newline"]
    token, other = rng.choice(tokens), rng.choice(tokens)
    new = rng.choice(["", token.text * 2, other.text, f"{token.text} {other.text}"])
    return text[: token.start] + new + text[token.end :]


def scramble(text: str, rng: random.Random) -> str:
    """The text with a few changes of characters."""
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(_PIECES) + text[at + rng.randrange(4) :]
    return text
