"""The names that every program knows, by what they are."""

from __future__ import annotations

from dlang.typecheck.annotations import EFFECTS
from dlang.typecheck.builtins import names
from dlang.typecheck.types import CLASSES, DTYPES

PRELUDE_FUNCTIONS = ("enumerate", "fold", "iota", "linspace", "map", "reduce")
PRELUDE_TYPES = ("List", "Option", "Result")
PRELUDE_CONSTRUCTORS = ("Cons", "Err", "Nil", "None", "Ok", "Some")

BUILTIN_TYPES = (*sorted(DTYPES), "size")
BUILTIN_FUNCTIONS = tuple(sorted({*names(), *PRELUDE_FUNCTIONS} - DTYPES))
TYPE_CLASSES = tuple(sorted({*CLASSES, "Vector"}))
EFFECT_NAMES = tuple(sorted(EFFECTS))
