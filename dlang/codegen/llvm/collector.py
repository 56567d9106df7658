"""The arena of a run, and its collector, as LLVM text.

The arena is reserved memory of which a prefix is in use. `ARENA_TOP` is where that ends, `ARENA_LIMIT` up to where
compiled code may go without asking, so far memory has ever been touched; `ARENA_END` is the end of what is reserved.

An object is a header and words of 8 bytes; a reference is the address of its first word, behind the header. Bit 0 of a
header is 1, or the header is the address to which the object has moved. Bit 1 tells arrays from nodes:

    array   bit 2: whether the elements are references; then the number of words
    node    bits 2 to 21: the tag; bits 22 to 42: how many references; bits 43 to 63: how many words, references first

Nodes without fields are constants, and null is 0: neither lies in the arena.

The collector copies, breadth first, in the order of Cheney (A nonrecursive list compacting algorithm, CACM 1970). Older
objects never refer to younger ones, so it looks only at what lies behind a mark: copies what is reached from the roots
to the end of the arena and slides it to the mark.

It copies at most `COPIES` bytes for each byte that the run has placed in the arena, however the loops that collect are
nested: what it may still copy is the word `ARENA_CREDIT`, and what has been placed since `ARENA_SEEN` is added to that
before each collection. A loop that asks for more than that waits until as much has been placed, unless memory is short.
So recursion in which each call has such a loop does not copy all that the calls below have made once for each of them.

A loop whose state reaches all that its iterations made does not collect, as one that builds a list or saves its
iterations for a derivative.
"""

from __future__ import annotations

from dlang.codegen.abi import NURSERY
from dlang.codegen.llvm import support

CHUNK = 1 << 20  # by how much the limit grows
ARRAY, OF_REFERENCES = 3, 7  # the low bits of an array's header
TAG_SHIFT, REFERENCES_SHIFT, WORDS_SHIFT = 2, 22, 43
TAG_MASK, REFERENCES_MASK = (1 << 20) - 1, (1 << 21) - 1
FEW = 16  # words that are copied one by one
COPIES = 2  # bytes that may be copied for each byte that has been placed

NAMES = ("dl_grow", "dl_object", "dl_room", "dl_collect")


def node_header(tag: int, references: int, words: int) -> int:
    """The header of a node, as a number of 64 bits."""
    assert tag <= TAG_MASK and references <= words <= REFERENCES_MASK
    return 1 | tag << TAG_SHIFT | references << REFERENCES_SHIFT | words << WORDS_SHIFT


def _word(name: str, word: int) -> str:
    return f"  %{name} = getelementptr i64, ptr %ctx, i64 {word}\n"


TEXT = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1 immarg)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.usub.sat.i64(i64, i64)

; raises the limit so that the arena may end at `end`; whether that is possible
define i1 @dl_grow(ptr %ctx, i64 %end) cold nounwind {{
{_word("lastp", support.ARENA_END)}  %last = load i64, ptr %lastp
  %fits = icmp ule i64 %end, %last
  br i1 %fits, label %raise, label %none
raise:
{_word("limitp", support.ARENA_LIMIT)}  %up = add i64 %end, {CHUNK - 1}
  %round = and i64 %up, -{CHUNK}
  %limit = call i64 @llvm.umin.i64(i64 %round, i64 %last)
  store i64 %limit, ptr %limitp
  ret i1 true
none:
  ret i1 false
}}

; room for an object of so many bytes, its header one of them, at the end of the arena; null if there is none
define ptr @dl_object(ptr %ctx, i64 %bytes, i64 %header) nounwind {{
{_word("topp", support.ARENA_TOP)}{_word("limitp", support.ARENA_LIMIT)}  %top = load i64, ptr %topp
  %limit = load i64, ptr %limitp
  %end = add i64 %top, %bytes
  %over = icmp ugt i64 %end, %limit
  br i1 %over, label %grow, label %take
grow:
  %fits = call i1 @dl_grow(ptr %ctx, i64 %end)
  br i1 %fits, label %take, label %none
take:
  %p = inttoptr i64 %top to ptr
  store i64 %header, ptr %p
  store i64 %end, ptr %topp
  %body = getelementptr i64, ptr %p, i64 1
  ret ptr %body
none:
  ret ptr null
}}

