"""The thread pool of a process, as LLVM text: pieces of a loop, claimed one by one by whichever thread is free.

A region is one loop that runs in pieces. It has a slot in the pool while it does; several threads of Python may have
one each. Who has nothing to do claims the next piece of any slot, so a thread that the system holds up delays the piece
that it is at and no other. A region ends when all its pieces have: no thread needs to be heard of that came too late to
get one.

What makes the pieces depends on sizes alone, and the first piece in order that fails gives the region its failure: so
results and messages are the same with any number of threads.
"""

from __future__ import annotations

from dlang.codegen.llvm import pieces, support, waiting
from dlang.codegen.llvm.support import (
    CALLS,
    INTERRUPTED,
    MESSAGE_ROOM,
    PIECE,
    POOL,
    REGION,
    SLOTS,
    START,
    STOPPED,
    TRACE,
)  # fmt: skip

# words of 8 bytes in a pool; what different threads write lies in different cache lines
EPOCH = 0  # counts regions; who sleeps waits for it to change
SLEEPERS = 8
# how many may be at work, the caller too; how many have been started to help; how often that has been said anew, for
# which those wait who are too many
THREADS, STARTED, CLOSING, CHANGES = range(16, 20)
# from `waiting.LOCK` on: what threads wait on
FIRST_SLOT = 56

# words of a slot
STATE = 0  # generation (32 bits), pieces (16), the next one (16)
DONE = 8
BUSY, BODY, ENV, FAILED, RECORD, RECORDING = range(16, 22)
SLOT = 24
REGIONS = 8  # at once; further ones run on their own thread alone
POOL_WORDS = FIRST_SLOT + REGIONS * SLOT

# words of what a worker is given: the pool, its number, whether it has ended, and a context of its own
OF_POOL, NUMBER, ENDED = range(3)
WORKER_CONTEXT = 8
WORKER_WORDS = WORKER_CONTEXT + SLOTS + MESSAGE_ROOM

# words that a region is given by the loop: its range, the iterations of a piece, and where pieces leave their results
LOW, HIGH, LENGTH, RESULTS, CAPTURES = range(5)

SPIN = 1000  # looks until a thread that waits gives way to others
YIELDS = 100  # then it does so often, and sleeps
NAP = 50_000  # nanoseconds
NOBODY = 2**63 - 1
RECORD_WORDS = 2 + SLOTS - TRACE + MESSAGE_ROOM

NAMES = ("dl_parallel", "dl_worker", "dl_wake", *pieces.NAMES)
IMPORTS = ("sched_yield", "nanosleep")

DECLARATIONS = pieces.DECLARATIONS + "declare i64 @dl_parallel(ptr, ptr, ptr)\n"


def text(futexes: bool, x86: bool) -> str:
    """The functions of the pool. futexes: whether the system is Linux on x86-64."""
    return TEXT + pieces.text() + waiting.text(futexes, x86)


_SLOT = f"""\
  %room = mul i64 %k, {SLOT}
  %word = add i64 %room, {FIRST_SLOT}
  %slot = getelementptr i64, ptr %pool, i64 %word
"""
"""The slot with a number."""

_LEFT = """\
  %state = load atomic i64, ptr %slot acquire, align 8
  %follows = and i64 %state, 65535
  %shifted = lshr i64 %state, 16
  %n = and i64 %shifted, 65535
  %left = icmp ult i64 %follows, %n
"""
"""Computes which piece of a slot follows, how many there are, and whether one is left."""

