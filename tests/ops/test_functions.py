"""Every function that the compiler knows: that no stage forgets it, and that its row is whole."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from dlang.ops.functions import (
    DECLARED,
    DERIVES,
    FUNCTIONS,
    JOINED,
    KEPT,
    PARAMETERS,
    REDUCED,
    SCHEMES,
    TYPES,
    Function,
)
from dlang.ops.monoids import COMBINE, MONOIDS, STAYS
from dlang.ops.primitives import BOOL, CLASSES, WORDS
from dlang.specialize import builtins
from dlang.specialize.builtins import call
from dlang.typecheck.builtins import RULES
from tests.ops.stages import cases
from tests.patience import PATIENCE

EACH = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
STDLIB = Path(__file__).parent.parent.parent / "stdlib"


# ---- no stage forgets one --------------------------------------------------------------------------------------------
def test_the_checker_has_a_rule_for_each_function_without_a_scheme() -> None:
    assert set(RULES) == set(PARAMETERS)
    assert set(FUNCTIONS) == (set(SCHEMES) | set(PARAMETERS) | DERIVES) - set(WORDS)


def test_each_function_becomes_operations_of_the_ir() -> None:
    known = cases(call) | REDUCED | {name for name, d in DECLARED.items() if d.matrices}
    known |= {name for name in DECLARED if name.startswith(("read_", "write_"))}
    checked = DERIVES | {"fail"}  # which are nodes of the core tree
    assert (set(FUNCTIONS) | set(DECLARED)) - known == checked
    assert cases(builtins.operation) == {name for name, d in DECLARED.items() if d.matrices}


def test_the_standard_library_declares_the_others() -> None:
    declared = {n for p in STDLIB.glob("*.dl") for n in re.findall(r'extern "builtin:(\w+)"', p.read_text())}
    assert declared == set(DECLARED) | (declared & {"erfc"})


def test_every_monoid_but_that_of_writes_is_a_function() -> None:
    plain = {r.monoid for f in FUNCTIONS.values() if (r := f.reduction) is not None and r.plain}
    assert plain == {*COMBINE, *STAYS}


# ---- a row is whole --------------------------------------------------------------------------------------------------
@EACH
def test_a_row_is_whole(f: Function) -> None:
    assert f.type.count("(") == f.type.count(")") and "->" in f.type and f.about.endswith(".")
    assert f.scheme + f.derives + (f.name in PARAMETERS) == 1
    assert not f.elements or f.elements == BOOL or f"<a: {f.elements}>" in f.type
    assert not f.elements or (f.elements in CLASSES and f.name in REDUCED | KEPT)
    assert not f.positions or f.type.endswith(("i64", "i64[n]"))
    assert f.name not in JOINED or f.rearranges
    assert TYPES[f.name] == f.type
    if f.reduction is not None:
        m = MONOIDS[f.reduction.monoid]
        assert f.axis == "reduced" and f.positions == bool(m.stays)
        assert f.reduction.plain or m.has_empty
    if f.numpy:
        assert callable(getattr(np, f.numpy)) and f.axis in ("reduced", "kept")


# ---- one place -------------------------------------------------------------------------------------------------------
ROW = """
    _reduced(
        "nansum", FLOAT, Reduction("sum", "select(isnan(x), 0.0, x)"), f"The sum of what is a number, {_ALONG}.",
    ),
"""
USE = """
import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path

spec = find_spec("dlang.ops.functions")
table = module_from_spec(spec)
sys.modules[spec.name] = table
text = Path(spec.origin).read_text()
before = "    Function(\\n        \\"logsumexp\\""
assert text.count(before) == 1
exec(compile(text.replace(before, ROW.lstrip("\\n") + before), spec.origin, "exec"), table.__dict__)

import numpy as np
import dlang
from dlang.tools.assistance import signature, words
from tests.cuda.both import Both
from tools.tables import functions

PROGRAM = '''
fn total(x: f64[n]) -> f64 = nansum(x)
fn rows(x: f64[n, m]) -> f64[n] = nansum(x * x, axis = 1)
fn kept(x: f32[n, m]) -> f32[1, m] = nansum(x, axis = 0, keepdims = true)
fn slopes(x: f64[n]) -> f64[n] = grad(|v: f64[n]| nansum(v * v))(x)
fn one(x: f64) -> f64 = nansum(x)
'''
x = np.array([[1.0, np.nan, -2.0], [0.5, 3.0, np.nan]])
v = x[0]
calls = {
    "total": ([3], [v], np.nansum(v)), "rows": ([2, 3], [x], np.nansum(x * x, axis=1)),
    "kept": ([2, 3], [x.astype(np.float32)], np.nansum(x.astype(np.float32), axis=0, keepdims=True)),
    "slopes": ([3], [v], np.where(np.isnan(v), 0.0, 2 * v)), "one": ([], [2.5], 2.5),
}
both = Both(PROGRAM, list(calls))
module = dlang.compile(PROGRAM)
for name, (sizes, args, wanted) in calls.items():
    both.agree(name, sizes, args, 1e-6)  # the interpreter and emulated CUDA
    np.testing.assert_allclose(getattr(module, name)(*args), wanted, rtol=1e-6)
np.testing.assert_allclose(np.nansum(dlang.lazy(x), axis=0).value(), np.nansum(x, axis=0))
assert words("nansum").startswith("The sum of what is") and signature("nansum") == "<a: Float>(x: a[..s]) -> a"
assert "| `nansum` | `<a: Float>(x: a[..s]) -> a` | The sum of what is a number, over all axes" in functions()
"""


def test_a_reduction_is_added_in_one_place() -> None:
    code = f"ROW = {textwrap.indent(textwrap.dedent(ROW), '    ')!r}\n{USE}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
