"""What a draw depends on, seen from outside: instances, keys, entries, and the order of effects in comprehensions."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.diagnostics import DlangError
from dlang.ir import anf
from dlang.ops.special import threefry
from tests.specialize.support import lowered, ops

# Random123's kat_vectors, threefry2x64 with 20 rounds: key, counter, words
VECTORS = [
    ((0, 0), (0, 0), (0xC2B6E3A8C2C69865, 0x6F81ED42F350084D)),
    (
        (0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF),
        (0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF),
        (0xE02CB7C4D95D277A, 0xD06633D0893B8B68),
    ),
    (
        (0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0x243F6A8885A308D3, 0x13198A2E03707344),
        (0x263C7D30BB0F0AF1, 0x56BE8361D3311526),
    ),
]

DRAWS = """
import random

fn bits(n: size) -> u64[n] = [random.bits() for i < n]
fn grid(n: size, m: size) -> u64[n, m] = [random.bits() for i < n, j < m]
fn uniforms(n: size) -> f64[n] = [random.uniform() for i < n]
fn narrow(n: size) -> f32[n] = [random.uniform() for i < n]
fn normals(n: size) -> f64[n] = [random.normal() for i < n]
fn integers(n: size) -> i64[n] = [random.integer(-5, 6) for i < n]
fn order(n: size) -> i64[n] = random.permutation(n)
fn mixed(n: size) -> (f64, f64[n], f64) {
  let first = random.uniform()
  let inside = [if random.uniform() < 0.5 { random.uniform() } else { -random.uniform() } for i < n]
  var last = 0.0
  for i < n { last += random.uniform() }
  (first, inside, last)
}
"""


@pytest.fixture(scope="module")
def both():
    return [dlang.compile(DRAWS, backend=backend) for backend in ("interp", "cpu")]


def words(pair):
    return [np.uint64(w) for w in pair]


@pytest.mark.parametrize(("key", "counter", "expected"), VECTORS)
def test_threefry_gives_its_published_words(key, counter, expected):
    with np.errstate(over="ignore"):
        assert tuple(map(int, threefry(*words(key), *words(counter)))) == expected


@pytest.mark.parametrize("name", ["bits", "uniforms", "narrow", "integers", "order"])
def test_both_back_ends_draw_the_same_bits(both, name):
    interpreted, compiled = [getattr(m, name)(1001, seed=11) for m in both]
    assert interpreted.dtype == compiled.dtype
    assert np.array_equal(interpreted, compiled)


def test_both_back_ends_draw_the_same_in_branches_and_loops(both):
    for a, b in zip(*[m.mixed(37, seed=3) for m in both], strict=True):
        assert np.allclose(a, b, rtol=1e-14, atol=0.0)  # sums of draws


def test_normal_numbers_of_both_back_ends_differ_by_rounding_alone(both):
    a, b = [m.normals(1000, seed=2) for m in both]
    assert np.allclose(a, b, rtol=1e-13, atol=1e-15)


def test_a_draw_is_the_hash_of_the_seed_and_the_index(both):
    """The layout of the words is a promise: results of programs depend on it."""
    zero, one = np.uint64(0), np.uint64(1)
    with np.errstate(over="ignore"):
        key, _ = threefry(np.uint64(42), zero, zero, one)  # of the function that is called
        first, _ = threefry(key, one, np.arange(5, dtype=np.uint64), one)
    assert np.array_equal(both[1].bits(5, seed=42), first)


def test_indices_are_hashed_not_positions(both):
    """An element keeps its number when the array grows along any axis."""
    small, large = both[1].grid(3, 4, seed=1), both[1].grid(5, 9, seed=1)
    assert np.array_equal(small, large[:3, :4])
    assert np.unique(large).size == large.size


def test_uniform_numbers_have_all_53_bits(both):
    x = both[1].uniforms(1000, seed=0) * 2.0**53
    assert np.array_equal(x, np.floor(x)) and (x % 2 == 1).mean() > 0.4
    y = both[1].narrow(1000, seed=0).astype(float) * 2.0**24
    assert np.array_equal(y, np.floor(y)) and (y % 2 == 1).mean() > 0.4


def test_from_python_the_seed_is_0_unless_given(both):
    for m in both:
        assert np.array_equal(m.uniforms(3), m.uniforms(3, seed=0))
        assert not np.array_equal(m.uniforms(3), m.uniforms(3, seed=1))
        assert np.array_equal(m.uniforms(3, seed=np.int64(-7)), m.uniforms(3, seed=-7))


def test_a_seed_that_is_no_integer_is_refused(both):
    with pytest.raises(DlangError, match="takes an integer of 64 bits as `seed`"):
        both[0].uniforms(3, seed=0.5)


def test_a_function_that_draws_nothing_has_no_seed():
    m = dlang.compile("import random\nfn f() -> f64 = random.run(1, || random.uniform())", backend="interp")
    assert m.f() == m.f()
    with pytest.raises(DlangError, match="no parameter `seed`"):
        m.f(seed=1)


def test_a_parameter_called_seed_comes_first():
    m = dlang.compile("import random\nfn f(seed: i64) -> f64 = random.uniform() + f64(seed)", backend="interp")
    assert m.f(seed=2) == pytest.approx(m.f(0) + 2.0)


def test_a_function_that_is_given_one_that_draws_takes_a_seed():
    text = """
