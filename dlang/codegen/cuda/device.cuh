// What all kernels share: the types of scalars, operations that CUDA C lacks or leaves open, and reductions over the
// threads of a warp, of a block and of a grid. Only what a compiler for the device has without any header is used.
//
// DL_GLOBAL(T): a pointer to elements in memory; DL_AT(p, i): the address of one; DL_PERHAPS(p, i): one that may never
// have been written, as it is used only where it has been; DL_SHARED(T, name, n): an array that the threads of a block
// share; DL_FAR(T): a pointer that is itself in memory; DL_INDEX: the type of narrow indices. An emulation defines them
// before this, so that it sees every access, and every index that is too large.
#ifndef DL_FAR
#define DL_FAR(T) T *
#endif
#ifndef DL_GLOBAL
#define DL_GLOBAL(T) T *
#define DL_VECTORS
#define DL_AT(p, i) ((p) + (i))
#define DL_PERHAPS(p, i) ((p)[i])
#define DL_SHARED(T, name, n) __shared__ T name[n]
#endif
#define DL_INLINE static __device__ __forceinline__
enum { DL_WORDS = 64, DL_WARP = 32, DL_BLOCK = 256, DL_BUSY = 1 << 17 };

typedef double f64;
typedef float f32;
typedef long long i64;
typedef int i32;
typedef short i16;
typedef signed char i8;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

// An index: where a trip or an element is, or how many there are. A kernel has narrow ones, unless a launch needs wider.
#ifdef DL_WIDE
typedef i64 dl_index;
typedef u64 dl_count;
#elif defined(DL_INDEX)
typedef DL_INDEX dl_index;
typedef u32 dl_count;
#else
typedef i32 dl_index;
typedef u32 dl_count;
#endif
// of numbers that are not negative
DL_INLINE dl_index dl_quotient(dl_index x, dl_index y) { return (dl_index)((dl_count)x / (dl_count)y); }
DL_INLINE dl_index dl_remainder(dl_index x, dl_index y) { return (dl_index)((dl_count)x % (dl_count)y); }

// ---- several elements that lie side by side, of which so many are there ----
DL_INLINE i32 dl_left(i64 count) { return count <= 0 ? 0 : count < DL_WARP ? (i32)count : DL_WARP; }
#ifdef DL_VECTORS
template <class T, i32 N> struct alignas(sizeof(T) * N) dl_vector { T x[N]; };
template <class T, i32 N> DL_INLINE bool dl_at_once(const T *p, i32 many) {
  return many >= N && (u64)p % (sizeof(T) * N) == 0;
}
#endif
template <class T, i32 N, class P> DL_INLINE void dl_load(T (&to)[N], P from, i64 at, i32 many) {
#ifdef DL_VECTORS
  if (dl_at_once<T, N>(from + at, many)) {
    const dl_vector<T, N> all = *(const dl_vector<T, N> *)(from + at);
#pragma unroll
    for (i32 k = 0; k < N; ++k) to[k] = all.x[k];
    return;
  }
#endif
#pragma unroll
  for (i32 k = 0; k < N; ++k) {
    to[k] = T();
    if (k < many) to[k] = from[at + k];
  }
}
template <class T, i32 N, class P> DL_INLINE void dl_store(P to, i64 at, const T (&from)[N], i32 many) {
#ifdef DL_VECTORS
  if (dl_at_once<T, N>(to + at, many)) {
    dl_vector<T, N> all;
#pragma unroll
    for (i32 k = 0; k < N; ++k) all.x[k] = from[k];
    *(dl_vector<T, N> *)(to + at) = all;
    return;
  }
#endif
#pragma unroll
  for (i32 k = 0; k < N; ++k)
    if (k < many) to[at + k] = from[k];
}

// ---- what a launch is given, and what it leaves ----

// One for all launches of a run. partials: room for what each block makes of a reduction. trip: the first one in which a
// guard has failed, or the largest number; site: which guard, and values: those of its message.
struct dl_run {
  DL_FAR(i64) partials;
  u64 trip;
  i64 site;
  u32 lock, ticket;
  i64 values[DL_WORDS];
};

DL_INLINE dl_index dl_first() { return (dl_index)((dl_count)blockIdx.x * blockDim.x + threadIdx.x); }
DL_INLINE dl_index dl_stride() { return (dl_index)((dl_count)gridDim.x * blockDim.x); }
DL_INLINE i32 dl_lane() { return (i32)(threadIdx.x % DL_WARP); }

