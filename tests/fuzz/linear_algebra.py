"""Systems of equations, factorisations and determinants, of matrices that are far from singular."""

from __future__ import annotations

import re

from tests.fuzz.types import F64, Arr, Size, vector
from tests.fuzz.writer import Writer

NAMES = (
    "cholesky", "cholesky_solve", "det", "diagonal", "identity", "inverse", "logdet", "solve", "triangular_solve",
)  # fmt: skip


def imports(text: str) -> str:
    """A program with the import that it needs."""
    used = [name for name in NAMES if re.search(rf"\b{name}\(", text)]
    return f"import linalg {{ {', '.join(used)} }}\n{text}" if used else text


def definite(w: Writer, size: Size, depth: int) -> str:
    """A symmetric positive definite matrix."""
    b = w.fresh("b")
    factor = w.expr(Arr(F64, (size, w.size())), depth - 2)
    return f"{{ let {b} = tanh({factor}); identity({size}) + 0.3 * ({b} @ transpose({b})) }}"


def general(w: Writer, size: Size, depth: int) -> str:
    """A matrix whose diagonal dominates, for it has at most 8 rows."""
    return f"(identity({size}) + 0.1 * tanh({w.expr(Arr(F64, (size, size)), depth - 2)}))"


def solved_vector(w: Writer, t: Arr, depth: int) -> str | None:
    if depth < 2 or not w.affords():
        return None
    (size,) = t.shape
    right = w.expr(t, depth - 1)
    match w.random.randrange(5):
        case 0:
            return f"solve({general(w, size, depth)}, {right})"
        case 1:
            return f"cholesky_solve(cholesky({definite(w, size, depth)}), {right})"
        case 2:
            return f"triangular_solve(cholesky({definite(w, size, depth)}), {right})"
        case 3:
            return f"diagonal(inverse({general(w, size, depth)}))"
        case _:
            return f"solve({definite(w, size, depth)}, {right})"


def solved_matrix(w: Writer, t: Arr, depth: int) -> str | None:
    if depth < 2 or not w.affords():
        return None
    rows, columns = t.shape
    if rows == columns and w.chance(50):
        inverted = f"inverse({general(w, rows, depth)})"
        return w.random.choice([inverted, f"cholesky({definite(w, rows, depth)})"])
    if w.chance(30):
        flipped = w.expr(Arr(F64, (columns, rows)), depth - 1)
        return f"transpose(solve({general(w, columns, depth)}, {flipped}))"
    return f"solve({general(w, rows, depth)}, {w.expr(t, depth - 1)})"


def determinant(w: Writer, depth: int) -> str:
    size = w.size()
    forms = [f"det({general(w, size, depth)})", f"logdet({definite(w, size, depth)})"]
    forms.append(f"sum(log(diagonal(cholesky({definite(w, size, depth)}))))")
    forms.append(f"({w.expr(vector(size), 1)} @ inverse({general(w, size, depth)}) @ {w.expr(vector(size), 1)})")
    return w.random.choice(forms)
