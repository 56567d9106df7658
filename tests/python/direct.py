"""A module to be called in all ways, values to call it with, and what can be seen of a call."""

import numpy as np
import pytest

import dlang
from dlang.host.platform.objects import can_call
from dlang.python.function import Function

quick = pytest.mark.skipif(not can_call(), reason="calls go through Python here")

MODULE = """
import random { normal }
struct Layer<n, m> { w: f64[n, m], b: f64[m] }
struct Mixed { layer: Layer<2, 3>, scale: f32, count: i64, on: bool, rows: i32[2] }
enum Shape { Circle(f64), Square(f64) }

fn number(x: f64) -> f64 = x * x + 1.0
fn narrow(x: f32, n: i32) -> (f32, i32) = (x * 2.0, n + 1)
fn logic(a: bool, n: i64) -> (bool, i64) = (not a, n - 1)
fn small(n: u8, k: u64) -> (u8, u64) = (n, k)
fn double<a: Num>(x: a[..s]) -> a[..s] = x + x
fn open(x) = x * x
fn plus(x: f64[n], y: f64[n]) -> f64[n] = x + y
fn apply(layer: Layer<n, m>, x: f64[n]) -> f64[m] = x @ layer.w + layer.b
fn mixed(v: Mixed) -> Mixed = Mixed(layer = v.layer, scale = v.scale, count = v.count + 1, on = v.on, rows = v.rows)
fn swap(p: (a, b)) -> (b, a) = (p.1, p.0)
fn nothing(x: f64) { }
fn ramp(n: size) -> f64[n] = [f64(i) for i < n]
fn ones_after(x: f64[k], n: size) -> f64[k + n] = concat(x, ones(n))
fn split(x: f64[2 * n]) -> (f64[n], f64[n]) = (x[..n], x[n..])
fn odd(x: f64[2 * n + 1]) -> f64[n] = x[..n]
fn half_of(x: f64[n], y: f64[n // 2]) -> f64[n // 2] = y + x[..n // 2]
fn quarter_of(x: f64[n], y: f64[(n // 2 + 1) // 2]) -> f64 = sum(x) + sum(y)
fn per(x: f64[n], y: f64[m], z: f64[n // m]) -> f64 = sum(x) + sum(y) + sum(z)
fn exactly_half(x: f64[n], y: f64[n / 2]) -> f64 = sum(x) + sum(y)
fn missing(x: f64[n - m], y: f64[n]) -> f64 = sum(x) + sum(y) + f64(m)
fn positive(x: f64[n]) -> f64[?] = [v for v in x if v > 0.0]
fn at(x: f64[n], i: i64) -> f64 = x[i]
fn halves(x: f16[n]) -> f16[n] = x + x
fn label(x: f64) -> str = "{x}"
fn area(s: Shape) -> f64 = match s { Circle(r) => 3.0 * r * r, Square(a) => a * a }
fn scale(x: f64, factor: f64 = 2.0) -> f64 = factor * x
fn noise(x: f64) -> f64 ! random = x + normal()
fn deep(n: i64) -> i64 = if n == 0 { 0 } else { 1 + deep(n - 1) }
fn pick(x: f64[n], i: Idx<n>) -> f64 = x[i]
fn gather(x: f64[n], k: Idx<n>[m], other: i64[m]) -> f64[m] = [x[k[i]] + f64(other[i]) for i]
fn fill(n: size) -> f64[n, n] = [[1.0 for j < n] for i < n]
fn cost(x: f64[n]) -> f64 = sum(x * x * x)
fn three(x: f64, y: f64 = 10.0, z: f64 = 100.0) -> f64 = x + 2.0 * y + 3.0 * z
fn shift(x: f64[n], mode: str = "up", step: f64 = 1.0) -> f64[n] = if mode == "up" { x + step } else { x - step }
enum Colour { Red, Green, Blue }
enum Figure { Dot, Ring(f32, on: bool), Label(str), Pair(Colour, (i64, u8)), Rows(f64[3]) }
struct Setting { mode: str, colour: Colour, limit: Option<f64> }
fn next(c: Colour) -> Colour = match c { Red => Green, Green => Blue, Blue => Red }
fn figure(k: i64) -> Figure = if k == 0 { Dot } else if k == 1 { Ring(1.5, on = true) } else if k == 2 { Label("a{k}") }
  else if k == 3 { Pair(Blue, (7, u8(9))) } else { Rows([1.0, 2.0, f64(k)]) }
fn rank(c: Colour) -> i64 = match c { Red => 1, Green => 2, Blue => 3 }
fn weight(c: Colour, o: Option<(i64, f32)>) -> i64 = match o { Some((k, x)) => rank(c) + k + i64(x), None => -rank(c) }
fn either(o: Option<a>, otherwise: a) -> a = match o { Some(v) => v, None => otherwise }
fn chosen(s: Setting) -> (str, Setting) = ("{s.mode}!", s)
fn half(x: f64[n], on: bool) -> Option<f64[n]> = if on { Some(0.5 * x) } else { None }
fn parts(x: f64[n]) -> Result<(f64[?], f64), str> =
  if n > 2 { Ok(([v for v in x if v > 1.0], x[0])) } else { Err("few: {n}") }
enum Tree { Leaf(f64), Node(Tree, Tree), Empty }
enum Term { Name(str), Number(i64), Small(u8, f32, on: bool), Sum(Term, Term), With(Rest, Tree) }
enum Rest { End, More(Term, Rest) }
struct Chain { value: i64, next: Option<Chain> }
fn total(t: Tree) -> f64 = match t { Leaf(x) => x, Node(a, b) => total(a) + total(b), Empty => 0.5 }
fn doubled(t: Tree) -> Tree =
  match t { Leaf(x) => Leaf(2.0 * x), Node(a, b) => Node(doubled(a), doubled(b)), Empty => t }
fn both(p: (Tree, Tree), k: f64) -> f64 = k * total(p.0) - total(p.1)
fn rest(r: Rest) -> f64 = match r { End => 0.0, More(t, r) => term(t) + 10.0 * rest(r) }
fn term(t: Term) -> f64 = match t {
  Name(s) => if s == "x" { 1.0 } else { 2.0 }
  Number(n) => f64(n)
  Small(a, b, on) => if on { f64(a) * f64(b) } else { -f64(a) }
  Sum(a, b) => term(a) + term(b)
  With(r, t) => rest(r) * total(t)
}
fn length(c: Chain) -> i64 = match c.next { Some(n) => 1 + length(n), None => c.value }
fn first_of(t: Option<List<a>>, x: a) -> a = x
enum List<a> { Nil, Cons(a, List<a>) }
fn twice_applied(f: f64 -> f64, x: f64) -> f64 = f(f(x))
fn wait(n: i64) -> f64 {
  var s = 0.0
  for i < n { s = sin(s + f64(i)) }
  s
}
"""


