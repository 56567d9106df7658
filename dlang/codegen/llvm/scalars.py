"""Scalar operations as LLVM text, on one value or on a vector of lanes: what each primitive and conversion becomes.

Powers of whole numbers as LLVM text: by repeated squaring, for a number or a vector of them.

Threefry-2x64 as LLVM text, for one draw or a vector of them; the algorithm is in `ops/special.py`.
"""

from __future__ import annotations

import ast
import math
import struct
from dataclasses import dataclass, field

from dlang.codegen.llvm import half, texts
from dlang.codegen.llvm.assembly import TERM, Arithmetic, Line
from dlang.codegen.llvm.lines import Lines
from dlang.codegen.llvm.mathematics import Routine, circle, routine
from dlang.codegen.llvm.objects import LEVELS, USUAL, Processor
from dlang.ir.anf import FLOATS, HALF, SIGNED, UNSIGNED, Lit
from dlang.ops.dtypes import DTYPES, register_dtype, rounded
from dlang.ops.monoids import COMBINE, EXTREMA, ROUNDED
from dlang.ops.primitives import (
    EXACT,
    PRIMITIVES,
    Approximation,
    Expression,
    Fusible,
    Instruction,
    Intrinsic,
    Sequence,
    operator,
    parsed,
    result_dtype,
)
from dlang.ops.special import PARITY, ROTATIONS, ROUNDS

LLVM = {d.name: d.llvm for d in DTYPES.values()}
"""The type of a scalar in a register; in memory a truth value is an i8, and half precision has 16 bits."""

BITS = {d.name: d.bits for d in DTYPES.values()}
"""The size of an element in memory."""

EXPANDED = 200
"""How many calls of mathematics in one function are inlined: LLVM's code generator takes time that grows with the
square of a function's length, so that thousands would take minutes."""


def llvm_type(dtype: str) -> str:
    """The LLVM type of a scalar in a register; a handle is an address as a number."""
    return LLVM.get(dtype, "i64")


def bits(dtype: str) -> int:
    """The size of an element in memory."""
    return BITS.get(dtype, 64)


def memory_type(dtype: str) -> str:
    """The LLVM type of an element in memory."""
    return "i8" if dtype == "bool" else "i16" if dtype in HALF else llvm_type(dtype)


def lanes(type: str, width: int) -> str:
    """The type of `width` lanes; of a plain scalar if that is 1."""
    return type if width == 1 else f"<{width} x {type}>"


def iota(width: int, type: str = "i64") -> str:
    """The numbers of the lanes."""
    return "<" + ", ".join(f"{type} {k}" for k in range(width)) + ">"


def register_type(dtype: str, width: int = 1) -> str:
    return lanes(llvm_type(dtype), width)


def constant(value: int | float | bool, dtype: str, width: int = 1) -> str:
    """A number as text; exact: LLVM's hexadecimal form is that of f64, whatever the dtype."""
    if dtype in FLOATS:
        x = rounded(float(value), dtype)
        text = f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"
    elif dtype == "bool":
        text = "true" if value else "false"
    else:
        text = str(int(value))
    return text if width == 1 else f"splat ({LLVM[dtype]} {text})"


