"""Points at which all holds that is known of variables: they satisfy it, and what they refute is not searched for."""

from __future__ import annotations

import pytest

from dlang.diagnostics import Source
from dlang.driver import Request, check, lower
from dlang.inequalities import ROOM, Facts
from dlang.ir.accesses import unproven
from dlang.ir.affine import Knowledge
from dlang.ir.anf import Lit, Op, Prim, Program, Size, Var, fresh, poly
from dlang.ir.points import find_point, value_at
from dlang.ir.types import BOOL, I64

N, H, K, C, I, J, R = (fresh(name, I64) for name in "nhkcijr")
TEST = fresh("t", BOOL)
DEFINITIONS: dict[Var, Op] = {
    C: Prim("minimum", (K, Lit(5, "i64"))),
    J: Prim("select", (TEST, I, K)),
    TEST: Prim("lt", (I, K)),
    R: Prim("mod", (I, Lit(3, "i64"))),
}


def halves() -> Knowledge:
    """With h = n // 2 in an arm where n - h <= k < n; c, j and r are made of these, i is somewhere below c."""
    known = Knowledge()
    facts = known.facts
    facts.size(N)
    facts.size(H)
    facts.floors[H] = poly(N), poly(2)
    facts.between(K, (poly(N) - poly(H), poly(0)), (poly(N),))
    facts.narrow(N, (poly(1),), (poly(H) + poly(K) + 1, 2 * poly(K) + 1))
    facts.between(I, (poly(0),), (poly(C),))
    facts.between(J, (poly(0),), (poly(6),))
    facts.size(R)
    known.nonnegative[3 * poly(N) - 2 * poly(K)] = None
    return known


def test_all_that_is_known_holds_at_a_point() -> None:
    known = halves()
    found = find_point(known, DEFINITIONS, {})
    assert found is not None
    n, h, k, c, i, j, r = (found[v] for v in (N, H, K, C, I, J, R))
    assert h == n // 2 and c == min(k, 5) and j == (i if i < k else k) and r == i % 3
    assert n - h <= k < n <= h + k and 0 <= i < c and 0 <= j < 6 and 3 * n >= 2 * k
    assert value_at(poly(N) * poly(K) - 2, found) == n * k - 2
    assert value_at(poly(fresh("unknown", I64)), found) is None


@pytest.mark.parametrize("more", [poly(H) - poly(N), poly(K) - 2 * poly(N), poly(C) - 6])
def test_there_is_none_where_what_is_known_contradicts_itself(more: Size) -> None:
    known = halves()
    known.nonnegative[more] = None
    assert find_point(known, DEFINITIONS, {}) is None


TRANSFORM = """
fn fft(x: f64[n, 2]) -> f64[n, 2] = if n <= 1 { x } else {
  let a = fft(x[0..n // 2])
  let b = fft(x[n // 2..])
  let h = n // 2
  [if k < h { [a[k, 0] + b[k, 0] * cos(f64(k)), a[k, 1] + b[k, 1] * sin(f64(k))] }
   else { [a[k - h, 0] - b[k - h, 0] * cos(f64(k)), a[k - h, 1] - b[k - h, 1] * sin(f64(k))] } for k < n]
}
fn f(x: f64[n]) -> f64[n] = grad(|v: f64[n]| sum(z[0] ** 2 * z[1] for z in fft([[e, 0.0] for e in v])))(x)
"""


def test_what_is_not_proven_of_a_recursion_on_halves_takes_no_long_search(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    prove = Facts.proves_nonnegative

    def counting(
        facts: Facts[Var], p: Size, depth: int = 0, room: int = ROOM, replaced: frozenset[Var] = frozenset()
    ) -> bool:
        nonlocal asked
        asked += 1
        return prove(facts, p, depth, room, replaced)

    stages: dict[str, Program] = {}
    checked = check(Source("program.dl", TRANSFORM))
    decl = checked.module.functions["f"]
    lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))], observe=stages.__setitem__)
    monkeypatch.setattr(Facts, "proves_nonnegative", counting)
    found = [a for f in stages["derivatives"].functions.values() for a in unproven(f)]
    assert found and asked < 4_000
