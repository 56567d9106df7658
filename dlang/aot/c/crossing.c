/* What crosses the border of a library: shapes of arguments, memory for results. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

__int128 dl_wide_product(__int128 a, int64_t b) {
    const __int128 most = (__int128)1 << 120; /* so that a few of these can be added */
    __int128 product;
    if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? most : -most;
    return product > most ? most : product < -most ? -most : product;
}

int64_t dl_size(__int128 size) { return size > INT64_MAX ? INT64_MAX : size < INT64_MIN ? INT64_MIN : (int64_t)size; }

int64_t dl_count(const int64_t *sizes, int rank) {
    int64_t count = 1;
    for (int k = 0; k < rank; k++) {
        if (sizes[k] < 0) return -1;
        if (__builtin_mul_overflow(count, sizes[k], &count)) return -1;
    }
    return count;
}

static void put_sizes(dl_buffer *out, const int64_t *sizes, int rank) {
    for (int k = 0; k < rank; k++) dl_printf(out, "%s%lld", k ? ", " : "", (long long)sizes[k]);
}

bool dl_wrong_shape(const char *function, const char *argument, const char *expected, const char *dtype, dl_array given,
                    const char *known, ...) {
    dl_fail("E0960", "argument `%s` of `%s`: expected %s, ", argument, function, expected);
    if (*known) {
        char *text = NULL;
        va_list list;
        va_start(list, known);
        if (vasprintf(&text, known, list) >= 0) dl_printf(dl_said(), "%s, ", text), free(text);
        va_end(list);
    }
    dl_puts(dl_said(), "got ");
    if (!given.data && dl_count(given.sizes, given.rank)) dl_puts(dl_said(), "no memory for ");
    dl_printf(dl_said(), "%s[", dtype);
    put_sizes(dl_said(), given.sizes, given.rank);
    dl_puts(dl_said(), "]");
    return true;
}

static bool has_negative(const int64_t *sizes, int rank) {
    for (int k = 0; k < rank; k++)
        if (sizes[k] < 0) return true;
    return false;
}

bool dl_refuse_negative(const char *function, const int64_t *sizes, int rank) {
    for (int k = 0; k < rank; k++)
        if (sizes[k] < 0)
            return dl_fail("E0802", "a size of the result of `%s` is negative: %lld", function, (long long)sizes[k]);
    return false;
}

bool dl_make(dl_out *out, const char *function, void *memory, const int64_t *given_sizes, const int64_t *sizes, int rank,
             size_t bytes) {
    bool none = has_negative(sizes, rank); /* the run will say why */
    int64_t count = none ? 0 : dl_count(sizes, rank);
    out->given = memory;
    if (memory && !none) {
        if (!memcmp(given_sizes, sizes, sizeof *sizes * (size_t)rank)) {
            out->made = memory;
            return false;
        }
        dl_fail("E0960", "the memory for the result of `%s` has the sizes [", function);
        put_sizes(dl_said(), given_sizes, rank);
        dl_puts(dl_said(), "], the result has [");
        put_sizes(dl_said(), sizes, rank);
        dl_puts(dl_said(), "]");
        return true;
    }
    int64_t total;
    bool fits = count >= 0 && !__builtin_mul_overflow(count, bytes, &total) && total < (int64_t)1 << 62;
    out->made = fits ? aligned_alloc(64, (size_t)(total + 64) / 64 * 64) : NULL;
    return !out->made && dl_fail("E0806", "the memory is exhausted: the result of `%s` is too large", function);
}

bool dl_hand_over(dl_context *c, dl_out *out, int64_t word, const char *function, void *given,
                  const int64_t *given_sizes, const int64_t *sizes, int rank, size_t bytes) {
    void *data = (void *)(intptr_t)word;
    if (dl_refuse_negative(function, sizes, rank)) return true;
    if (dl_make(out, function, given, given_sizes, sizes, rank, bytes)) return true;
    memcpy(out->made, data, (size_t)dl_count(sizes, rank) * bytes);
    dl_detach(data);
    dl_give(c->words, data);
    return false;
}

bool dl_text_out(dl_out *out, int64_t word) {
    out->made = strdup(dl_text_of(word)->bytes);
    return !out->made && dl_fail("E0806", "the memory is exhausted");
}

int dl_abandon(dl_context *c, dl_out *outs, int count) {
    for (int k = 0; k < count; k++)
        if (outs[k].made != outs[k].given) free(outs[k].made);
    dl_reclaim(c->words);
    dl_close(c);
    return 1;
}

void dl_give_back(void *memory) { free(memory); }
