"""How a thread of the pool waits until a word of the pool changes, as LLVM text.

On Linux it sleeps on the word, a futex; elsewhere on a condition variable of POSIX.
"""

from __future__ import annotations

LOCK, SIGNAL = 24, 40  # words of a pool: a mutex and a condition variable, where there are no futexes

WITH_FUTEXES = ("syscall",)
WITHOUT = ("pthread_mutex_lock", "pthread_mutex_unlock", "pthread_cond_wait", "pthread_cond_broadcast")


def text(futexes: bool, x86: bool) -> str:
    """The functions that wait. futexes: whether the system is Linux on x86-64."""
    return (FUTEXES if futexes else CONDITIONS) + (PAUSE if x86 else NO_PAUSE)


FUTEXES = """
declare i64 @syscall(i64, ...)

; sleeps until a word is no longer what was seen
define internal void @dl_sleep(ptr %pool, ptr %word, i32 %seen) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 202, ptr %word, i32 128, i32 %seen, ptr null, ptr null, i32 0)
  ret void
}

; wakes so many of those who sleep on a word, at least
define void @dl_wake(ptr %pool, ptr %word, i64 %many) nounwind {
  %count = trunc i64 %many to i32
  %r = call i64 (i64, ...) @syscall(i64 202, ptr %word, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}
"""

CONDITIONS = f"""
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

define internal void @dl_sleep(ptr %pool, ptr %word, i32 %seen) nounwind {{
entry:
  %lock = getelementptr i64, ptr %pool, i64 {LOCK}
  %signal = getelementptr i64, ptr %pool, i64 {SIGNAL}
  %a = call i32 @pthread_mutex_lock(ptr %lock)
  br label %look
look:
  %now = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %wait, label %over
wait:
  %b = call i32 @pthread_cond_wait(ptr %signal, ptr %lock)
  br label %look
over:
  %c = call i32 @pthread_mutex_unlock(ptr %lock)
  ret void
}}

define void @dl_wake(ptr %pool, ptr %word, i64 %many) nounwind {{
  %lock = getelementptr i64, ptr %pool, i64 {LOCK}
  %signal = getelementptr i64, ptr %pool, i64 {SIGNAL}
  %a = call i32 @pthread_mutex_lock(ptr %lock)
  %b = call i32 @pthread_cond_broadcast(ptr %signal)
  %c = call i32 @pthread_mutex_unlock(ptr %lock)
  ret void
}}
"""

PAUSE = """
declare void @llvm.x86.sse2.pause()
define internal void @dl_pause() alwaysinline nounwind {
  call void @llvm.x86.sse2.pause()
  ret void
}
"""

NO_PAUSE = """
define internal void @dl_pause() nounwind {
  call void asm sideeffect "", ""()
  ret void
}
"""
