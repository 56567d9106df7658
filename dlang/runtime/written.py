"""Types as the language writes them, for what shows the types of functions."""


class Written(str):
    """A type as the language writes it; `inspect` shows it without quotes."""

    __slots__ = ()

    __repr__ = str.__str__
