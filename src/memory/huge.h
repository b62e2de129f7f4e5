/* Huge pages behind devices' memory. A shared file has small ones (the host's setting for shared memory is usually "never"),
 * which take eight times as long to come as they are touched first, and half as long again to be read. Linux makes a granule
 * (heap/pages.h) one huge page where it is asked to, from 6.1 on; it is asked when a task is about to write all of a granule,
 * so that nothing comes that would not come anyway. Where it refuses, pages stay small. Thread-safe. */
#ifndef CANNON_MEMORY_HUGE_H
#define CANNON_MEMORY_HUGE_H

#include <stdint.h>

enum { HUGE_BYTES = 2 << 20 }; /* shorter ranges have no granule of their own */

/* By whoever is about to write all of the range, as kernels see it, of any memory. */
void huge_before_write(void *view, uint64_t bytes);

/* By pages.c: the granules' memory goes; it moves, with its pages, to where nothing is. n granules from these views on. */
void huge_forget(uintptr_t view, uint64_t n);
void huge_move(uintptr_t from, uintptr_t to, uint64_t n);

#endif
