"""Trees: what the grammar makes of programs."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from dlang.diagnostics import Source
from dlang.grammar import syntax as s
from dlang.grammar.parser import declarations, parse, parse_expression

SAMPLE = Path(__file__).with_name("sample.dl")
TOUR = Path(__file__).parents[2].parent / "shared" / "tour"
PROGRAMS = [SAMPLE, *sorted(p for p in TOUR.rglob("*.dl") if p.name != "syntax.dl")]


def show(node: Any) -> str:
    """An expression with all of its parentheses."""
    match node:
        case s.Name(name=name):
            return str(name)
        case s.Number(value=value, dtype=dtype):
            return f"{value}{dtype or ''}"
        case s.Boolean(value=value):
            return str(value).lower()
        case s.Hole():
            return "HOLE"
        case s.Unary(operator=op, operand=x):
            return f"({op} {show(x)})"
        case s.Binary(operator=op, left=left, right=right):
            return f"({show(left)} {op} {show(right)})"
        case s.Cast(value=x, type=t):
            return f"({show(x)} as {show_type(t)})"
        case s.Field(base=base, name=name):
            return f"{show(base)}.{name}"
        case s.Call(function=f, arguments=arguments):
            return f"{show(f)}({', '.join(map(show, arguments))})"
        case s.Argument(value=x, name=name, spread=spread):
            return (".." if spread else "") + (f"{name} = " if name else "") + show(x)
        case s.Index(base=base, indices=indices):
            return f"{show(base)}[{', '.join(map(show, indices))}]"
        case s.Slice(low=low, high=high, step=step):
            return f"<{' : '.join('' if x is None else show(x) for x in (low, high, step))}>"
        case s.Tuple(items=items):
            return f"({', '.join(map(show, items))})"
        case s.Array(items=items):
            return f"[{', '.join(map(show, items))}]"
        case s.Block(statements=statements):
            return "{" + "; ".join(map(show, statements)) + "}"
        case s.Lambda(parameters=parameters, body=body):
            return f"|{', '.join(show(p.pattern) for p in parameters)}| {show(body)}"
        case s.PatternName(name=name):
            return str(name)
        case s.If(condition=c, then=t, otherwise=e):
            return f"if {show(c)} {show(t)}" + ("" if e is None else f" else {show(e)}")
        case s.Comprehension(element=e, binders=binders, condition=c):
            names = ", ".join(show(b.pattern) for b in binders)
            return f"{show(e)} for {names}" + ("" if c is None else f" if {show(c)}")
        case s.Let(pattern=p, value=v):
            return f"let {show(p)} = {show(v)}"
        case s.Assign(target=t, operator=op, value=v):
            return f"{show(t)} {op or ''}= {show(v)}"
    raise AssertionError(node)


def show_type(t: Any) -> str:
    match t:
        case s.TypeName(name=name, arguments=arguments):
            return name + (f"<{', '.join(map(show_type, arguments))}>" if arguments else "")
        case s.TypeArray(element=element, dims=dims):
            return f"{show_type(element)}[{', '.join(map(show_type, dims))}]"
        case s.TypeTuple(items=items):
            return f"({', '.join(map(show_type, items))})"
        case s.TypeFunction(parameters=parameters, result=result, effects=effects):
            shown = "" if effects is None else f" ! {'+'.join(effects) or '()'}"
            return f"<{', '.join(map(show_type, parameters))} -> {show_type(result)}{shown}>"
        case s.TypeEffects(result=result, effects=effects):
            return f"<{show_type(result)} ! {'+'.join(effects) or '()'}>"
        case s.SizeName(name=name):
            return str(name)
        case s.SizeNumber(value=value):
            return str(value)
        case s.SizeOperator(operator=op, left=left, right=right):
            return f"({show_type(left)} {op} {show_type(right)})"
        case s.SizeHole():
            return "_"
        case s.SizeAny(name=name):
            return f"?{name or ''}"
        case s.SizeRow(name=name):
            return f"..{name}"
    raise AssertionError(t)


def expression(text: str) -> Any:
    value, diagnostics = parse_expression(Source("test", text))
    assert diagnostics == []
    return value


def module(text: str) -> s.Module:
    tree, diagnostics = parse(Source("test", text))
    assert [d.message for d in diagnostics] == []
    return tree


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_a_program_parses_without_a_message(path: Path) -> None:
    tree = module(path.read_text())
    assert tree.items


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a or b or c", "((a or b) or c)"),
        ("a or b and c", "(a or (b and c))"),
        ("a and not b", "(a and (not b))"),
        ("not not a == b", "(not (not (a == b)))"),
        ("a == b |> c", "(a == (b |> c))"),
        ("a |> b |> c", "((a |> b) |> c)"),
        ("a |> b + c", "(a |> (b + c))"),
        ("a - b + c", "((a - b) + c)"),
        ("a + b * c", "(a + (b * c))"),
        ("a / b // c % d @ e", "((((a / b) // c) % d) @ e)"),
        ("-a * b", "((- a) * b)"),
        ("a * -b", "(a * (- b))"),
        ("a - - b", "(a - (- b))"),
        ("-a as f64", "(- (a as f64))"),
        ("a ** b as f64", "((a ** b) as f64)"),
        ("a as f64[n] as f64[3]", "((a as f64[n]) as f64[3])"),
        ("-a ** b", "(- (a ** b))"),
        ("a ** b ** c", "(a ** (b ** c))"),
        ("a ** -b ** c", "(a ** (- (b ** c)))"),
        ("a ** --b", "(a ** (- (- b)))"),
        ("a ** b.c[0](1)", "(a ** b.c[0](1))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("|x| x + 1", "|x| (x + 1)"),
        ("|| a or b", "|| (a or b)"),
        ("if a { b } else if c { d } else { e }", "if a {b} else if c {d} else {e}"),
        ("{ a } + { b }", "({a} + {b})"),
        ("f(|x| x, if a { b })", "f(|x| x, if a {b})"),
        ("x as Idx < y", None),
    ],
)
def test_precedence(text: str, tree: str | None) -> None:
    if tree is None:
        assert parse_expression(Source("test", text))[1]
    else:
        assert show(expression(text)) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("x.0.1", "x.0.1"),
        ("f(x).0.name", "f(x).0.name"),
        ("x[0..3]", "x[<0 : 3 : >]"),
        ("x[1..n by 2, .., ..k, k..]", "x[<1 : n : 2>, < :  : >, < : k : >, <k :  : >]"),
        ("f(a, b = 2, ..c)", "f(a, b = 2, ..c)"),
        ("sum(e for i, (a) in z if c)", "sum(e for i, a if c)"),
        ("(a, b,)", "(a, b)"),
        ("((a))", "a"),
        ("()", "()"),
        ("[]", "[]"),
        ("{}", "{}"),
        ("{ let x = 1; x += 2; x }", "{let x = 1; x += 2; x}"),
        ("1_000 + 2.5f32 + 3i32 + 3f64 + 1e-3", "((((1000 + 2.5f32) + 3i32) + 3f64) + 0.001)"),
        ("θ' * x''", "(θ' * x'')"),
        ("test(type, nodiff)", "test(type, nodiff)"),
        ("Point(..old, x = 3)", "Point(..old, x = 3)"),
    ],
)
def test_forms(text: str, tree: str) -> None:
    assert show(expression(text)) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("f64[n, m]", "f64[n, m]"),
        ("f64[n][m]", "f64[n][m]"),
        ("f64[]", "f64[]"),
        ("a -> b -> c", "<a -> <b -> c>>"),
        ("(a, b) -> c", "<a, b -> c>"),
        ("((a, b)) -> c", "<(a, b) -> c>"),
        ("(a) -> c", "<a -> c>"),
        ("() -> f64 ! random + io", "< -> f64 ! random+io>"),
        ("(a -> b)[n]", "<a -> b>[n]"),
        ("f64 ! ()", "<f64 ! ()>"),
        ("Tree<Tree<f64[n]>>", "Tree<Tree<f64[n]>>"),
        ("Linear<n + 1, 2 * m - 1, 3, ..s>", "Linear<(n + 1), ((2 * m) - 1), 3, ..s>"),
        ("Rope<(n * 2)>", "Rope<(n * 2)>"),
        ("Rope<(n + 1) * 2, ((n - 1)) // k>", "Rope<((n + 1) * 2), ((n - 1) // k)>"),
        ("T<(a), (a, b), (a) -> b, (n - 1)>", "T<a, (a, b), <a -> b>, (n - 1)>"),
        ("f64[2 * n + 1, (n - 1) // 2, _, ?, ?k, ..s]", "f64[((2 * n) + 1), ((n - 1) // 2), _, ?, ?k, ..s]"),
    ],
)
def test_types(text: str, tree: str) -> None:
    (item,) = module(f"let x: {text} = y").items
    assert isinstance(item, s.Let)
    assert show_type(item.type) == tree


def test_a_float_needs_digits_after_its_point() -> None:
    tree = expression("x[1..n]")
    assert tree.indices[0].low.value == 1
    assert isinstance(expression("1e3").value, float)
    assert isinstance(expression("3f64").value, int)


def test_items_have_their_parts() -> None:
    tree = module(SAMPLE.read_text())
    by_name = {item.name: item for item in tree.items if hasattr(item, "name")}
    typed = by_name["typed"]
    assert isinstance(typed, s.Fn)
    assert [(b.name, b.cls) for b in typed.bounds] == [("a", "Float"), ("b", None)]
    assert [p.nodiff for p in typed.parameters] == [False, True, False]
    assert typed.parameters[1].default is not None
    assert isinstance(typed.result, s.TypeEffects)
    tree_enum = by_name["Tree"]
    assert isinstance(tree_enum, s.Enum)
    assert [(c.name, [f.name for f in c.fields]) for c in tree_enum.constructors] == [
        ("Leaf", [None]),
        ("Node", ["left", "right"]),
    ]
    row = by_name["Row"]
    assert isinstance(row, s.Struct)
    assert row.parameters[0].row
    imports = [item for item in tree.items if isinstance(item, s.Import)]
    assert [(i.path, i.alias, i.names and [n.name for n in i.names]) for i in imports] == [
        (("math",), None, None),
        (("shapes", "geometry"), "geometry", None),
        (("shapes", "geometry"), None, ["Box", "area"]),
        (("linalg",), None, ["cholesky", "solve", "qr"]),
    ]
    rules = [item for item in tree.items if isinstance(item, s.Rule)]
    assert [(r.kind, r.name, r.result, [p.nodiff for p in r.parameters]) for r in rules] == [
        ("pullback", "scaled", "y", [False, True]),
        ("pushforward", "scaled", "y", [False, False]),
    ]
    test = next(item for item in tree.items if isinstance(item, s.Test))
    assert test.name == 'everything, {even} "braces"'


def test_an_arm_has_alternatives_a_guard_and_any_of_its_bodies() -> None:
    match = expression('match x { 1 | -2 => a, Some(v) if v > 0 => x = 3, P(a = 1) => return, "s" => break, _ => () }')
    first, second, third, fourth, last = match.arms
    assert [p.value.value for p in first.pattern.alternatives] == [1, -2]
    assert show(second.guard) == "(v > 0)"
    assert isinstance(second.body, s.Assign)
    assert third.pattern.arguments[0][0] == "a"
    assert isinstance(third.body, s.Return)
    assert fourth.pattern.value.parts == ("s",)
    assert isinstance(last.pattern, s.PatternWildcard)


def test_binders_say_what_bounds_them() -> None:
    tree = expression("[e for i, j < n + 1, x in xs, k in a..b by s]")
    i, j, x, k = tree.binders
    assert (i.below, i.each, i.low) == (None, None, None)
    assert show(j.below) == "(n + 1)"
    assert show(x.each) == "xs"
    assert (show(k.low), show(k.high), show(k.step)) == ("a", "b", "s")


def test_contextual_keywords_are_names_elsewhere() -> None:
    text = "let test = 1\nlet type = test\ntest = type\ntype + test\nfn f(nodiff x, pullback) = nodiff(x) + pullback\n"
    tree = module(text)
    assert [type(item).__name__ for item in tree.items] == ["Let", "Let", "Assign", "Binary", "Fn"]


def text_of(node: Any) -> str:
    return str(node.span.source.text[node.span.start : node.span.end])


def test_spans_are_what_was_written() -> None:
    tree = module("fn f(x: f64[n], y = 2) -> f64 {\n  let z = (x + y) * g(x, k = 1)  # remark\n  -z.re\n}\n")
    (fn,) = tree.items
    assert isinstance(fn, s.Fn)
    assert isinstance(fn.body, s.Block)
    assert text_of(fn).startswith("fn f(") and text_of(fn).endswith("}")
    assert fn.span.source.text[fn.name_span.start : fn.name_span.end] == "f"
    assert [text_of(p) for p in fn.parameters] == ["x: f64[n]", "y = 2"]
    let, value = fn.body.statements
    assert text_of(let) == "let z = (x + y) * g(x, k = 1)"
    assert isinstance(let, s.Let)
    assert isinstance(let.value, s.Binary)
    assert text_of(let.value) == "(x + y) * g(x, k = 1)"
    assert text_of(let.value.left) == "x + y"
    assert isinstance(let.value.right, s.Call)
    assert [text_of(a) for a in let.value.right.arguments] == ["x", "k = 1"]
    assert text_of(value) == "-z.re"


def test_spans_in_interpolations_are_those_of_the_file() -> None:
    tree = module('fn f(x) {\n  print("a {{b}} {x + 1:.3f}\\n{g(x[0])}")\n}\n')
    (fn,) = tree.items
    assert isinstance(fn, s.Fn) and isinstance(fn.body, s.Block)
    call = fn.body.statements[0]
    assert isinstance(call, s.Call)
    string = call.arguments[0].value
    assert isinstance(string, s.String)
    first, number, newline, indexed = string.parts
    assert (first, newline) == ("a {b} ", "\n")
    assert isinstance(number, s.Interpolation) and isinstance(indexed, s.Interpolation)
    assert number.spec == ".3f"
    assert text_of(number) == "{x + 1:.3f}"
    assert text_of(number.value) == "x + 1"
    assert number.value.span.line == 2
    assert text_of(indexed.value) == "g(x[0])"


def test_an_interpolation_may_hold_blocks_and_colons_in_brackets() -> None:
    string = expression('"{if a { 1 } else { 2 }:>5}{(|x: f64| x)(3)}"')
    choice, call = string.parts
    assert (choice.spec, call.spec) == (">5", "")
    assert isinstance(choice.value, s.If)
    assert isinstance(call.value, s.Call)


def test_escapes_are_decoded() -> None:
    string = expression(r'"\n\t\\\"\x41\u03b1\u{1F600}\0"')
    assert string.parts == ('\n\t\\"Aα😀\0',)


def test_documentation_belongs_to_the_item_below_it() -> None:
    text = (
        "## The module.\n\n## One.\n##   indented\n# remark\nfn f() = 1\n\n"
        "## Two.\n## Lines.\nfn g() = 2\n\n## Not for k.\n\nconst k = 3\n"
    )
    tree = module(text)
    f, g, k = tree.items
    assert tree.doc == "The module."
    assert isinstance(f, s.Fn) and isinstance(g, s.Fn) and isinstance(k, s.Const)
    assert (f.doc, g.doc, k.doc) == ("", "Two.\nLines.", "")


@pytest.mark.parametrize(
    ("text", "doc", "of_item"),
    [
        ("## M.\nimport a\n", "M.", None),
        ("## M.\n\nfn f() = 1\n", "M.", ""),
        ("## F.\nfn f() = 1\n", "", "F."),
        ("# remark\n\n## M.\n## N.\n\nfn f() = 1\n", "M.\nN.", ""),
        ("fn f() = 1\n## later\n", "", ""),
        ("## only\n", "only", None),
    ],
)
def test_documentation_at_the_top(text: str, doc: str, of_item: str | None) -> None:
    tree = module(text)
    assert tree.doc == doc
    if of_item is not None:
        assert isinstance(tree.items[0], s.Fn)
        assert tree.items[0].doc == of_item


def test_code_in_braces_needs_no_indentation() -> None:
    tree = module('test "a" {\nfn g() = 3\nlet z = g()\nassert z == 3\n}\nfn after() = 1\n')
    test, after = tree.items
    assert isinstance(test, s.Test)
    assert len(test.body.statements) == 3
    assert isinstance(after, s.Fn)


def test_a_text_is_split_at_its_declarations() -> None:
    text = "## M.\n\nimport a\n# about f\n## F.\nfn f() {\n  fn g() = 1\n}\nprint(f())\nlet x = 1"
    assert [text[start:end] for start, end in declarations(text)] == [
        "## M.\n\n",
        "import a\n",
        "# about f\n## F.\nfn f() {\n  fn g() = 1\n}\nprint(f())\n",
        "let x = 1",
    ]


def test_line_ends_and_marks_of_other_systems_are_spaces() -> None:
    tree = module("\ufeff## F.\r\nfn f(x) {\r\n  let y = x\r\n  y\r\n}\r\n")
    (f,) = tree.items
    assert isinstance(f, s.Fn) and isinstance(f.body, s.Block)
    assert len(f.body.statements) == 2


def test_an_empty_file_is_an_empty_module() -> None:
    assert module("").items == ()
    assert module("# nothing\n\n").items == ()


def test_five_hundred_functions_are_parsed_and_the_collector_is_left_as_it_was() -> None:
    one = (
        "fn f{i}(x: f64[n], k: i64) -> f64 {{\n  var total = 0.0\n  for i < n {{ total += x[i] ** 2 }}\n  total\n}}\n\n"
    )
    assert gc.isenabled()
    tree = module("".join(one.format(i=i) for i in range(500)))
    assert gc.isenabled()
    assert [item.name for item in tree.items if isinstance(item, s.Fn)] == [f"f{i}" for i in range(500)]