@dataclass(slots=True)
class Module:
    """The part of a module of LLVM that stands beside its functions: declarations, helpers, and constants.

    foreign: the targets of C functions, by the symbols that stand for them. called: the declarations
    of what helpers call. texts: those in the program, numbered.
    expansions: the calls of mathematics so far in the function under way. lines: where instructions come from, if that
    is to be known. processor: that the code is for: only one that multiplies and adds in one operation has products and
    sums fused (`assembly.py`). sanitizes: whether each access to memory is checked (`sanitizer.py`).
    """

    processor: Processor = LEVELS[USUAL]
    declared: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    foreign: dict[str, str] = field(default_factory=dict)
    expansions: int = 0
    names: int = 0
    lines: Lines | None = None
    sanitizes: bool = False

    def memory(self, name: str, result: str, *args: str) -> str:
        """A function that takes or gives memory; where a program is sanitised, one that keeps an account of it."""
        if not self.sanitizes:
            return name
        self.imports.add(f"{name}_checked")
        self.declare(f"{name}_checked", result, *args)
        return f"{name}_checked"

    def declare(self, name: str, result: str, *args: str, attributes: str = "") -> None:
        if name not in self.declared:
            self.declared[name] = f"declare {result} @{name}({', '.join(args)}){attributes}"

    def literal(self, lit: Lit) -> str:
        if isinstance(lit.value, str):
            return self.text_constant(lit.value)
        return constant(lit.value, lit.dtype)

    def text_constant(self, text: str) -> str:
        """The reference to a text of the program, outside of the arena."""
        if not text:
            return "0"
        name = f"text.{self.texts.setdefault(text, len(self.texts))}"
        if name not in self.helpers:
            self.helpers[name] = texts.constant(name, text)
        return f"ptrtoint (ptr getelementptr (i64, ptr @{name}, i64 1) to i64)"

    def text(self) -> str:
        """Declarations and helpers."""
        more = [self.called[name] for name in sorted(self.called) if name not in self.declared]
        return "\n".join([*self.declared.values(), *more, *self.helpers.values()]) + "\n"

    def expand(self, routine: Routine) -> str:
        """Has a function of mathematics beside those that call it; gives the attribute of the next call."""
        self.helpers[routine.symbol] = routine.text
        self.called.update(routine.declared)
        self.expansions += 1
        return " noinline" if self.expansions > EXPANDED else ""