class Sub(np.ndarray):
    pass


class Own(float):
    pass


def read_only(x):
    x.flags.writeable = False
    return x


A = np.arange(6.0)
VECTORS = [
    A, A[:3], A[::2], A[::-1], A.astype(np.float32), A.astype(">f8"), A.astype(np.int64), A.view(Sub), read_only(A + 1),
    np.frombuffer(b"x" + A.tobytes(), np.uint8)[1:].view(np.float64), A.reshape(2, 3), np.zeros(0), np.asarray(2.0),
    np.ma.masked_array(A), [0.5, 1.5, 2.5], [1, 2, 3], [], [[1.0]], (1.0, 2.0), 3.0, 3, None, "text", A.tolist(),
    np.asfortranarray(A.reshape(2, 3)), A.astype(object), A.astype(np.float16), A > 2, A.astype(np.complex128),
]  # fmt: skip
SCALARS = [
    1.5, -0.0, float("nan"), float("inf"), 3, -7, 0, 2**31, 2**40, 2**63, -(2**63), 2**64, 10**400, True, False,
    np.float64(1.5), np.float32(1.5), np.float16(1.5), np.int64(4), np.int32(4), np.uint8(4), np.uint64(2**63),
    np.bool_(True), np.asarray(2.5), np.asarray(2), np.ones(1), Own(1.5), None, "x", [1.0], (1.0,), 1e300, object(),
]  # fmt: skip


def outcome(call, *args, **named):
    """What a call gives, with all that Python can see of it, or the message of its failure."""
    try:
        value = call(*args, **named)
    except dlang.DlangError as e:
        return "error", str(e)
    return "value", seen(value)


def seen(value):
    if isinstance(value, np.ndarray):
        flags = value.flags
        return value.dtype.str, value.shape, value.tobytes(), flags.c_contiguous, flags.writeable, type(value)
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    if isinstance(value, tuple | list):
        return type(value), tuple(map(seen, value))
    if hasattr(value, "__dataclass_fields__"):
        return type(value), [seen(getattr(value, name)) for name in value.__dataclass_fields__]
    return type(value), repr(value)


def slowly(f):
    return lambda *args, **named: Function.__call__(f, *args, **named)


def seen_value(value):
    return "value", seen(value)


def direct_tables(f):
    return 0 if f._record is None else len(f._record.tables)


def check_alike(f, calls):
    """Each call gives at any time what it gives through Python alone."""
    for call in [*calls, *calls]:
        expected = outcome(slowly(f), *call)
        for _ in range(2):
            assert outcome(f, *call) == expected, call


def warm(f, *args):
    for _ in range(3):
        f(*args)
