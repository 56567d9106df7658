"""How a loop is cut into pieces, and how arrays that pieces have filled are added up, as LLVM text.

Both depend on sizes alone, and not on who does what.
"""

from __future__ import annotations

from dlang.ops.dtypes import DTYPES, PARTIAL

PIECES = 64  # at most

NAMES = ("dl_length", "dl_further", *(f"dl_add_{dtype}" for dtype in PARTIAL))

DECLARATIONS = "\n".join(
    [
        "\ndeclare i64 @dl_length(i64, i64, i64, i64, i1)",
        "declare i64 @dl_further(i64, i64)",
        *[f"declare void @dl_add_{dtype}(ptr, ptr, i64, i64)" for dtype in PARTIAL],
        "",
    ]
)


def text() -> str:
    """The functions."""
    return LENGTHS + "".join(_adding(dtype) for dtype in PARTIAL)


LENGTHS = f"""
; how many iterations a piece has: all of them if the work, in picoseconds, is less than that of two pieces.
; A multiple of `align` otherwise, or any number below it if `loose`
define i64 @dl_length(i64 %iterations, i64 %work, i64 %grain, i64 %align, i1 %loose) nounwind {{
entry:
  %twice = shl i64 %grain, 1
  %little = icmp slt i64 %work, %twice
  br i1 %little, label %whole, label %split
whole:
  ret i64 %iterations
split:
  %wanted = udiv i64 %work, %grain
  %pieces = call i64 @llvm.umin.i64(i64 %wanted, i64 {PIECES})
  %more = add i64 %iterations, %pieces
  %upper = sub i64 %more, 1
  %even = udiv i64 %upper, %pieces
  %next = add i64 %even, %align
  %last = sub i64 %next, 1
  %count = udiv i64 %last, %align
  %whole_vectors = mul i64 %count, %align
  %few = icmp ult i64 %even, %align
  %as_is = and i1 %few, %loose
  %length = select i1 %as_is, i64 %even, i64 %whole_vectors
  ret i64 %length
}}

; how many pieces there are besides the first
define i64 @dl_further(i64 %iterations, i64 %length) nounwind {{
entry:
  %some = icmp sgt i64 %iterations, %length
  br i1 %some, label %divide, label %none
none:
  ret i64 0
divide:
  %last = sub i64 %iterations, 1
  %n = sdiv i64 %last, %length
  ret i64 %n
}}
"""


def _adding(dtype: str) -> str:
    """The function that adds `n` arrays, one behind the other, to one of the same size: element by element in order.

    Without arrays it does not touch the one: it may be large beside what a loop in a single piece adds to it.
    """
    type, add = DTYPES[dtype].llvm, "fadd" if DTYPES[dtype].is_float else "add"
    align = 4 if dtype == "f32" else 8

    def loop(name: str, before: str, step: int, first: str, until: str, after: str) -> str:
        t = type if step == 1 else f"<{step} x {type}>"
        return f"""
{name}:
  %i.{name} = phi i64 [ {first}, %{before} ], [ %j.{name}, %next.{name} ]
  %end.{name} = add i64 %i.{name}, {step}
  %in.{name} = icmp sle i64 %end.{name}, {until}
  br i1 %in.{name}, label %begin.{name}, label %{after}
begin.{name}:
  %p.{name} = getelementptr {type}, ptr %whole, i64 %i.{name}
  %x.{name} = load {t}, ptr %p.{name}, align {align}
  br label %part.{name}
part.{name}:
  %k.{name} = phi i64 [ 0, %begin.{name} ], [ %l.{name}, %add.{name} ]
  %sum.{name} = phi {t} [ %x.{name}, %begin.{name} ], [ %more.{name}, %add.{name} ]
  %left.{name} = icmp slt i64 %k.{name}, %n
  br i1 %left.{name}, label %add.{name}, label %next.{name}
add.{name}:
  %row.{name} = mul i64 %k.{name}, %size
  %at.{name} = add i64 %row.{name}, %i.{name}
  %q.{name} = getelementptr {type}, ptr %parts, i64 %at.{name}
  %y.{name} = load {t}, ptr %q.{name}, align {align}
  %more.{name} = {add} {t} %sum.{name}, %y.{name}
  %l.{name} = add i64 %k.{name}, 1
  br label %part.{name}
next.{name}:
  store {t} %sum.{name}, ptr %p.{name}, align {align}
  %j.{name} = add i64 %i.{name}, {step}
  br label %{name}
"""

    body = loop("wide", "entry", 16, "0", "%size", "single") + loop("single", "wide", 1, "%i.wide", "%size", "done")
    head = f"define void @dl_add_{dtype}(ptr %whole, ptr %parts, i64 %size, i64 %n) nounwind {{\nentry:\n"
    begin = "  %some = icmp sgt i64 %n, 0\n  br i1 %some, label %wide, label %done\n"
    return head + begin + body + "done:\n  ret void\n}\n"
