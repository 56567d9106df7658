// The words of CUDA C that kernels use, and their entries. With `DL_PLAIN` pointers and arrays are as on a device, of
// which nothing is seen.
#pragma once
#include "arrays.h"
#include "indices.h"

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#ifdef DL_PLAIN
#define __shared__ static
#else
#define DL_GLOBAL(T) emulation::Global<T>
#define DL_FAR(T) emulation::Far<T>
#define DL_INDEX emulation::Index
#define DL_AT(p, i) (p).at(i)
#define DL_PERHAPS(p, i) (p).perhaps(i)
#define DL_SHARED(T, name, n) \
  static emulation::Shared<T, (n)> name; \
  name.declare()
#endif

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

// ---- parameters ----
namespace emulation {
template <class P> struct Parameter {
  static constexpr unsigned size = sizeof(P);
  static P read(const void *p) { return *(const P *)p; }
};
template <class T> struct Parameter<Global<T>> {
  static constexpr unsigned size = sizeof(uintptr_t);
  static Global<T> read(const void *p) { return Global<T>(*(const uintptr_t *)p); }
};
template <> struct Parameter<Index> {
  static constexpr unsigned size = sizeof(int);
  static Index read(const void *p) { return Index::given(*(const int *)p); }
};
// what is used as it is, and no further looked after
template <class T> struct Parameter<T *> {
  static constexpr unsigned size = sizeof(uintptr_t);
  static T *read(const void *p) {
    const uintptr_t address = *(const uintptr_t *)p;
    const Block *within = memory->find(address);
    if (address && (!within || within->bytes < sizeof(T))) complain("a parameter that is no memory of the device");
    // what is stored through a plain pointer is not seen
    if (within && !std::is_const_v<T>) memset(within->written, 1, within->bytes);
    return (T *)(address & ~FAR);
  }
};
// A call that each thread of a launch makes.
template <class F> struct Made {
  static inline const F *call;
  static void run() { (*call)(); }
};
template <class... P> static const char *made(void (*f)(P...), const Launch &launch, P... values) {
  const auto call = [&] { f(values...); };
  Made<decltype(call)>::call = &call;
  return failed ? message : run_grid(Made<decltype(call)>::run, launch);
}
template <class... P> struct Entry {
  static constexpr unsigned sizes[] = {Parameter<P>::size..., 0};
  template <size_t... K>
  static const char *start(
      void (*f)(P...), const Launch &launch, void *const *parameters, std::index_sequence<K...>) {
    failed = false;
    memory = launch.memory;
    largest_index = launch.largest_index;
    return made<P...>(f, launch, Parameter<P>::read(parameters[K])...);
  }
};
template <class... P> static const char *started(void (*f)(P...), const Launch &launch, void *const *parameters) {
  return Entry<P...>::start(f, launch, parameters, std::index_sequence_for<P...>{});
}
template <class... P>
static Kernel described(void (*)(P...), const char *name, const char *(*run)(const Launch &, void *const *)) {
  return {KERNEL, name, sizeof...(P), Entry<P...>::sizes, run};
}
}  // namespace emulation

// A kernel for those who load the library.
#define DL_KERNEL(kernel_name) \
  extern "C" emulation::Kernel dl_kernel_##kernel_name = emulation::described( \
      kernel_name, #kernel_name, [](const emulation::Launch &launch, void *const *parameters) { \
        return emulation::started(kernel_name, launch, parameters); \
      });
