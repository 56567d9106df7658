"""Networks of layers of the library with weights that are computed, whole or by steps in a loop, and their losses.

Layers and losses reduce rows, divide by what they reduced, and read and add to elements by the label of a row: what a
compiler turns around most.
"""

from __future__ import annotations

import re

from tests.fuzz.types import F64, Arr, Size
from tests.fuzz.writer import EACH, Writer

MOST_LAYERS = 3


def imports(text: str) -> str:
    """A program with the import that it needs."""
    return f"import nn\n{text}" if re.search(r"\bnn\.", text) else text


def network(w: Writer, pad: str) -> list[str]:
    """Statements that compute an array of activations, and a number that is a loss of it."""
    rows, width = w.size(), w.size()
    h, total = w.fresh("h"), w.fresh("a")
    lines = [f"{pad}var {h} = {w.expr(Arr(F64, (rows, width)), 1)}"]
    w.bind(h, Arr(F64, (rows, width)), True)
    if w.chance(30):
        made, value = layers(w, pad, h, rows, width)
        found, number = loss(w, pad, h, rows, width)
        lines += [*made, f"{pad}{h} = {value}", *found, f"{pad}let {total} = {number}"]
    else:
        i, outer = w.fresh("i"), pad + "  "
        out = weights(w, pad, (width, width)) if w.chance(50) else None
        made, value = layers(w, pad, h, rows, width)
        with w.inner(iterations=EACH):
            w.scope.indices.append((i, Size(one=1)))
            found, number = loss(w, outer, h if out is None else f"{h} @ {out[0]}", rows, width, f"{i} + ")
        lines += [*(out[1] if out else []), *made, f"{pad}var {total} = 0.0", f"{pad}for {i} < {w.size()} {{"]
        lines += [f"{outer}{h} = tanh({value})", *found, f"{outer}{total} += {number}", f"{pad}}}"]
    w.bind(total, F64)
    w.scope.favourite = total
    return lines


# ---- layers ----------------------------------------------------------------------------------------------------------
def weights(w: Writer, pad: str, shape: tuple[Size | int, ...]) -> tuple[str, list[str]]:
    """A local with an array of numbers between -1 and 1, and what binds it; all depend on a float that is there."""
    name = w.fresh("a")
    names = [w.fresh("i") for _ in shape]
    wave = " + ".join([f"{k + 1}.{w.random.randrange(1, 9)} * f64({i})" for k, i in enumerate(names)])
    binders = ", ".join([f"{i} < {size}" for i, size in zip(names, shape, strict=True)])
    return name, [f"{pad}let {name} = [sin({wave} + {w.expr(F64, 1)}) for {binders}]"]


