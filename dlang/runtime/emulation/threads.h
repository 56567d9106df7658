// An emulation of CUDA's execution model: blocks run one after another. The threads of a block are fibers; each runs
// until it waits for others, at a barrier of its block or a collective of its warp.
//
// What is undefined on a device is reported here, and ends the launch: barriers that not all threads reach, and
// collectives of a warp whose mask names lanes that have ended or that meet different ones.
#pragma once
#include <type_traits>
#include <utility>
#include "device.h"
#if !defined(__x86_64__) || defined(DL_PORTABLE)
#define DL_CONTEXTS  // fibers are contexts of POSIX
#include <ucontext.h>
#endif

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };

namespace emulation {
enum State { READY, AT_BARRIER, AT_COLLECTIVE, ENDED };
const unsigned LANES = 32;
const unsigned MOST_SHARED = 48 << 10;  // bytes

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

static Thread threads[MOST_THREADS];
static Warp warps[MOST_THREADS / LANES];
static Thread *current;
static unsigned count;
static dim3 block_size, grid_size;
static uint3 block_index;
static uint64_t block_in_grid, block_number;  // the latter of all launches
static uint64_t launch_number, shared_bytes;  // the latter of the arrays that threads of the launch share
static char message[512];
static bool failed;
static const Memory *memory;
static long long largest_index;
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
  if (current && used > 0 && (size_t)used < sizeof message)
    snprintf(message + used, sizeof message - used, " (block %llu, thread %u)", (unsigned long long)block_in_grid,
             current->number);
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

// ---- blocks ----
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

// The blocks of a grid in an order: from the first on, from the last on, or at random.
static uint64_t *in_order(uint64_t blocks, unsigned order) {
  uint64_t *numbers = (uint64_t *)malloc(blocks * sizeof(uint64_t));
  for (uint64_t b = 0; b < blocks; ++b) numbers[b] = order == 1 ? blocks - 1 - b : b;
  if (order > 1)
    for (uint64_t b = blocks - 1; b; --b) std::swap(numbers[b], numbers[drawn((unsigned)(b + 1))]);
  return numbers;
}

// Runs a kernel; what is wrong with it, or null.
static const char *run_grid(void (*entry)(), const Launch &launch) {
  const unsigned *grid = launch.grid, *block = launch.block;
  const uint64_t size = (uint64_t)block[0] * block[1] * block[2], blocks = (uint64_t)grid[0] * grid[1] * grid[2];
  if (!size || size > MOST_THREADS || size % LANES) return "a block is whole warps, of at most 1024 threads";
  for (unsigned k = 0; k < size; ++k) threads[k].stack = launch.stacks + k * STACK;
  kernel = entry;
  ++launch_number;
  shared_bytes = 0;
  count = (unsigned)size;
  block_size = {block[0], block[1], block[2]};
  grid_size = {grid[0], grid[1], grid[2]};
  random_state = 88172645463325252ull + launch.order;
  for (unsigned k = 0; k < count; ++k) {
    threads[k].index = {k % block[0], k / block[0] % block[1], k / block[0] / block[1]};
    threads[k].number = k;
    threads[k].lane = k % LANES;
    threads[k].warp = k / LANES;
  }
  uint64_t *numbers = in_order(blocks, launch.order);
  for (uint64_t b = 0; b < blocks && !failed; ++b) {
    block_in_grid = numbers[b];
    const uint64_t rest = block_in_grid / grid[0];
    block_index = {(unsigned)(block_in_grid % grid[0]), (unsigned)(rest % grid[1]), (unsigned)(rest / grid[1])};
    run_block(launch.order);
  }
  free(numbers);
  current = nullptr;
  return failed ? message : nullptr;
}
}  // namespace emulation
