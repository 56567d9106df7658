"""Features as functions of a document and a place: `‸` in a text is the place."""

import textwrap

import pytest

lsp = pytest.importorskip("lsprotocol.types")

# ruff: noqa: E402
from dlang.diagnostics import Source
from dlang.tools.language_server.actions import code_actions, inlay_hints
from dlang.tools.language_server.completion import completion, signature_help
from dlang.tools.language_server.describe import hover
from dlang.tools.language_server.documents import Project
from dlang.tools.language_server.protocol import finished, offset_at, position_at
from dlang.tools.language_server.references import Refused, go_to_definition, references, rename
from dlang.tools.language_server.symbols import code_lenses, document_symbols, fits
from dlang.tools.language_server.tokens import semantic_tokens, semantic_tokens_since


@pytest.fixture
def opened(tmp_path):
    """A document of a text, and the place in it."""

    def opened(text):
        text = textwrap.dedent(text).lstrip("\n")
        offset = text.find("‸")
        text = text.replace("‸", "")
        document = Project([tmp_path]).put(str(tmp_path / "a.dl"), (tmp_path / "a.dl").as_uri(), text, 1)
        return document, position_at(Source("a.dl", text), max(offset, 0))

    return opened


def edited(document, edit):
    """The text after the edits of a rename or an action."""
    text = document.text
    for e in sorted(
        edit.changes[document.uri], key=lambda e: (e.range.start.line, e.range.start.character), reverse=True
    ):
        source = Source("a.dl", text)
        text = text[: offset_at(source, e.range.start)] + e.new_text + text[offset_at(source, e.range.end) :]
    return text


# ---- places ----------------------------------------------------------------------------------------------------------
def test_columns_count_units_of_utf_16():
    source = Source("a.dl", "a𝔸b\r\nθ'\n")
    for offset, place in [(0, (0, 0)), (1, (0, 1)), (2, (0, 3)), (3, (0, 4)), (5, (1, 0)), (7, (1, 2)), (8, (2, 0))]:
        assert position_at(source, offset) == lsp.Position(*place)
        assert offset_at(source, lsp.Position(*place)) == offset
    assert offset_at(source, lsp.Position(0, 2)) == 2  # in the middle of a character
    assert offset_at(source, lsp.Position(1, 99)) == 7
    assert offset_at(source, lsp.Position(99, 0)) == len(source.text)


