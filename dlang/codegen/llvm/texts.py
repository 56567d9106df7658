"""Texts of compiled code: how they lie in memory, and the functions on them that all programs share, as LLVM text.

A text is a reference, as a node is. The empty text is 0. Any other is one of two objects (`collector.py` says what a
header is):

    flat    an array of words: the length in bytes, then the bytes in UTF-8, then at least one byte that is 0
    rope    a node with two references, to texts that follow each other, and a word: the length of both

Ropes are what long texts become when they are joined, so that a text that grows in a loop costs what is added to it.
Only scalars of compiled code are ropes: what lies in an array or a node, what the host gets and what a run gives back
is flat. Constants lie outside of the arena.
"""

from __future__ import annotations

from dlang.codegen.llvm import support
from dlang.codegen.llvm.collector import ARRAY, node_header
from dlang.codegen.llvm.support import loaded, stored

SHORT = 128
"""The bytes up to which a joined text is copied at once."""
DEEPEST = 64
"""More than there are halves of a length: what is left for later when a rope is copied is the larger part of it."""

FAILED = -1
"""The word that stands for a text for which there is no memory."""
UNDECIDED = 2
"""The order of two texts for which there was no memory to find it."""

NAMES = ("dl_text_made", "dl_text_flat", "dl_text_joined", "dl_text_order")

DECLARATIONS = {
    "dl_text_made": ("i64", ("ptr", "ptr", "i64")),
    "dl_text_flat": ("i64", ("ptr", "i64")),
    "dl_text_joined": ("i64", ("ptr", "i64", "i64")),
    "dl_text_order": ("i64", ("ptr", "i64", "i64", "i1")),
}

ROPE = node_header(0, 2, 3) - 2**64 if node_header(0, 2, 3) >= 2**63 else node_header(0, 2, 3)


def words(text: bytes) -> tuple[int, bytes]:
    """The header of a flat text, and its bytes with what fills the last word."""
    filled = text + bytes(8 - len(text) % 8)
    return 8 + len(filled) | ARRAY, filled


def constant(name: str, text: str) -> str:
    """The definition of a text outside of the arena."""
    data = text.encode("utf-8", "surrogatepass")
    header, filled = words(data)
    shown = "".join(chr(b) if chr(b).isalnum() and b < 128 else f"\\{b:02X}" for b in filled)
    type = f"{{ i64, i64, [{len(filled)} x i8] }}"
    value = f'{{ i64 {header}, i64 {len(data)}, [{len(filled)} x i8] c"{shown}" }}'
    return f"@{name} = private constant {type} {value}, align 8"


