"""Finding functions of Python by name: where Python finds its modules, and in the folder of a program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from dlang.host.foreign import Missing


def find_python(path: str, folder: Path) -> Callable[..., Any]:
    """`package.module.function`, where Python finds it, or in a folder; raises `Missing`."""
    name, *rest = path.split(".")
    installed = _is_known(name)
    with _reported(name), _searched(folder):
        found: Any = import_module(name) if installed else _beside(name, folder)
    known = name
    for part in rest:
        inner = f"{known}.{part}"
        if not hasattr(found, part) and hasattr(found, "__path__"):
            _import_part(found, known, part, folder)
        if not hasattr(found, part):
            what = "the module" if hasattr(found, "__spec__") else "the object"
            raise Missing(f"{what} `{known}` of Python has no `{part}`", _alike(part, dir(found)))
        found = getattr(found, part)
        known = inner
    if not callable(found):
        raise Missing(f"`{path}` of Python is not a function", "name something that can be called")
    function: Callable[..., Any] = found
    return function


def _is_known(name: str) -> bool:
    """Tells whether Python itself finds a module."""
    return name in sys.modules or find_spec(name) is not None


def _beside(name: str, folder: Path) -> Any:
    """A module in a folder. It is its own, whatever other folder has a module of that name."""
    for path in (folder / f"{name}.py", folder / name / "__init__.py"):
        if path.is_file():
            place = str(path.resolve())
            unique = f"{name}_{sha256(place.encode()).hexdigest()[:12]}"
            if unique in sys.modules:
                return sys.modules[unique]
            spec = spec_from_file_location(unique, place)
            assert spec is not None and spec.loader is not None
            sys.modules[unique] = module = module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[unique]
                raise
            return module
    help = f"install it in the environment of `{sys.executable}`, or put `{name}.py` beside the program"
    raise Missing(f"there is no Python module `{name}`", help)


def _import_part(package: Any, known: str, part: str, folder: Path) -> None:
    """Imports a module of a package, if it has one of that name."""
    name = f"{package.__name__}.{part}"
    if find_spec(name) is not None:
        with _reported(f"{known}.{part}"), _searched(folder):
            import_module(name)


@contextmanager
def _searched(folder: Path) -> Iterator[None]:
    """Lets imports inside find modules in the folder, too."""
    place = str(folder.resolve())
    sys.path.append(place)
    try:
        yield
    finally:
        sys.path.remove(place)


@contextmanager
def _reported(name: str) -> Iterator[None]:
    """Whatever goes wrong while a module is imported says so."""
    try:
        yield
    except Missing:
        raise
    except ModuleNotFoundError as e:
        raise Missing(f"the Python module `{name}` needs `{e.name}`, which is not installed", "install it") from e
    except Exception as e:
        message = f"the Python module `{name}` cannot be imported: {type(e).__name__}: {e}"
        raise Missing(message, f"run `python -c 'import {name}'` to see more") from e


def _alike(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    return f"did you mean `{close[0]}`?" if close else "look up how it is spelt"
