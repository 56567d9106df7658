"""The parameters of `main` as options of a command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dlang.diagnostics import Span, error
from dlang.lazy_modules import lazy_module
from dlang.tools.arguments import Parser
from dlang.typecheck.headers import FnDecl, Param
from dlang.typecheck.types import FLOATS, TypeCon, TypeVar, resolve

if TYPE_CHECKING:
    from dlang.typecheck import core
else:
    core = lazy_module("dlang.typecheck.core")


def parser_of_main(prog: str, main: FnDecl, options: Sequence[str]) -> Parser:
    """Returns the parser of the options of `main`, which are also needed to know whether defaults will be shown."""
    with_defaults = not {"-h", "--help"}.isdisjoint(options)
    doc = main.doc.replace("%", "%%") if "%(prog)" in main.doc else main.doc  # which is when argparse looks at it
    parser = Parser(prog=prog, description=doc, conflict_handler="resolve")
    if "random" in main.effects:
        parser.add_argument("--seed", metavar="i64", help="of the random numbers, 0 unless given")
    for p in main.params:
        name = p.local.name
        flags = list(dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"]))
        dtype = dtype_of(p)
        default = _default(p) if with_defaults else ""
        convert = _CONVERSIONS[dtype] if dtype in _CONVERSIONS else integer(dtype)
        parser.add_argument(
            *flags,
            dest=name,
            metavar=dtype,
            type=convert,
            required=not p.has_default,
            help=f"{dtype}{default}".replace("%", "%%"),
            nargs="?" if dtype == "bool" else None,
            const=True if dtype == "bool" else None,
        )
    return parser


def _default(p: Param) -> str:
    return f", {p.default.value} unless given" if isinstance(p.default, core.Literal) else ""


def dtype_of(p: Param) -> str:
    """The dtype of an option; raises a `DlangError` for what can be none."""
    t = resolve(p.local.type)
    if isinstance(t, TypeVar) and (t.classes or t.literal):
        return default_dtype(t)
    if isinstance(t, TypeCon):
        return t.name
    span: Span | None = p.local.span
    help = ("read arrays from a file: `io.npz(path, name)`",)
    raise error("E0954", f"the parameter `{p.local.name}` of `main` is no number, text or bool", span, help=help)


def default_dtype(v: TypeVar) -> str:
    """Returns the dtype of a number whose dtype nothing decides."""
    return "f64" if v.literal == "float" or "Float" in v.classes else "i64"


def integer(dtype: str) -> Callable[[str], int]:
    """Makes a parser of integers of a dtype."""
    bits = int(dtype[1:])
    low, high = (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def convert(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{value} is out of the range of {dtype}")
        return value

    convert.__name__ = dtype  # argparse says: invalid i64 value
    return convert


def _float(text: str) -> float:
    return float(text)


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"`{text}` is neither true nor false")
    return text == "true"


_float.__name__ = "number"
_CONVERSIONS: dict[str, Callable[[str], object]] = {"str": str, "bool": _bool, **dict.fromkeys(FLOATS, _float)}
