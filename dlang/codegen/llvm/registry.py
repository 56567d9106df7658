"""The memory that sanitised code may touch, as LLVM text: a table of all arrays, and what compares an access with it.

A process has one table, behind a lock: arrays that sanitised runs have made, in order of their addresses, alive or
freed; and what is lent to runs, which is arguments, results of the caller's, and arenas of nodes. An access names the
address that its array is known by. It is inside if all of its bytes are in the array that this address lies in, and
that array is alive: memory of another array is outside, however close it is.

New memory, and memory that has been freed, is filled with ones in all bits, which are NaN or -1: so an element that is
read before it is written shows. What is freed is kept from being used again until some more has been (`HELD` bytes).
What has been found is remembered in the context, by the address, as long as nothing is freed anywhere.
"""

from __future__ import annotations

from dlang.codegen.llvm import support
from dlang.codegen.llvm.collector import ARRAY, WORDS_SHIFT
from dlang.codegen.llvm.support import HEADER, SIZE, SLOTS
from dlang.codegen.llvm.texts import ROPE

# words of a context, which other code leaves alone: freed blocks that are kept, from the oldest to the newest, by the
# word that chains those in use; their bytes; what has been found
OLDEST, NEWEST, KEPT, FOUND = range(support.CHECKED, support.CHECKED + 4)
HELD = 64 << 20
"""The bytes of freed memory that a context keeps from being used again."""
SLOT_BITS = 4
FOUND_WORDS = 4  # of one that has been found: its address, beginning, end, and the version of the table
ENTRY = 3  # words of an entry: beginning, end, and whether it is alive; of one that is lent, a pointer to its end or 0

# what a failure says, in words from `SLOTS` on
OFFSET, BYTES, EXTENT, STATE = range(4)
OUT_OF_BOUNDS, FREED, UNKNOWN = range(3)

NAMES = (
    "dl_take_checked", "dl_alloc_checked", "dl_give_checked", "dl_free_checked", "dl_reclaim_checked",
    "dl_release_checked", "dl_lend", "dl_end_loan", "dl_outside", "dl_outside_held", "dl_outside_node",
    "dl_outside_text", "dl_outside_scattered", "dl_not_alive",
)  # fmt: skip
IMPORTS = ("calloc", "realloc", "memset", "memmove", "sched_yield", "free")
SUPPORT = ("dl_take", "dl_give", "dl_attach", "dl_detach", "dl_release")

_LOADED = """\
  %table = load ptr, ptr @table
  %count = load i64, ptr @arrays
"""

