"""The memory that sanitised code may touch, as LLVM text: a table of all arrays.

A process has one table, behind a lock: arrays that sanitised runs have made, in order of their addresses, alive or
freed; and what is lent to runs, which is arguments, results of the caller's, and arenas of nodes. `access_checks.py`
compares accesses with it.

New memory, and memory that has been freed, is filled with ones in all bits, which are NaN or -1: so an element that is
read before it is written shows. What is freed is kept from being used again until some more has been (`HELD` bytes).
"""

from __future__ import annotations

from dlang.codegen.llvm import support
from dlang.codegen.llvm.support import HEADER, SIZE, loaded, stored

# words of a context, which other code leaves alone: freed blocks that are kept, from the oldest to the newest, by the
# word that chains those in use; their bytes; what has been found
OLDEST, NEWEST, KEPT, FOUND = range(support.CHECKED, support.CHECKED + 4)
HELD = 64 << 20
"""The bytes of freed memory that a context keeps from being used again."""
ENTRY = 3  # words of an entry: beginning, end, and whether it is alive; of one that is lent, a pointer to its end or 0

NAMES = (
    "dl_take_checked", "dl_alloc_checked", "dl_give_checked", "dl_free_checked", "dl_reclaim_checked",
    "dl_release_checked", "dl_lend", "dl_end_loan",
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
{loaded("p", "b", "e")}
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
{stored("p3", "%begin", "%end", "1")}
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
{stored("p", "%begin", "%end", "%top")}
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
{loaded("p", "b", "e")}
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
"""
