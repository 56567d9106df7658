/* What compiled functions need of the process that they run in: what runtime/ is where Python is.

   `layout.h` beside it is generated: the words of contexts and pools as codegen/llvm/ lays them out. */
#ifndef DL_RUNTIME_H
#define DL_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

/* ---- texts: the word of one is its address, that of the empty one is 0 (codegen/llvm/texts.py) -------------------- */
typedef struct {
    int64_t length; /* in bytes of UTF-8, before the 0 at its end */
    char bytes[];
} dl_text;

/* ---- text in the making; memory that runs out is noticed at the end ----------------------------------------------- */
typedef struct {
    char *bytes; /* ends with a 0 */
    size_t length, room;
    bool failed;
} dl_buffer;

void dl_put(dl_buffer *out, const char *bytes, size_t length);
void dl_puts(dl_buffer *out, const char *text);
void dl_printf(dl_buffer *out, const char *form, ...) __attribute__((format(printf, 2, 3)));
void dl_drop(dl_buffer *out);

/* ---- values as text, as host/text.py writes them ----------------------------------------------------------------- */
typedef struct {
    char kind;     /* f, i, u, b (truth), s (text) */
    uint8_t bytes; /* of an element in memory */
    uint8_t digits; /* of a float: after so many any number of its dtype is told from others */
    bool brain;    /* bf16, which is in 16 bits in memory too */
} dl_dtype;

typedef struct {
    const dl_dtype *dtype;
    int rank;
} dl_signature;

extern const dl_dtype dl_f64, dl_f32, dl_f16, dl_bf16, dl_i64, dl_i32, dl_i16, dl_i8, dl_u64, dl_u32, dl_u16, dl_u8,
    dl_bool, dl_str;

/* A scalar, from a word, or an array, from its address and sizes, by a format specification of Python's. */
void dl_format(dl_buffer *out, dl_signature signature, const int64_t *words, const char *specification);
/* parts: a text, then a specification and a text for each value. */
void dl_format_parts(dl_buffer *out, const char *const *parts, int values, const dl_signature *signatures,
                     const int64_t *words);

/* ---- places in the program ------------------------------------------------------------------------------------------ */
typedef struct {
    const char *label;   /* of the function that is called */
    const char *excerpt; /* the lines of the source there, rendered; NULL if it has no place */
    int width;           /* of the line numbers in that */
} dl_place;

/* ---- values in files: what host/saved.py knows of them ----------------------------------------------------------- */
/* A leaf. In a node it is at a word, and its axes are among the sizes of the node. */
typedef struct {
    const char *name;
    const dl_dtype *dtype; /* that of words, for a node */
    const char *dtype_name;
    int type; /* of nodes, by its number; -1 for others */
    int word, rank;
    const int *axes;
    const char *const *variants; /* of an enum whose tag this is */
    int variant_count;
    const int *under; /* pairs: a member that is a tag, and the number which that has to be for this to count */
    int under_count;
} dl_member;

/* A variant: its nodes hold `own` sizes, then the members, whose axes are among these and the literals behind them. */
typedef struct {
    const char *name;
    int64_t header;
    int words, own;
    const int *own_words;
    const int64_t *literals;
    int literal_count;
    const dl_member *members;
    int member_count;
} dl_case;

typedef struct {
    const char *title;
    const dl_case *cases;
    int case_count;
} dl_node_type;

typedef struct dl_form {
    const dl_member *members;
    int member_count;
    const dl_node_type *types;
    int type_count;
    const char *page; /* what a file says of itself */
    const struct dl_form *former; /* the same by the names that earlier versions wrote, if these are others */
} dl_form;

enum dl_kind { DL_CHECK, DL_MEMORY, DL_STACK, DL_STOPPED, DL_CALL, DL_FORMAT, DL_PRINT, DL_CLOCK, DL_EXISTS,
               DL_READ_TEXT, DL_READ_CSV, DL_READ_NPY, DL_READ_NPZ, DL_READ_VALUE, DL_WRITE_TEXT, DL_WRITE_CSV,
               DL_WRITE_ROW, DL_WRITE_NPY, DL_WRITE_VALUE, DL_PROGRESS, DL_LIBRARY };

