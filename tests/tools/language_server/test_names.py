"""Names that are found by scopes alone, compared with those that the checker found."""

from pathlib import Path

import pytest

pytest.importorskip("lsprotocol.types")

from dlang.tools.language_server.documents import Project
from dlang.tools.language_server.names import Local
from dlang.tools.language_server.references import definition
from dlang.typecheck import core
from dlang.typecheck.trees import walk

ROOT = Path(__file__).parents[3]
FILES = [
    *(ROOT / "stdlib").glob("*.dl"),
    *(ROOT / "examples").glob("*.dl"),
    *sorted((ROOT / "tests/programs").rglob("*.dl"))[::6],
]


def opened(path):
    project = Project()
    return project.put(str(path), path.as_uri(), path.read_text(), 1)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_name_stands_for_what_the_checker_says(path):
    document = opened(path)
    analysis = document.analysis
    assert analysis.checked is not None
    by_place = {(o.span.first, o.span.last): o for o in analysis.occurrences}
    for decl in analysis.checked.module.declared():
        for node in walk(decl.body) if decl.body is not None else ():
            match node:
                case core.Ref(span=span, local=local) if local.span is not None and span.text == local.name:
                    target = by_place[span.first, span.last].target
                    assert isinstance(target, Local), span
                    within = local.span.first <= target.span.first <= local.span.last
                    assert target.name == local.name and within, span
                case core.FnRef(span=span, decl=used) if span.text.endswith(used.name):
                    o = by_place.get((span.last - len(used.name), span.last))
                    found = definition(document, o.target) if o is not None else None
                    assert found is not None and found.span is not None, span
                    assert (found.span.source.path, found.span.first) == (used.span.source.path, used.span.first)
                case _:
                    pass
    assert [o.span for o in analysis.occurrences if definition(document, o.target) is None] == []
