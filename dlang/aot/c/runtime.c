/* Contexts, stacks, arenas and threads for compiled functions. */
#define _GNU_SOURCE
#include "inside.h"

#include <cpuid.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MARGIN = 256 << 10, FIRST = 64 << 20, LEAST_STEP = 16 << 20, PAGE = 4096, KEPT = 64 << 20,
       LARGE_PAGE = 2 << 20 };
static const int64_t NEVER = (int64_t)1 << 62, OFTEN = (int64_t)1 << 26; /* ticks of the processor's clock: some 20 ms */

/* ---- contexts ------------------------------------------------------------------------------------------------------- */
static dl_context *idle;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local dl_context *current;

static int32_t service(void *slots, void *unused);

/* ---- memory of the system ------------------------------------------------------------------------------------------- */
static int64_t number_in(const char *path) {
    FILE *file = fopen(path, "r");
    long long value;
    if (!file) return -1;
    int found = fscanf(file, "%lld", &value);
    fclose(file);
    return found == 1 ? value : -1;
}

static int64_t physical_memory(void) {
    int64_t total = (int64_t)sysconf(_SC_PAGE_SIZE) * sysconf(_SC_PHYS_PAGES);
    int64_t limit = number_in("/sys/fs/cgroup/memory.max");
    return limit >= 0 && limit < total ? limit : total;
}

/* The bytes that a run may take besides what it has: an eighth of all memory is left to the rest of the system. */
static int64_t spare_memory(void) {
    int64_t total = physical_memory(), free_bytes = total;
    FILE *file = fopen("/proc/meminfo", "r");
    if (file) {
        char line[128];
        long long kilobytes;
        while (fgets(line, sizeof line, file))
            if (sscanf(line, "MemAvailable: %lld", &kilobytes) == 1) free_bytes = kilobytes << 10;
        fclose(file);
    }
    int64_t limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
    if (limit >= 0 && used >= 0 && limit - used < free_bytes) free_bytes = limit > used ? limit - used : 0;
    return free_bytes - total / 8;
}

/* Addresses of as many bytes as there is memory, which is there from its first use. */
static char *reserve(size_t *bytes) {
    size_t wanted = ((size_t)physical_memory() + PAGE - 1) / PAGE * PAGE;
    for (;; wanted /= 2) {
        char *memory =
            mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory != MAP_FAILED) {
            if (wanted > LARGE_PAGE) madvise(memory + LARGE_PAGE, wanted - LARGE_PAGE, MADV_HUGEPAGE);
            *bytes = wanted;
            return memory;
        }
        if (wanted <= (16 << 20)) return NULL;
    }
}

static bool open_stack(dl_context *c) {
    if (!c->stack) {
        c->stack = reserve(&c->stack_bytes);
        if (!c->stack) return false;
        mprotect(c->stack, PAGE, PROT_NONE);
        c->stack_top = (char *)((uintptr_t)(c->stack + c->stack_bytes) & ~(uintptr_t)63);
        c->stack_lowest = c->stack + MARGIN;
    }
    char *first = c->stack_top - FIRST;
    c->words[DL_STACK_LIMIT] = (intptr_t)(first > c->stack_lowest ? first : c->stack_lowest);
    return true;
}

static bool deeper(dl_context *c, char *frame) {
    int64_t room = frame - c->stack_lowest, step = spare_memory() / 2;
    if (step > room) step = room;
    if (step < LEAST_STEP && step < room) return false;
    c->words[DL_STACK_LIMIT] = (intptr_t)(frame - step);
    return step > 0;
}

static void close_stack(dl_context *c) {
    char *first = c->stack_top - FIRST;
    if (c->stack && first > c->stack_lowest && (char *)(intptr_t)c->words[DL_STACK_LIMIT] < first)
        madvise(c->stack + PAGE, (size_t)(first - c->stack - PAGE) / PAGE * PAGE, MADV_DONTNEED);
}

static bool open_arena(dl_context *c) {
    if (!c->arena) {
        c->arena = reserve(&c->arena_bytes);
        if (!c->arena) return false;
        c->words[DL_ARENA_LIMIT] = (intptr_t)c->arena;
        c->words[DL_ARENA_END] = (intptr_t)(c->arena + c->arena_bytes);
    }
    c->words[DL_ARENA_TOP] = (intptr_t)c->arena;
    c->words[DL_ARENA_SEEN] = c->words[DL_ARENA_CREDIT] = 0;
    return true;
}

