"""Products of arrays: packed panels, register tiles and loops give what the interpreter gives, at every size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Axis, Program, Reduce, Size, Var, fresh, poly
from dlang.ir.builder import Builder
from dlang.runtime.engine import Engine
from tests.codegen.test_programs import assert_same
from tests.optimize.programs import I64

ENGINE = Engine(Host())


def contract(spec: str, dtype: str = "f64", known: Mapping[str, int] | None = None) -> tuple[Program, str]:
    """The product `ik kj ij`, and the names of the sizes that are parameters."""
    left, right, out = spec.split()
    known = known or {}
    b = Builder()
    names = "".join(dict.fromkeys(left + right))
    sizes: dict[str, Size] = {n: poly(known[n] if n in known else b.param(n, I64)) for n in names}
    x, y = (b.param(a, Array(dtype, tuple(sizes[n] for n in a))) for a in (left, right))
    numbers = [tuple(names.index(n) for n in a) for a in (left, right, out)]
    result = b.contract(x, y, numbers[0], numbers[1], numbers[2])
    return Program({"f": b.function("f", [result])}), "".join(n for n in names if n not in known)


def check(program: Program, sizes: Sequence[int], shapes: Sequence[Sequence[int]], dtype: str = "f64") -> None:
    rng = np.random.default_rng(5)
    args = [*sizes, *(rng.normal(size=shape).astype({"f64": "f8", "f32": "f4"}[dtype]) for shape in shapes)]
    compiled = ENGINE.compile(program, ["f"])
    assert_same(compiled.run("f", args), Interpreter(program).run("f", args))
    assert all(context.in_use == 0 for context in ENGINE.contexts)


FORMS = ("ik kj ij", "ki kj ij", "ik jk ij", "ki jk ij", "ik kj ji", "bik bkj bij", "bik bjk bij", "ik bkj bij")


@pytest.mark.parametrize("form", [*FORMS, "ik k i", "ki k i", "bi ij bj", "bi bj ij", "bijk bkl bijl"])
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_a_product_of_any_form_and_size_is_that_of_the_interpreter(form: str, dtype: str) -> None:
    program, names = contract(form, dtype)
    for size in (0, 1, 3, 4, 5, 9, 17):
        each = {n: size + k % 2 * (size > 0) for k, n in enumerate(names)}
        check(program, list(each.values()), [[each[n] for n in a] for a in form.split()[:2]], dtype)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 2, 4, 7, 10, 19])
def test_a_product_of_known_sizes_is_that_of_the_interpreter(form: str, size: int) -> None:
    known = {n: size + k for k, n in enumerate("ijk")}
    program, names = contract(form, "f64", known)
    each = {**known, **dict.fromkeys(names, 3)}
    check(program, [each[n] for n in names], [[each[n] for n in a] for a in form.split()[:2]])


def loops(program: Program) -> str:
    return print_program(schedule(program, Lanes(512)))


def test_a_product_of_known_small_sizes_is_one_tile_without_an_inner_loop() -> None:
    program, _ = contract("bik bkj bij", known=dict.fromkeys("ijk", 4))
    text = loops(program)
    assert "if" not in text and "·" not in text
    assert re.findall(r"loop \w+\.\d+ in (\S*)", text)[1:] == ["0..4"]
    assert text.count("mul(") == 16


def test_a_tile_has_an_accumulator_for_each_row_and_loads_the_columns_once() -> None:
    program, _ = contract("ik kj ij", "f32", {"i": 10, "j": 30, "k": 9})
    text = loops(program)
    tile = text[text.index("loop k") :]
    assert tile.count(" sum= ") == 5 and tile.count(" = &kj") == 1 and tile.count(" = &ik") == 5


def test_the_products_of_a_batch_say_whether_the_next_one_lies_right_behind() -> None:
    dense = loops(contract("bik bkj bij")[0])
    assert re.search(r"(followed\.\d+): bool = gt\(left\.\d+, 1\)[^@]* · .*the next one behind it if \1", dense)
    assert "followed" not in loops(contract("ibk bkj bij")[0])  # the rows of the first factor are apart


def test_columns_that_are_not_adjacent_are_copied_once_for_all_rows() -> None:
    program, _ = contract("bik bjk bij")
    text = loops(program)
    tiles = text[text.rindex("else") :]
    assert tiles.count("allocate") == 1 == tiles.count("free")
    assert tiles.index("free") > tiles.rindex("loop")


def convolution(stride: int, channels_last: bool, dtype: str = "f32") -> Program:
    """Windows of 3 by 2 over an image, with four input and six output channels; the result's sizes are parameters."""
    b = Builder()
    n, height, width = (b.param(name, I64) for name in ("n", "height", "width"))
    rows, columns = poly(height) * stride + 2, poly(width) * stride + 1
    place = (0, 2, 3, 1) if channels_last else (0, 1, 2, 3)
    shape: tuple[Size, ...] = (poly(n), poly(4), rows, columns)
    x = b.param("x", Array(dtype, tuple(shape[d] for d in place)))
    kernel = (3, 2, 4, 6) if channels_last else (6, 4, 3, 2)
    w = b.param("w", Array(dtype, tuple(map(poly, kernel))))

    def at(b_: Var, i: Var, j: Var, p: Var, q: Var, r: Var) -> list[Size]:
        entries = [poly(b_), poly(r), poly(i) * stride + poly(p), poly(j) * stride + poly(q)]
        return [entries[d] for d in place]

    windows = b.view(x, [n, height, width, 3, 2, 4], at)
    right, out = ((3, 4, 5, 6), (0, 1, 2, 6)) if channels_last else ((6, 5, 3, 4), (0, 6, 1, 2))
    return Program({"f": b.function("f", [b.contract(windows, w, (0, 1, 2, 3, 4, 5), right, out)])})


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels_last", [True, False])
def test_a_convolution_is_that_of_the_interpreter(stride: int, channels_last: bool) -> None:
    program = convolution(stride, channels_last)
    for n, height, width in ((2, 3, 5), (1, 1, 1), (3, 9, 4), (1, 0, 3)):
        image = (n, 4, height * stride + 2, width * stride + 1)
        kernel = (3, 2, 4, 6) if channels_last else (6, 4, 3, 2)
        if channels_last:
            image = (n, image[2], image[3], 4)
        check(program, [n, height, width], [image, kernel], "f32")


