double value(double p, double x, long n) {
  for (long i = 0; i < n; i++) x = p * x * (1 - x);
  return x;
}

double gradient(double p, double x, long n, double *restrict tape) {
  for (long i = 0; i < n; i++) {
    tape[i] = x;
    x = p * x * (1 - x);
  }
  double of_x = 1, of_p = 0;
  for (long i = n - 1; i >= 0; i--) {
    x = tape[i];
    of_p += of_x * x * (1 - x);
    of_x *= p * (1 - 2 * x);
  }
  return of_p;
}

double forward(double p, double x, long n) {
  double d = 0;
  for (long i = 0; i < n; i++) {
    d = x * (1 - x) + p * (1 - 2 * x) * d;
    x = p * x * (1 - x);
  }
  return d;
}
