/* Arrays in NumPy's format, and what is read of them, as host/saved.py has it. */
#include "npy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "inside.h"
#include "text.h"

static const char magic[] = "\x93NUMPY";

/* ---- finding ---------------------------------------------------------------------------------------------------------- */
static const char *value_of(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    while (*at == ' ' || *at == ':' || *at == '\'' || *at == '"') at++;
    return at;
}

/* The dtype by NumPy's letters, such as `<f8`. */
static bool find_dtype(dl_npy *a, const char *letters) {
    char *end;
    if (*letters == '[') { /* a list of the fields of records */
        a->kind = 'V';
        return true;
    }
    if (!*letters || !strchr("<>|=", *letters)) return false; /* the end of a text is found in any */
    a->kind = letters[1];
    if (!a->kind || !strchr("fiubcUSMmV", a->kind)) return false;
    a->swapped = *letters == '>';
    long long number = strtoll(letters + 2, &end, 10);
    if (number < 0 || number > INT32_MAX / 8) return false;
    a->bytes = a->kind == 'U' ? 4 * number : number;
    switch (a->kind) {
    case 'b':
        snprintf(a->name, sizeof a->name, "bool");
        return number == 1;
    case 'f':
        snprintf(a->name, sizeof a->name, number == 16 ? "float128" : "f%lld", 8 * number);
        return number == 2 || number == 4 || number == 8 || number == 16;
    case 'i':
    case 'u':
        snprintf(a->name, sizeof a->name, "%c%lld", a->kind, 8 * number);
        return number == 1 || number == 2 || number == 4 || number == 8;
    case 'M':
    case 'm':
        snprintf(a->name, sizeof a->name, "%s%.*s", a->kind == 'M' ? "datetime64" : "timedelta64",
                 (int)strcspn(end, "'\""), end);
        return number == 8;
    }
    if (a->kind == 'U' || a->kind == 'S') snprintf(a->name, sizeof a->name, a->kind == 'U' ? "texts" : "bytes");
    else snprintf(a->name, sizeof a->name, "%s%lld", a->kind == 'c' ? "complex" : "void", 8 * (long long)a->bytes);
    return true;
}

static bool find_sizes(dl_npy *a, const char *shape) {
    if (*shape != '(') return false;
    for (const char *at = shape + 1; *at && *at != ')';) {
        char *end;
        long long size = strtoll(at, &end, 10);
        if (end == at || size < 0 || a->rank == DL_MOST_AXES) return false;
        a->sizes[a->rank++] = size;
        for (at = end; *at == ',' || *at == ' ';) at++;
    }
    a->count = dl_count(a->sizes, a->rank);
    return a->count >= 0;
}

bool dl_find_npy(dl_npy *a, const char *bytes, size_t length) {
    const unsigned char *head = (const unsigned char *)bytes;
    *a = (dl_npy){0};
    if (length < 12 || memcmp(bytes, magic, 6) || head[6] < 1 || head[6] > 3) return false;
    size_t before = head[6] > 1 ? 12 : 10;
    size_t own = head[8] | (size_t)head[9] << 8 | (head[6] > 1 ? (size_t)head[10] << 16 | (size_t)head[11] << 24 : 0);
    char *text = before + own <= length ? strndup(bytes + before, own) : NULL;
    if (!text) return false;
    const char *letters = value_of(text, "'descr'"), *order = value_of(text, "'fortran_order'");
    const char *shape = value_of(text, "'shape'");
    bool fine = letters && order && shape && find_dtype(a, letters) && find_sizes(a, shape);
    a->by_columns = fine && *order == 'T';
    free(text);
    if (!fine) return false;
    size_t left = length - before - own;
    a->data = bytes + before + own;
    if (a->kind == 'V' && !*a->name) {
        a->bytes = a->count ? (int64_t)left / a->count : 0;
        snprintf(a->name, sizeof a->name, "void%lld", 8 * (long long)a->bytes);
    }
    int64_t total;
    return !__builtin_mul_overflow(a->count, a->bytes, &total) && (uint64_t)total <= left;
}

/* ---- reading ---------------------------------------------------------------------------------------------------------- */
bool dl_npy_ranked(dl_context *c, const dl_npy *a, const char *what, int rank) {
    if (a->rank == rank) return true;
    dl_buffer shape = {0};
    for (int k = 0; k < a->rank; k++) dl_printf(&shape, "%s%lld", k ? ", " : "", (long long)a->sizes[k]);
    dl_refuse(c, "E0824", "`%s` has %s ([%s]), the program asks for %s", what, dl_axes(a->rank),
              shape.bytes ? shape.bytes : "", dl_axes(rank));
    dl_drop(&shape);
    return false;
}

