"""Programs that look otherwise: comments, line breaks and spaces between their tokens, and long names."""

from __future__ import annotations

import random
from pathlib import Path

from dlang.diagnostics import Source
from dlang.grammar.lexer import tokenize
from dlang.grammar.parser import declarations, parse

ROOT = Path(__file__).parents[2]
FILES = [f for d in ("stdlib", "examples", "tests/programs") for f in sorted((ROOT / d).rglob("*.dl"))]
PARTS = [
    text[start:end]
    for file in FILES
    for text in [file.read_text(encoding="utf-8")]
    for start, end in declarations(text)
]


def scrambled(rng: random.Random) -> tuple[str, int]:
    """Two declarations with changes between some tokens, and how many comments were put there. Some of these texts are
    not well formed any more, as a line may end only where its statement does."""
    text = "".join(rng.choice(PARTS) for _ in range(2))
    kinds = rng.choice(["comment", "space", "line joined", "comment space line joined alone paragraph"]).split()
    share = rng.choice([0.002, 0.01, 0.05])
    suffix = rng.choice(["", "_" + "long" * rng.randrange(1, 7)])
    longer = rng.choice([0.1, 0.4, 1.0])
    names: dict[str, str] = {}
    pieces: list[str] = []
    before = count = 0
    for token in tokenize(text):
        if token.kind == "newline":
            continue
        gap = text[before : token.start]
        if rng.random() < share:
            match rng.choice(kinds):
                case "comment":
                    gap += f" # behind {count}\n"
                    count += 1
                case "alone":
                    gap += f"\n# alone {count}\n"
                    count += 1
                case "paragraph":
                    gap += f"\n\n## first {count}\n\n\n # second {count + 1}\n\n"
                    count += 2
                case "space":
                    gap += "   "
                case "line":
                    gap += "\n     "
                case _ if "#" not in gap:
                    gap = " "
        written = token.text
        if token.kind in ("NAME", "UNAME"):
            written = names.setdefault(token.text, token.text + (suffix if rng.random() < longer else ""))
        pieces += [gap, written]
        before = token.end
    return "".join([*pieces, text[before:]]), count


def well_formed(text: str) -> bool:
    return not parse(Source("scrambled.dl", text))[1]
