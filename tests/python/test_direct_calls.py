"""Calls that go from Python to compiled code at once mean what calls through Python mean."""

import itertools
import random

import numpy as np
import pytest

import dlang
from tests.python.direct import (
    MODULE,
    SCALARS,
    VECTORS,
    A,
    check_alike,
    direct_tables,
    outcome,
    quick,
    seen,
    seen_value,
    slowly,
    warm,
)


@pytest.fixture(scope="module")
def m():
    return dlang.compile(MODULE)


@pytest.mark.parametrize("name", ["number", "double", "open", "nothing", "label", "ramp", "scale", "deep", "cost"])
def test_any_scalar_means_the_same(m, name):
    f = getattr(m, name)
    some = SCALARS
    if name in ("ramp", "deep"):  # where a large number is a large result
        some = [x for x in SCALARS if not (isinstance(x, int | np.integer) and not 0 <= int(x) <= 1000)]
    check_alike(f, [(x,) for x in some])


@pytest.mark.parametrize("name", ["narrow", "logic", "small"])
def test_any_two_scalars_mean_the_same(m, name):
    check_alike(getattr(m, name), list(itertools.product(SCALARS, SCALARS)))


@pytest.mark.parametrize("name", ["double", "open", "split", "positive", "halves", "cost"])
def test_any_array_means_the_same(m, name):
    check_alike(getattr(m, name), [(x,) for x in VECTORS])


def test_any_two_arrays_mean_the_same(m):
    check_alike(m.plus, list(itertools.product(VECTORS, VECTORS)))


def test_arrays_whose_sizes_are_computed_mean_the_same(m):
    some = [np.arange(float(n)) for n in range(8)]
    check_alike(m.odd, [(x,) for x in some])
    for f in (m.half_of, m.quarter_of, m.exactly_half, m.missing):
        check_alike(f, list(itertools.product(some, some)))
    check_alike(m.per, list(itertools.product(some, some[:4], some[:4])))


@quick
@pytest.mark.parametrize("name", ["odd", "half_of", "quarter_of", "per", "exactly_half", "missing"])
def test_calls_with_computed_sizes_need_no_python(m, name):
    f = getattr(m, name)
    x, y, z = np.ones(7), np.ones(3), np.ones(2)
    args = {"odd": (x,), "half_of": (x, y), "quarter_of": (x, z), "per": (x, y, z), "exactly_half": (np.ones(6), y)}
    warm(f, *args.get(name, (y, x)))
    assert direct_tables(f)


def test_arrays_with_sizes_and_indices_mean_the_same(m):
    numbers = [0, 1, 2, -1, 5, 6, 100, True, np.int64(2), np.int32(2), 1.0, 2**63]
    check_alike(m.at, list(itertools.product(VECTORS[:8], numbers)))
    check_alike(m.pick, list(itertools.product(VECTORS[:8], numbers)))
    places = [np.array(v) for v in ([0, 1], [5, 5], [6, 0], [0, -1], [])] + [np.arange(2, dtype=np.int32), [0, 1], 1]
    places[4] = np.zeros(0, np.int64)
    check_alike(m.gather, list(itertools.product(VECTORS[:5], places, places[:3])))
    check_alike(m.ones_after, list(itertools.product(VECTORS[:8], numbers[:-1])))


def test_structs_and_tuples_mean_the_same(m):
    other = dlang.compile(MODULE)
    w, b = np.arange(6.0).reshape(2, 3), np.ones(3)
    layers = [
        kind.Layer(*fields)
        for kind in (m, other)
        for fields in [(w, b), (w, b[:2]), (w.T, b), (w.tolist(), b), (w.astype(np.float32), b), (b, w), (None, b)]
    ]
    bare = object.__new__(m.Layer)
    values = [*layers, (w, b), None]
    check_alike(m.apply, list(itertools.product(values, [np.ones(2), np.ones(3), [1.0, 2.0], 1.0])))
    for f in (m.apply, slowly(m.apply)):
        with pytest.raises(AttributeError):
            f(bare, np.ones(2))
    ints = np.array([1, 2], np.int32)
    mixed = [
        m.Mixed(layer, scale, count, True, ints)
        for layer in layers[:3]
        for scale in (1.5, 2, np.float32(0.5), np.float64(0.5))
        for count in (3, np.int64(3), 2**63 - 1, True)
    ]
    check_alike(m.mixed, [(v,) for v in mixed])
    check_alike(m.swap, [((x, y),) for x in SCALARS[:6] + VECTORS[:4] for y in [1.0, 2, A, (1.0, A), layers[0]]])
    check_alike(m.swap, [((1.0,),), ((1.0, 2.0, 3.0),), ([1.0, 2.0],)])
    check_alike(m.area, [(m.Circle(1.0),), (m.Square(2.0),), (1.0,)])


