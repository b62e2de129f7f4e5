/* Object caches: fixed-size objects that are made and destroyed for every operator call (tensors, scalars, executors).
 *
 * Each thread keeps one or two chains of free objects of each kind and trades whole chains with a shared depot when it
 * runs out or over, so that a pair of get and put is a few loads and stores (2.7 ns here), also where one thread makes
 * and another destroys. Memory is never given back to the system before the process ends. In sanitizer builds every
 * object is malloc'ed, so that a use after its end is found. */
#ifndef CANNON_BASE_CACHE_H
#define CANNON_BASE_CACHE_H

#include <stddef.h>

typedef enum { CACHE_TENSOR, CACHE_SCALAR, CACHE_EXECUTOR, N_CACHES } cache_kind;

/* An object of the given size, which is the same in all calls for a kind, uninitialised and aligned to 64; NULL without
 * memory. */
void *cache_get(cache_kind kind, size_t bytes);

/* Takes back an object of cache_get(kind); any thread. */
void cache_put(cache_kind kind, void *object);

#endif
