/* Archives of arrays: zip, as NumPy and Python write it, with sizes of 64 bits (PKWARE's APPNOTE 6.3). */
#define _GNU_SOURCE
#include "zip.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "inflate.h"

enum { HEADER = 30, ENTRY = 46, END = 22, END_64 = 56, LOCATOR = 20, LONGEST_COMMENT = 65535 };
enum { STORED = 0, DEFLATED = 8, ENCRYPTED = 1, UTF8 = 0x800 };
static const uint32_t LARGE = 0xFFFFFFFF; /* of a size that is elsewhere, in 64 bits */

/* ---- checksums -------------------------------------------------------------------------------------------------------- */
static uint32_t steps[8][256];
static pthread_once_t steps_made = PTHREAD_ONCE_INIT;

static void make_steps(void) {
    for (uint32_t k = 0; k < 256; k++) {
        uint32_t x = k;
        for (int b = 0; b < 8; b++) x = x >> 1 ^ (x & 1 ? 0xEDB88320 : 0);
        steps[0][k] = x;
    }
    for (int n = 1; n < 8; n++)
        for (int k = 0; k < 256; k++) steps[n][k] = steps[n - 1][k] >> 8 ^ steps[0][steps[n - 1][k] & 255];
}

/* CRC-32, continued; 8 bytes at a time. */
static uint32_t checked(uint32_t sum, const char *bytes, size_t length) {
    pthread_once(&steps_made, make_steps);
    uint32_t x = ~sum;
    for (; length >= 8; bytes += 8, length -= 8) {
        uint32_t a, b;
        memcpy(&a, bytes, 4);
        memcpy(&b, bytes + 4, 4);
        a ^= x;
        x = steps[7][a & 255] ^ steps[6][a >> 8 & 255] ^ steps[5][a >> 16 & 255] ^ steps[4][a >> 24] ^ steps[3][b & 255] ^
            steps[2][b >> 8 & 255] ^ steps[1][b >> 16 & 255] ^ steps[0][b >> 24];
    }
    for (; length; bytes++, length--) x = x >> 8 ^ steps[0][(x ^ (unsigned char)*bytes) & 255];
    return ~x;
}

/* ---- reading ---------------------------------------------------------------------------------------------------------- */
static uint64_t number(const char *at, int bytes) {
    uint64_t x = 0;
    memcpy(&x, at, (size_t)bytes);
    return x;
}

static bool read_at(FILE *file, uint64_t offset, char *into, size_t length) {
    return offset <= INT64_MAX && !fseeko(file, (off_t)offset, SEEK_SET) && fread(into, 1, length, file) == length;
}

/* Sizes of 64 bits that an entry has behind its name, in place of those that do not fit. */
static bool widen(dl_zip_member *m, const char *extra, size_t length) {
    uint64_t *wide[] = {&m->size, &m->packed, &m->offset};
    while (length >= 4) {
        size_t own = number(extra + 2, 2);
        if (own > length - 4) return false;
        if (number(extra, 2) == 1)
            for (size_t k = 0, at = 4; k < 3; k++)
                if (*wide[k] == LARGE) {
                    if (at + 8 > 4 + own) return false;
                    *wide[k] = number(extra + at, 8);
                    at += 8;
                }
        extra += 4 + own;
        length -= 4 + own;
    }
    return true;
}

