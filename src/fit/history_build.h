/* SPDX-License-Identifier: Apache-2.0 */
/* A history while it is read (fit/history_read.c), and what is derived from it at the end (fit/history_classes.c, which
 * uses fit/history_flow.c, and fit/history_lines.c). */
#ifndef CANNON_FIT_HISTORY_BUILD_H
#define CANNON_FIT_HISTORY_BUILD_H

#include "fit/history.h"
#include "fit/history_live.h"
#include "trace/record/record_code.h"

enum { HISTORY_MODULES_DEEP = 256 };

/* What is known of a block beyond what the history keeps of it. */
typedef struct {
  uint32_t born_in, died_in; /* which phase, counted from the beginning */
  bool is_told;              /* a framework has said what it is for */
  uint64_t number;           /* of the library's block */
} block_notes;

/* An array that grows: `n` is in the history. */
typedef struct {
  size_t room;
} grown;

typedef struct {
  history *h;
  history_finder *find;
  bool no_memory;
  grown lines, sites, pythons, modules, blocks, notes, tasks, next, accesses, steps, texts, numbers, founds;
  block_notes *notes_of;     /* by block */
  uint32_t *next_of;         /* by task: the next one that waits for its time at the same position */
  const char **text;         /* by number, less 1 */
  size_t n_texts, text_used; /* text_used: of h->texts */
  bool *is_python;           /* by site */
  size_t n_pythons, n_notes, n_next;
  live_ranges blocks_at, regions_at;
  keyed_table blocks_by_number, found; /* found: texts, by their hash */
  keyed_table waiting, last_waiting;   /* the first and the last task of a position whose time is not known */
  record at;                           /* the record that is read, and which one it is */
  uint64_t moment;
  uint32_t stack[HISTORY_MODULES_DEEP], depth; /* modules that are running; deeper ones are counted only */
  uint32_t backward_module, phase_no, phase_site;
  history_phase phase;
  uint64_t step_begin, step_begin_ns; /* HISTORY_NEVER: before the first forward */
} history_build;

/* Derives the blocks' uses and classes, and the modules of backward tasks that no mark has. */
void history_derive(history_build *b);

/* The class of each block that nothing else tells, by who writes and reads it and in which order: for programs without
 * phases. Needs the blocks' uses. */
void history_flow_classes(history_build *b);

/* Whether a line or object belongs to a package, to Python itself, or to a library of the system. */
bool history_is_installed(const char *file);

/* Moves the own lines of allocations in C and C++ from functions through which nearly all of them go to their
 * callers. */
void history_skip_wrappers(history_build *b);

#endif