def test_windows_are_read_where_they_are_unless_their_columns_are_apart() -> None:
    assert "allocate" not in loops(convolution(1, channels_last=True))
    assert "allocate" not in loops(convolution(1, channels_last=False))
    assert loops(convolution(2, channels_last=False)).count("allocate") == 1


def test_a_sum_over_windows_that_end_at_the_border_goes_in_tiles() -> None:
    b = Builder()
    n, m = b.param("n", I64), b.param("m", I64)
    x = b.param("x", Array("f32", (poly(n), poly(m), poly(5))))
    w = b.param("w", Array("f32", (poly(3), poly(5), poly(7))))
    k, i, t, c, o = (fresh(name, I64) for name in "kitco")
    low = poly(i) - (poly(m) - 1)
    axes = [
        Axis(i, (poly(0),), (poly(m) + 2,)), Axis(t, (poly(0),), (poly(n),)), Axis(o, (poly(0),), (poly(7),)),
        Axis(k, (poly(0), low), (poly(3), poly(i) + 1)), Axis(c, (poly(0),), (poly(5),)),
    ]  # fmt: skip
    (out,) = b.comp(
        axes,
        lambda *_: b.mul(b.read(x, [t, poly(i) - poly(k), c]), b.read(w, [k, c, o])),
        lambda *_: [Reduce((poly(n), poly(m) + 2, poly(7)), (poly(t), poly(i), poly(o)), "sum")],
    )
    program = Program({"f": b.function("f", [out])})
    text = loops(program)
    assert text.count("loop tile") == 1 and "by 8" in text
    for n_, m_ in ((1, 1), (3, 2), (9, 6)):
        check(program, [n_, m_], [(n_, m_, 5), (3, 5, 7)], "f32")


