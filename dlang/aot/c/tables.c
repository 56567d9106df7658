/* Tables of comma-separated values, as host/effects.py has them. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elements.h"
#include "files.h"
#include "inside.h"
#include "text.h"

static const char MARK[] = "\xEF\xBB\xBF"; /* with which spreadsheets begin a table */

/* ---- reading ---------------------------------------------------------------------------------------------------------- */
typedef struct {
    const char *at, *end;
    int line; /* that the last cell ended in */
    dl_buffer cell;
} reader;

static bool at_line_end(const reader *r) { return r->at == r->end || *r->at == '\n' || *r->at == '\r'; }

static void take_line_end(reader *r) {
    if (r->at == r->end) return;
    r->at += *r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n' ? 2 : 1;
}

/* Takes the next cell off a row, without its quotes. Whether another one follows. */
static bool next_cell(reader *r) {
    r->cell.length = 0;
    dl_put(&r->cell, "", 0);
    while (r->at < r->end && *r->at == ' ') r->at++;
    bool quoted = r->at < r->end && *r->at == '"';
    if (quoted) r->at++;
    while (r->at < r->end) {
        const char *c = r->at;
        if (quoted && *c == '"') {
            r->at++;
            if (r->at == r->end || *r->at != '"') {
                quoted = false;
                continue;
            }
        } else if (quoted && at_line_end(r)) {
            take_line_end(r);
            r->line += r->at < r->end;
            dl_put(&r->cell, c, (size_t)(r->at - c));
            continue;
        } else if (!quoted && (*c == ',' || at_line_end(r)))
            break;
        dl_put(&r->cell, r->at++, 1);
    }
    bool more = r->at < r->end && *r->at == ',';
    if (more) r->at++;
    return more;
}

typedef struct {
    dl_context *context;
    const char *path;
    const dl_dtype *dtype;
    const char *name; /* of the dtype */
    dl_buffer elements;
    int64_t width, rows;
    int first; /* line */
} table;

