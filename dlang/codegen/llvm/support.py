"""Holds the LLVM text that compiled code shares: the layout of a run's context, memory, and the record of a failure.

A context belongs to one run at a time. Memory comes in size classes (four for each power of two) from free lists that
the context keeps; each block has a header of 64 bytes in front, and blocks in use are chained, so that all of them can
be taken back after a failure. A function that fails returns true as its status, with the site in the context.
"""

from __future__ import annotations

# words of 8 bytes in a context
SITE, STACK_LIMIT, CALLBACK, LIVE, CALLS, IN_USE, TAKEN, PEAK = range(8)
ARENA_TOP, ARENA_LIMIT, ARENA_END = range(8, 11)
HOME, FUEL, DEADLINE, INTERVAL = range(11, 15)
POOL, REGION, PIECE = range(15, 18)
MEASURED = 18  # ticks that nests have taken, where a program measures itself
DEVICE = 19  # the address of a table (`devices.py`), where a program has work for a device
ARENA_SEEN, ARENA_CREDIT = 20, 21  # up to where the collector has counted what was placed; what it may still copy
CHECKED = 22  # four words for a program that is sanitised (`registry.py`)
FREE_LISTS = 26
CLASSES = 64 * 8 + 16
TRACE = FREE_LISTS + CLASSES
TRACE_LENGTH = 64
SLOTS = TRACE + TRACE_LENGTH
MESSAGE_ROOM = 64
"""The words of a message that every context has room for."""

# words of a block's header: next and the address of what points here, while it is in use; its class; its bytes; how
# many were asked for
NEXT, BACK, CLASS, SIZE, ASKED = range(5)
HEADER = 64
HUGE = 4 << 20

OUT_OF_MEMORY, STACK_EXHAUSTED, INTERRUPTED = 0, 1, 2
"""The sites that every program has."""

NAMES = (
    "dl_alloc", "dl_free", "dl_take", "dl_give", "dl_attach", "dl_detach", "dl_reclaim", "dl_trace", "dl_frame",
    "dl_release", "dl_enter", "dl_callback", "dl_poll", "dl_deeper", "dl_ticks", "dl_times",
)  # fmt: skip

LOOK, DEEPER, START = -1, -2, -3
"""The questions to the host besides the work of sites: whether the run should end, for more stack, for threads."""
STOPPED = -4
"""The failure of a piece of a loop that ended because one before it had failed."""

FUEL_OF_A_CALL, FUEL_OF_ITERATIONS, FULL = 1, 512, 1024
"""The fuel of recursive calls and chunks of iterations: the clock is read when it is used up."""

FINE = 1
"""The answer of the host; anything else is a failure, as where its answer is lost."""

DECLARATIONS = """
declare i32 @dl_callback(ptr, i64, ptr)
declare i1 @dl_poll(ptr, i64)
declare i1 @dl_deeper(ptr, ptr)
declare i64 @dl_times(i64, i64) nounwind willreturn memory(none)
declare ptr @dl_alloc(ptr, i64)
declare void @dl_free(ptr, ptr)
declare void @dl_trace(ptr, i64)
"""

