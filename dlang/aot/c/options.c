/* Reads a command line as `dlc run` does. */
#include "options.h"

#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *usage_text, *program;

__attribute__((format(printf, 1, 2), noreturn)) static void refuse(const char *form, ...) {
    va_list list;
    va_start(list, form);
    fprintf(stderr, "%s%s: error: ", usage_text, program);
    vfprintf(stderr, form, list);
    fprintf(stderr, "\n");
    va_end(list);
    exit(2);
}

/* The option with a name, of which `length` characters count. */
static dl_option *named(const char *word, size_t length, dl_option *options, int known) {
    for (int k = 0; k < known; k++)
        for (int n = 0; n < 2; n++) {
            const char *name = options[k].names[n];
            if (name && strlen(name) == length && !memcmp(name, word, length)) return &options[k];
        }
    return NULL;
}

/* ---- what a name that is misspelt may have meant, as dlang/spelling.py has it --------------------------------------- */
enum { LONGEST_NAME = 64 };

/* How many edits lead from one word to the other: letters that are inserted, dropped, changed or swapped. */
static int distance(const char *a, int n, const char *b, int m) {
    int rows[3][LONGEST_NAME + 1], *before = rows[0], *above = rows[1], *row = rows[2];
    for (int j = 0; j <= m; j++) row[j] = j;
    for (int i = 1; i <= n; i++) {
        int *oldest = before;
        before = above, above = row, row = oldest;
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int cost = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < cost) cost = above[j] + 1;
            if (row[j - 1] + 1 < cost) cost = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < cost)
                cost = before[j - 2] + 1;
            row[j] = cost;
        }
    }
    return row[m];
}

static bool same_letters(const char *a, int n, const char *b, int m) {
    int counts[256] = {0};
    for (int k = 0; k < n; k++) counts[(unsigned char)a[k]]++;
    for (int k = 0; k < m; k++) counts[(unsigned char)b[k]]--;
    for (int k = 0; k < 256; k++)
        if (counts[k]) return false;
    return true;
}

/* The name of an option that is closest to a word; NULL if none is close. */
static const char *closest(const char *word, int n, const dl_option *options, int known) {
    int limit = n <= 5 ? 1 : 2, fewest = 2 * limit + 2;
    const char *best = NULL;
    for (int k = -1; k < known && n <= LONGEST_NAME; k++)
        for (int which = 0; which < 2; which++) {
            const char *name = k < 0 ? (which ? "--help" : "-h") : options[k].names[which];
            int m = name ? (int)strlen(name) : 0;
            if (m == n && !strncasecmp(name, word, (size_t)n)) return name;
            if (n < 3 || m < 2 || m > LONGEST_NAME || abs(m - n) > limit) continue;
            int edits = 2 * distance(word, n, name, m) + !same_letters(word, n, name, m);
            if (edits < fewest) best = name, fewest = edits;
        }
    return best;
}

/* ---- values ----------------------------------------------------------------------------------------------------------- */
/* A number without the underscores between its digits, and without blanks around it; whether it is one. */
static bool cleaned(const char *text, char *out, size_t room) {
    size_t n = 0;
    while (isspace((unsigned char)*text)) text++;
    for (; *text && !isspace((unsigned char)*text); text++) {
        if (*text == '_') {
            if (!n || !isdigit((unsigned char)text[-1]) || !isdigit((unsigned char)text[1])) return false;
            continue;
        }
        if (n + 1 >= room) return false;
        out[n++] = *text;
    }
    while (isspace((unsigned char)*text)) text++;
    out[n] = 0;
    return n && !*text;
}