static bool number_of(const table *t, char *text, dl_number *out) {
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

static bool is_blank(char c) { return c == ' ' || ('\t' <= c && c <= '\r'); }

/* Adds a cell to the elements. */
static bool take_cell(table *t, reader *r, int64_t column) {
    char element[8] = {0};
    dl_number x = {0};
    if (t->dtype == &dl_str) {
        if (!dl_text_word(t->context, r->cell.bytes, r->cell.length, &x.whole)) return false;
    } else {
        char *text = r->cell.bytes, *end = text + r->cell.length;
        while (end > text && is_blank(end[-1])) end--;
        while (text < end && is_blank(*text)) text++;
        *end = 0;
        char *written = strdup(text);
        bool fine = written && number_of(t, text, &x);
        if (!fine && written)
            dl_refuse(t->context, "E0826", "line %d of `%s`, column %lld: `%s` is not a number of %s", r->line, t->path,
                      (long long)column, written, t->name);
        if (!written) dl_no_room(t->context);
        free(written);
        if (!fine) return false;
    }
    dl_store(element, t->dtype, x);
    dl_put(&t->elements, element, t->dtype->bytes);
    return true;
}

static const char *cells(int64_t count) {
    static _Thread_local char text[2][32];
    static _Thread_local int which;
    char *out = text[which = !which];
    snprintf(out, sizeof text[0], count == 1 ? "1 cell" : "%lld cells", (long long)count);
    return out;
}

static bool take_row(table *t, reader *r, bool header) {
    reader ahead = {r->at, r->end, r->line, {0}};
    int64_t width = 1;
    while (next_cell(&ahead)) width++;
    bool failed = ahead.cell.failed;
    dl_drop(&ahead.cell);
    if (failed) return dl_no_room(t->context);
    if (t->width < 0) t->width = width, t->first = ahead.line;
    else if (width != t->width)
        return dl_refuse(t->context, "E0827", "line %d of `%s` has %s, line %d has %s", ahead.line, t->path, cells(width),
                         t->first, cells(t->width));
    bool is_header = header && ahead.line == t->first;
    for (int64_t k = 0; k < width; k++) {
        next_cell(r);
        r->cell.failed |= t->elements.failed;
        if (r->cell.failed) return dl_no_room(t->context);
        r->line = ahead.line;
        if (!is_header && !take_cell(t, r, k + 1)) return false;
    }
    t->rows += !is_header;
    return true;
}

bool dl_read_csv(dl_context *c, const char *path, bool header, dl_signature wanted, const char *dtype, int64_t *out) {
    if (wanted.rank != 1 && wanted.rank != 2)
        return dl_refuse(c, "E0824", "`%s` is a table and has 2 axes (1 if it is a column), not %d", path, wanted.rank);
    dl_buffer text = {0};
    if (!dl_read_text(c, path, &text)) return false;
    bool marked = text.length >= 3 && !memcmp(text.bytes, MARK, 3);
    reader r = {text.bytes + (marked ? 3 : 0), text.bytes + text.length, 0, {0}};
    table t = {.context = c, .path = path, .dtype = wanted.dtype, .name = dtype, .width = -1};
    bool fine = true;
    while (fine && r.at < r.end) {
        r.line++;
        if (!at_line_end(&r)) fine = take_row(&t, &r, header);
        if (fine) take_line_end(&r);
    }
    int64_t sizes[2] = {t.rows, t.width < 0 ? 0 : t.width};
    if (fine && t.elements.failed) fine = dl_no_room(c);
    if (fine && wanted.rank == 1 && t.width > 1)
        fine = dl_refuse(c, "E0824", "`%s` has %lld columns, the program asks for 1 axis", path, (long long)t.width);
    if (fine) {
        char *data = dl_array_in(c, sizes, wanted.rank, wanted.dtype, out);
        if (data && t.elements.length) memcpy(data, t.elements.bytes, t.elements.length);
        fine = data;
    }
    dl_drop(&text);
    dl_drop(&r.cell);
    dl_drop(&t.elements);
    return fine;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */
/* only: whether it is the only cell of its row, which an empty line would not show. */
static void put_cell(dl_buffer *out, const char *text, size_t length, bool only) {
    if (length ? !memchr(text, ',', length) && !memchr(text, '"', length) && !memchr(text, '\n', length) &&
                     !memchr(text, '\r', length)
               : !only) {
        dl_put(out, text, length);
        return;
    }
    dl_puts(out, "\"");
    for (size_t k = 0; k < length; k++) dl_put(out, text[k] == '"' ? "\"\"" : &text[k], text[k] == '"' ? 2 : 1);
    dl_puts(out, "\"");
}

static void put_value(dl_buffer *out, const dl_dtype *dtype, int64_t word, bool only) {
    if (dtype != &dl_str) dl_put_scalar(out, dtype, word, "");
    else put_cell(out, dl_text_of(word)->bytes, (size_t)dl_text_of(word)->length, only);
}

bool dl_write_csv(dl_context *c, const char *path, const char *header, dl_signature signature, const int64_t *words) {
    dl_buffer text = {0};
    if (*header) dl_printf(&text, "%s\n", header);
    const dl_dtype *dtype = signature.dtype;
    int64_t rows = signature.rank ? words[1] : 1, width = signature.rank > 1 ? dl_count(words + 2, signature.rank - 1) : 1;
    const char *at = (const char *)(intptr_t)words[0];
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < width; k++) {
            if (k) dl_puts(&text, ",");
            put_value(&text, dtype, signature.rank ? dl_element(dtype, at) : words[0], width == 1);
            at += signature.rank ? dtype->bytes : 0;
        }
        dl_puts(&text, "\n");
    }
    bool fine = text.failed ? dl_no_room(c) : dl_write_text(c, path, text.bytes ? text.bytes : "", text.length);
    dl_drop(&text);
    return fine;
}

