/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines: a chain of links on several devices, each with neighbouring links. */
#ifndef CANNON_FIT_ADVISE_PIPELINE_H
#define CANNON_FIT_ADVISE_PIPELINE_H

#include "comm/schedule/topology.h"
#include "fit/advise/model.h"

/* Splits n things into n_parts neighbourhoods, none of them empty, so that the largest weight is as small as can be:
 * part p is [first[p], first[p + 1]). weigh() tells what [from, to) weighs as part p. Exact; n_parts * n * n calls.
 * False: n < n_parts, or there is no memory. */
bool advise_split(uint32_t n, uint32_t n_parts,
                  uint64_t (*weigh)(const void *what, uint32_t from, uint32_t to, uint32_t p), const void *what,
                  uint32_t *first);

enum { PIPELINE_MAX = 64 };

typedef struct {
  uint32_t n, micro_batches; /* n: devices, 0: it cannot be split */
  uint32_t first[PIPELINE_MAX + 1];
  uint64_t peak[PIPELINE_MAX];         /* by replay of what the device has */
  double busy_ns[PIPELINE_MAX];        /* forward and backward of all micro-batches */
  uint64_t sent_bytes[PIPELINE_MAX];   /* forward, of a micro-batch, to the next device */
  double transfer_ns, bubble, step_ns; /* bubble: share of the time in which the slowest device waits */
  uint64_t largest;
} advise_pipeline;

/* Splits the links so that the largest device is as small as can be, with one forward and one backward part in turn
 * (1F1B): device p has activations of n - p micro-batches. False: there is no memory. */
bool advise_pipeline_make(const advise_edits *e, uint32_t n, uint32_t micro_batches, const topology *t,
                          advise_pipeline *out);

#endif
