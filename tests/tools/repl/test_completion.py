"""What completion offers, and what is said below an input."""

import pytest

from dlang.tools.repl.completion import candidates
from dlang.tools.repl.prompt import fitted, hint
from dlang.tools.repl.session import Session


@pytest.fixture(scope="module")
def session():
    s = Session("interp")
    for text in [
        "struct Point { across: f64, up: f64[2] }",
        "let xs = [1.0, 2.0]",
        "let count = 3",
        "let p = Point(1.0, xs)",
        "fn norm(p: Point, scale: f64 = 1.0) -> f64 = scale * sum(p.up)",
        "fn shifted(v: f64[n], k: i64) -> f64[n] = v",
        "import nn",
    ]:
        s.submit(text)
    return s


def offered(session, text):
    """The texts that candidates make."""
    return [text[: c.start] + c.text for c in candidates(session, text)]


def test_fields_come_first_behind_a_point_then_functions_that_take_the_value(session):
    found = offered(session, "p.")
    assert found[:3] == ["p.across", "p.up", "p |> norm"]
    assert "p |> sum" not in found and "p |> shifted" not in found
    assert "xs |> shifted" in offered(session, "xs.sh") and "xs |> sum" in offered(session, "xs.su")
    assert "count |> sqrt" not in offered(session, "count.sq")


@pytest.mark.parametrize("receiver", ["p", "(p)", "Point(1.0, xs)", "[p][0]", "(p, 1).0"])
def test_the_value_in_front_of_a_point_may_be_any_expression_in_brackets(session, receiver):
    assert f"1.0 + {receiver}.across" in offered(session, f"1.0 + {receiver}.ac")


def test_tuples_have_positions_and_modules_names(session):
    assert offered(session, "(p, 1).")[:2] == ["(p, 1).0", "(p, 1).1"]
    assert offered(session, "nn.rel") == ["nn.relu"]
    assert offered(session, "import li") == ["import linalg"]
    assert offered(session, "import linalg { cholesky, sol") == ["import linalg { cholesky, solve"]
    assert offered(session, "import linalg as sol") == []


def test_functions_behind_a_pipe_take_what_is_in_front(session):
    assert offered(session, "p |> n") == ["p |> norm"]
    assert "xs |> norm" not in offered(session, "xs |> n")


def test_in_a_call_parameters_can_be_named_and_values_that_fit_come_first(session):
    found = offered(session, "norm(")
    assert found[:3] == ["norm(p = ", "norm(scale = ", "norm(p"]
    assert offered(session, "norm(p, s")[0] == "norm(p, scale = "
    assert offered(session, "shifted(xs, ")[:2] == ["shifted(xs, k = ", "shifted(xs, count"]
    assert offered(session, "Point(1.0, u")[0] == "Point(1.0, up = "
    assert "norm(scale = 1.0, scale = " not in offered(session, "norm(scale = 1.0, s")


def test_names_of_the_input_itself_are_known(session):
    text = "fn f(first: Point, second: f64) {\n  let third = first.up\n  for index < 2 {\n    "
    for begun, name in [("fir", "first"), ("sec", "second"), ("thi", "third"), ("ind", "index")]:
        assert text + name in offered(session, text + begun)
    assert text + "first.across" in offered(session, text + "first.")
    inner = "fn f(first: Point) {\n  let third = first.up\n  third."
    assert inner[:-1] + " |> shifted" in offered(session, inner)
    assert "let q = p\nq.across" in offered(session, "let q = p\nq.ac")


@pytest.mark.parametrize(
    "text",
    [
        "{ let q = p; q.",
        "|q: Point| q.",
        "map(|k: i64, q: Point| q.",
        "let f = |q: Point| {\n  let r = q\n  r.",
        "for q in [p] {\n  q.",
        "for i < 3, q in [p] { q.",
        "match Some(p) {\n  None => 0.0\n  Some(_) => p.",
        "fn f(q: Point) {\n  for i in 0..3 {\n    let r = q\n    r.",
        "fn f(q: Point) {\n  fn g(k: i64) {\n    q.",
    ],
)
def test_what_blocks_loops_and_lambdas_bind_has_its_type(session, text):
    assert offered(session, text)[:2] == [f"{text}across", f"{text}up"]


