/* Arrays as text: as NumPy writes them, by lines of 75 columns, and of long ones the ends alone. */
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 75, MOST = 1000, EDGE = 3 };

typedef struct {
    const dl_dtype *dtype;
    const int64_t *sizes;
    int rank;
    const char *spec; /* NULL: all elements have one width */
    bool summary, scientific;
    int left, right, exponent_width, precision; /* of what floats have in common */
} array_format;

/* Calls a function with every element that is shown. */
static void each_shown(const array_format *f, const char *at, int axis, void (*visit)(void *, int64_t), void *closure) {
    int64_t stride = f->dtype->bytes;
    for (int k = axis + 1; k < f->rank; k++) stride *= f->sizes[k];
    int64_t n = f->sizes[axis];
    for (int64_t i = 0; i < n; i++) {
        if (f->summary && n > 2 * EDGE && i == EDGE) i = n - EDGE;
        if (axis + 1 < f->rank) each_shown(f, at + i * stride, axis + 1, visit, closure);
        else visit(closure, dl_element(f->dtype, at + i * stride));
    }
}

typedef struct {
    array_format *f;
    double least, most;
    bool any, negative_infinity, infinite, undefined;
} survey;

static void look(void *closure, int64_t word) {
    survey *s = closure;
    double x = dl_float_in_word(s->f->dtype, word);
    if (isnan(x)) s->undefined = true;
    else if (isinf(x)) s->infinite = true, s->negative_infinity |= x < 0;
    else {
        s->any = true;
        x = fabs(x);
        if (x != 0) {
            s->most = fmax(s->most, x);
            s->least = s->least == 0 ? x : fmin(s->least, x);
        }
    }
}

enum { PRECISION = 8 };

/* The digits of a float as NumPy shows them: the dl_shortest that tell it apart, of these at most 8 behind the point. */
static void digits_of(dl_buffer *out, const array_format *f, double x, int least) {
    dl_decimal d = dl_shortest(x, f->dtype->digits);
    if (signbit(x)) dl_puts(out, "-");
    if (f->scientific) {
        if (d.count - 1 > PRECISION) {
            char text[40];
            snprintf(text, sizeof text, "%.*e", PRECISION, fabs(x));
            d.exponent = atoi(strchr(text, 'e') + 1);
            d.count = 0;
            for (const char *c = text; *c != 'e'; c++)
                if (*c != '.') d.digits[d.count++] = *c;
            while (d.count > 1 && d.digits[d.count - 1] == '0') d.count--;
        }
        if (d.count - 1 < least) { /* filled with its own digits, beyond those that tell it apart */
            char text[40];
            snprintf(text, sizeof text, "%.*e", least, fabs(x));
            d.exponent = atoi(strchr(text, 'e') + 1);
            d.count = 0;
            for (const char *c = text; *c != 'e'; c++)
                if (*c != '.') d.digits[d.count++] = *c;
        }
        dl_put(out, d.digits, 1);
        dl_puts(out, ".");
        dl_put(out, d.digits + 1, (size_t)d.count - 1);
        dl_put_exponent(out, d.exponent, f->exponent_width > 2 ? f->exponent_width : 2);
        return;
    }
    if (d.count - 1 - d.exponent <= PRECISION) {
        dl_put_positional(out, &d, 0);
        return;
    }
    dl_printf(out, "%.*f", PRECISION, fabs(x));
    if (out->failed) return;
    while (out->bytes[out->length - 1] == '0') out->bytes[--out->length] = 0;
}

