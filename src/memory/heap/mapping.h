/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps track of which granule of a heap's file is mapped at which granule of the kernels' view of its window. Used by
 * pages.c; calls the system and the budget of mappings (memory/budget.h).
 *
 * A granule of the window that has memory owns its place in the file. A granule without memory keeps its last mapping,
 * whichever granule owns that place by now: nobody reads or writes there, and it is mapped anew only when it gets
 * memory again. So moving a run of granules takes one system call, however scattered the places of the empty granules
 * are. Not thread-safe: the caller serialises calls. */
#ifndef CANNON_MEMORY_HEAP_MAPPING_H
#define CANNON_MEMORY_HEAP_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  int file;
  uintptr_t view;
  uint64_t n_granules; /* of the window; the file may be longer, and its rest is not mapped here */
  bool time_calls;     /* whether call_ns is measured */
  uint32_t *place;     /* per granule of the window: number of the file's granule mapped there, minus its own number,
                          modulo 2^32; 0 means that it is mapped at home */
  uint64_t *holds;     /* bit per granule of the window: it has memory, and owns its place */
  uint64_t *owned;     /* bit per granule of the file: a granule of the window owns it */
  uint64_t n_pieces;   /* neighbouring granules of the window whose places are not neighbours in the file */
  uint64_t n_tidied;   /* n_pieces after the latest mapping_tidy */
  uint64_t n_calls;    /* system calls so far that changed mappings or gave pages back */
  uint64_t call_ns;    /* CPU time of the calling threads in these calls, with time_calls */
} mapping;

/* Allocates the tables and maps the whole view to the start of the file; file, view and n_granules are set by the
 * caller. False with errno. */
bool mapping_open(mapping *m);

/* Frees the tables, also of a mapping that was not opened. The mappings and the file stay. */
void mapping_close(mapping *m);

/* Gives each of the n granules from g, which own no place yet, a place in the file. False where too many mappings
 * exist: then none of them owns a place. */
bool mapping_own(mapping *m, uint64_t g, uint64_t n);

/* Granule g no longer owns its place; it stays mapped there. */
void mapping_disown(mapping *m, uint64_t g);

/* Moves the memory of the granules from `from`, n >= 1 of them, which own their places, to those from `to`, which own
 * none. Afterwards the latter own these places. Returns how many were moved: a prefix whose places are neighbours in
 * the file; 0 where too many mappings exist. The two runs do not overlap. */
uint64_t mapping_move(mapping *m, uint64_t from, uint64_t to, uint64_t n);

/* Punches a hole: gives the memory of n_bytes of the file from `offset` back to the host. */
void mapping_empty(mapping *m, uint64_t offset, uint64_t n_bytes);

/* The granule of the file that is mapped at granule g of the window. */

static inline uint64_t mapping_place(const mapping *m, uint64_t g) { return (uint32_t)(g + m->place[g]); }

/* Called before and after each system call that is to be counted; the former's result goes to the latter. */
uint64_t mapping_begin_call(mapping *m);
void mapping_end_call(mapping *m, uint64_t begun);

/* Only in builds with CANNON_INVARIANTS: whether the tables agree, by a walk over all granules that hold memory.
 * n_pieces is recounted only where the window has at most 65,536 granules, since that takes a walk over the whole
 * window. */
bool mapping_is_valid(const mapping *m);

#endif
