/* Files: text, tables of comma-separated values, and arrays of NumPy, as runtime/numpy_files.py, drafts.py and table.py
   have them. */
#include "files.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

extern void *dl_alloc(void *context, int64_t bytes);

/* ---- whole files ---------------------------------------------------------------------------------------------------- */
static bool no_memory(dl_context *c) { return dl_refuse(c, "E0806", "the memory is exhausted"); }

static bool cannot_read(dl_context *c, const char *path, const char *why) {
    return dl_refuse(c, "E0821", "cannot read `%s`: %s", path, why);
}

static bool content(dl_context *c, const char *path, dl_buffer *out) {
    FILE *file = fopen(path, "rb");
    char part[1 << 14];
    size_t n;
    while (file && (n = fread(part, 1, sizeof part, file))) dl_put(out, part, n);
    bool fine = file && !ferror(file);
    int problem = errno;
    if (file) fclose(file);
    if (!fine || out->failed) {
        bool full = out->failed;
        dl_drop(out);
        return full ? no_memory(c) : cannot_read(c, path, strerror(problem));
    }
    dl_put(out, "", 0);
    return true;
}

static bool is_utf8(const char *text, size_t length) {
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    while (at < end) {
        int more = *at < 0x80 ? 0 : *at >= 0xC2 && *at < 0xE0 ? 1 : *at >= 0xE0 && *at < 0xF0 ? 2
                 : *at >= 0xF0 && *at < 0xF5 ? 3 : -1;
        if (more < 0 || end - at <= more) return false;
        unsigned second = more ? at[1] : 0;
        if ((*at == 0xE0 && second < 0xA0) || (*at == 0xED && second >= 0xA0) || (*at == 0xF0 && second < 0x90) ||
            (*at == 0xF4 && second >= 0x90))
            return false;
        for (at++; more; more--, at++)
            if ((*at & 0xC0) != 0x80) return false;
    }
    return true;
}

bool dl_read_text(dl_context *c, const char *path, dl_buffer *out) {
    if (!content(c, path, out)) return false;
    if (is_utf8(out->bytes, out->length)) return true;
    dl_drop(out);
    return cannot_read(c, path, "it is not text in UTF-8");
}

/* Writes beside the file and then replaces it, so that a run that is interrupted leaves no half of one. A link stays one,
   to a new file; what is no file, such as a device, is written to. */
bool dl_write_file(dl_context *c, const char *path, const char *head, size_t head_length, const void *data, size_t length) {
    struct stat found;
    bool there = !stat(path, &found), in_place = there && !S_ISREG(found.st_mode);
    char *target = there && !in_place ? realpath(path, NULL) : strdup(path);
    size_t room = target ? strlen(target) + 6 : 0;
    char *draft = target ? malloc(room) : NULL;
    if (!draft) return free(target), no_memory(c);
    snprintf(draft, room, "%s%s", target, in_place ? "" : ".part");
    FILE *file = fopen(draft, "wb");
    bool fine = file && fwrite(head, 1, head_length, file) == head_length &&
                (!length || fwrite(data, 1, length, file) == length);
    int problem = errno;
    if (file && fclose(file) && fine) fine = false, problem = errno;
    if (fine && !in_place && rename(draft, target)) fine = false, problem = errno;
    if (!fine && file && !in_place) remove(draft);
    free(draft);
    free(target);
    return fine || dl_refuse(c, "E0822", "cannot write `%s`: %s", path, strerror(problem));
}

/* ---- arrays for a program ------------------------------------------------------------------------------------------- */
/* Memory of the run for an array, whose sizes and address become results. */
static char *make(dl_context *c, const int64_t *sizes, int rank, const dl_dtype *dtype, int64_t *out) {
    int64_t count = dl_count(sizes, rank), bytes;
    if (count < 0 || __builtin_mul_overflow(count, dtype->bytes, &bytes)) {
        no_memory(c);
        return NULL;
    }
    char *data = dl_alloc(dl_words(c), bytes ? bytes : 1);
    if (!data) no_memory(c);
    for (int k = 0; k < rank; k++) out[k] = sizes[k];
    out[rank] = (intptr_t)data;
    return data;
}