static void measure_float(void *closure, int64_t word) {
    survey *s = closure;
    array_format *f = s->f;
    double x = dl_float_in_word(f->dtype, word);
    if (!isfinite(x)) return;
    dl_buffer text = {0};
    digits_of(&text, f, x, 0);
    if (!text.failed) {
        const char *point = strchr(text.bytes, '.'), *e = strchr(text.bytes, 'e');
        const char *end = e ? e : text.bytes + text.length;
        int left = (int)(point - text.bytes), right = (int)(end - point - 1);
        if (left > f->left) f->left = left;
        if (right > f->right) f->right = right;
        if (e && (int)strlen(e) - 2 > f->exponent_width) f->exponent_width = (int)strlen(e) - 2;
    }
    dl_drop(&text);
}

static void measure_integer(void *closure, int64_t word) {
    survey *s = closure;
    char text[24];
    int width = snprintf(text, sizeof text, s->f->dtype->kind == 'i' ? "%lld" : "%llu", (long long)word);
    if (width > s->f->left) s->f->left = width;
}

static void put_element(dl_buffer *out, const array_format *f, int64_t word) {
    if (f->spec) {
        dl_put_scalar(out, f->dtype, word, f->spec);
        return;
    }
    char kind = f->dtype->kind;
    if (kind == 'b') {
        dl_puts(out, word & 1 ? " True" : "False");
        return;
    }
    if (kind != 'f') {
        dl_printf(out, kind == 'i' ? "%*lld" : "%*llu", f->left, (long long)word);
        return;
    }
    double x = dl_float_in_word(f->dtype, word);
    dl_buffer text = {0};
    if (!dl_put_special(&text, x)) digits_of(&text, f, x, f->scientific ? f->right : 0);
    if (text.failed) {
        out->failed = true;
        return;
    }
    const char *point = strchr(text.bytes, '.');
    int whole = isfinite(x) ? (int)(point - text.bytes) : 0;
    int tail = f->scientific ? f->exponent_width + 2 : 0;
    if (isfinite(x)) dl_repeat(out, " ", 1, f->left - whole);
    else dl_repeat(out, " ", 1, f->left + f->right + tail + 1 - (int)text.length);
    dl_put(out, text.bytes, text.length);
    if (isfinite(x) && !f->scientific) dl_repeat(out, " ", 1, f->right - (int)(text.length - (size_t)whole - 1));
    dl_drop(&text);
}

typedef struct {
    dl_buffer line;
    size_t indent, width;
} row;

static void put_line(dl_buffer *out, row *r) {
    while (r->line.length && r->line.bytes[r->line.length - 1] == ' ') r->line.length--;
    dl_put(out, r->line.bytes, r->line.length);
    dl_puts(out, "\n");
    r->line.length = 0;
    dl_repeat(&r->line, " ", 1, (int64_t)r->indent);
}

/* The length of the line that a text begins with; `next` is where another one does, if there is one. */
static size_t line_of(const char *text, const char *end, const char **next) {
    const char *at = text;
    while (at < end && !('\n' <= *at && *at <= '\r') && !('\x1c' <= *at && *at <= '\x1e')) at++;
    *next = at == end ? end : at + (*at == '\r' && at + 1 < end && at[1] == '\n' ? 2 : 1);
    return (size_t)(at - text);
}

/* Lines of one element stand below each other. */
static void extend(dl_buffer *out, row *r, const char *word, size_t length) {
    const char *end = word + length, *next;
    size_t used = dl_characters(r->line.bytes ? r->line.bytes : "", r->line.length), widest = 0, last = 0;
    for (const char *at = word; at < end; at = next) {
        size_t bytes = line_of(at, end, &next);
        last = dl_characters(at, bytes);
        if (last > widest) widest = last;
    }
    size_t own = r->indent;
    if (used + widest > r->width && used > r->indent) put_line(out, r);
    else r->indent = used;
    for (const char *at = word; at < end; at = next) {
        if (at > word) put_line(out, r);
        dl_put(&r->line, at, line_of(at, end, &next));
    }
    if (widest > last) dl_repeat(&r->line, " ", 1, (int64_t)(widest - last));
    r->indent = own;
}

