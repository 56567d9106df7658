"""The table of primitives: every total function of scalars, with every fact that a stage asks for.

A primitive is added here, as one row, and nowhere else: elsewhere nobody keeps a list of primitives. The texts of its
derivative (`Primitive.derivative`) are in the language's own terms: x, y, z are the arguments, r the result and g the
cotangent; each is linear in g, so forward mode uses the same text with g the tangent of that argument.
`zero_safe_mul(c, d)` is the product of a cotangent with a local derivative: 0 where c is 0, else c·d; differentiated in
d it is a product of two factors each of which may be a cotangent, `zero_safe_mul_both`, 0 where either is 0. Every
product with g is one, so that it is known which factor is what; `optimize/guards.py` makes plain products of those that
need no guard.
"""

from __future__ import annotations

import ast
import math
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Literal

from dlang.ops import folding
from dlang.ops.dtypes import DTYPES, FLOATS, INTEGERS
from dlang.ops.figures import ADDITION, DIVISION, REMAINDER, ROOT, ROUNDING, SERIES
from dlang.ops.folding import NOT_FOLDED, Fold


# ---- the texts of primitives -----------------------------------------------------------------------------------------
@cache
def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def operator(e: ast.BinOp | ast.Compare) -> str:
    """The primitive of an operator: a sign of the language is one of Python's."""
    return _signs()[type(e.op if isinstance(e, ast.BinOp) else e.ops[0])]


@cache
def _signs() -> dict[type[ast.AST], str]:
    """For each kind of operator in Python's trees the primitive."""
    signs: dict[type[ast.AST], str] = {}
    for sign, name in OPERATORS.items():
        match parsed(f"x {sign} y"):
            case ast.BinOp(op=op) | ast.Compare(ops=[op]):
                signs[type(op)] = name
    return signs


FLOAT, NUM, ORD, INT, BITS, WORD, BOOL, ANY = "Float", "Num", "Ord", "Int", "Bits", "u64", "bool", "Any"
CLASSES: dict[str, frozenset[str]] = {
    FLOAT: frozenset(FLOATS), NUM: frozenset((*FLOATS, *INTEGERS)), ORD: frozenset((*FLOATS, *INTEGERS, "str")),
    INT: frozenset(INTEGERS), BITS: frozenset((*INTEGERS, "bool")), WORD: frozenset(("u64",)),
    BOOL: frozenset(("bool",)), ANY: frozenset(DTYPES),
}  # fmt: skip
"""The dtypes of each class."""


# ---- texts in the back ends ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Texts:
    """A text for each kind of dtype; empty where a primitive takes none of them."""

    real: str = ""
    signed: str = ""
    unsigned: str = ""
    truth: str = ""

    def of(self, dtype: str) -> str:
        """The text for a dtype. Handles and references to texts are compared as numbers without a sign."""
        record = DTYPES.get(dtype)
        match record.kind if record is not None else "text":
            case "float":
                return self.real
            case "signed":
                return self.signed
            case "truth":
                return self.truth
            case _:
                return self.unsigned


def _every(text: str) -> Texts:
    return Texts(text, text, text, text)


def _numbers(real: str, whole: str) -> Texts:
    return Texts(real, whole, whole)


def _whole(text: str) -> Texts:
    return Texts("", text, text)


def _bitwise(text: str) -> Texts:
    return Texts("", text, text, text)


@dataclass(frozen=True, slots=True)
class Instruction:
    """LLVM's instruction of two operands, with its flags."""

    texts: Texts


@dataclass(frozen=True, slots=True)
class Fusible:
    """A sum, difference or product, as LLVM calls it of integers; of floats what may be joined as one."""

    operation: str


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """LLVM's intrinsic function of floats."""

    name: str


@dataclass(frozen=True, slots=True)
class Approximation:
    """A function of a module of `codegen/llvm`, `special.erf`, that writes branch-free text for one dtype of floats."""

    path: str


