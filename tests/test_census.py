"""The structure of the package gets no worse where it has become what it should be."""

from tools.census import QUESTIONS, read_package


def test_answers_of_the_census_stay_within_their_limits():
    package = read_package()
    held = {q.answer(package): q.limit for q in QUESTIONS if q.limit is not None}
    assert held
    assert [count for count, limit in held.items() if count.number > limit] == []