@pytest.mark.parametrize("text", ["map(|q: Point| q.up, q.", "(|q: Point| q.up)(p) + q.", "fn f() {\n  p."])
def test_what_is_out_of_scope_has_none(session, text):
    assert f"{text}across" not in offered(session, text)


def test_types_are_offered_where_types_stand(session):
    assert offered(session, "let q: Poi") == ["let q: Point"]
    assert "fn f(x: f64" in offered(session, "fn f(x: f6")
    assert offered(session, "let q: List<Poi") == ["let q: List<Point"]
    assert offered(session, "let new_na") == []


def test_an_interpolation_is_completed(session):
    assert offered(session, 'print("{p.ac') == ['print("{p.across']
    assert 'print("{norm(scale = ' in offered(session, 'print("{norm(sc')


@pytest.mark.parametrize("text", ['"nor', "# nor", "1.0 # no", 'print("{p} no'])
def test_nothing_is_offered_in_texts_and_comments(session, text):
    assert offered(session, text) == []


def test_commands_are_completed_with_what_they_take(session, tmp_path, monkeypatch):
    (tmp_path / "model.dl").touch()
    (tmp_path / "models").mkdir()
    (tmp_path / "other.txt").touch()
    monkeypatch.chdir(tmp_path)
    assert offered(session, ":lo") == [":load "]
    assert offered(session, ":load ") == [":load models/", ":load model.dl"]
    assert offered(session, f":load {tmp_path}/model.") == [f":load {tmp_path}/model.dl"]
    assert offered(session, ":set pre") == [":set precision "]
    assert offered(session, ":set backend cuda") == [":set backend cuda", ":set backend cuda-emulated"]
    assert offered(session, ":help :un") == [":help :undo"]
    assert offered(session, ":type p.ac") == [":type p.across"]
    assert offered(session, ":ir norm loo")[0] == ":ir norm loops"
    assert offered(session, ":grad norm i")[0] == ":grad norm ir"
    assert offered(session, ":quit now") == []


def test_candidates_show_their_types(session):
    assert next((c.shown, c.meta) for c in candidates(session, "p.a")) == ("across", "f64")
    assert [(c.shown, c.meta) for c in candidates(session, "xs")] == [("xs", "f64[2]")]
    (only,) = candidates(session, "nor")
    assert only.meta == "(p: Point, scale: f64 = …) -> f64"


def test_the_parameter_at_hand_is_shown_where_the_line_is_too_long(session):
    parts = hint(session, "norm(p, ", "")
    for columns, shown in ((100, "norm(p: Point, scale: f64 = …) -> f64"), (30, "…Point, scale: f64 = …) -> f64"),
                           (10, "…scale: f64 = …) -> f64")):  # fmt: skip
        found = fitted(parts, columns)
        assert "".join(text for text, _ in found) == shown
        assert "".join(text for text, marked in found if marked) == "scale: f64 = …"


@pytest.mark.parametrize(
    ("text", "said", "marked"),
    [
        ("norm(", "norm(p: Point, scale: f64 = …) -> f64", ["p: Point"]),
        ("norm(p, ", "norm(p: Point, scale: f64 = …) -> f64", ["scale: f64 = …"]),
        ("norm(Point(1.0, [xs[0], ", "Point(across: f64, up: f64[2]) -> Point", ["up: f64[2]"]),
        ("nn.relu(", "nn.relu<a: Float>(x: a[..s]) -> a[..s]", ["x: a[..s]"]),
        ("where(xs > 1.0, ", "where(mask: bool[..s], x: a[..s], y: a[..s]) -> a[..s]", ["x: a[..s]"]),
        ("xs @ xs", ": f64", []),
        ("norm", ": (Point, f64) -> f64", []),
        ("xs @ nope", "", []),
        ("let y = 1", "", []),
        ("1 +", "", []),
        ("", "", []),
        (":undo", ":undo  takes the last input back: declarations and values", [":undo"]),
        (":type norm(", ":type EXPR  the type of an expression, which is not computed", [":type EXPR"]),
    ],
)
def test_the_call_at_hand_or_the_type_is_said(session, text, said, marked):
    parts = hint(session, text, text)
    assert "".join(part for part, _ in parts) == said
    assert [part for part, here in parts if here] == marked
