"""What compiled code knows of the objects of CPython and NumPy."""

import dataclasses

import numpy as np
import pytest

from dlang.host.platform import PORTABLE, objects


@pytest.fixture
def portable(monkeypatch):
    monkeypatch.setenv(PORTABLE, "1")


def test_fields_of_a_dataclass_with_slots_are_found_in_the_order_of_its_declaration():
    made = dataclasses.make_dataclass("Point", ["y", "x", "_z"], frozen=True, slots=True)
    where = objects.slots_of(made)
    assert objects.can_call() == (where is not None)
    if where is not None:
        assert len(set(where)) == 3
        point = made(object(), object(), object())
        assert [objects._word(point, at) for at in where] == [id(point.y), id(point.x), id(point._z)]


def test_a_class_without_slots_has_no_known_places():
    assert objects.slots_of(dataclasses.make_dataclass("Point", ["x"])) is None


def test_scalars_of_numpy_hold_their_values():
    kinds = (np.float64, np.float32, np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint8, np.bool_)
    assert all(map(objects.holds_value, kinds)) or not objects.can_call()


def test_nothing_is_known_where_fallbacks_are_wanted(portable):
    assert not objects.can_call()
    assert objects.slots_of(dataclasses.make_dataclass("Point", ["x"], slots=True)) is None


@pytest.mark.skipif(not objects.can_call(), reason="no class of this kind here")
def test_an_object_of_a_callable_class_calls_its_method_until_it_is_connected():
    class Callee:
        def __call__(self, *args, **named):
            return args, named

    quick = objects.callable_class(Callee)
    assert quick is not None
    callee = object.__new__(quick.type)
    callee.note = 1
    assert callee(1, x=2) == ((1,), {"x": 2}) and isinstance(callee, Callee) and callee.note == 1