static void take(dl_option *o, const char *text) {
    char digits[400];
    o->given = true;
    errno = 0;
    switch (o->kind) {
    case DL_STRING:
        o->value.text = text;
        return;
    case DL_TRUTH:
        if (strcmp(text, "true") && strcmp(text, "false"))
            refuse("%s: `%s` is neither true nor false", o->names[0], text);
        o->value.truth = *text == 't';
        return;
    case DL_FLOAT:
        if (!cleaned(text, digits, sizeof digits) || !dl_is_number(digits))
            refuse("%s: expected a number, found `%s`", o->names[0], text);
        o->value.number = strtod(digits, NULL);
        return;
    case DL_INTEGER:
    case DL_UNSIGNED:
        if (!cleaned(text, digits, sizeof digits) || !dl_is_integer(digits))
            refuse("%s: expected %s, found `%s`", o->names[0], o->dtype, text);
        bool outside;
        if (o->kind == DL_INTEGER) {
            int64_t value = o->value.integer = strtoll(digits, NULL, 10), most = (int64_t)(UINT64_MAX >> (65 - o->bits));
            outside = value < -most - 1 || value > most;
        } else {
            uint64_t value = o->value.natural = strtoull(digits, NULL, 10);
            outside = (*digits == '-' && value) || value > UINT64_MAX >> (64 - o->bits);
        }
        if (outside || errno == ERANGE)
            refuse("%s: %s is out of the range of %s", o->names[0], digits + (*digits == '+'), o->dtype);
    }
}

void dl_read_options(int count, char **words, dl_option *options, int known, const char *usage, const char *help) {
    dl_begin_program();
    usage_text = usage;
    program = count ? strrchr(words[0], '/') ? strrchr(words[0], '/') + 1 : words[0] : "program";
    for (int k = 1; k < count; k++) {
        const char *word = words[k], *sign = strchr(word, '=');
        if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
            fputs(help, stdout);
            exit(fflush(stdout) ? 1 : 0);
        }
        if (*word != '-') refuse("unrecognized arguments: %s", word);
        size_t length = sign ? (size_t)(sign - word) : strlen(word);
        dl_option *o = named(word, length, options, known);
        const char *meant = o ? NULL : closest(word, (int)length, options, known);
        if (meant) refuse("there is no option `%.*s`; did you mean `%s`?", (int)length, word, meant);
        if (!o) refuse("there is no option `%.*s`", (int)length, word);
        const char *next = k + 1 < count ? words[k + 1] : NULL;
        if (next && *next == '-' && next[1] && (named(next, strcspn(next, "="), options, known) || !strcmp(next, "-h") ||
                                                 !strcmp(next, "--help")))
            next = NULL;
        if (sign)
            take(o, sign + 1);
        else if (o->kind == DL_TRUTH && (!next || *next == '-')) {
            o->given = true;
            o->value.truth = true;
        } else if (!next)
            refuse("%s: expected a value", o->names[0]);
        else {
            take(o, next);
            k++;
        }
    }
    char missing[4096] = "";
    for (int k = 0; k < known; k++)
        if (options[k].required && !options[k].given) {
            size_t n = strlen(missing);
            snprintf(missing + n, sizeof missing - n, "%s%s", n ? " and " : "", options[k].names[0]);
        }
    if (*missing) refuse("expected %s", missing);
}

/* How many bytes there are of a character that does something to a terminal, which only sees that there is one: of ASCII a
   picture, of others a question mark. 0 for all other characters. */
static size_t control(const unsigned char *c) {
    if (*c < 0x20 ? *c != '\t' && *c != '\n' : *c == 0x7f) return 1;
    if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) return 2;
    if (*c == 0xd8 && c[1] == 0x9c) return 2;
    if (*c == 0xe2 && c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) return 3;
    if (*c == 0xe2 && c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9) return 3;
    return *c == 0xef && c[1] == 0xbb && c[2] == 0xbf ? 3 : 0;
}

/* Prints a text as a terminal may get it. */
static void show(const char *text, size_t length) {
    for (const char *end = text + length; text < end;) {
        size_t bytes = control((const unsigned char *)text);
        if (bytes == 1) fprintf(stderr, "\xe2\x90%c", *text == 0x7f ? 0xa1 : 0x80 + *text);
        else if (bytes) fputs("\xef\xbf\xbd", stderr);
        else fputc(*text, stderr);
        text += bytes ? bytes : 1;
    }
}

int dl_end_program(void) {
    fflush(stdout);
    if (*dl_error_code() || !dl_is_interrupted()) {
        show(dl_message(), strlen(dl_message()));
        fputs("\n\n", stderr);
        return 1;
    }
    for (const char *line = dl_message(); *line;) {
        size_t length = strcspn(line, "\n");
        fprintf(stderr, "%s: ", program);
        show(line, length);
        fputc('\n', stderr);
        line += length + (line[length] == '\n');
    }
    return 130;
}