static void close_arena(dl_context *c) {
    if (c->arena && c->words[DL_ARENA_LIMIT] - (intptr_t)c->arena > KEPT) {
        madvise(c->arena + KEPT, c->arena_bytes - KEPT, MADV_DONTNEED);
        c->words[DL_ARENA_LIMIT] = (intptr_t)(c->arena + KEPT);
    }
}

/* ---- threads -------------------------------------------------------------------------------------------------------- */
static _Alignas(64) int64_t pool[DL_POOL_WORDS];
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t pool_made = PTHREAD_ONCE_INIT;
static pthread_t helpers[DL_MOST_THREADS];
static int64_t *given[DL_MOST_THREADS];
static int helper_count;

static int processors(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    long long most, period;
    if (file) {
        if (fscanf(file, "%lld %lld", &most, &period) == 2 && period > 0 && (most + period - 1) / period < count)
            count = (int)((most + period - 1) / period);
        fclose(file);
    }
    return count < 1 ? 1 : count > DL_MOST_THREADS ? DL_MOST_THREADS : count;
}

static void wake_all(void) {
    const int words[] = {DL_CHANGES, DL_EPOCH};
    for (int k = 0; k < 2; k++) {
        __atomic_add_fetch(&pool[words[k]], 1, __ATOMIC_SEQ_CST);
        if (helper_count) dl_wake(pool, &pool[words[k]], helper_count);
    }
}

static bool start_one(int number) {
    size_t bytes = (sizeof(int64_t) * DL_WORKER_WORDS + 63) / 64 * 64;
    int64_t *words = aligned_alloc(64, bytes);
    if (!words) return false;
    memset(words, 0, bytes);
    words[DL_OF_POOL] = (intptr_t)pool;
    words[DL_NUMBER] = number;
    words[DL_WORKER_CONTEXT + DL_INTERVAL] = NEVER;
    words[DL_WORKER_CONTEXT + DL_DEADLINE] = -1; /* the last tick */
    sigset_t all, before; /* signals are for other threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&helpers[helper_count], NULL, dl_worker, words);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        free(words);
        return false;
    }
    given[helper_count++] = words;
    return true;
}

static void start_threads(void) {
    pthread_mutex_lock(&pool_lock);
    while (helper_count < pool[DL_THREADS] - 1)
        if (!start_one(helper_count + 1)) pool[DL_THREADS] = helper_count + 1;
    pool[DL_STARTED] = helper_count;
    pthread_mutex_unlock(&pool_lock);
}

bool dl_set_threads(int threads) {
    if (threads < 1 || threads > DL_MOST_THREADS)
        return dl_fail("E0972", "%d is not a number of threads from 1 to %d", threads, DL_MOST_THREADS);
    pthread_once(&pool_made, dl_ready);
    pthread_mutex_lock(&pool_lock);
    pool[DL_THREADS] = threads;
    wake_all();
    bool more = 0 < pool[DL_STARTED] && pool[DL_STARTED] < threads - 1;
    pthread_mutex_unlock(&pool_lock);
    if (more) start_threads();
    return false;
}

static void before_fork(void) {
    pthread_mutex_lock(&pool_lock);
    pthread_mutex_lock(&idle_lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&idle_lock);
    pthread_mutex_unlock(&pool_lock);
}

static void in_child(void) { /* which has none of the threads */
    int64_t threads = pool[DL_THREADS];
    memset(pool, 0, sizeof pool);
    pool[DL_THREADS] = threads;
    helper_count = 0;
    in_parent();
}

static const char *lacks; /* of what the code needs of the processor */
static const char *lacking(void);

void dl_ready(void) {
    lacks = lacking();
    const char *said = getenv("DLANG_THREADS");
    char *end = NULL;
    long threads = said && *said ? strtol(said, &end, 10) : 0;
    bool fits = end && !*end && 1 <= threads && threads <= DL_MOST_THREADS;
    pool[DL_THREADS] = fits ? threads : processors();
    pthread_atfork(before_fork, in_parent, in_child);
    dl_prepare_libraries();
}

