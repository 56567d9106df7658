/* What writes values as text. */
#ifndef DL_TEXT_H
#define DL_TEXT_H

#include "elements.h"

typedef struct {
    char digits[24]; /* without a point, and without zeros at the end */
    int count;
    int exponent; /* of the first digit */
} dl_decimal;

double dl_as_dtype(double x, int digits);
dl_decimal dl_shortest(double x, int digits);
double dl_float_in_word(const dl_dtype *dtype, int64_t word);
size_t dl_characters(const char *bytes, size_t length);
void dl_put_character(dl_buffer *out, uint32_t character);
/* Whether a text is a number as Python writes it, without underscores. */
bool dl_is_integer(const char *text);
bool dl_is_number(const char *text);

void dl_repeat(dl_buffer *out, const char *bytes, size_t length, int64_t times);
void dl_put_exponent(dl_buffer *out, int exponent, int width);
/* Digits with the point where the exponent says; at least `fraction` digits behind it. */
void dl_put_positional(dl_buffer *out, const dl_decimal *d, int fraction);
/* Writes an infinity or what is no number; whether it is one. */
bool dl_put_special(dl_buffer *out, double x);
void dl_put_scalar(dl_buffer *out, const dl_dtype *dtype, int64_t word, const char *spec);
/* An array, from its address and its sizes, each element by a specification, or all alike where that is empty. */
void dl_put_array(dl_buffer *out, dl_signature signature, const int64_t *words, const char *spec);

#endif