def windows_apart(stride: int, known: int | None) -> Program:
    """Windows of three rows over an image by several kernels, whose neighbours lie `stride` apart. known: how many
    columns a window has; a parameter if that is None."""
    b = Builder()
    channels, rows, columns = (b.param(name, I64) for name in ("channels", "rows", "columns"))
    taps = poly(b.param("taps", I64) if known is None else known)
    shape = (poly(rows) + 2, poly(columns) * stride + taps)
    x = b.param("x", Array("f32", shape))
    w = b.param("w", Array("f32", (poly(channels), poly(3), taps)))
    c, i, j, u, v = (fresh(name, I64) for name in "cijuv")
    sizes = (poly(channels), poly(rows), poly(columns), poly(3), taps)
    (out,) = b.comp(
        [Axis(a, (poly(0),), (size,)) for a, size in zip((c, i, j, u, v), sizes, strict=True)],
        lambda *_: b.mul(b.read(w, [c, u, v]), b.read(x, [poly(i) + poly(u), poly(j) * stride + poly(v)])),
        lambda *_: [Reduce(sizes[:3], (poly(c), poly(i), poly(j)), "sum")],
    )
    return Program({"f": b.function("f", [out])})


def few_products(program: Program) -> str:
    """The loops of a program where there are too few products for panels."""
    text = loops(program)
    return text[text.rindex("else") :]


@pytest.mark.parametrize("stride", [1, 2, 3, 8])
def test_columns_a_few_apart_are_read_where_they_are(stride: int) -> None:
    for known, taps in ((3, 3), (None, 2)):
        program = windows_apart(stride, known)
        text = few_products(program)
        assert text.count("loop tile") == 1 and "allocate" not in text
        for channels, rows, columns in ((4, 3, 9), (1, 2, 1), (5, 1, 16), (9, 2, 33), (4, 2, 0)):
            sizes = [channels, rows, columns, *([taps] if known is None else [])]
            check(program, sizes, [(rows + 2, columns * stride + taps), (channels, 3, taps)], "f32")


def test_columns_far_apart_have_no_tiles() -> None:
    assert "loop tile" not in few_products(windows_apart(9, 3))


def test_the_last_terms_of_a_tile_are_written_out_if_they_are_few() -> None:
    of_three, of_seven = few_products(windows_apart(1, 3)), few_products(windows_apart(1, 7))
    assert of_three.count("loop u") == 1 and of_three.count("loop v") == 0
    assert of_seven.count("loop u") == 1 == of_seven.count("loop v")


def test_a_sum_over_the_order_of_texts_which_the_host_knows_has_no_tiles() -> None:
    b = Builder()
    n = poly(b.param("n", I64))
    x, y = (b.param(name, Array("str", (n, n))) for name in "xy")
    i, j, k = (fresh(name, I64) for name in "ijk")
    (out,) = b.comp(
        [Axis(axis, (poly(0),), (n,)) for axis in (i, j, k)],
        lambda *_: b.cast("f64", b.prim("lt", b.read(x, [i, k]), b.read(y, [k, j]))),
        lambda *_: [Reduce((n, n), (poly(i), poly(j)), "sum")],
    )
    program = Program({"f": b.function("f", [out])})
    assert "loop tile" not in loops(program)
    words = [["a", "b", "c"], ["b", "a", "a"], ["c", "c", "b"]]
    args = [3, words, words[::-1]]
    assert_same(ENGINE.compile(program, ["f"]).run("f", args), Interpreter(program).run("f", args))


@pytest.mark.parametrize("case", ["outer", "reduced"])
def test_loops_stay_inside_those_that_bound_them(case: str) -> None:
    b = Builder()
    n = b.param("n", I64)
    x, w = (b.param(name, Array("f64", (poly(n), poly(n), poly(n)))) for name in "xw")
    h, i, k, p, j = (fresh(name, I64) for name in "hikpj")
    zero, end = poly(0), poly(n)
    axes = [
        Axis(k, (zero,), (end,)),
        Axis(p, (zero, poly(k) - 2) if case == "reduced" else (zero,), (end, poly(k) + 1)),
        Axis(h, (zero,), (poly(k) + 1,) if case == "outer" else (end,)),
        Axis(i, (zero,), (end,)),
        Axis(j, (zero,), (end,)),
    ]
    shape = (end, end, end)
    (out,) = b.comp(
        axes,
        lambda *_: b.mul(b.read(x, [h, i, p]), b.read(w, [k, p, j])),
        lambda *_: [Reduce(shape, (poly(h), poly(i), poly(j)), "sum")],
    )
    program = Program({"f": b.function("f", [out])})
    for size in (1, 3, 9):
        check(program, [size], [(size, size, size)] * 2)
