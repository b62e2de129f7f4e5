/* Which granule of a heap's file is mapped where in the kernels' view of its window. A granule of the window that holds
 * memory owns its place in the file. One that holds none keeps the mapping that it had last, whoever owns that place by
 * now: nobody looks there, and mapping it anew is put off until it is to hold memory again. So memory moves by one system
 * call a piece, however scattered the places of what is empty are. The caller serialises calls. */
#ifndef CANNON_MEMORY_HEAP_MAPPING_H
#define CANNON_MEMORY_HEAP_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  int file;
  uintptr_t view;
  uint64_t n_granules; /* of the window; the file may have more, which are not mapped here */
  bool time_calls;     /* see call_ns */
  uint32_t *place;     /* of a granule: the file's granule that is mapped there, less its own number (so 0: at home) */
  uint64_t *holds;     /* bit per granule: it owns that place */
  uint64_t *owned;     /* bit per place: a granule owns it */
  uint64_t n_pieces;   /* neighbours in the window that are none in the file */
  uint64_t n_tidied;   /* of these, what was left when they were tidied last */
  uint64_t n_calls;    /* system calls that changed mappings or gave pages back, ... */
  uint64_t call_ns;    /* ... and the thread's time in them, if time_calls */
} mapping;

/* Maps all of the view, `view` to `n_granules`, to the file from its start. False with errno. */
bool mapping_open(mapping *m);
void mapping_close(mapping *m); /* also one that was not opened; the mappings and the file stay */

/* Gives n granules from g, which own none, places of the file. False, and they own none, where too many mappings exist. */
bool mapping_own(mapping *m, uint64_t g, uint64_t n);
void mapping_disown(mapping *m, uint64_t g);

/* Moves the memory of n granules from `from`, which own their places, to those from `to`, which own none; afterwards it is
 * the other way round. The length of the longest prefix that was moved: 0 where too many mappings exist. */
uint64_t mapping_move(mapping *m, uint64_t from, uint64_t to, uint64_t n);

/* Makes n_bytes of the file from `offset` empty. */
void mapping_empty(mapping *m, uint64_t offset, uint64_t n_bytes);

static inline uint64_t mapping_place(const mapping *m, uint64_t g) { return (uint32_t)(g + m->place[g]); }

/* Around each system call that is counted. */
uint64_t mapping_begin_call(mapping *m);
void mapping_end_call(mapping *m, uint64_t begun);

#endif