@dataclass(slots=True)
class Scalars:
    """Emits operations on `width` lanes at the end of `lines`."""

    module: Module
    lines: list[Line]
    width: int = 1

    # ---- instructions ------------------------------------------------------------------------------------------------
    def emit(self, text: str) -> str:
        self.module.names += 1
        name = f"%v{self.module.names}"
        self.lines.append(f"  {name} = {text}")
        return name

    def arithmetic(self, operation: str, dtype: str, *operands: str, any_order: bool = False) -> str:
        """A sum, difference, product or negative: of floats, what `assembly.py` may join."""
        if dtype not in FLOATS:
            return self.binary(operation, dtype, *operands)
        self.module.names += 1
        name = f"%{TERM}{self.module.names}"
        line = Arithmetic(name, operation, self.type(dtype), self.suffix(dtype), operands, any_order)
        self.lines.append(line)
        return name

    def type(self, dtype: str) -> str:
        return register_type(dtype, self.width)

    def constant(self, value: int | float | bool, dtype: str) -> str:
        return constant(value, dtype, self.width)

    def binary(self, instruction: str, dtype: str, x: str, y: str) -> str:
        return self.emit(f"{instruction} {self.type(dtype)} {x}, {y}")

    def compare(self, predicate: str, dtype: str, x: str, y: str) -> str:
        return self.binary(("fcmp " if dtype in FLOATS else "icmp ") + predicate, dtype, x, y)

    def select(self, condition: str, dtype: str, x: str, y: str) -> str:
        type = self.type(dtype)
        return self.emit(f"select {self.type('bool')} {condition}, {type} {x}, {type} {y}")

    def suffix(self, dtype: str) -> str:
        scalar = register_dtype(dtype) if dtype in FLOATS else LLVM[dtype]
        return scalar if self.width == 1 else f"v{self.width}{scalar}"

    def intrinsic(self, name: str, dtype: str, *args: str, flag: str = "") -> str:
        """A call of an intrinsic whose result and arguments have one type; `flag`: a constant last argument."""
        type = self.type(dtype)
        full = f"llvm.{name}.{self.suffix(dtype)}"
        self.module.declare(full, type, *([type] * len(args)), *(["i1 immarg"] if flag else []))
        operands = [f"{type} {a}" for a in args] + ([f"i1 {flag}"] if flag else [])
        return self.emit(f"call {type} @{full}({', '.join(operands)})")

    # ---- primitives --------------------------------------------------------------------------------------------------
    def primitive(self, name: str, dtypes: tuple[str, ...], args: list[str], exponent: int | None = None) -> str:
        """A primitive of the table; `exponent` is that of `powi` if it is a constant."""
        dtype = dtypes[-1] if name == "select" else dtypes[0]
        if dtype in HALF and name != "select":
            wide = self.primitive(name, tuple([register_dtype(d) for d in dtypes]), args, exponent)
            within = name in EXACT or result_dtype(name, dtypes) != dtype
            return wide if within else half.rounded(self, dtype, wide)
        match PRIMITIVES[name].llvm:
            case Instruction(texts):
                return self.binary(texts.of(dtype), dtype, *args)
            case Fusible(operation):
                return self.arithmetic(operation, dtype, *args)
            case Intrinsic(intrinsic):
                return self.intrinsic(intrinsic, dtype, *args)
            case Approximation():
                return self.mathematics(name, dtype, args)
            case Expression(text):
                return self.expression(parsed(text), dtype, dict(zip("xyzw", args, strict=False)))
            case Sequence():
                return self.sequence(name, dtypes, args, exponent)

    def expression(self, e: ast.expr, dtype: str, names: dict[str, str]) -> str:
        """Other primitives of the same dtype."""
        match e:
            case ast.Name(id="inf"):
                return self.constant(math.inf, dtype)
            case ast.Name(id=name):
                return names[name]
            case ast.Constant(value=bool() | int() | float() as value):
                return self.constant(value, dtype)
            case ast.UnaryOp(op=ast.USub(), operand=x):
                name, operands = "neg", [x]
            case ast.BinOp(left=x, right=y) | ast.Compare(left=x, comparators=[y]):
                name, operands = operator(e), [x, y]
            case ast.Call(func=ast.Name(id=name), args=operands):
                pass
            case _:
                raise ValueError(f"no expression of primitives: {ast.unparse(e)}")
        args = [self.expression(x, dtype, names) for x in operands]
        return self.primitive(name, ("bool", dtype, dtype) if name == "select" else (dtype,) * len(args), args)

    def sequence(self, name: str, dtypes: tuple[str, ...], args: list[str], exponent: int | None) -> str:
        """A primitive that takes several instructions, which depend on the dtype."""
        dtype = dtypes[-1] if name == "select" else dtypes[0]
        real = dtype in FLOATS
        match name:
            case "select":
                return self.select(args[0], dtype, args[1], args[2])
            case "zero_safe_mul":
                zero = self.compare("oeq", dtype, args[0], self.constant(0, dtype))
                return self.select(zero, dtype, args[0], self.binary("fmul", dtype, *args))
            case "zero_safe_mul_both":
                zeros = [self.compare("oeq", dtype, a, self.constant(0, dtype)) for a in args]
                product = self.select(zeros[1], dtype, args[1], self.binary("fmul", dtype, *args))
                return self.select(zeros[0], dtype, args[0], product)
            case "neg":
                if real:
                    return self.arithmetic("neg", dtype, args[0])
                return self.binary("sub", dtype, self.constant(0, dtype), args[0])
            case "abs":
                if real:
                    return self.intrinsic("fabs", dtype, args[0])
                return args[0] if dtype in UNSIGNED else self.intrinsic("abs", dtype, args[0], flag="false")
            case "sign":
                return self._sign(dtype, args[0])
            case "maximum" | "minimum":
                return self.extremum(name == "maximum", dtype, args[0], args[1])
            case "floordiv" | "mod":
                divide = self._float_division if real else self._integer_division
                return divide(name == "mod", dtype, args[0], args[1])
            case "pow" | "powi":
                return self._power(dtypes, args, exponent)
            case "not" | "bit_not":
                return self.binary("xor", dtype, args[0], self.constant(True if dtype == "bool" else -1, dtype))
            case "shift_left" | "shift_right":
                return self._shift(name == "shift_left", dtype, args[0], args[1])
            case "threefry" | "threefry_second":
                return self._random(int(name == "threefry_second"), args)
            case _:
                raise AssertionError(f"no instructions for {name}")

    def _random(self, word: int, args: list[str]) -> str:
        symbol, result, text = random_routine(self.width)
        self.module.helpers[symbol] = text
        type = self.type("u64")
        both = self.emit(f"call {result} @{symbol}({', '.join(f'{type} {a}' for a in args)})")
        return self.emit(f"extractvalue {result} {both}, {word}")

    def extremum(self, largest: bool, dtype: str, x: str, y: str) -> str:
        """The larger or smaller; NaN if either is."""
        if dtype in FLOATS:
            first = self.select(self.compare("ogt" if largest else "olt", dtype, x, y), dtype, x, y)
            return self.select(self.compare("uno", dtype, x, x), dtype, x, first)
        sign = "s" if dtype in SIGNED else "u"
        return self.intrinsic(sign + ("max" if largest else "min"), dtype, x, y)

    def _sign(self, dtype: str, x: str) -> str:
        zero, one = self.constant(0, dtype), self.constant(1, dtype)
        if dtype in UNSIGNED:
            return self.select(self.compare("ne", dtype, x, zero), dtype, one, zero)
        above, below = ("ogt", "olt") if dtype in FLOATS else ("sgt", "slt")
        at_zero = x
        if dtype in FLOATS:
            at_zero = self.select(self.compare("oeq", dtype, x, zero), dtype, zero, x)
        down = self.select(self.compare(below, dtype, x, zero), dtype, self.constant(-1, dtype), at_zero)
        return self.select(self.compare(above, dtype, x, zero), dtype, one, down)

    def _integer_division(self, remainder: bool, dtype: str, x: str, y: str) -> str:
        """Towards minus infinity. The divisor of a lane that is not in use may be 0; the least integer by -1 wraps."""
        zero, one = self.constant(0, dtype), self.constant(1, dtype)
        safe = self.select(self.compare("eq", dtype, y, zero), dtype, one, y)
        if dtype in UNSIGNED:
            return self.binary("urem" if remainder else "udiv", dtype, x, safe)
        minus = self.compare("eq", dtype, y, self.constant(-1, dtype))
        safe = self.select(minus, dtype, one, safe)
        r = self.binary("srem", dtype, x, safe)
        differs = self.compare("slt", dtype, self.binary("xor", dtype, r, y), zero)
        adjust = self.binary("and", "bool", differs, self.compare("ne", dtype, r, zero))
        if remainder:
            return self.select(adjust, dtype, self.binary("add", dtype, r, y), r)
        q = self.binary("sdiv", dtype, x, safe)
        q = self.select(adjust, dtype, self.binary("sub", dtype, q, one), q)
        return self.select(minus, dtype, self.binary("sub", dtype, zero, x), q)

    def _float_division(self, remainder: bool, dtype: str, x: str, y: str) -> str:
        """Divides like Python: the remainder has the divisor's sign, the quotient is a whole number."""
        zero = self.constant(0, dtype)
        r = self.binary("frem", dtype, x, y)
        exact = self.compare("oeq", dtype, r, zero)
        opposite = self.binary("xor", "bool", self.compare("olt", dtype, r, zero), self.compare("olt", dtype, y, zero))
        adjust = self.binary("and", "bool", opposite, self.compare("one", dtype, r, zero))
        if remainder:
            moved = self.select(adjust, dtype, self.binary("fadd", dtype, r, y), r)
            return self.select(exact, dtype, self.intrinsic("copysign", dtype, zero, y), moved)
        plain = self.binary("fdiv", dtype, x, y)
        q = self.binary("fdiv", dtype, self.binary("fsub", dtype, x, r), y)
        one = self.constant(1.0, dtype)
        q = self.select(adjust, dtype, self.binary("fsub", dtype, q, one), q)
        whole = self.intrinsic("floor", dtype, q)
        above = self.compare("ogt", dtype, self.binary("fsub", dtype, q, whole), self.constant(0.5, dtype))
        whole = self.select(above, dtype, self.binary("fadd", dtype, whole, one), whole)
        nothing = self.compare("oeq", dtype, q, zero)
        whole = self.select(nothing, dtype, self.intrinsic("copysign", dtype, zero, plain), whole)
        return self.select(self.compare("oeq", dtype, y, zero), dtype, plain, whole)

    def _shift(self, left: bool, dtype: str, x: str, y: str) -> str:
        """Shifts; by as many bits as there are or more, nothing but the sign is left."""
        bits = BITS[dtype]
        if dtype == "bool":
            raise AssertionError("shifts are for integers")
        short = self.compare("ult", dtype, y, self.constant(bits, dtype) if bits > 8 else self.constant(8, dtype))
        by = self.select(short, dtype, y, self.constant(0, dtype))
        instruction = "shl" if left else "ashr" if dtype in SIGNED else "lshr"
        shifted = self.binary(instruction, dtype, x, by)
        overflow = self.constant(0, dtype)
        if not left and dtype in SIGNED:
            overflow = self.binary("ashr", dtype, x, self.constant(bits - 1, dtype))
        return self.select(short, dtype, shifted, overflow)

    def _power(self, dtypes: tuple[str, ...], args: list[str], exponent: int | None) -> str:
        dtype = dtypes[0]
        x, y = args
        if exponent is not None and exponent in SQUARED and (exponent >= 0 or dtype in FLOATS):
            return self._constant_power(dtype, x, exponent)
        if dtype in FLOATS:
            if dtypes[1] in FLOATS:
                return self.mathematics("pow", dtype, [x, y])
            return self._whole_power(dtype, x, y)
        wide = "u64" if dtype in UNSIGNED else "i64"
        base = self.convert(x, dtype, wide)
        power = self.convert(y, dtypes[1], "i64")
        self.module.helpers["dl_powi"] = OF_INTEGERS
        return self.convert(self.by_lane("dl_powi", [(base, wide), (power, "i64")], wide), wide, dtype)

    def _whole_power(self, dtype: str, x: str, y: str) -> str:
        """Emits a power of floats; the exponent is an i64 that is not known."""
        number, copysign = self.type(dtype), f"llvm.copysign.{self.suffix(dtype)}"
        self.module.declare(copysign, number, number, number)
        logarithmic = self._routine("pow", dtype)
        self.module.expand(logarithmic)
        symbol, text = of_floats(logarithmic, copysign, LLVM[dtype], self.width)
        self.module.helpers[symbol] = text
        return self.emit(f"call {number} @{symbol}({number} {x}, {self.type('i64')} {y})")

    def _constant_power(self, dtype: str, x: str, exponent: int) -> str:
        """Emits a power by repeated squaring: the exponent is small."""
        result: str | None = None
        square, left = x, abs(exponent)
        while left:
            if left & 1:
                result = square if result is None else self.arithmetic("mul", dtype, result, square)
            left >>= 1
            if left:
                square = self.arithmetic("mul", dtype, square, square)
        one = self.constant(1, dtype)
        if result is None:
            return one
        return self.binary("fdiv", dtype, one, result) if exponent < 0 else result

    def mathematics(self, name: str, dtype: str, args: list[str]) -> str:
        """A function of the module `mathematics`."""
        function, type = self._routine(name, dtype), self.type(dtype)
        kept = self.module.expand(function)
        return self.emit(f"call {type} @{function.symbol}({', '.join(f'{type} {a}' for a in args)}){kept}")

    def _routine(self, name: str, dtype: str) -> Routine:
        function = routine(name, dtype, self.width, self.module.processor.avx512)
        assert function is not None, f"{name} of {dtype}"
        return function

    def sine_and_cosine(self, dtype: str, angle: str) -> tuple[str, str] | None:
        """Both of an angle at once; None if each has to be computed alone."""
        both_of = circle(dtype, self.width)
        if both_of is None:
            return None
        pair, kept = both_of.result, self.module.expand(both_of)
        both = self.emit(f"call {pair} @{both_of.symbol}({self.type(dtype)} {angle}){kept}")
        return self.emit(f"extractvalue {pair} {both}, 0"), self.emit(f"extractvalue {pair} {both}, 1")

    def by_lane(self, symbol: str, args: list[tuple[str, str]], dtype: str) -> str:
        """A call of a scalar function for each lane."""
        result = LLVM[dtype]
        if self.width == 1:
            return self.emit(f"call {result} @{symbol}({', '.join(f'{LLVM[d]} {a}' for a, d in args)})")
        out = "poison"
        for lane in range(self.width):
            operands = []
            for a, d in args:
                operands.append(f"{LLVM[d]} {self.emit(f'extractelement {self.type(d)} {a}, i64 {lane}')}")
            value = self.emit(f"call {result} @{symbol}({', '.join(operands)})")
            out = self.emit(f"insertelement {self.type(dtype)} {out}, {result} {value}, i64 {lane}")
        return out

    # ---- conversions -------------------------------------------------------------------------------------------------
    def convert(self, x: str, source: str, target: str) -> str:
        """A conversion between dtypes: floats truncate and saturate (NaN gives 0), integers wrap."""
        if source == target:
            return x
        if target in HALF:
            return half.rounded(self, target, self._before_rounding(x, source))
        source = register_dtype(source)
        if source == target:
            return x
        s, t = self.type(source), self.type(target)
        if target == "bool":
            predicate = "une" if source in FLOATS else "ne"
            return self.compare(predicate, source, x, self.constant(0, source))
        if source in FLOATS and target in FLOATS:
            return self.emit(f"{'fpext' if source == 'f32' else 'fptrunc'} {s} {x} to {t}")
        if source in FLOATS:
            kind = "fptosi" if target in SIGNED else "fptoui"
            name = f"llvm.{kind}.sat.{self.suffix(target)}.{self.suffix(source)}"
            self.module.declare(name, t, s)
            return self.emit(f"call {t} @{name}({s} {x})")
        signed = source in SIGNED
        if target in FLOATS:
            return self.emit(f"{'sitofp' if signed else 'uitofp'} {s} {x} to {t}")
        narrow = 1 if source == "bool" else BITS[source]
        if BITS[target] > narrow:
            return self.emit(f"{'sext' if signed else 'zext'} {s} {x} to {t}")
        return x if BITS[target] == narrow else self.emit(f"trunc {s} {x} to {t}")

    def _before_rounding(self, x: str, source: str) -> str:
        """A number as an f32 that can be rounded to half precision."""
        if register_dtype(source) == "f32":
            return x
        if source in FLOATS or (source in BITS and BITS[source] >= 32):
            return half.to_odd(self, self.convert(x, source, "f64"))
        return self.convert(x, source, "f32")

    # ---- monoids -----------------------------------------------------------------------------------------------------
    def combine(self, monoid: str, dtype: str, x: str, y: str) -> str:
        """Two values of a reduction as one."""
        if dtype in HALF and monoid in ROUNDED:
            return half.rounded(self, dtype, self.combine(monoid, "f32", x, y))
        if monoid == "sum":
            return self.arithmetic("add", dtype, x, y, any_order=True)
        return self.primitive(COMBINE[monoid], (dtype, dtype), [x, y])

    def better(self, monoid: str, dtype: str, new: str, rank: str, best: str, best_rank: str) -> str:
        """Emits a test whether a value beats another as extremum: larger (NaN counts as largest), or equal and first.

        What has no rank has -1, which without a sign is after all others, and the identity, which is before no value.
        """
        largest = EXTREMA[monoid] == "max"
        first = self.compare("ult", "i64", rank, best_rank)
        if dtype in FLOATS:
            level = self.compare("oge" if largest else "ole", dtype, new, best)
            level = self.binary("or", "bool", level, self.compare("uno", dtype, new, new))
        else:
            sign = "s" if dtype in SIGNED else "u"
            level = self.compare(sign + ("ge" if largest else "le"), dtype, new, best)
        beats = self.beats(monoid, dtype, new, best)
        return self.binary("or", "bool", beats, self.binary("and", "bool", level, first))

    def beats(self, monoid: str, dtype: str, new: str, best: str) -> str:
        """Emits a test whether a value is larger than another (NaN counts as largest), or smaller, as a monoid asks."""
        largest = EXTREMA[monoid] == "max"
        if dtype in FLOATS:
            beats = self.compare("ugt" if largest else "ult", dtype, new, best)
            return self.binary("and", "bool", beats, self.compare("ord", dtype, best, best))
        return self.compare(("s" if dtype in SIGNED else "u") + ("gt" if largest else "lt"), dtype, new, best)