TEXT = f"""
@lock = internal global i32 0
@version = internal global i64 1
@table = internal global ptr null
@arrays = internal global i64 0
@room = internal global i64 0
@lent = internal global ptr null
@lent.count = internal global i64 0
@lent.room = internal global i64 0

declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare i32 @sched_yield()
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1 immarg)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare ptr @dl_take(ptr, i64)
declare void @dl_give(ptr, ptr)
declare void @dl_attach(ptr, ptr, i64)
declare void @dl_detach(ptr)
declare void @dl_release(ptr)

define internal void @enter() nounwind {{
entry:
  br label %try
try:
  %held = atomicrmw xchg ptr @lock, i32 1 seq_cst
  %free = icmp eq i32 %held, 0
  br i1 %free, label %mine, label %wait
wait:
  %ignored = call i32 @sched_yield()
  br label %try
mine:
  ret void
}}

define internal void @leave() nounwind {{
  store atomic i32 0, ptr @lock release, align 4
  ret void
}}

; from now on nothing that has been found is known
define internal void @forget() nounwind {{
  %ignored = atomicrmw add ptr @version, i64 1 seq_cst
  ret void
}}

; how many arrays begin at an address or before it
define internal i64 @position(i64 %address) nounwind {{
entry:
{_LOADED}  br label %head
head:
  %low = phi i64 [ 0, %entry ], [ %low2, %step ]
  %high = phi i64 [ %count, %entry ], [ %high2, %step ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %step, label %done
step:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %word = mul i64 %middle, {ENTRY}
  %p = getelementptr i64, ptr %table, i64 %word
  %begin = load i64, ptr %p
  %before = icmp ule i64 %begin, %address
  %after = add i64 %middle, 1
  %low2 = select i1 %before, i64 %after, i64 %low
  %high2 = select i1 %before, i64 %high, i64 %middle
  br label %head
done:
  ret i64 %low
}}

; moves the entries from one on by some places, where there is room for them
define internal void @shift(i64 %from, i64 %by) nounwind {{
{_LOADED}  %target = add i64 %from, %by
  %from.word = mul i64 %from, {ENTRY}
  %to.word = mul i64 %target, {ENTRY}
  %source = getelementptr i64, ptr %table, i64 %from.word
  %to = getelementptr i64, ptr %table, i64 %to.word
  %moved = sub i64 %count, %from
  %bytes = mul i64 %moved, {8 * ENTRY}
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %source, i64 %bytes, i1 false)
  %now = add i64 %count, %by
  store i64 %now, ptr @arrays
  ret void
}}

; makes room for one more entry of a list; whether that is possible
define internal i1 @grown(ptr %list, ptr %used, ptr %most) nounwind {{
entry:
  %count = load i64, ptr %used
  %room = load i64, ptr %most
  %full = icmp uge i64 %count, %room
  br i1 %full, label %grow, label %fine
grow:
  %twice = mul i64 %room, 2
  %wanted = call i64 @llvm.smax.i64(i64 %twice, i64 256)
  %bytes = mul i64 %wanted, {8 * ENTRY}
  %old = load ptr, ptr %list
  %new = call ptr @realloc(ptr %old, i64 %bytes)
  %bad = icmp eq ptr %new, null
  br i1 %bad, label %none, label %store
none:
  ret i1 false
store:
  store ptr %new, ptr %list
  store i64 %wanted, ptr %most
  br label %fine
fine:
  ret i1 true
}}

; an array is there from now on; what there was in its place is not. Whether there is room for that
define internal i1 @register(i64 %begin, i64 %end) nounwind {{
entry:
  call void @enter()
  %fits = call i1 @grown(ptr @table, ptr @arrays, ptr @room)
  br i1 %fits, label %search, label %full
full:
  call void @leave()
  ret i1 false
search:
  %k = call i64 @position(i64 %begin)
  br label %before
before:
  %at = phi i64 [ %k, %search ], [ %previous, %drop ]
  %first = icmp eq i64 %at, 0
  br i1 %first, label %behind, label %look
look:
  %previous = sub i64 %at, 1
  %word = mul i64 %previous, {ENTRY}
  %table = load ptr, ptr @table
  %p = getelementptr i64, ptr %table, i64 %word
  %b = load i64, ptr %p
  %ep = getelementptr i64, ptr %p, i64 1
  %e = load i64, ptr %ep
  %same = icmp eq i64 %b, %begin
  %over = icmp ugt i64 %e, %begin
  %stale = or i1 %same, %over
  br i1 %stale, label %drop, label %behind
drop:
  call void @shift(i64 %at, i64 -1)
  br label %before
behind:
  %count = load i64, ptr @arrays
  %last = icmp uge i64 %at, %count
  br i1 %last, label %insert, label %look2
look2:
  %word2 = mul i64 %at, {ENTRY}
  %table2 = load ptr, ptr @table
  %p2 = getelementptr i64, ptr %table2, i64 %word2
  %b2 = load i64, ptr %p2
  %inside = icmp ult i64 %b2, %end
  br i1 %inside, label %drop2, label %insert
drop2:
  %next = add i64 %at, 1
  call void @shift(i64 %next, i64 -1)
  br label %behind
insert:
  call void @shift(i64 %at, i64 1)
  %word3 = mul i64 %at, {ENTRY}
  %table3 = load ptr, ptr @table
  %p3 = getelementptr i64, ptr %table3, i64 %word3
  store i64 %begin, ptr %p3
  %ep3 = getelementptr i64, ptr %p3, i64 1
  store i64 %end, ptr %ep3
  %ap3 = getelementptr i64, ptr %p3, i64 2
  store i64 1, ptr %ap3
  call void @forget()
  call void @leave()
  ret i1 true
}}

; the entry of the array that begins at an address, null if there is none; the table is locked
define internal ptr @entry_of(i64 %begin) nounwind {{
entry:
  %k = call i64 @position(i64 %begin)
  %none = icmp eq i64 %k, 0
  br i1 %none, label %no, label %look
look:
  %last = sub i64 %k, 1
  %word = mul i64 %last, {ENTRY}
  %table = load ptr, ptr @table
  %p = getelementptr i64, ptr %table, i64 %word
  %b = load i64, ptr %p
  %same = icmp eq i64 %b, %begin
  br i1 %same, label %yes, label %no
yes:
  ret ptr %p
no:
  ret ptr null
}}

; ---- memory ----------------------------------------------------------------------------------------------------------

; as `dl_take`
define ptr @dl_take_checked(ptr %ctx, i64 %bytes) nounwind {{
entry:
  %data = call ptr @dl_take(ptr %ctx, i64 %bytes)
  %bad = icmp eq ptr %data, null
  br i1 %bad, label %none, label %note
none:
  ret ptr null
note:
  %begin = ptrtoint ptr %data to i64
  %end = add i64 %begin, %bytes
  %noted = call i1 @register(i64 %begin, i64 %end)
  br i1 %noted, label %fill, label %back
back:
  call void @dl_give(ptr %ctx, ptr %data)
  ret ptr null
fill:
  call void @llvm.memset.p0.i64(ptr %data, i8 -1, i64 %bytes, i1 false)
  ret ptr %data
}}

; as `dl_alloc`
define ptr @dl_alloc_checked(ptr %ctx, i64 %bytes) nounwind {{
entry:
  %data = call ptr @dl_take_checked(ptr %ctx, i64 %bytes)
  %bad = icmp eq ptr %data, null
  br i1 %bad, label %none, label %chain
none:
  ret ptr null
chain:
  call void @dl_attach(ptr %ctx, ptr %data, i64 %bytes)
  ret ptr %data
}}

; takes back what `dl_take_checked` gave: it is kept for a while
define void @dl_give_checked(ptr %ctx, ptr %data) nounwind {{
entry:
  %begin = ptrtoint ptr %data to i64
  call void @enter()
  %known = call ptr @entry_of(i64 %begin)
  %none = icmp eq ptr %known, null
  br i1 %none, label %unknown, label %retire
unknown:
  call void @leave()
  call void @dl_give(ptr %ctx, ptr %data)
  ret void
retire:
  %alivep = getelementptr i64, ptr %known, i64 2
  store i64 0, ptr %alivep
  %endp = getelementptr i64, ptr %known, i64 1
  %end = load i64, ptr %endp
  call void @forget()
  call void @leave()
  %bytes = sub i64 %end, %begin
  call void @llvm.memset.p0.i64(ptr %data, i8 -1, i64 %bytes, i1 false)
  %block = getelementptr i8, ptr %data, i64 -{HEADER}
  store ptr null, ptr %block
  %newestp = getelementptr i64, ptr %ctx, i64 {NEWEST}
  %newest = load ptr, ptr %newestp
  store ptr %block, ptr %newestp
  %alone = icmp eq ptr %newest, null
  %oldestp = getelementptr i64, ptr %ctx, i64 {OLDEST}
  %place = select i1 %alone, ptr %oldestp, ptr %newest
  store ptr %block, ptr %place
  %sizep = getelementptr i64, ptr %block, i64 {SIZE}
  %size = load i64, ptr %sizep
  %keptp = getelementptr i64, ptr %ctx, i64 {KEPT}
  %kept = load i64, ptr %keptp
  %more = add i64 %kept, %size
  store i64 %more, ptr %keptp
  call void @count(ptr %ctx, i64 %size, i64 -1)
  call void @drain(ptr %ctx, i64 {HELD})
  ret void
}}

; so many bytes are no longer in use, or are again for `dl_give` to take back
define internal void @count(ptr %ctx, i64 %size, i64 %sign) nounwind {{
  %usedp = getelementptr i64, ptr %ctx, i64 {support.IN_USE}
  %used = load i64, ptr %usedp
  %change = mul i64 %size, %sign
  %now = add i64 %used, %change
  store i64 %now, ptr %usedp
  ret void
}}

; lets the oldest blocks be used again until no more than so many bytes are kept
define internal void @drain(ptr %ctx, i64 %most) nounwind {{
entry:
  %keptp = getelementptr i64, ptr %ctx, i64 {KEPT}
  %oldestp = getelementptr i64, ptr %ctx, i64 {OLDEST}
  %newestp = getelementptr i64, ptr %ctx, i64 {NEWEST}
  br label %head
head:
  %kept = load i64, ptr %keptp
  %over = icmp sgt i64 %kept, %most
  br i1 %over, label %drop, label %done
drop:
  %block = load ptr, ptr %oldestp
  %next = load ptr, ptr %block
  store ptr %next, ptr %oldestp
  %last = icmp eq ptr %next, null
  br i1 %last, label %empty, label %rest
empty:
  store ptr null, ptr %newestp
  br label %rest
rest:
  %sizep = getelementptr i64, ptr %block, i64 {SIZE}
  %size = load i64, ptr %sizep
  %left = sub i64 %kept, %size
  store i64 %left, ptr %keptp
  %data = getelementptr i8, ptr %block, i64 {HEADER}
  %begin = ptrtoint ptr %data to i64
  call void @enter()
  %known = call ptr @entry_of(i64 %begin)
  %none = icmp eq ptr %known, null
  br i1 %none, label %gone, label %remove
remove:
  %k = call i64 @position(i64 %begin)
  call void @shift(i64 %k, i64 -1)
  br label %gone
gone:
  call void @forget()
  call void @leave()
  call void @count(ptr %ctx, i64 %size, i64 1)
  call void @dl_give(ptr %ctx, ptr %data)
  br label %head
done:
  ret void
}}

; as `dl_free`
define void @dl_free_checked(ptr %ctx, ptr %data) nounwind {{
  call void @dl_detach(ptr %data)
  call void @dl_give_checked(ptr %ctx, ptr %data)
  ret void
}}

; as `dl_reclaim`
define void @dl_reclaim_checked(ptr %ctx) nounwind {{
entry:
  %live = getelementptr i64, ptr %ctx, i64 {support.LIVE}
  br label %head
head:
  %block = load ptr, ptr %live
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %free
free:
  %data = getelementptr i8, ptr %block, i64 {HEADER}
  call void @dl_free_checked(ptr %ctx, ptr %data)
  br label %head
done:
  ret void
}}

; as `dl_release`
define void @dl_release_checked(ptr %ctx) nounwind {{
  call void @drain(ptr %ctx, i64 0)
  %foundp = getelementptr i64, ptr %ctx, i64 {FOUND}
  %found = load ptr, ptr %foundp
  call void @free(ptr %found)
  store ptr null, ptr %foundp
  call void @dl_release(ptr %ctx)
  ret void
}}

; what is not an array of a run may be touched from now on; `top`: where it says what its end is, if that moves
define i1 @dl_lend(i64 %begin, i64 %end, i64 %top) nounwind {{
entry:
  call void @enter()
  %fits = call i1 @grown(ptr @lent, ptr @lent.count, ptr @lent.room)
  br i1 %fits, label %store, label %done
store:
  %list = load ptr, ptr @lent
  %count = load i64, ptr @lent.count
  %word = mul i64 %count, {ENTRY}
  %p = getelementptr i64, ptr %list, i64 %word
  store i64 %begin, ptr %p
  %ep = getelementptr i64, ptr %p, i64 1
  store i64 %end, ptr %ep
  %tp = getelementptr i64, ptr %p, i64 2
  store i64 %top, ptr %tp
  %more = add i64 %count, 1
  store i64 %more, ptr @lent.count
  br label %done
done:
  call void @leave()
  ret i1 %fits
}}

; no longer
define void @dl_end_loan(i64 %begin, i64 %end) nounwind {{
entry:
  call void @enter()
  %list = load ptr, ptr @lent
  %count = load i64, ptr @lent.count
  %last = sub i64 %count, 1
  %last.word = mul i64 %last, {ENTRY}
  %lastp = getelementptr i64, ptr %list, i64 %last.word
  br label %head
head:
  %k = phi i64 [ %last, %entry ], [ %k2, %next ]
  %more = icmp sge i64 %k, 0
  br i1 %more, label %look, label %done
look:
  %word = mul i64 %k, {ENTRY}
  %p = getelementptr i64, ptr %list, i64 %word
  %b = load i64, ptr %p
  %ep = getelementptr i64, ptr %p, i64 1
  %e = load i64, ptr %ep
  %same.begin = icmp eq i64 %b, %begin
  %same.end = icmp eq i64 %e, %end
  %same = and i1 %same.begin, %same.end
  br i1 %same, label %found, label %next
next:
  %k2 = sub i64 %k, 1
  br label %head
found:
  call void @llvm.memmove.p0.p0.i64(ptr %p, ptr %lastp, i64 {8 * ENTRY}, i1 false)
  store i64 %last, ptr @lent.count
  br label %done
done:
  call void @forget()
  call void @leave()
  ret void
}}

; ---- accesses --------------------------------------------------------------------------------------------------------

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
  %known = load i64, ptr %p
  %beginp = getelementptr i64, ptr %p, i64 1
  %begin = load i64, ptr %beginp
  %endp = getelementptr i64, ptr %p, i64 2
  %end = load i64, ptr %endp
  %atp = getelementptr i64, ptr %p, i64 3
  %at = load i64, ptr %atp
  %version = load atomic i64, ptr @version seq_cst, align 8
  %same = icmp eq i64 %known, %b
  %current = icmp eq i64 %at, %version
  %low = icmp uge i64 %a, %begin
  %high = icmp ule i64 %e, %end
  %onwards = icmp ugt i64 %e, %a
  %t1 = and i1 %same, %current
  %t2 = and i1 %low, %high
  %t3 = and i1 %t2, %onwards
  %ok = and i1 %t1, %t3
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

define internal i1 @within(i64 %a, i64 %e, i64 %begin, i64 %end) nounwind {{
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
  %begin = load i64, ptr %p
  %endp = getelementptr i64, ptr %p, i64 1
  %end = load i64, ptr %endp
  %alivep = getelementptr i64, ptr %p, i64 2
  %alive = load i64, ptr %alivep
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
  %qb = load i64, ptr %q
  %qep = getelementptr i64, ptr %q, i64 1
  %qe = load i64, ptr %qep
  %qtp = getelementptr i64, ptr %q, i64 2
  %qt = load i64, ptr %qtp
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
  store i64 %b, ptr %cell
  %c1 = getelementptr i64, ptr %cell, i64 1
  store i64 %rb, ptr %c1
  %c2 = getelementptr i64, ptr %cell, i64 2
  store i64 %re, ptr %c2
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
  %begin = load i64, ptr %q
  %ep = getelementptr i64, ptr %q, i64 1
  %end = load i64, ptr %ep
  %tp = getelementptr i64, ptr %q, i64 2
  %top = load i64, ptr %tp
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
