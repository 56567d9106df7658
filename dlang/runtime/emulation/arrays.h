// Arrays as kernels see them: those of the device's memory, and those that the threads of a block share.
//
// What is undefined on a device is reported: accesses out of the bounds of arrays or to memory that is not the device's,
// reads of what was never written, and accesses to shared memory that nothing orders.
#pragma once
#include "threads.h"

namespace emulation {
// A pointer to elements of an array, or into it.
template <class T> class Global {
  uintptr_t address;
  const Block *within;

  T *here(long long k) const {
    T *p = (T *)(address & ~FAR) + k;
    if (!within) unknown(k);
    const uint64_t from = (uintptr_t)p - (uintptr_t)within->begin;
    if (from > within->bytes || within->bytes - from < sizeof(T))
      wrong("an access to element %lld of an array of %llu, which begins %lld elements before the pointer", k,
            (unsigned long long)(within->bytes / sizeof(T)),
            (long long)((address & ~FAR) - (uintptr_t)within->begin) / (long long)sizeof(T));
    return p;
  }
  [[noreturn]] void unknown(long long k) const {
    wrong("an access to element %lld of an array at %#llx, which %s", k, (unsigned long long)address,
          address & FAR ? "has been freed or never was allocated" : "is not memory of the device");
  }
  unsigned char *written(T *p) const { return within->written + ((char *)p - within->begin); }
  void known(T *p, long long k) const {
    if (!all_written(written(p), sizeof(T))) wrong("a read of element %lld, which was never written", k);
  }

 public:
  Global() : address(0), within(nullptr) {}
  explicit Global(uintptr_t p) : address(p), within(memory->find(p)) {}

  // of an element that is read and written at once
  T *at(long long k) const {
    T *p = here(k);
    known(p, k);
    return p;
  }
  // an element that may never have been written
  T perhaps(long long k) const { return *here(k); }
  Global operator+(long long k) const {
    Global moved = *this;
    moved.address += (uintptr_t)(k * (long long)sizeof(T));
    return moved;
  }
  // These elements as others, of which one is as large as several.
  template <class U> Global<U> as() const {
    Global<U> seen;
    seen.address = address;
    seen.within = within;
    return seen;
  }
  struct Element {
    const Global array;
    const long long number;
    operator T() const { return *array.at(number); }
    void operator=(T value) const {
      T *p = array.here(number);
      memset(array.written(p), 1, sizeof(T));
      *p = value;
    }
    void operator=(const Element &other) const { *this = (T)other; }
  };
  Element operator[](long long k) const { return {*this, k}; }

  template <class U> friend class Global;
};

// A pointer that is itself in the memory of the device.
template <class T> struct Far {
  uintptr_t address;
  typename Global<T>::Element operator[](long long k) const { return Global<T>(address)[k]; }
  operator Global<T>() const { return Global<T>(address); }
};

// An array that the threads of a block share. Of each element it is known who has written and read it since when.
struct Access {
  unsigned thread, barriers, collectives;
  uint64_t block;
};
template <class T, int N> class Shared {
  T data[N];
  Access written[N], read[N];
  uint64_t launch = 0;  // the last one that had it

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
  void declare() {
    if (launch == launch_number) return;
    launch = launch_number;
    shared_bytes += sizeof data;
    if (shared_bytes > MOST_SHARED)
      wrong("%llu bytes of shared memory, of which a block has %u", (unsigned long long)shared_bytes, MOST_SHARED);
  }
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
}  // namespace emulation
