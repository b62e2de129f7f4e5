/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: lists of ranks, one device each. A `comm` is one rank's part in one; a process may hold several ranks
 * of the same communicator. Called by src/api and op/; calls the rest of src/comm. Thread-safe: each rank's calls come
 * from any thread, but collectives of one rank must be submitted in the same order as in all other ranks. */
#ifndef CANNON_COMM_COMMUNICATOR_H
#define CANNON_COMM_COMMUNICATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/comm_types.h"

enum { COMM_NAME_BYTES = 128, COMM_MOST_RANKS = 32768, COMM_UNSET = -1 };

/* What a program can configure. Fields that it did not set are COMM_UNSET, or empty. */
typedef struct {
  int64_t buffer_mib;         /* of each of two buffers; unset: HCCL_BUFFSIZE, 200 */
  int64_t deterministic;      /* 0, 1, 2 (strict); unset: comm_deterministic(), HCCL_DETERMINISTIC */
  int64_t exec_timeout_s;     /* 0: none; unset: HCCL_EXEC_TIMEOUT, 1836 */
  int64_t expansion_mode;     /* kept and returned, no meaning for results */
  char name[COMM_NAME_BYTES]; /* empty: made up */
} comm_config;
#define COMM_CONFIG_UNSET                                                                                              \
  { COMM_UNSET, COMM_UNSET, COMM_UNSET, COMM_UNSET, "" }

typedef struct comm comm;

/* Creates this rank's part, on the calling thread's device; blocks until all ranks do so. info: of
 * bootstrap_root_info(). ST_COMM_... with words. */
status comm_create(const unsigned char *info, uint32_t n_ranks, uint32_t rank, const comm_config *config, comm **out);

/* Creates a communicator of n distinct devices of this process; out[i] is the part of devices[i]. */
status comm_create_local(const int32_t *devices, uint32_t n, comm **out);

/* Creates this rank's part from a rank table: the path of a JSON file, or (is_text) the text itself. */
status comm_create_by_table(const char *table, bool is_text, uint32_t rank, const comm_config *config, comm **out);

/* Creates a communicator of n ranks of another; `index` is the caller's place in ranks[]. All of ranks[] call it; no
 * other rank is needed. id: the same number in all of them, different from other sub-communicators'. */
status comm_create_sub(comm *of, const uint32_t *ranks, uint32_t n, uint64_t id, uint32_t index,
                       const comm_config *config, comm **out);

/* Ends this rank's part; not a collective. Tasks of it that are queued fail, and the communicator with them. The handle
 * is invalid afterwards. */
status comm_destroy(comm *c);

/* The communicator that a handle stands for, with a reference; ST_INVALID_VALUE for one that is none or no more. */
status comm_of(void *handle, comm **out);
/* By its name, for operators that name a communicator: the part of the calling thread's device. */
status comm_of_name(const char *name, comm **out);
void comm_unref(comm *c);
static inline void comm_drop(comm **c) {
  if (*c) comm_unref(*c);
}
#define HELD_COMM __attribute__((cleanup(comm_drop))) comm *

void *comm_handle(const comm *c);
uint32_t comm_n_ranks(const comm *c);
uint32_t comm_rank(const comm *c);
int comm_device(const comm *c);
const char *comm_name(const comm *c);
const comm_config *comm_configuration(const comm *c);

/* ST_OK, or why the communicator has failed (a rank that died, ranks that disagree), with its words as the pending
 * message. */
status comm_check(comm *c);
/* The same as a code, without a message. */
status comm_failure(const comm *c);

/* Suspending refuses further calls; resuming ends that. A communicator that has failed can't be resumed, since its
 * ranks may have got to different calls: the failure is returned. */
status comm_suspend(comm *c);
status comm_resume(comm *c);
bool comm_is_suspended(const comm *c);

/* The process-wide setting of HcclSetConfig: 0, 1 or 2. */
status comm_set_deterministic(int value);
int comm_deterministic(void);

#endif