// ---- groups of threads that share a trip: warps, or blocks ----
// so many threads for a row of so many elements, of which each thread can keep some
DL_INLINE i32 dl_width(i64 elements, i32 each) { return elements <= DL_WARP * each ? DL_WARP : (i32)blockDim.x; }
// how many threads of a block lie side by side where so many pieces do: a power of two; all of them if that keeps the
// device busy, so that none shares a column
DL_INLINE i32 dl_columns(i64 pieces, i64 times) {
  const i32 most = pieces * times >= DL_BUSY ? (i32)blockDim.x : DL_WARP;
  i32 columns = 1;
  while (columns < most && columns < pieces) columns *= 2;
  return columns <= most ? columns : most;
}
// the first row of a thread, and how many rows there are at once; a block is several groups, or one
DL_INLINE dl_index dl_rows(i32 width) { return (dl_index)gridDim.x * ((i32)blockDim.x / width); }
DL_INLINE dl_index dl_first_row(i32 width) {
  return (dl_index)blockIdx.x * ((i32)blockDim.x / width) + (i32)threadIdx.x / width;
}
// they wait for each other, and see what all have stored
DL_INLINE void dl_meet(i32 width) {
  if (width == DL_WARP) __syncwarp();
  else __syncthreads();
}

// ---- scalars as words ----
DL_INLINE u32 dl_bits(f32 x) { return (u32)__float_as_int(x); }
DL_INLINE f32 dl_of_bits(u32 x) { return __int_as_float((i32)x); }
DL_INLINE i64 dl_word(f64 x) { return __double_as_longlong(x); }
DL_INLINE i64 dl_word(f32 x) { return (i64)dl_bits(x); }
DL_INLINE i64 dl_word(i64 x) { return x; }
DL_INLINE i64 dl_word(u64 x) { return (i64)x; }
DL_INLINE i64 dl_word(i32 x) { return x; }
DL_INLINE i64 dl_word(u32 x) { return x; }
DL_INLINE i64 dl_word(i16 x) { return x; }
DL_INLINE i64 dl_word(u16 x) { return x; }
DL_INLINE i64 dl_word(i8 x) { return x; }
DL_INLINE i64 dl_word(u8 x) { return x; }
DL_INLINE i64 dl_word(bool x) { return x; }
template <class T> DL_INLINE T dl_of_word(i64 x) { return (T)x; }
template <> __device__ inline f64 dl_of_word<f64>(i64 x) { return __longlong_as_double(x); }
template <> __device__ inline f32 dl_of_word<f32>(i64 x) { return dl_of_bits((u32)x); }
template <> __device__ inline bool dl_of_word<bool>(i64 x) { return x & 1; }

DL_INLINE f64 dl_infinity_f64() { return __longlong_as_double(0x7ff0000000000000ll); }
DL_INLINE f32 dl_infinity_f32() { return dl_of_bits(0x7f800000u); }
DL_INLINE f64 dl_nan_f64() { return __longlong_as_double(0x7ff8000000000000ll); }
DL_INLINE f32 dl_nan_f32() { return dl_of_bits(0x7fc00000u); }

// ---- integers: all of it modulo the number of values of the type ----
template <class T> DL_INLINE T dl_add(T x, T y) { return (T)((u64)x + (u64)y); }
template <class T> DL_INLINE T dl_sub(T x, T y) { return (T)((u64)x - (u64)y); }
template <class T> DL_INLINE T dl_mul(T x, T y) { return (T)((u64)x * (u64)y); }
template <class T> DL_INLINE T dl_neg(T x) { return (T)(0ull - (u64)x); }
template <class T> DL_INLINE T dl_abs(T x) { return x < 0 ? dl_neg(x) : x; }
template <class T> DL_INLINE bool dl_signed() { return (T)-1 < (T)0; }