/* shift: how much lies in front of the archive. */
static bool read_directory(dl_zip *zip, const char *at, uint64_t length, uint64_t count, uint64_t shift) {
    if (count > length / ENTRY) return false;
    zip->members = calloc(count ? count : 1, sizeof *zip->members);
    if (!zip->members) return false;
    for (; zip->count < count; zip->count++) {
        if (length < ENTRY || memcmp(at, "PK\1\2", 4)) return false;
        dl_zip_member *m = &zip->members[zip->count];
        size_t name = number(at + 28, 2), extra = number(at + 30, 2), own = ENTRY + name + extra + number(at + 32, 2);
        if (own > length) return false;
        *m = (dl_zip_member){strndup(at + ENTRY, name), number(at + 42, 4), number(at + 20, 4), number(at + 24, 4),
                             (uint32_t)number(at + 16, 4), (int)number(at + 10, 2), (int)number(at + 8, 2)};
        if (!m->name) return false;
        if (!widen(m, at + ENTRY + name, extra)) {
            free(m->name);
            return false;
        }
        for (char *c = m->name; !dl_is_utf8(m->name, strlen(m->name)) && *c; c++) /* it is of some other encoding */
            if (*c & 0x80) *c = '?';
        m->offset += shift;
        at += own;
        length -= own;
    }
    return true;
}

static bool find_directory(dl_zip *zip, uint64_t size) {
    uint64_t most = END + LONGEST_COMMENT, tail = size < most ? size : most, end;
    char *last = malloc(tail + 1), wide[END_64 + LOCATOR];
    if (!last || !read_at(zip->file, size - tail, last, tail)) {
        free(last);
        return false;
    }
    int64_t k = (int64_t)tail - END;
    while (k >= 0 && memcmp(last + k, "PK\5\6", 4)) k--;
    if (k < 0) {
        free(last);
        return false;
    }
    const char *found = last + k;
    uint64_t count = number(found + 10, 2), length = number(found + 12, 4), offset = number(found + 16, 4);
    size_t comment = number(found + 20, 2), there = (size_t)(tail - END - (uint64_t)k);
    dl_put(&zip->comment, found + END, comment < there ? comment : there);
    free(last);
    end = size - tail + (uint64_t)k;
    if (end >= sizeof wide && read_at(zip->file, end - sizeof wide, wide, sizeof wide) && !memcmp(wide, "PK\6\6", 4) &&
        !memcmp(wide + END_64, "PK\6\7", 4)) {
        count = number(wide + 32, 8);
        length = number(wide + 40, 8);
        offset = number(wide + 48, 8);
        end -= sizeof wide;
    }
    if (length > end || offset > end - length) return false;
    char *directory = malloc(length + 1);
    bool fine = directory && read_at(zip->file, end - length, directory, length) &&
                read_directory(zip, directory, length, count, end - length - offset);
    free(directory);
    return fine && !zip->comment.failed;
}

bool dl_open_zip(dl_context *c, dl_zip *zip, const char *path) {
    *zip = (dl_zip){.file = fopen(path, "rb")};
    char magic[6] = {0};
    size_t got = zip->file ? fread(magic, 1, sizeof magic, zip->file) : 0;
    if (!zip->file || ferror(zip->file)) return dl_refuse(c, "E0821", "%s", strerror(errno));
    if (got == sizeof magic && !memcmp(magic, "\x93NUMPY", sizeof magic))
        return dl_refuse(c, "E0821", "it holds one array without a name; use `io.npy`");
    bool zipped = !memcmp(magic, "PK\3\4", 4) || !memcmp(magic, "PK\5\6", 4);
    off_t size = zipped && !fseeko(zip->file, 0, SEEK_END) ? ftello(zip->file) : -1;
    return (size >= END && find_directory(zip, (uint64_t)size)) ||
           dl_refuse(c, "E0821", "it is not a file of NumPy arrays, or was cut short");
}

void dl_close_zip(dl_zip *zip) {
    if (zip->file) fclose(zip->file);
    for (size_t k = 0; k < zip->count; k++) free(zip->members[k].name);
    free(zip->members);
    dl_drop(&zip->comment);
}