# ---- powers of whole numbers -----------------------------------------------------------------------------------------
SQUARED = range(-32, 65)
"""The exponents for which floats are squared: for others the error of that would be more than that of a logarithm."""

OF_INTEGERS = """define internal i64 @dl_powi(i64 %x, i64 %y) nounwind willreturn memory(none) {
entry:
  br label %head
head:
  %b = phi i64 [ %x, %entry ], [ %b2, %next ]
  %e = phi i64 [ %y, %entry ], [ %e2, %next ]
  %r = phi i64 [ 1, %entry ], [ %r2, %next ]
  %more = icmp sgt i64 %e, 0
  br i1 %more, label %next, label %done
next:
  %odd = trunc i64 %e to i1
  %m = mul i64 %r, %b
  %r2 = select i1 %odd, i64 %m, i64 %r
  %b2 = mul i64 %b, %b
  %e2 = lshr i64 %e, 1
  br label %head
done:
  ret i64 %r
}
"""


def of_floats(power: Routine, copysign: str, scalar: str, width: int) -> tuple[str, str]:
    """The symbol and the text of a function of floats and of exponents, which are i64; each lane gives what it gives
    alone.

    power: the function of two floats, for exponents that are not small. copysign: the name of LLVM's intrinsic.
    """
    number, whole, truth = [t if width == 1 else f"<{width} x {t}>" for t in (scalar, "i64", "i1")]

    def all_of(value: object, type: str) -> str:
        return str(value) if width == 1 else f"splat ({type} {value})"

    def any_of(name: str, lanes: str) -> str:
        if width == 1:
            return f"%{name} = or i1 {lanes}, false"
        return f"%{name}.bits = bitcast {truth} {lanes} to i{width}\n  %{name} = icmp ne i{width} %{name}.bits, 0"

    zero, one = all_of(0, "i64"), all_of("1.0", scalar)
    symbol = power.symbol.replace("dl_pow_", "dl_powi_")
    text = f"""define internal {number} @{symbol}({number} %x, {whole} %y) nounwind willreturn memory(none) {{
entry:
  %below = icmp slt {whole} %y, {zero}
  %opposite = sub {whole} {zero}, %y
  %size = select {truth} %below, {whole} %opposite, {whole} %y
  %place = sub {whole} %y, {all_of(SQUARED.start, "i64")}
  %large = icmp uge {whole} %place, {all_of(len(SQUARED), "i64")}
  %first = select {truth} %large, {whole} {zero}, {whole} %size
  {any_of("inverts", "%below")}
  {any_of("leaves", "%large")}
  br label %squaring
squaring:
  %b = phi {number} [ %x, %entry ], [ %b2, %squaring ]
  %e = phi {whole} [ %first, %entry ], [ %e2, %squaring ]
  %r = phi {number} [ {one}, %entry ], [ %r2, %squaring ]
  %odd = trunc {whole} %e to {truth}
  %m = fmul {number} %r, %b
  %r2 = select {truth} %odd, {number} %m, {number} %r
  %b2 = fmul {number} %b, %b
  %e2 = lshr {whole} %e, {all_of(1, "i64")}
  %rest = icmp ne {whole} %e2, {zero}
  {any_of("more", "%rest")}
  br i1 %more, label %squaring, label %squared
squared:
  br i1 %inverts, label %inverse, label %small
inverse:
  %quotient = fdiv {number} {one}, %r2
  %inverted = select {truth} %below, {number} %quotient, {number} %r2
  br label %small
small:
  %s = phi {number} [ %r2, %squared ], [ %inverted, %inverse ]
  br i1 %leaves, label %logarithm, label %done
logarithm:
  %real = sitofp {whole} %y to {number}
  %p = call {number} @{power.symbol}({number} %x, {number} %real)
  ; a large exponent loses its last bit as a float, and the sign of the power is in that
  %is_odd = trunc {whole} %y to {truth}
  %same = call {number} @{copysign}({number} %p, {number} %x)
  %signed = select {truth} %is_odd, {number} %same, {number} %p
  %both = select {truth} %large, {number} %signed, {number} %s
  br label %done
done:
  %result = phi {number} [ %s, %small ], [ %both, %logarithm ]
  ret {number} %result
}}
"""
    return symbol, text


