/* Values as text: Python's format specifications, its shortest floats, and NumPy's arrays. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "files.h"

const dl_dtype dl_f64 = {'f', 8, 17, false}, dl_f32 = {'f', 4, 9, false}, dl_f16 = {'f', 2, 5, false},
               dl_bf16 = {'f', 2, 9, true}, dl_i64 = {'i', 8, 0, false}, dl_i32 = {'i', 4, 0, false},
               dl_i16 = {'i', 2, 0, false}, dl_i8 = {'i', 1, 0, false}, dl_u64 = {'u', 8, 0, false},
               dl_u32 = {'u', 4, 0, false}, dl_u16 = {'u', 2, 0, false}, dl_u8 = {'u', 1, 0, false},
               dl_bool = {'b', 1, 0, false}, dl_str = {'s', 8, 0, false};

/* ---- text in the making --------------------------------------------------------------------------------------------- */
static bool reserve(dl_buffer *out, size_t more) {
    if (out->failed) return false;
    if (out->length + more + 1 > out->room) {
        size_t room = (out->length + more + 1) * 2;
        char *bytes = realloc(out->bytes, room);
        if (!bytes) {
            out->failed = true;
            return false;
        }
        out->bytes = bytes;
        out->room = room;
    }
    return true;
}

void dl_put(dl_buffer *out, const char *bytes, size_t length) {
    if (!reserve(out, length)) return;
    memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
    out->bytes[out->length] = 0;
}

void dl_puts(dl_buffer *out, const char *text) { dl_put(out, text, strlen(text)); }

void dl_printf(dl_buffer *out, const char *form, ...) {
    va_list list, again;
    va_start(list, form);
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, form, list);
    va_end(list);
    if (length >= 0 && reserve(out, (size_t)length)) {
        vsnprintf(out->bytes + out->length, (size_t)length + 1, form, again);
        out->length += (size_t)length;
    }
    va_end(again);
}

void dl_drop(dl_buffer *out) {
    free(out->bytes);
    *out = (dl_buffer){0};
}

static void repeat(dl_buffer *out, const char *bytes, size_t length, int64_t times) {
    for (; times > 0; times--) dl_put(out, bytes, length);
}

static size_t characters(const char *bytes, size_t length) {
    size_t count = 0;
    for (size_t k = 0; k < length; k++) count += ((unsigned char)bytes[k] & 0xC0) != 0x80;
    return count;
}

/* ---- floats --------------------------------------------------------------------------------------------------------- */
typedef struct {
    char digits[24]; /* without a point, and without zeros at the end */
    int count;
    int exponent; /* of the first digit */
} decimal;

static double half_of(double x) { /* rounded to f16, for which 11 bits are enough */
    if (x == 0 || !isfinite(x)) return x;
    int exponent;
    frexp(x, &exponent);
    int unit = exponent - 11 < -24 ? -24 : exponent - 11;
    double rounded = ldexp(nearbyint(ldexp(x, -unit)), unit);
    return fabs(rounded) > 65504 ? copysign(INFINITY, x) : rounded;
}

static double as_dtype(double x, int digits) { return digits == 17 ? x : digits == 9 ? (double)(float)x : half_of(x); }

float dl_rounded_f16(float x) { return (float)half_of(x); }

float dl_rounded_bf16(float x) {
    uint32_t bits;
    if (isnan(x)) return x;
    memcpy(&bits, &x, 4);
    bits += 0x7FFF + (bits >> 16 & 1);
    bits &= 0xFFFF0000;
    memcpy(&x, &bits, 4);
    return x;
}

/* The fewest digits that tell a finite number from the others of its dtype. */
static decimal shortest(double x, int digits) {
    decimal found = {.count = 0};
    char text[40];
    for (int n = 1; n <= digits; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, fabs(x));
        if (n == digits || as_dtype(strtod(text, NULL), digits) == fabs(x)) break;
    }
    const char *at = text;
    for (; *at != 'e'; at++)
        if (*at != '.') found.digits[found.count++] = *at;
    found.exponent = atoi(at + 1);
    while (found.count > 1 && found.digits[found.count - 1] == '0') found.count--;
    return found;
}

static void put_exponent(dl_buffer *out, int exponent, int width) {
    dl_printf(out, "e%c%0*d", exponent < 0 ? '-' : '+', width, abs(exponent));
}