/* Whether a dtype holds all values of that of a file. */
static bool is_safe(const dl_npy *from, const dl_dtype *to) {
    int own = to->brain ? 4 : to->bytes; /* what is bf16 is compared when it is read */
    int exact = from->bytes == 1 ? 2 : from->bytes == 2 ? 4 : 8; /* bytes of a float that holds all */
    switch (from->kind) {
    case 'b': return true;
    case 'f': return to->kind == 'f' && own >= from->bytes;
    case 'u':
        return (to->kind == 'u' && own >= from->bytes) || (to->kind == 'i' && own > from->bytes) ||
               (to->kind == 'f' && own >= exact);
    case 'i': return (to->kind == 'i' && own >= from->bytes) || (to->kind == 'f' && own >= exact);
    default: return false;
    }
}

/* The element of an array at its place by rows. */
static const char *place(const dl_npy *a, int64_t k) {
    if (!a->by_columns) return a->data + k * a->bytes;
    int64_t index[DL_MOST_AXES], from = 0, stride = 1;
    for (int axis = a->rank - 1; axis >= 0; axis--) index[axis] = k % a->sizes[axis], k /= a->sizes[axis];
    for (int axis = 0; axis < a->rank; axis++) from += index[axis] * stride, stride *= a->sizes[axis];
    return a->data + from * a->bytes;
}

static dl_number number_at(const dl_npy *a, const char *at) {
    char bytes[8] = {0};
    for (int k = 0; k < a->bytes; k++) bytes[k] = at[a->swapped ? a->bytes - 1 - k : k];
    if (a->kind == 'b') return (dl_number){*at != 0, *at != 0};
    const dl_dtype dtype = {a->kind, (uint8_t)a->bytes, 0, false};
    int64_t word = dl_element(&dtype, bytes);
    if (a->kind != 'f') return (dl_number){a->kind == 'u' ? (double)(uint64_t)word : (double)word, word};
    double x;
    float small;
    memcpy(&x, &word, 8);
    memcpy(&small, &word, 4);
    return (dl_number){a->bytes == 8 ? x : small, 0};
}

int64_t dl_npy_whole(const dl_npy *a, int64_t k) { return number_at(a, place(a, k)).whole; }

/* A text of 4 bytes for each character, without the zeros at its end. */
static bool text_at(dl_context *c, const dl_npy *a, const char *at, const char *what, int64_t *word) {
    dl_buffer text = {0};
    size_t kept = 0;
    for (int64_t k = 0; k < a->bytes; k += 4) {
        const unsigned char *u = (const unsigned char *)at + k;
        uint32_t x = a->swapped ? (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3]
                                : (uint32_t)u[3] << 24 | (uint32_t)u[2] << 16 | (uint32_t)u[1] << 8 | u[0];
        if (x > 0x10FFFF || x >> 11 == 0xD800 >> 11) {
            dl_drop(&text);
            return dl_refuse(c, "E0821", "it is damaged: `%s` holds what is no text", what);
        }
        dl_put_character(&text, x);
        if (x) kept = text.length;
    }
    bool fine = text.failed ? dl_no_room(c) : dl_text_word(c, text.bytes ? text.bytes : "", kept, word);
    dl_drop(&text);
    return fine;
}

bool dl_npy_elements(dl_context *c, const dl_npy *a, const char *what, const dl_dtype *dtype, const char *name,
                     int64_t first, int64_t count, char *into) {
    if (dtype == &dl_str && a->kind != 'U')
        return dl_refuse(c, "E0825", "`%s` holds %s, and the program asks for texts", what, a->name);
    bool fine = dtype == &dl_str || is_safe(a, dtype);
    bool same = fine && dtype->kind == a->kind && dtype->bytes == a->bytes && !dtype->brain && a->kind != 'b';
    if (same && !a->swapped && !a->by_columns) {
        memcpy(into, a->data + first * a->bytes, (size_t)count * dtype->bytes);
        return true;
    }
    for (int64_t k = 0; fine && k < count; k++, into += dtype->bytes) {
        const char *at = place(a, first + k);
        if (dtype == &dl_str) {
            int64_t word;
            if (!text_at(c, a, at, what, &word)) return false;
            memcpy(into, &word, sizeof word);
            continue;
        }
        dl_number x = number_at(a, at);
        dl_store(into, dtype, x);
        if (dtype->brain) fine = isnan(x.real) || dl_float_in_word(dtype, dl_element(dtype, into)) == x.real;
    }
    return fine || dl_refuse(c, "E0825",
                             "`%s` holds %s, which %s cannot hold without loss; read it as what it is and convert it",
                             what, a->name, name);
}

bool dl_give_npy(dl_context *c, const dl_npy *a, const char *what, dl_signature wanted, const char *name, int64_t *out) {
    if (!dl_npy_ranked(c, a, what, wanted.rank)) return false;
    char element[8] = {0};
    char *data = wanted.rank ? dl_array_in(c, a->sizes, a->rank, wanted.dtype, out) : element;
    if (!data || !dl_npy_elements(c, a, what, wanted.dtype, name, 0, a->count, data)) return false;
    if (!wanted.rank) out[0] = dl_element(wanted.dtype, element);
    return true;
}