/* The bytes of a member, unpacked and checked. `failed` says that there was no memory for them. */
static bool unpack(dl_zip *zip, const dl_zip_member *m, dl_buffer *out) {
    char head[HEADER];
    uint64_t name = strlen(m->name);
    if (m->flags & ENCRYPTED || (m->method != STORED && m->method != DEFLATED)) return false;
    if (!read_at(zip->file, m->offset, head, HEADER) || memcmp(head, "PK\3\4", 4) || number(head + 26, 2) != name)
        return false;
    uint64_t start = m->offset + HEADER + name + number(head + 28, 2);
    fseeko(zip->file, 0, SEEK_END);
    uint64_t end = (uint64_t)ftello(zip->file);
    if (start > end || m->packed > end - start || (m->method == STORED && m->packed != m->size)) return false;
    if (m->method == DEFLATED && m->size / 1040 > m->packed) return false; /* more than that cannot be packed */
    *out = (dl_buffer){malloc(m->size + 1), m->size, m->size + 1, false};
    char *packed = m->method == STORED ? out->bytes : malloc(m->packed + 1);
    out->failed = !out->bytes || !packed;
    bool fine = !out->failed && read_at(zip->file, start, packed, m->packed);
    if (fine && m->method == DEFLATED)
        fine = dl_inflate((unsigned char *)packed, m->packed, (unsigned char *)out->bytes, m->size);
    if (packed != out->bytes) free(packed);
    if (fine) out->bytes[m->size] = 0;
    return fine && checked(0, out->bytes, m->size) == m->check;
}

/* The length of a name without its `.npy`. */
static size_t stem(const char *name) {
    size_t length = strlen(name);
    return length >= 4 && !strcmp(name + length - 4, ".npy") ? length - 4 : length;
}

/* A member by its name, or with `.npy` behind it: the last of those. */
static const dl_zip_member *find(const dl_zip *zip, const char *name) {
    const dl_zip_member *found = NULL;
    size_t length = strlen(name);
    for (size_t k = 0; k < zip->count; k++) {
        const char *own = zip->members[k].name;
        bool exact = found && !strcmp(found->name, name) && strcmp(own, name);
        if (stem(own) == length && !memcmp(own, name, length) && !exact) found = &zip->members[k];
    }
    return found;
}

bool dl_zip_has(const dl_zip *zip, const char *name) { return find(zip, name); }

bool dl_zip_array(dl_context *c, dl_zip *zip, const char *name, dl_buffer *bytes, dl_npy *out) {
    const dl_zip_member *m = find(zip, name);
    *bytes = (dl_buffer){0};
    if (!m) {
        dl_buffer held = {0};
        for (size_t k = 0; k < zip->count; k++)
            dl_printf(&held, "%s`%.*s`", k ? ", " : "", (int)stem(zip->members[k].name), zip->members[k].name);
        dl_refuse(c, "E0823", "it has no array `%s`; it holds %s", name, held.bytes ? held.bytes : "nothing");
        dl_drop(&held);
        return false;
    }
    bool fine = unpack(zip, m, bytes), full = bytes->failed;
    if (fine && (m->size < 6 || memcmp(bytes->bytes, "\x93NUMPY", 6)))
        return dl_refuse(c, "E0821", "its `%s` is no array of NumPy", name);
    if (fine && dl_find_npy(out, bytes->bytes, bytes->length)) return true;
    if (full) return dl_refuse(c, "E0821", "it does not fit into memory");
    return dl_refuse(c, "E0821", "its `%s` is damaged, or holds Python objects", name);
}