# ---- hover -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text, shown",
    [
        ("fn f(x: f64[n]) -> f64 = sum(‸x)", "x: f64[n]"),
        ("fn f(x: f64[‸n]) -> f64 = sum(x)", "n: size"),
        ("fn f(x: f64[n]) = x ‸* 2.0", "f64[n]"),
        ("fn f(x: f64[n]) = exp(‸x[1..])", "x: f64[n]"),
        ("fn f(x: f64[n]) {\n  let ‸y = x[1..]\n  y\n}", "let y: f64[n - 1]"),
        ("fn f(x: f64[n]) {\n  var y = x\n  ‸y[0] = 1.0\n  y\n}", "var y: f64[n]"),
        ("fn f(x) = ‸lgamma(x)", "fn lgamma<a: Float>(x: a[..s]) -> a[..s]"),
        ("fn f(x: f64) = ‸f64(x)", "fn f64(x) -> f64"),
        ("fn f(x: ‸f64) = x", "The float of 64 bits"),
        ("import random\nfn ‸f(n: size) = [random.normal() * 2.0 for i < n]", "fn f(n: size) -> f64[n] ! random"),
        ("## Words.\nfn g(x, y = 2.0) = x + y\nfn f(x: f64) = ‸g(x)", "Words."),
        ("struct P { w: f64[3] }\nfn f(p: P) = p.‸w", "w: f64[3]"),
        ("struct P { w: f64[3] }\nfn f() = P(‸w = [1.0, 2.0, 3.0])", "w: f64[3]"),
        ("struct P<n> { w: f64[n] }\nfn f(p: P<4>) = p.‸w", "w: f64[4]"),
        ("enum E { A(r: f64), B }\nfn f(e: E) = match e { ‸A(r) => r, B => 0.0 }", "A(r: f64) -> E"),
        ("const ‸tau = 6.28", "const tau: f64 = 6.28"),
        ("fn f(o: Option<f64>) = match o { ‸Some(x) => x, None => 0.0 }", "Some(a) -> Option<a>"),
        ("import ‸linalg", "import linalg"),
        ("fn f(x: f64[n, m]) = ‸sum(x, axis = 0)", "# gives f64[m] here"),
        ("fn f(x: f64[n, m]) = x |> ‸sum", "# gives f64 here"),
        ("fn g(x: f64) -> f64 = x\nfn f(x: f64) = ‸grad(g)(x)", "# gives (f64) -> f64 here"),
        ("fn f(i: Idx<n>, x: f64[n]) = x[‸i]", "i: Idx<n>"),
        ("## Doc.\nstruct P {\n  ## The weight.\n  w: f64\n}\nfn f(p: P) = p.‸w", "The weight."),
        ("struct P {\n  w: f64  ## The weight.\n}\nfn f(p: P) = p.‸w", "The weight."),
        ("enum E {\n  A\n  ## The second.\n  B(f64)\n}\nfn f() = ‸B(1.0)", "The second."),
        ("## Three.\ntype V = f64[3]\nfn f(v: ‸V) = v", "Three."),
        ('struct P { w: f64 }\nfn f(p: P) -> str = "𝔸 {sqrt(p.‸w)}"', "w: f64"),
        ("fn f(x: f64) {\n  let g = |y| x + y\n  ‸g(x)\n}", "fn g(y: f64[..s]) -> f64[..s]"),
        ("fn f(x: f64[n]) = unknown(1, ‸x * 2.0)", "x: f64[n]"),
        ("fn f(x: f64[n]) = unknown(1, x ‸* 2.0)", "f64[n]"),
        ("fn f(x: f64[n]) = sum(1, 2, 3, sqrt(x) ‸+ 1.0)", "f64[n]"),
        ("fn f(x: f64[n]) = (1.0 + true, x ‸* 2.0)", "f64[n]"),
        ("fn f(x: f64[n]) {\n  let y = x[1..].\n  let z = ‸x + \n", "x: f64[n]"),
    ],
)
def test_hover_shows_what_a_name_is_and_what_an_expression_gives(opened, text, shown):
    document, place = opened(text)
    found = hover(document, place)
    assert found is not None and shown in found.contents.value


# ---- names -----------------------------------------------------------------------------------------------------------
def test_a_definition_is_found_while_the_rest_is_half_written(opened):
    document, place = opened("""
        fn helper(x: f64) -> f64 = x

        fn f(x: f64[n]) {
          let y = ‸helper(
    """)
    assert go_to_definition(document, place).range.start == lsp.Position(0, 3)


def test_the_names_of_a_custom_derivative_and_of_wrt_are_those_of_the_function(opened):
    document, place = opened("""
        fn f(‸x: f64, k: f64) -> f64 = x * k
        pullback f(x, k) -> y = |d| (d * k, d * x)
        fn g() = grad(f, wrt = x)(1.0, k = 2.0)
    """)
    assert [r.range.start for r in finished(references(document, place))] == [
        lsp.Position(0, 5), lsp.Position(0, 30), lsp.Position(2, 23),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text, name, changed",
    [
        ("fn f(‸x: f64) = x + 1.0\n", "y", "fn f(y: f64) = y + 1.0\n"),
        ("fn f(x: f64[‸n], y: f64[n]) = n\n", "m", "fn f(x: f64[m], y: f64[m]) = m\n"),
        ("fn f(x: i64) = match x { 1 | 2 => 0, ‸k => k }\n", "j", "fn f(x: i64) = match x { 1 | 2 => 0, j => j }\n"),
        ("struct ‸P { w: f64 }\nfn f(p: P) = P(..p)\n", "Q", "struct Q { w: f64 }\nfn f(p: Q) = Q(..p)\n"),
        ("struct P { ‸w: f64 }\nfn f(p: P) = P(w = p.w)\n", "v", "struct P { v: f64 }\nfn f(p: P) = P(v = p.v)\n"),
        ("fn ‸f(x) = x\nfn g(x) = f(f(x))\n", "h", "fn h(x) = x\nfn g(x) = h(h(x))\n"),
        ("fn f(‸a = 1) = a\nfn g() = f(a = 2)\n", "b", "fn f(b = 1) = b\nfn g() = f(b = 2)\n"),
        ("fn f(x, ‸y) = x * y\nfn g() = grad(f, wrt = (x, y))(1.0, y = 2.0)\n", "k",
         "fn f(x, k) = x * k\nfn g() = grad(f, wrt = (x, k))(1.0, k = 2.0)\n"),
        ("import math as m\nfn f() = ‸m.pi\n", "maths", "import math as maths\nfn f() = maths.pi\n"),
        ('fn f(‸x: f64) = "{x:.2f}"\n', "y", 'fn f(y: f64) = "{y:.2f}"\n'),
    ],
)  # fmt: skip
def test_a_name_is_changed_wherever_it_stands(opened, text, name, changed):
    document, place = opened(text)
    edit = finished(rename(document, place, name))
    assert not isinstance(edit, Refused), edit
    assert edited(document, edit) == changed


