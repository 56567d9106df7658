/* Whole values read from archives of NumPy, as host/saved.py does. */
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "inside.h"
#include "page.h"
#include "zip.h"

/* The nodes of a type that were read: their numbers, which rise, and their addresses. */
typedef struct {
    int64_t *numbers, *addresses;
    int64_t count;
} known;

/* A member of the archive. */
typedef struct {
    dl_buffer name, bytes;
    dl_npy array;
    char *elements; /* of what is no node */
} column;

typedef struct {
    dl_context *context;
    dl_zip zip;
    const dl_form *form;
    known *known; /* by type */
} reader;

static bool damaged(dl_context *c, const char *name, const char *why) {
    return dl_refuse(c, "E0821", "it is damaged: `%s` %s", name, why);
}

static void drop_column(column *col) {
    dl_drop(&col->name);
    dl_drop(&col->bytes);
    free(col->elements);
}

/* ---- what members hold ------------------------------------------------------------------------------------------------ */
static const int64_t *find(const known *k, int64_t number) {
    int64_t low = 0, high = k->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (k->numbers[middle] < number) low = middle + 1;
        else high = middle;
    }
    return low < k->count && k->numbers[low] == number ? &k->addresses[low] : NULL;
}

/* A tag that was read: its sizes, and its numbers, as many as there are elements. */
typedef struct {
    const int64_t *numbers, *sizes;
    int rank;
} tags;

/* Whether an element of a member counts, by the tags in front of it. */
static bool counts(const dl_member *m, const tags *of, int64_t k, int64_t count) {
    for (int j = 0; j < m->under_count; j++) {
        const tags *t = &of[m->under[2 * j]];
        if (t->numbers[k / (count / dl_count(t->sizes, t->rank))] != m->under[2 * j + 1]) return false;
    }
    return true;
}

/* Elements of what is no node. */
static bool take_plain(reader *r, const dl_member *m, const char *name, const dl_npy *a, char *into) {
    if (!dl_npy_elements(r->context, a, name, m->dtype, m->dtype_name, 0, a->count, into)) return false;
    for (int64_t k = 0; m->variant_count && k < a->count; k++) {
        int64_t tag = dl_element(m->dtype, into + 8 * k);
        if (tag < 0 || tag >= m->variant_count) return damaged(r->context, name, "is the number of no variant");
    }
    return true;
}