def test_missing_extra_and_named_arguments_mean_the_same(m):
    for _ in range(3):
        for f, args, named in [
            (m.plus, (A, A), {}), (m.plus, (A,), {}), (m.plus, (A, A, A), {}), (m.plus, (), {}),
            (m.plus, (A,), {"y": A}), (m.plus, (), {"x": A, "y": A}), (m.plus, (A,), {"x": A}),
            (m.plus, (A, A), {"z": A}), (m.plus, (A, A), {"seed": 3}), (m.scale, (2.0,), {}),
            (m.scale, (2.0, 3.0), {}), (m.scale, (2.0,), {"factor": 3.0}), (m.scale, (), {"factor": 3.0}),
            (m.noise, (1.0,), {}), (m.noise, (1.0,), {"seed": 0}), (m.noise, (1.0,), {"seed": 7}),
            (m.noise, (1.0,), {"seed": -7}), (m.noise, (1.0,), {"seed": 2**63}), (m.noise, (1.0,), {"seed": 1.5}),
            (m.noise, (1.0,), {"seed": True}), (m.noise, (1.0,), {"seed": np.int64(7)}), (m.noise, (1.0, 2.0), {}),
        ]:  # fmt: skip
            assert outcome(f, *args, **named) == outcome(slowly(f), *args, **named), (f, args, named)
    assert m.noise(1.0, seed=7) != m.noise(1.0, seed=8)


def test_names_and_defaults_in_any_order_mean_the_same(m):
    values = {"x": 1.0, "y": 2, "z": np.float64(3.0), "w": 4.0}
    calls = [
        (tuple(values[n] for n in names[:k]), {n: values[n] for n in names[k:]})
        for length in range(5)
        for names in itertools.permutations(values, length)
        for k in range(length + 1)
    ]
    for f in (m.three, m.three.bind(z=5.0), m.three.bind(2.0)):
        for args, named in [*calls, *calls]:
            expected = outcome(type(f).__mro__[1].__call__, f, *args, **named)
            for _ in range(2):
                assert outcome(f, *args, **named) == expected, (args, named)
    copied = "".join(["mo", "de"])  # equal to the name of a parameter, and another object
    for _ in range(3):
        assert outcome(m.shift, A, **{copied: "down"}) == seen_value(A - 1.0)
        expected = outcome(slowly(m.noise), 1.0, seed=4)
        assert outcome(m.noise, x=1.0, seed=4) == outcome(m.noise, seed=4, x=1.0) == expected


def test_texts_mean_the_same(m):
    class Text(str):
        pass

    modes = ["up", "down", "u" + "p", "".join("up"), Text("up"), np.str_("up"), "", "é\0", 1.0, None, b"up"]
    check_alike(m.shift, list(itertools.product([A, A[::2], [1.0, 2.0]], modes, [1.0, 2])))
    check_alike(m.label, [(float(k),) for k in range(50)])