@pytest.mark.parametrize(
    "text, name, reason",
    [
        ("fn f(‸x: f64, y: f64) = x + y\n", "y", "would stand for something else"),
        ("fn f(x: f64) {\n  let ‸y = x\n  let z = 2.0\n  y + z\n}\n", "z", "would stand for something else"),
        ("fn f(x: f64) = x\nfn ‸g(x: f64) = f(x)\n", "f", "would stand for something else"),
        ("fn ‸g(x: f64) = x\nfn f(h: f64) = g(h)\n", "h", "would stand for something else"),
        ("fn f(‸x: f64[n]) = sum(x)\n", "sum", "would stand for something else"),
        ("struct P { ‸a: f64, b: f64 }\nfn f(p: P) = p.a\n", "b", "would"),
        ("fn f(‸x: f64) = x\n", "X", "names of values begin with a small letter"),
        ("fn f(‸x: f64) = x\n", "let", "`let` is a word of the language"),
        ("fn f(‸x: f64) = x\n", "a b", "can't be the new name"),
        ("fn f(‸x: f64) = x\n", "f64", "can't be the new name"),
        ("fn f(x: f64) = ‸exp(x)\n", "g", "belongs to the language"),
        ("fn f(x: f64[n]) = ‸map(exp, x)\n", "g", "belongs to the standard library"),
        ("import ‸linalg\n", "g", "is a file"),
    ],
)
def test_a_name_is_not_changed_where_the_program_would_mean_something_else(opened, text, name, reason):
    document, place = opened(text)
    refused = finished(rename(document, place, name))
    assert isinstance(refused, Refused) and refused.diagnostic.code == "E0978"
    assert reason in refused.text


