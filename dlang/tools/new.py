"""`dlc new`: the beginning of a project, from the files in `templates/`."""

from __future__ import annotations

import argparse
import keyword
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, error, shown
from dlang.drafts import write
from dlang.lazy_modules import lazy_module
from dlang.tools.arguments import Parser, writing
from dlang.tools.report import report
from dlang.typecheck.modules import Finder

if TYPE_CHECKING:
    from dlang.grammar import lexer
else:
    lexer = lazy_module("dlang.grammar.lexer")


TEMPLATES = Path(__file__).parent / "templates"


def options(parser: Parser) -> None:
    parser.add_argument("--lib", action="store_true", help="a module for other programs and for Python")
    parser.add_argument("name", metavar="NAME", help="of the folder, which is made; it may be a path")


def main(args: argparse.Namespace) -> int:
    try:
        files = new_project(Path(args.name), args.lib)
    except DlangError as e:
        report(e.diagnostics, False)
        return 1
    print(shown(f"made {args.name}: {', '.join(files)}"))
    program = next(file for file in files if file.endswith(".dl"))
    print(shown(f"next: cd {args.name} && dlc {'test' if args.lib else 'run'} {program}"))
    return 0


def new_project(folder: Path, library: bool) -> list[str]:
    """Makes the folder with its files, and gives their names. E0990 if it is there already, or its name is no name."""
    with writing(folder):
        name = folder.resolve().name
        module = name.replace("-", "_").lower()
        _refuse_name(name, module, library)
        texts = _texts(TEMPLATES / ("library" if library else "program"), {"PROJECT": name, "MODULE": module})
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            help = ("choose another name, or remove what is there",)
            raise error("E0990", f"`{folder}` is there already, and is not an empty folder", None, help=help)
        _write(folder, texts)
    return list(texts)


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes the files of a project, or none of them. Raises OSError."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            write(folder / file, text)
    except BaseException:
        with suppress(OSError):
            for file in texts:
                (folder / file).unlink(missing_ok=True)
            for place in missing:
                place.rmdir()
        raise


def _refuse_name(name: str, module: str, library: bool) -> None:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        help = ("a name has letters, digits, `-` and `_`, and begins with a letter",)
        raise error("E0990", f"a project cannot be called `{name}`", None, help=help)
    if not library:
        return
    if module in lexer.KEYWORDS or keyword.iskeyword(module):
        help = (f"choose another name, such as `{name}-lib`",)
        raise error("E0990", f"a module cannot be called `{module}`: it is a keyword", None, help=help)
    if Finder().standard(module) is not None:
        help = (f"choose another name, such as `my-{name}`",)
        raise error("E0990", f"the standard library has a module `{module}`, which this would hide", None, help=help)


def _texts(folder: Path, words: dict[str, str]) -> dict[str, str]:
    """Fills in the templates of a folder with these words; the texts by the names of the files."""
    files = sorted(folder.glob("*.template"), key=lambda file: (".dl" not in file.suffixes, file.name))
    named = {file.name.removesuffix(".template"): file for file in files}
    named[".gitignore"] = TEMPLATES / "gitignore.template"
    return {_filled(name, words): _filled(file.read_text(encoding="utf-8"), words) for name, file in named.items()}


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
