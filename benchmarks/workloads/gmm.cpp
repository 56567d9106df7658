extern "C" double exp(double);
extern "C" double log(double);

template <int k>
static inline double log_sum_exp(const double* x) {
  double top = x[0], sum = 0;
  for (int i = 1; i < k; i++) top = x[i] > top ? x[i] : top;
  for (int i = 0; i < k; i++) sum += exp(x[i] - top);
  return top + log(sum);
}

// Without the terms that do not depend on the arguments. A row of `icf`: the logarithms of a factor's diagonal, then
// what is below it, by columns.
template <int d, int k, int n>
void value(enzyme::tensor<double>& out, const enzyme::tensor<double, k>& alphas,
           const enzyme::tensor<double, k, d>& means, const enzyme::tensor<double, k, d*(d + 1) / 2>& icf,
           const enzyme::tensor<double, n, d>& points) {
  double q[k][d], sums[k], squares = 0;
  for (int c = 0; c < k; c++) {
    sums[c] = 0;
    for (int i = 0; i < d; i++) {
      q[c][i] = exp(icf[c][i]);
      sums[c] += icf[c][i];
      squares += q[c][i] * q[c][i];
    }
    for (int i = d; i < d * (d + 1) / 2; i++) squares += icf[c][i] * icf[c][i];
  }
  double likelihood = 0, scores[k], x[d], z[d];  // arrays of a loop would get wrong derivatives
  for (int p = 0; p < n; p++) {
    for (int c = 0; c < k; c++) {
      double square = 0;
      for (int i = 0; i < d; i++) x[i] = points[p][i] - means[c][i];
      for (int i = 0; i < d; i++) z[i] = q[c][i] * x[i];
      int at = d;
      for (int j = 0; j < d; j++)
        for (int i = j + 1; i < d; i++) z[i] += icf[c][at++] * x[j];
      for (int i = 0; i < d; i++) square += z[i] * z[i];
      scores[c] = alphas[c] + sums[c] - 0.5 * square;
    }
    likelihood += log_sum_exp<k>(scores);
  }
  double weights[k];
  for (int c = 0; c < k; c++) weights[c] = alphas[c];
  out = likelihood - n * log_sum_exp<k>(weights) + 0.5 * squares;
}