static void put_axis(dl_buffer *out, const array_format *f, const char *at, int axis, int width) {
    int64_t stride = f->dtype->bytes, n = f->sizes[axis];
    for (int k = axis + 1; k < f->rank; k++) stride *= f->sizes[k];
    bool cut = f->summary && n > 2 * EDGE;
    dl_puts(out, "[");
    if (axis + 1 == f->rank) {
        row r = {.indent = (size_t)axis + 1, .width = (size_t)(width - 1)};
        dl_repeat(&r.line, " ", 1, (int64_t)r.indent);
        dl_buffer made = {0}; /* with the indentation of its first line, which the bracket replaces */
        for (int64_t i = 0; i < n; i++) {
            if (cut && i == EDGE) {
                extend(&made, &r, "...", 3);
                dl_puts(&r.line, " ");
                i = n - EDGE;
            }
            dl_buffer word = {0};
            put_element(&word, f, dl_element(f->dtype, at + i * stride));
            if (!word.length) dl_put(&word, "", 1); /* NumPy has no place for an empty text; it goes at the end */
            extend(&made, &r, word.bytes ? word.bytes : "", word.length);
            if (i + 1 < n) dl_puts(&r.line, " ");
            out->failed |= word.failed;
            dl_drop(&word);
        }
        dl_put(&made, r.line.bytes ? r.line.bytes : "", r.line.length);
        out->failed |= made.failed || r.line.failed;
        if (!out->failed) dl_put(out, made.bytes + r.indent, made.length - r.indent);
        dl_drop(&made);
        dl_drop(&r.line);
    } else {
        for (int64_t i = 0; i < n; i++) {
            if (i) {
                dl_repeat(out, "\n", 1, f->rank - axis - 1);
                dl_repeat(out, " ", 1, axis + 1);
            }
            if (cut && i == EDGE) {
                dl_puts(out, "...");
                dl_repeat(out, "\n", 1, f->rank - axis - 1);
                dl_repeat(out, " ", 1, axis + 1);
                i = n - EDGE;
            }
            put_axis(out, f, at + i * stride, axis + 1, width - 1);
        }
    }
    dl_puts(out, "]");
}

void dl_put_array(dl_buffer *out, dl_signature signature, const int64_t *words, const char *spec) {
    int64_t count = dl_count(words + 1, signature.rank);
    const char *data = (const char *)(intptr_t)words[0];
    if (count <= 0) {
        dl_puts(out, "[]");
        return;
    }
    const dl_dtype *dtype = signature.dtype;
    array_format f = {.dtype = dtype, .sizes = words + 1, .rank = signature.rank, .summary = count > MOST};
    survey s = {.f = &f};
    if (*spec || dtype->kind == 's')
        f.spec = spec;
    else if (dtype->kind == 'f') {
        each_shown(&f, data, 0, look, &s);
        double limit = dtype->digits == 17 ? 1e8 : dtype->digits == 9 ? 1e6 : 1e3;
        double small = dl_as_dtype(0.0001, dtype->digits), ratio = s.least ? dl_as_dtype(s.most / s.least, dtype->digits) : 0;
        f.scientific = s.least && (s.most >= limit || s.least < small || ratio > 1000);
        each_shown(&f, data, 0, measure_float, &s);
        int tail = f.scientific ? f.exponent_width + 2 : 0, offset = f.right + tail + 1;
        if (s.undefined || s.infinite) {
            int most = 3 + s.negative_infinity;
            if (most - offset > f.left) f.left = most - offset;
        }
    } else if (dtype->kind != 'b')
        each_shown(&f, data, 0, measure_integer, &s);
    size_t start = out->length;
    put_axis(out, &f, data, 0, LINE);
    if (!f.spec || out->failed) return;
    size_t kept = start;
    for (size_t k = start; k < out->length; k++)
        if (out->bytes[k]) out->bytes[kept++] = out->bytes[k];
    out->bytes[out->length = kept] = 0;
}