/* When the library is unloaded, or the process ends: nobody is left in its code. */
__attribute__((destructor)) static void end_threads(void) {
    pthread_mutex_lock(&pool_lock);
    pool[DL_THREADS] = 1;
    pool[DL_CLOSING] = 1;
    wake_all();
    for (int k = 0; k < helper_count; k++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        if (!pthread_timedjoin_np(helpers[k], NULL, &until)) {
            dl_release(given[k] + DL_WORKER_CONTEXT);
            free(given[k]);
        }
    }
    helper_count = 0;
    pool[DL_STARTED] = pool[DL_CLOSING] = 0;
    pthread_mutex_unlock(&pool_lock);
    while (idle) {
        dl_context *c = idle;
        idle = c->next;
        dl_release(c->words);
        if (c->arena) munmap(c->arena, c->arena_bytes);
        if (c->stack) munmap(c->stack, c->stack_bytes);
        free(c->progress.loops);
        free(c);
    }
    dl_end_messages();
}

/* ---- the processor -------------------------------------------------------------------------------------------------- */
/* What it lacks that the code needs; NULL if nothing. */
static const char *lacking(void) {
    unsigned eax, ebx, ecx, edx, low = 0, high = 0;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) && ecx >> 27 & 1) /* the system keeps registers wider than SSE's */
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    for (const dl_feature *f = dl_features; f->name; f++) {
        bool there = __get_cpuid_count(f->leaf, 0, &eax, &ebx, &ecx, &edx) && ((f->in_ebx ? ebx : ecx) >> f->bit & 1);
        unsigned kept = !strncmp(f->name, "avx512", 6) ? 0xE6 : !strncmp(f->name, "avx", 3) ? 6 : 0;
        if (!there || (low & kept) != kept) return f->name;
    }
    return NULL;
}

/* ---- programs ------------------------------------------------------------------------------------------------------- */
static bool is_program;
static volatile sig_atomic_t interrupted;

static void interrupt(int signal) {
    (void)signal;
    interrupted = 1;
}

void dl_begin_program(void) {
    is_program = true;
    for (int k = 0; k < 3; k++) /* what whoever started this has closed gets an end */
        if (fcntl(k, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) break;
    signal(SIGPIPE, SIG_IGN);
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART | SA_RESETHAND}, before;
    if (!sigaction(SIGINT, NULL, &before) && before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL);
}

bool dl_is_program(void) { return is_program; }
bool dl_is_interrupted(void) { return interrupted; }

/* ---- runs ----------------------------------------------------------------------------------------------------------- */
dl_context *dl_open(const dl_entry *entry) {
    pthread_once(&pool_made, dl_ready);
    if (lacks) {
        dl_fail("E0989", "this was built for " DL_PROCESSOR ", and this processor has no %s", lacks);
        return NULL;
    }
    pthread_mutex_lock(&idle_lock);
    dl_context *c = idle;
    if (c) idle = c->next;
    pthread_mutex_unlock(&idle_lock);
    if (!c) {
        c = aligned_alloc(64, (sizeof *c + 63) / 64 * 64);
        if (c) {
            memset(c, 0, sizeof *c);
            c->words[DL_POOL] = (intptr_t)pool;
            c->words[DL_CALLBACK] = (intptr_t)service;
        }
    }
    if (c && entry->needs_arena && !open_arena(c)) {
        dl_close(c);
        c = NULL;
    }
    if (!c) dl_no_memory(entry);
    return c;
}

void dl_close(dl_context *c) {
    close_arena(c);
    pthread_mutex_lock(&idle_lock);
    c->next = idle;
    idle = c;
    pthread_mutex_unlock(&idle_lock);
}

bool dl_run(dl_context *c, const dl_entry *entry, int64_t *words) {
    dl_context *outer = current;
    c->words[DL_CALLS] = 0;
    c->words[DL_DEADLINE] = 0;
    c->words[DL_INTERVAL] = is_program ? OFTEN : NEVER;
    c->refused = false;
    if (entry->recursive && !open_stack(c)) return dl_no_memory(entry);
    current = c;
    int32_t failed = entry->recursive ? dl_enter((void *)entry->code, c->words, words, c->stack_top)
                                      : entry->code(c->words, words);
    current = outer;
    dl_reset_progress(&c->progress);
    if (failed) {
        dl_report(c, entry);
        dl_reclaim(c->words);
    }
    if (entry->recursive) close_stack(c);
    return failed;
}

static int32_t service(void *slots, void *unused) {
    (void)unused;
    dl_context *c = current;
    switch (c->words[DL_SITE]) {
    case DL_LOOK:
        return interrupted ? 0 : DL_FINE;
    case DL_START:
        start_threads();
        return DL_FINE;
    case DL_DEEPER:
        return deeper(c, slots) ? DL_FINE : 0;
    default:
        return dl_serve(c, &dl_sites[c->words[DL_SITE]], slots) ? DL_FINE : 0;
    }
}
