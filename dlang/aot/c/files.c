/* Whole files: read, and replaced by new ones when these are complete. */
#define _GNU_SOURCE
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside.h"

bool dl_no_room(dl_context *c) { return dl_refuse(c, "E0806", "the memory is exhausted"); }

bool dl_cannot_read(dl_context *c, const char *path, const char *why) {
    return dl_refuse(c, "E0821", "cannot read `%s`: %s", path, why);
}

/* ---- reading ---------------------------------------------------------------------------------------------------------- */
bool dl_content(dl_context *c, const char *path, dl_buffer *out) {
    FILE *file = fopen(path, "rb");
    char part[1 << 14];
    size_t n;
    while (file && (n = fread(part, 1, sizeof part, file))) dl_put(out, part, n);
    bool fine = file && !ferror(file);
    int problem = errno;
    if (file) fclose(file);
    dl_put(out, "", 0);
    if (fine && !out->failed) return true;
    bool full = out->failed;
    dl_drop(out);
    return full ? dl_no_room(c) : dl_cannot_read(c, path, strerror(problem));
}

bool dl_is_utf8(const char *text, size_t length) {
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
    if (!dl_content(c, path, out)) return false;
    if (dl_is_utf8(out->bytes, out->length)) return true;
    dl_drop(out);
    return dl_cannot_read(c, path, "it is not text in UTF-8");
}

/* Has a refusal name the file. */
bool dl_name_file(dl_context *c, const char *path) {
    if (!strcmp(c->code, "E0806")) return false;
    char *why = c->said.bytes ? strdup(c->said.bytes) : NULL, code[sizeof c->code];
    memcpy(code, c->code, sizeof code);
    if (why) dl_refuse(c, code, "cannot read `%s`: %s", path, why);
    free(why);
    return false;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */
/* Where a path leads if it is a link, perhaps to what is not there yet; NULL if there is no memory or no end. */
static char *followed(const char *path) {
    char *there = realpath(path, NULL), *name = there ? there : strdup(path);
    char link[PATH_MAX];
    for (int k = 0; !there && name && k < 40; k++) {
        ssize_t length = readlink(name, link, sizeof link - 1);
        if (length < 0) return name;
        link[length] = 0;
        char *slash = *link == '/' ? NULL : strrchr(name, '/'), *next = NULL;
        if (asprintf(&next, "%.*s%s", slash ? (int)(slash - name + 1) : 0, name, link) < 0) next = NULL;
        free(name);
        name = next;
    }
    return name;
}

/* An empty draft that no other process writes to: who writes the same file waits for its turn. */
static FILE *own_file(const char *name) {
    for (;;) {
        struct stat opened, there;
        int file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (file < 0) return NULL;
        flock(file, LOCK_EX);
        bool moved = fstat(file, &opened) || stat(name, &there) || opened.st_ino != there.st_ino || opened.st_dev != there.st_dev;
        FILE *stream = moved || ftruncate(file, 0) ? NULL : fdopen(file, "wb");
        if (stream) return stream;
        int problem = errno;
        close(file);
        errno = problem;
        if (!moved) return NULL;
    }
}

void dl_begin_draft(dl_draft *d, const char *path, bool lasting) {
    struct stat found;
    *d = (dl_draft){.path = path, .lasting = lasting, .in_place = !stat(path, &found) && !S_ISREG(found.st_mode)};
    d->target = d->in_place ? strdup(path) : followed(path);
    if (d->target && asprintf(&d->name, "%s%s", d->target, d->in_place ? "" : ".part") < 0) d->name = NULL;
    bool there = !d->in_place && !stat(path, &found), refused = there && access(path, W_OK);
    if (d->name && !refused) d->file = d->in_place ? fopen(d->name, "wb") : own_file(d->name);
    if (!d->file) d->problem = d->name ? errno : ENOMEM;
    if (d->file && there) fchmod(fileno(d->file), found.st_mode & 07777); /* it hands its permissions on */
}

void dl_put_draft(dl_draft *d, const void *bytes, size_t length) {
    if (!d->problem && length && fwrite(bytes, 1, length, d->file) != length) d->problem = errno;
}

/* keep: whether it replaces the file; that is done before others may write. */
static void close_draft(dl_draft *d, bool keep) {
    if (d->file && keep && fflush(d->file) && !d->problem) d->problem = errno;
    if (d->file && !d->in_place) {
        if (keep && d->lasting) fsync(fileno(d->file));
        keep = keep && !d->problem;
        if (keep && rename(d->name, d->target)) d->problem = errno, keep = false;
        if (!keep) remove(d->name);
    }
    if (d->file && fclose(d->file) && !d->problem) d->problem = errno;
    free(d->name);
    free(d->target);
}

void dl_drop_draft(dl_draft *d) { close_draft(d, false); }

bool dl_end_draft(dl_context *c, dl_draft *d) {
    close_draft(d, true);
    return !d->problem || dl_refuse(c, "E0822", "cannot write `%s`: %s", d->path, strerror(d->problem));
}

bool dl_write_text(dl_context *c, const char *path, const char *text, size_t length) {
    dl_draft draft;
    dl_begin_draft(&draft, path, false);
    dl_put_draft(&draft, text, length);
    return dl_end_draft(c, &draft);
}
