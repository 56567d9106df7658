/* Files that programs read and write. All give whether that was done; if not, the run is refused with a message. */
#ifndef DL_FILES_H
#define DL_FILES_H

#include <stdio.h>

#include "runtime.h"

/* ---- refusals: they give false ---------------------------------------------------------------------------------------- */
/* Ends what the host does with a message, formatted by printf's rules. */
bool dl_refuse(dl_context *context, const char *code, const char *form, ...) __attribute__((format(printf, 3, 4)));
bool dl_no_room(dl_context *context);
bool dl_cannot_read(dl_context *context, const char *path, const char *why);
/* Has a refusal name the file. */
bool dl_name_file(dl_context *context, const char *path);

/* ---- whole files ------------------------------------------------------------------------------------------------------ */
bool dl_content(dl_context *context, const char *path, dl_buffer *out);
bool dl_is_utf8(const char *text, size_t length);
bool dl_read_text(dl_context *context, const char *path, dl_buffer *out);
bool dl_write_text(dl_context *context, const char *path, const char *text, size_t length);

/* What is written beside a file and then replaces it, so that a run that is interrupted leaves no half of one. A link
   stays one, to a new file; what is no file, such as a device, is written to. */
typedef struct {
    const char *path;
    char *target, *name; /* what is replaced, and what is written */
    FILE *file;
    int problem; /* an `errno`, or 0 */
    bool in_place, lasting;
} dl_draft;

/* lasting: whether the file is to be whole even where the machine stops at once. */
void dl_begin_draft(dl_draft *draft, const char *path, bool lasting);
void dl_put_draft(dl_draft *draft, const void *bytes, size_t length);
bool dl_end_draft(dl_context *context, dl_draft *draft);
void dl_drop_draft(dl_draft *draft);

/* ---- tables ----------------------------------------------------------------------------------------------------------- */
/* The sizes of an array and its address become results. dtype: its name. */
bool dl_read_csv(dl_context *context, const char *path, bool header, dl_signature wanted, const char *dtype, int64_t *out);
bool dl_write_csv(dl_context *context, const char *path, const char *header, dl_signature signature, const int64_t *words);
/* A row at the end of a table, with a name and a value for each column. */
bool dl_append_row(dl_context *context, const char *path, const char *const *names, int count, const dl_signature *values,
                   const int64_t *words);

/* ---- arrays of NumPy, and whole values -------------------------------------------------------------------------------- */
bool dl_read_npy(dl_context *context, const char *path, dl_signature wanted, const char *dtype, int64_t *out);
bool dl_write_npy(dl_context *context, const char *path, dl_signature signature, const int64_t *words);
bool dl_read_npz(dl_context *context, const char *path, const char *member, dl_signature wanted, const char *dtype,
                 int64_t *out);
bool dl_read_value(dl_context *context, const char *path, const dl_form *form, int64_t *out);
bool dl_write_value(dl_context *context, const char *path, const dl_form *form, const int64_t *words);

#endif