static uint16_t half_bits(double x) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return sign | 0x7E00;
    x = fabs(dl_rounded_f16((float)x));
    if (isinf(x)) return sign | 0x7C00;
    if (x < 0x1p-14) return sign | (uint16_t)(x * 0x1p24);
    int exponent;
    double fraction = frexp(x, &exponent);
    return sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)((fraction * 2 - 1) * 1024);
}

/* A number: of an integer dtype as it is, of another as a float. */
typedef struct {
    double real;
    int64_t whole;
} number;

static void store(char *at, const dl_dtype *dtype, number x) {
    float small = (float)x.real;
    uint16_t half;
    if (dtype->kind != 'f') memcpy(at, &x.whole, dtype->bytes);
    else if (dtype->bytes == 8) memcpy(at, &x.real, 8);
    else if (dtype->bytes == 4) memcpy(at, &small, 4);
    else half = half_bits(x.real), memcpy(at, &half, 2);
}

static const char *axes(int rank) {
    static _Thread_local char text[16];
    snprintf(text, sizeof text, rank == 1 ? "1 axis" : "%d axes", rank);
    return text;
}

/* ---- tables ---------------------------------------------------------------------------------------------------------- */
typedef struct {
    const char *path;
    const dl_dtype *dtype;
    const char *name; /* of the dtype */
    dl_buffer cells;  /* of the numbers, as in memory */
    int64_t width, rows;
    int line, first;
} table;

static bool cell_value(const table *t, char *text, number *out) {
    char *end;
    int64_t most = t->dtype->bytes < 8 ? (int64_t)1 << (8 * t->dtype->bytes - (t->dtype->kind == 'i')) : 0;
    switch (t->dtype->kind) {
    case 'b':
        for (char *c = text; *c; c++) *c = (char)tolower((unsigned char)*c);
        out->whole = !strcmp(text, "true") || !strcmp(text, "1");
        return out->whole || !strcmp(text, "false") || !strcmp(text, "0");
    case 'f':
        out->real = *text ? strtod(text, NULL) : NAN;
        return !*text || dl_is_number(text);
    default:
        if (!dl_is_integer(text)) return false;
        errno = 0;
        if (t->dtype->kind == 'u') {
            uint64_t value = strtoull(text, &end, 10);
            out->whole = (int64_t)value;
            return !errno && !(*text == '-' && value) && (!most || value < (uint64_t)most);
        }
        out->whole = strtoll(text, &end, 10);
        return !errno && (!most || (-most <= out->whole && out->whole < most));
    }
}

/* Takes the next cell off a line: unquoted, with its blanks cut off. Whether another one follows. */
static bool next_cell(const char **at, dl_buffer *cell) {
    const char *c = *at;
    cell->length = 0;
    dl_put(cell, "", 0);
    while (*c == ' ') c++;
    bool quoted = *c == '"';
    if (quoted) c++;
    for (; *c; c++) {
        if (quoted && *c == '"') {
            if (c[1] != '"') {
                quoted = false;
                continue;
            }
            c++;
        } else if (!quoted && (*c == ',' || *c == '\n' || *c == '\r'))
            break;
        dl_put(cell, c, 1);
    }
    size_t start = 0;
    while (start < cell->length && isspace((unsigned char)cell->bytes[start])) start++;
    while (cell->length > start && isspace((unsigned char)cell->bytes[cell->length - 1])) cell->length--;
    memmove(cell->bytes, cell->bytes + start, cell->length - start);
    cell->length -= start;
    cell->bytes[cell->length] = 0;
    *at = c + (*c == ',');
    return *c == ',';
}

