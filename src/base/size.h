/* Numbers on the command line and in the environment. */
#ifndef CANNON_BASE_SIZE_H
#define CANNON_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* "512", "1536M", "64G": digits and perhaps one of K, M, G, T (either case; powers of 1024). True and *bytes
 * set when it is that, above 0 and below 2^63. */
bool size_parse(const char *text, uint64_t *bytes);

#endif