// towards minus infinity; a guard has seen to it that the divisor is not 0, and the least integer by -1 wraps
template <class T> DL_INLINE T dl_floordiv(T x, T y) {
  if (y == 0) return 0;
  if (dl_signed<T>() && y == (T)-1) return dl_neg(x);
  T q = (T)(x / y), r = (T)(x % y);
  return r != 0 && (r < 0) != (y < 0) ? (T)(q - 1) : q;
}
template <class T> DL_INLINE T dl_mod(T x, T y) {
  if (y == 0 || (dl_signed<T>() && y == (T)-1)) return 0;
  T r = (T)(x % y);
  return r != 0 && (r < 0) != (y < 0) ? (T)(r + y) : r;
}

// by as many bits as there are or more, nothing but the sign is left
template <class T> DL_INLINE T dl_shift_left(T x, T y) {
  return (u64)y < 8 * sizeof(T) ? (T)((u64)x << (u64)y) : (T)0;
}
template <class T> DL_INLINE T dl_shift_right(T x, T y) {
  return (u64)y < 8 * sizeof(T) ? (T)(x >> (u64)y) : (T)(x < 0 ? -1 : 0);
}

template <class T, class E> DL_INLINE T dl_powi(T x, E y) {
  u64 base = (u64)x, left = y < 0 ? 0 : (u64)y, result = 1;
  for (; left; left >>= 1) {
    if (left & 1) result *= base;
    base *= base;
  }
  return (T)result;
}

// ---- floats ----
DL_INLINE f64 dl_fmod(f64 x, f64 y) { return fmod(x, y); }
DL_INLINE f32 dl_fmod(f32 x, f32 y) { return fmodf(x, y); }
DL_INLINE f64 dl_floor(f64 x) { return floor(x); }
DL_INLINE f32 dl_floor(f32 x) { return floorf(x); }
DL_INLINE f64 dl_copysign(f64 x, f64 y) { return copysign(x, y); }
DL_INLINE f32 dl_copysign(f32 x, f32 y) { return copysignf(x, y); }

// A power of floats whose exponent is an integer: as a float a large one loses its last bit, which has the sign.
template <class T, class E> DL_INLINE T dl_signed_power(T power, T x, E y) {
  return y & 1 ? dl_copysign(power, x) : power;
}

template <class T> DL_INLINE T dl_real_mod(T x, T y) {
  T r = dl_fmod(x, y);
  if (r == 0) return dl_copysign((T)0, y);
  return r == r && (r < 0) != (y < 0) ? r + y : r;
}
template <class T> DL_INLINE T dl_real_floordiv(T x, T y) {
  T plain = x / y, r = dl_fmod(x, y), q = (x - r) / y;
  if (y == 0) return plain;
  if ((r < 0 || r > 0) && (r < 0) != (y < 0)) q = q - 1;
  if (q == 0) return dl_copysign((T)0, plain);
  T whole = dl_floor(q);
  return q - whole > (T)0.5 ? whole + 1 : whole;
}
DL_INLINE f64 dl_mod(f64 x, f64 y) { return dl_real_mod(x, y); }
DL_INLINE f32 dl_mod(f32 x, f32 y) { return dl_real_mod(x, y); }
DL_INLINE f64 dl_floordiv(f64 x, f64 y) { return dl_real_floordiv(x, y); }
DL_INLINE f32 dl_floordiv(f32 x, f32 y) { return dl_real_floordiv(x, y); }

// the product of a cotangent with a local derivative
template <class T> DL_INLINE T dl_zero_safe_mul(T x, T y) { return x == 0 ? x : x * y; }
template <class T> DL_INLINE T dl_zero_safe_mul_both(T x, T y) { return x == 0 ? x : y == 0 ? y : x * y; }
template <class T> DL_INLINE T dl_sign(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x; }
template <class T> DL_INLINE T dl_maximum(T x, T y) { return x != x || x > y ? x : y; }
template <class T> DL_INLINE T dl_minimum(T x, T y) { return x != x || x < y ? x : y; }

// a power by products, as many as its exponent has bits
template <int N, class T> DL_INLINE T dl_product(T x) {
  if constexpr (N == 0) return (T)1;
  else if constexpr (N == 1) return x;
  else {
    T half = dl_product<N / 2>(x);
    T square = (T)(half * half);
    if constexpr (N % 2) return (T)(square * x);
    else return square;
  }
}
template <int N, class T> DL_INLINE T dl_real_power(T x) {
  if constexpr (N < 0) return (T)1 / dl_product<-N>(x);
  else return dl_product<N>(x);
}
template <int N> DL_INLINE f64 dl_power(f64 x) { return dl_real_power<N>(x); }
template <int N> DL_INLINE f32 dl_power(f32 x) { return dl_real_power<N>(x); }
template <int N, class T> DL_INLINE T dl_power(T x) { return (T)dl_product<(N < 0 ? 0 : N)>((u64)x); }

