/* How far loops are, as host/effects.py shows it: a line on a terminal that is drawn anew, else one now and then. */
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

static const int WIDTHS[] = {24, 12, 6, 0}; /* characters of a bar: of those that fit on the line the widest */
static const double OFTEN = 0.1, SELDOM = 10; /* seconds between two looks on a terminal, between two lines elsewhere */
static const char ERASE[] = "\r\x1b[K";

struct dl_loop {
    char *label;
    int64_t total, done;
    double start;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_out(dl_buffer *text) {
    if (!text->failed && text->length) fwrite(text->bytes, 1, text->length, stderr);
    fflush(stderr);
    dl_drop(text);
}

/* `0.53 s`, `42 s`, `3:07 min`, `2:05:00 h`. */
static void put_duration(dl_buffer *out, double seconds) {
    if (seconds < 59.5) {
        dl_printf(out, seconds < 10 ? "%.2g s" : "%.0f s", seconds);
        return;
    }
    long long whole = (long long)nearbyint(seconds), minutes = whole / 60, rest = whole % 60;
    if (minutes < 60) dl_printf(out, "%lld:%02lld min", minutes, rest);
    else dl_printf(out, "%lld:%02lld:%02lld h", minutes / 60, minutes % 60, rest);
}

/* `training [######····] 60 % 6/10, 2.0/s, 2 s left`, with a bar of so many characters. */
static void put_loop(dl_buffer *out, const dl_loop *loop, double seconds, int width) {
    double share = loop->total ? (double)loop->done / (double)loop->total : 1;
    int filled = (int)(share * width);
    dl_printf(out, "%s%s", loop->label, *loop->label ? " " : "");
    if (width) dl_puts(out, "[");
    for (int k = 0; k < width; k++) dl_puts(out, k < filled ? "#" : "·");
    if (width) dl_puts(out, "] ");
    dl_printf(out, "%d %% %lld/%lld", (int)(100 * share), (long long)loop->done, (long long)loop->total);
    if (!loop->done || seconds == 0) return;
    double rate = (double)loop->done / seconds;
    dl_printf(out, rate >= 1 ? ", %.3g/s, " : ", %.3g s each, ", rate >= 1 ? rate : 1 / rate);
    put_duration(out, (double)(loop->total - loop->done) / rate);
    dl_puts(out, " left");
}

void dl_erase_progress(dl_progress *p) {
    if (!p->drawn) return;
    fputs(ERASE, stderr);
    fflush(stderr);
    p->drawn = false;
}

/* Where the first so many letters of a text end. */
static size_t start_of(const dl_buffer *text, size_t letters) {
    size_t at = 0;
    for (; at < text->length; at++)
        if (((unsigned char)text->bytes[at] & 0xC0) != 0x80 && !letters--) break;
    return at;
}

static void show(dl_progress *p, double at) {
    bool terminal = isatty(2);
    if (at - p->shown < (terminal ? OFTEN : SELDOM)) return;
    struct winsize size;
    size_t room = terminal && !ioctl(2, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col - 1u : 79;
    dl_buffer text = {0};
    for (size_t w = 0; w < sizeof WIDTHS / sizeof *WIDTHS; w++) {
        dl_drop(&text);
        for (size_t k = 0; k < p->count; k++) {
            if (k) dl_puts(&text, " · ");
            put_loop(&text, &p->loops[k], at - p->loops[k].start, WIDTHS[w]);
        }
        if (!terminal || text.failed || start_of(&text, room) == text.length) break;
    }
    if (terminal) fputs(ERASE, stderr);
    if (terminal && !text.failed) text.length = start_of(&text, room);
    if (!terminal) dl_puts(&text, "\n");
    write_out(&text);
    p->shown = at;
    p->drawn = terminal;
}

static void pop(dl_progress *p) { free(p->loops[--p->count].label); }

static void end(dl_progress *p, double at) {
    dl_loop loop = p->loops[p->count - 1];
    dl_erase_progress(p);
    if (p->count == 1) {
        dl_buffer text = {0};
        if (*loop.label) dl_printf(&text, "%s: ", loop.label);
        dl_printf(&text, "%lld", (long long)loop.done);
        if (loop.done != loop.total) dl_printf(&text, " of %lld", (long long)loop.total);
        dl_puts(&text, " in ");
        put_duration(&text, at - loop.start);
        dl_puts(&text, "\n");
        write_out(&text);
    }
    pop(p);
}

/* A letter of a label as it is shown: all of it on one line. */
static char shown(char letter) { return (unsigned char)letter < ' ' || letter == 127 ? ' ' : letter; }

static bool is_label(const char *ours, const char *given) {
    for (; *ours && *ours == shown(*given); ours++) given++;
    return !*ours && !*given;
}

static bool begin(dl_progress *p, int64_t total, const char *label, double at) {
    if (p->count == p->room) {
        dl_loop *loops = realloc(p->loops, (2 * p->room + 4) * sizeof *loops);
        if (!loops) return false;
        p->loops = loops;
        p->room = 2 * p->room + 4;
    }
    char *own = strdup(label);
    if (!own) return false;
    for (char *c = own; *c; c++) *c = shown(*c);
    p->loops[p->count++] = (dl_loop){own, total, 0, at};
    if (p->count == 1) p->shown = at;
    return true;
}

int64_t dl_report_progress(dl_progress *p, int64_t done, int64_t total, const char *label) {
    double at = now();
    if (!done && total >= 0) return begin(p, total, label, at) ? 1 : INT64_MAX;
    for (; p->count > 1; pop(p)) { /* those that a `return` has left */
        const dl_loop *last = &p->loops[p->count - 1];
        if (is_label(last->label, label) && (total == -1 || total == last->total)) break;
    }
    if (!p->count) return INT64_MAX;
    dl_loop *loop = &p->loops[p->count - 1];
    loop->done = done;
    if (total < 0) {
        end(p, at);
        return 0;
    }
    show(p, at);
    double wait = OFTEN * (double)done / fmax(at - loop->start, 1e-9);
    int64_t step = wait < (double)done ? (int64_t)wait : done;
    return done + (step < 1 ? 1 : step);
}

void dl_reset_progress(dl_progress *p) {
    dl_erase_progress(p);
    while (p->count) pop(p);
}
