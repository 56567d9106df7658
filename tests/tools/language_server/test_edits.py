"""After any edits, a server says what one says that is started on the same text."""

import random
import re
from pathlib import Path

import pytest

lsp = pytest.importorskip("lsprotocol.types")

# ruff: noqa: E402
from dlang.grammar.parser import declarations
from dlang.tools.language_server import actions
from dlang.tools.language_server.actions import inlay_hints
from dlang.tools.language_server.describe import hover
from dlang.tools.language_server.documents import Project
from dlang.tools.language_server.protocol import position_at
from dlang.tools.language_server.references import go_to_definition, highlights
from dlang.tools.language_server.symbols import code_lenses, document_symbols
from dlang.tools.language_server.tokens import semantic_tokens, semantic_tokens_since

ROOT = Path(__file__).parents[3]
FILES = [*sorted((ROOT / "examples").rglob("*.dl")), *sorted((ROOT / "stdlib").glob("*.dl"))]
TYPED = [
    *"()[]{}\n.,=\"\t𝔸", "\n\n", "x", "1.0", " + ", "|>", " as ", "sum(", "return ", "let q = ", "let z = 1\n", "# c\n",
    "## d\n", "import math\n", "fn g(x) = x\n", "struct Q { w: f64 }\n", "enum R { S, T(f64) }\n", "const kk = 3\n",
    'test "t" { assert true }\n',
]  # fmt: skip


def edit(rng, text):
    """The text after something that a person might do."""
    at = rng.randrange(len(text) + 1)
    words = [m.span() for m in re.finditer(r"[A-Za-z_]\w*", text)]
    lines = text.splitlines(keepends=True)
    parts = declarations(text)
    match rng.choices(["type", "delete", "repeat", "cut", "name", "copy", "move"], [35, 20, 10, 10, 15, 5, 5])[0]:
        case "type":
            return text[:at] + rng.choice(TYPED) + text[at:]
        case "delete":
            return text[:at] + text[at + rng.choice([1, 1, 3, 10, 40]) :]
        case "repeat":
            line = rng.randrange(len(lines) + 1)
            return "".join([*lines[:line], rng.choice([*lines, "\n"]), *lines[line:]])
        case "cut" if lines:
            line = rng.randrange(len(lines))
            return "".join([*lines[:line], *lines[line + 1 :]])
        case "name" if words:
            (start, end), other = rng.choice(words), slice(*rng.choice(words))
            return text[:start] + text[other] + text[end:]
        case "copy":
            (start, end), (place, _) = rng.choice(parts), rng.choice(parts)
            return text[:place] + text[start:end] + text[place:]
        case _:
            start, end = rng.choice(parts)
            return text[:start] + text[end:] + text[start:end]


def said(document, seed):
    """What a server says of a document, and of some places in it."""
    everywhere = lsp.Range(lsp.Position(0, 0), lsp.Position(10**6, 0))
    found = {
        "messages": actions.of_document(document),
        "colours": list(semantic_tokens(document).data),
        "symbols": document_symbols(document),
        "lenses": code_lenses(document),
        "hints": inlay_hints(document, everywhere),
    }
    rng = random.Random(seed)
    names = [o.span.first for o in document.analysis.occurrences]
    for offset in rng.sample([*names, *range(0, len(document.text) + 1, 7)], 20) if document.text else ():
        place = position_at(document.analysis.source, offset)
        found[f"hover {offset}"] = hover(document, place)
        found[f"definition {offset}"] = go_to_definition(document, place)
        found[f"highlights {offset}"] = highlights(document, place)
    assert "‹mistake›" not in str(found)
    return found


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(k, marks=pytest.mark.slow) for k in range(10, 500))])
def test_what_is_known_after_edits_is_what_a_fresh_start_knows(seed):
    rng = random.Random(seed)
    path = rng.choice(FILES)
    texts = [path.read_text()]
    document = Project([path.parent]).put(str(path), path.as_uri(), texts[-1], 1)
    said(document, seed)
    for step in range(5):
        if len(texts) > 1 and rng.random() < 0.3:
            texts.pop()  # undone
        else:
            texts.append(edit(rng, texts[-1]))
        document.project.put(str(path), path.as_uri(), texts[-1], step + 2)
        if rng.random() < 0.3:
            continue  # nobody asks before the next edit
        before = document.coloured
        number, data = str(before.number), before.data
        change = semantic_tokens_since(document, number)
        for e in getattr(change, "edits", ()):
            data = [*data[: e.start], *e.data, *data[e.start + e.delete_count :]]
        fresh = Project([path.parent]).put(str(path), path.as_uri(), texts[-1], 1)
        again, expected = said(document, seed), said(fresh, seed)
        wrong = {what: (again[what], expected[what]) for what in expected if again[what] != expected[what]}
        assert wrong == {}, (path.name, texts[-1])
        assert (data if isinstance(change, lsp.SemanticTokensDelta) else change.data) == again["colours"]
