/* Calls a function of the language, and its gradient, from C: fits a line by gradient descent.

   dlc build --shared examples/fit.dl --fn loss --value-and-grad loss -o build
   cc -Ibuild examples/from_c/fit.c -Lbuild -lfit -Wl,-rpath,build -o build/fit && build/fit */
#include <stdio.h>

#include "fit.h"

enum { POINTS = 10, WEIGHTS = 2 };

int main(void) {
    double w[WEIGHTS] = {0, 0}, x[POINTS][WEIGHTS], y[POINTS], slope[WEIGHTS], loss;
    for (int i = 0; i < POINTS; i++) {
        x[i][0] = 1;
        x[i][1] = i / 10.0;
        y[i] = 2 + 3 * x[i][1];
    }
    fit_f64_1d weights = {w, {WEIGHTS}}, targets = {y, {POINTS}};
    fit_f64_2d inputs = {&x[0][0], {POINTS, WEIGHTS}};

    /* The gradient goes into memory of ours; it would be allocated if `data` were NULL. */
    fit_tuple result = {.item1 = {slope, {WEIGHTS}}};
    for (int step = 0; step < 1000; step++) {
        if (fit_value_and_grad_loss(weights, inputs, targets, &result)) {
            fprintf(stderr, "%s\n", fit_message());
            return 1;
        }
        for (int k = 0; k < WEIGHTS; k++) w[k] -= 0.5 * slope[k];
    }
    if (fit_loss(weights, inputs, targets, &loss)) {
        fprintf(stderr, "%s\n", fit_message());
        return 1;
    }
    printf("w = [%.3f %.3f], loss = %.2e\n", w[0], w[1], loss);

    /* What the compiler proves of a program is checked here when it runs. */
    targets.size[0] = POINTS - 1;
    if (fit_loss(weights, inputs, targets, &loss)) printf("%s\n", fit_message());
    return 0;
}
