"""Imports: where modules are found, what they show, what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.diagnostics import Source
from dlang.typecheck.program import check_expression, check_file, check_source, scheme_text
from tests.typecheck.support import accepted, check, refused, words

SHAPES = """
struct Box { width: f64, height: f64 }
enum Color { Red, Mixed(f64, f64, f64) }
const sides = 4
fn area(b: Box) -> f64 = _checked(b.width) * b.height
fn _checked(x: f64) -> f64 { assert x >= 0.0; x }
"""


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.dl").write_text(text, encoding="utf-8")


def test_a_module_is_found_beside_the_importing_file(tmp_path: Path) -> None:
    main = (
        "import shapes\nimport shapes as s\nimport shapes { Box, area, Color, sides }\n"
        "fn f(b: Box) -> f64 = shapes.area(b) + s.area(b) + area(Box(1.0, 2.0))\n"
        "fn g(c: Color) -> f64 = match c { Red => 0.0, Mixed(r, _, _) => r }\n"
        "fn h(x: f64[sides]) -> i64 = sides + shapes.sides\n"
    )
    write(tmp_path, shapes=SHAPES, main=main)
    checked = check_file(tmp_path / "main.dl")
    assert not checked.diagnostics, [words(d) for d in checked.diagnostics]
    assert set(checked.modules) >= {"main", "shapes"}
    assert scheme_text(checked.module.functions["h"]) == "(f64[4]) -> i64"


def test_a_module_is_found_on_the_search_path_and_in_folders(tmp_path: Path) -> None:
    library = tmp_path / "library" / "deep"
    library.mkdir(parents=True)
    write(library, shapes=SHAPES)
    text = "import deep.shapes\nfn f() -> f64 = shapes.area(shapes.area)\n"
    checked = check_source(Source(str(tmp_path / "main.dl"), text), (tmp_path / "library",))
    assert [d.code for d in checked.diagnostics] == ["E0301"]


def test_private_names_stay_private(tmp_path: Path) -> None:
    write(tmp_path, shapes=SHAPES, main="import shapes\nfn f(x: f64) -> f64 = shapes._checked(x)\n")
    (d,) = check_file(tmp_path / "main.dl").diagnostics
    assert d.code == "E0205"


def test_a_name_that_a_module_lacks_is_suggested(tmp_path: Path) -> None:
    write(tmp_path, shapes=SHAPES, main="import shapes\nfn f() = shapes.aera(1.0)\n")
    (d,) = check_file(tmp_path / "main.dl").diagnostics
    assert d.code == "E0206" and "`area`" in words(d)


def test_modules_that_import_one_another_are_refused(tmp_path: Path) -> None:
    write(tmp_path, a="import b\nfn f() = 1\n", b="import a\nfn g() = 2\n")
    found = check_file(tmp_path / "a.dl").diagnostics
    assert [d.code for d in found] == ["E0204"]
    assert "a → b → a" in found[0].message


def test_mistakes_in_an_imported_module_are_reported_there(tmp_path: Path) -> None:
    write(tmp_path, bad="fn g() -> f64 = true\n", main="import bad\nfn f() = bad.g()\n")
    (d,) = check_file(tmp_path / "main.dl").diagnostics
    assert d.span is not None and d.span.source.path.endswith("bad.dl")


def test_a_script_cannot_be_imported(tmp_path: Path) -> None:
    write(tmp_path, script='let x = 1\nprint("{x}")\n', main="import script\n")
    (d,) = check_file(tmp_path / "main.dl").diagnostics
    assert "script" in d.message


def test_a_script_is_a_block_of_statements() -> None:
    checked = accepted('fn f(x) = 2 * x\nlet y = f(3)\nprint("{y}")\ny + 1\n')
    assert checked.module.script is not None and checked.module.script.body is not None
    assert checked.module.script.effects == {"print"}


def test_own_names_shadow_the_prelude() -> None:
    checked = accepted(
        "enum Option { Yes, No }\nfn map(x: f64) -> f64 = x\nfn sum(x: f64) -> i64 = 1\n"
        "fn f(o: Option) = (map(1.0), sum(2.0), match o { Yes => 1, No => 2 })\n"
    )
    assert scheme_text(checked.module.functions["f"]) == "(Option) -> (f64, i64, i64)"


def test_the_prelude_has_its_types() -> None:
    text = "fn f(x: Option<f64>) -> List<f64> = match x { Some(v) => Cons(v, Nil), None => Nil }\n"
    assert scheme_text(accepted(text).module.functions["f"]) == "(Option<f64>) -> List<f64>"


def test_an_expression_is_checked_in_the_scope_of_a_module() -> None:
    checked = accepted("fn double(x) = 2 * x\nconst k = 3\n")
    decl, problems = check_expression(checked, Source("<e>", "double(1.5) + f64(k)"))
    assert not problems and decl is not None and decl.result is not None
    assert scheme_text(decl) == "() -> f64"
    decl, problems = check_expression(checked, Source("<e>", "double(missing)"))
    assert decl is None and [d.code for d in problems] == ["E0201"]


def test_checking_is_the_same_in_any_order_of_declarations() -> None:
    text = ["fn f(x) = g(x) + 1.0\n", "fn g(x) = h(x, k)\n", "fn h(x, n) = x ** n\n", "const k = 2\n"]
    forward, backward = check("".join(text)), check("".join(reversed(text)))
    for name in ("f", "g", "h"):
        assert scheme_text(forward.module.functions[name]) == scheme_text(backward.module.functions[name])


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    import pytest

    from dlang.diagnostics import DlangError

    with pytest.raises(DlangError, match="E0951"):
        check_file(tmp_path / "missing.dl")


def test_a_type_of_another_module_is_another_type(tmp_path: Path) -> None:
    write(tmp_path, shapes=SHAPES, main="import shapes\nstruct Box { width: f64 }\nfn f(b: Box) = shapes.area(b)\n")
    (d,) = check_file(tmp_path / "main.dl").diagnostics
    assert "Box" in d.message


def test_messages_of_a_repeated_mistake_are_separate() -> None:
    found = check("fn f() = missing\nfn g() = missing\n").diagnostics
    assert len(found) == 2
    assert refused("fn f() = missing\n").code == "E0201"


TREES = """
struct Box<n> { w: f64[n] }
enum Shape { Round(f64), Square(side: f64), Empty }
type Row<n> = f64[n]
"""


def test_types_and_constructors_of_a_module_that_is_imported_whole(tmp_path: Path) -> None:
    main = """
