"""What checking makes of small functions: the core tree."""

from __future__ import annotations

from dlang.typecheck import core
from dlang.typecheck.printing import show
from dlang.typecheck.types import SizeVar, TypeVar, resolve
from tests.typecheck.support import accepted, body


def test_arguments_are_in_the_order_of_the_parameters_and_defaults_are_left_out() -> None:
    e = body("fn g(x: f64, a: f64 = 1.0, b: f64 = 2.0) -> f64 = x\nfn f() = g(b = 3.0, x = 4.0)")
    assert isinstance(e, core.Call) and isinstance(e.function, core.FnRef)
    x, a, b = e.args
    assert isinstance(x, core.Literal) and x.value == 4.0
    assert a is None
    assert isinstance(b, core.Literal) and b.value == 3.0


def test_a_pipe_is_a_call() -> None:
    e = body("fn g(x: f64, y: f64) -> f64 = x\nfn f(x: f64) = x |> g(2.0)")
    assert isinstance(e, core.Call) and isinstance(e.args[0], core.Ref)


def test_an_instance_says_what_each_variable_stands_for() -> None:
    e = body("fn g(x: a[n]) -> a[n] = x\nfn f(x: f32[m, 3]) = g(x)")
    assert isinstance(e, core.Call) and isinstance(e.function, core.FnRef)
    terms = {v.name: show(t) for v, t in e.function.instance}
    assert terms == {"a": "f32[3]", "n": "m"}


def test_recursion_without_annotations_maps_each_variable_to_itself() -> None:
    checked = accepted("fn f(n, x) = if n == 0 { x } else { f(n - 1, x) }")
    decl = checked.module.functions["f"]
    assert decl.recursive and decl.variables
    assert isinstance(decl.body, core.If) and isinstance(decl.body.otherwise, core.BlockExpr)
    call = decl.body.otherwise.result
    assert isinstance(call, core.Call) and isinstance(call.function, core.FnRef)
    assert {v for v, _ in call.function.instance} == set(decl.variables)
    assert all(v is t or v in core_variables(t) for v, t in call.function.instance)


def core_variables(t: object) -> list[object]:
    from dlang.typecheck.terms import variables

    return list(variables(t))


def test_the_size_of_a_result_is_opened_at_each_call() -> None:
    text = "fn g(x: f64[n]) -> f64[?] = [v for v in x if v > 0.0]\nfn f(x: f64[n]) = g(x)"
    checked = accepted(text)
    e = checked.module.functions["f"].body
    assert isinstance(e, core.Call) and len(e.opened) == 1
    assert show(e.type) == "f64[?1]"
    assert checked.module.functions["g"].opened != e.opened


def test_a_joined_size_is_listed_by_the_branch() -> None:
    text = "fn g(x: f64[n]) -> f64[?] = [v for v in x if v > 0.0]\nfn f(x: f64[n], c: bool) = if c { g(x) } else { x }"
    e = body(text)
    assert isinstance(e, core.If) and len(e.opened) == 1 and e.opened[0].opened


def test_branches_of_one_size_open_nothing() -> None:
    e = body("fn f(x: f64[n], c: bool) = if c { x } else { zeros(n) }")
    assert isinstance(e, core.If) and e.opened == ()


def test_an_annotation_names_a_size_as_a_value() -> None:
    e = body("fn g(x: f64[n]) -> f64[?] = x[..3]\nfn f(x: f64[n]) { let y: f64[k] = g(x); k }")
    assert isinstance(e, core.BlockExpr) and isinstance(e.result, core.Ref)
    (let,) = e.statements
    assert isinstance(let, core.Let)
    (name,) = let.names
    assert e.result.local is name and isinstance(name.size, SizeVar)


def test_a_size_of_the_signature_is_a_value() -> None:
    e = body("fn f(x: f64[n]) = n + 1")
    assert isinstance(e, core.Arith) and isinstance(e.left, core.SizeValue)


def test_an_argument_that_is_no_size_gets_a_name() -> None:
    e = body("fn g(n: size) -> i64 = n\nfn f(x: i64[n]) = g(x[0])")
    assert isinstance(e, core.BlockExpr) and isinstance(e.result, core.Call)
    (let,) = e.statements
    assert isinstance(let, core.Let) and isinstance(let.pattern, core.Bind)
    assert let.pattern.local.size is not None and let.pattern.local.size.opened


def test_a_builtin_as_a_value_is_a_lambda() -> None:
    e = body("fn f(x: f64[n]) = map(exp, x)")
    assert isinstance(e, core.Call) and isinstance(e.args[0], core.Lambda)
    assert isinstance(e.args[0].body, core.Builtin) and e.args[0].body.name == "exp"


def test_an_update_takes_the_other_fields_from_the_old_struct() -> None:
    e = body("struct P { a: f64, b: f64 }\nfn f(p: P) = P(..p, b = 1.0)")
    assert isinstance(e, core.BlockExpr) and isinstance(e.result, core.Construct)
    a, b = e.result.fields
    assert isinstance(a, core.Project) and a.position == 0 and isinstance(b, core.Literal)


def test_reductions_keep_the_axis_as_it_is_written() -> None:
    e = body("fn f(x: f64[n, m]) = sum(x, axis = -1)")
    assert isinstance(e, core.Builtin) and e.static == {"axes": (-1,)}


def test_a_derivative_is_a_function_of_the_same_parameters() -> None:
    e = body("fn g(x: f64, y: f64) -> f64 = x * y\nfn f(a: f64) = grad(g, wrt = y)(y = a, x = 2.0)")
    assert isinstance(e, core.Call) and isinstance(e.function, core.Derivative)
    assert e.function.wrt == (1,) and e.function.single
    assert isinstance(e.args[0], core.Literal) and isinstance(e.args[1], core.Ref)


def test_a_custom_rule_returns_a_function_of_the_cotangent() -> None:
    checked = accepted("fn g(x: f64, nodiff k: f64) -> f64 = x\npullback g(x, k) -> y = |dy| dy * k\n")
    rule = checked.module.rules[("pullback", "g")]
    assert [p.local.name for p in rule.params] == ["x", "k", "y"]
    assert rule.result is not None and show(rule.result) == "(f64) -> f64"


def test_nothing_is_left_open() -> None:
    checked = accepted("fn f(x: f64[n]) { let unused = None; let e = []; let g = |v| v; sum(x) }")
    decl = checked.module.functions["f"]
    assert isinstance(decl.body, core.BlockExpr)
    for statement in decl.body.statements:
        if isinstance(statement, core.Let) and isinstance(statement.pattern, core.Bind):
            for v in core_variables(statement.pattern.local.type):
                assert not isinstance(v, TypeVar) or v.rigid
    assert not isinstance(resolve(decl.body.type), TypeVar)


def test_an_array_that_is_read_has_the_type_of_the_annotation() -> None:
    e = body('import io\nfn f(path: str) { let x: f64[n, 8] = io.npz(path, "x"); (n, sum(x)) }')
    assert isinstance(e, core.BlockExpr)
    (let,) = e.statements
    assert isinstance(let, core.Let) and isinstance(let.value, core.Builtin)
    assert let.value.name == "read_npz" and len(let.value.opened) == 1
    assert show(let.value.type) == "f64[n, 8]"
    assert [x.name for x in let.names] == ["n"]