/* Digits with the point where the exponent says; at least `fraction` digits behind it. */
static void put_positional(dl_buffer *out, const decimal *d, int fraction) {
    int before = d->exponent + 1;
    if (before <= 0) dl_puts(out, "0");
    for (int k = 0; k < before; k++) dl_put(out, k < d->count ? &d->digits[k] : "0", 1);
    dl_puts(out, ".");
    int written = 0;
    for (int k = before; k < 0 && k < d->count; k++, written++) dl_puts(out, "0");
    for (int k = before < 0 ? 0 : before; k < d->count; k++, written++) dl_put(out, &d->digits[k], 1);
    for (; written < fraction; written++) dl_puts(out, "0");
}

static bool put_special(dl_buffer *out, double x) {
    if (isfinite(x)) return false;
    dl_puts(out, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    return true;
}

/* As Python's `str`, and NumPy's of the smaller dtypes. */
static void put_float(dl_buffer *out, double x, int digits) {
    if (put_special(out, x)) return;
    if (signbit(x)) dl_puts(out, "-");
    decimal d = shortest(x, digits);
    if (x == 0 || (fabs(x) >= 1e-4 && fabs(x) < (digits == 17 ? 1e16 : digits == 9 ? 1e6 : 1e3))) {
        put_positional(out, &d, 1);
        return;
    }
    dl_put(out, d.digits, 1);
    if (d.count > 1) {
        dl_puts(out, ".");
        dl_put(out, d.digits + 1, (size_t)d.count - 1);
    }
    put_exponent(out, d.exponent, 2);
}

bool dl_is_integer(const char *text) {
    text += *text == '+' || *text == '-';
    return *text && strspn(text, "0123456789") == strlen(text);
}

bool dl_is_number(const char *text) { /* what strtod takes beside that is not meant */
    char *end;
    const char *digits = text + (*text == '+' || *text == '-');
    if (*digits != '.' && !('0' <= *digits && *digits <= '9'))
        return !strcasecmp(digits, "inf") || !strcasecmp(digits, "infinity") || !strcasecmp(digits, "nan");
    if (strspn(digits, "0123456789.eE+-") != strlen(digits)) return false;
    strtod(text, &end);
    return end != text && !*end;
}

/* ---- format specifications ------------------------------------------------------------------------------------------ */
typedef struct {
    char fill[5];
    size_t fill_bytes;
    char align, sign, grouping, type; /* 0 where it is not given */
    bool zero, positive_zero, alternate;
    int64_t width, precision; /* -1 where it is not given */
} specification;

static size_t character_bytes(unsigned char first) {
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

static specification parsed(const char *s) {
    specification f = {.fill = " ", .fill_bytes = 1, .width = -1, .precision = -1};
    size_t first = *s ? character_bytes((unsigned char)*s) : 0;
    if (first && strlen(s) > first && strchr("<>=^", s[first])) {
        memcpy(f.fill, s, first);
        f.fill[first] = 0;
        f.fill_bytes = first;
        f.align = s[first];
        s += first + 1;
    } else if (*s && strchr("<>=^", *s))
        f.align = *s++;
    if (*s && strchr("+- ", *s)) f.sign = *s++;
    if (*s == 'z') f.positive_zero = true, s++;
    if (*s == '#') f.alternate = true, s++;
    if (*s == '0') {
        f.zero = true;
        s++;
        if (!f.align) {
            f.align = '=';
            f.fill[0] = '0';
        }
    }
    if ('0' <= *s && *s <= '9') f.width = strtoll(s, (char **)&s, 10);
    if (*s == ',' || *s == '_') f.grouping = *s++;
    if (*s == '.') f.precision = strtoll(s + 1, (char **)&s, 10);
    f.type = *s;
    return f;
}

/* A text between what fills the width. sign: how many bytes at its start `=` leaves in front. */
static void put_padded(dl_buffer *out, const specification *f, const char *text, size_t length, size_t sign,
                       char usual) {
    int64_t missing = f->width - (int64_t)characters(text, length);
    char align = f->align ? f->align : usual;
    if (missing < 0) missing = 0;
    int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    repeat(out, f->fill, f->fill_bytes, left);
    if (align == '=') {
        dl_put(out, text, sign);
        repeat(out, f->fill, f->fill_bytes, missing);
        dl_put(out, text + sign, length - sign);
        return;
    }
    dl_put(out, text, length);
    repeat(out, f->fill, f->fill_bytes, missing - left);
}

/* A number: its sign and prefix, its whole digits, perhaps in groups, and the rest. */
static void put_number(dl_buffer *out, const specification *f, const char *front, const char *whole, size_t digits,
                       const char *rest, int group) {
    dl_buffer text = {0};
    dl_puts(&text, front);
    size_t sign = text.length;
    int64_t least = 0; /* digits and separators that zeros in front have to fill */
    if (digits && f->grouping && f->align == '=' && f->fill[0] == '0' && f->fill_bytes == 1)
        least = f->width - (int64_t)sign - (int64_t)strlen(rest);
    if (!f->grouping)
        dl_put(&text, whole, digits);
    else {
        int64_t count = (int64_t)digits;
        while (count + (count - 1) / group < least) count++;
        for (int64_t k = 0; k < count; k++) {
            int64_t from = k - (count - (int64_t)digits);
            dl_put(&text, from < 0 ? "0" : &whole[from], 1);
            if ((count - k - 1) % group == 0 && k + 1 < count) dl_put(&text, &f->grouping, 1);
        }
    }
    dl_puts(&text, rest);
    if (text.failed)
        out->failed = true;
    else
        put_padded(out, f, text.bytes ? text.bytes : "", text.length, sign, '>');
    dl_drop(&text);
}

static void put_float_by(dl_buffer *out, const specification *f, double x) {
    dl_buffer text = {0};
    double value = f->type == '%' ? x * 100 : x;
    bool negative = signbit(value) && !isnan(value);
    char form[] = {'%', '.', '*', 'e', 0, 0};
    int precision = f->precision < 0 ? 6 : f->precision > 100000 ? 100000 : (int)f->precision;
    char type = f->type == '%' ? 'f' : f->type == 'n' ? 'g' : f->type;
    if (!isfinite(value))
        dl_puts(&text, isnan(value) ? (strchr("EFG", type) && type ? "NAN" : "nan")
                                    : (strchr("EFG", type) && type ? "INF" : "inf"));
    else if (!type && f->precision < 0)
        put_float(&text, fabs(value), 17);
    else if (!type) { /* as g, but with a digit behind the point, which exponents make room for */
        int digits = precision ? precision : 1;
        dl_printf(&text, "%.*e", digits - 1, fabs(value));
        int exponent = text.failed ? 0 : atoi(strchr(text.bytes, 'e') + 1);
        text.length = 0;
        if (exponent < -4 || exponent >= digits - 1)
            dl_printf(&text, "%.*e", digits - 1, fabs(value));
        else
            dl_printf(&text, "%.*f", digits - 1 - exponent > 0 ? digits - 1 - exponent : 0, fabs(value));
        if (!text.failed) { /* without zeros at the end, but one */
            char *e = strchr(text.bytes, 'e');
            char tail[16] = "";
            if (e) {
                snprintf(tail, sizeof tail, "%s", e);
                *e = 0;
                text.length = (size_t)(e - text.bytes);
            }
            if (strchr(text.bytes, '.')) {
                while (text.bytes[text.length - 1] == '0') text.bytes[--text.length] = 0;
                if (text.bytes[text.length - 1] == '.') text.bytes[--text.length] = 0;
            }
            if (!e && !strchr(text.bytes, '.')) dl_puts(&text, ".0");
            dl_puts(&text, tail);
        }
    } else {
        if (f->alternate) form[1] = '#', form[2] = '.', form[3] = '*', form[4] = type;
        else form[3] = type;
        dl_printf(&text, form, precision, fabs(value));
    }
    if (f->type == '%') dl_puts(&text, "%");
    if (text.failed) {
        out->failed = true;
        dl_drop(&text);
        return;
    }
    if (negative && f->positive_zero && isfinite(value)) {
        negative = false;
        for (const char *c = text.bytes; *c && *c != 'e' && *c != 'E'; c++) negative |= '1' <= *c && *c <= '9';
    }
    size_t digits = strspn(text.bytes, "0123456789");
    const char *front = negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
    put_number(out, f, front, text.bytes, digits, text.bytes + digits, 3);
    dl_drop(&text);
}

static void put_integer_by(dl_buffer *out, const specification *f, uint64_t size, bool negative) {
    if (f->type && strchr("eEfFgG%", f->type)) {
        put_float_by(out, f, negative ? -(double)size : (double)size);
        return;
    }
    if (f->type == 'c') {
        char bytes[4];
        uint32_t c = (uint32_t)size;
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        bytes[0] = (char)(n == 1 ? c : n == 2 ? 0xC0 | c >> 6 : n == 3 ? 0xE0 | c >> 12 : 0xF0 | c >> 18);
        for (size_t k = 1; k < n; k++) bytes[k] = (char)(0x80 | (c >> 6 * (n - 1 - k) & 0x3F));
        put_padded(out, f, bytes, n, 0, '<');
        return;
    }
    unsigned base = f->type == 'b' ? 2 : f->type == 'o' ? 8 : f->type == 'x' || f->type == 'X' ? 16 : 10;
    const char *names = f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char digits[65], *at = digits + 64;
    *at = 0;
    do *--at = names[size % base];
    while (size /= base);
    char front[4] = "";
    if (negative || f->sign == '+' || f->sign == ' ') front[0] = negative ? '-' : f->sign;
    if (f->alternate && base != 10) {
        size_t n = strlen(front);
        front[n] = '0';
        front[n + 1] = f->type;
    }
    put_number(out, f, front, at, strlen(at), "", base == 10 ? 3 : 4);
}

static void put_text_by(dl_buffer *out, const specification *f, const char *bytes, size_t length) {
    if (f->precision >= 0) {
        size_t kept = 0;
        for (int64_t n = 0; kept < length && n < f->precision; n++) kept += character_bytes((unsigned char)bytes[kept]);
        length = kept < length ? kept : length;
    }
    put_padded(out, f, bytes, length, 0, '<');
}

/* ---- scalars -------------------------------------------------------------------------------------------------------- */
static double float_in_word(const dl_dtype *dtype, int64_t word) {
    if (dtype->bytes == 8) {
        double x;
        memcpy(&x, &word, 8);
        return x;
    }
    float x; /* f16 and bf16 are in f32 there */
    memcpy(&x, &word, 4);
    return x;
}

static void put_scalar(dl_buffer *out, const dl_dtype *dtype, int64_t word, const char *spec) {
    specification f = parsed(spec);
    switch (dtype->kind) {
    case 'f':
        if (*spec) put_float_by(out, &f, float_in_word(dtype, word));
        else put_float(out, float_in_word(dtype, word), dtype->digits);
        return;
    case 'i':
        put_integer_by(out, &f, word < 0 ? 0 - (uint64_t)word : (uint64_t)word, word < 0);
        return;
    case 'u':
        put_integer_by(out, &f, (uint64_t)word, false);
        return;
    case 'b':
        put_text_by(out, &f, word & 1 ? "true" : "false", word & 1 ? 4 : 5);
        return;
    default: {
        const dl_text *text = (const dl_text *)(intptr_t)(word + 1);
        if (word) put_text_by(out, &f, text->bytes, (size_t)text->length);
        else put_text_by(out, &f, "", 0);
    }
    }
}

/* An element in memory as a word. */
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
    memcpy(&word, at, dtype->bytes);
    return word;
}

/* ---- arrays, as NumPy writes them ----------------------------------------------------------------------------------- */
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
    double x = float_in_word(s->f->dtype, word);
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

/* The digits of a float as NumPy shows them: the shortest that tell it apart, of these at most 8 behind the point. */
static void digits_of(dl_buffer *out, const array_format *f, double x, int least) {
    decimal d = shortest(x, f->dtype->digits);
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
        put_exponent(out, d.exponent, f->exponent_width > 2 ? f->exponent_width : 2);
        return;
    }
    if (d.count - 1 - d.exponent <= PRECISION) {
        put_positional(out, &d, 0);
        return;
    }
    dl_printf(out, "%.*f", PRECISION, fabs(x));
    if (out->failed) return;
    while (out->bytes[out->length - 1] == '0') out->bytes[--out->length] = 0;
}