TEXT = f"""
declare ptr @aligned_alloc(i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @free(ptr)
declare i64 @llvm.ctlz.i64(i64, i1 immarg)
declare i64 @llvm.smax.i64(i64, i64)
declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)
declare ptr @llvm.frameaddress.p0(i32 immarg)
declare i64 @llvm.readcyclecounter()

; the processor's clock
define i64 @dl_ticks() nounwind {{
  %ticks = call i64 @llvm.readcyclecounter()
  ret i64 %ticks
}}

; a product of sizes; -1 if it can't be counted
define i64 @dl_times(i64 %x, i64 %y) nounwind {{
  %pair = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %x, i64 %y)
  %over = extractvalue {{ i64, i1 }} %pair, 1
  %product = extractvalue {{ i64, i1 }} %pair, 0
  %result = select i1 %over, i64 -1, i64 %product
  ret i64 %result
}}

; where the stack is now
define ptr @dl_frame() nounwind {{
  %p = call ptr @llvm.frameaddress.p0(i32 0)
  ret ptr %p
}}

; `bytes` more are in use
define internal void @count(ptr %ctx, i64 %bytes) alwaysinline nounwind {{
  %usedp = getelementptr i64, ptr %ctx, i64 {IN_USE}
  %used = load i64, ptr %usedp
  %more = add i64 %used, %bytes
  store i64 %more, ptr %usedp
  %peakp = getelementptr i64, ptr %ctx, i64 {PEAK}
  %peak = load i64, ptr %peakp
  %higher = call i64 @llvm.smax.i64(i64 %peak, i64 %more)
  store i64 %higher, ptr %peakp
  ret void
}}

; room for `bytes`, not chained; null if there is none
define ptr @dl_take(ptr %ctx, i64 %bytes) nounwind {{
entry:
  %sane = icmp ult i64 %bytes, {1 << 46}
  br i1 %sane, label %round, label %none
none:
  ret ptr null
round:
  %small = icmp ult i64 %bytes, 64
  %size = select i1 %small, i64 64, i64 %bytes
  %less = sub i64 %size, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %less, i1 false)
  %top = sub i64 61, %zeros
  %low = icmp slt i64 %top, 6
  %shift = select i1 %low, i64 6, i64 %top
  %unit = shl i64 1, %shift
  %up = add i64 %size, %unit
  %upper = sub i64 %up, 1
  %quarters = lshr i64 %upper, %shift
  %room = shl i64 %quarters, %shift
  %row = mul i64 %shift, 8
  %class = add i64 %row, %quarters
  %word = add i64 %class, {FREE_LISTS}
  %list = getelementptr i64, ptr %ctx, i64 %word
  %head = load ptr, ptr %list
  %empty = icmp eq ptr %head, null
  br i1 %empty, label %fresh, label %reuse
reuse:
  %next = load ptr, ptr %head
  store ptr %next, ptr %list
  call void @count(ptr %ctx, i64 %room)
  %data = getelementptr i8, ptr %head, i64 {HEADER}
  ret ptr %data
fresh:
  %total = add i64 %room, {HEADER}
  %big = icmp uge i64 %total, {HUGE}
  br i1 %big, label %huge, label %plain
plain:
  %p = call ptr @aligned_alloc(i64 64, i64 %total)
  br label %got
huge:
  %more = add i64 %total, {(2 << 20) - 1}
  %whole = and i64 %more, -{2 << 20}
  %q = call ptr @aligned_alloc(i64 {2 << 20}, i64 %whole)
  %fail = icmp eq ptr %q, null
  br i1 %fail, label %none, label %advise
advise:
  %ignored = call i32 @madvise(ptr %q, i64 %whole, i32 14)
  br label %got
got:
  %block = phi ptr [ %p, %plain ], [ %q, %advise ]
  %bad = icmp eq ptr %block, null
  br i1 %bad, label %none, label %made
made:
  %classp = getelementptr i64, ptr %block, i64 {CLASS}
  store i64 %class, ptr %classp
  %sizep = getelementptr i64, ptr %block, i64 {SIZE}
  store i64 %room, ptr %sizep
  %takenp = getelementptr i64, ptr %ctx, i64 {TAKEN}
  %taken = load i64, ptr %takenp
  %taken2 = add i64 %taken, %room
  store i64 %taken2, ptr %takenp
  call void @count(ptr %ctx, i64 %room)
  %fine = getelementptr i8, ptr %block, i64 {HEADER}
  ret ptr %fine
}}

; takes back what `dl_take` gave
define void @dl_give(ptr %ctx, ptr %data) nounwind {{
  %block = getelementptr i8, ptr %data, i64 -{HEADER}
  %classp = getelementptr i64, ptr %block, i64 {CLASS}
  %class = load i64, ptr %classp
  %sizep = getelementptr i64, ptr %block, i64 {SIZE}
  %size = load i64, ptr %sizep
  %usedp = getelementptr i64, ptr %ctx, i64 {IN_USE}
  %used = load i64, ptr %usedp
  %fewer = sub i64 %used, %size
  store i64 %fewer, ptr %usedp
  %word = add i64 %class, {FREE_LISTS}
  %list = getelementptr i64, ptr %ctx, i64 %word
  %head = load ptr, ptr %list
  store ptr %head, ptr %block
  store ptr %block, ptr %list
  ret void
}}

define ptr @dl_alloc(ptr %ctx, i64 %bytes) nounwind {{
  %data = call ptr @dl_take(ptr %ctx, i64 %bytes)
  %bad = icmp eq ptr %data, null
  br i1 %bad, label %none, label %chain
none:
  ret ptr null
chain:
  call void @dl_attach(ptr %ctx, ptr %data, i64 %bytes)
  ret ptr %data
}}

; puts a block into the chain of those in use
define void @dl_attach(ptr %ctx, ptr %data, i64 %bytes) nounwind {{
  %block = getelementptr i8, ptr %data, i64 -{HEADER}
  %live = getelementptr i64, ptr %ctx, i64 {LIVE}
  %first = load ptr, ptr %live
  %askedp = getelementptr i64, ptr %block, i64 {ASKED}
  store i64 %bytes, ptr %askedp
  store ptr %first, ptr %block
  %backp = getelementptr i64, ptr %block, i64 {BACK}
  store ptr %live, ptr %backp
  store ptr %block, ptr %live
  %only = icmp eq ptr %first, null
  br i1 %only, label %done, label %second
second:
  %back2 = getelementptr i64, ptr %first, i64 {BACK}
  store ptr %block, ptr %back2
  br label %done
done:
  ret void
}}

; takes a block out of the chain of those in use
define void @dl_detach(ptr %data) nounwind {{
  %block = getelementptr i8, ptr %data, i64 -{HEADER}
  %next = load ptr, ptr %block
  %backp = getelementptr i64, ptr %block, i64 {BACK}
  %back = load ptr, ptr %backp
  store ptr %next, ptr %back
  %last = icmp eq ptr %next, null
  br i1 %last, label %done, label %relink
relink:
  %nextback = getelementptr i64, ptr %next, i64 {BACK}
  store ptr %back, ptr %nextback
  br label %done
done:
  ret void
}}

define void @dl_free(ptr %ctx, ptr %data) nounwind {{
  call void @dl_detach(ptr %data)
  call void @dl_give(ptr %ctx, ptr %data)
  ret void
}}

; frees all that is in use, after a failure
define void @dl_reclaim(ptr %ctx) nounwind {{
entry:
  %live = getelementptr i64, ptr %ctx, i64 {LIVE}
  br label %head
head:
  %block = load ptr, ptr %live
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %free
free:
  %data = getelementptr i8, ptr %block, i64 {HEADER}
  call void @dl_free(ptr %ctx, ptr %data)
  br label %head
done:
  ret void
}}

; gives all that is in the free lists back to the system
define void @dl_release(ptr %ctx) nounwind {{
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k, %free ], [ %next, %empty ]
  %word = add i64 %k, {FREE_LISTS}
  %list = getelementptr i64, ptr %ctx, i64 %word
  %block = load ptr, ptr %list
  %none = icmp eq ptr %block, null
  br i1 %none, label %empty, label %free
free:
  %rest = load ptr, ptr %block
  store ptr %rest, ptr %list
  call void @free(ptr %block)
  br label %head
empty:
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, {CLASSES}
  br i1 %more, label %head, label %done
done:
  ret void
}}

; notes the call that a failure passes through
define void @dl_trace(ptr %ctx, i64 %site) cold noinline nounwind {{
  %countp = getelementptr i64, ptr %ctx, i64 {CALLS}
  %count = load i64, ptr %countp
  %next = add i64 %count, 1
  store i64 %next, ptr %countp
  %room = icmp ult i64 %count, {TRACE_LENGTH}
  br i1 %room, label %note, label %done
note:
  %word = add i64 %count, {TRACE}
  %p = getelementptr i64, ptr %ctx, i64 %word
  store i64 %site, ptr %p
  br label %done
done:
  ret void
}}

; has the host do something; whether it did
define i32 @dl_callback(ptr %ctx, i64 %site, ptr %slots) noinline nounwind {{
  store i64 %site, ptr %ctx
  %callbackp = getelementptr i64, ptr %ctx, i64 {CALLBACK}
  %callback = load ptr, ptr %callbackp
  %homep = getelementptr i64, ptr %ctx, i64 {HOME}
  %home = load ptr, ptr %homep
  %here = icmp eq ptr %home, null
  br i1 %here, label %direct, label %away
direct:
  %answer = call i32 %callback(ptr %slots, ptr null)
  ret i32 %answer
away:
  %saved = alloca ptr
  %back = call i32 @dl_switch(ptr %callback, ptr %slots, ptr null, ptr %home, ptr %saved)
  ret i32 %back
}}

; runs an entry on the stack that ends at `top`; the host's work is done on the stack of the caller
define i32 @dl_enter(ptr %entry, ptr %ctx, ptr %words, ptr %top) nounwind {{
  %homep = getelementptr i64, ptr %ctx, i64 {HOME}
  %failed = call i32 @dl_switch(ptr %entry, ptr %ctx, ptr %words, ptr %top, ptr %homep)
  store ptr null, ptr %homep
  ret i32 %failed
}}

; uses up fuel; from time to time, by the clock, asks the host whether to go on. Whether the run has to end
define i1 @dl_poll(ptr %ctx, i64 %cost) cold noinline nounwind {{
  %fuelp = getelementptr i64, ptr %ctx, i64 {FUEL}
  %fuel = load i64, ptr %fuelp
  %left = sub i64 %fuel, %cost
  store i64 %left, ptr %fuelp
  %empty = icmp slt i64 %left, 0
  br i1 %empty, label %look, label %fine
fine:
  ret i1 false
look:
  store i64 {FULL}, ptr %fuelp
  %stopped = call i1 @dl_stopped(ptr %ctx)
  br i1 %stopped, label %over, label %clock
over:
  ret i1 true
clock:
  %intervalp = getelementptr i64, ptr %ctx, i64 {INTERVAL}
  %deadlinep = getelementptr i64, ptr %ctx, i64 {DEADLINE}
  %deadline = load i64, ptr %deadlinep
  %now = call i64 @llvm.readcyclecounter()
  %late = icmp ugt i64 %now, %deadline
  br i1 %late, label %due, label %fine
due:
  %interval = load i64, ptr %intervalp
  %next = add i64 %now, %interval
  store i64 %next, ptr %deadlinep
  %first = icmp eq i64 %deadline, 0
  br i1 %first, label %fine, label %ask
ask:
  %answer = call i32 @dl_callback(ptr %ctx, i64 {LOOK}, ptr null)
  %end = icmp ne i32 %answer, {FINE}
  br i1 %end, label %interrupted, label %fine
interrupted:
  store i64 {INTERRUPTED}, ptr %ctx
  ret i1 true
}}

; asks the host for more stack; whether there is some
define i1 @dl_deeper(ptr %ctx, ptr %frame) cold noinline nounwind {{
  %answer = call i32 @dl_callback(ptr %ctx, i64 {DEEPER}, ptr %frame)
  %more = icmp eq i32 %answer, {FINE}
  ret i1 %more
}}
"""

