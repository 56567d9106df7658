/* Whole values written to archives of NumPy, as host/saved.py does. */
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "inside.h"
#include "text.h"
#include "zip.h"

enum { LONGEST = 65535 }; /* bytes of the comment of an archive */

/* ---- nodes, numbered so that one holds only such as have smaller numbers ----------------------------------------------- */
typedef struct {
    int64_t address;
    int type;
    bool ready; /* in the work that is left: what it holds has its numbers */
} node;

typedef struct {
    node *items;
    size_t count, room;
} nodes;

typedef struct {
    const dl_form *form;
    nodes made, work;
    int64_t *table; /* the numbers of nodes, plus 1, by what they are */
    size_t room;
    bool failed;
} numbering;

static bool push(nodes *list, node n) {
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        node *items = realloc(list->items, room * sizeof *items);
        if (!items) return false;
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = n;
    return true;
}

/* Where the number of a node is, or would be. */
static int64_t *slot(const numbering *g, int64_t address, int type) {
    uint64_t at = ((uint64_t)address / 8 + (uint64_t)type) * 0x9E3779B97F4A7C15u;
    for (at ^= at >> 32;; at++) {
        int64_t *found = &g->table[at & (g->room - 1)];
        const node *n = *found ? &g->made.items[*found - 1] : NULL;
        if (!n || (n->address == address && n->type == type)) return found;
    }
}

static bool make_room(numbering *g) {
    if (2 * (g->made.count + 1) <= g->room) return true;
    free(g->table);
    g->room = g->room ? 2 * g->room : 64;
    g->table = calloc(g->room, sizeof *g->table);
    if (!g->table) return false;
    for (size_t k = 0; k < g->made.count; k++)
        *slot(g, g->made.items[k].address, g->made.items[k].type) = (int64_t)k + 1;
    return true;
}

static const dl_case *case_of(const dl_form *form, const node *n) {
    const int64_t header = ((const int64_t *)(intptr_t)n->address)[-1];
    return &form->types[n->type].cases[header >> DL_TAG_SHIFT & DL_TAG_MASK];
}

static const char *field(const node *n, int word) { return (const char *)(intptr_t)(n->address + 8 * word); }

/* The sizes of a member of a node. Gives how many elements it has. */
static int64_t sizes_of(const node *n, const dl_case *own, const dl_member *m, int64_t *sizes) {
    for (int k = 0; k < m->rank; k++)
        sizes[k] = m->axes[k] < own->own ? dl_element(&dl_i64, field(n, own->own_words[m->axes[k]]))
                                         : own->literals[m->axes[k] - own->own];
    return dl_count(sizes, m->rank);
}

/* The elements of a member of a node. */
static const char *elements_of(const node *n, const dl_member *m) {
    return m->rank ? (const char *)(intptr_t)dl_element(&dl_i64, field(n, m->word)) : field(n, m->word);
}

static bool push_held(numbering *g, const node *n) {
    const dl_case *own = case_of(g->form, n);
    int64_t sizes[DL_MOST_AXES];
    node parent = *n;
    for (int j = 0; j < own->member_count; j++) {
        const dl_member *m = &own->members[j];
        if (m->type < 0) continue;
        const char *data = elements_of(&parent, m);
        for (int64_t k = 0, count = sizes_of(&parent, own, m, sizes); k < count; k++) {
            int64_t address = dl_element(&dl_i64, data + 8 * k);
            if (address && !push(&g->work, (node){address, m->type, false})) return false;
        }
    }
    return true;
}

/* Gives numbers to a node and to all that it holds. */
static bool visit(numbering *g, int64_t address, int type) {
    if (!push(&g->work, (node){address, type, false})) return false;
    while (g->work.count) {
        node n = g->work.items[--g->work.count];
        if (!make_room(g)) return false;
        int64_t *number = slot(g, n.address, n.type);
        if (*number) continue;
        if (n.ready) {
            *number = (int64_t)g->made.count + 1;
            if (!push(&g->made, n)) return false;
            continue;
        }
        n.ready = true;
        if (!push(&g->work, n) || !push_held(g, &n)) return false;
    }
    return true;
}

/* The numbers of nodes; those that are null have -1. NULL if there is no memory. */
static int64_t *numbers_of(numbering *g, const char *addresses, int64_t count, int type) {
    int64_t *out = malloc(sizeof *out * (size_t)(count + 1));
    for (int64_t k = 0; out && k < count; k++) {
        int64_t address = dl_element(&dl_i64, addresses + 8 * k);
        if (address && !visit(g, address, type)) {
            free(out);
            return NULL;
        }
        out[k] = address ? *slot(g, address, type) - 1 : -1;
    }
    return out;
}

static void drop_numbering(numbering *g) {
    free(g->made.items);
    free(g->work.items);
    free(g->table);
}

/* ---- members ---------------------------------------------------------------------------------------------------------- */
typedef struct {
    dl_context *context;
    dl_new_zip zip;
    numbering nodes;
} writer;