static void measure_float(void *closure, int64_t word) {
    survey *s = closure;
    array_format *f = s->f;
    double x = float_in_word(f->dtype, word);
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
        put_scalar(out, f->dtype, word, f->spec);
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
    double x = float_in_word(f->dtype, word);
    dl_buffer text = {0};
    if (!put_special(&text, x)) digits_of(&text, f, x, f->scientific ? f->right : 0);
    if (text.failed) {
        out->failed = true;
        return;
    }
    const char *point = strchr(text.bytes, '.');
    int whole = isfinite(x) ? (int)(point - text.bytes) : 0;
    int tail = f->scientific ? f->exponent_width + 2 : 0;
    if (isfinite(x)) repeat(out, " ", 1, f->left - whole);
    else repeat(out, " ", 1, f->left + f->right + tail + 1 - (int)text.length);
    dl_put(out, text.bytes, text.length);
    if (isfinite(x) && !f->scientific) repeat(out, " ", 1, f->right - (int)(text.length - (size_t)whole - 1));
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
    repeat(&r->line, " ", 1, (int64_t)r->indent);
}

static void extend(dl_buffer *out, row *r, const char *word, size_t length) {
    size_t used = characters(r->line.bytes ? r->line.bytes : "", r->line.length);
    if (used + characters(word, length) > r->width && used > r->indent) put_line(out, r);
    dl_put(&r->line, word, length);
}

