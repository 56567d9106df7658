"""What has no derivative: the message, at the operation through which one would have to pass."""

from __future__ import annotations

from dlang.diagnostics import DlangError, error
from dlang.ir.anf import Effect, Foreign, Let


def refusal(let: Let) -> DlangError:
    """E0705 for a foreign function without a rule, or an effect."""
    match let.op:
        case Foreign(target=target) | Effect(name="foreign", static=(target,)):
            name = target.rpartition(":")[2].partition("#")[0]
            return error(
                "E0705",
                f"cannot differentiate the foreign function `{name}`, because it has no rule",
                let.span,
                label="a derivative passes through this call",
                help=("wrap the argument in `stop_gradient`, or write the function in the language",),
            )
        case Effect(name=name):
            return error(
                "E0705",
                f"`{name}` has no derivative",
                let.span,
                label="a derivative passes through this operation",
                help=("give the function a `pullback`, or wrap the argument in `stop_gradient`",),
            )
        case op:
            raise AssertionError(f"{type(op).__name__} has a derivative")