/* ---- logs ------------------------------------------------------------------------------------------------------------- */
enum { LONGEST_HEAD = 1 << 16 }; /* bytes of a first line; what has more is no table, but a device perhaps */

static void list(dl_buffer *out, const char *name) { dl_printf(out, "%s`%s`", out->length ? ", " : "", name); }

/* Whether the first line of a table has these names. */
static bool has_names(dl_context *c, const char *path, const dl_buffer *first, const char *const *names, int count) {
    if (first->failed) return dl_no_room(c);
    const char *line = first->bytes;
    size_t length = first->length;
    bool marked = length >= 3 && !memcmp(line, MARK, 3), same = true;
    reader r = {line + (marked ? 3 : 0), line + length, 1, {0}};
    dl_buffer found = {0}, own = {0};
    int k = 0;
    for (bool more = !at_line_end(&r); more; k++) {
        more = next_cell(&r);
        const char *cell = r.cell.bytes ? r.cell.bytes : "";
        same = same && k < count && !strcmp(cell, names[k]);
        list(&found, cell);
    }
    take_line_end(&r);
    for (int j = 0; j < count; j++) list(&own, names[j]);
    bool full = found.failed || own.failed || r.cell.failed, fine = !full && same && k == count;
    if (full) dl_no_room(c);
    else if (r.at != r.end || length == LONGEST_HEAD || !dl_is_utf8(line, length)) /* the end of a line of an old Macintosh is none */
        fine = dl_refuse(c, "E0829", "`%s` is no table, so no row can be added to it", path);
    else if (!fine)
        dl_refuse(c, "E0829", "`%s` has the columns %s, and the row has %s", path, found.bytes ? found.bytes : "none",
                  own.bytes ? own.bytes : "none");
    dl_drop(&found);
    dl_drop(&own);
    dl_drop(&r.cell);
    return fine;
}

bool dl_append_row(dl_context *c, const char *path, const char *const *names, int count, const dl_signature *values,
                   const int64_t *words) {
    FILE *file = fopen(path, "ab+");
    if (!file) return dl_refuse(c, "E0822", "cannot write `%s`: %s", path, strerror(errno));
    struct stat before;
    flock(fileno(file), LOCK_EX);
    bool regular = !fstat(fileno(file), &before) && S_ISREG(before.st_mode);
    dl_buffer line = {0};
    rewind(file);
    for (int letter = 0; letter != '\n' && line.length < LONGEST_HEAD && (letter = getc(file)) != EOF;)
        dl_put(&line, &(char){(char)letter}, 1);
    bool fresh = !line.length && !line.failed, fine = fresh || has_names(c, path, &line, names, count);
    dl_drop(&line);
    if (!fine) {
        fclose(file);
        return false;
    }
    dl_buffer text = {0};
    if (!fresh && (fseek(file, -1, SEEK_END) || getc(file) != '\n')) dl_puts(&text, "\n"); /* the last line has no end */
    for (int k = 0; fresh && k < count; k++) {
        put_cell(&text, names[k], strlen(names[k]), count == 1);
        dl_puts(&text, k + 1 < count ? "," : "\n");
    }
    for (int k = 0; k < count; k++) {
        put_value(&text, values[k].dtype, words[k], count == 1);
        dl_puts(&text, k + 1 < count ? "," : "\n");
    }
    bool full = text.failed;
    size_t put = 0; /* past the buffer of the file: what is not written now never is */
    for (ssize_t more = 1; !full && more > 0 && put < text.length; put += more > 0 ? (size_t)more : 0)
        while ((more = write(fileno(file), text.bytes + put, text.length - put)) < 0 && errno == EINTR) {}
    fine = !full && put == text.length;
    int problem = errno;
    if (!fine && regular && ftruncate(fileno(file), before.st_size)) problem = errno; /* no half of a row is left */
    if (fclose(file) && fine) fine = false, problem = errno;
    dl_drop(&text);
    if (full) return dl_no_room(c);
    return fine || dl_refuse(c, "E0822", "cannot write `%s`: %s", path, strerror(problem));
}