bool dl_read_npz(dl_context *c, const char *path, const char *member, dl_signature wanted, const char *dtype,
                 int64_t *out) {
    dl_zip zip;
    dl_npy array;
    dl_buffer bytes = {0};
    bool fine = dl_open_zip(c, &zip, path) && dl_zip_array(c, &zip, member, &bytes, &array) &&
                dl_give_npy(c, &array, member, wanted, dtype, out);
    dl_drop(&bytes);
    dl_close_zip(&zip);
    return fine || dl_name_file(c, path);
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */
static void put_number(dl_buffer *out, uint64_t x, int bytes) { dl_put(out, (const char *)&x, (size_t)bytes); }

/* What headers and entries have in common: from the version that is needed to the length of the name. */
static void put_common(dl_buffer *out, const dl_buffer *name, uint32_t check, uint32_t size) {
    bool ascii = true;
    for (size_t k = 0; k < name->length; k++) ascii = ascii && !(name->bytes[k] & 0x80);
    put_number(out, 45, 2);
    put_number(out, ascii ? 0 : UTF8, 2);
    put_number(out, STORED, 2);
    put_number(out, 0, 2);
    put_number(out, 1 << 5 | 1, 2); /* the first day of 1980 */
    put_number(out, check, 4);
    put_number(out, size, 4);
    put_number(out, size, 4);
    put_number(out, name->length, 2);
}

void dl_add_to_zip(dl_new_zip *zip, const char *name, const dl_npy_file *array) {
    dl_buffer full = {0}, head = {0}, *entry = &zip->directory;
    dl_printf(&full, "%s.npy", name);
    uint32_t check = checked(checked(0, array->head.bytes, array->head.length), array->data, array->bytes);
    uint64_t size = array->head.length + array->bytes;
    bool wide = size > INT32_MAX, far = zip->position > INT32_MAX;
    dl_puts(&head, "PK\3\4");
    put_common(&head, &full, check, LARGE);
    put_number(&head, 20, 2);
    dl_put(&head, full.bytes, full.length);
    put_number(&head, 1, 2);
    put_number(&head, 16, 2);
    put_number(&head, size, 8);
    put_number(&head, size, 8);

    dl_puts(entry, "PK\1\2");
    put_number(entry, 3 << 8 | 45, 2); /* Unix */
    put_common(entry, &full, check, wide ? LARGE : (uint32_t)size);
    put_number(entry, wide || far ? 4u + 16 * wide + 8 * far : 0, 2);
    put_number(entry, 0, 6); /* no comment, on the first disk, without attributes of its own */
    put_number(entry, 0600u << 16, 4);
    put_number(entry, far ? LARGE : zip->position, 4);
    dl_put(entry, full.bytes, full.length);
    if (wide || far) {
        put_number(entry, 1, 2);
        put_number(entry, 16u * wide + 8 * far, 2);
        if (wide) put_number(entry, size, 8);
        if (wide) put_number(entry, size, 8);
        if (far) put_number(entry, zip->position, 8);
    }
    if (full.failed || head.failed || entry->failed) zip->draft->problem = ENOMEM;
    dl_put_draft(zip->draft, head.bytes, head.length);
    dl_put_draft(zip->draft, array->head.bytes, array->head.length);
    dl_put_draft(zip->draft, array->data, array->bytes);
    zip->position += head.length + size;
    zip->count++;
    dl_drop(&full);
    dl_drop(&head);
}

void dl_finish_zip(dl_new_zip *zip, const char *comment) {
    dl_buffer *end = &zip->directory;
    uint64_t length = end->length, at = zip->position;
    bool wide = zip->count > UINT16_MAX || length > INT32_MAX || at > INT32_MAX;
    if (wide) {
        dl_puts(end, "PK\6\6");
        put_number(end, END_64 - 12, 8);
        put_number(end, 45, 2);
        put_number(end, 45, 2);
        put_number(end, 0, 8);
        put_number(end, zip->count, 8);
        put_number(end, zip->count, 8);
        put_number(end, length, 8);
        put_number(end, at, 8);
        dl_puts(end, "PK\6\7");
        put_number(end, 0, 4);
        put_number(end, at + length, 8);
        put_number(end, 1, 4);
    }
    dl_puts(end, "PK\5\6");
    put_number(end, 0, 4);
    uint64_t count = zip->count < UINT16_MAX ? zip->count : UINT16_MAX;
    put_number(end, count, 2);
    put_number(end, count, 2);
    put_number(end, length < LARGE ? length : LARGE, 4);
    put_number(end, at < LARGE ? at : LARGE, 4);
    put_number(end, strlen(comment), 2);
    dl_puts(end, comment);
    if (end->failed) zip->draft->problem = ENOMEM;
    dl_put_draft(zip->draft, end->bytes, end->length);
    dl_drop(end);
}