; room for an array of so many bytes; null if there is none
define ptr @dl_room(ptr %ctx, i64 %bytes, i64 %kind) nounwind {{
  %sane = icmp ult i64 %bytes, {1 << 46}
  br i1 %sane, label %place, label %none
place:
  %more = add i64 %bytes, 7
  %words = lshr i64 %more, 3
  %whole = shl i64 %words, 3
  %header = or i64 %whole, %kind
  %all = add i64 %whole, 8
  %elements = call ptr @dl_object(ptr %ctx, i64 %all, i64 %header)
  ret ptr %elements
none:
  ret ptr null
}}

define internal i64 @words(i64 %header) alwaysinline nounwind {{
  %kind = and i64 %header, 2
  %array = icmp ne i64 %kind, 0
  %many = lshr i64 %header, 3
  %few = lshr i64 %header, {WORDS_SHIFT}
  %words = select i1 %array, i64 %many, i64 %few
  ret i64 %words
}}

; where an object will be: copies it if it lies in the `span` bytes behind the mark and has not been copied
define internal i64 @evacuate(i64 %ref, i64 %mark, i64 %span, ptr %freep) alwaysinline nounwind {{
entry:
  %at = sub i64 %ref, 8
  %back = sub i64 %at, %mark
  %young = icmp ult i64 %back, %span
  br i1 %young, label %look, label %stay
stay:
  ret i64 %ref
look:
  %from = inttoptr i64 %at to ptr
  %header = load i64, ptr %from
  %live = trunc i64 %header to i1
  br i1 %live, label %fresh, label %moved
moved:
  ret i64 %header
fresh:
  %words = call i64 @words(i64 %header)
  %bytes = shl i64 %words, 3
  %free = load i64, ptr %freep
  %to = inttoptr i64 %free to ptr
  %behind = add i64 %free, 8
  %next = add i64 %behind, %bytes
  store i64 %next, ptr %freep
  store i64 %header, ptr %to
  %many = icmp ugt i64 %words, {FEW}
  br i1 %many, label %block, label %head
block:
  %source = getelementptr i64, ptr %from, i64 1
  %target = getelementptr i64, ptr %to, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  br label %done
head:
  %k = phi i64 [ 0, %fresh ], [ %k1, %copy ]
  %more = icmp ult i64 %k, %words
  br i1 %more, label %copy, label %done
copy:
  %k1 = add i64 %k, 1
  %s = getelementptr i64, ptr %from, i64 %k1
  %t = getelementptr i64, ptr %to, i64 %k1
  %x = load i64, ptr %s
  store i64 %x, ptr %t
  br label %head
done:
  %final = sub i64 %behind, %span
  store i64 %final, ptr %from
  ret i64 %final
}}

; what the collector may still copy, after what has been placed up to `top` since the last time has been added
define internal i64 @credit(ptr %ctx, i64 %mark, i64 %top) alwaysinline nounwind {{
{_word("seenp", support.ARENA_SEEN)}{_word("creditp", support.ARENA_CREDIT)}  %seen = load i64, ptr %seenp
  %before = load i64, ptr %creditp
  %none = icmp eq i64 %seen, 0
  %since = select i1 %none, i64 %mark, i64 %seen
  %placed = call i64 @llvm.usub.sat.i64(i64 %top, i64 %since)
  %more = mul i64 %placed, {COPIES}
  %credit = add i64 %before, %more
  store i64 %top, ptr %seenp
  store i64 %credit, ptr %creditp
  ret i64 %credit
}}

