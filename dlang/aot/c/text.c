/* Values as text: Python's format specifications, its dl_shortest floats, and NumPy's arrays. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text.h"

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

void dl_repeat(dl_buffer *out, const char *bytes, size_t length, int64_t times) {
    for (; times > 0; times--) dl_put(out, bytes, length);
}

size_t dl_characters(const char *bytes, size_t length) {
    size_t count = 0;
    for (size_t k = 0; k < length; k++) count += ((unsigned char)bytes[k] & 0xC0) != 0x80;
    return count;
}

void dl_put_character(dl_buffer *out, uint32_t c) {
    char bytes[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    bytes[0] = (char)(n == 1 ? c : n == 2 ? 0xC0 | c >> 6 : n == 3 ? 0xE0 | c >> 12 : 0xF0 | c >> 18);
    for (size_t k = 1; k < n; k++) bytes[k] = (char)(0x80 | (c >> 6 * (n - 1 - k) & 0x3F));
    dl_put(out, bytes, n);
}

/* ---- floats --------------------------------------------------------------------------------------------------------- */
static double half_of(double x) { /* rounded to f16, for which 11 bits are enough */
    if (x == 0 || !isfinite(x)) return x;
    int exponent;
    frexp(x, &exponent);
    int unit = exponent - 11 < -24 ? -24 : exponent - 11;
    double rounded = ldexp(nearbyint(ldexp(x, -unit)), unit);
    return fabs(rounded) > 65504 ? copysign(INFINITY, x) : rounded;
}

double dl_as_dtype(double x, int digits) { return digits == 17 ? x : digits == 9 ? (double)(float)x : half_of(x); }

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
dl_decimal dl_shortest(double x, int digits) {
    dl_decimal found = {.count = 0};
    char text[40];
    for (int n = 1; n <= digits; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, fabs(x));
        if (n == digits || dl_as_dtype(strtod(text, NULL), digits) == fabs(x)) break;
    }
    const char *at = text;
    for (; *at != 'e'; at++)
        if (*at != '.') found.digits[found.count++] = *at;
    found.exponent = atoi(at + 1);
    while (found.count > 1 && found.digits[found.count - 1] == '0') found.count--;
    return found;
}

void dl_put_exponent(dl_buffer *out, int exponent, int width) {
    dl_printf(out, "e%c%0*d", exponent < 0 ? '-' : '+', width, abs(exponent));
}

/* Digits with the point where the exponent says; at least `fraction` digits behind it. */
void dl_put_positional(dl_buffer *out, const dl_decimal *d, int fraction) {
    int before = d->exponent + 1;
    if (before <= 0) dl_puts(out, "0");
    for (int k = 0; k < before; k++) dl_put(out, k < d->count ? &d->digits[k] : "0", 1);
    dl_puts(out, ".");
    int written = 0;
    for (int k = before; k < 0 && k < d->count; k++, written++) dl_puts(out, "0");
    for (int k = before < 0 ? 0 : before; k < d->count; k++, written++) dl_put(out, &d->digits[k], 1);
    for (; written < fraction; written++) dl_puts(out, "0");
}

bool dl_put_special(dl_buffer *out, double x) {
    if (isfinite(x)) return false;
    dl_puts(out, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    return true;
}

/* As Python's `str`, and NumPy's of the smaller dtypes. */
static void put_float(dl_buffer *out, double x, int digits) {
    if (dl_put_special(out, x)) return;
    if (signbit(x)) dl_puts(out, "-");
    dl_decimal d = dl_shortest(x, digits);
    if (x == 0 || (fabs(x) >= 1e-4 && fabs(x) < (digits == 17 ? 1e16 : digits == 9 ? 1e6 : 1e3))) {
        dl_put_positional(out, &d, 1);
        return;
    }
    dl_put(out, d.digits, 1);
    if (d.count > 1) {
        dl_puts(out, ".");
        dl_put(out, d.digits + 1, (size_t)d.count - 1);
    }
    dl_put_exponent(out, d.exponent, 2);
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
    int64_t missing = f->width - (int64_t)dl_characters(text, length);
    char align = f->align ? f->align : usual;
    if (missing < 0) missing = 0;
    int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    dl_repeat(out, f->fill, f->fill_bytes, left);
    if (align == '=') {
        dl_put(out, text, sign);
        dl_repeat(out, f->fill, f->fill_bytes, missing);
        dl_put(out, text + sign, length - sign);
        return;
    }
    dl_put(out, text, length);
    dl_repeat(out, f->fill, f->fill_bytes, missing - left);
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
        bool none = negative || size > 0x10FFFF || (size >= 0xD800 && size <= 0xDFFF);
        dl_buffer text = {0};
        dl_put_character(&text, none ? 0xFFFD : (uint32_t)size);
        if (text.failed) out->failed = true;
        else put_padded(out, f, text.bytes, text.length, 0, '<');
        dl_drop(&text);
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
double dl_float_in_word(const dl_dtype *dtype, int64_t word) {
    if (dtype->bytes == 8) {
        double x;
        memcpy(&x, &word, 8);
        return x;
    }
    float x; /* f16 and bf16 are in f32 there */
    memcpy(&x, &word, 4);
    return x;
}

void dl_put_scalar(dl_buffer *out, const dl_dtype *dtype, int64_t word, const char *spec) {
    specification f = parsed(spec);
    switch (dtype->kind) {
    case 'f':
        if (*spec) put_float_by(out, &f, dl_float_in_word(dtype, word));
        else put_float(out, dl_float_in_word(dtype, word), dtype->digits);
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
        const dl_text *text = (const dl_text *)(intptr_t)word;
        if (word) put_text_by(out, &f, text->bytes, (size_t)text->length);
        else put_text_by(out, &f, "", 0);
    }
    }
}

/* ---- what others use ------------------------------------------------------------------------------------------------ */
void dl_format(dl_buffer *out, dl_signature signature, const int64_t *words, const char *spec) {
    if (signature.rank) dl_put_array(out, signature, words, spec);
    else dl_put_scalar(out, signature.dtype, words[0], spec);
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
