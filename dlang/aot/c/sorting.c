/* Positions of the elements of an array in ascending order, of dtypes that compiled code does not sort itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "inside.h"
#include "text.h"

typedef struct {
    int64_t key, position;
} item;

/* Numbers in the order of those that an element is compared by; what is no number comes last. */
static int64_t key_of(const dl_dtype *dtype, const char *at) {
    int64_t word = dl_element(dtype, at);
    if (dtype->kind != 'f') return word; /* of at most 16 bits, or a text */
    double x = dl_float_in_word(dtype, word) + 0.0; /* no zero is below another */
    if (isnan(x)) return INT64_MAX;
    memcpy(&word, &x, sizeof word);
    return word < 0 ? INT64_MIN - word : word;
}

static bool after(bool texts, const item *a, const item *b) {
    if (!texts) return a->key > b->key;
    const dl_text *x = dl_text_of(a->key), *y = dl_text_of(b->key);
    size_t n = (size_t)x->length, m = (size_t)y->length;
    int order = memcmp(x->bytes, y->bytes, n < m ? n : m);
    return order ? order > 0 : n > m;
}

bool dl_argsort(dl_context *c, const dl_dtype *dtype, const char *data, int64_t count, int64_t *out) {
    item *from = malloc(2 * sizeof *from * (size_t)(count + 1)), *to = from + count, *all = from;
    if (!from) return dl_no_room(c);
    for (int64_t k = 0; k < count; k++) from[k] = (item){key_of(dtype, data + k * dtype->bytes), k};
    for (int64_t width = 1; width < count; width *= 2) { /* merges runs, of which equal elements keep their order */
        for (int64_t begin = 0; begin < count; begin += 2 * width) {
            int64_t middle = begin + width < count ? begin + width : count;
            int64_t end = middle + width < count ? middle + width : count;
            for (int64_t i = begin, j = middle, k = begin; k < end; k++) {
                bool right = i == middle || (j < end && after(dtype == &dl_str, &from[i], &from[j]));
                to[k] = right ? from[j++] : from[i++];
            }
        }
        item *other = from;
        from = to, to = other;
    }
    for (int64_t k = 0; k < count; k++) out[k] = from[k].position;
    free(all);
    return true;
}
