/* The options of a program, which are the parameters of its `main`. */
#ifndef DL_OPTIONS_H
#define DL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum dl_option_kind { DL_INTEGER, DL_UNSIGNED, DL_FLOAT, DL_TRUTH, DL_STRING };

typedef struct {
    const char *names[2]; /* such as --batch-size and --batch_size; the second may be NULL */
    enum dl_option_kind kind;
    const char *dtype; /* as a message calls it */
    int bits;
    bool required;
    union {
        int64_t integer;
        uint64_t natural;
        double number;
        bool truth;
        const char *text;
    } value; /* the default, and then what is given */
    bool given;
} dl_option;

/* Reads the command line; what is wrong with it ends the program with the code 2, and --help with 0. */
void dl_read_options(int count, char **words, dl_option *options, int known, const char *usage, const char *help);
/* After a failure: says what was wrong; gives the code with which the program is to end. */
int dl_end_program(void);

#endif
