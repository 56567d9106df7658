#include <math.h>

#define PROGRAM(T, K, exp)                                                                                       \
  static void row_##K(const T *restrict x, T *restrict y, long m) {                                              \
    T top = x[0], s = 0;                                                                                         \
    for (long j = 0; j < m; j++) top = x[j] > top ? x[j] : top;                                                  \
    for (long j = 0; j < m; j++) {                                                                               \
      y[j] = exp(x[j] - top);                                                                                    \
      s += y[j];                                                                                                 \
    }                                                                                                            \
    s = 1 / s;                                                                                                   \
    for (long j = 0; j < m; j++) y[j] *= s;                                                                      \
  }                                                                                                              \
  void value_##K(const T *restrict x, T *restrict y, long n, long m) {                                           \
    for (long i = 0; i < n; i++) row_##K(x + i * m, y + i * m, m);                                               \
  }                                                                                                              \
  void gradient_##K(const T *restrict x, const T *restrict seed, T *restrict y, T *restrict slope, long n,       \
                    long m) {                                                                                    \
    for (long i = 0; i < n; i++) {                                                                               \
      const T *g = seed + i * m;                                                                                 \
      T *r = y + i * m, s = 0;                                                                                   \
      row_##K(x + i * m, r, m);                                                                                  \
      for (long j = 0; j < m; j++) s += r[j] * g[j];                                                             \
      for (long j = 0; j < m; j++) slope[i * m + j] = r[j] * (g[j] - s);                                         \
    }                                                                                                            \
  }
PROGRAM(double, f64, exp)
PROGRAM(float, f32, expf)
