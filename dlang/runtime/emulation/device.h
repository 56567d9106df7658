// What the emulated device and its kernels have in common: its memory, and what a launch is.
//
// The memory of the device is apart from that of the host: an address of it is that of its bytes with one bit more, with
// which no processor reads anything.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
// GCC's library takes most of the time of a small kernel for the special functions of C++17, which none uses
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <cmath>

namespace emulation {
const uintptr_t FAR = (uintptr_t)1 << 55;

// An array on the device. written: which of its bytes have been.
struct Block {
  char *begin;
  uint64_t bytes;
  unsigned char *written;
};

// All of them, in the order of their addresses.
struct Memory {
  Block *blocks;
  uint64_t count;

  // The block that a device's address is in, or that ends there; null if it is in none.
  const Block *find(uintptr_t address) const {
    if (!(address & FAR)) return nullptr;
    const uintptr_t at = address & ~FAR;
    uint64_t low = 0, high = count;  // the last block that begins at or before it
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      if ((uintptr_t)blocks[middle].begin <= at) low = middle + 1;
      else high = middle;
    }
    if (!low || at - (uintptr_t)blocks[low - 1].begin > blocks[low - 1].bytes) return nullptr;
    return &blocks[low - 1];
  }
};

static inline bool all_written(const unsigned char *written, uint64_t count) {
  for (uint64_t k = 0; k < count; ++k)
    if (!written[k]) return false;
  return true;
}

const unsigned MOST_THREADS = 1024;  // of a block
const size_t STACK = 256 << 10;      // of each of them

// order: in which blocks run, and threads between two barriers; 0 from the first on, 1 from the last on, otherwise random.
// largest_index: that a narrow one may be. stacks: room for those of a block.
struct Launch {
  unsigned grid[3], block[3];
  unsigned order;
  long long largest_index;
  const Memory *memory;
  char *stacks;
};

// A kernel. sizes: of its parameters. run: says what is wrong, or gives null.
struct Kernel {
  uint64_t mark;
  const char *name;
  uint64_t count;
  const unsigned *sizes;
  const char *(*run)(const Launch &, void *const *parameters);
};
const uint64_t KERNEL = 0x6c656e72656b6c64ull;  // what the record of a kernel begins with
}  // namespace emulation
