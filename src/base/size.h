/* Numbers and sizes in words: on the command line, in the environment, in messages. Thread-safe. */
#ifndef CANNON_BASE_SIZE_H
#define CANNON_BASE_SIZE_H

#include <stdint.h>

typedef enum { SIZE_OK, SIZE_MALFORMED, SIZE_TOO_SMALL, SIZE_TOO_LARGE } size_verdict;

/* "512", "1536M", "1.5G": digits, perhaps with a fraction, and perhaps one of K, M, G, T (either case; powers of 1024),
 * of `least` to `most` bytes; a fraction of a byte is cut off. *bytes is set only where it is that. */
size_verdict size_parse(const char *text, uint64_t least, uint64_t most, uint64_t *bytes);

/* Decimal digits only. */
size_verdict size_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *number);

/* "", ", which is too small" or ", which is too large": between a wrong value and what was expected. */
const char *size_fault(size_verdict verdict);

/* "390 MiB": three significant digits in the largest unit that leaves at least 1. */
typedef struct {
  char text[24];
} size_words;
size_words size_in_words(uint64_t bytes);

#endif
