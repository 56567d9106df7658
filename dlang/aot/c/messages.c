/* What was wrong, in words: a message for each thread, and what has ended a run, as driver.py and diagnostics.py say it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

static _Thread_local dl_buffer last_message;
static _Thread_local char last_code[8];
static pthread_key_t thread_end;
static pthread_once_t thread_end_made = PTHREAD_ONCE_INIT;
static bool has_thread_end;

static void drop_message(void *message) { dl_drop(message); }
static void make_thread_end(void) { has_thread_end = !pthread_key_create(&thread_end, drop_message); }

const char *dl_message(void) {
    if (last_message.failed) return "the memory is exhausted";
    return last_message.bytes ? last_message.bytes : "";
}

const char *dl_error_code(void) { return last_code; }

void dl_begin_message(const char *code) {
    pthread_once(&thread_end_made, make_thread_end);
    if (has_thread_end) pthread_setspecific(thread_end, &last_message);
    dl_drop(&last_message);
    snprintf(last_code, sizeof last_code, "%s", code);
    dl_printf(&last_message, "error[%s]: ", code);
}

bool dl_fail(const char *code, const char *form, ...) {
    dl_begin_message(code);
    va_list list;
    va_start(list, form);
    char *text = NULL;
    if (vasprintf(&text, form, list) < 0) last_message.failed = true;
    else dl_puts(&last_message, text), free(text);
    va_end(list);
    return true;
}

dl_buffer *dl_said(void) { return &last_message; }

void dl_end_messages(void) {
    dl_drop(&last_message);
    if (has_thread_end) pthread_key_delete(thread_end);
}

/* ---- what has ended a run ------------------------------------------------------------------------------------------- */
enum { SHOWN = 8 };

typedef struct {
    const dl_place *place;
    int times;
} noted;

/* mark: what stands under the text that is meant; such lines have no number. */
static void put_excerpt(dl_buffer *out, const dl_place *place, int gutter, char mark) {
    for (const char *line = place->excerpt; *line;) {
        const char *end = strchr(line, '\n');
        size_t length = end ? (size_t)(end - line) : strlen(line);
        if (length != 3 || memcmp(line, "...", 3))
            for (int k = place->width; k < gutter; k++) dl_puts(out, " ");
        bool numbered = line[place->width - 1] != ' ';
        for (size_t k = 0; k < length; k++) dl_put(out, line[k] == '^' && !numbered ? &mark : &line[k], 1);
        line += length + (end != NULL);
        if (*line) dl_puts(out, "\n");
    }
}

static bool same(const dl_place *a, const dl_place *b) {
    if (strcmp(a->label, b->label) || !a->excerpt != !b->excerpt) return false;
    return !a->excerpt || !strcmp(a->excerpt, b->excerpt);
}

static int put_call(noted *calls, int count, const dl_place *place) {
    if (count && same(calls[count - 1].place, place)) {
        calls[count - 1].times++;
        return count;
    }
    calls[count] = (noted){place, 1};
    return count + 1;
}

static void put_note(dl_buffer *out, const noted *call, int gutter) {
    const dl_place *place = call->place;
    dl_puts(out, "\n");
    if (!place->excerpt) dl_printf(out, "%*s = ", gutter, "");
    dl_printf(out, "note: in `%s`%s", place->label, place->excerpt ? ", called here" : "");
    if (call->times > 1) dl_printf(out, " %d times over", call->times);
    if (place->excerpt) {
        dl_puts(out, "\n");
        put_excerpt(out, place, gutter, '-');
    }
}

static void put_help(int gutter) {
    for (const dl_remedy *r = dl_remedies; r->code; r++)
        if (!strcmp(r->code, last_code)) dl_printf(&last_message, "\n%*s = help: %s", gutter, "", r->help);
}

