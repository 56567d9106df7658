/* The work of the host: texts, and what a program does to the world, as host/effects.py does it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "inside.h"

/* ---- texts ---------------------------------------------------------------------------------------------------------- */
static const dl_text empty = {0, ""};

const dl_text *dl_text_of(int64_t word) { return word ? (const dl_text *)(intptr_t)word : &empty; }

bool dl_text_in(dl_context *c, int64_t *word, const char *text) {
    *word = dl_text_made(c->words, text, text ? (int64_t)strlen(text) : 0);
    return *word == -1 && dl_fail("E0806", "the memory is exhausted");
}

/* ---- work of the host ----------------------------------------------------------------------------------------------- */
bool dl_refuse(dl_context *c, const char *code, const char *form, ...) {
    char *text = NULL;
    va_list list;
    va_start(list, form);
    dl_drop(&c->said);
    if (vasprintf(&text, form, list) < 0) c->said.failed = true;
    else dl_puts(&c->said, text), free(text);
    va_end(list);
    snprintf(c->code, sizeof c->code, "%s", code);
    c->refused = true;
    return false;
}

bool dl_text_word(dl_context *c, const char *bytes, size_t length, int64_t *word) {
    *word = dl_text_made(c->words, bytes, (int64_t)length);
    return *word != -1 || dl_no_room(c);
}

static bool give_text(dl_context *c, dl_buffer *made, int64_t *out) {
    bool fine = made->failed ? dl_no_room(c) : dl_text_word(c, made->bytes ? made->bytes : "", made->length, out);
    dl_drop(made);
    return fine;
}

bool dl_serve(dl_context *c, const dl_site *site, int64_t *slots) {
    int64_t *out = slots;
    for (int k = 0; k < site->value_count; k++) out += 1 + site->values[k].rank;
    const dl_text *first = site->value_count && site->values[0].dtype == &dl_str ? dl_text_of(slots[0]) : &empty;
    const char *path = first->bytes;
    if (site->kind >= DL_READ_TEXT && site->kind <= DL_WRITE_VALUE && (!*path || strlen(path) != (size_t)first->length)) {
        bool reads = site->kind <= DL_READ_VALUE;
        return dl_refuse(c, reads ? "E0821" : "E0822", "cannot %s `%s`: that is no name of a file",
                         reads ? "read" : "write", path);
    }
    switch (site->kind) {
    case DL_FORMAT: {
        dl_buffer text = {0};
        dl_format_parts(&text, site->parts, site->value_count, site->values, slots);
        return give_text(c, &text, out);
    }
    case DL_PRINT: {
        const dl_text *text = dl_text_of(slots[0]);
        dl_erase_progress(&c->progress);
        flockfile(stdout);
        bool fine = fwrite(text->bytes, 1, (size_t)text->length, stdout) == (size_t)text->length &&
                    putc('\n', stdout) != EOF && !fflush(stdout);
        int problem = errno;
        funlockfile(stdout);
        if (!fine && dl_is_program() && problem == EPIPE) _exit(0); /* whoever read our output has seen enough */
        return fine || dl_refuse(c, "E0822", "cannot write the output: %s", strerror(problem));
    }
    case DL_CLOCK: {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
        memcpy(out, &seconds, 8);
        return true;
    }
    case DL_EXISTS:
        *out = strlen(path) == (size_t)first->length && !access(path, F_OK);
        return true;
    case DL_READ_TEXT: {
        dl_buffer text = {0};
        return dl_read_text(c, path, &text) && give_text(c, &text, out);
    }
    case DL_WRITE_TEXT:
        return dl_write_text(c, path, dl_text_of(slots[1])->bytes, (size_t)dl_text_of(slots[1])->length);
    case DL_READ_CSV:
        return dl_read_csv(c, path, slots[1] & 1, site->wanted, site->parts[0], out);
    case DL_WRITE_CSV:
        return dl_write_csv(c, path, dl_text_of(slots[1])->bytes, site->values[2], slots + 2);
    case DL_WRITE_ROW:
        return dl_append_row(c, path, site->parts, site->value_count - 1, site->values + 1, slots + 1);
    case DL_READ_NPZ:
        return dl_read_npz(c, path, dl_text_of(slots[1])->bytes, site->wanted, site->parts[0], out);
    case DL_READ_VALUE:
        return dl_read_value(c, path, site->form, out);
    case DL_WRITE_VALUE:
        return dl_write_value(c, path, site->form, slots + 1);
    case DL_READ_NPY:
        return dl_read_npy(c, path, site->wanted, site->parts[0], out);
    case DL_WRITE_NPY:
        return dl_write_npy(c, path, site->values[1], slots + 1);
    case DL_PROGRESS:
        *out = dl_report_progress(&c->progress, slots[0], slots[1], dl_text_of(slots[2])->bytes);
        return true;
    case DL_LIBRARY:
        if (!strcmp(site->parts[0], "argsort"))
            return dl_argsort(c, site->values[0].dtype, (const char *)(intptr_t)slots[0], slots[1], (int64_t *)(intptr_t)*out);
        /* fall through */
    default: /* an operation of linear algebra on a matrix that LAPACK does not take */
        return dl_refuse(c, "E0806", "the memory is exhausted: `%s` of a matrix as large as this", site->parts[0]);
    }
}
