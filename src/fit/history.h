/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorded run held in its devices' memory, when, and for whom: the model that `cannon memory` shows and that
 * `cannon advise` plans with. It is read from a recording (trace/record/record_code.h), whose contents are not trusted.
 *
 * Time is counted twice. A *moment* is the number of an entry of the recording, so moments order allocations, frees and
 * tasks as the program made them. Nanoseconds are the host's, since the recording began; a task also has the time that
 * it takes on the device, as measured or, in a dry run, as the device's model has it (runtime/dry/roofline.h).
 *
 * A framework takes large blocks from the library and cuts its tensors from them. Where it tells so (mstx regions), the
 * large block is a *segment* and its tensors are blocks whose `segment` it is; the segment's own bytes that no tensor
 * has are the framework's cache. Without that, the blocks are those of the library's calls.
 *
 * All indices refer to the arrays of the same history; NONE stands for none. Not thread-safe; the caller owns a history
 * and frees it by history_free. */
#ifndef CANNON_FIT_HISTORY_H
#define CANNON_FIT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_NONE  UINT32_MAX
#define HISTORY_NEVER UINT64_MAX

/* What a block is for. Frameworks tell of parameters, gradients and the optimiser's state (by marks of the Python
 * package); of the rest it follows from the phase in which the block was made and from who reads it. Programs that tell
 * of no phases have their blocks' classes from the flow of data (fit/history_flow.c). */
#define HISTORY_CLASSES(CLASS)                                                                                         \
  CLASS(PARAMETER, "parameters")                                                                                       \
  CLASS(GRADIENT, "gradients")                                                                                         \
  CLASS(OPTIMIZER, "optimizer state")                                                                                  \
  CLASS(ACTIVATION, "activations") /* made forward, read backward */                                                   \
  CLASS(TEMPORARY, "temporaries")  /* made and freed within a phase */                                                 \
  CLASS(WORKSPACE, "workspaces")                                                                                       \
  CLASS(COMMUNICATION, "communication")                                                                                \
  CLASS(WEIGHT, "weights") /* written once, then only read */                                                          \
  CLASS(STATE, "state")    /* carried from one round of the program to the next */                                     \
  CLASS(INPUT, "inputs")   /* copied in again and again */                                                             \
  CLASS(OTHER, "other")                                                                                                \
  CLASS(CACHE, "cache") /* of segments: what no tensor has */

typedef enum {
#define HISTORY_CLASS_NUMBER(name, words) HISTORY_##name,
  HISTORY_CLASSES(HISTORY_CLASS_NUMBER)
#undef HISTORY_CLASS_NUMBER
      HISTORY_N_CLASSES
} history_class;

typedef enum { HISTORY_OUTSIDE, HISTORY_FORWARD, HISTORY_BACKWARD, HISTORY_UPDATE, HISTORY_N_PHASES } history_phase;

/* A line of the program: of Python where it is there, else of C, from the debug information. */
typedef struct {
  const char *file, *function; /* never NULL; empty if not known */
  uint32_t line;               /* 0: not known */
} history_line;

/* A call's lines, innermost first: lines[first, first + n). `own` (an index into lines, or HISTORY_NONE) is the first
 * one that is neither of an installed package nor of the program's own wrapper of the allocation
 * (fit/history_lines.c). */
typedef struct {
  uint32_t first, n, own;
} history_site;

/* A module of the model as the framework names it, "layers.3.attention". Parents stand before their children. */
typedef struct {
  const char *name, *type; /* "layers.3.attention", "MultiheadAttention" */
  uint32_t parent;
} history_module;

typedef struct {
  uint32_t device, segment; /* the segment, an index into blocks, or NONE */
  int64_t stream;           /* -1: none */
  uint64_t address, bytes;  /* bytes as the allocator rounded them */
  uint64_t requested;
  uint64_t born, died;       /* moments; died is HISTORY_NEVER while it lives at the end */
  uint64_t born_ns, died_ns; /* HISTORY_NEVER likewise */
  uint32_t site, free_site;  /* sites, or NONE */
  uint32_t module;           /* that was running when it was made; of parameters and gradients, whose they are */
  history_phase phase;       /* in which it was made */
  history_class class;
  bool is_segment;
  uint32_t first_use, n_uses; /* uses[first_use, + n_uses), in the order of tasks */
} history_block;

typedef struct {
  const char *name; /* of the operator, "Add", or "memcpy" */
  unsigned traits;  /* operator_traits.h */
  uint32_t device;
  int64_t stream;
  uint64_t moment, host_ns; /* when it was submitted */
  uint64_t device_ns;       /* how long it takes on the device: the model's time, or else the measured one */
  uint64_t model_ns;        /* by the roofline of the device's profile; 0: it has none of this task */
  uint64_t measured_ns;     /* as it ran here; in a dry run it did not */
  uint64_t operations;      /* multiply-adds count as two; 0: not known */
  uint32_t site, module, step;
  history_phase phase;
  uint32_t first_access, n_accesses; /* accesses[first_access, + n_accesses) */
} history_task;

enum { HISTORY_READS = 1, HISTORY_WRITES = 2, HISTORY_SCRATCH = 4 };

/* One operand of one task. */
typedef struct {
  uint32_t task, block;
  uint64_t offset, bytes; /* within the block */
  uint32_t access;
} history_access;

/* A step of training: from the end of the optimiser's step before to the end of its own. */
typedef struct {
  uint64_t begin, end; /* moments */
  uint64_t begin_ns, end_ns;
} history_step;

typedef struct {
  const char *program; /* of the recording's header, or the script that its Python ran */
  char soc_name[32];
  uint32_t n_devices;
  bool is_dry;
  uint64_t device_bytes; /* of one device's memory; 0: not known */
  uint64_t n_moments, end_ns;
  size_t n_lines, n_sites, n_numbers, n_modules, n_blocks, n_tasks, n_accesses, n_steps;
  history_line *lines;
  history_site *sites;
  uint32_t *site_of_number; /* by the recording's numbers of sites, or NONE */
  history_module *modules;
  history_block *blocks;    /* by moment of birth */
  history_task *tasks;      /* by moment */
  history_access *accesses; /* by task */
  uint32_t *uses;           /* indices into accesses, by block */
  history_step *steps;
  char *texts;  /* what the names point to */
  char **found; /* and those that a finder has found */
  size_t n_found;
} history;

/* Reads a recording of n bytes. NULL with a message in `error` if it is wrong or memory is lacking; one that ends early
 * (its program was killed) is read to its end. The history doesn't need the data afterwards. */
history *history_read(const void *data, size_t n, char error[256]);
void history_free(history *h);

/* Finds the lines of a C frame, a return address in an object, by its debug information: one for each function that was
 * inlined there, innermost first, and one for the function around them. Tells none if nothing is known. The texts need
 * to be valid during `tell` only. */
typedef void history_tell(const history_line *line, void *argument);
typedef void history_finder(const char *object, uint64_t offset, history_tell *tell, void *argument);

/* The same as history_read, with lines of C. Without a finder, a frame of C has its object as the file. */
history *history_read_with(const void *data, size_t n, history_finder *find, char error[256]);

/* The site that has this number in the recording, or HISTORY_NONE. */
uint32_t history_numbered_site(const history *h, uint32_t number);

/* The first task at or after a moment; n_tasks if there is none. */
size_t history_first_task(const history *h, uint64_t moment);

/* Words of the tables above. */
const char *history_class_words(history_class class);
const char *history_phase_words(history_phase phase);

#endif