def test_enums_mean_the_same(m):
    other = dlang.compile(MODULE)
    colours = [m.Red(), m.Green(), m.Blue(), other.Red(), m.Red, None, 0, "Red"]
    options = [
        None, m.Some((1, 2.0)), m.Some((2, 2)), m.Some((np.int64(1), np.float32(1.5))), m.Some((1.0, 1.0)),
        m.Some(None), other.Some((3, 4.0)), (1, 2.0), m.Some((1, np.asarray(2.0, np.float32))), m.Some((2**63, 1.0)),
        m.Some((True, 1.0)), other.Dot(),
    ]  # fmt: skip
    check_alike(m.next, [(c,) for c in colours])
    check_alike(m.figure, [(k,) for k in range(6)])
    check_alike(m.weight, list(itertools.product(colours, options)))
    some = [None, 1.0, *map(m.Some, [1.5, 2, A, "x", m.Red(), None, m.Some(1.0)])]
    check_alike(m.either, list(itertools.product(some, [1.5, 2, np.float32(1.0), A, "y", m.Blue(), None, m.Some(2.0)])))
    settings = [
        m.Setting(mode, colour, limit)
        for mode in ("x", "y", 1)
        for colour in colours[:4]
        for limit in (None, m.Some(1.0), other.Some(2))
    ]
    check_alike(m.chosen, [(s,) for s in settings])
    check_alike(m.half, list(itertools.product(VECTORS[:6], [True, False, np.bool_(True)])))
    check_alike(m.parts, [(v,) for v in VECTORS[:8]])


def test_trees_mean_the_same(m):
    other = dlang.compile(MODULE)
    leaf = m.Leaf(1.5)
    shared = leaf
    for k in range(200):  # a tree of so many leaves that it is not written leaf by leaf
        shared = m.Node(shared, m.Empty()) if k > 15 else m.Node(shared, shared)
    wide = m.Node(leaf, m.Node(m.Leaf(2), m.Empty()))
    deep = leaf
    for _ in range(5000):
        deep = m.Node(deep, leaf)
    around = m.Node(leaf, leaf)
    object.__setattr__(around, "_1", around)
    trees = [
        leaf, m.Empty(), m.Node(leaf, leaf), wide, deep, shared, around, other.Node(other.Leaf(1.0), other.Empty()),
        m.Node(leaf, other.Leaf(2.0)), m.Leaf(np.float64(3.0)), m.Leaf(np.float32(3.0)), m.Leaf("x"),
        m.Node(leaf, None), m.Node(leaf, 1.0), m.Red(), None, 1.0,
    ]  # fmt: skip
    check_alike(m.total, [(t,) for t in trees])
    check_alike(m.doubled, [(t,) for t in trees if t not in (deep, shared)])
    check_alike(m.both, [((t, u), 2.0) for t in trees[:5] for u in (leaf, wide)])
    terms = [
        m.Name("x"), m.Name("y"), m.Name("never seen before"), m.Name(3), m.Number(4), m.Number(2**63), m.Number(True),
        m.Small(200, 1.5, True), m.Small(3, 2.0, False), m.Small(256, 1.0, True), m.Small(np.uint8(3), 1.0, True),
    ]  # fmt: skip
    more = [
        m.Sum(terms[0], terms[4]), m.With(m.End(), wide),
        m.With(m.More(terms[0], m.More(terms[7], m.End())), m.Node(leaf, leaf)), m.With(terms[0], leaf),
    ]  # fmt: skip
    check_alike(m.term, [(t,) for t in terms + more])
    check_alike(m.length, [(m.Chain(k, None),) for k in (0, 7)] + [(m.Chain(1, m.Some(m.Chain(5, None))),)])
    lists = [None, *map(m.Some, [m.Nil(), m.Cons(1.0, m.Nil()), m.Cons(1, m.Cons(2, m.Nil())), m.Cons("x", m.Nil())])]
    check_alike(m.first_of, list(itertools.product(lists, [1.0, 2, "y", None])))


@pytest.mark.parametrize("seed", range(3))
def test_calls_of_all_kinds_in_any_order_mean_the_same(seed):
    m = dlang.compile(MODULE)
    dice = random.Random(seed)
    functions = [m.double, m.open, m.plus, m.swap, m.narrow, m.split]
    for _ in range(400):
        f = dice.choice(functions)
        args = [dice.choice(VECTORS if dice.random() < 0.5 else SCALARS) for _ in f.decl.params]
        if f is m.swap:
            args = [(args[0], dice.choice(VECTORS))]
        assert outcome(f, *args) == outcome(slowly(f), *args), (f, args)


