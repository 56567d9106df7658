/* What an archive says of the value in it, in JSON, compared with what a program knows: as host/saved.py does. */
#include "page.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "text.h"

enum { DEEPEST = 64, VERSION = 1 };

/* ---- JSON ------------------------------------------------------------------------------------------------------------- */
typedef struct value {
    char kind; /* o (object), a (array), s (string), w (a number or a word) */
    dl_buffer key, text; /* in an object; of a string, a number or a word */
    struct value *first, *next; /* of what is in it, of what it is in */
} value;

static void drop(value *v) {
    while (v) {
        value *next = v->next;
        drop(v->first);
        dl_drop(&v->key);
        dl_drop(&v->text);
        free(v);
        v = next;
    }
}

static void skip(const char **at) {
    while (**at == ' ' || **at == '\n' || **at == '\t' || **at == '\r') ++*at;
}

static int hex(const char *at) {
    int x = 0;
    for (int k = 0; k < 4; k++) {
        if (!isxdigit((unsigned char)at[k])) return -1;
        x = 16 * x + (at[k] <= '9' ? at[k] - '0' : (at[k] | 32) - 'a' + 10);
    }
    return x;
}

static bool string(const char **at, dl_buffer *out) {
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (*(*at)++ != '"') return false;
    dl_put(out, "", 0);
    for (; **at != '"'; ++*at) {
        if (!**at) return false;
        if (**at != '\\') {
            dl_put(out, *at, 1);
            continue;
        }
        const char *letter = *++*at ? strchr(letters, **at) : NULL;
        if (letter) {
            dl_put(out, &meant[letter - letters], 1);
            continue;
        }
        int low, x = **at == 'u' ? hex(*at + 1) : -1;
        if (x < 0) return false;
        *at += 4;
        if (x >> 10 == 0xD800 >> 10 && (*at)[1] == '\\' && (*at)[2] == 'u' && (low = hex(*at + 3)) >> 10 == 0xDC00 >> 10) {
            x = 0x10000 + ((x & 0x3FF) << 10 | (low & 0x3FF));
            *at += 6;
        } else if (x >> 11 == 0xD800 >> 11)
            return false;
        dl_put_character(out, (uint32_t)x);
    }
    ++*at;
    return !out->failed;
}

static value *parsed(const char **at, int depth);

static bool inside(const char **at, value *v, int depth) {
    char end = v->kind == 'o' ? '}' : ']';
    value **last = &v->first;
    ++*at;
    skip(at);
    if (**at == end) return ++*at;
    for (;;) {
        dl_buffer key = {0};
        skip(at);
        bool fine = v->kind == 'a' || string(at, &key);
        skip(at);
        if (fine && v->kind == 'o') fine = *(*at)++ == ':';
        *last = fine ? parsed(at, depth + 1) : NULL;
        if (!*last) {
            dl_drop(&key);
            return false;
        }
        (*last)->key = key;
        last = &(*last)->next;
        skip(at);
        if (**at == end) return ++*at;
        if (*(*at)++ != ',') return false;
    }
}

/* NULL where there is no value. */
static value *parsed(const char **at, int depth) {
    value *v = depth < DEEPEST ? calloc(1, sizeof *v) : NULL;
    if (!v) return NULL;
    skip(at);
    bool fine;
    switch (**at) {
    case '{': v->kind = 'o', fine = inside(at, v, depth); break;
    case '[': v->kind = 'a', fine = inside(at, v, depth); break;
    case '"': v->kind = 's', fine = string(at, &v->text); break;
    default: {
        size_t length = strspn(*at, "+-.0123456789abcdefghijklmnopqrstuvwxyzEINaty");
        v->kind = 'w';
        dl_put(&v->text, *at, length);
        *at += length;
        fine = length;
    }
    }
    if (fine) return v;
    drop(v);
    return NULL;
}

static const value *member(const value *object, const char *key) {
    const value *found = NULL;
    for (const value *v = object->first; v; v = v->next)
        if (!strcmp(v->key.bytes, key)) found = v;
    return found;
}

/* ---- the page --------------------------------------------------------------------------------------------------------- */
static bool all(const value *v, char kind) {
    for (v = v->first; v; v = v->next)
        if (v->kind != kind) return false;
    return true;
}

/* Whether the parts that count have the shape that they should have. */
static bool makes_sense(const value *page) {
    const value *variants = member(page, "variants"), *types = member(page, "types");
    if (!variants || !types || variants->kind != 'o' || types->kind != 'o' || !all(variants, 'a') || !all(types, 'o'))
        return false;
    for (const value *v = variants->first; v; v = v->next)
        if (!all(v, 's')) return false;
    for (const value *t = types->first; t; t = t->next) {
        if (!all(t, 'o')) return false;
        for (const value *k = t->first; k; k = k->next)
            if (!all(k, 's')) return false;
    }
    return true;
}

