"""Fields have roles, from which walks, renaming, keys, texts and scopes of operations follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, cast, get_args

import pytest

from dlang.codegen import loops, printing, traverse as nests
from dlang.codegen.instructions import ParamBuffer, Result
from dlang.codegen.verify import verify_loops
from dlang.ir import anf, reader, rules, verify
from dlang.ir.anf import Array, Block, Function, Let, Lit, Prim, Program, Scalar, Size, Var, fresh, poly
from dlang.ir.errors import IRError
from dlang.ir.forms import Choice, Each, Form, Hole, parsed
from dlang.ir.printer import print_function
from dlang.ir.roles import (
    Hint,
    Index,
    Inside,
    Leaf,
    Many,
    Properties,
    Record,
    Role,
    Several,
    Shape,
    Trait,
    leaves,
    shapes,
)
from dlang.ir.substitution import substitute
from dlang.ir.traverse import free_vars, map_blocks, mentioned, op_blocks, parts, rebuild, walk
from dlang.optimize.structural_hash import Keys

CORE = get_args(anf.Op)
LOOPS = get_args(loops.Stmt)
F, I64 = Scalar("f64"), Scalar("i64")


# ---- all operations --------------------------------------------------------------------------------------------------
def classes_in(shape: Shape) -> Iterator[type]:
    match shape:
        case Many(inner):
            yield from classes_in(inner)
        case Several(inners):
            for inner in inners:
                yield from classes_in(inner)
        case Record(classes):
            yield from classes
        case Leaf():
            pass


@pytest.mark.parametrize("cls", [*CORE, *LOOPS])
def test_every_field_has_a_role(cls: type) -> None:
    found = shapes(cls)
    assert list(found) == [f.name for f in fields(cls)]
    for shape in found.values():
        for record in classes_in(shape):
            assert all(isinstance(leaf, Leaf) for leaf in leaves(record)) and shapes(record)


@pytest.mark.parametrize("cls", [*CORE, *LOOPS])
def test_what_holds_variables_is_not_static(cls: type) -> None:
    for leaf in leaves(cls):
        if leaf.role in (Role.STATIC, Role.HINT):
            assert leaf.type not in (Var, Lit, loops.Buffer, Block)


@pytest.mark.parametrize("cls", CORE)
def test_the_properties_of_an_operation_agree_with_each_other_and_with_its_fields(cls: type[anf.Op]) -> None:
    known = cls.IS
    traits = {trait for leaf in leaves(cls) for trait in leaf.traits}
    assert not known.scalar or (known.point and known.total)
    assert not known.view or (Trait.ELEMENTS in traits and not known.long)
    assert not known.total or not (known.fails or known.endless or known.stays or Trait.FUNCTION in traits)
    assert known.fails or Trait.FUNCTION not in traits
    assert Trait.ARGUMENTS not in traits or Trait.FUNCTION in traits


def test_each_operation_has_a_typing_rule() -> None:
    assert set(rules.RULES) == set(CORE)


@pytest.mark.parametrize("cls", LOOPS)
def test_the_properties_of_a_statement_agree_with_each_other_and_with_its_fields(cls: type[loops.Stmt]) -> None:
    known = cls.IS
    traits = {trait for leaf in leaves(cls) for trait in leaf.traits}
    has_blocks = any(leaf.role is Role.BLOCK for leaf in leaves(cls))
    assert not known.scalar or (known.straight and known.follows and known.threads)
    assert not known.straight or (known.kernel and not has_blocks)
    assert not known.follows or traits.isdisjoint((Trait.WRITTEN, Trait.HANDED, Trait.FUNCTION))
    assert not known.threads or traits.isdisjoint((Trait.FUNCTION, Trait.HANDED))
    assert (Trait.LOW in traits) == (Trait.HIGH in traits)
    assert Trait.INDEX not in traits or Trait.LOW in traits


def test_what_a_statement_of_the_loop_ir_may_change_is_said_at_its_fields() -> None:
    a, b, c, work = [loops.Buffer(name, "f64") for name in "abcw"]
    size, n = poly(4), fresh("n", I64)
    whole = [loops.Matrix(x, size, size, False) for x in (a, b, c)]
    product = loops.Product(whole[0], whole[1], whole[2], size, size, size, 0, work)
    assert nests.written(product) == nests.changed(product) == (c,) and nests.callee(product) is None
    assert nests.written(loops.OnDevice(product)) == (c,)
    call = loops.Invoke("f", (a, n), (b,), (c,), None)
    assert nests.written(call) == (b,) and nests.changed(call) == (a, n, b) and nests.callee(call) == "f"
    shown = loops.Runtime("print", (), (loops.ArrayValue(a, (size,)),), (loops.ArrayValue(b, (size,)),), (), None)
    assert nests.changed(shown) == (b,)
    store = loops.Store(a, poly(n), Lit(1.0, "f64"))
    assert nests.written(store) == (a,) and nests.offsets(store) == (poly(n),)
    loop = loops.Loop(n, (poly(1), poly(2)), (size,), (store,))
    assert nests.indices(loop) == (n,) and nests.lows(loop) == (poly(1), poly(2)) and nests.highs(loop) == (size,)
    assert nests.written(loop) == ()


def test_the_bodies_of_a_statement_are_changed_and_its_lists_of_statements_are_not() -> None:
    n, body = fresh("n", I64), loops.Body((), ())
    branch = loops.Branch(Lit(True, "bool"), body, loops.Body((loops.Free(loops.Buffer("a", "f64")),), ()), ())
    assert nests.map_bodies(branch, lambda _: body) == replace(branch, otherwise=body)
    loop = loops.Loop(n, (poly(0),), (poly(9),), branch.otherwise.stmts)
    assert nests.map_bodies(loop, lambda _: body) is loop


def test_work_grows_with_the_sizes_of_a_product() -> None:
    m, k, n = [fresh(name, I64) for name in "mkn"]
    a, b, c = [loops.Matrix(loops.Buffer(x, "f32"), poly(0), poly(1), False) for x in "abc"]
    made = loops.work_of(loops.Product(a, b, c, poly(m), poly(n), poly(k), 0))
    assert made is not None and made.operations == poly(m) * poly(n) * poly(k) * 2
    assert made.steps == (poly(m), poly(n), poly(k)) and made.each == 15
    assert made.bytes == (poly(m) * poly(k) + poly(k) * poly(n) + poly(m) * poly(n)) * 4
    assert loops.work_of(loops.Free(a.buffer)) is None


@pytest.mark.parametrize("cls", CORE)
def test_operations_of_the_core_ir_bind_only_inside(cls: type) -> None:
    roles = {leaf.role for leaf in leaves(cls)}
    assert Role.RESULT not in roles  # a let binds results
    seen = any(leaf.role is Role.BLOCK or Trait.INSIDE in leaf.traits for leaf in leaves(cls))
    assert seen or Role.BINDER not in roles


def places(form: Form) -> Iterator[Hole]:
    for piece in form:
        if isinstance(piece, Hole):
            yield piece
        elif isinstance(piece, Each):
            yield from places(piece.form)
        elif isinstance(piece, Choice):
            yield from places((*piece.then, *piece.otherwise))


@pytest.mark.parametrize("cls", [*(c for c in CORE if c is not Prim), anf.Axis, anf.Reduce, anf.ScatterAdd])
def test_a_form_of_the_core_ir_has_a_place_for_each_field(cls: type) -> None:
    form = parsed(vars(cls)["FORM"])
    words = {choice.field for choice in form if isinstance(choice, Choice) and not [*places(choice.then)]}
    assert sorted([*words, *(hole.path[0] for hole in places(form))]) == sorted(f.name for f in fields(cls))


@pytest.mark.parametrize("cls", [c for c in LOOPS if c not in (loops.At, loops.Launch)])
def test_a_form_of_the_loop_ir_has_a_place_for_each_field_but_those_of_source_and_reasons(cls: type) -> None:
    form = parsed(vars(cls)["FORM"])
    words = {choice.field for choice in form if isinstance(choice, Choice) and not [*places(choice.then)]}
    assert {*words, *(hole.path[0] for hole in places(form))} == {f.name for f in fields(cls)} - {"span", "why"}


# ---- a toy operation in the core IR ----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Toy:
    """Numbers x[entry] of an index, added up with what a block gives."""

    FORM: ClassVar[str] = "toy {name} {array} ({seeds}) [{shape}]"
    IS: ClassVar[Properties] = Properties(total=True)
    name: str
    array: Var
    seeds: tuple[anf.Atom | None, ...]
    shape: tuple[Size, ...]
    index: Index
    entry: Inside
    body: Block
    often: Hint = False


def toy(name: str = "t", often: bool = False) -> tuple[dict[str, Var], Any]:
    names = {"n": fresh("n", I64), "s": fresh("s", F), "i": fresh("i", I64), "t": fresh("t", F)}
    x = names["x"] = fresh("x", Array("f64", (poly(names["n"]),)))
    body = Block((Let((names["t"],), Prim("neg", (names["s"],))),), (names["t"],))
    op = Toy(
        name, x, (None, names["s"]), (poly(names["n"]) + 1,), names["i"], poly(names["i"]) + names["n"], body, often
    )
    return names, op


def test_a_toy_operation_is_walked() -> None:
    v, op = toy()
    assert parts(op) == ((v["x"], v["s"]), (poly(v["n"]) + 1, poly(v["i"]) + v["n"]), (op.body,), (v["i"],))
    assert op_blocks(op) == (op.body,)
    assert free_vars(op) == [v["x"], v["s"], v["n"]] and mentioned(op).count(v["s"]) == 2
    assert [type(let.op).__name__ for let in walk(Block((Let((), op),), ()))] == ["Toy", "Prim"]


def test_a_toy_operation_is_renamed_and_rebuilt() -> None:
    v, op = toy()
    m, y = fresh("m", I64), fresh("y", F)
    new: Any = substitute(op, {v["n"]: m, v["s"]: y})
    assert new.seeds == (None, y) and new.shape == (poly(m) + 1,) and new.entry == poly(v["i"]) + m
    assert new.body.lets[0].op == Prim("neg", (y,)) and new.array is v["x"]
    assert rebuild(op, atom=lambda a: a, size=lambda s: s, block=lambda b: b, bind=lambda b: b) is op
    assert map_blocks(op, lambda b: Block((), b.results)) == Toy(
        *[Block((), op.body.results) if f.name == "body" else getattr(op, f.name) for f in fields(Toy)]
    )
    with pytest.raises(IRError, match="is an array"):
        substitute(op, {v["x"]: Lit(1.0, "f64")})


def test_toy_operations_have_keys_up_to_renaming_and_hints() -> None:
    v, op = toy()
    i, t = fresh("i", I64), fresh("t", F)
    body = Block((Let((t,), Prim("neg", (v["s"],))),), (t,))
    alike: Any = Toy("t", op.array, op.seeds, op.shape, i, poly(i) + v["n"], body, often=True)
    assert Keys().op(op) == Keys().op(alike)
    other: Any = Toy("u", op.array, op.seeds, op.shape, i, poly(i) + v["n"], body)
    assert Keys().op(op) != Keys().op(other)


def test_a_toy_operation_is_printed_by_its_form() -> None:
    v, op = toy("a word")
    f = Function("f", (v["n"], v["s"], v["x"]), (), Block((Let((), op),), ()))
    assert 'toy "a word" x.2 (_, s.1) [n.0 + 1]' in print_function(f)


def test_a_toy_operation_without_a_block_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, slots=True)
    class Plain:
        FORM: ClassVar[str] = 'plain "{name}" {array}[{index}]⟨extra? with ({extra})⟩'
        name: str
        array: Var
        index: tuple[Size, ...]
        extra: tuple[int, ...] = ()

    monkeypatch.setitem(cast("dict[str, type]", reader._FORMS), "plain", Plain)
    v, _ = toy()
    for extra in ((), (1, 2)):
        op: Any = Plain("a b", v["x"], (poly(v["n"]) - 1,), extra)
        text = print_function(Function("f", (v["n"], v["x"]), (), Block((Let((), op),), ())))
        assert print_function(reader.read_program(text).functions["f"]) == text


def test_a_toy_operation_is_verified_in_its_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rules.RULES, Toy, rules.Rule(lambda op, functions: ()))  # it binds nothing
    v, op = toy()

    def check(op: Any) -> None:
        verify.verify(Program({"f": Function("f", (v["n"], v["s"], v["x"]), (), Block((Let((), op),), ()))}))

    check(op)
    outside = fresh("outside", I64)
    with pytest.raises(IRError, match=r"outside\S* is not in scope"):
        check(substitute(op, {v["n"]: outside}))
    _, again = toy()
    with pytest.raises(IRError, match="is not in scope"):
        check(Toy("t", v["x"], (), (poly(v["i"]),), v["i"], poly(0), again.body))  # the shape does not see the index
    with pytest.raises(IRError, match="bound twice"):
        check(Toy("t", v["x"], (), (), v["n"], poly(0), op.body))


# ---- a toy statement of the loop IR ----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Fill:
    """result = how many elements a block has filled."""

    FORM: ClassVar[str] = "{result} = fill {buffer}[{shape}]⟨twice?, twice⟩"
    result: Result
    buffer: loops.Buffer
    own: ParamBuffer
    shape: tuple[Size, ...]
    stmts: Annotated[tuple[loops.Stmt, ...], Role.BLOCK]
    twice: bool = False


def fill() -> tuple[dict[str, Any], Any]:
    v: dict[str, Any] = {"r": fresh("r", I64), "n": fresh("n", I64), "c": fresh("c", F)}
    v["b"], v["o"] = loops.Buffer("b", "f64"), loops.Buffer("o", "f64")
    inside = (loops.Store(v["o"], poly(v["n"]), v["c"]), loops.Store(v["b"], poly(0), v["c"]))
    return v, Fill(v["r"], v["b"], v["o"], (poly(v["n"]) + 1,), inside)


def test_a_toy_statement_is_walked() -> None:
    v, stmt = fill()
    assert [type(s).__name__ for s in nests.walk((stmt,))] == ["Fill", "Store", "Store"]
    assert nests.bound_by(stmt) == (v["r"],) and nests.binds(stmt) == (v["o"], v["r"])
    assert nests.captures((stmt, loops.Convert(fresh("x", F), v["r"])), ()) == (v["b"], v["n"], v["c"])
    assert nests.map_inside(stmt, lambda inner: ()) == Fill(v["r"], v["b"], v["o"], stmt.shape, ())


def test_a_toy_statement_is_renamed() -> None:
    v, stmt = fill()
    other, m = loops.Buffer("other", "f64"), fresh("m", I64)
    new: Any = nests.rebuild(
        stmt, value=lambda x: other if x is v["b"] else x, size=lambda s: s.substitute({v["n"]: poly(m)}.get)
    )
    assert new == Fill(v["r"], other, v["o"], (poly(m) + 1,), stmt.stmts)
    assert nests.rebuild(stmt) is stmt


def test_a_toy_statement_is_printed_by_its_form() -> None:
    v, stmt = fill()
    assert printing.head_of(stmt) == f"{v['r']} = fill {v['b']}[{v['n']} + 1]"
    twice: Any = Fill(v["r"], v["b"], v["o"], (), (), twice=True)
    assert printing.head_of(twice).endswith("[], twice")


def test_a_toy_statement_is_verified_in_its_scopes() -> None:
    v, stmt = fill()

    def check(*stmts: Any) -> None:
        f = loops.Function("f", (v["n"], v["c"], v["b"]), (), loops.Body(stmts, ()), ())
        verify_loops(loops.Program({"f": f}))

    check(stmt, loops.Store(v["b"], poly(v["r"]), v["c"]))
    with pytest.raises(IRError, match="is not in scope"):
        check(stmt, loops.Store(v["o"], poly(0), v["c"]))  # its own buffer is not seen behind it
    with pytest.raises(IRError, match="is not in scope"):
        check(nests.rebuild(stmt, value=lambda x: loops.Buffer("b", "f64")))
    with pytest.raises(IRError, match="is bound twice"):
        check(stmt, nests.rebuild(stmt, block=lambda inner: ()))
    with pytest.raises(IRError, match="is f64, not i64"):
        check(nests.rebuild(stmt, size=lambda s: poly(v["c"])))
