"""A table by identity tells equal objects apart and keeps them alive."""

from dlang.identity import ByIdentity


def test_equal_objects_have_values_of_their_own() -> None:
    a, b = [1], [1]
    table = ByIdentity([(a, "a")])
    assert a in table and b not in table
    assert table.get(b) is None
    table[b] = "b"
    assert (table[a], table[b], len(table)) == ("a", "b", 2)
    a.append(2)
    assert table[a] == "a"


def test_objects_come_in_order_and_can_be_forgotten() -> None:
    keys = [[k] for k in range(3)]
    table = ByIdentity((key, key[0]) for key in keys)
    table.discard(keys[1])
    table.discard([7])
    assert list(table) == [[0], [2]]
    assert list(table.items()) == [([0], 0), ([2], 2)]


def test_no_new_object_is_taken_for_one_that_was_forgotten_elsewhere() -> None:
    table: ByIdentity[list[int], int] = ByIdentity()
    for k in range(100):
        fresh = [k]
        assert fresh not in table
        table[fresh] = k
    assert len(table) == 100
