"""Checking: syntax trees to typed core trees.

Takes what `grammar/` parsed; gives `core.CoreModule`s, whose every expression has a type over the variables of its
function's scheme, and diagnostics. Inference is Hindley–Milner over qualified schemes, with sizes as polynomials and
shapes with row variables. `program.py` has the public functions. Nothing here is evaluated, compiled or differentiated.

What operators and fields need of types that are not known yet waits as a constraint, and becomes a part of the
function's scheme: `fn sq(x) = x * x` needs no annotation. Declarations are checked in strongly connected groups
(`groups.py`), so their order does not matter.

Rules of expressions need the types of other expressions. They ask the `Checker` for these (`context.py`), which they
get as their first argument; its `infer` and `check` are in `expressions.py`, which chooses among all rules. So no rule
imports another that needs it.

Interfaces decide what is checked again after an edit. A function is kept as long as its own text and what it sees of
others (`cache.py`) stay the same; so are data types, in groups that mention one another. A tree is searched for
what it mentions once (`groups.py`). A caller that is kept gets a copy of its tree that mentions the edited
declaration (`checking.py`), so a checked tree never changes.

Inference takes `Idx<n>` for i64. What it says beside is a *refinement* of a value, of the parts of a tuple or of the
elements of an array (`refinements.py`). When a group has been checked, `indices.py` proves what is asked, from binders,
conditions and other refinements (`indices.py`). An index that only a condition proves gets a check at run time, too,
because passes move code by its data and not by the branches around it.

An editor asks for types while a declaration is half written and has no core tree, so inference can be observed
(`cache.py`). An expression with a mistake has the type `MISTAKE`, which fits everywhere, and messages that would
mention it are left out: one mistake gives one message.

There is no polymorphic IR behind the core tree (`core.py`; callers see `headers.py`). Specialisation walks the tree
itself, because most of what it decides (dtypes, ranks, which function a variable holds) is in the types, and an IR that
carried them would have to be typed a second time.
"""