TEXT = f"""
declare i32 @memcmp(ptr, ptr, i64)

define internal i1 @text.is.rope(i64 %text) alwaysinline nounwind {{
entry:
  %none = icmp eq i64 %text, 0
  br i1 %none, label %no, label %some
no:
  ret i1 false
some:
  %p = inttoptr i64 %text to ptr
  %headerp = getelementptr i64, ptr %p, i64 -1
  %header = load i64, ptr %headerp
  %kind = and i64 %header, 2
  %rope = icmp eq i64 %kind, 0
  ret i1 %rope
}}

define internal i64 @text.length(i64 %text) alwaysinline nounwind {{
entry:
  %none = icmp eq i64 %text, 0
  br i1 %none, label %empty, label %some
empty:
  ret i64 0
some:
  %rope = call i1 @text.is.rope(i64 %text)
  %word = select i1 %rope, i64 2, i64 0
  %p = inttoptr i64 %text to ptr
  %lengthp = getelementptr i64, ptr %p, i64 %word
  %length = load i64, ptr %lengthp
  ret i64 %length
}}

; writes the bytes of a text: of a rope the smaller part first, so that few parts wait
define internal void @text.copy(i64 %text, ptr %to) nounwind {{
entry:
  %stack = alloca [{DEEPEST} x {{ i64, ptr }}]
  br label %look
look:
  %t = phi i64 [ %text, %entry ], [ %part, %rope ], [ %waiting, %next ]
  %at = phi ptr [ %to, %entry ], [ %partat, %rope ], [ %waitingat, %next ]
  %depth = phi i64 [ 0, %entry ], [ %deeper, %rope ], [ %less, %next ]
  %is.rope = call i1 @text.is.rope(i64 %t)
  br i1 %is.rope, label %rope, label %flat
rope:
  %p = inttoptr i64 %t to ptr
{loaded("p", "left", "right")}
  %n = call i64 @text.length(i64 %left)
  %m = call i64 @text.length(i64 %right)
  %rightat = getelementptr i8, ptr %at, i64 %n
  %smaller = icmp ult i64 %n, %m
  %part = select i1 %smaller, i64 %left, i64 %right
  %partat = select i1 %smaller, ptr %at, ptr %rightat
  %other = select i1 %smaller, i64 %right, i64 %left
  %otherat = select i1 %smaller, ptr %rightat, ptr %at
  %slot = getelementptr {{ i64, ptr }}, ptr %stack, i64 %depth
  store i64 %other, ptr %slot
  %slotat = getelementptr i64, ptr %slot, i64 1
  store ptr %otherat, ptr %slotat
  %deeper = add i64 %depth, 1
  br label %look
flat:
  %length = call i64 @text.length(i64 %t)
  %f = inttoptr i64 %t to ptr
  %bytes = getelementptr i64, ptr %f, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %at, ptr %bytes, i64 %length, i1 false)
  %done = icmp eq i64 %depth, 0
  br i1 %done, label %end, label %next
next:
  %less = sub i64 %depth, 1
  %last = getelementptr {{ i64, ptr }}, ptr %stack, i64 %less
  %waiting = load i64, ptr %last
  %lastat = getelementptr i64, ptr %last, i64 1
  %waitingat = load ptr, ptr %lastat
  br label %look
end:
  ret void
}}

; a flat text of so many bytes, more than none, which are still to be written; {FAILED} if there is no room
define internal i64 @text.room(ptr %ctx, i64 %length) nounwind {{
entry:
  %sane = icmp ult i64 %length, {1 << 46}
  br i1 %sane, label %take, label %none
take:
  %filled = add i64 %length, 8
  %body = and i64 %filled, -8
  %bytes = add i64 %body, 8
  %p = call ptr @dl_room(ptr %ctx, i64 %bytes, i64 {ARRAY})
  %failed = icmp eq ptr %p, null
  br i1 %failed, label %none, label %fine
fine:
  store i64 %length, ptr %p
  %last = getelementptr i8, ptr %p, i64 %body
  store i64 0, ptr %last
  %text = ptrtoint ptr %p to i64
  ret i64 %text
none:
  ret i64 {FAILED}
}}

; the text of so many bytes of UTF-8; {FAILED} if there is no room
define i64 @dl_text_made(ptr %ctx, ptr %bytes, i64 %length) nounwind {{
entry:
  %nothing = icmp eq i64 %length, 0
  br i1 %nothing, label %empty, label %some
empty:
  ret i64 0
some:
  %text = call i64 @text.room(ptr %ctx, i64 %length)
  %failed = icmp eq i64 %text, {FAILED}
  br i1 %failed, label %end, label %copy
copy:
  %p = inttoptr i64 %text to ptr
  %to = getelementptr i64, ptr %p, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %bytes, i64 %length, i1 false)
  br label %end
end:
  ret i64 %text
}}

; a flat text with the bytes of two; {FAILED} if there is no room
define internal i64 @text.copied(ptr %ctx, i64 %a, i64 %n, i64 %b, i64 %m) nounwind {{
entry:
  %length = add i64 %n, %m
  %made = call i64 @text.room(ptr %ctx, i64 %length)
  %failed = icmp eq i64 %made, {FAILED}
  br i1 %failed, label %end, label %copy
copy:
  %p = inttoptr i64 %made to ptr
  %to = getelementptr i64, ptr %p, i64 1
  call void @text.copy(i64 %a, ptr %to)
  %behind = getelementptr i8, ptr %to, i64 %n
  call void @text.copy(i64 %b, ptr %behind)
  br label %end
end:
  ret i64 %made
}}

; a text in one piece; {FAILED} if there is no room
define i64 @dl_text_flat(ptr %ctx, i64 %text) nounwind {{
entry:
  %rope = call i1 @text.is.rope(i64 %text)
  br i1 %rope, label %make, label %same
same:
  ret i64 %text
make:
  %length = call i64 @text.length(i64 %text)
  %made = call i64 @text.copied(ptr %ctx, i64 %text, i64 %length, i64 0, i64 0)
  ret i64 %made
}}

; two texts, one behind the other; {FAILED} if there is no room. What is short is copied, also behind the end of a rope
define i64 @dl_text_joined(ptr %ctx, i64 %a, i64 %b) nounwind {{
entry:
  %none.a = icmp eq i64 %a, 0
  br i1 %none.a, label %give.b, label %look
give.b:
  ret i64 %b
look:
  %none.b = icmp eq i64 %b, 0
  br i1 %none.b, label %give.a, label %measure
give.a:
  ret i64 %a
measure:
  %n = call i64 @text.length(i64 %a)
  %m = call i64 @text.length(i64 %b)
  %length = add i64 %n, %m
  %short = icmp ule i64 %length, {SHORT}
  br i1 %short, label %copy, label %long
copy:
  %copied = call i64 @text.copied(ptr %ctx, i64 %a, i64 %n, i64 %b, i64 %m)
  ret i64 %copied
long:
  %is.rope = call i1 @text.is.rope(i64 %a)
  br i1 %is.rope, label %end.of.rope, label %join
end.of.rope:
  %ap = inttoptr i64 %a to ptr
{loaded("ap", "front", "tail")}
  %k = call i64 @text.length(i64 %tail)
  %both = add i64 %k, %m
  %little = icmp ule i64 %both, {SHORT}
  br i1 %little, label %extend, label %join
extend:
  %extended = call i64 @text.copied(ptr %ctx, i64 %tail, i64 %k, i64 %b, i64 %m)
  %lost = icmp eq i64 %extended, {FAILED}
  br i1 %lost, label %none, label %join
join:
  %left = phi i64 [ %a, %long ], [ %a, %end.of.rope ], [ %front, %extend ]
  %right = phi i64 [ %b, %long ], [ %b, %end.of.rope ], [ %extended, %extend ]
  %p = call ptr @dl_object(ptr %ctx, i64 32, i64 {ROPE})
  %full = icmp eq ptr %p, null
  br i1 %full, label %none, label %make
make:
{stored("p", "%left", "%right", "%length")}
  %rope = ptrtoint ptr %p to i64
  ret i64 %rope
none:
  ret i64 {FAILED}
}}

; -1, 0 or 1, as a text is before another, the same or behind it; {UNDECIDED} if there is no room to see. `same`: only
; whether they are the same is of interest
define i64 @dl_text_order(ptr %ctx, i64 %a, i64 %b, i1 %same) nounwind {{
entry:
  %one = icmp eq i64 %a, %b
  br i1 %one, label %equal, label %measure
equal:
  ret i64 0
measure:
  %n = call i64 @text.length(i64 %a)
  %m = call i64 @text.length(i64 %b)
  %differ = icmp ne i64 %n, %m
  %clear = and i1 %differ, %same
  br i1 %clear, label %behind, label %flatten
behind:
  ret i64 1
flatten:
  %topp = getelementptr i64, ptr %ctx, i64 {support.ARENA_TOP}
  %top = load i64, ptr %topp
  %x = call i64 @dl_text_flat(ptr %ctx, i64 %a)
  %y = call i64 @dl_text_flat(ptr %ctx, i64 %b)
  store i64 %top, ptr %topp
  %no.x = icmp eq i64 %x, {FAILED}
  %no.y = icmp eq i64 %y, {FAILED}
  %failed = or i1 %no.x, %no.y
  br i1 %failed, label %undecided, label %compare
undecided:
  ret i64 {UNDECIDED}
compare:
  %xp = inttoptr i64 %x to ptr
  %yp = inttoptr i64 %y to ptr
  %xbytes = getelementptr i64, ptr %xp, i64 1
  %ybytes = getelementptr i64, ptr %yp, i64 1
  %less = icmp ult i64 %n, %m
  %common = select i1 %less, i64 %n, i64 %m
  %order = call i32 @memcmp(ptr %xbytes, ptr %ybytes, i64 %common)
  %before = icmp slt i32 %order, 0
  %after = icmp sgt i32 %order, 0
  %longer = icmp ugt i64 %n, %m
  %either = icmp eq i32 %order, 0
  %shorter = and i1 %either, %less
  %first = or i1 %before, %shorter
  %further = and i1 %either, %longer
  %second = or i1 %after, %further
  %up = zext i1 %second to i64
  %result = select i1 %first, i64 -1, i64 %up
  ret i64 %result
}}
"""
