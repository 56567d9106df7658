"""`dlc cache`: where compiled code is kept between processes, how much of it there is, and how to be rid of it."""

from __future__ import annotations

import argparse

from dlang.cache.store import SIZE, Store, misread, user_store
from dlang.tools.arguments import Parser

KINDS = {"grammar": "tables of the grammar", "module": "checked modules", "function": "compiled functions",
         "caller": "calls from Python", "object": "machine code", "kernel": "kernels", "cubin": "code of kernels",
         "emulation": "code of emulated kernels", "ceilings": "speeds of the machine",
         "deviceceilings": "speeds of GPUs"}  # fmt: skip


def options(parser: Parser) -> None:
    parser.add_argument("action", nargs="?", choices=("info", "clear", "path"), default="info")


def main(args: argparse.Namespace) -> int:
    return manage_cache(args.action)


def manage_cache(action: str) -> int:
    """Does `info`, `path` or `clear`; always 0."""
    store = user_store()
    match action:
        case "path":
            print(store.directory)
        case "clear":
            count = store.clear()
            print(f"removed {count} {'entry' if count == 1 else 'entries'}")
        case _:
            print(described(store))
    return 0


def described(store: Store) -> str:
    """The directory, and for each kind of entry how many there are and how large they are."""
    counts: dict[str, tuple[int, int]] = {}
    for entry in store.entries():
        number, total = counts.get(entry.kind, (0, 0))
        counts[entry.kind] = number + 1, total + entry.bytes
    lines = [f"{store.directory}"]
    for kind in [*KINDS, *sorted(counts.keys() - KINDS.keys())]:
        if kind in counts:
            number, total = counts[kind]
            lines.append(f"  {KINDS.get(kind, kind):<25}{number:>7}{size(total):>12}")
    total = sum(t for _, t in counts.values())
    allowed = f"of {size(store.limit)} allowed" if store.limit else "nothing is kept"
    lines.append(f"  {'all':<25}{sum(n for n, _ in counts.values()):>7}{size(total):>12}  {allowed}")
    if (text := misread()) is not None:
        lines.append(f"{SIZE} is `{text}`, which says no size; 500M or 2G would")
    return "\n".join(lines)


def size(bytes: int) -> str:
    """A number of bytes, for a person: `12.3 MiB`."""
    value = float(bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
