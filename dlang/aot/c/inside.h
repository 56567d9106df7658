/* What the files of the runtime know of each other. */
#ifndef DL_INSIDE_H
#define DL_INSIDE_H

#include "progress.h"
#include "runtime.h"

/* ---- what is compiled ----------------------------------------------------------------------------------------------- */
extern int32_t dl_enter(void *code, void *context, void *words, void *top);
extern void *dl_alloc(void *context, int64_t bytes);
extern int64_t dl_text_made(void *context, const char *bytes, int64_t length); /* -1 if there is no room */
extern uint8_t dl_grow(void *context, int64_t end); /* the lowest bit counts */
extern void dl_detach(void *data);
extern void dl_give(void *context, void *data);
extern void dl_reclaim(void *context);
extern void dl_release(void *context);
extern void *dl_worker(void *self);
extern void dl_wake(void *pool, void *word, int64_t many);

/* ---- contexts ------------------------------------------------------------------------------------------------------- */
struct dl_context {
    int64_t words[DL_SLOTS + DL_ROOM + 8]; /* what compiled code knows; the rest is for this file */
    dl_context *next;
    char *arena, *stack;
    size_t arena_bytes, stack_bytes;
    char *stack_lowest, *stack_top;
    bool refused; /* by what the host did; the message is in what follows */
    char code[8];
    dl_buffer said;
    dl_progress progress;
};

/* The text that a word stands for. */
const dl_text *dl_text_of(int64_t word);
/* Puts a text into the arena of a run and gives its word; whether there was memory for it. */
bool dl_text_word(dl_context *context, const char *bytes, size_t length, int64_t *word);

/* ---- host.c --------------------------------------------------------------------------------------------------------- */
/* Does what compiled code asks for at a place of the program, with the values in its slots; whether that was possible. */
bool dl_serve(dl_context *context, const dl_site *site, int64_t *slots);

/* ---- sorting.c ------------------------------------------------------------------------------------------------------ */
/* Where the elements of an array are in ascending order; whether there was memory for that. */
bool dl_argsort(dl_context *context, const dl_dtype *dtype, const char *data, int64_t count, int64_t *out);

/* ---- messages.c ----------------------------------------------------------------------------------------------------- */
/* The message of this thread. */
dl_buffer *dl_said(void);
void dl_begin_message(const char *code);
/* Says what has ended a run. */
void dl_report(dl_context *context, const dl_entry *entry);
/* Says that there is no memory for a run; gives true. */
bool dl_no_memory(const dl_entry *entry);
/* When the library is unloaded. */
void dl_end_messages(void);

#endif
