/* Files that the library and its tools make under names that users give, or that others can guess. A folder such as
 * /tmp is everybody's: what has a name there already may be another user's file, or a symbolic link that another user
 * has pointed at a file of ours. These functions neither follow a link at the end of a path nor write into a file of
 * another user. Any thread. */
#ifndef CANNON_BASE_FILE_H
#define CANNON_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether the process may have files of so many bytes; false with errno EFBIG. To be asked before a file grows: beyond
 * the limit (RLIMIT_FSIZE) the kernel would send SIGXFSZ, which ends a program that expects no such thing. */
bool file_may_have(uint64_t bytes);

/* A sparse file in memory, which has no name elsewhere; -1 with errno. */
int file_in_memory(const char *name, uint64_t bytes);

/* Makes a new file for reading and writing, closed on exec. -1 with errno: EEXIST where anything has that name. */
int file_create(const char *path, mode_t mode);

/* Opens this user's file for reading and writing at its start, closed on exec, and makes it where there is none; what
 * it holds stays. A terminal, another device of characters or a pipe is opened for writing. A descriptor's name
 * (below) gives a duplicate of the descriptor, so that what is written there comes behind what is. -1 with errno, for
 * which file_error has the words: ELOOP, EISDIR, EPERM (another user's, or a file of several names), EINVAL (anything
 * else). */
int file_open_own(const char *path, mode_t mode);

/* N for "/dev/fd/N" and "/proc/self/fd/N", 1 for "/dev/stdout", 2 for "/dev/stderr"; else -1. */
int file_descriptor_of(const char *path);

/* Whether the file's first bytes are this text. The descriptor's position stays. */
bool file_begins(int fd, const char *text);

/* Writes all of it. False with errno. */
bool file_write(int fd, const void *data, size_t bytes);

/* Makes a folder, or takes one of this user's that nobody else may write to. False with errno, as above. */
bool file_make_folder(const char *path, mode_t mode);

/* What is wrong with a name, or which limit of the process is in the way, in words; strerror's for other numbers. */
const char *file_error(int error);

#endif