static void list(dl_buffer *out, const char *text) { dl_printf(out, "%s`%s`", out->length ? ", " : "", text); }

/* Drops both lists; whether they are the same. */
static bool same(dl_context *c, const char *what, dl_buffer *wanted, dl_buffer *found) {
    const char *own = wanted->bytes ? wanted->bytes : "none", *other = found->bytes ? found->bytes : "none";
    bool full = wanted->failed || found->failed, fine = !full && !strcmp(own, other);
    if (full) dl_no_room(c);
    else if (!fine)
        dl_refuse(c, "E0828", "%s has other parts in the file (%s) than in the program (%s)", what, other, own);
    dl_drop(wanted);
    dl_drop(found);
    return fine;
}

static bool compare_variants(dl_context *c, const dl_form *form, const value *variants) {
    for (int k = 0; k < form->member_count; k++) {
        const dl_member *m = &form->members[k];
        const value *there = m->variant_count ? member(variants, m->name) : NULL;
        if (!there) continue;
        dl_buffer wanted = {0}, found = {0}, what = {0};
        for (int j = 0; j < m->variant_count; j++) list(&wanted, m->variants[j]);
        for (const value *v = there->first; v; v = v->next) list(&found, v->text.bytes);
        dl_printf(&what, "`%s`", m->name);
        bool fine = same(c, what.bytes ? what.bytes : "", &wanted, &found);
        dl_drop(&what);
        if (!fine) return false;
    }
    return true;
}

static bool compare_case(dl_context *c, const dl_node_type *type, const dl_case *own, const value *there) {
    dl_buffer wanted = {0}, found = {0}, what = {0}, item = {0};
    for (int k = 0; k < own->member_count; k++) {
        item.length = 0;
        dl_printf(&item, "%s: %s", own->members[k].name, own->members[k].dtype_name);
        list(&wanted, item.bytes ? item.bytes : "");
    }
    for (const value *v = there->first; v; v = v->next) {
        item.length = 0;
        dl_printf(&item, "%s: %s", v->key.bytes, v->text.bytes);
        list(&found, item.bytes ? item.bytes : "");
    }
    dl_drop(&item);
    dl_printf(&what, "`%s` of `%s`", own->name, type->title);
    bool fine = same(c, what.bytes ? what.bytes : "", &wanted, &found);
    dl_drop(&what);
    return fine;
}

static bool compare_types(dl_context *c, const dl_form *form, const value *types) {
    for (int k = 0; k < form->type_count; k++) {
        const dl_node_type *type = &form->types[k];
        const value *there = member(types, type->title);
        dl_buffer wanted = {0}, found = {0}, what = {0};
        for (int j = 0; j < type->case_count; j++) list(&wanted, type->cases[j].name);
        for (const value *v = there ? there->first : NULL; v; v = v->next) list(&found, v->key.bytes);
        dl_printf(&what, "the type `%s`", type->title);
        bool fine = same(c, what.bytes ? what.bytes : "", &wanted, &found);
        dl_drop(&what);
        const value *v = fine && there ? there->first : NULL;
        for (int j = 0; fine && j < type->case_count; j++, v = v->next) fine = compare_case(c, type, &type->cases[j], v);
        if (!fine) return false;
    }
    return true;
}

bool dl_compare_page(dl_context *c, const dl_form *form, const dl_buffer *comment) {
    static const char begin[] = "{\"dlang\":";
    const char *at = comment->bytes ? comment->bytes : "";
    if (!strcmp(at, form->page)) return true;
    if (strncmp(at, begin, sizeof begin - 1))
        return !form->type_count ||
               dl_refuse(c, "E0828", "a value that contains itself is read from what `io.save` wrote");
    value *page = dl_is_utf8(at, comment->length) ? parsed(&at, 0) : NULL;
    skip(&at);
    const value *version = page && !*at && page->kind == 'o' ? member(page, "dlang") : NULL;
    bool known = version && version->kind == 'w' && !strcmp(version->text.bytes, "1"), fine = false;
    if (!version || (known && !makes_sense(page)))
        dl_refuse(c, "E0821", "it is damaged: what it says of itself makes no sense");
    else if (!known)
        dl_refuse(c, "E0828", "it is of the version %s of its kind, and this dlang reads version %d",
                  version->text.bytes ? version->text.bytes : "", VERSION);
    else
        fine = compare_variants(c, form, member(page, "variants")) && compare_types(c, form, member(page, "types"));
    drop(page);
    return fine;
}