static void put_axis(dl_buffer *out, const array_format *f, const char *at, int axis, int width) {
    int64_t stride = f->dtype->bytes, n = f->sizes[axis];
    for (int k = axis + 1; k < f->rank; k++) stride *= f->sizes[k];
    bool cut = f->summary && n > 2 * EDGE;
    dl_puts(out, "[");
    if (axis + 1 == f->rank) {
        row r = {.indent = (size_t)axis + 1, .width = (size_t)(width - 1)};
        repeat(&r.line, " ", 1, (int64_t)r.indent);
        dl_buffer made = {0}; /* with the indentation of its first line, which the bracket replaces */
        for (int64_t i = 0; i < n; i++) {
            if (cut && i == EDGE) {
                extend(&made, &r, "...", 3);
                dl_puts(&r.line, " ");
                i = n - EDGE;
            }
            dl_buffer word = {0};
            put_element(&word, f, dl_element(f->dtype, at + i * stride));
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
                repeat(out, "\n", 1, f->rank - axis - 1);
                repeat(out, " ", 1, axis + 1);
            }
            if (cut && i == EDGE) {
                dl_puts(out, "...");
                repeat(out, "\n", 1, f->rank - axis - 1);
                repeat(out, " ", 1, axis + 1);
                i = n - EDGE;
            }
            put_axis(out, f, at + i * stride, axis + 1, width - 1);
        }
    }
    dl_puts(out, "]");
}

