/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and sizes as text: on the command line, in the environment, in messages. Thread-safe. */
#ifndef CANNON_BASE_SIZE_H
#define CANNON_BASE_SIZE_H

#include <stdint.h>

typedef enum { SIZE_OK, SIZE_MALFORMED, SIZE_TOO_SMALL, SIZE_TOO_LARGE } size_verdict;

/* Parses a size such as "512", "1536M", "1.5G": digits, optionally with a fraction, and optionally one of the units K,
 * M, G, T (either case; powers of 1024). The value must be `least` to `most` bytes; a fraction of a byte is cut off.
 * *bytes is set only if the result is SIZE_OK. */
size_verdict size_parse(const char *text, uint64_t least, uint64_t most, uint64_t *bytes);

/* As size_parse, for a number of decimal digits only. */
size_verdict size_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *number);

/* Returns "", ", which is too small" or ", which is too large": the part of a message between a wrong value and what
 * was expected. */
const char *size_fault(size_verdict verdict);

/* A size as text, such as "390 MiB": three significant digits, in the largest unit of which there is at least 1. */
typedef struct {
  char text[24];
} size_words;
size_words size_in_words(uint64_t bytes);

#endif
