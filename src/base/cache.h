/* SPDX-License-Identifier: Apache-2.0 */
/* Object caches for fixed-size objects that are made and destroyed in every operator call (tensors, scalars,
 * executors).
 *
 * Each thread keeps one or two chains of free objects of each kind. It trades whole chains with a shared depot when it
 * has none or too many left, so a pair of get and put is a few loads and stores (2.7 ns here), also where one thread
 * makes objects and another destroys them. Memory is not given back to the system before the process ends. In sanitizer
 * builds every object is malloc'ed, so that a use after its end is found. Any thread. */
#ifndef CANNON_BASE_CACHE_H
#define CANNON_BASE_CACHE_H

#include <stddef.h>

typedef enum { CACHE_TENSOR, CACHE_SCALAR, CACHE_EXECUTOR, N_CACHES } cache_kind;

/* Returns an uninitialised object, aligned to 64 bytes; NULL if there is no memory. The size must be the same in all
 * calls for a kind. */
void *cache_get(cache_kind kind, size_t bytes);

/* Takes back an object of cache_get(kind). Any thread may call it, not only the one that got the object. */
void cache_put(cache_kind kind, void *object);

#endif