// truncated; what is too large or too small becomes the largest or the smallest, NaN becomes 0
template <class T> DL_INLINE T dl_integer(f64 x) {
  const bool sign = dl_signed<T>();
  const f64 span = sizeof(T) == 8 ? 18446744073709551616.0 : (f64)(1ull << 8 * (sizeof(T) & 7));
  const u64 ones = ~0ull >> (64 - 8 * sizeof(T));
  const f64 above = sign ? span * 0.5 : span;
  if (!(x == x)) return 0;
  if (x >= above) return (T)(sign ? ones >> 1 : ones);
  if (x <= (sign ? -above - 1.0 : -1.0)) return (T)(sign ? (ones >> 1) + 1 : 0);
  return (T)x;
}

// the logarithmic derivative of the gamma function: by its recurrence up to 10, then by its asymptotic series
DL_INLINE f64 dl_digamma(f64 x) {
  f64 total = 0.0;
  if (x == 0.0) return copysign(dl_infinity_f64(), -x);
  if (x < 0.0) {
    if (x == floor(x)) return dl_nan_f64();
    const f64 pi = 3.141592653589793;
    total = -pi / tan(pi * (x - rint(x)));
    x = 1.0 - x;
  }
  if (x != x || x == dl_infinity_f64()) return x;
  while (x < 10.0) {
    total -= 1.0 / x;
    x += 1.0;
  }
  const f64 w = 1.0 / (x * x);
  const f64 terms[] = {1.0 / 12.0, 691.0 / 32760.0, 1.0 / 132.0, 1.0 / 240.0, 1.0 / 252.0, 1.0 / 120.0, 1.0 / 12.0};
  f64 series = 0.0;
  for (u32 k = 0; k < 7; ++k) series = terms[k] - w * series;
  return total + log(x) - 0.5 / x - w * series;
}
DL_INLINE f32 dl_digamma(f32 x) { return (f32)dl_digamma((f64)x); }

// ---- half precision: in memory 16 bits, in variables an f32 that is a number of the type ----
DL_INLINE f32 dl_decode_bf16(u16 x) { return dl_of_bits((u32)x << 16); }
DL_INLINE f32 dl_decode_f16(u16 x) {
  u32 sign = (x & 0x8000u) << 16, size = (x & 0x7fffu) << 13;
  u32 found = dl_bits(dl_of_bits(size) * 5192296858534827628530496329220096.0f);
  if (size >= 0x7c00u << 13) found = size | 0x7f800000u;
  return dl_of_bits(found | sign);
}
DL_INLINE u16 dl_encode_bf16(f32 x) { return (u16)(dl_bits(x) >> 16); }
DL_INLINE u16 dl_encode_f16(f32 x) {
  u32 bits = dl_bits(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  u32 number = dl_bits(dl_of_bits(size) * 1.9259299443872359e-34f) >> 13;
  if (size == 0x7f800000u) number = 0x7c00u;
  if (size > 0x7f800000u) number = 0x7e00u;
  return (u16)(number | sign);
}
// to the nearest, ties to even
DL_INLINE f32 dl_round_bf16(f32 x) {
  u32 bits = dl_bits(x), sign = bits & 0x80000000u, size = bits & 0x7fffffffu;
  u32 found = (size + 0x7fffu + (size >> 16 & 1u)) & 0xffff0000u;
  if (size > 0x7f800000u) found = size | 0x400000u;
  return dl_of_bits(found | sign);
}
DL_INLINE f32 dl_round_f16(f32 x) {
  u32 bits = dl_bits(x), sign = bits & 0x80000000u, size = bits & 0x7fffffffu;
  u32 found = (size + 0xfffu + (size >> 13 & 1u)) & 0xffffe000u;
  // below the normal numbers the spacing is 2^-24, as that of f32 is between 1/2 and 1
  if (size < 0x38800000u) found = dl_bits((dl_of_bits(size) + 0.5f) - 0.5f);
  if (found > 0x477fe000u) found = 0x7f800000u;
  if (size > 0x7f800000u) found = size | 0x400000u;
  return dl_of_bits(found | sign);
}
// an f64 as an f32 that is rounded to the same number of half precision: where it is not exact its last bit is set
DL_INLINE f32 dl_to_odd(f64 x) {
  f32 near = (f32)x;
  f64 back = (f64)near;
  if (back == x || x != x) return near;
  u32 bits = dl_bits(near);
  return dl_of_bits((fabs(back) > fabs(x) ? bits - 1u : bits) | 1u);
}

// ---- random bits: Threefry-2x64 with 20 rounds ----
struct dl_pair { u64 x, y; };
DL_INLINE dl_pair dl_threefry(u64 k0, u64 k1, u64 c0, u64 c1) {
  const u32 places[8] = {16, 42, 12, 31, 16, 32, 24, 21};
  const u64 keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdaa9fc1a22ull};
  u64 x = c0 + k0, y = c1 + k1;
  for (u32 r = 0; r < 20; ++r) {
    x += y;
    y = (y << places[r % 8] | y >> (64 - places[r % 8])) ^ x;
    if (r % 4 == 3) {
      u32 s = r / 4 + 1;
      x += keys[s % 3];
      y += keys[(s + 1) % 3] + s;
    }
  }
  return {x, y};
}