@dataclass(frozen=True, slots=True)
class Expression:
    """Other primitives of the same dtype, as the texts of derivatives are written: `x / (1.0 + abs(x))`."""

    text: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Instructions that depend on the dtype: a case in `codegen/llvm/scalars.py`. routine: a routine among them."""

    routine: str = ""


Code = Instruction | Fusible | Intrinsic | Approximation | Expression | Sequence


# ---- words in the language and in NumPy ------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Word:
    """A function of the language. about: what it gives, as the manual and editors say it.

    bound: the class of dtypes in its type. params: the names of its arguments.
    """

    about: str
    bound: str
    params: tuple[str, ...]
    result: str = "a"

    @property
    def signature(self) -> str:
        """Its type, without its name."""
        params = ", ".join(f"{p}: a[..s]" for p in self.params)
        return f"<a: {self.bound}>({params}) -> {self.result}[..s]"


@dataclass(frozen=True, slots=True)
class Ufunc:
    """A function of NumPy's that lazy arrays do with a primitive.

    text: the expression of its operands; empty for the primitive's word or operator. bools: the same of truth values,
    empty where they have none. takes: whether whole numbers stay as they are ("whole") or are floats first ("tested"),
    or every operand becomes a truth value ("logical").
    """

    name: str
    text: str = ""
    bools: str = ""
    takes: Literal["", "whole", "tested", "logical"] = ""


Bound = Literal["unit", "finite", "largest", "sum", "product", "second", "choice", "quotient", "exp", "power", "any"]


@dataclass(frozen=True, slots=True)
class Primitive:
    """A total function of scalars.

    domain: the class of dtypes of the arguments, which are of one dtype (but for `powi` and `select`). result: `same`
    (as the first argument), `last`, or a dtype. numpy: its meaning, an expression over `np`, `special`, `threefry`, x,
    y, z and w that works on arrays. derivative: for each argument the contribution to its cotangent; None where there
    is none. slope: for each argument the derivative by which the reference (`interpret/traced.py`) checks that, a
    formula of its own over x, y and r, wherever one is known; None where it is zero, or where another argument is
    chosen. cost: how long it takes, in additions. flops: how many operations of floats it counts as; None if its
    exponent says so, or its routine. llvm, cuda: what back ends write. In CUDA's texts `{x}` to `{w}` are the operands,
    `{t}` is the dtype and `{f}` the end of the names of functions of f32. fold: how it is computed of literals. bound:
    how large the result is, of bounded arguments (`optimize/value_ranges.py`). commutative: whether the first two
    arguments may change places. exact: whether of numbers of half precision the result is one. total: whether integers
    need no check before. counts: whether sizes and numbers of iterations are computed with it. magnitude: of integers
    what the result does not exceed, signs apart: the sum of both operands, or one of them; empty where that is not so,
    or does not matter. opposite: of a comparison that which holds of integers where it does not; of floats only for
    `eq` and `ne`, by NaN. unit: the second operand, or either of a commutative primitive, that leaves the other one as
    it is. alike: what it is of two equal operands: an operand, or, unless they are floats, a number or a truth value.
    swapped: of an order that which holds of two numbers where it holds of them the other way round. gap: of an order of
    integers x and y the s and c of s·(y - x) + c, which is at least 0 where the order holds. operator: its sign in the
    language. word: its name there. ufunc: NumPy's function.
    """

    name: str
    arity: int
    domain: str
    result: str
    numpy: str
    derivative: tuple[str | None, ...]
    slope: tuple[str | None, ...]
    _: KW_ONLY
    cost: int
    flops: int | None
    llvm: Code
    cuda: Texts
    fold: Fold
    bound: Bound
    commutative: bool = False
    exact: bool = False
    total: bool = True
    counts: bool = False
    magnitude: Literal["", "sum", "first", "second"] = ""
    opposite: str = ""
    unit: float | bool | None = None
    alike: Literal["operand"] | int | None = None
    swapped: str = ""
    gap: tuple[int, int] | None = None
    operator: str = ""
    word: Word | None = None
    ufunc: Ufunc | None = None

    @property
    def expression(self) -> str:
        """Its use in the language, with operands `{0}` and `{1}`."""
        if self.operator:
            return f"{{0}} {self.operator} {{1}}"
        return f"{self.name}({', '.join(f'{{{k}}}' for k in range(self.arity))})"


# ---- families of rows ------------------------------------------------------------------------------------------------
def _function(
    name: str,
    numpy: str,
    derivative: str,
    slope: str,
    llvm: str,
    about: str = "",
    *,
    fold: Fold = NOT_FOLDED,
    bound: Bound = "any",
    cuda: str = "",
    ufunc: str = "",
) -> Primitive:
    """A function of one float that a series approximates. cuda: its name there, if that is another."""
    return Primitive(
        name, 1, FLOAT, "same", numpy, (derivative,), (slope,),
        cost=SERIES, flops=None, llvm=Approximation(llvm), cuda=Texts(cuda or f"{name}{{f}}({{x}})"), fold=fold,
        bound=bound,
        word=Word(about, FLOAT, ("x",)) if about else None, ufunc=Ufunc(ufunc) if ufunc else None,
    )  # fmt: skip


def _rounding(name: str, c: str, llvm: str, fold: Fold, about: str, ufunc: Ufunc) -> Primitive:
    """A function that gives whole numbers, still floats."""
    return Primitive(
        name, 1, FLOAT, "same", f"np.{ufunc.name}(x)", (None,), (None,),
        cost=ROUNDING, flops=0, llvm=Intrinsic(llvm), cuda=Texts(f"{c}{{f}}({{x}})"), fold=fold, bound="largest",
        exact=True, word=Word(about, FLOAT, ("x",)), ufunc=ufunc,
    )  # fmt: skip


def _comparison(
    name: str,
    operator: str,
    predicates: tuple[str, str, str],
    opposite: str,
    ufunc: str,
    swapped: str = "",
    gap: tuple[int, int] | None = None,
    unit: bool | None = None,
) -> Primitive:
    """A comparison of numbers and strings; `eq` and `ne` are also of truth values. predicates: for signed, unsigned,
    float."""
    signed, unsigned, real = predicates
    return Primitive(
        name, 2, ORD if gap else ANY, "bool", f"x {operator} y", (None, None), (None, None),
        cost=ADDITION, flops=0, commutative=not gap,
        llvm=Instruction(Texts(f"fcmp {real}", f"icmp {signed}", f"icmp {unsigned}", f"icmp {unsigned}")),
        cuda=_every(f"{{x}} {operator} {{y}}"), fold=folding.comparison(name), bound="any",
        opposite=opposite, unit=unit, alike=operator in ("==", "<=", ">="), swapped=swapped, gap=gap,
        operator=operator,
        ufunc=Ufunc(ufunc, bools=f"u8({{0}}) {operator} u8({{1}})"),
    )  # fmt: skip


def _bits(
    name: str,
    numpy: str,
    instruction: str,
    sign: str,
    fold: Fold,
    about: str,
    alike: Literal["operand"] | None = "operand",
) -> Primitive:
    """An operation on the bits of two integers, or on two truth values."""
    text = f"{name}({{0}}, {{1}})"
    return Primitive(
        name, 2, BITS, "same", f"np.{numpy}(x, y)", (None, None), (None, None),
        cost=ROUNDING, flops=0, commutative=True, llvm=Instruction(_bitwise(instruction)),
        cuda=_bitwise(f"{{t}}({{x}} {sign} {{y}})"), fold=fold, bound="any",
        word=Word(about, BITS, ("x", "y")), ufunc=Ufunc(numpy, bools=text), alike=alike,
    )  # fmt: skip


def _logical(name: str, numpy: str, sign: str, fold: Fold, unit: bool) -> Primitive:
    """Of truth values; both sides are computed."""
    return Primitive(
        name, 2, BOOL, "bool", f"np.{numpy}(x, y)", (None, None), (None, None),
        cost=ADDITION, flops=0, commutative=True, llvm=Instruction(Texts(truth=name)),
        cuda=Texts(truth=f"{{x}} {sign} {{y}}"), fold=fold, bound="any", unit=unit, alike="operand",
        ufunc=Ufunc(numpy, f"bit_{name}({{0}}, {{1}})", takes="logical"),
    )  # fmt: skip


def _shift(name: str, numpy: str, fold: Fold, about: str) -> Primitive:
    return Primitive(
        name, 2, INT, "same", f"np.{numpy}(x, y)", (None, None), (None, None),
        cost=ROUNDING, flops=0, total=False, llvm=Sequence(), cuda=_whole(f"dl_{name}({{x}}, {{y}})"), fold=fold,
        bound="any", unit=0, word=Word(about, INT, ("x", "y")),
    )  # fmt: skip


def _extremum(name: str, sign: str, which: str, truth: str, fold: Fold) -> Primitive:
    """Defines an extremum r. Its rules compare r with x, so that y need not be kept; where x = y, x has all of g."""
    return Primitive(
        name, 2, NUM, "same", f"np.{name}(x, y)",
        (f"select(x {sign} r, g, 0.0)", f"select(x {sign} r, 0.0, g)"),
        (f"ONE if primal(x) {sign} primal(y) else None", f"None if primal(x) {sign} primal(y) else ONE"),
        cost=ADDITION, flops=1, exact=True, llvm=Sequence(), cuda=_numbers(*(f"dl_{name}({{x}}, {{y}})",) * 2),
        fold=fold, bound="largest", counts=True, alike="operand",
        word=Word(f"The {which} one, element by element; the two broadcast.", ORD, ("x", "y")),
        ufunc=Ufunc(name, bools=f"{truth}({{0}}, {{1}})"),
    )  # fmt: skip


def _random(name: str, word: int) -> Primitive:
    """A word of `ops/special.py` for two words of key and two of counter, all u64."""
    return Primitive(
        name, 4, WORD, "same", f"threefry(x, y, z, w)[{word}]", (None,) * 4, (None,) * 4,
        cost=SERIES, flops=0, llvm=Sequence(),
        cuda=Texts(unsigned=f"dl_threefry({{x}}, {{y}}, {{z}}, {{w}}).{'xy'[word]}"), fold=NOT_FOLDED, bound="any",
    )  # fmt: skip


def _trigamma() -> str:
    """The derivative of digamma at x, as a text that has derivatives itself.

    For y >= 1/2 the sum of 1 / (y + k)^2 for k < 10 and the asymptotic series at w = y + 10, of which what is left out
    is below 2^-52 of the whole; for x < 1/2 by reflection, pi^2 / sin(pi x)^2 less that at 1 - x. Reciprocals are
    squared, since reciprocals of squares have no derivatives at poles and at infinity.
    """
    y = "select(x < 0.5, 1.0 - x, x)"
    v = f"(1.0 / ({y} + 10.0))"
    series = "0.0"
    for b in ("7.0 / 6.0", "-691.0 / 2730.0", "5.0 / 66.0", "-1.0 / 30.0", "1.0 / 42.0", "-1.0 / 30.0", "1.0 / 6.0"):
        series = f"({series} + ({b})) * ({v} * {v})"
    terms = [_square(f"(1.0 / ({y} + {k}.0))") for k in range(10)]
    positive = f"({' + '.join(terms)} + (1.0 + 0.5 * {v} + {series}) * {v})"
    cosecant = "(3.141592653589793 / sin(3.141592653589793 * (x - round(x))))"
    return f"select(x < 0.5, {_square(cosecant)} - {positive}, {positive})"


def _square(text: str) -> str:
    return f"{text} * {text}"


_ANGLE = "of an angle in radians"
_GAMMA = "1.1283791670955126 * exp(-x * x)"

_ROWS = (
    # arithmetic
    Primitive(
        "add", 2, NUM, "same", "x + y", ("g", "g"), ("ONE", "ONE"),
        cost=ADDITION, flops=1, llvm=Fusible("add"),
        cuda=_numbers("{x} + {y}", "dl_add({x}, {y})"), fold=Fold(*(lambda x, y: x + y,) * 2), bound="sum",
        commutative=True, counts=True, magnitude="sum", unit=-0.0, operator="+", ufunc=Ufunc("add"),
    ),
    Primitive(
        "sub", 2, NUM, "same", "x - y", ("g", "-g"), ("ONE", "-ONE"),
        cost=ADDITION, flops=1, llvm=Fusible("sub"),
        cuda=_numbers("{x} - {y}", "dl_sub({x}, {y})"), fold=Fold(*(lambda x, y: x - y,) * 2), bound="sum",
        counts=True, magnitude="sum", unit=0.0, alike=0, operator="-", ufunc=Ufunc("subtract"),
    ),
    Primitive(
        "mul", 2, NUM, "same", "x * y", ("zero_safe_mul(g, y)", "zero_safe_mul(g, x)"), ("y", "x"),
        cost=ADDITION, flops=1, llvm=Fusible("mul"),
        cuda=_numbers("{x} * {y}", "dl_mul({x}, {y})"), fold=Fold(*(lambda x, y: x * y,) * 2), bound="product",
        commutative=True, counts=True, unit=1, operator="*", ufunc=Ufunc("multiply"),
    ),
    Primitive(
        "div", 2, FLOAT, "same", "x / y", ("zero_safe_mul(g, 1.0 / y)", "-zero_safe_mul(g, r / y)"),
        ("ONE / y", "-x / (y * y)"),
        cost=DIVISION, flops=1, llvm=Instruction(Texts("fdiv")), cuda=Texts("{x} / {y}"), fold=Fold(folding.divide),
        bound="quotient", unit=1, operator="/", ufunc=Ufunc("true_divide"),
    ),
    Primitive(
        "zero_safe_mul", 2, FLOAT, "same", "np.where(x == 0, x, x * y)",
        ("zero_safe_mul(g, y)", "zero_safe_mul_both(g, x)"), ("y", "x"),
        cost=ADDITION, flops=1, llvm=Sequence(), cuda=Texts("dl_zero_safe_mul({x}, {y})"),
        fold=Fold(lambda x, y: x if x == 0 else x * y), bound="product",
    ),
    Primitive(
        "zero_safe_mul_both", 2, FLOAT, "same", "np.where(x == 0, x, np.where(y == 0, y, x * y))",
        ("zero_safe_mul_both(g, y)", "zero_safe_mul_both(g, x)"), ("y", "x"),
        cost=ADDITION, flops=1, llvm=Sequence(), cuda=Texts("dl_zero_safe_mul_both({x}, {y})"),
        fold=Fold(lambda x, y: x if x == 0 else y if y == 0 else x * y), bound="product",
    ),
    Primitive(
        "floordiv", 2, NUM, "same", "np.floor_divide(x, y)", (None, None), (None, None),
        cost=REMAINDER, flops=1, total=False, llvm=Sequence(), cuda=_numbers(*("dl_floordiv({x}, {y})",) * 2),
        fold=Fold(folding.finite(lambda x, y: x // y), widest=True), bound="any",
        counts=True, magnitude="first", operator="//", ufunc=Ufunc("floor_divide"),
    ),
    Primitive(
        "mod", 2, NUM, "same", "np.mod(x, y)", ("g", "-zero_safe_mul(g, floor(x / y))"), ("ONE", "-floor(x / y)"),
        cost=REMAINDER, flops=1, total=False, llvm=Sequence(), cuda=_numbers(*("dl_mod({x}, {y})",) * 2),
        fold=Fold(folding.finite(lambda x, y: x % y), lambda x, y: x % y if y else None), bound="second",
        counts=True, magnitude="second", operator="%", ufunc=Ufunc("remainder"),
    ),
    Primitive(
        "neg", 1, NUM, "same", "-x", ("-g",), ("-ONE",),
        cost=ADDITION, flops=0, exact=True, llvm=Sequence(), cuda=_numbers("-{x}", "dl_neg({x})"),
        fold=Fold(*(lambda x: -x,) * 2), bound="largest", counts=True, ufunc=Ufunc("negative", "-{0}"),
    ),
    Primitive(
        "abs", 1, NUM, "same", "np.abs(x)", ("zero_safe_mul(g, sign(x))",), ("sign(x)",),
        cost=ADDITION, flops=0, exact=True, llvm=Sequence(), cuda=Texts("fabs{f}({x})", "dl_abs({x})", "{x}"),
        fold=Fold(abs, abs), bound="largest", word=Word("The absolute value.", NUM, ("x",)), ufunc=Ufunc("fabs"),
    ),
    Primitive(
        "sign", 1, NUM, "same", "np.sign(x)", (None,), (None,),
        cost=ADDITION, flops=0, exact=True, llvm=Sequence(), cuda=_numbers(*("dl_sign({x})",) * 2),
        fold=Fold(folding.sign, lambda x: (x > 0) - (x < 0)), bound="unit", word=Word("-1, 0 or 1.", NUM, ("x",)),
        ufunc=Ufunc("sign"),
    ),
    # `pow` of two floats as IEEE 754 `pow`; of integers with a non-negative exponent; `powi` has an i64 exponent.
    Primitive(
        "pow", 2, NUM, "same", "special.power(x, y)",
        (
            "zero_safe_mul(g, select(y == 0.0, 0.0, y * pow(x, y - 1.0)))",
            "zero_safe_mul(g, select(x == 0.0, 0.0, r * log(x)))",
        ),
        ("ZERO if primal(y) == 0 else y * pow(x, y - ONE)", "ZERO if primal(x) == 0 else r * log(x)"),
        cost=SERIES, flops=None, total=False, llvm=Sequence("exponentials.pow"),
        cuda=_numbers("pow{f}({x}, {y})", "dl_powi({x}, {y})"),
        fold=Fold(lambda x, y: 1.0 if y == 0 else x if y == 1 else None, folding.whole_power), bound="any",
        operator="**",
    ),
    Primitive(
        "powi", 2, NUM, "same", "special.power(x, y)",
        ("zero_safe_mul(g, select(y == 0, 0.0, cast(y) * powi(x, y - 1)))", None),
        ("ZERO if primal(y) == 0 else y * pow(x, y - ONE)", None),
        cost=SERIES, flops=None, total=False, llvm=Sequence(),
        cuda=_numbers("dl_signed_power(pow{f}({x}, {t}({y})), {x}, {y})", "dl_powi({x}, {y})"),
        fold=Fold(lambda x, k: 1.0 if k == 0 else x if k == 1 else None, folding.whole_power), bound="power",
    ),
    _extremum("maximum", ">=", "larger", "bit_or", Fold(folding.extremum(max), max)),
    _extremum("minimum", "<=", "smaller", "bit_and", Fold(folding.extremum(min), min)),
    # analysis
    _function(
        "exp", "np.exp(x)", "zero_safe_mul(g, r)", "exp(x)", "exponentials.exp", "The exponential function.",
        fold=folding.at(0.0, 1.0), bound="exp", ufunc="exp",
    ),
    _function(
        "expm1", "np.expm1(x)", "zero_safe_mul(g, r + 1.0)", "exp(x)", "exponentials.expm1",
        "exp(x) - 1, exact near 0.", fold=folding.at(0.0, 0.0), ufunc="expm1",
    ),
    _function(
        "log", "np.log(x)", "zero_safe_mul(g, 1.0 / x)", "ONE / x", "exponentials.log", "The natural logarithm.",
        fold=folding.at(1.0, 0.0), ufunc="log",
    ),
    _function(
        "log1p", "np.log1p(x)", "zero_safe_mul(g, 1.0 / (1.0 + x))", "ONE / (ONE + x)", "exponentials.log1p",
        "log(1 + x), exact near 0.", fold=folding.at(0.0, 0.0), ufunc="log1p",
    ),
    Primitive(
        "sqrt", 1, FLOAT, "same", "np.sqrt(x)", ("zero_safe_mul(g, 0.5 / r)",), ("HALF / sqrt(x)",),
        cost=ROOT, flops=1, llvm=Intrinsic("sqrt"), cuda=Texts("sqrt{f}({x})"), fold=Fold(folding.root),
        bound="largest", word=Word("The square root.", FLOAT, ("x",)), ufunc=Ufunc("sqrt"),
    ),
    Primitive(  # of 1.0 / sqrt(x); -1/2 x^-3/2
        "rsqrt", 1, FLOAT, "same", "1.0 / np.sqrt(x)", ("zero_safe_mul(g, -0.5 * (r * r * r))",),
        ("-HALF / (x * sqrt(x))",),
        cost=ROOT, flops=1, llvm=Approximation("roots.rsqrt"), cuda=Texts("1.0{f} / sqrt{f}({x})"), fold=NOT_FOLDED,
        bound="any",
    ),
    _function(
        "sin", "np.sin(x)", "zero_safe_mul(g, cos(x))", "cos(x)", "trigonometry.sin", f"The sine {_ANGLE}.",
        fold=folding.at(0.0, 0.0), bound="unit", ufunc="sin",
    ),
    _function(
        "cos", "np.cos(x)", "-zero_safe_mul(g, sin(x))", "-sin(x)", "trigonometry.cos", f"The cosine {_ANGLE}.",
        fold=folding.at(0.0, 1.0), bound="unit", ufunc="cos",
    ),
    _function(
        "tan", "np.tan(x)", "zero_safe_mul(g, 1.0 + r * r)", "ONE / (cos(x) * cos(x))", "trigonometry.tan",
        f"The tangent {_ANGLE}.", ufunc="tan",
    ),
    _function(
        "asin", "np.arcsin(x)", "zero_safe_mul(g, 1.0 / sqrt(1.0 - x * x))", "ONE / sqrt((ONE - x) * (ONE + x))",
        "trigonometry.asin", "The angle whose sine is `x`, in radians.", bound="finite", ufunc="arcsin",
    ),
    _function(
        "acos", "np.arccos(x)", "-zero_safe_mul(g, 1.0 / sqrt(1.0 - x * x))", "-ONE / sqrt((ONE - x) * (ONE + x))",
        "trigonometry.acos", "The angle whose cosine is `x`, in radians.", bound="finite", ufunc="arccos",
    ),
    _function(
        "atan", "np.arctan(x)", "zero_safe_mul(g, 1.0 / (1.0 + x * x))", "ONE / (ONE + x * x)", "trigonometry.atan",
        "The angle whose tangent is `x`, in radians.", bound="finite", ufunc="arctan",
    ),
    Primitive(
        "atan2", 2, FLOAT, "same", "np.arctan2(x, y)",
        ("zero_safe_mul(g, y / (x * x + y * y))", "-zero_safe_mul(g, x / (x * x + y * y))"),
        ("y / (x * x + y * y)", "-x / (x * x + y * y)"),
        cost=SERIES, flops=None, llvm=Approximation("trigonometry.atan2"), cuda=Texts("atan2{f}({x}, {y})"),
        fold=NOT_FOLDED, bound="finite", word=Word("The angle of the point (x, y), in radians.", FLOAT, ("y", "x")),
        ufunc=Ufunc("arctan2"),
    ),
    _function(
        "sinh", "np.sinh(x)", "zero_safe_mul(g, cosh(x))", "cosh(x)", "exponentials.sinh", "The hyperbolic sine.",
        ufunc="sinh",
    ),
    _function(
        "cosh", "np.cosh(x)", "zero_safe_mul(g, sinh(x))", "sinh(x)", "exponentials.cosh", "The hyperbolic cosine.",
        ufunc="cosh",
    ),
    _function(
        "tanh", "np.tanh(x)", "zero_safe_mul(g, 1.0 - r * r)", "ONE / (cosh(x) * cosh(x))", "exponentials.tanh",
        "The hyperbolic tangent.", fold=folding.at(0.0, 0.0), bound="unit", ufunc="tanh",
    ),
    _function(
        "erf", "special.erf(x)", f"zero_safe_mul(g, {_GAMMA})", "bell(x)", "special.erf", "The error function.",
        bound="unit",
    ),
    _function(
        "erfc", "special.erfc(x)", f"-zero_safe_mul(g, {_GAMMA})", "-bell(x)", "special.erfc", bound="finite",
    ),
    _function(
        "lgamma", "special.lgamma(x)", "zero_safe_mul(g, digamma(x))", "digamma(x)", "special.lgamma", "log |Γ(x)|.",
    ),
    _function(
        "digamma", "special.digamma(x)", f"zero_safe_mul(g, {_trigamma()})", "trigamma(x)", "special.digamma",
        "The derivative of `lgamma`.", cuda="dl_digamma({x})",
    ),
    # rounding: no derivative
    _rounding(
        "floor", "floor", "floor", folding.whole(math.floor),
        "The largest whole number that is not above `x`, as a float.", Ufunc("floor", takes="whole"),
    ),
    _rounding(
        "ceil", "ceil", "ceil", folding.whole(math.ceil),
        "The smallest whole number that is not below `x`, as a float.", Ufunc("ceil", takes="whole"),
    ),
    _rounding(
        "round", "rint", "roundeven", folding.whole(round),
        "The nearest whole number, as a float; of two the even one.", Ufunc("rint"),
    ),
    # comparison, on numbers and strings; eq and ne also on truth values
    _comparison("eq", "==", ("eq", "eq", "oeq"), "ne", "equal", unit=True),
    _comparison("ne", "!=", ("ne", "ne", "une"), "eq", "not_equal", unit=False),
    _comparison("lt", "<", ("slt", "ult", "olt"), "ge", "less", "gt", (1, -1)),
    _comparison("le", "<=", ("sle", "ule", "ole"), "gt", "less_equal", "ge", (1, 0)),
    _comparison("gt", ">", ("sgt", "ugt", "ogt"), "le", "greater", "lt", (-1, -1)),
    _comparison("ge", ">=", ("sge", "uge", "oge"), "lt", "greater_equal", "le", (-1, 0)),
    Primitive(
        "isnan", 1, FLOAT, "bool", "np.isnan(x)", (None,), (None,),
        cost=ROUNDING, flops=0, llvm=Expression("x != x"), cuda=Texts("{x} != {x}"), fold=Fold(lambda x: x != x),
        bound="any", word=Word("Where `x` is not a number.", FLOAT, ("x",), "bool"),
        ufunc=Ufunc("isnan", takes="tested"),
    ),
    Primitive(
        "isfinite", 1, FLOAT, "bool", "np.isfinite(x)", (None,), (None,),
        cost=ROUNDING, flops=0, llvm=Expression("abs(x) < inf"), cuda=Texts("fabs{f}({x}) < dl_infinity_{t}()"),
        fold=Fold(math.isfinite), bound="any",
        word=Word("Where `x` is neither infinite nor not a number.", FLOAT, ("x",), "bool"),
        ufunc=Ufunc("isfinite", takes="tested"),
    ),
    # truth values; both sides are computed
    _logical("and", "logical_and", "&&", Fold(truth=lambda x, y: x and y), True),
    _logical("or", "logical_or", "||", Fold(truth=lambda x, y: x or y), False),
    Primitive(
        "not", 1, BOOL, "bool", "np.logical_not(x)", (None,), (None,),
        cost=ADDITION, flops=0, llvm=Sequence(), cuda=Texts(truth="!{x}"), fold=Fold(truth=lambda x: not x),
        bound="any", ufunc=Ufunc("logical_not", "bit_not({0})", takes="logical"),
    ),
    # select(c, a, b): c is bool, a and b of one dtype, which is the result's; both are computed
    Primitive(
        "select", 3, ANY, "last", "special.select(x, y, z)",
        (None, "select(x, g, 0.0)", "select(x, 0.0, g)"), (None, None, None),
        cost=ADDITION, flops=0, exact=True, llvm=Sequence(), cuda=_every("{x} ? {y} : {z}"), fold=NOT_FOLDED,
        bound="choice",
    ),
    # bits, on integers and (the first four) truth values
    _bits(
        "bit_and", "bitwise_and", "and", "&", Fold(whole=lambda x, y: x & y, truth=lambda x, y: x and y),
        "Bits that are set in both; of masks, where both are true.",
    ),
    _bits(
        "bit_or", "bitwise_or", "or", "|", Fold(whole=lambda x, y: x | y, truth=lambda x, y: x or y),
        "Bits that are set in either; of masks, where either is true.",
    ),
    _bits(
        "bit_xor", "bitwise_xor", "xor", "^", Fold(whole=lambda x, y: x ^ y, truth=lambda x, y: x != y),
        "Bits that differ; of masks, where they differ.", alike=None,
    ),
    Primitive(
        "bit_not", 1, BITS, "same", "np.bitwise_not(x)", (None,), (None,),
        cost=ROUNDING, flops=0, llvm=Sequence(), cuda=Texts("", "{t}(~{x})", "{t}(~{x})", "!{x}"),
        fold=Fold(whole=lambda x: ~x, truth=lambda x: not x), bound="any",
        word=Word("Every bit inverted; of a mask, where it is false.", BITS, ("x",)),
        ufunc=Ufunc("invert", bools="bit_not({0})"),
    ),
    _shift(
        "shift_left", "left_shift", Fold(whole=lambda x, y: x << y if 0 <= y < 8 else None),
        "The bits of `x`, `y` places up.",
    ),
    _shift(
        "shift_right", "right_shift", Fold(whole=lambda x, y: x >> y if 0 <= y < 8 else None),
        "The bits of `x`, `y` places down.",
    ),
    # random bits
    _random("threefry", 0),
    _random("threefry_second", 1),
)  # fmt: skip

PRIMITIVES: dict[str, Primitive] = {p.name: p for p in _ROWS}

GUARDS = ("zero_safe_mul", "zero_safe_mul_both")
"""The products of derivatives."""

OPPOSITE = {p.name: p.opposite for p in _ROWS if p.opposite}
SWAPPED = {p.name: p.swapped for p in _ROWS if p.swapped}
GAPS = {p.name: p.gap for p in _ROWS if p.gap is not None}
COST = {p.name: p.cost for p in _ROWS}
"""How long each primitive takes, in additions."""
EXACT = frozenset(p.name for p in _ROWS if p.exact)
"""The primitives whose result is a number of a type of half precision if the arguments are."""
PARTIAL = frozenset(p.name for p in _ROWS if not p.total)
"""The primitives that are total of integers only where the second operand has been checked."""
COMPARISONS = {p.operator: p.name for p in _ROWS if p.opposite}
"""For each comparison of the language the primitive."""
COUNTING = frozenset(p.name for p in _ROWS if p.counts)
"""The primitives with which sizes and numbers of iterations are computed."""
OPERATORS = {p.operator: p.name for p in _ROWS if p.operator}
"""For each operator of the language the primitive."""
WORDS = {p.name: p.word for p in _ROWS if p.word is not None}
"""The primitives that are functions of the language."""


def result_dtype(name: str, dtypes: tuple[str, ...]) -> str:
    """The dtype that a primitive gives for arguments of these dtypes."""
    match PRIMITIVES[name].result:
        case "same":
            return dtypes[0]
        case "last":
            return dtypes[-1]
        case fixed:
            return fixed
