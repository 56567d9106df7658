/* Decompression of DEFLATE (RFC 1951): codes are looked up in a table by the next bits of the input. */
#include "inflate.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 15, LITERALS = 288, DISTANCES = 32, END = 256 };

typedef struct {
    const unsigned char *at, *end;
    uint64_t bits; /* the next ones, the first of them lowest */
    int count;     /* of bits that are there; those beyond the input are zeros and counted in `missing` */
    int missing;
} input;

typedef struct {
    uint16_t entries[1 << LONGEST]; /* by the next bits: a symbol, and in the low 4 bits the length of its code; 0: none */
    int width;                      /* of the longest code */
} code;

static void fill(input *in) {
    while (in->count <= 56) {
        if (in->at < in->end) in->bits |= (uint64_t)*in->at++ << in->count;
        else in->missing += 8;
        in->count += 8;
    }
}

static unsigned take(input *in, int n) {
    unsigned found = (unsigned)(in->bits & ((1u << n) - 1));
    in->bits >>= n;
    in->count -= n;
    return found;
}

/* Whether more bits were taken than there are. */
static bool beyond(const input *in) { return in->missing > in->count; }

/* The canonical code of such lengths (0: no code); whether they make one. */
static bool make(code *c, const unsigned char *lengths, int symbols) {
    int counts[LONGEST + 1] = {0}, next[LONGEST + 2] = {0}, left = 1;
    for (int k = 0; k < symbols; k++) counts[lengths[k]]++;
    counts[0] = 0;
    c->width = 0;
    for (int n = 1; n <= LONGEST; n++) {
        left = 2 * left - counts[n];
        if (left < 0) return false;
        next[n + 1] = (next[n] + counts[n]) << 1;
        if (counts[n]) c->width = n;
    }
    memset(c->entries, 0, sizeof *c->entries << c->width);
    for (int k = 0; k < symbols; k++) {
        int n = lengths[k];
        if (!n) continue;
        unsigned reversed = 0, own = (unsigned)next[n]++;
        for (int b = 0; b < n; b++) reversed |= (own >> b & 1) << (n - 1 - b);
        for (unsigned at = reversed; at < 1u << c->width; at += 1u << n) c->entries[at] = (uint16_t)(k << 4 | n);
    }
    return true;
}

/* The next symbol; -1 where no code begins like that. */
static int symbol(input *in, const code *c) {
    unsigned entry = c->entries[in->bits & ((1u << c->width) - 1)];
    take(in, entry & 15);
    return entry ? (int)(entry >> 4) : -1;
}

/* The lengths of the codes of a block, which are themselves in a code. */
static bool dynamic(input *in, code *literals, code *distances) {
    static const unsigned char order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    unsigned char lengths[LITERALS + DISTANCES] = {0};
    fill(in);
    int some = (int)take(in, 5) + 257, others = (int)take(in, 5) + 1, own = (int)take(in, 4) + 4;
    for (int k = 0; k < own; k++) {
        fill(in);
        lengths[order[k]] = (unsigned char)take(in, 3);
    }
    if (some > LITERALS || !make(literals, lengths, 19)) return false;
    memset(lengths, 0, sizeof lengths);
    for (int k = 0; k < some + others;) {
        fill(in);
        int found = symbol(in, literals), times = 1;
        unsigned char value = (unsigned char)found;
        if (found < 0 || beyond(in) || (found == 16 && !k)) return false;
        if (found == 16) value = lengths[k - 1], times = 3 + (int)take(in, 2);
        else if (found > 16) value = 0, times = found == 17 ? 3 + (int)take(in, 3) : 11 + (int)take(in, 7);
        if (times > some + others - k) return false;
        memset(lengths + k, value, (size_t)times);
        k += times;
    }
    return lengths[END] && make(distances, lengths + some, others) && make(literals, lengths, some);
}

static bool fixed(code *literals, code *distances) {
    unsigned char lengths[LITERALS];
    for (int k = 0; k < LITERALS; k++) lengths[k] = k < 144 ? 8 : k < 256 ? 9 : k < 280 ? 7 : 8;
    make(literals, lengths, LITERALS);
    memset(lengths, 5, 30);
    return make(distances, lengths, 30);
}

typedef struct {
    unsigned char *begin, *at, *end;
} output;

static bool compressed(input *in, output *out, const code *literals, const code *distances) {
    static const uint16_t lengths[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                       31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint16_t starts[] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                      193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    for (;;) {
        fill(in);
        int found = symbol(in, literals);
        if (found < 0 || beyond(in)) return false;
        if (found == END) return true;
        if (found < END) {
            if (out->at == out->end) return false;
            *out->at++ = (unsigned char)found;
            continue;
        }
        int k = found - END - 1;
        if (k >= 29) return false;
        size_t length = lengths[k] + take(in, k < 8 || k == 28 ? 0 : k / 4 - 1);
        int d = symbol(in, distances);
        if (d < 0 || d >= 30) return false;
        size_t distance = starts[d] + take(in, d < 4 ? 0 : d / 2 - 1);
        if (beyond(in) || distance > (size_t)(out->at - out->begin) || length > (size_t)(out->end - out->at)) return false;
        for (; length; length--, out->at++) *out->at = *(out->at - distance);
    }
}

static bool stored(input *in, output *out) {
    take(in, in->count & 7);
    fill(in);
    size_t length = take(in, 16), inverse = take(in, 16);
    if (beyond(in) || (length ^ inverse) != 0xFFFF || length > (size_t)(out->end - out->at)) return false;
    for (; length && in->count; length--) *out->at++ = (unsigned char)take(in, 8);
    if (beyond(in) || length > (size_t)(in->end - in->at)) return false;
    memcpy(out->at, in->at, length);
    out->at += length;
    in->at += length;
    return true;
}

bool dl_inflate(const unsigned char *bytes, size_t length, unsigned char *made, size_t size) {
    code *codes = malloc(2 * sizeof *codes);
    input in = {bytes, bytes + length, 0, 0, 0};
    output out = {made, made, made + size};
    bool fine = codes;
    for (bool last = false; fine && !last;) {
        fill(&in);
        last = take(&in, 1);
        switch (take(&in, 2)) {
        case 0: fine = stored(&in, &out); break;
        case 1: fine = fixed(&codes[0], &codes[1]) && compressed(&in, &out, &codes[0], &codes[1]); break;
        case 2: fine = dynamic(&in, &codes[0], &codes[1]) && compressed(&in, &out, &codes[0], &codes[1]); break;
        default: fine = false;
        }
    }
    free(codes);
    return fine && out.at == out.end;
}
