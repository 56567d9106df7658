"""Structs and variants as nodes of the trees of JAX and PyTorch, in a process that has loaded these.

A class is made known to a library with the first object that Python makes of it after that: nothing is imported here.
"""

from __future__ import annotations

import sys
from typing import Any

from dlang.host.classes import fields_of

_DONE = "__dlang_trees__"


def register(value: Any) -> None:
    """Makes the class of a value known to the libraries that are loaded and do not know it yet."""
    kind = type(value)
    done = getattr(kind, _DONE)
    if "jax" in sys.modules and "jax" not in done:
        _for_jax(kind)
    if "torch" in sys.modules and "torch" not in done:
        _for_torch(kind)


def _for_jax(kind: Any) -> None:
    register = getattr(sys.modules.get("jax.tree_util"), "register_dataclass", None)
    if register is None:  # it is being loaded
        return
    setattr(kind, _DONE, (*getattr(kind, _DONE), "jax"))
    register(kind, data_fields=list(fields_of(kind)), meta_fields=[])


def _for_torch(kind: Any) -> None:
    register = getattr(sys.modules.get("torch.utils._pytree"), "register_pytree_node", None)
    if register is None:
        return
    setattr(kind, _DONE, (*getattr(kind, _DONE), "torch"))
    names = list(fields_of(kind))
    name = f"{kind.__module__}.{kind.__qualname__}"

    def taken_apart(value: Any) -> tuple[list[Any], None]:
        return [getattr(value, n) for n in names], None

    def put_together(items: Any, context: None) -> Any:
        return kind(*items)

    register(kind, taken_apart, put_together, serialized_type_name=f"{name}.{id(kind)}")


MEMBERS = {"__post_init__": register, _DONE: ()}
"""The members that a class needs to be a pytree."""
