#include <math.h>

#define PROGRAM(T, K, sqrt)                                                                                      \
  double value_##K(const T *restrict x, const T *restrict y, const T *restrict z, T softening, long n) {         \
    double energy = 0;                                                                                           \
    for (long i = 0; i < n; i++) {                                                                               \
      T s = 0;                                                                                                   \
      for (long j = 0; j < n; j++) {                                                                             \
        T a = x[i] - x[j], b = y[i] - y[j], c = z[i] - z[j];                                                     \
        s += 1 / sqrt(a * a + b * b + c * c + softening);                                                        \
      }                                                                                                          \
      energy += s;                                                                                               \
    }                                                                                                            \
    return 0.5 * (energy - n / sqrt(softening));                                                                 \
  }                                                                                                              \
  double gradient_##K(const T *restrict x, const T *restrict y, const T *restrict z, T softening, long n,        \
                      T *restrict g) {                                                                           \
    double energy = 0;                                                                                           \
    for (long i = 0; i < n; i++) {                                                                               \
      T s = 0, u = 0, v = 0, w = 0;                                                                              \
      for (long j = 0; j < n; j++) {                                                                             \
        T a = x[i] - x[j], b = y[i] - y[j], c = z[i] - z[j];                                                     \
        T k = 1 / sqrt(a * a + b * b + c * c + softening), cube = k * k * k;                                     \
        s += k;                                                                                                  \
        u -= cube * a;                                                                                           \
        v -= cube * b;                                                                                           \
        w -= cube * c;                                                                                           \
      }                                                                                                          \
      energy += s;                                                                                               \
      g[3 * i] = u;                                                                                              \
      g[3 * i + 1] = v;                                                                                          \
      g[3 * i + 2] = w;                                                                                          \
    }                                                                                                            \
    return 0.5 * (energy - n / sqrt(softening));                                                                 \
  }
PROGRAM(double, f64, sqrt)
PROGRAM(float, f32, sqrtf)
