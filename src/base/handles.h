/* Objects that users hold by pointer and make rarely: kept in lists, so that a stale or foreign pointer is told from a
 * live one without touching it. Any thread; that nobody uses an object while another destroys it is up to the user. */
#ifndef CANNON_BASE_HANDLES_H
#define CANNON_BASE_HANDLES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum { HANDLE_PROFILER_CONFIG, HANDLE_STEP, HANDLE_STAMP, HANDLE_DOMAIN, N_HANDLE_KINDS } handle_kind;

/* First member of every such struct. */
typedef struct handle {
  struct handle *next;
} handle;

/* Zero beyond its header; NULL without memory. */
void *handle_new(handle_kind kind, size_t bytes);

/* The pointer, if it is that of a live object, else NULL. */
void *handle_live(handle_kind kind, const void *pointer);

/* Frees it; false where it was none. */
bool handle_free(handle_kind kind, const void *pointer);

#endif