// ---- extrema with their places: the lowest rank wins, -1 is none, NaN counts as the extremum ----
template <class T> DL_INLINE bool dl_larger(T value, i64 rank, T best, i64 best_rank) {
  bool beats = !(value <= best) && best == best, level = value >= best || value != value;
  return beats || (level && (u64)rank < (u64)best_rank);
}
template <class T> DL_INLINE bool dl_smaller(T value, i64 rank, T best, i64 best_rank) {
  bool beats = !(value >= best) && best == best, level = value <= best || value != value;
  return beats || (level && (u64)rank < (u64)best_rank);
}

// ---- several threads at one element ----
template <class T, class J> DL_INLINE void dl_atomic_64(T *at, T value, J join) {
  u64 *word = (u64 *)at, old = *(volatile u64 *)word, seen;
  do {
    seen = old;
    const u64 made = (u64)dl_word(join(dl_of_word<T>((i64)seen), value));
    if (made == seen) return;
    old = atomicCAS(word, seen, made);
  } while (old != seen);
}
template <class T, class J> DL_INLINE void dl_atomic_32(T *at, T value, J join) {
  u32 *word = (u32 *)at, old = *(volatile u32 *)word, seen;
  do {
    seen = old;
    const u32 made = (u32)dl_word(join(dl_of_word<T>((i64)seen), value));
    if (made == seen) return;
    old = atomicCAS(word, seen, made);
  } while (old != seen);
}
// of elements smaller than a word: the others in the word stay as they are
template <class T, class J> DL_INLINE void dl_atomic_part(T *at, T value, J join) {
  u64 address = (u64)at;
  u32 *word = (u32 *)(address & ~3ull);
  u32 shift = (u32)(address & 3) * 8, mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift;
  u32 old = *(volatile u32 *)word, seen;
  do {
    seen = old;
    u32 made = (u32)dl_word(join(dl_of_word<T>((i64)(seen >> shift)), value)) << shift & mask;
    old = atomicCAS(word, seen, (seen & ~mask) | made);
  } while (old != seen);
}
template <class T, class J> DL_INLINE void dl_atomic(T *at, T value, J join) {
  if constexpr (sizeof(T) == 8) dl_atomic_64(at, value, join);
  else if constexpr (sizeof(T) == 4) dl_atomic_32(at, value, join);
  else dl_atomic_part(at, value, join);
}
struct dl_or { template <class T> __device__ T operator()(T x, T y) const { return x || y; } };
struct dl_and { template <class T> __device__ T operator()(T x, T y) const { return x && y; } };
struct dl_sum { template <class T> __device__ T operator()(T x, T y) const { return dl_add(x, y); } };
struct dl_times { template <class T> __device__ T operator()(T x, T y) const { return dl_mul(x, y); } };
struct dl_real_times { template <class T> __device__ T operator()(T x, T y) const { return x * y; } };
struct dl_most { template <class T> __device__ T operator()(T x, T y) const { return dl_maximum(x, y); } };
struct dl_least { template <class T> __device__ T operator()(T x, T y) const { return dl_minimum(x, y); } };
template <class T> DL_INLINE void dl_atomic_sum(T *at, T value) { dl_atomic(at, value, dl_sum()); }
DL_INLINE void dl_atomic_sum(f64 *at, f64 value) { atomicAdd(at, value); }
DL_INLINE void dl_atomic_sum(f32 *at, f32 value) { atomicAdd(at, value); }
DL_INLINE void dl_atomic_sum(i64 *at, i64 value) { atomicAdd((u64 *)at, (u64)value); }
DL_INLINE void dl_atomic_sum(u64 *at, u64 value) { atomicAdd(at, value); }
DL_INLINE void dl_atomic_sum(i32 *at, i32 value) { atomicAdd((u32 *)at, (u32)value); }
DL_INLINE void dl_atomic_sum(u32 *at, u32 value) { atomicAdd(at, value); }
template <class T> DL_INLINE void dl_atomic_prod(T *at, T value) { dl_atomic(at, value, dl_times()); }
DL_INLINE void dl_atomic_prod(f64 *at, f64 value) { dl_atomic(at, value, dl_real_times()); }
DL_INLINE void dl_atomic_prod(f32 *at, f32 value) { dl_atomic(at, value, dl_real_times()); }
template <class T> DL_INLINE void dl_atomic_max(T *at, T value) { dl_atomic(at, value, dl_most()); }
template <class T> DL_INLINE void dl_atomic_min(T *at, T value) { dl_atomic(at, value, dl_least()); }
template <class T> DL_INLINE void dl_atomic_any(T *at, T value) { dl_atomic(at, value, dl_or()); }
template <class T> DL_INLINE void dl_atomic_all(T *at, T value) { dl_atomic(at, value, dl_and()); }

