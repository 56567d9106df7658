"""Reports the coverage of tests, as a table for a person and in the format of LCOV for other tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from dlang.diagnostics import shown
from dlang.tools.coverage import Spot
from dlang.tools.files import replace_file


@dataclass(slots=True)
class FileCoverage:
    """lines: those that may be reached, and whether they were. arms: by the line and the offset of the branch, and the
    number of the arm. functions: by line and name.
    """

    path: str
    lines: dict[int, bool] = field(default_factory=dict)
    arms: dict[tuple[int, int, int], bool] = field(default_factory=dict)
    functions: dict[tuple[int, str], bool] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The lines that were reached, in percent."""
        return 100 * sum(self.lines.values()) / len(self.lines) if self.lines else 100.0

    def missing(self) -> str:
        """The lines that were not reached; of those without a reached line between them the first and the last."""
        runs = [[line for line, _ in run] for hit, run in groupby(self.lines.items(), lambda x: x[1]) if not hit]
        return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def by_file(reached: Mapping[Spot, bool]) -> list[FileCoverage]:
    """Spots, which come in the order of their places, by files."""
    files: dict[str, FileCoverage] = {}
    for spot, hit in reached.items():
        file = files.setdefault(spot.path, FileCoverage(spot.path))
        match spot.kind:
            case "line":
                file.lines[spot.line] = file.lines.get(spot.line, False) or hit
            case "arm":
                file.arms[spot.line, spot.offset, spot.arm] = hit
            case "function":
                file.functions[spot.line, spot.name] = hit
    return list(files.values())


def table(files: list[FileCoverage]) -> str:
    """A line for each file, and one for all."""
    rows = [(shown(f.path), list(f.lines.values()), list(f.arms.values()), f.missing()) for f in files]
    if len(files) != 1:
        rows.append(("all", [x for r in rows for x in r[1]], [x for r in rows for x in r[2]], ""))
    width = max(len(row[0]) for row in rows)
    out = [f"{'':<{width}}  lines    hit        %  branches  missing".rstrip()]
    for name, lines, arms, missing in rows:
        share = 100 * sum(lines) / len(lines) if lines else 100.0
        branches = f"{sum(arms)}/{len(arms)}"
        out.append(
            f"{name:<{width}}  {len(lines):>5}  {sum(lines):>5}  {share:>5.1f} %  {branches:>8}  {missing}".rstrip()
        )
    return "\n".join(out)


def lcov(files: list[FileCoverage]) -> str:
    """The tracefile of `geninfo`: counts say whether something was reached, not how often."""
    return "".join(f"{line}\n" for file in files for line in _records(file))


def _records(file: FileCoverage) -> Iterator[str]:
    yield "TN:"
    yield f"SF:{file.path}"
    for line, name in file.functions:
        yield f"FN:{line},{name}"
    for (_, name), hit in file.functions.items():
        yield f"FNDA:{int(hit)},{name}"
    yield f"FNF:{len(file.functions)}"
    yield f"FNH:{sum(file.functions.values())}"
    blocks = {key: k for k, key in enumerate(dict.fromkeys((line, offset) for line, offset, _ in file.arms))}
    for (line, offset, arm), hit in file.arms.items():
        yield f"BRDA:{line},{blocks[line, offset]},{arm},{int(hit)}"
    yield f"BRF:{len(file.arms)}"
    yield f"BRH:{sum(file.arms.values())}"
    for line, hit in file.lines.items():
        yield f"DA:{line},{int(hit)}"
    yield f"LF:{len(file.lines)}"
    yield f"LH:{sum(file.lines.values())}"
    yield "end_of_record"


def write_lcov(files: list[FileCoverage], path: str) -> None:
    """Writes what was covered in the format of LCOV. Raises E0822."""
    replace_file(path, lcov(files))
