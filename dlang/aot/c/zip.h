/* Archives of arrays: zip, as NumPy and Python write it. */
#ifndef DL_ZIP_H
#define DL_ZIP_H

#include "files.h"
#include "npy.h"

typedef struct {
    char *name;
    uint64_t offset, packed, size; /* of its header in the file; of its bytes there, and unpacked */
    uint32_t check;
    int method, flags;
} dl_zip_member;

typedef struct {
    FILE *file;
    dl_zip_member *members;
    size_t count;
    dl_buffer comment;
} dl_zip;

/* Opens an archive, to be closed in any case. */
bool dl_open_zip(dl_context *context, dl_zip *zip, const char *path);
void dl_close_zip(dl_zip *zip);
/* Whether there is one of a name. */
bool dl_zip_has(const dl_zip *zip, const char *name);
/* The array of a name; it lies in the bytes, which are to be dropped in any case. */
bool dl_zip_array(dl_context *context, dl_zip *zip, const char *name, dl_buffer *bytes, dl_npy *out);

/* An archive in the making; its members are not compressed. */
typedef struct {
    dl_draft *draft;
    dl_buffer directory;
    uint64_t position, count;
} dl_new_zip;

void dl_add_to_zip(dl_new_zip *zip, const char *name, const dl_npy_file *array);
void dl_finish_zip(dl_new_zip *zip, const char *comment);

#endif