import random
fn draw() -> f64 ! random = random.uniform()
fn twice(f: () -> f64) -> f64[2] = [f(), f()]
"""
    m = dlang.compile(text, backend="interp")
    assert m.twice(m.draw, seed=3)[0] != m.twice(m.draw, seed=3)[1]
    assert np.array_equal(m.twice(m.draw, seed=3), m.twice(m.draw, seed=3))
    assert not np.array_equal(m.twice(m.draw, seed=3), m.twice(m.draw))


def test_a_gradient_from_python_takes_the_seed_too():
    m = dlang.compile("import random\nfn f(x: f64) -> f64 = x * random.normal()", backend="interp")
    assert dlang.grad(m.f)(2.0, seed=5) == pytest.approx(m.f(1.0, seed=5))


def test_a_call_from_outside_draws_what_run_does():
    m = dlang.compile(
        """
import random
fn pair(scale: f64 = 1.0) -> f64[2] = [scale * random.normal(), random.normal()]
fn noise(x) = x * random.normal()
fn named() -> f64[2] = random.run(4, pair_of_one)
fn pair_of_one() -> f64[2] ! random = [1.0 * random.normal(), random.normal()]
fn written() -> f64[2] = random.run(4, || pair())
""",
        backend="interp",
    )
    expected = m.pair(1.0, seed=4)
    for found in (m.pair(seed=4), m.pair_of_one(seed=4), m.named(), m.written()):
        assert np.array_equal(found, expected)
    assert np.array_equal(m.noise(np.ones(2), seed=4), np.full(2, expected[0]))


def test_the_key_is_one_parameter_of_an_instance_that_draws():
    program = lowered("""
import random
fn noise() -> f64 = random.normal()
fn quiet(x: f64) -> f64 = x
fn f() -> f64 = quiet(noise()) + noise()
""")
    (noise,), (quiet,) = program.functions_of("noise"), program.functions_of("quiet")
    assert [p.type for p in noise.params] == [anf.Scalar("u64")]
    assert [p.type for p in quiet.params] == [anf.Scalar("f64")]
    assert program.entry.seed


def test_a_function_has_an_instance_with_a_key_only_for_arguments_that_draw():
    program = lowered("""
import random
fn twice(f: () -> f64) -> f64 = f() + f()
fn f() -> f64 = twice(|| 1.0) + twice(|| random.uniform())
""")
    assert sorted(len(g.params) for g in program.functions_of("twice")) == [0, 1]


def test_a_draw_in_a_comprehension_costs_one_hash():
    program = lowered("import random\nfn f(n: size) -> f64[n] = [random.uniform() for i < n]")
    (comp,) = [op for op in ops(program.program) if isinstance(op, anf.Comp)]
    hashes = [let for let in comp.body.lets if isinstance(let.op, anf.Prim) and let.op.name == "threefry"]
    assert len(hashes) == 1


def test_a_loop_counts_its_iterations_only_if_they_draw():
    def state(body):
        program = lowered(f"import random\nfn f(n: i64) -> i64 {{ var k = 0\n while k < n {{ {body} }}\n k }}")
        (loop,) = [op for op in ops(program.program) if isinstance(op, anf.While)]
        return len(loop.init)

    assert state("k += 1") == 1
    assert state("k += 1 + i64(2.0 * random.uniform())") == 2


def test_what_is_drawn_does_not_depend_on_literal_sizes():
    text = """