# ---- they are direct -------------------------------------------------------------------------------------------------
@quick
def test_common_calls_do_not_go_through_python(m):
    w, b = np.arange(6.0).reshape(2, 3), np.ones(3)
    layer = m.Layer(w, b)
    mixed = m.Mixed(layer, 1.5, 3, True, np.array([1, 2], np.int32))
    big = np.ones(100_000)
    for f, args in [
        (m.number, (1.5,)), (m.number, (2,)), (m.number, (np.float64(2),)), (m.narrow, (1.5, 2)), (m.logic, (True, 2)),
        (m.double, (A,)), (m.double, (A.astype(np.int8),)), (m.open, (A,)), (m.open, (3,)), (m.plus, (A, A)),
        (m.plus, (big, big)), (m.apply, (layer, np.ones(2))), (m.mixed, (mixed,)), (m.swap, ((A, (1.0, layer)),)),
        (m.nothing, (1.0,)), (m.ramp, (3,)), (m.ones_after, (A, 2)), (m.positive, (A,)), (m.at, (A, 2)),
        (m.halves, (A.astype(np.float16),)), (m.scale, (1.0,)), (m.noise, (1.0,)), (m.deep, (5,)), (m.cost, (A,)),
        (m.pick, (A, 2)), (m.gather, (A, np.array([1, 2]), np.array([1, 2]))),
        (m.double, (A[::2],)), (m.number, (np.asarray(2.0),)), (m.shift, (A, "up")), (m.next, (m.Red(),)),
        (m.weight, (m.Blue(), m.Some((1, 2.0)))), (m.weight, (m.Blue(), None)), (m.either, (None, 2.0)),
        (m.chosen, (m.Setting("x", m.Red(), None),)), (m.half, (A, True)), (m.half, (A, False)), (m.figure, (0,)),
        (m.figure, (2,)), (m.figure, (4,)), (m.parts, (A,)), (m.parts, (A[:2],)), (m.area, (m.Circle(1.0),)),
        (m.total, (m.Node(m.Leaf(1.0), m.Empty()),)), (m.term, (m.With(m.More(m.Name("x"), m.End()), m.Leaf(2.0)),)),
        (dlang.grad(m.cost), (A,)), (dlang.value_and_grad(m.cost), (A,)), (dlang.hessian(m.cost), (A,)),
    ]:  # fmt: skip
        warm(f, *args)
        assert direct_tables(f) > 0, f
        before = sum(i.calls for i in f.program._instances.values())
        count = len(f._prepared)
        original, f._prepared = f._prepared, None  # what goes through Python fails now
        try:
            f(*args)
        finally:
            f._prepared = original
        assert sum(i.calls for i in f.program._instances.values()) == before and len(f._prepared) == count


@quick
def test_calls_with_names_do_not_go_through_python():
    m = dlang.compile(MODULE)
    bound = m.three.bind(y=1.0)
    for f, args, named in [
        (m.three, (), {"z": 1.0, "x": 2.0}), (m.three, (1.0,), {"z": 2.0}), (m.shift, (A,), {"step": 2.0}),
        (m.noise, (), {"seed": 3, "x": 1.0}), (bound, (), {"z": 1.0, "x": 2.0}), (bound, (1.0,), {}),
    ]:  # fmt: skip
        for _ in range(3):
            expected = f(*args, **named)
        slow = f._record.words[0]
        f._record.words[0] = id(pytest.fail)  # what goes through Python fails now
        try:
            assert seen(f(*args, **named)) == seen(expected)
        finally:
            f._record.words[0] = slow


@quick
def test_one_table_serves_all_variants_of_an_enum():
    m = dlang.compile(MODULE)
    for value in (m.Some((1, 2.0)), None, m.Some((5, 1.0)), None):
        for colour in (m.Red(), m.Green(), m.Blue()):
            for _ in range(2):
                m.weight(colour, value)
    assert direct_tables(m.weight) == 1


@quick
def test_one_function_that_python_calls_serves_all_sizes(m):
    warm(m.plus, A, A)
    tables = direct_tables(m.plus)
    for n in (0, 1, 2, 1000, 100_000):
        x = np.random.default_rng(n).normal(size=n)
        for _ in range(2):
            np.testing.assert_array_equal(m.plus(x, x), x + x)
    assert direct_tables(m.plus) == tables
