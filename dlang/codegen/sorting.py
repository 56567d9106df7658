"""The order of the elements of a vector: few are inserted one after another, many are sorted by the bytes of keys.

A key is an integer whose bits, without a sign, are in the order of the elements: of a float its bits, of which the sign
is turned, and all others too if it is negative. Both ways keep the order of equal elements, and -0.0 is equal to 0.0.
NaN is last. A pass over a byte counts how often each value occurs, so it knows where its elements go; a byte that is
the same in all keys needs no pass.
"""

from __future__ import annotations

from collections.abc import Callable

from dlang.codegen import loops
from dlang.codegen.blas import Routines
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import BOOL, I64
from dlang.ops.dtypes import DTYPES, WHOLE

FEW = 40  # elements that are inserted
VALUES = 256  # of a byte
SORTED = tuple(d for d in WHOLE if DTYPES[d].width >= 4)
"""The dtypes whose elements are sorted here."""


def argsort(r: Routines, x: loops.Buffer, n: Size, out: loops.Buffer) -> None:
    """out = the positions of the elements of x in ascending order."""
    s = r.s
    dtype = f"i{DTYPES[x.dtype].bits}"
    keys = loops.Buffer("keys", dtype)
    s.out.append(loops.Allocate(keys, (n,), 0, s.span))
    _keys(r, x, n, keys)
    few = r.compute("le", r.evaluate(n), Lit(FEW, "i64"))
    r.when(few, lambda: _insert(r, n, keys, out), lambda: _by_bytes(r, n, keys, out))
    s.out.append(loops.Free(keys))


def _keys(r: Routines, x: loops.Buffer, n: Size, keys: loops.Buffer) -> None:
    dtype = keys.dtype
    sign = Lit(-(1 << (DTYPES[dtype].bits - 1)), dtype)
    if x.dtype.startswith("f"):
        floats = loops.Buffer(keys.name, x.dtype)  # the same memory
        r.s.out.append(loops.Slice(floats, keys, ZERO))

        def float_of(i: Var) -> Atom:
            value = _load(r, x, poly(i))
            plain = r.compute("add", value, Lit(0.0, x.dtype))  # of -0.0 this is 0.0
            return r.compute("select", r.compute("isnan", value), Lit(float("nan"), x.dtype), plain)

        r.loop(0, n, lambda i: r.s.out.append(loops.Store(floats, poly(i), float_of(i))))
        source = keys
    else:
        source = loops.Buffer(keys.name, dtype)
        r.s.out.append(loops.Slice(source, x, ZERO))

    def key(i: Var) -> Atom:
        bits = _load(r, source, poly(i))
        if x.dtype.startswith("u"):
            return bits
        if x.dtype.startswith("i"):
            return r.compute("bit_xor", bits, sign)
        negative = r.compute("shift_right", bits, Lit(DTYPES[dtype].bits - 1, dtype))  # all bits or none
        return r.compute("bit_xor", bits, r.compute("bit_or", negative, sign))

    r.loop(0, n, lambda i: r.s.out.append(loops.Store(keys, poly(i), key(i))))


def _insert(r: Routines, n: Size, keys: loops.Buffer, out: loops.Buffer) -> None:
    """Each element moves before those in front of it that are larger; keys are compared without a sign."""
    sign = Lit(-(1 << (DTYPES[keys.dtype].bits - 1)), keys.dtype)

    def insert(i: Var) -> None:
        key = _load(r, keys, poly(i))
        mine = r.compute("bit_xor", key, sign)

        def larger(j: Var) -> Atom:
            return r.compute("gt", r.compute("bit_xor", _load(r, keys, poly(j) - 1), sign), mine)

        def before(j: Var) -> Atom:
            inside = r.compute("gt", j, Lit(0, "i64"))
            return r.choose(inside, lambda: larger(j), lambda: Lit(False, "bool"), BOOL)

        def move(j: Var) -> Atom:
            r.s.out += [loops.Store(keys, poly(j), _load(r, keys, poly(j) - 1))]
            r.s.out += [loops.Store(out, poly(j), _load(r, out, poly(j) - 1))]
            return r.evaluate(poly(j) - 1)

        place = _while(r, i, before, move)
        r.s.out += [loops.Store(keys, poly(place), key), loops.Store(out, poly(place), i)]

    r.in_turn(n, insert)


