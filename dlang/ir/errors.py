"""The one exception for a defect of the compiler itself: a program in the IR that no pass should have made."""

from __future__ import annotations


class IRError(Exception):
    """An ill-formed program of the IR. A user's program never causes one; a wrong pass does."""
