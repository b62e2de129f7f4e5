/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that users hold by pointer and make rarely. They are kept in lists, so that a stale or foreign pointer can be
 * told from a live one without reading what it points to. Any thread; the user must not use an object while another
 * thread destroys it. */
#ifndef CANNON_BASE_STORE_HANDLES_H
#define CANNON_BASE_STORE_HANDLES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
  HANDLE_PROFILER_CONFIG,
  HANDLE_STEP,
  HANDLE_STAMP,
  HANDLE_DOMAIN,
  HANDLE_READER,
  HANDLE_FEED,
  HANDLE_METER,
  HANDLE_CHANNEL,
  N_HANDLE_KINDS
} handle_kind;

/* First member of every such struct. */
typedef struct handle {
  struct handle *next;
} handle;

/* Makes an object that is zero behind its header; NULL if there is no memory. */
void *handle_new(handle_kind kind, size_t bytes);

/* Returns the pointer if it is that of a live object of the kind, else NULL. */
void *handle_live(handle_kind kind, const void *pointer);

/* Frees the object; false if the pointer is not that of a live object of the kind. */
bool handle_free(handle_kind kind, const void *pointer);

#endif
