/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the host for huge pages for devices' memory. A shared file gets small pages (the host's setting for shared
 * memory is usually "never"), which take eight times as long when they are touched first, and half as long again to be
 * read. Linux 6.1 and later makes a granule (heap/pages.h) one huge page on request. It is asked when a task is about
 * to write a whole granule, so that no memory is taken that would not be taken anyway. Where it refuses, pages stay
 * small. Used by kernels and copies, and by pages.c; calls only the system. Thread-safe. */
#ifndef CANNON_MEMORY_HUGE_H
#define CANNON_MEMORY_HUGE_H

#include <stdint.h>

enum { HUGE_BYTES = 2 << 20 }; /* shorter ranges have no granule of their own */

/* Called by a task that is about to write the whole range; view: the address that kernels use, of any memory. */
void huge_before_write(void *view, uint64_t bytes);

/* Called by pages.c when the memory of n granules from `view` is given back, or when it moves, with its pages, to
 * granules that have none. */
void huge_forget(uintptr_t view, uint64_t n);
void huge_move(uintptr_t from, uintptr_t to, uint64_t n);

#endif
