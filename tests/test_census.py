"""The structure of the package gets no worse where it has become what it should be."""

from tools.census import QUESTIONS, Module, Package, read_package


def test_answers_of_the_census_stay_within_their_limits():
    package = read_package()
    held = {q.answer(package): q.limit for q in QUESTIONS if q.limit is not None}
    assert held
    assert [count for count, limit in held.items() if count.number > limit] == []


def asked(question, **texts):
    """The answer of the census to a question about a package of these modules."""
    modules = [Module(f"dlang.{name}", f"dlang/{name}.py", text) for name, text in texts.items()]
    (found,) = [q for q in QUESTIONS if q.text == question]
    return found.answer(Package(tuple(modules))).places


def test_a_recursion_goes_through_a_function_that_is_given_the_object_which_holds_it():
    walks = """
class Walk:
    statement: Callable[[Walk, Stmt], None]
    handler: Callable[[Stmt], Walk]
    other: Stmt
"""
    assert asked("fields through which a recursion goes", walks=walks) == ("dlang/walks.py:3 Walk.statement",)


def test_a_recursion_goes_through_a_function_that_is_given_a_holder_of_the_object_which_holds_it():
    frames = "from dlang.instances import Instances\nclass Frame:\n    instances: Instances\n"
    instances = (
        "from dlang import frames\nclass Instances:\n    evaluate: Callable[[frames.Frame], None] | None = None\n"
    )
    assert asked("fields through which a recursion goes", frames=frames, instances=instances) == (
        "dlang/instances.py:3 Instances.evaluate",
    )


def test_classes_of_the_same_name_in_other_modules_are_others():
    frames = "class Frame:\n    evaluate: Callable[[Frame], None]\n"
    others = "class Frame: pass\nclass Held:\n    evaluate: Callable[[Frame], None]\n"
    places = asked("fields through which a recursion goes", frames=frames, others=others)
    assert places == ("dlang/frames.py:2 Frame.evaluate",)


def test_four_modules_in_a_circle_are_a_circle_and_three_are_none():
    ring = [f"from dlang import m{(k + 1) % 4}\n" for k in range(4)]
    question = "modules in a cycle of more than three"
    assert len(asked(question, **{f"m{k}": text for k, text in enumerate(ring)})) == 4
    ring[2] = "from dlang import m0\n"
    assert asked(question, **{f"m{k}": text for k, text in enumerate(ring)}) == ()


def test_a_table_is_about_names_if_half_of_a_column_are_such_names():
    tables = """
COST = {"sin": 20, "cos": 20, "add": 1, "other": 1}
OF = [("exp", 1), ("log", 2), ("tanh", 3)]
ROWS = (Row("asin", 1), Row("acos", 2), Row("atan", 3))
WORDS = frozenset("sqrt tan floor".split())
BY = {np.add: "add", np.sin: "sin", np.cos: "cos"}
C = frozenset("auto break case char const continue default do double else add sub mul".split())
TEXT = "call add sub mul"
OPERATORS = ("and", "or", "not")
ABS, SIGN, NEG = Name("abs"), Name("sign"), Name("neg")
"""
    question = "tables of primitives' names outside of their own folder"
    found = ("2 COST", "3 OF", "4 ROWS", "5 WORDS", "6 BY")
    assert asked(question, tables=tables) == tuple([f"dlang/tables.py:{place}" for place in found])


def test_mathematics_in_a_docstring_is_no_knowledge_of_a_primitive():
    code = 'def f(name):\n    """The error function, erf x."""\n    return name == {name}\n'
    question = "files that know the scalar primitive `erf`"
    assert asked(question, f=code.format(name='"erf"'), g=code.format(name='"erfc"')) == ("dlang/f.py",)