import trees
import trees as t
struct Two<m> { a: trees.Box<m>, b: t.Row<m + 1>[2] }
fn total(b: trees.Box<n>) -> f64 = sum(b.w)
fn twice(b: t.Box<n>) -> trees.Box<n> = trees.Box(..b, w = 2.0 * b.w)
fn opened(trees.Box(w): t.Box<n>) -> f64 = sum(w)
fn made(x: f64[n]) -> trees.Shape[n] = map(trees.Round, x)
fn name(s: trees.Shape) -> i64 = match s {
  trees.Round(r) => 1
  t.Square(side = q) if q > 1.0 => 2
  trees.Square(_) => 3
  t.Empty => 4
}
"""
    write(tmp_path, trees=TREES, main=main)
    checked = check_file(tmp_path / "main.dl")
    assert not checked.diagnostics, [words(d) for d in checked.diagnostics]
    assert scheme_text(checked.module.functions["twice"]) == "(Box<n>) -> Box<n>"


def test_what_a_module_does_not_have_is_named_with_it(tmp_path: Path) -> None:
    wrong = {
        "fn f(x: trees.Bax<3>) = x": ("E0206", "`trees` has no type `Bax`", "`Box`"),
        "fn f(x: nope.Box<3>) = x": ("E0201", "no module `nope`"),
        "fn f() = trees.Rond(1.0)": ("E0206", "no constructor `Rond`", "`Round`"),
        "fn f(x) = match x { trees.Nothing => 1, _ => 2 }": ("E0206", "no constructor `Nothing`"),
        "fn f(x: trees.Box) = x": ("E0314", "`trees.Box<n>`"),
        "fn f(x: optim.Minimum<f64>) = x": ("E0201", "`import optim`"),
    }
    for text, said in wrong.items():
        write(tmp_path, trees=TREES, main=f"import trees\n{text}\n")
        (found,) = check_file(tmp_path / "main.dl").diagnostics
        assert all(w in words(found) for w in said), words(found)


def test_a_file_that_hides_a_module_of_the_library_is_named(tmp_path: Path) -> None:
    write(tmp_path, math="import math\nfn f() = math.pi\n", one="import two\n", two="import one\n")
    (found,) = check_file(tmp_path / "math.dl").diagnostics
    assert found.code == "E0204" and found.help == (
        "`math.dl` hides a module of the library: give the file another name",
    )
    (found,) = check_file(tmp_path / "one.dl").diagnostics
    assert found.code == "E0204" and found.help == (
        "put what they share into a module of its own, which each of them imports",
    )
    write(tmp_path, own="import own\n")
    (found,) = check_file(tmp_path / "own.dl").diagnostics
    assert found.message == "the module `own` imports itself" and found.help[0].startswith("leave the import out")


def test_a_file_may_have_the_name_of_a_module_that_the_library_imports(tmp_path: Path) -> None:
    write(tmp_path, random="import nn\nfn f(x: f64) -> f64 = nn.relu(x)\n")
    checked = check_file(tmp_path / "random.dl")
    assert not checked.diagnostics, [words(d) for d in checked.diagnostics]


OTHER = "fn area(x: f64) -> f64 = x\nenum Paint { Red, Blue }\nconst sides = 5\nstruct Box { side: f64 }\n"
COLLISIONS = {
    "import shapes { area }\nimport other { area }": ["`area` is imported twice, from `shapes` and from `other`"],
    "import shapes { sides, Box }\nimport other { Box, sides }": ["the type `Box` is", "`sides` is imported twice"],
    "import shapes { Color }\nimport other { Paint }": ["the constructor `Red` is imported twice"],
    "import shapes as s\nimport other as s": ["`s` is imported twice, from `shapes` and from `other`"],
    "import shapes as area\nimport other { area }": ["`area` is imported twice"],
    "import shapes { area }\nfn area(x: f64) -> f64 = x": ["`area` is imported and declared"],
    "import shapes\nconst shapes = 3": ["`shapes` is imported and declared"],
    "import shapes { Box }\ntype Box = f64": ["the type `Box` is imported and declared"],
    "import shapes { Color }\nenum Traffic { Red, Green }": ["the constructor `Red` is imported and declared"],
}


@pytest.mark.parametrize("text", COLLISIONS)
def test_imports_and_declarations_give_a_name_one_meaning(tmp_path: Path, text: str) -> None:
    write(tmp_path, shapes=SHAPES, other=OTHER, main=text + "\n")
    found = check_file(tmp_path / "main.dl").diagnostics
    assert [d.code for d in found] == ["E0202"] * len(COLLISIONS[text])
    for d, message in zip(found, COLLISIONS[text], strict=True):
        assert message in d.message
        (note,) = d.notes
        assert note.span is not None and d.span is not None and note.span.first < d.span.first


def test_one_thing_may_be_imported_again(tmp_path: Path) -> None:
    main = (
        "import shapes { Box, area, Color }\nimport shapes { Color, Red, area }\nimport shapes\nimport shapes\n"
        "import other\nfn f(b: Box) -> f64 = area(b) + shapes.area(b) + other.area(1.0)\n"
    )
    write(tmp_path, shapes=SHAPES, other=OTHER, main=main)
    assert not check_file(tmp_path / "main.dl").diagnostics