import random
fn draws(x: f64[n]) -> (f64, f64) {
  let a = if n == 3 { random.uniform() } else { 0.0 }
  (a, random.uniform())
}
fn literal() -> (f64, f64) = draws([1.0, 2.0, 3.0])
fn symbolic(x: f64[n]) -> (f64, f64) = draws(x)
"""
    m = dlang.compile(text, backend="interp")
    assert m.literal() == m.symbolic(np.ones(3))


FLOATS_OF = """
import random
struct Pair { a: f64, b: f64[2] }
enum Tree { Leaf, Node(value: f64, left: Tree, right: Tree) }
fn drawn(p: (f64, f64[2, 2], Pair[2])) -> (f64, f64[2, 2], Pair[2]) = map_floats(|x| x * random.uniform(), p)
fn tree(n: i64) -> Tree = if n == 0 { Leaf } else { Node(1.0, tree(n - 1), tree(n - 1)) }
fn values(t: Tree) -> List<f64> ! () = match t { Leaf => Nil, Node(v, l, r) => Cons(v, joined(values(l), values(r))) }
fn joined(x: List<f64>, y: List<f64>) -> List<f64> = match x { Nil => y, Cons(v, rest) => Cons(v, joined(rest, y)) }
fn of_tree() -> f64[?] {
  var out: f64[?] = [0.0][..0]
  var left = values(map_floats(|x| x * random.uniform(), tree(3)))
  while (match left { Nil => false, _ => true }) {
    left = match left { Cons(v, rest) => { out = concat(out, [v]); rest }, Nil => Nil }
  }
  out
}
"""


def test_map_floats_draws_anew_for_each_float():
    pair = [{"a": 1.0, "b": np.ones(2)}] * 2
    found = {}
    for backend in ("interp", "cpu"):
        m = dlang.compile(FLOATS_OF, backend=backend)
        first, square, pairs = m.drawn((1.0, np.ones((2, 2)), [m.Pair(**p) for p in pair]), seed=7)
        numbers = [first, *square.ravel(), *[x for p in pairs for x in (p.a, *p.b)]]
        assert len(set(numbers)) == 11 and all(0.0 <= x < 1.0 for x in numbers)
        in_tree = list(m.of_tree(seed=7))
        assert len(set(in_tree)) == 7
        found[backend] = [*numbers, *in_tree]
    assert found["interp"] == found["cpu"]


RANGES = """
import random
fn shuffled(i: i64) -> i64[4] ! random = random.permutation(4)
fn some(i: i64) -> i64[?] ! random = random.permutation(i)
fn rows() -> i64[3, 4] = [v for i < 3, v in shuffled(i)]
fn ragged() -> i64[?] = [10 * i + v for i < 5, v in some(i) if v >= 0]
fn summed() -> i64 = sum(v for i < 3, v in shuffled(i))
fn chance(n: size) -> f64[?] = [random.uniform() for i < n, j < i if random.uniform() < 0.5]
"""


def test_what_a_binder_ranges_over_is_drawn_once_for_the_binders_before_it():
    found = {}
    for backend in ("interp", "cpu"):
        m = dlang.compile(RANGES, backend=backend)
        rows, ragged, chance = m.rows(seed=3), m.ragged(seed=3), m.chance(40, seed=3)
        assert [sorted(r) for r in rows.tolist()] == [[0, 1, 2, 3]] * 3 and len({tuple(r) for r in rows.tolist()}) > 1
        assert sorted(ragged) == [10 * i + j for i in range(5) for j in range(i)] and m.summed(seed=3) == 18
        assert 300 < len(chance) < 480 and abs(chance.mean() - 0.5) < 0.1
        found[backend] = [*rows.ravel(), *ragged, *chance]
    assert found["interp"] == found["cpu"]


# ---- effects in comprehensions ---------------------------------------------------------------------------------------
PRINTS = """
struct Pair { a: f64, b: f64[2] }
fn shout(x: f64) -> f64 {
  print("{x:.0f}")
  2.0 * x
}
fn rows(n: size) -> f64[n, 2] = [shout(f64(10 * i + j)) for i < n, j < 2]
fn nested(n: size) -> f64[n, 2] = [[shout(f64(10 * i + j)) for j < 2] for i < n]
fn kept(n: size) -> f64[?] = [shout(f64(i)) for i < n if i % 2 == 1]
fn summed(n: size) -> f64 = sum(shout(f64(i)) for i < n)
fn largest(n: size) -> f64 = max(shout(f64(i)) for i < n if i < 2)
fn mapped(x: f64[n]) -> f64[n] = map(shout, x)
fn pair(x: f64) -> Pair = Pair(a = shout(x), b = [x, 1.0])
fn pairs(n: size) -> f64 = sum(p.a + p.b[0] for p in [pair(f64(i)) for i < n])
fn units(n: size) { let _ = [print("u{i}") for i < n] }
fn maybe(c: bool, f: () -> ()) { if c { f() } }
fn branches() {
  maybe(true, || print("yes"))
  maybe(false, || print("no"))
}
fn asked(n: size) -> f64[?] = [f64(i) for i < n if shout(f64(i)) > 1.0]
fn both(n: size) -> f64[?] = [shout(f64(10 * i)) for i < n if shout(f64(i)) > 1.0]
fn count(n: size) -> f64 = sum(1.0 for i < n if shout(f64(i)) > 1.0)
fn triangle(n: size) -> f64 = sum(shout(f64(10 * i + j)) for i < n, j < i)
fn corner(n: size) -> f64[?] = [f64(10 * i + j) for i < n, j < i if shout(f64(10 * i + j)) > 30.0]
fn ranges(n: size) -> f64[n, 2] = [shout(v) for i < n, v in [f64(i), shout(f64(10 * i))]]
fn lengths(n: size) -> f64[?] = [f64(i) for i < n, j < i64(shout(f64(i))) if i > j]
fn floats(p: (f64, Pair[2], Option<f64>)) -> (f64, Pair[2], Option<f64>) = map_floats(shout, p)
fn all_floats() -> f64 = sum_floats(floats((1.0, [Pair(2.0, [3.0, 4.0]), Pair(5.0, [6.0, 7.0])], Some(8.0))))
fn scanned(x: f64[n]) -> f64[n] = scan(|s, v| (s + v, shout(v)), 0.0, x).1
fn tested(x: f64) -> bool { print("t{x:.0f}"); x > 0.0 }
fn lazily(x: f64) -> bool = tested(x) and tested(-x) or tested(x + 1.0)
fn waits(n: i64) -> i64 {
  var k = 0
  while tested(f64(n - k)) { k += 1 }
  k
}
"""


@pytest.mark.parametrize("backend", ["interp", "cpu"])
@pytest.mark.parametrize(
    ("name", "args", "printed", "value"),
    [
        ("rows", (2,), "0 1 10 11", [[0.0, 2.0], [20.0, 22.0]]),
        ("nested", (2,), "0 1 10 11", [[0.0, 2.0], [20.0, 22.0]]),
        ("kept", (6,), "1 3 5", [2.0, 6.0, 10.0]),
        ("summed", (3,), "0 1 2", 6.0),
        ("largest", (5,), "0 1", 2.0),
        ("mapped", (np.array([7.0, 8.0]),), "7 8", [14.0, 16.0]),
        ("pairs", (3,), "0 1 2", 9.0),
        ("units", (2,), "u0 u1", None),
        ("rows", (0,), "", np.zeros((0, 2))),
        ("branches", (), "yes", None),
        ("asked", (3,), "0 1 2", [1.0, 2.0]),
        ("both", (3,), "0 1 10 2 20", [20.0, 40.0]),
        ("count", (3,), "0 1 2", 2.0),
        ("triangle", (3,), "10 20 21", 102.0),
        ("corner", (3,), "10 20 21", [20.0, 21.0]),
        ("ranges", (2,), "0 0 0 10 1 20", [[0.0, 0.0], [2.0, 40.0]]),
        ("lengths", (3,), "0 1 2", [1.0, 2.0, 2.0]),
        ("all_floats", (), "1 2 3 4 5 6 7 8", 72.0),
        ("scanned", (np.array([1.0, 2.0]),), "1 2", [2.0, 4.0]),
        ("lazily", (2.0,), "t2 t-2 t3", True),
        ("waits", (2,), "t2 t1 t0", 2),
    ],
)
def test_a_comprehension_that_prints_runs_in_order(backend, name, args, printed, value, capfd):
    module = dlang.compile(PRINTS, backend=backend)
    found = getattr(module, name)(*args)
    assert capfd.readouterr().out.split() == printed.split()
    if value is not None:
        assert np.array_equal(found, value)


ALIKE = """
import random
fn quiet(i: i64) -> i64 = i
fn loud(i: i64) -> i64 { print("."); i }
fn some(k: i64) -> f64[?] ! random = [random.uniform() for i < k]
fn filtered(f: i64 -> i64) -> f64[?] = [random.uniform() for i < 9, j < f(4) if random.uniform() < 0.7]
fn ragged(f: i64 -> i64) -> f64[?] = [random.uniform() for i < 9, j < f(i) if random.uniform() < 0.7]
fn drawn(f: i64 -> i64) -> f64[?] = [v + random.uniform() for i < 9, v in some(f(i)) if random.uniform() < 0.7]
fn box(f: i64 -> i64) -> f64[9, 3] = [v + random.uniform() for i < 9, v in [random.uniform() * f64(f(i)) for k < 3]]
fn floats(f: i64 -> i64) -> f64[5] = map_floats(|v| v * f64(f(2)) * random.uniform(), ones(5))
fn every(f: i64 -> i64) -> f64[?] =
  concat(filtered(f), ragged(f), drawn(f), reshape(box(f), 27), floats(f))
fn in_silence() -> f64[?] = every(quiet)
fn aloud() -> f64[?] = every(loud)
"""


@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_what_is_drawn_does_not_depend_on_whether_the_points_come_in_order(backend, capfd):
    m = dlang.compile(ALIKE, backend=backend)
    assert np.allclose(m.in_silence(seed=1), m.aloud(seed=1), rtol=1e-15, atol=0.0)
    assert capfd.readouterr().out.count(".") > 50