// ---- a guard that fails: of all trips the first one is told, and later kernels of the run do nothing ----
// whether the run has failed before this launch, whose guards are `count` from `site` on
DL_INLINE bool dl_failed(const dl_run *run, i64 site, i64 count) {
  if (*(const volatile u64 *)&run->trip == ~0ull) return false;
  __threadfence();
  return (u64)(*(const volatile i64 *)&run->site - site) >= (u64)count;
}
DL_INLINE void dl_fail(dl_run *run, i64 trip, i64 site, i32 count, const i64 *values) {
  // A thread that waits for the lock goes on when the one that holds it, which waits for nobody, has let it go.
  for (bool told = false; !told;) {
    if (atomicExch(&run->lock, 1u) == 0) {
      __threadfence();
      if ((u64)trip < *(volatile u64 *)&run->trip) {
        run->site = site;  // before the trip, by which others know that there is one
        __threadfence();
        *(volatile u64 *)&run->trip = (u64)trip;
        for (i32 k = 0; k < count; ++k) run->values[k] = values[k];
      }
      __threadfence();
      atomicExch(&run->lock, 0u);
      told = true;
    }
  }
}

// ---- reductions ----
// Totals are a struct of accumulators: join(other) adds those of later trips, shuffled(d) gives those of the lane whose
// number differs in d, put and get write and read them as words; it begins with the identities.
template <class T> DL_INLINE T dl_shuffle(T x, i32 d) { return (T)__shfl_xor_sync(0xffffffffu, (i32)x, d); }
DL_INLINE f64 dl_shuffle(f64 x, i32 d) { return __shfl_xor_sync(0xffffffffu, x, d); }
DL_INLINE f32 dl_shuffle(f32 x, i32 d) { return __shfl_xor_sync(0xffffffffu, x, d); }
DL_INLINE i64 dl_shuffle(i64 x, i32 d) { return __shfl_xor_sync(0xffffffffu, x, d); }
DL_INLINE u64 dl_shuffle(u64 x, i32 d) { return __shfl_xor_sync(0xffffffffu, x, d); }
DL_INLINE u32 dl_shuffle(u32 x, i32 d) { return __shfl_xor_sync(0xffffffffu, x, d); }

// those of all lanes of a warp, which all get the same bits: neighbours first, in order. Loops, as they are little text
template <class T> DL_INLINE void dl_fold_warp(T &mine) {
#pragma unroll 1
  for (i32 d = 1; d < DL_WARP; d <<= 1) {
    T other = mine.shuffled(d);
    if (dl_lane() & d) {
      other.join(mine);
      mine = other;
    } else {
      mine.join(other);
    }
  }
}