bool dl_read_npy(dl_context *c, const char *path, dl_signature wanted, const char *dtype, int64_t *out) {
    dl_buffer file = {0};
    dl_npy a;
    if (!dl_content(c, path, &file)) return false;
    bool zip = file.length > 3 && (!memcmp(file.bytes, "PK\3\4", 4) || !memcmp(file.bytes, "PK\5\6", 4));
    bool fine = dl_find_npy(&a, file.bytes, file.length)
                    ? dl_give_npy(c, &a, path, wanted, dtype, out)
                    : dl_cannot_read(c, path, zip ? "it holds several arrays; use `io.npz`" : "it is not a file of NumPy arrays, or was cut short");
    dl_drop(&file);
    return fine;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */
/* Texts as NumPy has them: each as many characters of 4 bytes as the longest of them has. */
static bool make_texts(dl_context *c, dl_npy_file *out, int64_t count, const char *words, size_t *widest) {
    *widest = 1;
    for (int64_t k = 0; k < count; k++) {
        const dl_text *text = dl_text_of(dl_element(&dl_str, words + 8 * k));
        size_t length = (size_t)text->length, wide = dl_characters(text->bytes, length);
        if (length && !text->bytes[length - 1])
            return dl_refuse(c, "E0822", "a text that ends in NUL cannot be saved: NumPy would leave that out");
        if (wide > *widest) *widest = wide;
    }
    for (int64_t k = 0; k < count; k++) {
        const dl_text *text = dl_text_of(dl_element(&dl_str, words + 8 * k));
        const unsigned char *at = (const unsigned char *)text->bytes, *end = at + text->length;
        for (size_t n = 0; n < *widest; n++) {
            uint32_t x = 0;
            if (at < end) {
                int more = *at < 0x80 ? 0 : *at < 0xE0 ? 1 : *at < 0xF0 ? 2 : 3;
                x = more ? *at & (0x3Fu >> more) : *at;
                for (at++; more; more--) x = x << 6 | (*at++ & 0x3F);
            }
            dl_put(&out->made, (const char *)&x, sizeof x);
        }
    }
    return !out->made.failed || dl_no_room(c);
}

bool dl_make_npy(dl_context *c, dl_npy_file *out, const dl_dtype *dtype, int rank, const int64_t *sizes, const char *data) {
    int64_t count = dl_count(sizes, rank);
    *out = (dl_npy_file){.data = data, .bytes = (size_t)count * dtype->bytes};
    char letters[32];
    snprintf(letters, sizeof letters, "%c%c%d", dtype->bytes == 1 ? '|' : '<', dtype->kind, dtype->brain ? 4 : dtype->bytes);
    if (dtype == &dl_str) {
        size_t widest;
        if (!make_texts(c, out, count, data, &widest)) return false;
        snprintf(letters, sizeof letters, "<U%zu", widest);
    }
    for (int64_t k = 0; dtype->brain && k < count; k++) { /* in f32, whose upper half it is */
        int64_t word = dl_element(dtype, data + 2 * k);
        dl_put(&out->made, (const char *)&word, 4);
    }
    if (dtype == &dl_str || dtype->brain) out->data = out->made.bytes, out->bytes = out->made.length;
    dl_buffer *head = &out->head;
    dl_put(head, "\x93NUMPY\1\0\0\0", 10);
    dl_printf(head, "{'descr': '%s', 'fortran_order': False, 'shape': (", letters);
    for (int k = 0; k < rank; k++) dl_printf(head, "%s%lld%s", k ? ", " : "", (long long)sizes[k], rank == 1 ? "," : "");
    dl_puts(head, "), }");
    char digits[24]; /* as NumPy does: room for the first size to grow in place, and then up to a line of 64 bytes */
    if (rank) dl_repeat(head, " ", 1, 21 - snprintf(digits, sizeof digits, "%lld", (long long)sizes[0]));
    dl_repeat(head, " ", 1, 64 - (int64_t)((head->length + 1) % 64));
    dl_puts(head, "\n");
    if (head->failed || out->made.failed) return dl_no_room(c);
    head->bytes[8] = (char)((head->length - 10) & 255);
    head->bytes[9] = (char)((head->length - 10) >> 8);
    return true;
}

void dl_drop_npy(dl_npy_file *file) {
    dl_drop(&file->head);
    dl_drop(&file->made);
}

bool dl_write_npy(dl_context *c, const char *path, dl_signature signature, const int64_t *words) {
    char element[8] = {0};
    const char *data = (const char *)(intptr_t)words[0];
    if (!signature.rank) {
        dl_put_word(element, signature.dtype, words[0]);
        data = element;
    }
    dl_draft draft;
    dl_npy_file file;
    dl_begin_draft(&draft, path, false);
    bool fine = dl_make_npy(c, &file, signature.dtype, signature.rank, words + 1, data);
    if (fine) {
        dl_put_draft(&draft, file.head.bytes, file.head.length);
        dl_put_draft(&draft, file.data, file.bytes);
        fine = dl_end_draft(c, &draft);
    } else
        dl_drop_draft(&draft);
    dl_drop_npy(&file);
    return fine;
}
