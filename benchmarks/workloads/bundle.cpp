extern "C" double sin(double);
extern "C" double cos(double);
extern "C" double sqrt(double);

// The errors of observations: a row of `given` for each of 11 numbers of the camera, 3 of the point, and the weight.
template <int n>
void errors(enzyme::tensor<double, n>& u, enzyme::tensor<double, n>& v, const enzyme::tensor<double, 15, n>& given,
            const enzyme::tensor<double, 2, n>& seen) {
  for (int i = 0; i < n; i++) {
    double r0 = given[0][i], r1 = given[1][i], r2 = given[2][i], weight = given[14][i];
    double o0 = given[11][i] - given[3][i], o1 = given[12][i] - given[4][i], o2 = given[13][i] - given[5][i];
    double square = r0 * r0 + r1 * r1 + r2 * r2, c = 1, s = 1, along = 0;
    if (square > 0) {
      double angle = sqrt(square);
      c = cos(angle);
      s = sin(angle);
      r0 /= angle;
      r1 /= angle;
      r2 /= angle;
      along = (r0 * o0 + r1 * o1 + r2 * o2) * (1 - c);
    }
    double q0 = o0 * c + (r1 * o2 - r2 * o1) * s + r0 * along;
    double q1 = o1 * c + (r2 * o0 - r0 * o2) * s + r1 * along;
    double q2 = o2 * c + (r0 * o1 - r1 * o0) * s + r2 * along;
    double x = q0 / q2, y = q1 / q2, p = x * x + y * y;
    double scale = (1 + given[9][i] * p + given[10][i] * p * p) * given[6][i];
    u[i] = weight * (x * scale + given[7][i] - seen[0][i]);
    v[i] = weight * (y * scale + given[8][i] - seen[1][i]);
  }
}
