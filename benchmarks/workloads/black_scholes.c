#include <math.h>

#define ARGUMENTS(T)                                                                                             \
  const T *restrict S, const T *restrict K, const T *restrict M, const T *restrict R, const T *restrict V,       \
      T *restrict out, long n

#define PROGRAM(T, KIND, exp, log, sqrt, erf)                                                                    \
  void value_##KIND(ARGUMENTS(T)) {                                                                              \
    for (long i = 0; i < n; i++) {                                                                               \
      T width = V[i] * sqrt(M[i]);                                                                               \
      T d = (log(S[i] / K[i]) + (R[i] + (T)0.5 * V[i] * V[i]) * M[i]) / width;                                   \
      T n1 = 1 + erf(d * (T)0.7071067811865476), n2 = 1 + erf((d - width) * (T)0.7071067811865476);              \
      out[i] = (T)0.5 * (S[i] * n1 - K[i] * exp(-R[i] * M[i]) * n2);                                             \
    }                                                                                                            \
  }                                                                                                              \
  void gradient_##KIND(ARGUMENTS(T)) {                                                                           \
    T *delta = out, *theta = out + n, *rho = out + 2 * n, *vega = out + 3 * n, *gamma = out + 4 * n;             \
    for (long i = 0; i < n; i++) {                                                                               \
      T root = sqrt(M[i]), width = V[i] * root;                                                                  \
      T d = (log(S[i] / K[i]) + (R[i] + (T)0.5 * V[i] * V[i]) * M[i]) / width;                                   \
      T n1 = (T)0.5 * (1 + erf(d * (T)0.7071067811865476));                                                      \
      T n2 = (T)0.5 * (1 + erf((d - width) * (T)0.7071067811865476));                                            \
      T discounted = K[i] * exp(-R[i] * M[i]), density = exp((T)-0.5 * d * d) * (T)0.3989422804014327;           \
      delta[i] = n1;                                                                                             \
      theta[i] = S[i] * density * V[i] / (2 * root) + R[i] * discounted * n2;                                    \
      rho[i] = discounted * M[i] * n2;                                                                           \
      vega[i] = S[i] * density * root;                                                                           \
      gamma[i] = density / (S[i] * width);                                                                       \
    }                                                                                                            \
  }
PROGRAM(double, f64, exp, log, sqrt, erf)
PROGRAM(float, f32, expf, logf, sqrtf, erff)
