/* SPDX-License-Identifier: Apache-2.0 */
/* The model that plans are made with: one step of a recording on one device, as blocks that live for a while. A plan
 * changes blocks (their size, when they live, whether they are there), and advise_peak replays what is left. So all
 * kinds of plans are judged by the same function, and can be combined.
 *
 * Time is counted in *instants*: the moments of the step at which a block is born or dies or a task is submitted, in
 * order, from 0. A block lives in [born, died).
 *
 * A *link* is a module that can be recomputed, or put on a device of its own, as a whole: layer 3 of a transformer.
 * Links stand in the order in which they run forward. A step that accumulates gradients has several *passes* of forward
 * and backward.
 *
 * Not thread-safe. The history outlives the model. */
#ifndef CANNON_FIT_ADVISE_MODEL_H
#define CANNON_FIT_ADVISE_MODEL_H

#include "fit/history.h"

/* A block in the step, or one that a plan adds. */
typedef struct {
  uint64_t bytes;
  uint32_t born, died;       /* instants */
  uint32_t gap_from, gap_to; /* it is not there from gap_from on and before gap_to; equal: no gap */
  uint32_t forward_end;      /* after its last use forward in its pass; born if there is none */
  uint32_t backward_begin;   /* before the first task that needs it backward; HISTORY_NONE: none does */
  uint32_t last_use;         /* after its last use of all; born if there is none */
  uint32_t own_begin;        /* before the first backward task of its own link that needs it; HISTORY_NONE: none does */
  uint32_t own_end;          /* after the last one */
  uint32_t others_end;       /* after the last backward task of another link that needs it; 0: there is none */
  uint32_t block;            /* of the history, or HISTORY_NONE */
  uint32_t link, pass;       /* that made it (of parameters, gradients and states: whose it is), or HISTORY_NONE */
  history_class class;
  history_phase phase;
  uint32_t first_reader, last_reader; /* links that read it forward in its pass; first > last: none does */
  bool is_of_step;                    /* made in the step */
  bool is_read_outside;               /* read forward by what is in no link */
  bool grows;                         /* with the batch */
} advise_item;

typedef struct {
  uint32_t module;                       /* of the history */
  uint32_t forward_begin, forward_end;   /* instants of its first and last forward task in the first pass; begin > end:
                                            it has none */
  uint32_t backward_begin, backward_end; /* likewise of the pass' backward, from who needs its activations */
  double forward_ns, backward_ns;        /* of all passes */
  uint64_t activation_bytes, parameter_bytes, gradient_bytes, optimizer_bytes;
  uint32_t site; /* of its first task, or HISTORY_NONE */
} advise_link;

/* Which time a task takes. As it ran is the median of the steps that have the same tasks, since other load of the
 * machine disturbs single ones. Dry runs have the device's model only. */
typedef enum { ADVISE_TIME_OF_RECORDING, ADVISE_TIME_BY_MODEL } advise_time;

typedef struct {
  const history *history;
  uint32_t device, step; /* step: HISTORY_NONE, if the recording has none and is taken as a whole */
  uint64_t begin, end;   /* moments */
  uint32_t n_instants, n_passes;
  uint64_t *instant;  /* moments, ascending */
  double *instant_ns; /* device time that has passed at each instant */
  bool *is_birth;     /* whether a block is born at the instant; n_instants + 1 */
  size_t n_items;
  advise_item *items;
  uint32_t *item_of; /* by block of the history; HISTORY_NONE: not in the step */
  uint32_t n_links;
  advise_link *links;
  uint32_t *link_of;          /* by module of the history, or HISTORY_NONE */
  size_t first_task, n_tasks; /* of the history: those of the step, of all devices */
  uint32_t *pass_of;          /* by task from first_task on */
  double *task_ns;            /* likewise */
  bool is_measured;           /* task_ns is as the tasks ran, and not by the device's model */
  double fixed_ns;            /* what a task takes whatever its size: the time of the quickest tenth */
  double byte_ns;             /* what a byte takes beyond that where a task moves more than it computes */
  double span_ns;             /* if it is: from the step's begin to its end by the host's clock; 0: not known */
  double step_ns, forward_ns, backward_ns, update_ns; /* time of the device's tasks */
  uint64_t peak;                                      /* as recorded */
  uint32_t peak_instant;
  uint64_t reserved; /* the largest sum of segments, and of blocks outside of any, in the recording */
} advise_model;

/* The item of the block that an access is to; HISTORY_NONE: the block is not in the step. */
static inline uint32_t advise_item_of(const advise_model *m, uint32_t access) {
  const uint32_t block = m->history->accesses[access].block;
  return block < m->history->n_blocks ? m->item_of[block] : HISTORY_NONE;
}

/* NULL: there is no memory. A history without blocks has a model with a peak of 0. */
advise_model *advise_model_new(const history *h, advise_time time);
void advise_model_free(advise_model *m);

/* Fills in task_ns and what follows it. False: no memory. */
bool advise_clock_make(advise_model *m, advise_time time);

/* The instant at or after a moment; n_instants if there is none. */
uint32_t advise_instant_at(const advise_model *m, uint64_t moment);

/* Fills in which items grow, once links are known. False: no memory. */
bool advise_batch_note(advise_model *m);

/* The first instant at which something is made for a task, after the task before it: where what the task needs would be
 * made again. */
uint32_t advise_preparation(const advise_model *m, const history_task *t);

/* The line of the program at which a link is called: where its calls and another link's part. NULL: not known. */
const history_line *advise_link_line(const advise_model *m, uint32_t link);

/* The line of the program that made a block, or called the task. NULL: not known. */
const history_line *advise_site_line(const history *h, uint32_t site);

/* ---- changes ---------------------------------------------------------------------------------------------------- */

/* What a plan leaves of the step. */
typedef struct {
  const advise_model *model;
  size_t n_items, room;
  advise_item *items;
  uint64_t *needle;      /* by instant: more bytes, for this instant only; the largest of several counts */
  double extra_ns;       /* added to the step; negative: saved */
  double forward_factor; /* time of the forward part over the recorded one */
} advise_edits;

/* The step as recorded. False: there is no memory. */
bool advise_edits_begin(advise_edits *e, const advise_model *m);
bool advise_edits_copy(advise_edits *e, const advise_edits *from);
void advise_edits_end(advise_edits *e);
bool advise_edits_add(advise_edits *e, const advise_item *item);
void advise_edits_needle(advise_edits *e, uint32_t instant, uint64_t bytes);

/* The most bytes that live at once after the changes. `live`, if not NULL, receives those of each of the model's
 * n_instants; `at`, if not NULL, the instant of the peak. All kinds of plans are judged by this function. */
uint64_t advise_peak(const advise_edits *e, uint64_t *live, uint32_t *at);

#endif