static const char *cells(int64_t count) {
    static _Thread_local char text[2][32];
    static _Thread_local int which;
    char *out = text[which = !which];
    snprintf(out, sizeof text[0], count == 1 ? "1 cell" : "%lld cells", (long long)count);
    return out;
}

static bool read_line(dl_context *c, table *t, const char *at, bool header, dl_buffer *cell) {
    const char *count_at = at;
    int64_t width = 1;
    while (next_cell(&count_at, cell)) width++;
    if (t->width < 0) t->width = width, t->first = t->line;
    else if (width != t->width)
        return dl_refuse(c, "E0827", "line %d of `%s` has %s, line %d has %s", t->line, t->path, cells(width), t->first,
                         cells(t->width));
    if (header && t->line == t->first) return true;
    for (int64_t k = 0; k < width; k++) {
        number x = {0};
        char place[8] = {0};
        next_cell(&at, cell);
        dl_buffer said = {0};
        dl_put(&said, cell->bytes, cell->length);
        bool fine = cell_value(t, cell->bytes, &x);
        if (!fine)
            dl_refuse(c, "E0826", "line %d of `%s`, column %lld: `%s` is not a number of %s", t->line, t->path,
                      (long long)k + 1, said.bytes ? said.bytes : "", t->name);
        dl_drop(&said);
        if (!fine) return false;
        store(place, t->dtype, x);
        dl_put(&t->cells, place, t->dtype->bytes);
    }
    t->rows++;
    return true;
}

bool dl_read_csv(dl_context *c, const char *path, bool header, dl_signature wanted, const char *dtype, int64_t *out) {
    if (wanted.rank != 1 && wanted.rank != 2)
        return dl_refuse(c, "E0824", "`%s` is a table and has 2 axes (1 if it is a column), not %d", path, wanted.rank);
    dl_buffer text = {0}, cell = {0};
    if (!dl_read_text(c, path, &text)) return false;
    table t = {.path = path, .dtype = wanted.dtype, .name = dtype, .width = -1};
    bool fine = true;
    bool marked = text.length >= 3 && !memcmp(text.bytes, "\xEF\xBB\xBF", 3); /* as spreadsheets begin a table */
    for (const char *at = text.bytes + (marked ? 3 : 0); fine && *at;) {
        size_t length = strcspn(at, "\r\n");
        t.line++;
        if (length) fine = read_line(c, &t, at, header, &cell);
        at += length;
        at += *at == '\r' && at[1] == '\n' ? 2 : *at ? 1 : 0;
    }
    int64_t sizes[2] = {t.rows, t.width < 0 ? 0 : t.width};
    if (fine && (t.cells.failed || cell.failed)) fine = no_memory(c);
    if (fine && wanted.rank == 1 && t.width > 1)
        fine = dl_refuse(c, "E0824", "`%s` has %lld columns, the program asks for 1 axis", path, (long long)t.width);
    if (fine) {
        char *data = make(c, sizes, wanted.rank, wanted.dtype, out);
        if (data && t.cells.length) memcpy(data, t.cells.bytes, t.cells.length);
        fine = data;
    }
    dl_drop(&text);
    dl_drop(&cell);
    dl_drop(&t.cells);
    return fine;
}

bool dl_write_csv(dl_context *c, const char *path, const char *header, dl_signature signature, const int64_t *words) {
    dl_buffer text = {0};
    if (*header) dl_printf(&text, "%s\n", header);
    int64_t rows = signature.rank ? words[1] : 1, width = signature.rank > 1 ? dl_count(words + 2, signature.rank - 1) : 1;
    const char *at = (const char *)(intptr_t)words[0];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < width; k++) {
            int64_t word = signature.rank ? dl_element(signature.dtype, at) : words[0];
            dl_format(&text, (dl_signature){signature.dtype, 0}, &word, "");
            dl_puts(&text, k + 1 < width ? "," : "\n");
            at += signature.rank ? signature.dtype->bytes : 0;
        }
    bool fine = text.failed ? no_memory(c) : dl_write_file(c, path, text.bytes ? text.bytes : "", text.length, NULL, 0);
    dl_drop(&text);
    return fine;
}

