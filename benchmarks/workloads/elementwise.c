// One pass; the sines and cosines of a block are apart, since gcc makes a scalar sincos of them otherwise.
#include <math.h>

#define PROGRAM(T, K, sin, cos, exp, tanh)                                        \
  void value_##K(const T *restrict x, T *restrict out, long n) {                  \
    for (long i = 0; i < n; i++) {                                                \
      T v = x[i];                                                                 \
      out[i] = tanh(sin(v) * exp(-v * v) + v);                                    \
    }                                                                             \
  }                                                                               \
  void gradient_##K(const T *restrict x, T *restrict out, long n) {               \
    T s[512], c[512];                                                             \
    for (long b = 0; b < n; b += 512) {                                           \
      long m = n - b < 512 ? n - b : 512;                                         \
      for (long i = 0; i < m; i++) s[i] = sin(x[b + i]);                          \
      for (long i = 0; i < m; i++) c[i] = cos(x[b + i]);                          \
      for (long i = 0; i < m; i++) {                                              \
        T v = x[b + i], e = exp(-v * v), y = tanh(s[i] * e + v);                  \
        out[b + i] = (1 - y * y) * (e * (c[i] - 2 * v * s[i]) + 1);               \
      }                                                                           \
    }                                                                             \
  }
PROGRAM(double, f64, sin, cos, exp, tanh)
PROGRAM(float, f32, sinf, cosf, expf, tanhf)
