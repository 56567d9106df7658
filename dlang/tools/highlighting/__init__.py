"""Colours for programs, all made from `grammar/lexer.py`: a lexer for Pygments, and an extension for VS Code.

`python -m dlang.tools.highlighting FOLDER` writes the files of the extension that are made.
"""

from __future__ import annotations

from dlang.ops.dtypes import FLOATS, INTEGERS
from dlang.typecheck.annotations import EFFECTS
from dlang.typecheck.builtins import names
from dlang.typecheck.types import CLASSES, DTYPES

# The names that every program knows, by what they are.
PRELUDE_FUNCTIONS = ("enumerate", "fold", "iota", "linspace", "map", "reduce")
PRELUDE_TYPES = ("List", "Option", "Result")
PRELUDE_CONSTRUCTORS = ("Cons", "Err", "Nil", "None", "Ok", "Some")

BUILTIN_TYPES = (*sorted(DTYPES), "size")
BUILTIN_FUNCTIONS = tuple(sorted({*names(), *PRELUDE_FUNCTIONS} - DTYPES))
TYPE_CLASSES = tuple(sorted({*CLASSES, "Vector"}))
EFFECT_NAMES = tuple(sorted(EFFECTS))

SUFFIX = "(?:" + "|".join((*FLOATS, *INTEGERS)) + ")?"
"""The suffixes of numbers."""
END = r"(?![\w'])"
"""The end of a name or a number."""