static void put_array(dl_buffer *out, dl_signature signature, const int64_t *words, const char *spec) {
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
        double small = as_dtype(0.0001, dtype->digits), ratio = s.least ? as_dtype(s.most / s.least, dtype->digits) : 0;
        f.scientific = s.least && (s.most >= limit || s.least < small || ratio > 1000);
        each_shown(&f, data, 0, measure_float, &s);
        int tail = f.scientific ? f.exponent_width + 2 : 0, offset = f.right + tail + 1;
        if (s.undefined || s.infinite) {
            int most = 3 + s.negative_infinity;
            if (most - offset > f.left) f.left = most - offset;
        }
    } else if (dtype->kind != 'b')
        each_shown(&f, data, 0, measure_integer, &s);
    put_axis(out, &f, data, 0, LINE);
}

/* ---- what others use ------------------------------------------------------------------------------------------------ */
void dl_format(dl_buffer *out, dl_signature signature, const int64_t *words, const char *spec) {
    if (signature.rank) put_array(out, signature, words, spec);
    else put_scalar(out, signature.dtype, words[0], spec);
}

void dl_format_parts(dl_buffer *out, const char *const *parts, int values, const dl_signature *signatures,
                     const int64_t *words) {
    dl_puts(out, parts[0]);
    for (int k = 0; k < values; k++) {
        dl_format(out, signatures[k], words, parts[2 * k + 1]);
        words += 1 + signatures[k].rank;
        dl_puts(out, parts[2 * k + 2]);
    }
}