SWITCH = """
; calls f(a, b) on the stack that ends at `top`; stores where this one is now
define i32 @dl_switch(ptr %f, ptr %a, ptr %b, ptr %top, ptr %saved) naked nounwind {
  call void asm sideeffect "\
pushq %rbp\\0A\
movq %rsp, %rbp\\0A\
movq %rsp, (%r8)\\0A\
movq %rcx, %rsp\\0A\
movq %rdi, %rax\\0A\
movq %rsi, %rdi\\0A\
movq %rdx, %rsi\\0A\
callq *%rax\\0A\
movq %rbp, %rsp\\0A\
popq %rbp\\0A\
retq", ""()
  unreachable
}
"""

NO_SWITCH = """
define i32 @dl_switch(ptr %f, ptr %a, ptr %b, ptr %top, ptr %saved) nounwind {
  %result = call i32 %f(ptr %a, ptr %b)
  ret i32 %result
}
"""


def loaded(at: str, *names: str) -> str:
    """The lines that load the words from an address on, under these names. at: the name of the address."""
    lines = [f"  %{names[0]} = load i64, ptr %{at}"]
    for k, name in enumerate(names[1:], 1):
        lines += [f"  %{name}.p = getelementptr i64, ptr %{at}, i64 {k}", f"  %{name} = load i64, ptr %{name}.p"]
    return "\n".join(lines)


def stored(at: str, *values: str) -> str:
    """The lines that store words from an address on. at: the name of the address."""
    lines = [f"  store i64 {values[0]}, ptr %{at}"]
    for k, value in enumerate(values[1:], 1):
        lines += [f"  %{at}.{k} = getelementptr i64, ptr %{at}, i64 {k}", f"  store i64 {value}, ptr %{at}.{k}"]
    return "\n".join(lines)


def switch_text(x86: bool) -> str:
    """The function that changes stacks, by the conventions of System V on x86-64; elsewhere it stays on this one."""
    return SWITCH if x86 else NO_SWITCH
