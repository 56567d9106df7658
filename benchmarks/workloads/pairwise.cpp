extern "C" double sqrt(double);
extern "C" float sqrtf(float);
static inline double root(double x) { return sqrt(x); }
static inline float root(float x) { return sqrtf(x); }

template <typename T, int n>
void value(enzyme::tensor<T>& out, const enzyme::tensor<T, n>& x, const enzyme::tensor<T, n>& y,
           const enzyme::tensor<T, n>& z) {
  const T softening = T(1e-2);
  T energy = 0;
  for (int i = 0; i < n; i++) {
    T s = 0;
    for (int j = 0; j < n; j++) {
      T a = x[i] - x[j], b = y[i] - y[j], c = z[i] - z[j];
      s += 1 / root(a * a + b * b + c * c + softening);
    }
    energy += s;
  }
  out = T(0.5) * (energy - n / root(softening));
}