static bool add(writer *w, const char *name, const dl_dtype *dtype, int rank, const int64_t *sizes, const char *data) {
    dl_npy_file file;
    bool fine = dl_make_npy(w->context, &file, dtype, rank, sizes, data);
    if (fine) dl_add_to_zip(&w->zip, name, &file);
    dl_drop_npy(&file);
    return fine;
}

static bool add_leaf(writer *w, const dl_member *m, const int64_t *words) {
    char element[8] = {0};
    const char *data = m->rank ? (const char *)(intptr_t)words[0] : element;
    if (!m->rank) dl_put_word(element, m->dtype, words[0]);
    if (m->type < 0) return add(w, m->name, m->dtype, m->rank, words + 1, data);
    int64_t *numbers = numbers_of(&w->nodes, data, dl_count(words + 1, m->rank), m->type);
    bool fine = numbers ? add(w, m->name, &dl_i64, m->rank, words + 1, (char *)numbers) : dl_no_room(w->context);
    free(numbers);
    return fine;
}

/* What the nodes of a variant hold in a member: one behind the other, and their sizes beside. */
static bool add_column(writer *w, const dl_node_type *type, const dl_case *own, const dl_member *m) {
    dl_buffer name = {0}, column = {0}, axes = {0};
    int64_t sizes[DL_MOST_AXES], shape[2] = {0, m->rank}, count = 0;
    bool full = false;
    for (size_t k = 0; !full && k < w->nodes.made.count; k++) {
        const node *n = &w->nodes.made.items[k];
        if (&w->nodes.form->types[n->type] != type || case_of(w->nodes.form, n) != own) continue;
        int64_t here = sizes_of(n, own, m, sizes);
        const char *data = elements_of(n, m);
        int64_t *numbers = m->type < 0 ? NULL : numbers_of(&w->nodes, data, here, m->type);
        full = m->type >= 0 && !numbers;
        if (!full) dl_put(&column, numbers ? (char *)numbers : data, (size_t)here * m->dtype->bytes);
        free(numbers);
        dl_put(&axes, (char *)sizes, sizeof *sizes * (size_t)m->rank);
        count += here;
        shape[0]++;
    }
    dl_printf(&name, "%s.%s.%s", type->title, own->name, m->name);
    full = full || name.failed || column.failed || axes.failed;
    bool fine = !full && add(w, name.bytes, m->type < 0 ? m->dtype : &dl_i64, 1, m->rank ? &count : shape, column.bytes);
    dl_puts(&name, ".axes");
    full = full || name.failed;
    if (fine && !full && m->rank) fine = add(w, name.bytes, &dl_i64, 2, shape, axes.bytes);
    dl_drop(&name);
    dl_drop(&column);
    dl_drop(&axes);
    return full ? dl_no_room(w->context) : fine;
}

static bool add_type(writer *w, int number) {
    const dl_node_type *type = &w->nodes.form->types[number];
    dl_buffer name = {0}, numbers = {0}, tags = {0};
    int64_t count = 0;
    for (size_t k = 0; k < w->nodes.made.count; k++) {
        const node *n = &w->nodes.made.items[k];
        if (n->type != number) continue;
        int64_t own = (int64_t)k, tag = case_of(w->nodes.form, n) - type->cases;
        dl_put(&numbers, (char *)&own, sizeof own);
        dl_put(&tags, (char *)&tag, sizeof tag);
        count++;
    }
    dl_printf(&name, "%s.node", type->title);
    bool full = name.failed || numbers.failed || tags.failed;
    bool fine = !full && add(w, name.bytes, &dl_i64, 1, &count, numbers.bytes);
    name.length = 0;
    dl_printf(&name, "%s.tag", type->title);
    if (fine) fine = add(w, name.bytes, &dl_i64, 1, &count, tags.bytes);
    dl_drop(&name);
    dl_drop(&numbers);
    dl_drop(&tags);
    if (full) return dl_no_room(w->context);
    for (int t = 0; fine && t < type->case_count; t++)
        for (int j = 0; fine && j < type->cases[t].member_count; j++)
            fine = add_column(w, type, &type->cases[t], &type->cases[t].members[j]);
    return fine;
}

bool dl_write_value(dl_context *c, const char *path, const dl_form *form, const int64_t *words) {
    dl_draft draft;
    dl_begin_draft(&draft, path, true);
    writer w = {.context = c, .zip = {.draft = &draft}, .nodes = {.form = form}};
    bool fine = true;
    for (int k = 0; fine && k < form->member_count; k++) {
        fine = add_leaf(&w, &form->members[k], words);
        words += 1 + form->members[k].rank;
    }
    for (int k = 0; fine && k < form->type_count; k++) fine = add_type(&w, k);
    if (fine && strlen(form->page) > LONGEST)
        fine = dl_refuse(c, "E0822", "the types of this value have too many variants to be described in a file");
    if (fine) {
        dl_finish_zip(&w.zip, form->page);
        fine = dl_end_draft(c, &draft);
    } else {
        dl_drop(&w.zip.directory);
        dl_drop_draft(&draft);
    }
    drop_numbering(&w.nodes);
    return fine;
}