typedef struct {
    enum dl_kind kind;
    const char *code; /* of the message */
    dl_place place;
    const dl_place *calls; /* by which the code was reached that an optimiser put here, innermost first */
    int call_count;
    const char *const *parts;
    int value_count;
    const dl_signature *values;
    dl_signature wanted; /* of an array that is read */
    const dl_form *form; /* of a value that is read or written */
} dl_site;

extern const dl_site dl_sites[];

/* What helps against errors, by their codes; ended by NULL. */
typedef struct {
    const char *code, *help;
} dl_remedy;

extern const dl_remedy dl_remedies[];

/* ---- runs ----------------------------------------------------------------------------------------------------------- */
typedef int32_t dl_code(void *context, int64_t *words);

typedef struct {
    const char *label;
    dl_place place;
    dl_code *code;
    bool recursive;   /* it may need a deep stack */
    bool needs_arena; /* for nodes and texts */
} dl_entry;

typedef struct dl_context dl_context;

/* A context that nobody uses; NULL after a failure, of which the message is set. */
dl_context *dl_open(const dl_entry *entry);
/* Runs a function; whether it failed, with the message set. */
bool dl_run(dl_context *context, const dl_entry *entry, int64_t *words);
/* Ends the use of a context, with all that it holds. */
void dl_close(dl_context *context);
/* The word of a text that is given, where NULL is an empty one, for a run of a context. Whether that failed. */
bool dl_text_in(dl_context *context, int64_t *word, const char *text);
/* Sets the message, formatted by printf's rules, and gives true. */
bool dl_fail(const char *code, const char *form, ...) __attribute__((format(printf, 2, 3)));

/* ---- what crosses --------------------------------------------------------------------------------------------------- */
typedef struct {
    void *data;
    const int64_t *sizes;
    int rank;
} dl_array;

/* A product of sizes, which is greater than any size if that is what it is, and a size that is at most INT64_MAX. */
__int128 dl_wide_product(__int128 a, int64_t b);
int64_t dl_size(__int128 size);
/* The number of elements; -1 where a size is negative or there are too many. */
int64_t dl_count(const int64_t *sizes, int rank);
/* An argument is wrong: expected says its type, known by printf's rules what sizes are known. Gives true. */
bool dl_wrong_shape(const char *function, const char *argument, const char *expected, const char *dtype, dl_array given,
                    const char *known, ...);
typedef struct {
    void *made, *given; /* memory for a result, and that of the caller, if it has given some */
} dl_out;

/* Finds memory for a result: what the caller has given if that has the sizes, else new memory. Whether that failed. */
bool dl_make(dl_out *out, const char *function, void *given, const int64_t *given_sizes, const int64_t *sizes, int rank,
             size_t bytes);
/* The same for an array that a run made, whose elements go there. */
bool dl_hand_over(dl_context *context, dl_out *out, int64_t word, const char *function, void *given,
                  const int64_t *given_sizes, const int64_t *sizes, int rank, size_t bytes);
/* The same for a text. */
bool dl_text_out(dl_out *out, int64_t word);
/* After a failure: frees what was made, ends the use of the context, and gives 1. */
int dl_abandon(dl_context *context, dl_out *outs, int count);
/* Numbers of f16 and bf16, which are in a float. */
float dl_rounded_f16(float x);
float dl_rounded_bf16(float x);

/* ---- for the interface ---------------------------------------------------------------------------------------------- */
const char *dl_message(void);
const char *dl_error_code(void);
bool dl_set_threads(int threads);
void dl_give_back(void *memory);
void dl_ready(void);
/* What the code needs of the processor: a bit of what `cpuid` gives for a leaf, in ebx or in ecx. A NULL ends the list. */
typedef struct {
    const char *name;
    unsigned leaf;
    bool in_ebx;
    int bit;
} dl_feature;

extern const dl_feature dl_features[];
void dl_prepare_libraries(void);
/* In a program: Ctrl-C ends runs, and a reader that has seen enough ends the process. */
void dl_begin_program(void);
bool dl_is_program(void);
bool dl_is_interrupted(void);

#endif
