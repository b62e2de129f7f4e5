/* SPDX-License-Identifier: Apache-2.0 */
/* Zeroed memory for tables of which only a small part is used: pages take up memory only once they are touched. Any
 * thread. */
#ifndef CANNON_BASE_STORE_SPARSE_H
#define CANNON_BASE_STORE_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns NULL if there is no address space for it. */
void *sparse_new(size_t bytes);

/* Gives a table of `bytes` back; it may be NULL. */
void sparse_drop(void *table, size_t bytes);

/* Whether some table lies in the range: memory that is the library's own, for who looks through the process's memory.
 * Only the first SPARSE_KNOWN live tables are looked at. */
enum { SPARSE_KNOWN = 256 };
bool sparse_is_in(uintptr_t begin, uintptr_t end);

#endif
