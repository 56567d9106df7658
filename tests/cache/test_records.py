"""Records hold the compiler's own objects, with their sharing, and nothing that could run."""

from __future__ import annotations

import os
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dlang.cache.records import Elsewhere, Unkept, dump, load
from dlang.diagnostics import Source, Span
from dlang.polynomials import Poly
from dlang.typecheck.core import FnDecl
from dlang.typecheck.types import SizeVar, TypeCon, TypeTuple, TypeVar

SPAN = Span(Source("file.dl", "text"), 0, 4)


def again(value: Any) -> Any:
    return load(dump(value)[0])[0]


def test_what_is_shared_stays_shared_and_circles_stay_closed() -> None:
    v = TypeVar(1, "a")
    f = FnDecl("f", "m", SPAN, variables=(v,), result=TypeTuple((v, TypeCon("f64"))))
    f.rules["pullback"] = f
    g = again(f)
    assert g.rules["pullback"] is g
    assert g.result.items == (g.variables[0], TypeCon("f64"))
    assert g.span == Span(g.span.source, 0, 4) and g.span.source.path == "file.dl"


def test_polynomials_keep_their_coefficients() -> None:
    n, m = SizeVar(0, "n"), SizeVar(0, "m")
    p, (a, b) = again((Poly({(n, m): Fraction(1, 2), (): 3}), (n, m)))
    assert p == Poly({(a, b): Fraction(1, 2), (): 3})


def test_an_object_of_another_record_is_said_by_its_number() -> None:
    f = FnDecl("f", "m", SPAN)
    record, objects = dump(f)
    number = objects.index(f)
    other, _ = dump([f, f], lambda o: Elsewhere("first", number) if o is f else None)
    _, loaded = load(record)
    (a, b), _ = load(other, lambda place: loaded[place.number])
    assert a is b is loaded[number]
    with pytest.raises(Unkept):
        load(other)


@pytest.mark.parametrize("value", [print, os.system, Path("/"), lambda: 0, object()])
def test_nothing_else_has_a_form(value: object) -> None:
    with pytest.raises(Unkept):
        dump((1, value))


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("made-by-a-record",)


def test_a_record_can_name_no_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unkept):
        load(pickle.dumps((Evil(), [])))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["dlang.diagnostics\nrender", "dlang.diagnostics\nre.compile", "builtins\neval"])
def test_only_classes_of_the_listed_modules_are_found(name: str) -> None:
    with pytest.raises(Unkept):
        load(b"c" + name.encode() + b"\n.")


@pytest.mark.parametrize("record", [b"", b"nonsense", b"\x80\x05N."])
def test_bytes_that_are_no_record_are_refused(record: bytes) -> None:
    with pytest.raises(Unkept):
        load(record)
