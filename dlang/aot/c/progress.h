/* How far loops are, for a person who waits. */
#ifndef DL_PROGRESS_H
#define DL_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dl_loop dl_loop;

/* The loops of a run, the outermost first. */
typedef struct {
    dl_loop *loops;
    size_t count, room;
    bool drawn; /* whether a line of ours is on the terminal */
    double shown; /* when there was one last */
} dl_progress;

/* A loop has done so many iterations of a total, -1 where it has ended; gives the number at which it should say so again. */
int64_t dl_report_progress(dl_progress *p, int64_t done, int64_t total, const char *label);
/* Makes room for something else on the terminal. */
void dl_erase_progress(dl_progress *p);
/* Before a run, which no loops are in. */
void dl_reset_progress(dl_progress *p);

#endif
