"""Powers of whole numbers as LLVM text: by repeated squaring, for a number or a vector of them."""

from __future__ import annotations

from dlang.codegen.llvm.mathematics import Routine

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
