"""Random functions whose loops count somehow: up, down, by steps that depend on the data, and not at all."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass
class Loops:
    """Writes functions of which the loops count somehow, and that read and write arrays by what is counted."""

    choose: random.Random

    def function(self) -> str:
        first = [self.choose.choice(["0", "0", "1", "n", "n - 1", "m", "-1"]) for _ in "ij"]
        loops = "; ".join(self.loop(["i", "j"], 2) for _ in range(self.choose.randint(1, 2)))
        state = f"var s = 0.0; var a = x; var iterations = 0; var i = {first[0]}; var j = {first[1]}"
        return f"fn f(x: f64[n], m: i64) -> (f64, i64, i64) {{ {state}; {loops}; (s + sum(a), i, j) }}"

    def loop(self, names: list[str], depth: int) -> str:
        """A loop that ends: what it counts by it changes alone, or it gives up after some iterations."""
        iterations = "iterations += 1; if iterations > 40 { break }"
        match self.choose.randint(0, 5):
            case 0 | 1:
                k, low, high = f"k{depth}", self.choose.choice(["0", "1", names[0]]), self.choose.choice("nm")
                return f"for {k} in {low}..{high} {{ {iterations}; {self.block([*names, k], names, depth)} }}"
            case 2 | 3:
                own, up = self.choose.choice(names[:2]), self.choose.random() < 0.6
                ends = ["n", "m", "n - 1", "3"] if up else ["0", "1", "-1", "m"]
                order = self.choose.choice(["<", "<="] if up else [">", ">="])
                test = f"{own}{self.ahead()} {order} {self.choose.choice(ends)}"
                more = self.choose.choice(["", "", "", f" and {self.test(names)}"])
                parts = [
                    self.block(names, [n for n in names if n != own], depth),
                    f"{own} {'+' if up else '-'}= {self.length()}",
                ]
                self.choose.shuffle(parts)
                return f"while {test}{more} {{ {'; '.join(parts)} }}"
            case _:
                test = f"{self.comparison(names)}{self.choose.choice(['', ' and ' + self.test(names)])}"
                return f"while {test} {{ {self.block(names, names, depth)}; {iterations}; {self.step(names)} }}"

    def block(self, names: list[str], changed: list[str], depth: int) -> str:
        return "; ".join(self.statement(names, changed, depth) for _ in range(self.choose.randint(1, 3)))

    def statement(self, names: list[str], changed: list[str], depth: int) -> str:
        match self.choose.randint(0, 9):
            case 0 | 1 | 2:
                return f"s = 0.5 * s + x[{self.choose.choice(names)}{self.ahead()}]"
            case 3:
                return f"a[{self.choose.choice(names)}{self.ahead()}] = 0.5 * s"
            case 4 | 5 if changed:
                return self.step(changed)
            case 6 if depth > 0 and changed:
                then, otherwise = (self.block(names, changed, depth - 1) for _ in range(2))
                return f"if {self.test(names)} {{ {then} }} else {{ {otherwise} }}"
            case 7 if changed == names[: len(changed)]:
                return f"if {self.test(names)} {{ break }}"
            case 8 if depth > 0 and set(changed) >= {"i", "j"}:
                return self.loop(names, depth - 1)
            case _:
                return f"s += x[{self.choose.choice(names)}]"

    def step(self, names: list[str]) -> str:
        names = [n for n in names if n in "ij"]
        return f"{self.choose.choice(names)} {self.choose.choice(['+=', '+=', '-='])} {self.length()}"

    def length(self) -> int:
        return self.choose.choice([1, 1, 1, 2, 3])

    def ahead(self) -> str:
        return self.choose.choice(["", "", "", " + 1", " - 1"])

    def comparison(self, names: list[str]) -> str:
        end = self.choose.choice([*names, "n", "n - 1", "m", str(self.choose.randint(-1, 3))])
        return f"{self.choose.choice(names)}{self.ahead()} {self.choose.choice(['<', '<=', '>', '>='])} {end}"

    def test(self, names: list[str]) -> str:
        here = self.choose.choice(names)
        return self.choose.choice(["s > 1.0", "s < 0.3", f"{here} % 3 == 1", self.comparison(names)])
