/* SPDX-License-Identifier: Apache-2.0 */
/* Object caches for fixed-size objects that are made and destroyed in every operator call (tensors, scalars,
 * executors).
 *
 * Each thread keeps one or two chains of free objects of each kind. It trades whole chains with a shared depot when it
 * has none or too many left, so a pair of get and put is a few loads and stores (2.7 ns here), also where one thread
 * makes objects and another destroys them. Memory is not given back to the system before the process ends, so whoever
 * has the address of an object may look at it after its end. In sanitizer builds every object is malloc'ed, so that a
 * use after its end is found. Any thread. */
#ifndef CANNON_BASE_STORE_CACHE_H
#define CANNON_BASE_STORE_CACHE_H

#include <stddef.h>

#include "base/sanitizer.h"

typedef enum { CACHE_TENSOR, CACHE_SCALAR, CACHE_EXECUTOR, N_CACHES } cache_kind;

/* Whether objects keep their memory: what follows has an effect only then. */
#define CACHE_KEEPS_MEMORY !(WITH_ASAN || WITH_TSAN)

/* So many bytes at the start of an object change while it is free. The others stay as they were when it was put, and
 * are 0 in an object that was never used. */
enum { CACHE_LINK_BYTES = 24 };

/* Returns an uninitialised object, aligned to 64 bytes; NULL if there is no memory. The size must be the same in all
 * calls for a kind. */
void *cache_get(cache_kind kind, size_t bytes);

/* Takes back an object of cache_get(kind). Any thread may call it, not only the one that got the object. */
void cache_put(cache_kind kind, void *object);

/* Sets a function that is called each time before more objects of the kind are made, because the thread and the depot
 * have none left. It may put some. Called without locks, by any thread. */
void cache_on_empty(cache_kind kind, void (*refill)(void));

/* The number of objects of the kind that were ever made, and a visit to each of them, free or in use by whatever
 * thread. */
size_t cache_n_made(cache_kind kind);
void cache_each(cache_kind kind, void (*visit)(void *object));

#endif
