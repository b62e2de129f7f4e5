/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch memory of a thread, for data that lives within one task of one operator. Called by kernels. */
#ifndef CANNON_KERNEL_ENGINE_SCRATCH_H
#define CANNON_KERNEL_ENGINE_SCRATCH_H

#include <stddef.h>

/* Returns memory of the calling thread of at least `bytes` bytes, 64-byte aligned. It is valid until the thread's next
 * call; the caller does not free it. The memory grows as needed and is freed when the thread ends. NULL: out of memory,
 * with a message. */
char *scratch_take(size_t bytes);

#endif
