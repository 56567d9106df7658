/* Decompression of DEFLATE (RFC 1951). */
#ifndef DL_INFLATE_H
#define DL_INFLATE_H

#include <stdbool.h>
#include <stddef.h>

/* Decompresses what gives just `size` bytes; whether it does. */
bool dl_inflate(const unsigned char *in, size_t length, unsigned char *out, size_t size);

#endif
