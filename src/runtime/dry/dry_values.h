/* SPDX-License-Identifier: Apache-2.0 */
/* What copies to the host bring in a dry run, where the user has said it (base/settings/dry_values.h): the values are
 * given to bytes that are not real, which otherwise were zeros. Those on the device stay as they are.
 *
 * The line counts from which a copy is called; copies of several rows, and those by threads without Python, have none.
 * Called by copy.c and dry.c. Any thread; the lock is a leaf. */
#ifndef CANNON_RUNTIME_DRY_DRY_VALUES_H
#define CANNON_RUNTIME_DRY_DRY_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

extern INTERNAL bool dry_values_on; /* set once, before the first device is opened */

/* Reads the file; false if it is wrong. */
bool dry_values_start(const char *path);

/* The number of the file's line that speaks of copies from where the calling thread is; 0: none does. */
uint32_t dry_values_here(void);

/* A value as the copy's memory has it. */
typedef struct {
  uint32_t bytes; /* 0: zeros */
  uint8_t byte[8];
} dry_element;

/* The line's next value, for a copy of so many bytes. None if that is no whole number of elements. */
dry_element dry_values_take(uint32_t line, uint64_t bytes);

/* Fills [at, at + bytes) of a copy, whose first byte is that of an element. */
void dry_values_fill(const dry_element *e, char *copy, uint64_t at, uint64_t bytes);

#endif