TEXT = f"""
declare i32 @sched_yield()
declare i32 @nanosleep(ptr, ptr)

; runs the pieces of a loop, `i1 body(context, env, piece)`, true for a failure; how many there were, -1 after a failure
define i64 @dl_parallel(ptr %ctx, ptr %body, ptr %env) nounwind {{
entry:
  %lowp = getelementptr i64, ptr %env, i64 {LOW}
  %low = load i64, ptr %lowp
  %highp = getelementptr i64, ptr %env, i64 {HIGH}
  %high = load i64, ptr %highp
  %lengthp = getelementptr i64, ptr %env, i64 {LENGTH}
  %length = load i64, ptr %lengthp
  %iterations = sub i64 %high, %low
  %some = icmp sgt i64 %iterations, 0
  br i1 %some, label %one, label %none
none:
  ret i64 0
one:
  %whole = icmp sge i64 %length, %iterations
  br i1 %whole, label %single, label %several
single:
  %bad = call i1 %body(ptr %ctx, ptr %env, i64 0)
  %answer = select i1 %bad, i64 -1, i64 1
  ret i64 %answer
several:
  %more = add i64 %iterations, %length
  %upper = sub i64 %more, 1
  %n = sdiv i64 %upper, %length
  %slot = call ptr @dl_slot(ptr %ctx)
  %alone = icmp eq ptr %slot, null
  br i1 %alone, label %serial, label %together
together:
  %result = call i64 @dl_together(ptr %ctx, ptr %slot, ptr %body, ptr %env, i64 %n)
  ret i64 %result
serial:
  %k = phi i64 [ 0, %several ], [ %k2, %fine ]
  %wrong = call i1 %body(ptr %ctx, ptr %env, i64 %k)
  br i1 %wrong, label %failed, label %fine
fine:
  %k2 = add i64 %k, 1
  %again = icmp slt i64 %k2, %n
  br i1 %again, label %serial, label %over
over:
  ret i64 %n
failed:
  ret i64 -1
}}

; a slot for a region, null if this thread is to do it alone: it is in a region already, or nobody helps
define internal ptr @dl_slot(ptr %ctx) nounwind {{
entry:
  %poolp = getelementptr i64, ptr %ctx, i64 {POOL}
  %pool = load ptr, ptr %poolp
  %nested = icmp eq ptr %pool, null
  br i1 %nested, label %none, label %ask
ask:
  %threadsp = getelementptr i64, ptr %pool, i64 {THREADS}
  %threads = load atomic i64, ptr %threadsp monotonic, align 8
  %alone = icmp slt i64 %threads, 2
  br i1 %alone, label %none, label %helped
helped:
  %startedp = getelementptr i64, ptr %pool, i64 {STARTED}
  %started = load atomic i64, ptr %startedp monotonic, align 8
  %few = icmp slt i64 %started, 1
  br i1 %few, label %start, label %find
start:
  %told = call i32 @dl_callback(ptr %ctx, i64 {START}, ptr null)
  %now = load atomic i64, ptr %startedp monotonic, align 8
  %still = icmp slt i64 %now, 1
  br i1 %still, label %none, label %find
find:
  %k = phi i64 [ 0, %helped ], [ 0, %start ], [ %k2, %next ]
{_SLOT}  %busyp = getelementptr i64, ptr %slot, i64 {BUSY}
  %pair = cmpxchg ptr %busyp, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %found, label %next
next:
  %k2 = add i64 %k, 1
  %left = icmp slt i64 %k2, {REGIONS}
  br i1 %left, label %find, label %none
found:
  ret ptr %slot
none:
  ret ptr null
}}

; runs the pieces of a region with whoever helps
define internal i64 @dl_together(ptr %ctx, ptr %slot, ptr %body, ptr %env, i64 %n) noinline nounwind {{
entry:
  %record = alloca [{RECORD_WORDS} x i64], align 8
  %bodyp = getelementptr i64, ptr %slot, i64 {BODY}
  store ptr %body, ptr %bodyp
  %envp = getelementptr i64, ptr %slot, i64 {ENV}
  store ptr %env, ptr %envp
  %recordp = getelementptr i64, ptr %slot, i64 {RECORD}
  store ptr %record, ptr %recordp
  %failedp = getelementptr i64, ptr %slot, i64 {FAILED}
  store atomic i64 {NOBODY}, ptr %failedp monotonic, align 8
  %donep = getelementptr i64, ptr %slot, i64 {DONE}
  store atomic i64 0, ptr %donep monotonic, align 8
  %poolp = getelementptr i64, ptr %ctx, i64 {POOL}
  %pool = load ptr, ptr %poolp
  store ptr null, ptr %poolp
  %state = load atomic i64, ptr %slot monotonic, align 8
  %generation = lshr i64 %state, 32
  %later = add i64 %generation, 1
  %high = shl i64 %later, 32
  %count = shl i64 %n, 16
  %ready = or i64 %high, %count
  store atomic i64 %ready, ptr %slot release, align 8
  %ignored = atomicrmw add ptr %pool, i32 1 seq_cst
  %sleepersp = getelementptr i64, ptr %pool, i64 {SLEEPERS}
  %sleepers = load atomic i64, ptr %sleepersp seq_cst, align 8
  %asleep = icmp sgt i64 %sleepers, 0
  br i1 %asleep, label %wake, label %work
wake:
  %threadsp = getelementptr i64, ptr %pool, i64 {THREADS}
  %threads = load atomic i64, ptr %threadsp monotonic, align 8
  %enough = call i64 @llvm.umin.i64(i64 %threads, i64 %n)
  %helpers = sub i64 %enough, 1
  call void @dl_wake(ptr %pool, ptr %pool, i64 %helpers)
  br label %work
work:
  call void @dl_claim(ptr %ctx, ptr %slot)
  %regionp = getelementptr i64, ptr %ctx, i64 {REGION}
  store ptr null, ptr %regionp
  br label %wait
wait:
  %looks = phi i64 [ 0, %work ], [ %looks2, %spin ], [ %looks2, %yield ], [ {SPIN + YIELDS}, %nap ]
  %done = load atomic i64, ptr %donep acquire, align 8
  %all = icmp sge i64 %done, %n
  br i1 %all, label %end, label %more
more:
  %looks2 = add i64 %looks, 1
  %soon = icmp slt i64 %looks, {SPIN}
  br i1 %soon, label %spin, label %long
spin:
  call void @dl_pause()
  br label %wait
long:
  %brief = icmp slt i64 %looks, {SPIN + YIELDS}
  br i1 %brief, label %yield, label %sleep
yield:
  %y = call i32 @sched_yield()
  br label %wait
sleep:
  call void @dl_nap()
  %ended = load atomic i64, ptr %failedp monotonic, align 8
  %going = icmp sge i64 %ended, 0
  br i1 %going, label %look, label %nap
look:
  %stop = call i1 @dl_poll(ptr %ctx, i64 {support.FULL + 1})
  br i1 %stop, label %interrupted, label %nap
interrupted:
  call void @dl_fail(ptr %ctx, ptr %slot, i64 -1)
  br label %nap
nap:
  br label %wait
end:
  store ptr %pool, ptr %poolp
  %first = load atomic i64, ptr %failedp monotonic, align 8
  %busyp = getelementptr i64, ptr %slot, i64 {BUSY}
  store atomic i64 0, ptr %busyp release, align 8
  %fine = icmp eq i64 %first, {NOBODY}
  br i1 %fine, label %good, label %bad
good:
  ret i64 %n
bad:
  %site = load i64, ptr %record
  store i64 %site, ptr %ctx
  %recordedp = getelementptr i64, ptr %record, i64 1
  %calls = load i64, ptr %recordedp
  %callsp = getelementptr i64, ptr %ctx, i64 {CALLS}
  store i64 %calls, ptr %callsp
  %from = getelementptr i64, ptr %record, i64 2
  %to = getelementptr i64, ptr %ctx, i64 {TRACE}
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 {8 * (RECORD_WORDS - 2)}, i1 false)
  ret i64 -1
}}

; claims pieces of a region and runs them until there are none
define internal void @dl_claim(ptr %ctx, ptr %slot) nounwind {{
entry:
  %regionp = getelementptr i64, ptr %ctx, i64 {REGION}
  %piecep = getelementptr i64, ptr %ctx, i64 {PIECE}
  %bodyp = getelementptr i64, ptr %slot, i64 {BODY}
  %envp = getelementptr i64, ptr %slot, i64 {ENV}
  %donep = getelementptr i64, ptr %slot, i64 {DONE}
  br label %look
look:
{_LEFT}  br i1 %left, label %try, label %over
over:
  ret void
try:
  %following = add i64 %state, 1
  %pair = cmpxchg ptr %slot, i64 %state, i64 %following seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %run, label %look
run:
  ; the region can't end before this piece has, so what its slot says stays
  %body = load ptr, ptr %bodyp
  %env = load ptr, ptr %envp
  store ptr %slot, ptr %regionp
  store i64 %follows, ptr %piecep
  %bad = call i1 %body(ptr %ctx, ptr %env, i64 %follows)
  br i1 %bad, label %failed, label %fine
fine:
  %ignored = atomicrmw add ptr %donep, i64 1 seq_cst
  br label %look
failed:
  %site = load i64, ptr %ctx
  %ended = icmp eq i64 %site, {INTERRUPTED}
  %piece = select i1 %ended, i64 -1, i64 %follows
  call void @dl_fail(ptr %ctx, ptr %slot, i64 %piece)
  br label %skip
skip:
  ; those after it need not run; those before it are under way or done
  %now = load atomic i64, ptr %slot acquire, align 8
  %nextnow = and i64 %now, 65535
  %skipped = sub i64 %n, %nextnow
  %closed = add i64 %now, %skipped
  %swap = cmpxchg ptr %slot, i64 %now, i64 %closed seq_cst seq_cst
  %won = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %won, label %count, label %skip
count:
  %gone = add i64 %skipped, 1
  %ignored2 = atomicrmw add ptr %donep, i64 %gone seq_cst
  ret void
}}

; notes the failure of a piece, if it is the first in order so far
define internal void @dl_fail(ptr %ctx, ptr %slot, i64 %piece) nounwind {{
entry:
  %lockp = getelementptr i64, ptr %slot, i64 {RECORDING}
  br label %lock
lock:
  %held = atomicrmw xchg ptr %lockp, i64 1 seq_cst
  %free = icmp eq i64 %held, 0
  br i1 %free, label %compare, label %lock
compare:
  %failedp = getelementptr i64, ptr %slot, i64 {FAILED}
  %before = load atomic i64, ptr %failedp monotonic, align 8
  %first = icmp slt i64 %piece, %before
  br i1 %first, label %note, label %unlock
note:
  store atomic i64 %piece, ptr %failedp seq_cst, align 8
  %recordp = getelementptr i64, ptr %slot, i64 {RECORD}
  %record = load ptr, ptr %recordp
  %site = load i64, ptr %ctx
  store i64 %site, ptr %record
  %callsp = getelementptr i64, ptr %ctx, i64 {CALLS}
  %calls = load i64, ptr %callsp
  %recordedp = getelementptr i64, ptr %record, i64 1
  store i64 %calls, ptr %recordedp
  %from = getelementptr i64, ptr %ctx, i64 {TRACE}
  %to = getelementptr i64, ptr %record, i64 2
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 {8 * (RECORD_WORDS - 2)}, i1 false)
  br label %unlock
unlock:
  store atomic i64 0, ptr %lockp release, align 8
  ret void
}}

; whether a piece that failed comes before the one that this thread is at
define internal i1 @dl_stopped(ptr %ctx) nounwind {{
entry:
  %regionp = getelementptr i64, ptr %ctx, i64 {REGION}
  %slot = load ptr, ptr %regionp
  %outside = icmp eq ptr %slot, null
  br i1 %outside, label %no, label %inside
no:
  ret i1 false
inside:
  %failedp = getelementptr i64, ptr %slot, i64 {FAILED}
  %failed = load atomic i64, ptr %failedp monotonic, align 8
  %piecep = getelementptr i64, ptr %ctx, i64 {PIECE}
  %piece = load i64, ptr %piecep
  %before = icmp slt i64 %failed, %piece
  br i1 %before, label %yes, label %no
yes:
  store i64 {STOPPED}, ptr %ctx
  ret i1 true
}}

; what a thread of the pool does: helps with regions until the pool is closed
define ptr @dl_worker(ptr %self) nounwind {{
entry:
  %pool = load ptr, ptr %self
  %numberp = getelementptr i64, ptr %self, i64 1
  %number = load i64, ptr %numberp
  %ctx = getelementptr i64, ptr %self, i64 {WORKER_CONTEXT}
  %threadsp = getelementptr i64, ptr %pool, i64 {THREADS}
  %closingp = getelementptr i64, ptr %pool, i64 {CLOSING}
  %sleepersp = getelementptr i64, ptr %pool, i64 {SLEEPERS}
  %changesp = getelementptr i64, ptr %pool, i64 {CHANGES}
  %callsp = getelementptr i64, ptr %ctx, i64 {CALLS}
  br label %top
top:
  %changes = load atomic i32, ptr %changesp seq_cst, align 8
  %seen = load atomic i32, ptr %pool seq_cst, align 4
  %closing = load atomic i64, ptr %closingp seq_cst, align 8
  %open = icmp eq i64 %closing, 0
  br i1 %open, label %check, label %leave
leave:
  call void @dl_release(ptr %ctx)
  %endedp = getelementptr i64, ptr %self, i64 {ENDED}
  store atomic i64 1, ptr %endedp release, align 8
  ret ptr null
check:
  %threads = load atomic i64, ptr %threadsp monotonic, align 8
  %wanted = icmp slt i64 %number, %threads
  br i1 %wanted, label %scan, label %rest
rest:
  call void @dl_sleep(ptr %pool, ptr %changesp, i32 %changes)
  br label %top
scan:
  %k = phi i64 [ 0, %check ], [ %k2, %next ]
  %any = phi i1 [ false, %check ], [ %any2, %next ]
{_SLOT}{_LEFT}  br i1 %left, label %help, label %next
help:
  store i64 0, ptr %callsp
  call void @dl_claim(ptr %ctx, ptr %slot)
  call void @dl_reclaim(ptr %ctx)
  br label %next
next:
  %any2 = phi i1 [ %any, %scan ], [ true, %help ]
  %k2 = add i64 %k, 1
  %go = icmp slt i64 %k2, {REGIONS}
  br i1 %go, label %scan, label %scanned
scanned:
  br i1 %any2, label %top, label %spin
spin:
  %looks = phi i64 [ 0, %scanned ], [ %looks2, %again ]
  %now = load atomic i32, ptr %pool monotonic, align 4
  %new = icmp ne i32 %now, %seen
  br i1 %new, label %top, label %again
again:
  call void @dl_pause()
  %looks2 = add i64 %looks, 1
  %soon = icmp slt i64 %looks2, {SPIN}
  br i1 %soon, label %spin, label %sleep
sleep:
  %a = atomicrmw add ptr %sleepersp, i64 1 seq_cst
  call void @dl_sleep(ptr %pool, ptr %pool, i32 %seen)
  %b = atomicrmw sub ptr %sleepersp, i64 1 seq_cst
  br label %top
}}

define internal void @dl_nap() nounwind {{
  %time = alloca [2 x i64]
  store i64 0, ptr %time
  %nanoseconds = getelementptr i64, ptr %time, i64 1
  store i64 {NAP}, ptr %nanoseconds
  %ignored = call i32 @nanosleep(ptr %time, ptr null)
  ret void
}}
"""
