template <int steps>
void value(enzyme::tensor<double>& out, const enzyme::tensor<double>& parameter, const enzyme::tensor<double>& start) {
  double p = parameter, x = start;
  for (int i = 0; i < steps; i++) x = p * x * (1 - x);
  out = x;
}
