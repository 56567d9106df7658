extern "C" double exp(double);
extern "C" double log(double);
extern "C" double tanh(double);

static inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }

template <int layers, int c, int b>
void value(enzyme::tensor<double>& out, const enzyme::tensor<double, layers, 2, 4, b>& gates,
           const enzyme::tensor<double, 3, b>& vectors, const enzyme::tensor<double, layers, 2, b>& state,
           const enzyme::tensor<double, c, b>& sequence) {
  double hidden[layers][b], cells[layers][b], total = 0;
  for (int l = 0; l < layers; l++)
    for (int i = 0; i < b; i++) {
      hidden[l][i] = state[l][0][i];
      cells[l][i] = state[l][1][i];
    }
  for (int t = 0; t < c - 1; t++) {
    double x[b], y[b], sum = 2;
    for (int i = 0; i < b; i++) x[i] = sequence[t][i] * vectors[0][i];
    for (int l = 0; l < layers; l++)
      for (int i = 0; i < b; i++) {
        double forget = sigmoid(x[i] * gates[l][0][0][i] + gates[l][1][0][i]);
        double take = sigmoid(hidden[l][i] * gates[l][0][1][i] + gates[l][1][1][i]);
        double give = sigmoid(x[i] * gates[l][0][2][i] + gates[l][1][2][i]);
        double change = tanh(hidden[l][i] * gates[l][0][3][i] + gates[l][1][3][i]);
        cells[l][i] = cells[l][i] * forget + take * change;
        x[i] = hidden[l][i] = give * tanh(cells[l][i]);
      }
    for (int i = 0; i < b; i++) {
      y[i] = x[i] * vectors[1][i] + vectors[2][i];
      sum += exp(y[i]);
    }
    double norm = log(sum);
    for (int i = 0; i < b; i++) total += sequence[t + 1][i] * (y[i] - norm);
  }
  out = -total / (b * (c - 1.0));
}