/* ---- arrays of NumPy ------------------------------------------------------------------------------------------------ */
typedef struct {
    char kind; /* f, i, u, b */
    int bytes;
    bool swapped, by_columns;
    int rank;
    int64_t sizes[32];
} layout;

static bool is_safe(const layout *from, const dl_dtype *to) {
    int exact = from->bytes == 1 ? 2 : from->bytes == 2 ? 4 : 8; /* bytes of a float that holds all */
    switch (from->kind) {
    case 'b': return true;
    case 'f': return to->kind == 'f' && to->bytes >= from->bytes;
    case 'u':
        return (to->kind == 'u' && to->bytes >= from->bytes) || (to->kind == 'i' && to->bytes > from->bytes) ||
               (to->kind == 'f' && to->bytes >= exact);
    default:
        return (to->kind == 'i' && to->bytes >= from->bytes) || (to->kind == 'f' && to->bytes >= exact);
    }
}

static const char *value_of(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    while (*at == ' ' || *at == ':' || *at == '\'' || *at == '"') at++;
    return at;
}

static bool parsed(const char *header, layout *l) {
    const char *descr = value_of(header, "'descr'"), *order = value_of(header, "'fortran_order'");
    const char *shape = value_of(header, "'shape'");
    if (!descr || !order || !shape || !strchr("<>|=", *descr) || !strchr("fiub", descr[1]) || *shape != '(') return false;
    l->swapped = *descr == '>';
    l->kind = descr[1];
    l->bytes = atoi(descr + 2);
    l->by_columns = *order == 'T';
    if (l->bytes != 1 && l->bytes != 2 && l->bytes != 4 && l->bytes != 8) return false;
    for (const char *at = shape + 1; *at && *at != ')';) {
        char *end;
        long long size = strtoll(at, &end, 10);
        if (end == at || size < 0 || l->rank == 32) return false;
        l->sizes[l->rank++] = size;
        for (at = end; *at == ',' || *at == ' ';) at++;
    }
    return true;
}

static number element_of(const layout *l, const char *at) {
    char bytes[8] = {0};
    for (int k = 0; k < l->bytes; k++) bytes[k] = at[l->swapped ? l->bytes - 1 - k : k];
    const dl_dtype dtype = {l->kind, (uint8_t)l->bytes, 0, false};
    int64_t word = dl_element(&dtype, bytes);
    if (l->kind != 'f') return (number){l->kind == 'u' ? (double)(uint64_t)word : (double)word, word};
    double x;
    float small;
    memcpy(&x, &word, 8);
    memcpy(&small, &word, 4);
    return (number){l->bytes == 8 ? x : small, 0};
}

