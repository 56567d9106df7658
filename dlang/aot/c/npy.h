/* Arrays in NumPy's format. */
#ifndef DL_NPY_H
#define DL_NPY_H

#include "elements.h"

enum { DL_MOST_AXES = 64 };

/* An array in the bytes of a file. */
typedef struct {
    char kind; /* as NumPy has it: f, i, u, b; U (text); others are no numbers */
    int64_t bytes; /* of an element */
    bool swapped, by_columns;
    int rank;
    int64_t sizes[DL_MOST_AXES], count;
    char name[48]; /* of its dtype, for messages */
    const char *data;
} dl_npy;

/* Finds the array in the bytes of a file; whether there is a whole one. */
bool dl_find_npy(dl_npy *out, const char *bytes, size_t length);
/* Whether it has so many axes. what: its name in messages. */
bool dl_npy_ranked(dl_context *context, const dl_npy *a, const char *what, int rank);
/* Elements `first` to `first + count`, by rows, as they are in memory, where no value changes. */
bool dl_npy_elements(dl_context *context, const dl_npy *a, const char *what, const dl_dtype *dtype, const char *name,
                     int64_t first, int64_t count, char *into);
/* An element of an array of integers, by rows. */
int64_t dl_npy_whole(const dl_npy *a, int64_t k);
/* The whole of it for a program: its sizes and its address become results, or its word. */
bool dl_give_npy(dl_context *context, const dl_npy *a, const char *what, dl_signature wanted, const char *name,
                 int64_t *out);

/* An array as it is written. The elements lie in `made`, or where they were. */
typedef struct {
    dl_buffer head, made;
    const char *data;
    size_t bytes;
} dl_npy_file;

/* data: elements as they are in memory. */
bool dl_make_npy(dl_context *context, dl_npy_file *out, const dl_dtype *dtype, int rank, const int64_t *sizes,
                 const char *data);
void dl_drop_npy(dl_npy_file *file);

#endif
