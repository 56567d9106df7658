"""Modules that load when they are first used: those of other packages by name, those of this one by `lazy_module`.

A module of this package is imported for the type checker and made lazy for the interpreter:

    if TYPE_CHECKING:
        from dlang.runtime import engine
    else:
        engine = lazy_module("dlang.runtime.engine")  # written so, a name a line, for `aot/archive.py`
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` takes longer to load than the rest of the command line

__all__ = ["csv", "jax", "json", "lazy_module", "llvm", "np", "subprocess", "torch", "traceback"]


class LazyModule:
    """A module that is imported when an attribute of it is first read.

    It then shares the module's dictionary, so later reads cost what those of any object do, and see what is set there.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> object:
        """Imports the module; also asked for what the module lacks, or computes itself when it is asked."""
        module = import_module(self.__name__)
        self.__dict__ = module.__dict__
        return getattr(module, attribute)


def lazy_module(name: str) -> LazyModule:
    """A stand-in for a module that is not imported before it is used."""
    return LazyModule(name)


if TYPE_CHECKING:
    import csv
    import json
    import subprocess
    import traceback

    import jax
    import llvmlite.binding as llvm
    import numpy as np
    import torch
else:
    csv = lazy_module("csv")
    json = lazy_module("json")
    subprocess = lazy_module("subprocess")
    traceback = lazy_module("traceback")
    jax = lazy_module("jax")
    llvm = lazy_module("llvmlite.binding")
    np = lazy_module("numpy")
    torch = lazy_module("torch")