bool dl_read_npy(dl_context *c, const char *path, dl_signature wanted, const char *dtype, int64_t *out) {
    static const char magic[] = "\x93NUMPY";
    dl_buffer file = {0};
    if (!content(c, path, &file)) return false;
    const unsigned char *head = (const unsigned char *)file.bytes;
    bool zip = file.length > 3 && !memcmp(file.bytes, "PK\3\4", 4);
    size_t before = 10, length = 0;
    layout l = {0};
    bool known = file.length >= 12 && !memcmp(file.bytes, magic, 6);
    if (known) {
        if (head[6] > 1) before = 12;
        length = head[8] | (size_t)head[9] << 8 | (head[6] > 1 ? (size_t)head[10] << 16 | (size_t)head[11] << 24 : 0);
        char *text = before + length <= file.length ? strndup(file.bytes + before, length) : NULL;
        known = text && parsed(text, &l);
        free(text);
    }
    int64_t count = known ? dl_count(l.sizes, l.rank) : -1, bytes = 0;
    known = known && count >= 0 && !__builtin_mul_overflow(count, l.bytes, &bytes) &&
            (uint64_t)bytes <= file.length - before - length;
    bool fine = known;
    if (!known)
        cannot_read(c, path, zip ? "it holds several arrays; use `io.npz`"
                                 : "it is not a file of NumPy arrays, or was cut short");
    if (fine && l.rank != wanted.rank) {
        dl_buffer shape = {0};
        for (int k = 0; k < l.rank; k++) dl_printf(&shape, "%s%lld", k ? ", " : "", (long long)l.sizes[k]);
        dl_buffer own = {0};
        dl_puts(&own, axes(l.rank));
        fine = dl_refuse(c, "E0824", "`%s` has %s ([%s]), the program asks for %s", path, own.bytes ? own.bytes : "",
                         shape.bytes ? shape.bytes : "", axes(wanted.rank));
        dl_drop(&shape);
        dl_drop(&own);
    }
    if (fine && !is_safe(&l, wanted.dtype)) {
        char held[8] = "bool";
        if (l.kind != 'b') snprintf(held, sizeof held, "%c%d", l.kind, 8 * l.bytes);
        fine = dl_refuse(c, "E0825", "`%s` holds %s, which %s cannot hold without loss; read it as what it is and convert it",
                         path, held, dtype);
    }
    const char *data = file.bytes + before + length;
    char *made = NULL;
    int64_t word = 0;
    if (fine) made = l.rank ? make(c, l.sizes, l.rank, wanted.dtype, out) : (char *)&word;
    fine = fine && made;
    for (int64_t k = 0; fine && k < count; k++) {
        int64_t from = 0, rest = k, stride = 1;
        if (l.by_columns) { /* the place of element k, counted by rows, in memory by columns */
            int64_t index[32];
            for (int axis = l.rank - 1; axis >= 0; axis--) index[axis] = rest % l.sizes[axis], rest /= l.sizes[axis];
            for (int axis = 0; axis < l.rank; axis++) from += index[axis] * stride, stride *= l.sizes[axis];
        } else
            from = k;
        store(made + k * wanted.dtype->bytes, wanted.dtype, element_of(&l, data + from * l.bytes));
    }
    if (fine && !l.rank) out[0] = dl_element(wanted.dtype, (char *)&word);
    dl_drop(&file);
    return fine;
}

bool dl_write_npy(dl_context *c, const char *path, dl_signature signature, const int64_t *words) {
    const dl_dtype *dtype = signature.dtype;
    dl_buffer head = {0};
    dl_put(&head, "\x93NUMPY\1\0\0\0", 10);
    dl_printf(&head, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (", dtype->bytes == 1 ? '|' : '<', dtype->kind,
              dtype->bytes);
    for (int k = 0; k < signature.rank; k++)
        dl_printf(&head, "%s%lld%s", k ? ", " : "", (long long)words[1 + k], signature.rank == 1 ? "," : "");
    dl_puts(&head, "), }");
    size_t target = (head.length + 1 + 20 + 63) / 64 * 64; /* as NumPy, with room to grow in place */
    while (head.length + 1 < target) dl_puts(&head, " ");
    dl_puts(&head, "\n");
    if (head.failed) {
        dl_drop(&head);
        return no_memory(c);
    }
    head.bytes[8] = (char)((head.length - 10) & 255);
    head.bytes[9] = (char)((head.length - 10) >> 8);
    char scalar[8];
    number x = {0, words[0]};
    float small;
    if (dtype->kind == 'f') {
        memcpy(&small, words, 4);
        memcpy(&x.real, words, 8);
        if (dtype->bytes < 8) x.real = small;
    }
    store(scalar, dtype, x);
    const void *data = signature.rank ? (const void *)(intptr_t)words[0] : scalar;
    size_t bytes = (size_t)dl_count(words + 1, signature.rank) * dtype->bytes;
    bool fine = dl_write_file(c, path, head.bytes, head.length, data, bytes);
    dl_drop(&head);
    return fine;
}