# ---- random bits -----------------------------------------------------------------------------------------------------
def random_routine(width: int) -> tuple[str, str, str]:
    """The symbol, the result's type and the text of a function of four words: key, key, counter, counter.

    It is inlined, and code generation merges what is equal in a block: both words of a draw cost one hash.
    """
    word = "i64" if width == 1 else f"<{width} x i64>"
    result = f"{{ {word}, {word} }}"
    lines: list[str] = []

    def emit(text: str) -> str:
        lines.append(f"  %v{len(lines)} = {text}")
        return f"%v{len(lines) - 1}"

    def constant(value: int) -> str:
        return str(value) if width == 1 else f"splat (i64 {value})"

    def add(x: str, y: str) -> str:
        return emit(f"add {word} {x}, {y}")

    def xor(x: str, y: str) -> str:
        return emit(f"xor {word} {x}, {y}")

    def rotated(x: str, places: int) -> str:
        left = emit(f"shl {word} {x}, {constant(places)}")
        right = emit(f"lshr {word} {x}, {constant(64 - places)}")
        return emit(f"or {word} {left}, {right}")

    keys = ("%k0", "%k1", xor(xor("%k0", "%k1"), constant(PARITY)))
    x, y = add("%c0", "%k0"), add("%c1", "%k1")
    for r in range(ROUNDS):
        x = add(x, y)
        y = xor(rotated(y, ROTATIONS[r % len(ROTATIONS)]), x)
        if r % 4 == 3:
            s = r // 4 + 1
            x, y = add(x, keys[s % 3]), add(y, add(keys[(s + 1) % 3], constant(s)))
    first = emit(f"insertvalue {result} poison, {word} {x}, 0")
    both = emit(f"insertvalue {result} {first}, {word} {y}, 1")
    symbol = "dl_threefry" + ("" if width == 1 else f"_v{width}")
    params = ", ".join(f"{word} %{name}" for name in ("k0", "k1", "c0", "c1"))
    head = f"define internal {result} @{symbol}({params}) alwaysinline nounwind willreturn memory(none)"
    return symbol, result, "\n".join([f"{head} {{", "entry:", *lines, f"  ret {result} {both}", "}", ""])