def layers(w: Writer, pad: str, value: str, rows: Size, width: Size) -> tuple[list[str], str]:
    """Bindings of weights, and activations of the same shape that come from others."""
    lines: list[str] = []
    for _ in range(w.random.randrange(1, MOST_LAYERS + 1)):
        inner = w.size()

        def weight(*shape: Size | int) -> str:
            name, made = weights(w, pad, shape)
            lines.extend(made)
            return name

        match w.random.randrange(15):
            case 0:
                value = f"nn.dense(nn.Dense({weight(width, width)}, {weight(width)}), {value})"
            case 1:
                hidden = w.random.choice(["tanh", "nn.relu", "nn.gelu", "nn.silu", "nn.softplus", "nn.softmax"])
                value = f"{hidden}({value} @ {weight(width, inner)}) @ {weight(inner, width)}"
            case 2:
                value = f"nn.layer_norm(nn.Affine({weight(width)}, {weight(width)}), {value}, epsilon = 0.1)"
            case 3:
                value = f"nn.rms_norm({weight(width)}, {value}, epsilon = 0.1)"
            case 4:
                value = w.random.choice([f"nn.softmax({value})", f"nn.log_softmax({value})", f"tanh({value})"])
            case 5:
                gru = f"nn.Gru({weight(3, inner, width)}, {weight(3, width, width)}, {weight(3, 1, width)}, "
                given = w.expr(Arr(F64, (rows, inner)), 1)
                value = f"nn.gru_cell({gru}{weight(3, 1, width)}), {value}, {given})"
            case 6:
                lstm = f"nn.Lstm({weight(4, inner, width)}, {weight(4, width, width)}, {weight(4, 1, width)})"
                state = f"({value}, {weight(rows, width)})"
                value = f"nn.lstm_cell({lstm}, {state}, {weight(rows, inner)}).0"
            case 7:
                x, causal = w.fresh("x"), w.random.choice(["false", "true"])
                lines_inside = f"let {x} = tanh({value}); "
                query, key = weight(width, inner), weight(width, inner)
                value = f"{{ {lines_inside}nn.attention({x} @ {query}, {x} @ {key}, {x}, causal = {causal}) }}"
            case 8:
                x = w.fresh("x")
                value = f"{{ let {x} = {value}; {x} + tanh({x} @ {weight(width, width)}) }}"
            case 9:
                table = weight(inner, width)
                value = f"({value} + nn.embedding({table}, {labels(w, rows, inner)}))"
            case 10:
                x = w.fresh("x")
                norm = f"({x} - mean({x}, axis = 0)) / sqrt(0.1 + mean({x} ** 2, axis = 0))"
                value = f"{{ let {x} = {value}; {norm} }}"
            case 11:
                value = f"nn.conv1d_same({weight(3, width, width)}, reshape({value}, 1, {rows}, {width}))[0]"
            case 12:
                image = f"reshape({value}, 1, {rows}, {width}, 1)"
                kernel, channel = weight(w.random.choice([1, 3]), 3, 1, 2), w.random.randrange(2)
                value = f"nn.conv2d_same({kernel}, {image})[0, .., .., {channel}]"
            case 13:
                x, r, c = w.fresh("x"), w.fresh("i"), w.fresh("i")
                one, other = (f"{neighbour(w, r, rows)}, {neighbour(w, c, width)}" for _ in range(2))
                around = f"{x}[{one}] - 2.0 * {x}[{r}, {c}] + {x}[{other}]"
                if w.chance(40):
                    k = w.fresh("i")
                    around += f" + sum({x}[({r} + {k} - 1) % ({rows}), {neighbour(w, c, width)}] for {k} < 3)"
                value = f"{{ let {x} = {value}; {x} + 0.2 * [{around} for {r} < {rows}, {c} < {width}] }}"
            case _:
                x, r = w.fresh("x"), w.fresh("i")
                chosen = f"[{x}[(2 * {r} + {w.random.randrange(3)}) % ({rows})] for {r} < {rows}]"
                value = f"{{ let {x} = {value}; 0.5 * {x} + {chosen} }}"
    return lines, value


# ---- losses ----------------------------------------------------------------------------------------------------------
def neighbour(w: Writer, index: str, size: Size) -> str:
    """The index of a neighbour, or of what there is in its place beyond the ends of an axis."""
    far = w.random.randrange(1, 4)
    match w.random.randrange(5):
        case 0:
            return index
        case 1:
            return f"clip({index} + {far}, 0, ({size}) - 1)"
        case 2:
            return f"maximum({index} - {far}, 0)"
        case 3:
            return f"({index} - {far}) % ({size})"
        case _:
            return f"({index} + 1) % ({size})"


def labels(w: Writer, rows: Size, classes: Size, start: str = "") -> str:
    """For each row the number of a class; some occur several times."""
    r = w.fresh("i")
    return f"[({start}{w.random.randrange(1, 4)} * {r} + {w.random.randrange(3)}) % ({classes}) for {r} < {rows}]"


def loss(w: Writer, pad: str, value: str, rows: Size, classes: Size, start: str = "") -> tuple[list[str], str]:
    """Statements, and a number. start: what the labels begin with."""
    y, t, r = w.fresh("a"), w.fresh("a"), w.fresh("i")
    wanted = [
        (4, lambda: f"nn.cross_entropy({y}, {t})"),
        (2, lambda: f"-mean(nn.log_softmax({y})[{r}, {t}[{r}]] for {r} < {rows})"),
        (2, lambda: f"sum(logsumexp({y}[{r}]) * {y}[{r}, {t}[{r}]] for {r} < {rows})"),
        (1, lambda: f"-sum(log(nn.softmax({y})[{r}, {t}[{r}]] + 0.1) for {r} < {rows})"),
        (1, lambda: f"nn.mean_squared_error({y}, {w.expr(Arr(F64, (rows, classes)), 1)})"),
        (1, lambda: f"nn.binary_cross_entropy({y}, nn.sigmoid({w.expr(Arr(F64, (rows, classes)), 1)}))"),
        (1, lambda: f"sum(nn.kl_divergence(nn.softmax({y}), nn.softmax({w.expr(Arr(F64, (rows, classes)), 1)})))"),
        (1, lambda: f"nn.huber({y}, {w.expr(Arr(F64, (rows, classes)), 1)})"),
        (1, lambda: f"sum(max({y}, axis = {w.random.randrange(2)}))"),
    ]
    lines = [f"{pad}let {y} = {value}", f"{pad}let {t} = {labels(w, rows, classes, start)}"]
    return lines, w.weighted(wanted)()
