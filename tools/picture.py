"""`make picture`: draws the rooms of `dlang/` with the arrows between them, and prints a program at each stage.

python -m tools.picture           writes docs/rooms.svg, and what docs/architecture.md has from the code
python -m tools.picture --check   writes nothing, and exits with 1 if either is stale

In the page a table of the rooms follows `<!-- rooms -->`, and the program after a stage is in a block of code that says
`stage NAME` behind its language, or `stage NAME LINES` for its first lines.

A room is a folder, or a module of the package itself that imports one; `codegen/llvm` and `codegen/cuda` are rooms of
their own. An arrow leads from a room to one that it imports, at whatever place the import stands. Rooms are drawn in
layers, each above all that it imports. Where rooms import one another in a circle, the fewest imports look back: their
arrows are red. An arrow is left out where a longer way leads to the same room, so the picture stays readable; the table
has all of them.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from dlang.codegen.printing import print_program as print_loops
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.diagnostics import Source
from dlang.driver import check, lower
from dlang.dump_ir import request
from dlang.graphs import components
from dlang.ir.traverse import reachable
from dlang.ops.figures import GRAIN
from dlang.tools.ir import print_ir
from tools.census import ROOT, Module, Package, read_package

PAGE, PICTURE = ROOT / "docs/architecture.md", ROOT / "docs/rooms.svg"
ROOMS = re.compile(r"(?<=^<!-- rooms -->\n\n)(?:\|.*\n)*", re.MULTILINE)
STAGE = re.compile(r"^(```\w+ stage (\w+) ?(\d*)\n)(?:.*?\n)?(?=```$)", re.MULTILINE | re.DOTALL)
PROGRAM = """\
fn energy(x: f64[n]) -> f64 = sum(x * sin(x))
fn slope(x: f64[n]) -> f64[n] = grad(energy)(x)
"""
WIDTH, BOX, GAP, LINE = 760, 118, 28, 72
"""The widths of the picture, of a box and of the gap between two, and the height of a layer, in pixels."""

Arrow = tuple[str, str]


@dataclass(frozen=True)
class House:
    """The rooms of the package, in the order in which they are drawn.

    arrows: how many imports lead from a room to another; back: the arrows that look back; anywhere: the modules that
    every room may import, because they import no room.
    """

    layers: tuple[tuple[str, ...], ...]
    arrows: Mapping[Arrow, int]
    back: frozenset[Arrow]
    anywhere: tuple[str, ...]

    @property
    def rooms(self) -> tuple[str, ...]:
        return tuple(room for layer in self.layers for room in layer)


def house(package: Package) -> House:
    """Finds the rooms and arrows of a package, and the layers of the rooms."""
    arrows: Counter[Arrow] = Counter()
    for other, importers in package.importers.items():
        for name in importers:
            a, b = room_of(package.by_name[name]), room_of(package.by_name[other])
            if a != b:
                arrows[a, b] += 1
    everything = {room_of(m) for m in package.modules}
    folders = {room_of(m) for m in package.modules if m.folder}
    anywhere = {m for m in everything - folders if not any(a == m and b in folders for a, b in arrows)}
    entries = {m for m in everything - folders - anywhere if not any(b == m and a in folders for a, b in arrows)}
    entries.add(PACKAGE_ITSELF)
    rooms = everything - anywhere - entries
    kept = {(a, b): n for (a, b), n in sorted(arrows.items()) if a in rooms and b in rooms}
    back = looking_back(rooms, kept)
    return House(layers(rooms, kept.keys() - back), kept, back, tuple(sorted(anywhere)))


PACKAGE_ITSELF = "dlang.py"


def room_of(module: Module) -> str:
    return f"{module.folder}/" if module.folder else f"{module.name.rpartition('.')[2]}.py"


def looking_back(rooms: Iterable[str], arrows: Mapping[Arrow, int]) -> frozenset[Arrow]:
    """The arrows without which there is no circle: of each circle the one of the fewest imports, one after another."""
    left = dict(arrows)
    while circles := [set(c) for c in components(successors(rooms, left)) if len(c) > 1]:
        inside = [a for a in left if any(a[0] in c and a[1] in c for c in circles)]
        del left[min(inside, key=lambda a: (left[a], a))]
    return frozenset(arrows.keys() - left.keys())


def successors(rooms: Iterable[str], arrows: Iterable[Arrow]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {room: [] for room in sorted(rooms)}
    for a, b in sorted(arrows):
        found[a].append(b)
    return found


def layers(rooms: Iterable[str], arrows: Iterable[Arrow]) -> tuple[tuple[str, ...], ...]:
    """The rooms by the longest way down from them, the highest first."""
    below = successors(rooms, arrows)
    height: dict[str, int] = {}

    def measured(room: str) -> int:
        if room not in height:
            height[room] = 1 + max(map(measured, below[room]), default=-1)
        return height[room]

    highest = max(map(measured, below))
    return tuple(tuple(r for r in below if height[r] == h) for h in range(highest, -1, -1))


def drawn(rooms: Iterable[str], arrows: Iterable[Arrow]) -> list[Arrow]:
    """The arrows that no longer way stands for."""
    below = successors(rooms, arrows)

    def reached(room: str) -> set[str]:
        return {r for b in below[room] for r in {b, *reached(b)}}

    return [(a, b) for a in below for b in below[a] if not any(b in reached(c) for c in below[a])]


# ---- the picture and the table ---------------------------------------------------------------------------------------
def picture(of: House) -> str:
    """The house as SVG."""
    forward = drawn(of.rooms, of.arrows.keys() - of.back)
    below = successors(of.rooms, forward)
    across: dict[str, float] = {}
    for layer in reversed(of.layers):
        wanted = {room: mean(across[b] for b in below[room]) if below[room] else WIDTH / 2 for room in layer}
        across |= spread(wanted)
    places = {room: (across[room], 40 + LINE * number) for number, layer in enumerate(of.layers) for room in layer}
    bottom = 40 + LINE * len(of.layers)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 30}" font-family="sans-serif">',
        "<title>The rooms of dlang/, each above those that it imports</title>",
        f'<rect width="{WIDTH}" height="{bottom + 30}" fill="#ffffff"/>',
    ]
    for arrows, colour, dashes in ((forward, "#667788", ""), (sorted(of.back), "#cc3333", ' stroke-dasharray="5 4"')):
        lines += [curve(places[a], places[b], colour, dashes) for a, b in arrows]
    for room, (x, y) in places.items():
        lines.append(
            f'<rect x="{x - BOX / 2:g}" y="{y - 16:g}" width="{BOX}" height="32" rx="5" fill="#e8f0f8" '
            f'stroke="#334455"/><text x="{x:g}" y="{y + 5:g}" text-anchor="middle" font-size="13">{room}</text>'
        )
    everywhere = " ".join(m.removesuffix(".py") for m in of.anywhere)
    lines.append(
        f'<rect x="{GAP}" y="{bottom - 16:g}" width="{WIDTH - 2 * GAP}" height="32" rx="5" fill="#f0f0e4" '
        f'stroke="#777766"/><text x="{WIDTH / 2:g}" y="{bottom + 4:g}" text-anchor="middle" font-size="11">'
        f"any room: {everywhere}</text>"
    )
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def spread(wanted: Mapping[str, float]) -> dict[str, float]:
    """Places for the rooms of a layer, in the order of those that they want and as near to these as there is room."""
    step, rooms = BOX + GAP, sorted(wanted, key=lambda r: (wanted[r], r))
    middle = mean(wanted.values())
    first = min(max(middle - (len(rooms) - 1) * step / 2, step / 2), WIDTH - step / 2 - (len(rooms) - 1) * step)
    return {room: round(first + i * step) for i, room in enumerate(rooms)}


def curve(a: tuple[float, float], b: tuple[float, float], colour: str, dashes: str) -> str:
    """An arrow between two boxes: from the lower edge of the upper one, or the other way round."""
    side = 16 if a[1] < b[1] else -16
    (x, y), (u, v) = (a[0], a[1] + side), (b[0], b[1] - side)
    bend, tip = (v - y) / 2, 6 if v > y else -6
    return (
        f'<path d="M{x:g} {y:g}C{x:g} {y + bend:g} {u:g} {v - bend:g} {u:g} {v - tip:g}" fill="none" '
        f'stroke="{colour}"{dashes}/><path d="M{u:g} {v:g}l-4 {-tip - tip / 3:g}h8z" fill="{colour}"/>'
    )


def table(of: House, package: Package) -> str:
    """The house as a table in Markdown: each room with the first sentence of its docstring, and what it imports."""
    rows = ["| room | is | imports |", "| --- | --- | --- |"]
    for room in reversed(of.rooms):
        text = ast.get_docstring(package.by_name[module_name(room)].tree) or ""
        first = re.split(r"(?<=\.)\s", " ".join(text.split("\n\n")[0].split()))[0].rstrip(".")
        names = (f"**{b}** ↑" if (room, b) in of.back else b for a, b in of.arrows if a == room)
        rows.append(f"| `{room}` | {first} | {', '.join(names) or '—'} |")
    return "".join(f"{row}\n" for row in rows)


def module_name(room: str) -> str:
    return ".".join(["dlang", *room.removesuffix(".py").rstrip("/").split("/")])


def stage(name: str, most: int) -> str:
    """The program of the page after a stage: its first lines, without the places in its source that `dlc ir` adds.

    Loop nests have vectors of 32 bytes, whatever this processor has. The function that calls from outside enter by is
    left out where the program's own are there.
    """
    checked = check(Source("slope.dl", PROGRAM))
    if name == "loops":
        program, entries = lower([request(checked.module.functions["slope"])])
        nests = schedule(reachable(program, [e.name for e in entries]), Lanes(256), GRAIN)
        return first_lines(re.sub(r"  # \S+:\d+:\d+$", "", print_loops(nests), flags=re.MULTILINE), most)
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()) as out:
        path = Path(folder, "slope.dl")
        path.write_text(PROGRAM)
        print_ir(str(path), name, "slope", costs=False, as_json=False)
    text = re.sub(r" +# \S+:\d+:\d+$", "", out.getvalue(), flags=re.MULTILINE)
    functions = text.strip().split("\n\n")
    return first_lines("\n\n".join(functions[:-1] or functions), most)


def first_lines(text: str, most: int) -> str:
    lines = text.strip().splitlines()
    return "\n".join(lines if len(lines) <= most else [*lines[:most], "…"])


def written(page: str, rooms: str) -> str:
    """The text of the page with what is written here in its places."""
    page = ROOMS.sub(lambda _: rooms, page)
    return STAGE.sub(lambda block: f"{block[1]}{stage(block[2], int(block[3] or sys.maxsize))}\n", page)


def fresh() -> dict[Path, str]:
    """The texts that the files of the picture should hold, for the code as it is."""
    package = read_package()
    found = house(package)
    return {PICTURE: picture(found), PAGE: written(PAGE.read_text(), table(found, package))}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.picture", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if the picture is stale")
    options = parser.parse_args()
    stale = {path: text for path, text in fresh().items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        if options.check:
            print(f"{path.relative_to(ROOT)} is stale: make picture")
        else:
            path.write_text(text)
    return int(bool(stale) and options.check)


if __name__ == "__main__":
    sys.exit(main())