// those of all threads of a group, a warp or a block, which all get the same bits
template <class T> DL_INLINE void dl_fold_group(T &mine, i32 width) {
  dl_fold_warp(mine);
  if (width == DL_WARP) return;
  DL_SHARED(i64, words, DL_WARP * T::count);
  const i32 warps = width / DL_WARP;
  if (dl_lane() == 0) mine.put(words, (i32)threadIdx.x / DL_WARP * T::count);
  __syncthreads();
  mine = T();
  if (dl_lane() < warps) mine.get(words, dl_lane() * T::count);
  dl_fold_warp(mine);
  __syncthreads();
}

// what comes before a thread: `before` all of the block and then the threads before it; afterwards `before` has all of
// the block's in it as well
template <class T> DL_INLINE void dl_scan_block(T &mine, T &before) {
  DL_SHARED(i64, words, DL_BLOCK * T::count);
  const i32 at = (i32)threadIdx.x;
  mine.put(words, at * T::count);
#pragma unroll 1
  for (i32 d = 1; d < (i32)blockDim.x; d *= 2) {
    T other;
    __syncthreads();
    if (at >= d) other.get(words, (at - d) * T::count);
    __syncthreads();
    other.join(mine);
    mine = other;
    mine.put(words, at * T::count);
  }
  __syncthreads();
  T all = before, earlier;
  if (at > 0) earlier.get(words, (at - 1) * T::count);
  mine = before;
  mine.join(earlier);
  earlier.get(words, ((i32)blockDim.x - 1) * T::count);
  all.join(earlier);
  before = all;
  __syncthreads();
}

// those of all rows of threads, a row having so many columns, for the first row
template <class T, i32 N> DL_INLINE void dl_fold_columns(T (&mine)[N], i32 columns, i32 rows) {
  if (rows == 1) return;
  DL_SHARED(i64, words, DL_BLOCK * N * T::count);
  const i32 at = (i32)threadIdx.x, row = at / columns;
#pragma unroll
  for (i32 k = 0; k < N; ++k) mine[k].put(words, (at * N + k) * T::count);
#pragma unroll 1
  for (i32 left = rows; left > 1;) {
    const i32 half = (left + 1) / 2;
    __syncthreads();
    if (row < left - half) {
#pragma unroll
      for (i32 k = 0; k < N; ++k) {
        T other;
        other.get(words, ((at + half * columns) * N + k) * T::count);
        mine[k].join(other);
        mine[k].put(words, (at * N + k) * T::count);
      }
    }
    left = half;
  }
  __syncthreads();
}

// those of all threads of a block, for its first warp; the next call is behind a barrier
template <class T> DL_INLINE void dl_fold_block(T &mine) {
  DL_SHARED(i64, words, DL_WARP * T::count);
  const i32 warp = (i32)(threadIdx.x / DL_WARP), warps = (i32)(blockDim.x / DL_WARP);
  dl_fold_warp(mine);
  if (dl_lane() == 0) mine.put(words, warp * T::count);
  __syncthreads();
  if (warp == 0) {
    mine = T();
    if (dl_lane() < warps) mine.get(words, dl_lane() * T::count);
    dl_fold_warp(mine);
  }
}

// those of all threads of a grid, by the block that comes last: its order is that of the blocks, whichever this is.
// True for the one thread that has them.
template <class T> DL_INLINE bool dl_fold_grid(dl_run *run, T &mine) {
  DL_SHARED(u32, last, 1);
  dl_fold_block(mine);
  if (threadIdx.x == 0) {
    mine.put(run->partials, (i64)blockIdx.x * T::count);
    __threadfence();
    last[0] = atomicInc(&run->ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last[0]) return false;
  __threadfence();
  mine = T();
  // each thread takes blocks that are side by side, so that the order stays
  const i64 each = ((i64)gridDim.x + blockDim.x - 1) / blockDim.x;
  for (i64 b = threadIdx.x * each; b < (threadIdx.x + 1) * each && b < gridDim.x; ++b) {
    T part;
    part.get(run->partials, b * T::count);
    mine.join(part);
  }
  dl_fold_block(mine);
  return threadIdx.x == 0;
}
