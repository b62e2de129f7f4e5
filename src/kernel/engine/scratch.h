/* Scratch memory of a thread, for what lives within one task of one operator. */
#ifndef CANNON_KERNEL_ENGINE_SCRATCH_H
#define CANNON_KERNEL_ENGINE_SCRATCH_H

#include <stddef.h>

/* The calling thread's, of at least so many bytes, 64-byte aligned; good until the next call. It grows and stays until the
 * thread ends. NULL: out of memory, with a message. */
char *scratch_take(size_t bytes);

#endif
