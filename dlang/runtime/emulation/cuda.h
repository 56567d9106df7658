// An emulation of CUDA's execution model: kernels in CUDA C become functions of C++ that run as on a device, one block
// after another. The threads of a block are fibers; each runs until it waits for others, at a barrier of its block or a
// collective of its warp.
//
// What is undefined on a device is reported here, and ends the launch: barriers that not all threads reach, collectives
// of a warp whose mask names lanes that have ended or that meet different ones, accesses to shared memory that nothing
// orders, reads of memory that was never written, and accesses out of the bounds of arrays. Bounds are those of memory
// that the launch was told of.
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <sys/mman.h>
#if !defined(__x86_64__) || defined(DL_PORTABLE)
#define DL_CONTEXTS  // fibers are contexts of POSIX
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#ifdef DL_PLAIN  // pointers and arrays as on a device, of which nothing is seen
#define __shared__ static
#else
#define DL_GLOBAL(T) emulation::Global<T>
#define DL_AT(p, i) (p).at(i)
#define DL_PERHAPS(p, i) (*(p).at(i))
#define DL_SHARED(T, name, n) static emulation::Shared<T, (n)> name
#endif

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };

namespace emulation {
enum State { READY, AT_BARRIER, AT_COLLECTIVE, ENDED };
const unsigned LANES = 32, MOST_THREADS = 1024;
const unsigned char POISON = 0xFD;
const size_t STACK = 256 << 10;

// A collective operation of a warp: what each lane brings. Every lane takes from it before it is used again, so two of
// them in turn are enough.
struct Collective {
  unsigned mask, arrived, leaving;
  int line;
  uint64_t values[LANES];
};
struct Warp {
  Collective turns[2];
  unsigned alive;
};

struct Thread {
#ifdef DL_CONTEXTS
  ucontext_t context;
#else
  void *stack_pointer;
#endif
  char *stack;
  State state;
  int line;
  uint3 index;
  unsigned number, lane, warp, barriers, collectives;
  Collective *waits;
};

// An array that kernels may touch.
struct Allocation {
  uintptr_t begin;
  uint64_t bytes;
};

static Thread threads[MOST_THREADS];
static Warp warps[MOST_THREADS / LANES];
static Thread *current;
static unsigned count;
static dim3 block_size, grid_size;
static uint3 block_index;
static uint64_t block_number;  // of all launches
static char message[512];
static bool failed;
static const Allocation *allocations;
static uint64_t allocation_count;
static void (*kernel)();

// ---- fibers ----
#ifndef DL_CONTEXTS
extern "C" void dl_emulation_switch(void **save, void *to);
asm(".text\n.globl dl_emulation_switch\n.hidden dl_emulation_switch\n.type dl_emulation_switch,@function\n"
    "dl_emulation_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
static void *scheduler;
static void pause() { dl_emulation_switch(&current->stack_pointer, scheduler); }
static void resume(Thread *t) { current = t; dl_emulation_switch(&scheduler, t->stack_pointer); }
static void run_thread() {
  kernel();
  current->state = ENDED;
  for (;;) pause();
}
static void prepare(Thread *t) {
  void **top = (void **)(t->stack + STACK);
  *--top = nullptr;
  *--top = (void *)run_thread;
  for (int k = 0; k < 6; ++k) *--top = nullptr;
  t->stack_pointer = top;
}
#else
static ucontext_t scheduler;
static void pause() { swapcontext(&current->context, &scheduler); }
static void resume(Thread *t) { current = t; swapcontext(&scheduler, &t->context); }
static void run_thread() {
  kernel();
  current->state = ENDED;
  for (;;) pause();
}
static void prepare(Thread *t) {
  getcontext(&t->context);
  t->context.uc_stack.ss_sp = t->stack;
  t->context.uc_stack.ss_size = STACK;
  t->context.uc_link = nullptr;
  makecontext(&t->context, run_thread, 0);
}
#endif

// Notes what is wrong; a thread that does so never goes on.
static void note(const char *format, va_list rest) {
  if (failed) return;
  failed = true;
  int used = vsnprintf(message, sizeof message, format, rest);
  if (used > 0 && (size_t)used < sizeof message)
    snprintf(message + used, sizeof message - used, " (block %u, thread %u)", block_index.x,
             current ? current->number : 0);
}
static void complain(const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  note(format, rest);
  va_end(rest);
}
[[noreturn]] static void wrong(const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  note(format, rest);
  va_end(rest);
  for (;;) pause();
}

// ---- memory ----
// Whether a value is what memory is full of that was never written, where it is wide enough to say so.
template <class T> static bool is_poison(const T &x) {
  if (sizeof(T) < 8 && !(sizeof(T) == 4 && std::is_floating_point<T>::value)) return false;
  unsigned char bytes[sizeof(T)];
  memcpy(bytes, &x, sizeof(T));
  for (unsigned char byte : bytes)
    if (byte != POISON) return false;
  return true;
}

// A pointer to elements of an array, or into it.
template <class T> class Global {
  T *base;
  const Allocation *within;

 public:
  Global() : base(nullptr), within(nullptr) {}
  explicit Global(T *p) : base(p), within(nullptr) {
    for (uint64_t k = 0; k < allocation_count; ++k)
      if ((uintptr_t)p - allocations[k].begin < allocations[k].bytes) within = &allocations[k];
    if (within) return;
    for (uint64_t k = 0; k < allocation_count; ++k)
      if ((uintptr_t)p == allocations[k].begin + allocations[k].bytes) within = &allocations[k];
  }
  T *at(long long k) const {
    T *p = base + k;
    if (within && ((uintptr_t)p < within->begin || (uintptr_t)(p + 1) > within->begin + within->bytes))
      wrong("an access to element %lld of an array of %llu, which begins %lld elements before the pointer", k,
            (unsigned long long)(within->bytes / sizeof(T)),
            (long long)((intptr_t)base - (intptr_t)within->begin) / (long long)sizeof(T));
    return p;
  }
  Global operator+(long long k) const {
    Global moved = *this;
    moved.base += k;
    return moved;
  }
  struct Element {
    const Global &array;
    long long number;
    operator T() const {
      T value = *array.at(number);
      if (array.within && is_poison(value)) wrong("a read of element %lld, which was never written", number);
      return value;
    }
    void operator=(T value) const { *array.at(number) = value; }
    void operator=(const Element &other) const { *this = (T)other; }
  };
  Element operator[](long long k) const { return {*this, k}; }
};

// An array that the threads of a block share. Of each element it is known who has written and read it since when.
struct Access {
  unsigned thread, barriers, collectives;
  uint64_t block;
};
template <class T, int N> class Shared {
  T data[N];
  Access written[N], read[N];

  // Whether an earlier access is ordered before one now: it was in another block, by this thread, before a barrier, or
  // before a collective of their warp.
  static bool ordered(const Access &a) {
    if (a.block != block_number || a.thread == current->number || a.barriers != current->barriers) return true;
    return a.thread / LANES == current->warp && a.collectives < current->collectives;
  }
  static void raced(int k, const Access &first, const char *did, const char *does) {
    wrong("a race at element %d of a shared array: thread %u %s it, and thread %u %s it", k, first.thread, did,
          current->number, does);
  }
  static Access here() { return {current->number, current->barriers, current->collectives, block_number}; }
  int checked(long long k) const {
    if (k < 0 || k >= N) wrong("an access to element %lld of a shared array of %d", k, N);
    return (int)k;
  }

 public:
  struct Element {
    Shared &array;
    int k;
    operator T() const {
      const Access &written = array.written[k];
      if (written.block != block_number) wrong("a read of element %d of a shared array, which was never written", k);
      if (!ordered(written)) raced(k, written, "writes", "reads");
      array.read[k] = here();
      return array.data[k];
    }
    void operator=(T value) const {
      if (!ordered(array.written[k])) raced(k, array.written[k], "writes", "writes");
      if (!ordered(array.read[k])) raced(k, array.read[k], "reads", "writes");
      array.written[k] = here();
      array.data[k] = value;
    }
    void operator=(const Element &other) const { *this = (T)other; }
  };
  Element operator[](long long k) { return {*this, checked(k)}; }
};

// ---- barriers and collectives ----
static void barrier(int line) {
  current->state = AT_BARRIER;
  current->line = line;
  pause();
}

// Every lane of the mask brings a value; the collective when all have.
template <class F> static auto collective(unsigned mask, int line, uint64_t value, F use) {
  Warp &warp = warps[current->warp];
  Collective &now = warp.turns[current->collectives++ & 1];
  unsigned bit = 1u << current->lane;
  if (!(mask & bit)) wrong("line %d: lane %u is not in the mask of its own collective", line, current->lane);
  if (mask & ~warp.alive) wrong("line %d: a mask names lanes of warp %u that have ended", line, current->warp);
  if (now.leaving) wrong("line %d: lanes of warp %u are at different collectives", line, current->warp);
  if (!now.arrived) {
    now.mask = mask;
    now.line = line;
  } else if (now.mask != mask || now.line != line) {
    wrong("lanes of warp %u meet at different collectives, in lines %d and %d", current->warp, now.line, line);
  }
  now.values[current->lane] = value;
  now.arrived |= bit;
  if (now.arrived == mask) {
    now.leaving = mask;
  } else {
    current->state = AT_COLLECTIVE;
    current->line = line;
    current->waits = &now;
    pause();
    current->state = READY;
  }
  auto result = use(now);
  now.leaving &= ~bit;
  if (!now.leaving) now.arrived = 0;
  return result;
}

template <class T> static T exchanged(unsigned mask, int line, T value, int from) {
  static_assert(sizeof(T) <= 8, "a word at most");
  uint64_t word = 0;
  memcpy(&word, &value, sizeof(T));
  return collective(mask, line, word, [&](Collective &now) {
    T result = value;
    if (from >= 0 && from < (int)LANES && (now.mask >> from & 1)) memcpy(&result, &now.values[from], sizeof(T));
    return result;
  });
}

static unsigned ballot(unsigned mask, int line, bool value) {
  return collective(mask, line, value, [](Collective &now) {
    unsigned found = 0;
    for (unsigned k = 0; k < LANES; ++k) found |= (now.mask >> k & 1 && now.values[k]) ? 1u << k : 0u;
    return found;
  });
}

// ---- launches ----
static uint64_t random_state;
static unsigned drawn(unsigned below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (unsigned)(random_state % below);
}

// Lets all threads that wait at a barrier go on, if no other is left; says what is wrong if none can go on.
static void release(unsigned live) {
  unsigned waiting = 0;
  int line = -1;
  for (unsigned k = 0; k < count; ++k) {
    if (threads[k].state != AT_BARRIER) continue;
    ++waiting;
    if (line >= 0 && threads[k].line != line)
      complain("threads of a block wait at different barriers, in lines %d and %d", line, threads[k].line);
    line = threads[k].line;
  }
  if (waiting != live)
    complain("%u threads wait at the barrier in line %d, and %u at a collective of a warp that others never reach",
             waiting, line, live - waiting);
  if (live != count)
    complain("the barrier in line %d is not reached by %u threads that have ended", line, count - live);
  for (unsigned k = 0; k < count; ++k) {
    threads[k].state = READY;
    ++threads[k].barriers;
  }
}

// order: in which threads run between two barriers; 0 from the first on, 1 from the last on, otherwise at random.
static void run_block(unsigned order) {
  static unsigned short turn[MOST_THREADS];
  ++block_number;
  for (unsigned k = 0; k < count; ++k) {
    Thread &t = threads[k];
    t.state = READY;
    t.barriers = t.collectives = 0;
    turn[k] = (unsigned short)(order == 1 ? count - 1 - k : k);
    prepare(&t);
  }
  for (unsigned w = 0; w * LANES < count; ++w) {
    unsigned lanes = count - w * LANES;
    warps[w].alive = lanes >= LANES ? ~0u : (1u << lanes) - 1;
    memset(warps[w].turns, 0, sizeof warps[w].turns);
  }
  for (unsigned live = count; live && !failed;) {
    if (order > 1)
      for (unsigned k = count - 1; k; --k) std::swap(turn[k], turn[drawn(k + 1)]);
    bool moved = false;
    for (unsigned k = 0; k < count && !failed; ++k) {
      Thread &t = threads[turn[k]];
      if (t.state == ENDED || t.state == AT_BARRIER || (t.state == AT_COLLECTIVE && !t.waits->leaving)) continue;
      resume(&t);
      moved = true;
      if (t.state == ENDED) {
        --live;
        warps[t.warp].alive &= ~(1u << t.lane);
      }
    }
    if (!moved && live && !failed) release(live);
  }
}

// Runs a kernel; what is wrong with it, or null.
static const char *launch(void (*entry)(), unsigned grid, unsigned block, unsigned order) {
  failed = false;
  if (!block || block > MOST_THREADS || block % LANES) return "a block is whole warps, of at most 1024 threads";
  if (!threads[0].stack) {
    char *room = (char *)mmap(nullptr, MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == (char *)MAP_FAILED) return "there is no memory for stacks";
    for (unsigned k = 0; k < MOST_THREADS; ++k) threads[k].stack = room + k * STACK;
  }
  kernel = entry;
  count = block;
  block_size = {block, 1, 1};
  grid_size = {grid, 1, 1};
  random_state = 88172645463325252ull + order;
  for (unsigned k = 0; k < count; ++k) {
    threads[k].index = {k, 0, 0};
    threads[k].number = k;
    threads[k].lane = k % LANES;
    threads[k].warp = k / LANES;
  }
  for (unsigned b = 0; b < grid && !failed; ++b) {
    block_index = {order == 1 ? grid - 1 - b : b, 0, 0};
    run_block(order);
  }
  current = nullptr;
  return failed ? message : nullptr;
}

// A kernel with its arguments.
template <class P> struct Parameter {
  static P read(void *p) { return *(P *)p; }
};
template <class T> struct Parameter<Global<T>> {
  static Global<T> read(void *p) { return Global<T>(*(T **)p); }
};
template <class... P> struct Bound {
  static inline void (*function)(P...);
  static inline std::tuple<P...> *given;
  static void run() { std::apply(function, *given); }
  template <size_t... K>
  static const char *launch(void **args, unsigned grid, unsigned block, unsigned order, std::index_sequence<K...>) {
    std::tuple<P...> values(Parameter<P>::read(args[K])...);
    given = &values;
    return emulation::launch(run, grid, block, order);
  }
};
template <class... P>
static const char *started(void (*f)(P...), void **args, unsigned grid, unsigned block, unsigned order) {
  Bound<P...>::function = f;
  return Bound<P...>::launch(args, grid, block, order, std::index_sequence_for<P...>{});
}
}  // namespace emulation

#define threadIdx (emulation::current->index)
#define blockIdx (emulation::block_index)
#define blockDim (emulation::block_size)
#define gridDim (emulation::grid_size)
#define __syncthreads() emulation::barrier(__LINE__)
#define __syncwarp() ((void)emulation::ballot(0xffffffffu, __LINE__, true))
#define __shfl_xor_sync(mask, value, d) \
  emulation::exchanged(mask, __LINE__, value, (int)emulation::current->lane ^ (int)(d))
#define __ballot_sync(mask, value) emulation::ballot(mask, __LINE__, value)
#define __threadfence() ((void)0)

// What one fiber does between two switches is atomic.
template <class T> static T atomicAdd(T *p, T x) { T old = *p; *p = old + x; return old; }
template <class T> static T atomicCAS(T *p, T expected, T x) { T old = *p; if (old == expected) *p = x; return old; }
template <class T> static T atomicExch(T *p, T x) { T old = *p; *p = x; return old; }
static unsigned atomicInc(unsigned *p, unsigned most) { unsigned old = *p; *p = old >= most ? 0 : old + 1; return old; }

template <class To, class From> static To dl_emulation_cast(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
static long long __double_as_longlong(double x) { return dl_emulation_cast<long long>(x); }
static double __longlong_as_double(long long x) { return dl_emulation_cast<double>(x); }
static int __float_as_int(float x) { return dl_emulation_cast<int>(x); }
static float __int_as_float(int x) { return dl_emulation_cast<float>(x); }

// A kernel for those who load the library: what is wrong, or null.
#define DL_KERNEL(name) \
  extern "C" const char *launch_##name(void **args, unsigned grid, unsigned block, unsigned order, \
                                       const emulation::Allocation *known, uint64_t many) { \
    emulation::allocations = known; \
    emulation::allocation_count = many; \
    return emulation::started(name, args, grid, block, order); \
  }
