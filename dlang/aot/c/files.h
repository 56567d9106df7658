/* Files that programs read and write. All give whether that was done; if not, the run is refused with a message. */
#ifndef DL_FILES_H
#define DL_FILES_H

#include "runtime.h"

/* Ends what the host does with a message, formatted by printf's rules; gives false. */
bool dl_refuse(dl_context *context, const char *code, const char *form, ...) __attribute__((format(printf, 3, 4)));
/* What compiled code calls a context. */
int64_t *dl_words(dl_context *context);
/* An element in memory as a word. */
int64_t dl_element(const dl_dtype *dtype, const char *at);
/* Whether a text is a number as Python writes it, without underscores. */
bool dl_is_integer(const char *text);
bool dl_is_number(const char *text);

bool dl_read_text(dl_context *context, const char *path, dl_buffer *out);
bool dl_write_file(dl_context *context, const char *path, const char *head, size_t head_length, const void *data,
                   size_t length);
/* The sizes of an array and its address become results. dtype: its name. */
bool dl_read_csv(dl_context *context, const char *path, bool header, dl_signature wanted, const char *dtype, int64_t *out);
bool dl_write_csv(dl_context *context, const char *path, const char *header, dl_signature signature, const int64_t *words);
bool dl_read_npy(dl_context *context, const char *path, dl_signature wanted, const char *dtype, int64_t *out);
bool dl_write_npy(dl_context *context, const char *path, dl_signature signature, const int64_t *words);

#endif
