"""Everything that depends on the operating system: each piece has a portable fallback."""

import os

PORTABLE = "DLANG_PORTABLE"
"""The environment variable that chooses the fallbacks, so that they can be tested where they are not needed."""


def portable() -> bool:
    """Tells whether the fallbacks are to be used."""
    return bool(os.environ.get(PORTABLE))