# ---- writing ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text, fits_here, not_here",
    [
        ("fn f(xs: f64[n]) {\n  let y = x‸\n}", {"xs", "exp", "maximum"}, {"y", "w", "n", "sum", "let"}),
        ("fn f(xs: f64[n]) {\n  let y = ‸\n}", {"xs", "n", "exp", "sum", "let"}, {"y", "w"}),
        ("struct P { w: f64, v: f64 }\nfn f(p: P) = p.‸", {"w", "v"}, {"exp", "let"}),
        ("struct P { w: f64 }\nfn f(ps: P[n]) {\n  let q = ps[0].‸\n  q\n}", {"w"}, {"let"}),
        ("struct P { w: f64 }\nfn norm2(p: P) = p.w\nfn f(p: P) = p.‸", {"w", "norm2"}, {"f64"}),
        ("fn f(xs: f64[n]) = xs + ‸", {"xs", "n"}, set()),
        ("fn f(xs: f64[n]) = sum(xs, ‸\n\nfn g(y) = y", {"xs", "n"}, {"y"}),
        ("fn f(xs: f64[n]) =\n  ‸\n\nfn g(y) = y", {"xs", "n"}, {"y"}),
        ("fn f(xs: f64[n]) = xs\n‸", {"f"}, {"xs"}),
        ("fn f(xs: f64[n]) = [x‸ for xi in xs]", {"xs", "xi"}, set()),
        ("struct P { w: f64 }\nfn f(p: P) = (p).‸", {"w"}, {"let"}),
        ('struct P { w: f64 }\nfn f(p: P) = print("a {sqrt(p.‸', {"w"}, {"let"}),
        ('struct P { w: f64 }\nfn f(p: P) = print("a {sqrt(p.‸")\n\nfn g(x) = x', {"w"}, {"let"}),
        ("struct P { w: f64, v: f64 }\nfn f(p: P) = P(..p, ‸)", {"w =", "v ="}, set()),
        ("fn f(t: f64) = t.‸", {"exp"}, {"len", "let"}),
        ("fn g(a, b) = a * b\nfn f(x: f64) = grad(g, wrt = ‸)(x, x)", {"a", "b"}, {"a ="}),
        ("fn g(a, b) = a * b\nfn f(x: f64) = grad(g)(x, ‸)", {"b ="}, {"a ="}),
        ("fn f(t: (f64, i64)) = t.‸", {"0", "1"}, {"let"}),
        ("fn f(x: f64[n]) = x.‸", {"sum", "mean"}, {"w"}),
        ("import math\nfn f() = math.‸\n", {"pi"}, {"let", "f"}),
        ("fn scale(x, factor = 2.0) = x * factor\nfn g() = scale(1.0, ‸)", {"factor ="}, {"x ="}),
        ("fn f(x: ‸", {"f64", "Option", "size"}, {"exp", "let"}),
        ("fn f() -> ‸", {"f64"}, {"exp"}),
        ("import ‸", {"linalg", "nn"}, {"exp"}),
        ("import linalg { ‸ }", {"solve"}, {"exp"}),
        ("fn f() = 1 # a ‸", set(), {"f"}),
        ('fn f(xs: f64) = "a ‸"', set(), {"xs"}),
        ('fn f(xs: f64) = "a {‸}"', {"xs"}, set()),
        ('struct P { w: f64 }\nfn f(p: P) = "a {p.‸}"', {"w"}, {"p"}),
        ('fn f(xs: f64) = "a {xs:‸}"', set(), {"xs"}),
        ("struct P { w: f64 }\nenum E { A(‸) }", {"f64", "P"}, {"exp", "let"}),
        ("const k = 2\nfn f(x: f64[n]) {\n  let y: f64[‸] = x\n  y\n}", {"n", "k"}, {"exp", "x"}),
        ("fn f() = [‸ for i < 3]", {"exp"}, set()),
        ("fn f() {\n  for ‸\n}", set(), {"exp"}),
        ("fn f() -> f64 ! ‸", {"print", "random"}, {"exp"}),
        ("let ‸", set(), {"exp"}),
        ("enum E { Aaa, Bbb }\nfn f() -> E = ‸", {"Aaa", "Bbb"}, set()),
        ("fn f(x: f64[n]) = [xi for xi in x if x‸]", {"xi", "x"}, set()),
    ],
)
def test_completion_offers_what_can_stand_there(opened, text, fits_here, not_here):
    document, place = opened(text)
    labels = {item.label for item in completion(document, place).items}
    assert fits_here <= labels
    assert not not_here & labels


@pytest.mark.parametrize(
    "text, first, later",
    [
        ("fn f(a: i64, b: f64) = g(‸\n\nfn g(x: f64) = x\n", "b", "a"),
        ("fn f(a: i64, b: f64) = g(0.0, y = ‸\n\nfn g(x: f64, y: i64) = x\n", "a", "b"),
        ("enum E { Aa, Bb }\nfn f(e: E, b: i64) = match e {\n  B‸\n}\n", "Bb", "b"),
        ("enum E { Aa, Bb }\nfn f(e: E, a: i64) = match e {\n  Aa => 1\n  ‸\n}\n", "Bb", "a"),
        ("enum E { Aa, Bb }\nfn f(e: E, a: i64) = match e { Aa => { ‸ } }\n", "a", "Bb"),
        ("fn f(a: f64[n]) = a |> ‸\n\nfn g(x: i64) = x\n", "sum", "g"),
    ],
)
def test_what_fits_by_its_type_comes_first(opened, text, first, later):
    order = {item.label: item.sort_text for item in completion(*opened(text)).items}
    assert order[first] < order[later]