; keeps of what lies behind the mark what the roots reach, and changes these: `count` pairs of an address and a number
; of references there. Gives up to where the arena may grow until the next time.
define i64 @dl_collect(ptr %ctx, i64 %mark, ptr %roots, i64 %count) noinline nounwind {{
entry:
  %freep = alloca i64
{_word("topp", support.ARENA_TOP)}{_word("limitp", support.ARENA_LIMIT)}{_word("lastp", support.ARENA_END)}\
  %top = load i64, ptr %topp
  %last = load i64, ptr %lastp
  %span = sub i64 %top, %mark
  %worst = add i64 %top, %span
  %fits = icmp ule i64 %worst, %last
  br i1 %fits, label %look, label %give.up
give.up:
  ret i64 -1
look:
  %credit = call i64 @credit(ptr %ctx, i64 %mark, i64 %top)
  %missing = call i64 @llvm.usub.sat.i64(i64 %span, i64 %credit)
  %later = add i64 %top, %missing
  %rest = sub i64 %last, %mark
  %half = lshr i64 %rest, 1
  %copied = add i64 %mark, %half
  %has = icmp eq i64 %missing, 0
  %short = icmp uge i64 %later, %copied
  %now = or i1 %has, %short
  br i1 %now, label %begin, label %wait
wait:
  ret i64 %later
begin:
  store i64 %top, ptr %freep
  br label %ranges
ranges:
  %r = phi i64 [ 0, %begin ], [ %r1, %range.done ]
  %rmore = icmp ult i64 %r, %count
  br i1 %rmore, label %range, label %scan
range:
  %r1 = add i64 %r, 1
  %pair = getelementptr {{ ptr, i64 }}, ptr %roots, i64 %r
  %base = load ptr, ptr %pair
  %lengthp = getelementptr i64, ptr %pair, i64 1
  %length = load i64, ptr %lengthp
  br label %each
each:
  %e = phi i64 [ 0, %range ], [ %e1, %one ]
  %emore = icmp slt i64 %e, %length
  br i1 %emore, label %one, label %range.done
one:
  %e1 = add i64 %e, 1
  %ep = getelementptr i64, ptr %base, i64 %e
  %old = load i64, ptr %ep
  %new = call i64 @evacuate(i64 %old, i64 %mark, i64 %span, ptr %freep)
  store i64 %new, ptr %ep
  br label %each
range.done:
  br label %ranges
scan:
  %at = phi i64 [ %top, %ranges ], [ %following, %scanned ]
  %free = load i64, ptr %freep
  %open = icmp ult i64 %at, %free
  br i1 %open, label %object, label %slide
object:
  %op = inttoptr i64 %at to ptr
  %header = load i64, ptr %op
  %words = call i64 @words(i64 %header)
  %wordbytes = shl i64 %words, 3
  %whole = add i64 %wordbytes, 8
  %following = add i64 %at, %whole
  %shifted = lshr i64 %header, {REFERENCES_SHIFT}
  %noderefs = and i64 %shifted, {REFERENCES_MASK}
  %low = and i64 %header, 7
  %isrefs = icmp eq i64 %low, {OF_REFERENCES}
  %arrayrefs = select i1 %isrefs, i64 %words, i64 0
  %kind = and i64 %header, 2
  %isarray = icmp ne i64 %kind, 0
  %references = select i1 %isarray, i64 %arrayrefs, i64 %noderefs
  br label %fields
fields:
  %f = phi i64 [ 0, %object ], [ %f1, %field ]
  %fmore = icmp ult i64 %f, %references
  br i1 %fmore, label %field, label %scanned
field:
  %f1 = add i64 %f, 1
  %fp = getelementptr i64, ptr %op, i64 %f1
  %fold = load i64, ptr %fp
  %fnew = call i64 @evacuate(i64 %fold, i64 %mark, i64 %span, ptr %freep)
  store i64 %fnew, ptr %fp
  br label %fields
scanned:
  br label %scan
slide:
  %kept = sub i64 %free, %top
  %target = inttoptr i64 %mark to ptr
  %source = inttoptr i64 %top to ptr
  call void @llvm.memmove.p0.p0.i64(ptr %target, ptr %source, i64 %kept, i1 false)
  %newtop = add i64 %mark, %kept
  store i64 %newtop, ptr %topp
{_word("seenp", support.ARENA_SEEN)}{_word("creditp", support.ARENA_CREDIT)}  store i64 %newtop, ptr %seenp
  %saved = call i64 @llvm.usub.sat.i64(i64 %credit, i64 %kept)
  store i64 %saved, ptr %creditp
  %limit = load i64, ptr %limitp
  %beyond = icmp ugt i64 %free, %limit
  br i1 %beyond, label %touched, label %next
touched:
  %ignored = call i1 @dl_grow(ptr %ctx, i64 %free)
  br label %next
next:
  %twice = shl i64 %kept, 1
  %step = call i64 @llvm.umax.i64(i64 %twice, i64 {NURSERY})
  %wish = add i64 %newtop, %step
  %trigger = call i64 @llvm.umin.i64(i64 %wish, i64 %copied)
  ret i64 %trigger
}}
"""
