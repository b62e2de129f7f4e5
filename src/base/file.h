/* Files that the library makes. Thread-safe. */
#ifndef CANNON_BASE_FILE_H
#define CANNON_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the process may have files of so many bytes; false with errno EFBIG. To be asked before a file grows: beyond
 * the limit (RLIMIT_FSIZE) the kernel would send SIGXFSZ, which ends a program that expects no such thing. */
bool file_may_have(uint64_t bytes);

/* A sparse file in memory, which has no name elsewhere; -1 with errno. */
int file_in_memory(const char *name, uint64_t bytes);

/* As strerror, and which limit of the process it is, where it is one. */
const char *file_error(int error);

#endif
