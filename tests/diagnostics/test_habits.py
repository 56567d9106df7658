"""A mistake of someone who comes from another language gives one message, which says how it is written here."""

from __future__ import annotations

import pytest

from tests.diagnostics import habits


@pytest.mark.parametrize("habit", list(habits.read()), ids=lambda h: h.title)
def test_what_is_written_elsewhere_is_told_how_it_is_written_here(habit: habits.Habit) -> None:
    assert habits.told(habit) == habit
    assert habit.told.count("-- ") == 1 and "‹" in habit.marked
