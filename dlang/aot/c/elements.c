/* Elements of arrays, as they are in memory. */
#include "elements.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "files.h"
#include "inside.h"
#include "text.h"

int64_t dl_element(const dl_dtype *dtype, const char *at) {
    uint16_t bits;
    float small;
    int64_t word = 0;
    if (dtype->kind == 'f' && dtype->bytes == 2) {
        memcpy(&bits, at, 2);
        if (dtype->brain) {
            uint32_t wide = (uint32_t)bits << 16;
            memcpy(&word, &wide, 4);
            return word;
        }
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        small = exponent == 31 ? (fraction ? NAN : INFINITY)
                               : ldexpf((float)(exponent ? fraction + 1024 : fraction), (exponent ? exponent : 1) - 25);
        if (bits >> 15) small = -small;
        memcpy(&word, &small, 4);
        return word;
    }
    if (dtype->kind == 'i') {
        switch (dtype->bytes) {
        case 1: return *(const int8_t *)at;
        case 2: return *(const int16_t *)at;
        case 4: return *(const int32_t *)at;
        }
    }
    if (dtype->kind == 'b') return *at != 0; /* of another library it may be any number */
    memcpy(&word, at, dtype->bytes);
    return word;
}

static uint16_t half_bits(double x) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return sign | 0x7E00;
    x = fabs(dl_as_dtype(x, dl_f16.digits));
    if (isinf(x)) return sign | 0x7C00;
    if (x < 0x1p-14) return sign | (uint16_t)(x * 0x1p24);
    int exponent;
    double fraction = frexp(x, &exponent);
    return sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)((fraction * 2 - 1) * 1024);
}

void dl_store(char *at, const dl_dtype *dtype, dl_number x) {
    float small = dtype->brain ? dl_rounded_bf16((float)x.real) : (float)x.real;
    uint16_t half;
    uint32_t wide;
    if (dtype->kind != 'f') memcpy(at, &x.whole, dtype->bytes);
    else if (dtype->bytes == 8) memcpy(at, &x.real, 8);
    else if (dtype->bytes == 4) memcpy(at, &small, 4);
    else {
        memcpy(&wide, &small, 4);
        half = dtype->brain ? (uint16_t)(wide >> 16) : half_bits(x.real);
        memcpy(at, &half, 2);
    }
}

void dl_put_word(char *at, const dl_dtype *dtype, int64_t word) {
    if (dtype->kind == 'f') dl_store(at, dtype, (dl_number){dl_float_in_word(dtype, word), 0});
    else memcpy(at, &word, dtype->bytes);
}

char *dl_array_in(dl_context *c, const int64_t *sizes, int rank, const dl_dtype *dtype, int64_t *out) {
    int64_t count = dl_count(sizes, rank), bytes;
    char *data = NULL;
    if (count >= 0 && !__builtin_mul_overflow(count, dtype->bytes, &bytes)) data = dl_alloc(c->words, bytes ? bytes : 1);
    if (!data) {
        dl_no_room(c);
        return NULL;
    }
    memcpy(out, sizes, sizeof *sizes * (size_t)rank);
    out[rank] = (intptr_t)data;
    return data;
}

const char *dl_axes(int rank) {
    static _Thread_local char text[2][16];
    static _Thread_local int which;
    char *out = text[which = !which];
    snprintf(out, sizeof text[0], rank == 1 ? "1 axis" : "%d axes", rank);
    return out;
}