def test_modules_are_offered_that_are_not_saved_or_in_folders(opened, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/wing.dl").write_text("fn f() = 1\n")
    document, place = opened("import ‸")
    document.project.put(str(tmp_path / "new.dl"), (tmp_path / "new.dl").as_uri(), "fn f() = 1\n", 1)
    labels = {item.label for item in completion(document, place).items}
    assert {"new", "parts", "linalg"} <= labels and "a" not in labels
    assert [item.label for item in completion(*opened("import parts.‸")).items] == ["wing"]


def test_a_name_that_is_not_imported_brings_its_import(opened):
    document, place = opened("import nn\n\nfn f(x: f64[n]) = chol‸")
    (item,) = [i for i in completion(document, place).items if i.label == "cholesky"]
    (edit,) = item.additional_text_edits
    assert edit.new_text == "import linalg { cholesky }\n" and edit.range.start == lsp.Position(1, 0)
    document, place = opened("fn f(x: f64[n]) = lina‸")
    (item,) = [i for i in completion(document, place).items if i.label == "linalg"]
    assert item.additional_text_edits[0].new_text == "import linalg\n\n"
    document, place = opened("import nn { relu }\nfn f(x: f64[n]) = rel‸")
    assert [i.additional_text_edits for i in completion(document, place).items if i.label == "relu"] == [None]


def test_a_name_of_another_file_brings_its_import(opened):
    document, place = opened("fn f(x: f64[n]) = smoo‸")
    other = document.project.folders[0] / "filters.dl"
    document.project.put(str(other), other.as_uri(), "fn smooth(x: f64[n]) = x\nfn _smoother(x) = x\n", 1)
    (item,) = [i for i in completion(document, place).items if i.label.lstrip("_").startswith("smoo")]
    assert item.additional_text_edits[0].new_text == "import filters { smooth }\n\n"


def test_an_editor_asks_again_when_a_word_begins(opened):
    assert completion(*opened("fn f() = ‸")).is_incomplete
    assert not completion(*opened("fn f() = cho‸")).is_incomplete


def test_what_was_looked_at_for_a_completion_leaves_no_trace(opened):
    document, place = opened("fn f(x: f64[n]) {\n  g(x.‸)[\n}\n\nfn h(y: f64) = y\n")
    before = [(d.message, d.span.first) for d in document.analysis.diagnostics]
    completion(document, place)
    assert [(d.message, d.span.first) for d in document.analysis.diagnostics] == before


@pytest.mark.parametrize(
    "text, label, active",
    [
        ('fn f(a: f64, b: f64) -> f64 = a + b\nfn g() = "x {f(1.0, ‸)}"', "f(a: f64, b: f64) -> f64", 1),
        ("fn f(a: f64, b: f64) -> f64 = a + b\nfn g() = grad(f, wrt = b)(1.0, ‸", "grad(f)(a: f64, b: f64)", 1),
        ("fn f(g: (f64, i64) -> f64) = g(1.0, ‸)", "g(f64, i64) -> f64", 1),
        ("fn f(a: f64, b: f64) -> f64 = a + b\nfn g() = 1.0 |> f(‸", "f(a: f64, b: f64) -> f64", 1),
    ],
)
def test_signatures_are_shown_wherever_a_call_is_written(opened, text, label, active):
    found = signature_help(*opened(text))
    assert (found.signatures[0].label, found.active_parameter) == (label, active)


def test_a_named_argument_is_the_active_one(opened):
    document, place = opened("fn scale(x: f64, a = 1.0, b = 2.0) = x * a + b\nfn f() = scale(1.0, b = ‸)")
    found = signature_help(document, place)
    assert found.active_parameter == 2
    label = found.signatures[0].label
    start, end = found.signatures[0].parameters[2].label
    assert label[start:end] == "b: f64 = 2.0"


# ---- shown and offered -----------------------------------------------------------------------------------------------
def test_hints_stand_where_types_could_be_written(opened):
    document, _ = opened("""
        fn f(x: f64[n], k: i64 = 2) {
          let (a, b) = (x[1..], k)
          let g = |v| v * a
          fn inner(z) = z + 1.0
          for row in x { print("{row}") }
          g(2.0)
        }
    """)
    hints = inlay_hints(document, lsp.Range(lsp.Position(0, 0), lsp.Position(99, 0)))
    lines = document.text.splitlines()
    for h in sorted(hints, key=lambda h: (h.position.line, h.position.character), reverse=True):
        line, at = h.position.line, h.position.character
        lines[line] = lines[line][:at] + h.label + lines[line][at:]
    assert lines[0] == "fn f(x: f64[n], k: i64 = 2) -> f64[n - 1] ! print {"
    assert lines[1] == "  let (a: f64[n - 1], b: i64) = (x[1..], k)"
    assert lines[2] == "  let g = |v: f64[..s]| v * a"
    assert lines[4] == '  for row: f64 in x { print("{row}") }'


def test_the_types_of_a_function_can_be_written_out_where_they_check(opened):
    document, place = opened("fn ‸f(x: f64[n], k: f64) = x * k + 1.0\n")
    (action,) = code_actions(document, lsp.Range(place, place), ("refactor",))
    assert edited(document, action.edit) == "fn f(x: f64[n], k: f64) -> f64[n] = x * k + 1.0\n"
    document, place = opened("fn ‸f(x, k) = x * k\n")  # what `*` gives is decided by a call
    assert not code_actions(document, lsp.Range(place, place), ("refactor",))
    assert not code_actions(document, lsp.Range(place, place), ("source",))


@pytest.mark.parametrize(
    "text, title, changed",
    [
        ("const ‸k = 3\n", "Write the type of `k`", "const k: i64 = 3\n"),
        ("fn f(x: f64[n]) {\n  let (‸a, b) = (x, 1)\n  a\n}\n", "Write the type of the pattern",
         "fn f(x: f64[n]) {\n  let (a, b): (f64[n], i64) = (x, 1)\n  a\n}\n"),
        ("enum E { A, B(x: f64) }\nfn f(e: E) = ‸match e { A => 1 }\n", "Add the arm `B(_)`",
         'enum E { A, B(x: f64) }\nfn f(e: E) = match e { A => 1, B(_) => fail("not written yet") }\n'),
        ("fn f(e: (bool, bool)) = ‸match e {\n  (true, true) => 1\n}\n", "Add the 2 arms that are missing",
         ('fn f(e: (bool, bool)) = match e {\n  (true, true) => 1\n'
          '  (false, _) => fail("not written yet")\n  (true, false) => fail("not written yet")\n}\n')),
    ],
)  # fmt: skip
def test_what_an_action_writes(opened, text, title, changed):
    document, place = opened(text)
    found = {a.title: a for a in code_actions(document, lsp.Range(place, place))}
    assert edited(document, found[title].edit) == changed


def test_a_keystroke_in_a_long_file_has_the_function_alone_checked(opened):
    function = (
        "fn f{0}(x: f64[n], y: f64[n]) -> f64 {{\n  let z = x + y\n  let w = [z[i] * y[i] for i]\n\n  sum(w)\n}}\n\n"
    )
    text = "".join(function.format(i) for i in range(150))
    document, place = opened(text.replace("z[i]", "‸z[i]", 1))
    assert "z: f64[n]" in hover(document, place).contents.value
    known = document.analysis.names
    document = document.project.put(document.path, document.uri, text.replace("x + y", "x + y * 2.0", 1), 2)
    assert "z: f64[n]" in hover(document, place).contents.value
    assert document.workspace.rechecked == ("f0",)
    assert [a is b for a, b in zip(known, document.analysis.names, strict=True)] == [False] + [True] * 149


def test_answers_about_a_long_file_are_made_again_where_it_was_edited(opened):
    function = "fn f{0}(x: f64[n], y: f64[n]) -> f64 {{\n  let z = x + y\n  sum(z)\n}}\n\n"
    text = "".join(function.format(i) for i in range(50))
    document, _ = opened(text)

    def answers():
        number = semantic_tokens(document).result_id
        return number, document_symbols(document), code_lenses(document), list(document.coloured.blocks.values())

    def new(before, after):
        return [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a is not b]

    number, symbols, lenses, colours = answers()
    document.project.put(document.path, document.uri, text.replace("x + y", "x + y * 2.0 + y", 1), 2)
    (edit,) = semantic_tokens_since(document, number).edits
    assert edit.delete_count == 0 and len(edit.data) == 5  # the name that was added
    _, *again = answers()
    assert [new(*pair) for pair in zip([symbols, lenses, colours], again, strict=True)] == [[0], [0], [0]]
    above = "fn g(x: f64) = x\n"
    number = semantic_tokens(document).result_id
    document.project.put(document.path, document.uri, above + text, 3)
    (edit,) = semantic_tokens_since(document, number).edits
    assert len(edit.data) <= 5 * 20  # of some thousand numbers
    assert new(colours[1:], answers()[3][2:]) == []
    assert document_symbols(document)[1:] != symbols  # they are a line below


def test_of_many_mistakes_as_many_are_mended_as_a_moment_allows(opened, monkeypatch):
    document, place = opened("".join(f"fn f{i}(xs: f64[n]) = sun(xs) + mean(ys{i})\n" for i in range(20)))
    everywhere = lsp.Range(place, lsp.Position(99, 0))
    several = code_actions(document, everywhere, ("quickfix",))
    monkeypatch.setattr("dlang.tools.language_server.actions._MOMENT", 0.0)
    assert [a.title for a in code_actions(document, everywhere, ("quickfix",))] == [several[0].title]
    (first,) = code_actions(document, lsp.Range(place, lsp.Position(0, 26)), ("quickfix",))
    assert edited(document, first.edit).startswith("fn f0(xs: f64[n]) = sin(xs) + mean(ys0)\nfn f1(xs: f64[n]) = sun")
    assert several[0].edit == first.edit


def test_a_struct_that_contains_itself_has_lenses():
    document = Project().put("/a.dl", "file:///a.dl", "struct P { w: f64, p: P }\nfn f(p: P) -> f64 = p.w\n", 1)
    assert [lens["command"]["title"] for lens in code_lenses(document)] == ["grad: (P) -> P"]


def test_a_file_is_looked_at_again_when_one_changes_that_it_depends_on(opened):
    document, _ = opened("import b\nfn f() = b.g()\n")
    project, folder = document.project, document.project.folders[0]

    def put(name, text, version):
        return project.put(str(folder / name), (folder / name).as_uri(), text, version)

    b, c = put("b.dl", "fn g() = 1\n", 1), put("c.dl", "fn g() = 1\n", 1)

    def looked_at():
        before = {d: d.analysis for d in (document, b, c)}
        yield
        yield [d.path[-4:-3] for d, known in before.items() if d.analysis is not known]

    for changed, expected in [
        (lambda: put("c.dl", "fn g() = 2\n", 2), ["c"]),
        (lambda: put("b.dl", "fn g() = 2\n", 2), ["a", "b"]),
        (lambda: put("a.dl", document.text + "\n", 2), ["a"]),
        (lambda: put("d.dl", "fn g() = 2\n", 1), ["a", "b", "c"]),  # an import may find it
    ]:
        steps = looked_at()
        next(steps)
        changed()
        assert next(steps) == expected


def test_another_text_is_tried_without_a_trace(opened):
    document, place = opened("fn f(x: f64) = x\n\nfn g(x: f64) = f(‸x)\n\nfn h(x: f64) = g(x)\n")
    known = document.analysis
    with document.rewritten("\n\nfn f(x: f32) = x\n\nfn g(x: f64) = f(x)\n\nfn h(x: f64) = g(x)\n") as other:
        assert [d.code for d in other.diagnostics] == ["E0301"]
        assert document.analysis is other
    assert document.analysis is known and known.diagnostics == []
    assert hover(document, place).range.start.line == 2
    document.project.put(document.path, document.uri, document.text + "fn k(x: f64) = g(x)\n", 2)
    assert "x: f64" in hover(document, place).contents.value
    assert document.workspace.rechecked == ("k",)


def test_other_questions_are_answered_while_a_name_is_changed_in_many_files(opened):
    document, place = opened("fn ‸f(x: f64) = x\n")
    folder = document.project.folders[0]
    for i in range(20):
        (folder / f"m{i}.dl").write_text(f"import a {{ f }}\nfn g{i}(x: f64) = f(x)\n")
    steps = rename(document, place, "better")
    for _ in range(20):
        next(steps)
        assert "fn f(x: f64)" in hover(document, place).contents.value
        assert document.project.trial is None and len(document.project.unsaved) == 1
    edit = finished(steps)
    assert {uri.rpartition("/")[2]: len(edits) for uri, edits in edit.changes.items()} == {
        "a.dl": 1, **{f"m{i}.dl": 2 for i in range(20)},
    }  # fmt: skip
    assert document.text == "fn f(x: f64) = x\n"


def test_a_type_that_a_repair_invented_has_no_name(opened):
    document, _ = opened("fn f(x: f64[..s]) -> [..s] = x\n")
    assert [o.span.text for o in document.analysis.occurrences] == ["f", "x", "f64", "s", "s", "x"]


def test_letters_in_order_find_a_name():
    assert fits("slv", "solve") and fits("", "x") and not fits("evl", "solve")