def _by_bytes(r: Routines, n: Size, keys: loops.Buffer, out: loops.Buffer) -> None:
    s = r.s
    bytes = DTYPES[keys.dtype].width
    counts, other, order, others = (
        loops.Buffer("counts", "i64"),
        loops.Buffer("keys", keys.dtype),
        loops.Buffer("order", "i64"),
        loops.Buffer("order", "i64"),
    )
    s.out += [
        loops.Allocate(counts, (poly(VALUES * bytes),), 0, s.span),
        loops.Allocate(other, (n,), 0, s.span),
        loops.Allocate(order, (n,), 0, s.span),
        loops.Allocate(others, (n,), 0, s.span),
    ]
    r.loop(0, poly(VALUES * bytes), lambda k: s.out.append(loops.Store(counts, poly(k), Lit(0, "i64"))))
    r.loop(0, n, lambda i: s.out.append(loops.Store(order, poly(i), i)))

    def count(i: Var) -> None:
        key = _load(r, keys, poly(i))
        for k in range(bytes):
            at = poly(_byte(r, key, Lit(8 * k, keys.dtype))) + VALUES * k
            value = _load(r, counts, at)
            s.out.append(loops.Store(counts, at, r.evaluate(poly(value) + 1)))

    r.in_turn(n, count)
    turn = fresh("turn", I64)
    params = [loops.Buffer(b.name, b.dtype) for b in (keys, other, order, others)]
    sorted_ = [loops.Buffer(b.name, b.dtype) for b in (keys, other, order, others)]
    with s.collect() as stmts:
        first = _byte_at(r, _load(r, params[0], ZERO), turn)
        alike = r.compute("eq", _load(r, counts, poly(first) + poly(turn) * VALUES), r.evaluate(n))
        with s.collect() as work:
            _pass(r, n, counts, turn, params)
        after = [loops.Buffer(b.name, b.dtype) for b in params]
        a, b, c, d = params
        s.out.append(
            loops.Branch(alike, loops.Body((), (a, b, c, d)), loops.Body(tuple(work), (b, a, d, c)), tuple(after))
        )
    init = (keys, other, order, others)
    s.out.append(
        loops.For(turn, ZERO, poly(bytes), tuple(params), init, loops.Body(tuple(stmts), tuple(after)), tuple(sorted_))
    )
    s.out += [loops.Move(out, sorted_[2], n), *map(loops.Free, (counts, other, order, others))]


def _pass(r: Routines, n: Size, counts: loops.Buffer, turn: Var, buffers: list[loops.Buffer]) -> None:
    """Moves keys and positions from the first and third buffer to the others, in the order of a byte."""
    keys, other, order, others = buffers
    base = poly(turn) * VALUES
    k, before, total = fresh("k", I64), fresh("before", I64), fresh("total", I64)
    with r.s.collect() as stmts:
        count = _load(r, counts, base + poly(k))
        r.s.out.append(loops.Store(counts, base + poly(k), before))
        following = r.evaluate(poly(before) + poly(count))
    body = loops.Body(tuple(stmts), (following,))
    r.s.out.append(loops.For(k, ZERO, poly(VALUES), (before,), (Lit(0, "i64"),), body, (total,)))

    def move(i: Var) -> None:
        key = _load(r, keys, poly(i))
        at = base + poly(_byte_at(r, key, turn))
        place = _load(r, counts, at)
        r.s.out += [loops.Store(counts, at, r.evaluate(poly(place) + 1)), loops.Store(other, poly(place), key)]
        r.s.out += [loops.Store(others, poly(place), _load(r, order, poly(i)))]

    r.in_turn(n, move)


def _byte_at(r: Routines, key: Var, turn: Var) -> Var:
    """A byte of a key, known by its number."""
    dtype = key.type
    assert isinstance(dtype, Scalar)
    shift = r.evaluate(poly(turn) * 8)
    if dtype.dtype == "i64":
        return _byte(r, key, shift)
    short = fresh("shift", dtype)
    r.s.out.append(loops.Convert(short, shift))
    return _byte(r, key, short)


def _byte(r: Routines, key: Var, shift: Atom) -> Var:
    dtype = key.type
    assert isinstance(dtype, Scalar)
    byte = r.compute("bit_and", r.compute("shift_right", key, shift), Lit(VALUES - 1, dtype.dtype))
    if dtype.dtype == "i64":
        return byte
    wide = fresh("byte", I64)
    r.s.out.append(loops.Convert(wide, byte))
    return wide


# ---- statements ------------------------------------------------------------------------------------------------------
def _load(r: Routines, buffer: loops.Buffer, offset: Size) -> Var:
    x = fresh("x", Scalar(buffer.dtype))
    r.s.out.append(loops.Load(x, buffer, offset))
    return x


def _while(r: Routines, start: Atom, condition: Callable[[Var], Atom], body: Callable[[Var], Atom]) -> Var:
    j, result = fresh("j", I64), fresh("j", I64)
    with r.s.collect() as asked:
        go = condition(j)
    with r.s.collect() as done:
        following = body(j)
    r.s.out.append(
        loops.While((j,), (start,), loops.Body(tuple(asked), (go,)), loops.Body(tuple(done), (following,)), (result,))
    )
    return result
