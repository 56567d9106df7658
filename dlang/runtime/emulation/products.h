// Products of matrices as cuBLAS has them: columns one after another, and what is not to be read is not read.
#pragma once
#include <unordered_set>
#include <vector>
#include "device.h"

namespace emulation {
// as in CUDA's `library_types.h` and in `cublas_api.h`
enum { REAL_32 = 0, REAL_64 = 1, REAL_16 = 2, BRAIN_16 = 14 };
enum { PLAIN = 0, TRANSPOSED = 1, CONJUGATE = 2 };
enum { COMPUTE_32 = 68, COMPUTE_32_PEDANTIC = 69, COMPUTE_64 = 70, COMPUTE_64_PEDANTIC = 71 };
enum { BLAS_INVALID_VALUE = 7, BLAS_EXECUTION_FAILED = 13, BLAS_NOT_SUPPORTED = 15 };

static inline uint64_t size_of(int type) { return type == REAL_64 ? 8 : type == REAL_32 ? 4 : 2; }

static inline float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
static inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
static inline float decoded(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, size = (half & 0x7fffu) << 13;
  const uint32_t found = bits_of(float_of(size) * 0x1p112f);
  return float_of((size >= 0x7c00u << 13 ? size | 0x7f800000u : found) | sign);
}
// to the nearest, ties to even
static inline uint16_t encoded(float x) {
  const uint32_t sign = bits_of(x) >> 16 & 0x8000u, size = bits_of(x) & 0x7fffffffu;
  if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  // below the normal numbers the spacing is 2^-24, as that of floats is between 1/2 and 1
  if (size < 0x38800000u) return (uint16_t)(sign | (bits_of(float_of(size) + 0.5f) - 0x3f000000u));
  return (uint16_t)(sign | (((size + 0xfffu + (size >> 13 & 1u)) >> 13) - 0x1c000u));
}
static inline uint16_t brain_of(float x) {
  const uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <class T> static T element(const char *p, int type) {
  uint16_t half;
  switch (type) {
    case REAL_64: { double x; memcpy(&x, p, 8); return (T)x; }
    case REAL_32: { float x; memcpy(&x, p, 4); return (T)x; }
    case REAL_16: memcpy(&half, p, 2); return (T)decoded(half);
    default: memcpy(&half, p, 2); return (T)float_of((uint32_t)half << 16);
  }
}
template <class T> static void put(char *p, int type, T x) {
  uint16_t half;
  switch (type) {
    case REAL_64: { const double y = (double)x; memcpy(p, &y, 8); return; }
    case REAL_32: { const float y = (float)x; memcpy(p, &y, 4); return; }
    case REAL_16: half = encoded((float)x); memcpy(p, &half, 2); return;
    default: half = brain_of((float)x); memcpy(p, &half, 2); return;
  }
}

// A matrix on the device. stride: from one to the next in elements.
struct Matrix {
  uintptr_t address;
  int type;
  int64_t lead;
  long long stride;
  int64_t rows, columns;
};
struct Product {
  int transpose_a, transpose_b;
  int64_t m, n, k, batch;
  double alpha, beta;
  Matrix a, b, c;
  int compute;
};

// What is wrong with the columns of one of the matrices, or null. known: becomes false where some were never written.
static const char *unfit(const Memory &memory, const Matrix &x, int64_t number, bool *known) {
  if (!x.rows) return nullptr;  // nothing is read of an operand without elements
  const uint64_t size = size_of(x.type);
  for (int64_t j = 0; j < x.columns; ++j) {
    const uintptr_t at = x.address + (uintptr_t)((x.stride * number + x.lead * j) * (long long)size);
    const Block *block = memory.find(at);
    if (!block) return "is not in memory of the device";
    const uint64_t from = (at & ~FAR) - (uintptr_t)block->begin;
    if (block->bytes - from < (uint64_t)x.rows * size) return "is out of the bounds of its array";
    if (known && !all_written(block->written + from, (uint64_t)x.rows * size)) *known = false;
  }
  return nullptr;
}

// Of what was never written comes what was never written: in a run that a kernel has refused products are still done.
template <class T> static void multiply(const Memory &memory, const Product &p, int64_t number, bool known) {
  auto place = [&](const Matrix &x, int64_t i, int64_t j) {
    return (char *)(x.address & ~FAR) + (x.stride * number + x.lead * j + i) * (long long)size_of(x.type);
  };
  const T alpha = (T)p.alpha, beta = (T)p.beta;
  const int64_t inner = alpha == 0 ? 0 : p.k;
  std::vector<T> left((size_t)(inner * p.m)), sums((size_t)p.m);
  for (int64_t l = 0; l < inner; ++l)
    for (int64_t i = 0; i < p.m; ++i)
      left[(size_t)(l * p.m + i)] =
          p.transpose_a ? element<T>(place(p.a, l, i), p.a.type) : element<T>(place(p.a, i, l), p.a.type);
  for (int64_t j = 0; j < p.n; ++j) {
    for (T &sum : sums) sum = 0;
    for (int64_t l = 0; l < inner; ++l) {
      const T right = p.transpose_b ? element<T>(place(p.b, j, l), p.b.type) : element<T>(place(p.b, l, j), p.b.type);
      for (int64_t i = 0; i < p.m; ++i) sums[(size_t)i] += left[(size_t)(l * p.m + i)] * right;
    }
    for (int64_t i = 0; i < p.m; ++i) {
      char *c = place(p.c, i, j);
      const T old = beta == 0 ? 0 : beta * element<T>(c, p.c.type);
      put(c, p.c.type, (T)(alpha == 0 ? old : beta == 0 ? alpha * sums[(size_t)i] : alpha * sums[(size_t)i] + old));
    }
    const Block *block = memory.find((uintptr_t)place(p.c, 0, j) | FAR);
    memset(block->written + (place(p.c, 0, j) - block->begin), known, (size_t)p.m * size_of(p.c.type));
  }
}

// Whether the result has elements of an operand.
static bool overlaps(const Product &p, const Matrix &x, int64_t number) {
  std::unordered_set<uintptr_t> bytes;
  auto each = [&](const Matrix &y, auto visit) {
    const long long size = (long long)size_of(y.type);
    for (int64_t j = 0; j < y.columns; ++j)
      if (visit(y.address + (uintptr_t)((y.stride * number + y.lead * j) * size), (uintptr_t)(y.rows * size))) return true;
    return false;
  };
  auto span = [&](const Matrix &y) {
    return (uintptr_t)((y.lead * (y.columns - 1) + y.rows) * (long long)size_of(y.type));
  };
  auto first = [&](const Matrix &y) { return y.address + (uintptr_t)(y.stride * number * (long long)size_of(y.type)); };
  if (!x.columns || !x.rows || first(x) >= first(p.c) + span(p.c) || first(p.c) >= first(x) + span(x)) return false;
  each(p.c, [&](uintptr_t at, uintptr_t size) {
    for (uintptr_t k = 0; k < size; k += 2) bytes.insert(at + k);
    return false;
  });
  return each(x, [&](uintptr_t at, uintptr_t size) {
    for (uintptr_t k = 0; k < size; k += 2)
      if (bytes.count(at + k)) return true;
    return false;
  });
}

// Computes it; otherwise a status, and what is wrong.
static int computed(const Memory &memory, const Product &p, const char **wrong) {
  for (int64_t number = 0; number < p.batch; ++number) {
    bool known = true;
    if (p.alpha != 0) {
      for (const Matrix *x : {&p.a, &p.b}) {
        *wrong = unfit(memory, *x, number, &known);
        if (!*wrong && overlaps(p, *x, number)) *wrong = "is where the result is to be";
        if (*wrong) return BLAS_EXECUTION_FAILED;
      }
    }
    *wrong = unfit(memory, p.c, number, p.beta != 0 ? &known : nullptr);
    if (*wrong) return BLAS_EXECUTION_FAILED;
    if (p.compute == COMPUTE_64 || p.compute == COMPUTE_64_PEDANTIC) multiply<double>(memory, p, number, known);
    else multiply<float>(memory, p, number, known);
  }
  return 0;
}

// What does not fit together, as a status: 0 if all does.
static int checked(const Product &p, int64_t m, int64_t n, int64_t k) {
  if (m < 0 || n < 0 || k < 0 || p.batch < 0) return BLAS_INVALID_VALUE;
  if (p.transpose_a < PLAIN || p.transpose_a > CONJUGATE || p.transpose_b < PLAIN || p.transpose_b > CONJUGATE)
    return BLAS_INVALID_VALUE;
  for (const Matrix *x : {&p.a, &p.b, &p.c})
    if (x->lead < (x->rows > 1 ? x->rows : 1)) return BLAS_INVALID_VALUE;
  const int a = p.a.type, c = p.c.type;
  if (p.b.type != a) return BLAS_NOT_SUPPORTED;
  if (p.compute == COMPUTE_64 || p.compute == COMPUTE_64_PEDANTIC)
    return a == REAL_64 && c == REAL_64 ? 0 : BLAS_NOT_SUPPORTED;
  if (p.compute != COMPUTE_32 && p.compute != COMPUTE_32_PEDANTIC) return BLAS_NOT_SUPPORTED;
  const bool half = a == REAL_16 || a == BRAIN_16;
  return (a == REAL_32 || half) && (c == a || (half && c == REAL_32)) ? 0 : BLAS_NOT_SUPPORTED;
}
}  // namespace emulation