/* place: where it happened; the calls under way are the rest of the site's own, and those of the trace from `first` on. */
static void finish(dl_context *c, const dl_place *place, const dl_site *site, int first) {
    int64_t traced = c->words[DL_CALLS] < DL_TRACE_LENGTH ? c->words[DL_CALLS] : DL_TRACE_LENGTH;
    int most = site ? site->call_count : 0, count = 0;
    for (int64_t k = first; k < traced; k++) most += 1 + dl_sites[c->words[DL_TRACE + k]].call_count;
    noted *calls = calloc((size_t)most + 1, sizeof *calls);
    if (!calls) return;
    for (int k = 0; site && k < site->call_count; k++) count = put_call(calls, count, &site->calls[k]);
    for (int64_t k = first; k < traced; k++) {
        const dl_site *call = &dl_sites[c->words[DL_TRACE + k]];
        count = put_call(calls, count, &call->place);
        for (int j = 0; j < call->call_count; j++) count = put_call(calls, count, &call->calls[j]);
    }
    int gutter = place->excerpt ? place->width : 1, left_out = count > SHOWN ? count - SHOWN : 0;
    for (int k = 0; k < count; k++) {
        if (left_out && k >= SHOWN / 2 && k < count - SHOWN / 2) continue;
        if (calls[k].place->excerpt && calls[k].place->width > gutter) gutter = calls[k].place->width;
    }
    if (place->excerpt) {
        dl_puts(&last_message, "\n");
        put_excerpt(&last_message, place, gutter, '^');
    }
    for (int k = 0; k < count; k++) {
        if (left_out && k == SHOWN / 2) {
            dl_printf(&last_message, "\n%*s = note: … and %d calls between", gutter, "", left_out);
            k = count - SHOWN / 2;
        }
        put_note(&last_message, &calls[k], gutter);
    }
    put_help(gutter);
    free(calls);
}

/* Which functions were under way, a line for each, without a code. */
static void put_interruption(dl_context *c, const dl_entry *entry) {
    int64_t traced = c->words[DL_CALLS] < DL_TRACE_LENGTH ? c->words[DL_CALLS] : DL_TRACE_LENGTH;
    dl_begin_message("");
    last_message.length = 0;
    for (int64_t k = 0; k < traced && k < SHOWN / 2; k++) {
        const dl_place *call = &dl_sites[c->words[DL_TRACE + k]].place;
        const char *arrow = call->excerpt ? strstr(call->excerpt, "--> ") : NULL;
        dl_printf(&last_message, "interrupted in `%s`", call->label);
        if (arrow) dl_printf(&last_message, ", called at %.*s", (int)strcspn(arrow + 4, "\n"), arrow + 4);
        dl_puts(&last_message, "\n");
    }
    dl_printf(&last_message, "interrupted in `%s`", entry->place.label);
}

void dl_report(dl_context *c, const dl_entry *entry) {
    const dl_site *site = &dl_sites[c->words[DL_SITE]];
    switch (site->kind) {
    case DL_STOPPED:
        put_interruption(c, entry);
        return;
    case DL_CHECK:
        dl_begin_message(site->code);
        dl_format_parts(&last_message, site->parts, site->value_count, site->values, c->words + DL_SLOTS);
        finish(c, &site->place, site, 0);
        return;
    case DL_MEMORY:
        dl_begin_message("E0806");
        dl_puts(&last_message, "the memory is exhausted");
        finish(c, &site->place, site, 0);
        return;
    case DL_STACK: {
        const dl_site *deepest = c->words[DL_CALLS] ? &dl_sites[c->words[DL_TRACE]] : NULL;
        const dl_place *place = deepest ? &deepest->place : &entry->place;
        dl_begin_message("E0805");
        dl_printf(&last_message, "the stack is exhausted: `%s` is %lld calls deep", deepest ? place->label : entry->label,
                  (long long)c->words[DL_CALLS]);
        finish(c, place, deepest, 1);
        return;
    }
    default:
        dl_begin_message(c->refused ? c->code : "E0806");
        dl_puts(&last_message, c->refused && c->said.bytes ? c->said.bytes : "the memory is exhausted");
        dl_drop(&c->said);
        finish(c, &site->place, site, 0);
    }
}

bool dl_no_memory(const dl_entry *entry) {
    dl_fail("E0806", "the memory is exhausted");
    if (entry->place.excerpt) {
        dl_puts(&last_message, "\n");
        put_excerpt(&last_message, &entry->place, entry->place.width, '^');
    }
    put_help(entry->place.excerpt ? entry->place.width : 1);
    return true;
}