/* Nodes that are named from an element on. sizes: what shape they have; of: the tags of the members in front. */
static bool take_nodes(reader *r, const dl_member *m, const char *name, const dl_npy *a, int64_t first,
                       const int64_t *sizes, const tags *of, int64_t *out) {
    dl_context *c = r->context;
    int64_t count = dl_count(sizes, m->rank);
    for (int64_t k = 0; k < count; k++) {
        bool whole = a->kind == 'i' || a->kind == 'u';
        int64_t found = whole ? dl_npy_whole(a, first + k) : 0;
        const int64_t *address = found == -1 ? NULL : find(&r->known[m->type], found);
        if (!whole || (found != -1 && !address)) return damaged(c, name, "names a node that is not there");
        out[k] = address ? *address : 0;
    }
    for (int j = 0; j < m->under_count; j++) {
        const tags *t = &of[m->under[2 * j]];
        if (t->rank > m->rank || memcmp(t->sizes, sizes, sizeof *sizes * (size_t)t->rank))
            return damaged(c, name, "does not have its size");
    }
    for (int64_t k = 0; k < count; k++)
        if (!out[k] && counts(m, of, k, count)) return damaged(c, name, "lacks a node");
    return true;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------ */
/* A member of the archive with so many axes. whole: whether it has to hold integers. */
static bool open_column(reader *r, column *col, int rank, bool whole) {
    if (col->name.failed) return dl_no_room(r->context);
    if (!dl_zip_array(r->context, &r->zip, col->name.bytes, &col->bytes, &col->array)) return false;
    if (col->array.rank == rank && (!whole || col->array.kind == 'i' || col->array.kind == 'u')) return true;
    return damaged(r->context, col->name.bytes, "is no array of its kind");
}

/* What the nodes of a variant hold; rows are taken in order. All that is no node is read at once. */
typedef struct {
    column *columns, *axes; /* by member */
    int64_t *starts, taken;
} columns;

static bool take_elements(reader *r, const dl_member *m, column *col) {
    int64_t bytes;
    bool fits = !__builtin_mul_overflow(col->array.count, m->dtype->bytes, &bytes) && bytes < INT64_MAX;
    col->elements = fits ? malloc((size_t)bytes + 1) : NULL;
    return col->elements ? take_plain(r, m, col->name.bytes, &col->array, col->elements) : dl_no_room(r->context);
}

static bool open_columns(reader *r, const dl_node_type *type, const dl_case *own, columns *out) {
    size_t count = (size_t)own->member_count;
    out->columns = calloc(count + 1, sizeof *out->columns);
    out->axes = calloc(count + 1, sizeof *out->axes);
    out->starts = calloc(count + 1, sizeof *out->starts);
    if (!out->columns || !out->axes || !out->starts) return dl_no_room(r->context);
    for (size_t j = 0; j < count; j++) {
        dl_printf(&out->columns[j].name, "%s.%s.%s", type->title, own->name, own->members[j].name);
        if (!open_column(r, &out->columns[j], 1, false)) return false;
        if (own->members[j].type < 0 && !take_elements(r, &own->members[j], &out->columns[j])) return false;
    }
    for (size_t j = 0; j < count; j++)
        if (own->members[j].rank) {
            dl_printf(&out->axes[j].name, "%s.%s.%s.axes", type->title, own->name, own->members[j].name);
            if (!open_column(r, &out->axes[j], 2, true)) return false;
        }
    return true;
}

static void drop_columns(columns *out, int count) {
    for (int j = 0; out->columns && out->axes && j < count; j++) {
        drop_column(&out->columns[j]);
        drop_column(&out->axes[j]);
    }
    free(out->columns);
    free(out->axes);
    free(out->starts);
}

/* Room for so many bytes at the end of the arena; NULL if there is none. */
static char *room(dl_context *c, int64_t bytes) {
    int64_t top = c->words[DL_ARENA_TOP], end = top + bytes;
    if (end > c->words[DL_ARENA_LIMIT] && !(dl_grow(c->words, end) & 1)) {
        dl_no_room(c);
        return NULL;
    }
    c->words[DL_ARENA_TOP] = end;
    return (char *)(intptr_t)top;
}

/* The sizes of a member of the next node, of which `sizes` has those that are known. */
static bool shape_of(const dl_case *own, const dl_member *m, const columns *from, int j, int64_t *sizes, bool *given,
                     int64_t *shape) {
    const dl_npy *axes = &from->axes[j].array, *all = &from->columns[j].array;
    int64_t start = m->rank ? from->starts[j] : from->taken;
    if (m->rank && (axes->sizes[1] != m->rank || from->taken >= axes->sizes[0])) return false;
    for (int k = 0; k < m->rank; k++) {
        int64_t n = shape[k] = dl_npy_whole(axes, from->taken * m->rank + k);
        int at = m->axes[k];
        if (n < 0) return false;
        if (at >= own->own ? own->literals[at - own->own] != n : given[at] && sizes[at] != n) return false;
        if (at < own->own) sizes[at] = n, given[at] = true;
    }
    int64_t count = dl_count(shape, m->rank);
    return count >= 0 && start <= all->count && count <= all->count - start;
}

/* The next node of a variant, with the tags of its members. 0 after a refusal. */
static int64_t make_node(reader *r, const dl_case *own, columns *from, tags *of, int64_t (*shapes)[DL_MOST_AXES]) {
    dl_context *c = r->context;
    int64_t *node = (int64_t *)room(c, 8 * (own->words + 1)), sizes[own->own + 1];
    bool given[own->own + 1];
    if (!node) return 0;
    memset(sizes, 0, sizeof sizes);
    memset(given, 0, sizeof given);
    memset(node, 0, 8 * (size_t)(own->words + 1));
    *node++ = own->header;
    for (int j = 0; j < own->member_count; j++) {
        const dl_member *m = &own->members[j];
        column *all = &from->columns[j];
        if (!shape_of(own, m, from, j, sizes, given, shapes[j])) {
            damaged(c, all->name.bytes, "does not have its size");
            return 0;
        }
        int64_t start = m->rank ? from->starts[j] : from->taken, count = dl_count(shapes[j], m->rank);
        char *into = (char *)(node + m->word);
        if (m->rank) {
            int64_t bytes, kind = m->type < 0 && m->dtype != &dl_str ? DL_ARRAY : DL_OF_REFERENCES;
            if (__builtin_mul_overflow(count, m->dtype->bytes, &bytes) || bytes > INT64_MAX / 2) return dl_no_room(c);
            int64_t whole = (bytes + 7) / 8 * 8, *array = (int64_t *)room(c, whole + 8);
            if (!array) return 0;
            *array = whole | kind;
            node[m->word] = (intptr_t)(array + 1);
            into = (char *)(array + 1);
        }
        of[j] = (tags){(const int64_t *)into, shapes[j], m->rank};
        if (m->type < 0) memcpy(into, all->elements + start * m->dtype->bytes, (size_t)count * m->dtype->bytes);
        else if (!take_nodes(r, m, all->name.bytes, &all->array, start, shapes[j], of, (int64_t *)into)) return 0;
        from->starts[j] = start + count;
    }
    for (int k = 0; k < own->own; k++) node[own->own_words[k]] = sizes[k];
    from->taken++;
    return (intptr_t)node;
}

typedef struct {
    int64_t number, tag;
    int type;
} listed;

static int by_number(const void *a, const void *b) {
    const listed *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    if (x->type != y->type) return x->type - y->type;
    return x->tag < y->tag ? -1 : x->tag > y->tag;
}

/* Adds the numbers and tags of a type to a list. */
static bool list_nodes(reader *r, int type, dl_buffer *out) {
    const dl_node_type *own = &r->form->types[type];
    column numbers = {0}, tag = {0};
    dl_printf(&numbers.name, "%s.node", own->title);
    dl_printf(&tag.name, "%s.tag", own->title);
    bool fine = open_column(r, &numbers, 1, true) && open_column(r, &tag, 1, true);
    bool fits = fine && numbers.array.count == tag.array.count;
    for (int64_t k = 0; fits && k < tag.array.count; k++) {
        listed l = {dl_npy_whole(&numbers.array, k), dl_npy_whole(&tag.array, k), type};
        fits = 0 <= l.tag && l.tag < own->case_count;
        dl_put(out, (char *)&l, sizeof l);
    }
    if (fine && !fits) fine = damaged(r->context, tag.name.bytes, "is the number of no variant");
    if (fine && fits) {
        size_t room = (size_t)tag.array.count + 1;
        r->known[type] = (known){malloc(room * sizeof(int64_t)), malloc(room * sizeof(int64_t)), 0};
        if (!r->known[type].numbers || !r->known[type].addresses || out->failed) fine = dl_no_room(r->context);
    }
    drop_column(&numbers);
    drop_column(&tag);
    return fine;
}

/* The most members that a variant has. */
static int widest(const dl_form *form) {
    int most = form->member_count;
    for (int t = 0; t < form->type_count; t++)
        for (int k = 0; k < form->types[t].case_count; k++)
            if (form->types[t].cases[k].member_count > most) most = form->types[t].cases[k].member_count;
    return most;
}

/* Makes all nodes, one after another, so that none can hold itself. */
static bool read_nodes(reader *r, columns **all, tags *of, int64_t (*shapes)[DL_MOST_AXES]) {
    const dl_form *form = r->form;
    dl_buffer order = {0};
    bool fine = true;
    for (int t = 0; fine && t < form->type_count; t++) {
        all[t] = calloc((size_t)form->types[t].case_count + 1, sizeof *all[t]);
        if (!all[t]) fine = dl_no_room(r->context);
        for (int k = 0; fine && k < form->types[t].case_count; k++)
            fine = open_columns(r, &form->types[t], &form->types[t].cases[k], &all[t][k]);
    }
    for (int t = 0; fine && t < form->type_count; t++) fine = list_nodes(r, t, &order);
    listed *list = (listed *)order.bytes;
    size_t count = order.length / sizeof *list;
    if (fine && count) qsort(list, count, sizeof *list, by_number);
    for (size_t k = 0; fine && k < count; k++) {
        listed l = list[k];
        int64_t node = make_node(r, &form->types[l.type].cases[l.tag], &all[l.type][l.tag], of, shapes);
        known *own = &r->known[l.type];
        fine = node;
        own->numbers[own->count] = l.number;
        own->addresses[own->count++] = node;
    }
    dl_drop(&order);
    return fine;
}

/* ---- values ----------------------------------------------------------------------------------------------------------- */
static bool read_member(reader *r, int number, tags *of, int64_t (*shapes)[DL_MOST_AXES], int64_t *out) {
    const dl_member *m = &r->form->members[number];
    dl_buffer bytes = {0};
    dl_npy a;
    bool fine = dl_zip_array(r->context, &r->zip, m->name, &bytes, &a) && dl_npy_ranked(r->context, &a, m->name, m->rank);
    char *into = (char *)&shapes[number][DL_MOST_AXES - 1]; /* of a number, which has no sizes */
    if (fine && m->rank) fine = (into = dl_array_in(r->context, a.sizes, m->rank, m->dtype, out));
    if (fine) memcpy(shapes[number], a.sizes, sizeof *a.sizes * (size_t)m->rank);
    of[number] = (tags){(const int64_t *)into, shapes[number], m->rank};
    if (fine)
        fine = m->type < 0 ? take_plain(r, m, m->name, &a, into)
                           : take_nodes(r, m, m->name, &a, 0, shapes[number], of, (int64_t *)into);
    if (fine && !m->rank) out[0] = dl_element(m->dtype, into);
    dl_drop(&bytes);
    return fine;
}

/* Whether an archive has all members of a form. */
static bool has_all(const dl_zip *zip, const dl_form *form) {
    bool fine = true;
    for (int k = 0; fine && k < form->member_count; k++) fine = dl_zip_has(zip, form->members[k].name);
    for (int t = 0; t < form->type_count; t++) {
        const dl_node_type *type = &form->types[t];
        for (int k = 0; k < type->case_count; k++)
            for (int j = 0; fine && j < type->cases[k].member_count; j++) {
                dl_buffer name = {0};
                dl_printf(&name, "%s.%s.%s", type->title, type->cases[k].name, type->cases[k].members[j].name);
                fine = !name.failed && dl_zip_has(zip, name.bytes);
                dl_drop(&name);
            }
    }
    return fine;
}

bool dl_read_value(dl_context *c, const char *path, const dl_form *form, int64_t *out) {
    reader r = {.context = c, .form = form};
    size_t most = (size_t)widest(form) + 1;
    columns **all = calloc((size_t)form->type_count + 1, sizeof *all);
    tags *of = calloc(most, sizeof *of);
    int64_t(*shapes)[DL_MOST_AXES] = calloc(most, sizeof *shapes);
    r.known = calloc((size_t)form->type_count + 1, sizeof *r.known);
    bool fine = all && of && shapes && r.known;
    if (!fine) dl_no_room(c);
    bool open = fine;
    fine = fine && dl_open_zip(c, &r.zip, path);
    if (fine && form->former && has_all(&r.zip, form->former)) r.form = form = form->former;
    fine = fine && dl_compare_page(c, form, &r.zip.comment) && read_nodes(&r, all, of, shapes);
    for (int k = 0; fine && k < form->member_count; k++) {
        fine = read_member(&r, k, of, shapes, out);
        out += 1 + form->members[k].rank;
    }
    if (open) dl_close_zip(&r.zip);
    for (int t = 0; open && t < form->type_count; t++) {
        for (int k = 0; all[t] && k < form->types[t].case_count; k++)
            drop_columns(&all[t][k], form->types[t].cases[k].member_count);
        free(all[t]);
        free(r.known[t].numbers);
        free(r.known[t].addresses);
    }
    free(all);
    free(of);
    free(shapes);
    free(r.known);
    return fine || dl_name_file(c, path);
}
