/* Elements of arrays, as they are in memory: of texts and nodes their words. */
#ifndef DL_ELEMENTS_H
#define DL_ELEMENTS_H

#include "runtime.h"

/* A number: of an integer dtype as it is, of another as a float. Of a text the word is `whole`. */
typedef struct {
    double real;
    int64_t whole;
} dl_number;

/* An element in memory as a word, and a word as one. */
int64_t dl_element(const dl_dtype *dtype, const char *at);
void dl_put_word(char *at, const dl_dtype *dtype, int64_t word);
void dl_store(char *at, const dl_dtype *dtype, dl_number x);

/* Memory of the run for an array, whose sizes and address become results; NULL after a refusal. */
char *dl_array_in(dl_context *context, const int64_t *sizes, int rank, const dl_dtype *dtype, int64_t *out);
/* `1 axis`, `2 axes`. */
const char *dl_axes(int rank);

#endif
