"""Comparisons of accesses of sanitised code with the table of arrays, as LLVM text behind that of `registry.py`.

An access names the address that its array is known by. It is inside if all of its bytes are in the array that this
address lies in, and that array is alive: memory of another array is outside, however close it is. An array that has
been found is remembered in the context, by the address, as long as nothing is freed anywhere.
"""

from __future__ import annotations

from dlang.codegen.llvm.collector import ARRAY, WORDS_SHIFT
from dlang.codegen.llvm.registry import ENTRY, FOUND
from dlang.codegen.llvm.support import SLOTS, loaded, stored
from dlang.codegen.llvm.texts import ROPE

SLOT_BITS = 4
FOUND_WORDS = 4  # of an array that has been found: its address, beginning, end, and the version of the table

# what a failure says, in words from `SLOTS` on
OFFSET, BYTES, EXTENT, STATE = range(4)
OUT_OF_BOUNDS, FREED, UNKNOWN = range(3)

NAMES = (
    "dl_outside", "dl_outside_held", "dl_outside_node", "dl_outside_text", "dl_outside_scattered", "dl_not_alive",
)  # fmt: skip

TEXT = f"""
; whether some of the bytes at an address are outside of the array that lies at `base`; then that is the failure
define i1 @dl_outside(ptr %ctx, ptr %base, ptr %address, i64 %bytes, i64 %site) noinline nounwind {{
entry:
  %some = icmp sgt i64 %bytes, 0
  br i1 %some, label %look, label %fine
fine:
  ret i1 false
look:
  %b = ptrtoint ptr %base to i64
  %a = ptrtoint ptr %address to i64
  %e = add i64 %a, %bytes
  %foundp = getelementptr i64, ptr %ctx, i64 {FOUND}
  %found = load ptr, ptr %foundp
  %none = icmp eq ptr %found, null
  br i1 %none, label %search, label %remembered
remembered:
  %p = call ptr @place(ptr %found, i64 %b)
{loaded("p", "known", "begin", "end", "at")}
  %version = load atomic i64, ptr @version seq_cst, align 8
  %same = icmp eq i64 %known, %b
  %current = icmp eq i64 %at, %version
  %in = call i1 @within(i64 %a, i64 %e, i64 %begin, i64 %end)
  %t = and i1 %same, %current
  %ok = and i1 %t, %in
  br i1 %ok, label %fine, label %search
search:
  %bad = call i1 @searched(ptr %ctx, i64 %b, i64 %a, i64 %e, i64 %site)
  ret i1 %bad
}}

define internal ptr @place(ptr %found, i64 %base) nounwind {{
  %low = lshr i64 %base, 6
  %high = lshr i64 %base, {6 + SLOT_BITS}
  %mixed = xor i64 %low, %high
  %slot = and i64 %mixed, {(1 << SLOT_BITS) - 1}
  %word = mul i64 %slot, {FOUND_WORDS}
  %p = getelementptr i64, ptr %found, i64 %word
  ret ptr %p
}}

define internal i1 @within(i64 %a, i64 %e, i64 %begin, i64 %end) alwaysinline nounwind {{
  %low = icmp uge i64 %a, %begin
  %high = icmp ule i64 %e, %end
  %onwards = icmp ugt i64 %e, %a
  %t = and i1 %low, %high
  %ok = and i1 %t, %onwards
  ret i1 %ok
}}

define internal i1 @searched(ptr %ctx, i64 %b, i64 %a, i64 %e, i64 %site) noinline nounwind {{
entry:
  call void @enter()
  %k = call i64 @position(i64 %b)
  %none = icmp eq i64 %k, 0
  br i1 %none, label %loans, label %look
look:
  %last = sub i64 %k, 1
  %word = mul i64 %last, {ENTRY}
  %table = load ptr, ptr @table
  %p = getelementptr i64, ptr %table, i64 %word
{loaded("p", "begin", "end", "alive")}
  %at.begin = icmp eq i64 %begin, %b
  %before.end = icmp ult i64 %b, %end
  %its = or i1 %at.begin, %before.end
  br i1 %its, label %compare, label %loans
compare:
  %in = call i1 @within(i64 %a, i64 %e, i64 %begin, i64 %end)
  %living = icmp ne i64 %alive, 0
  %fine = and i1 %in, %living
  %dead = select i1 %living, i64 {OUT_OF_BOUNDS}, i64 {FREED}
  br i1 %fine, label %remember, label %loans
loans:
  %s0 = phi i64 [ {UNKNOWN}, %entry ], [ {UNKNOWN}, %look ], [ %dead, %compare ]
  %b0 = phi i64 [ %b, %entry ], [ %b, %look ], [ %begin, %compare ]
  %e0 = phi i64 [ %b, %entry ], [ %b, %look ], [ %end, %compare ]
  %list = load ptr, ptr @lent
  %n = load i64, ptr @lent.count
  br label %head
head:
  %j = phi i64 [ 0, %loans ], [ %j2, %next ]
  %s = phi i64 [ %s0, %loans ], [ %s2, %next ]
  %bs = phi i64 [ %b0, %loans ], [ %bs2, %next ]
  %es = phi i64 [ %e0, %loans ], [ %es2, %next ]
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loan, label %bad
loan:
  %jword = mul i64 %j, {ENTRY}
  %q = getelementptr i64, ptr %list, i64 %jword
{loaded("q", "qb", "qe", "qt")}
  %fixed = icmp eq i64 %qt, 0
  br i1 %fixed, label %known, label %moving
moving:
  %topp = inttoptr i64 %qt to ptr
  %top = load i64, ptr %topp
  br label %known
known:
  %until = phi i64 [ %qe, %loan ], [ %top, %moving ]
  %from = icmp uge i64 %b, %qb
  %to = icmp ule i64 %b, %qe
  %theirs = and i1 %from, %to
  br i1 %theirs, label %inside, label %next
inside:
  %qin = call i1 @within(i64 %a, i64 %e, i64 %qb, i64 %until)
  br i1 %qin, label %settle, label %next
settle:
  br i1 %fixed, label %remember, label %good
next:
  %s2 = phi i64 [ %s, %known ], [ {OUT_OF_BOUNDS}, %inside ]
  %bs2 = phi i64 [ %bs, %known ], [ %qb, %inside ]
  %es2 = phi i64 [ %es, %known ], [ %until, %inside ]
  %j2 = add i64 %j, 1
  br label %head
remember:
  %rb = phi i64 [ %begin, %compare ], [ %qb, %settle ]
  %re = phi i64 [ %end, %compare ], [ %qe, %settle ]
  %foundp = getelementptr i64, ptr %ctx, i64 {FOUND}
  %found = load ptr, ptr %foundp
  %first = icmp eq ptr %found, null
  br i1 %first, label %make, label %store
make:
  %made = call ptr @calloc(i64 {FOUND_WORDS << SLOT_BITS}, i64 8)
  store ptr %made, ptr %foundp
  %still = icmp eq ptr %made, null
  br i1 %still, label %good, label %store
store:
  %cells = phi ptr [ %found, %remember ], [ %made, %make ]
  %cell = call ptr @place(ptr %cells, i64 %b)
{stored("cell", "%b", "%rb", "%re")}
  %c3 = getelementptr i64, ptr %cell, i64 3
  %version = load atomic i64, ptr @version seq_cst, align 8
  store i64 %version, ptr %c3
  br label %good
good:
  call void @leave()
  ret i1 false
bad:
  call void @leave()
  call void @fail(ptr %ctx, i64 %site, i64 %a, i64 %e, i64 %bs, i64 %es, i64 %s)
  ret i1 true
}}

; notes a failure: which bytes of what
define internal void @fail(ptr %ctx, i64 %site, i64 %a, i64 %e, i64 %begin, i64 %end, i64 %state) cold nounwind {{
  store i64 %site, ptr %ctx
  %offset = sub i64 %a, %begin
  %bytes = sub i64 %e, %a
  %extent = sub i64 %end, %begin
  %p0 = getelementptr i64, ptr %ctx, i64 {SLOTS + OFFSET}
  store i64 %offset, ptr %p0
  %p1 = getelementptr i64, ptr %ctx, i64 {SLOTS + BYTES}
  store i64 %bytes, ptr %p1
  %p2 = getelementptr i64, ptr %ctx, i64 {SLOTS + EXTENT}
  store i64 %extent, ptr %p2
  %p3 = getelementptr i64, ptr %ctx, i64 {SLOTS + STATE}
  store i64 %state, ptr %p3
  ret void
}}

; as `dl_outside`, of an array in an arena, whose header says how long it is
define i1 @dl_outside_held(ptr %ctx, ptr %base, ptr %address, i64 %bytes, i64 %site) noinline nounwind {{
entry:
  %some = icmp sgt i64 %bytes, 0
  br i1 %some, label %look, label %fine
look:
  %headerp = getelementptr i64, ptr %base, i64 -1
  %bad = call i1 @dl_outside(ptr %ctx, ptr %headerp, ptr %headerp, i64 8, i64 %site)
  br i1 %bad, label %outside, label %compare
outside:
  ret i1 true
compare:
  %header = load i64, ptr %headerp
  %extent = and i64 %header, -8
  %b = ptrtoint ptr %base to i64
  %a = ptrtoint ptr %address to i64
  %e = add i64 %a, %bytes
  %end = add i64 %b, %extent
  %in = call i1 @within(i64 %a, i64 %e, i64 %b, i64 %end)
  br i1 %in, label %fine, label %note
fine:
  ret i1 false
note:
  call void @fail(ptr %ctx, i64 %site, i64 %a, i64 %e, i64 %b, i64 %end, i64 {OUT_OF_BOUNDS})
  ret i1 true
}}

; where an object is: 0 in no arena, 1 in one, 2 behind the end of what is used of one
define internal i64 @where(i64 %object) nounwind {{
entry:
  %header.at = sub i64 %object, 8
  call void @enter()
  %list = load ptr, ptr @lent
  %n = load i64, ptr @lent.count
  br label %head
head:
  %j = phi i64 [ 0, %entry ], [ %j2, %next ]
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loan, label %elsewhere
loan:
  %jword = mul i64 %j, {ENTRY}
  %q = getelementptr i64, ptr %list, i64 %jword
{loaded("q", "begin", "end", "top")}
  %is.arena = icmp ne i64 %top, 0
  %from = icmp uge i64 %header.at, %begin
  %to = icmp ult i64 %header.at, %end
  %in = and i1 %from, %to
  %its = and i1 %is.arena, %in
  br i1 %its, label %found, label %next
next:
  %j2 = add i64 %j, 1
  br label %head
found:
  %topp = inttoptr i64 %top to ptr
  %until = load i64, ptr %topp
  call void @leave()
  %below = icmp ule i64 %object, %until
  %state = select i1 %below, i64 1, i64 2
  ret i64 %state
elsewhere:
  call void @leave()
  ret i64 0
}}

; whether a word can be no address of an object
define internal i1 @no.object(i64 %word) nounwind {{
  %low = and i64 %word, 7
  %odd = icmp ne i64 %low, 0
  %nothing = icmp ule i64 %word, 4095
  %unmapped = icmp uge i64 %word, {1 << 47}
  %t = or i1 %odd, %nothing
  %no = or i1 %t, %unmapped
  ret i1 %no
}}

; whether a word is outside of a node; its tag is word -1, and constants have nothing else
define i1 @dl_outside_node(ptr %ctx, i64 %node, i64 %word, i64 %site) noinline nounwind {{
entry:
  %no = call i1 @no.object(i64 %node)
  br i1 %no, label %bad, label %search
search:
  %header.at = sub i64 %node, 8
  %where = call i64 @where(i64 %node)
  switch i64 %where, label %elsewhere [ i64 1, label %header i64 2, label %bad ]
header:
  %hp = inttoptr i64 %header.at to ptr
  %h = load i64, ptr %hp
  %kind = and i64 %h, 3
  %is.node = icmp eq i64 %kind, 1
  %words = lshr i64 %h, {WORDS_SHIFT}
  %last = icmp slt i64 %word, %words
  %fine = and i1 %is.node, %last
  br i1 %fine, label %good, label %beyond
elsewhere:
  %constant = icmp slt i64 %word, 0
  br i1 %constant, label %good, label %bad
good:
  ret i1 false
beyond:
  %held = mul i64 %words, 8
  %its.end = add i64 %node, %held
  br label %note
bad:
  br label %note
note:
  %state = phi i64 [ {OUT_OF_BOUNDS}, %beyond ], [ {UNKNOWN}, %bad ]
  %last.byte = phi i64 [ %its.end, %beyond ], [ %node, %bad ]
  %o = mul i64 %word, 8
  %a = add i64 %node, %o
  %e = add i64 %a, 8
  call void @fail(ptr %ctx, i64 %site, i64 %a, i64 %e, i64 %node, i64 %last.byte, i64 %state)
  ret i1 true
}}

; whether a word is no text: the empty one, a constant, or one in an arena whose length fits into it
define i1 @dl_outside_text(ptr %ctx, i64 %text, i64 %site) noinline nounwind {{
entry:
  %empty = icmp eq i64 %text, 0
  br i1 %empty, label %good, label %look
look:
  %no = call i1 @no.object(i64 %text)
  br i1 %no, label %bad, label %search
search:
  %where = call i64 @where(i64 %text)
  switch i64 %where, label %good [ i64 1, label %header i64 2, label %bad ]
header:
  %p = inttoptr i64 %text to ptr
  %hp = getelementptr i64, ptr %p, i64 -1
  %h = load i64, ptr %hp
  %is.rope = icmp eq i64 %h, {ROPE}
  br i1 %is.rope, label %good, label %flat
flat:
  %kind = and i64 %h, 7
  %is.array = icmp eq i64 %kind, {ARRAY}
  %held = and i64 %h, -8
  %length = load i64, ptr %p
  %room = sub i64 %held, 8
  %fits = icmp ult i64 %length, %room
  %fine = and i1 %is.array, %fits
  br i1 %fine, label %good, label %bad
good:
  ret i1 false
bad:
  %e = add i64 %text, 8
  call void @fail(ptr %ctx, i64 %site, i64 %text, i64 %e, i64 %text, i64 %text, i64 {UNKNOWN})
  ret i1 true
}}

; whether elements are outside of their array that lie at all sums of two offsets in bytes from an address
define i1 @dl_outside_scattered(ptr %ctx, ptr %base, ptr %address, ptr %rows, i64 %row.count, ptr %columns,
    i64 %column.count, i64 %width, i64 %site) noinline nounwind {{
entry:
  %any.rows = icmp sgt i64 %row.count, 0
  %any.columns = icmp sgt i64 %column.count, 0
  %any = and i1 %any.rows, %any.columns
  br i1 %any, label %look, label %fine
fine:
  ret i1 false
look:
  %low.row = call i64 @extreme(ptr %rows, i64 %row.count, i64 1)
  %high.row = call i64 @extreme(ptr %rows, i64 %row.count, i64 -1)
  %low.column = call i64 @extreme(ptr %columns, i64 %column.count, i64 1)
  %high.column = call i64 @extreme(ptr %columns, i64 %column.count, i64 -1)
  %low = add i64 %low.row, %low.column
  %top = add i64 %high.row, %high.column
  %high = sub i64 0, %top
  %reach = sub i64 %high, %low
  %bytes = add i64 %reach, %width
  %first = getelementptr i8, ptr %address, i64 %low
  %bad = call i1 @dl_outside(ptr %ctx, ptr %base, ptr %first, i64 %bytes, i64 %site)
  ret i1 %bad
}}

; the least of some numbers, each times a factor
define internal i64 @extreme(ptr %numbers, i64 %count, i64 %factor) nounwind {{
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k2, %step ]
  %least = phi i64 [ {2**63 - 1}, %entry ], [ %less, %step ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %step, label %done
step:
  %p = getelementptr i64, ptr %numbers, i64 %k
  %x = load i64, ptr %p
  %scaled = mul i64 %x, %factor
  %less = call i64 @llvm.smin.i64(i64 %least, i64 %scaled)
  %k2 = add i64 %k, 1
  br label %head
done:
  ret i64 %least
}}

; whether what is to be freed is no array that is alive; then that is the failure
define i1 @dl_not_alive(ptr %ctx, ptr %data, i64 %site) noinline nounwind {{
entry:
  %begin = ptrtoint ptr %data to i64
  call void @enter()
  %known = call ptr @entry_of(i64 %begin)
  %none = icmp eq ptr %known, null
  br i1 %none, label %bad, label %look
look:
  %endp = getelementptr i64, ptr %known, i64 1
  %end = load i64, ptr %endp
  %alivep = getelementptr i64, ptr %known, i64 2
  %alive = load i64, ptr %alivep
  %dead = icmp eq i64 %alive, 0
  br i1 %dead, label %bad, label %good
good:
  call void @leave()
  ret i1 false
bad:
  %until = phi i64 [ %begin, %entry ], [ %end, %look ]
  %state = phi i64 [ {UNKNOWN}, %entry ], [ {FREED}, %look ]
  call void @leave()
  call void @fail(ptr %ctx, i64 %site, i64 %begin, i64 %until, i64 %begin, i64 %until, i64 %state)
  ret i1 true
}}
"""
