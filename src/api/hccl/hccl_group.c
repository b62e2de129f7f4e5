/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of HCCL's calls (HcclGroupStart, HcclGroupEnd). A thread collects the calls between the two, which have been
 * checked, and executes them at the end:
 *
 *   creating     all at once, each in a thread of its own, since each waits for the others; destroying before that
 *   collectives  in the order of the calls
 *   transfers    those of a communicator and a stream as one batch, so that they do not wait for each other
 *
 * A call that was refused makes the group fail as a whole: nothing of it is executed. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/hccl/hccl_api.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/python_place.h"

/* A call that waits. Owns what it points to, other than the handles. */
typedef struct {
  context *context; /* the calling thread's, with a reference */
  HcclComm handle;
  aclrtStream stream;
  collective_call call; /* a collective; its arrays are `arrays` */
  uint64_t *arrays;
  collective_transfer transfer;
  void *site;
  hccl_creation *creation; /* NULL: destroys `handle` */
  bool is_taken;           /* a transfer that is in a batch already */
} group_call;

/* A thread's group; it exists between HcclGroupStart and the last HcclGroupEnd. */
typedef struct {
  int depth; /* of nested groups */
  hccl_group_kind kind;
  hccl_outcome failure; /* of the first call that was refused */
  char *words;          /* its message; NULL if there was no memory */
  group_call *calls;
  uint32_t n, room;
} call_group;
static _Thread_local call_group *group_of_thread;

bool hccl_group_is_open(void) { return unlikely(group_of_thread != NULL); }

static void group_call_clear(group_call *c) {
  if (c->context) context_unref(c->context);
  if (c->creation) free(c->creation->table);
  free(c->creation);
  free(c->arrays);
}

static void group_free(call_group *g) {
  for (uint32_t i = 0; i < g->n; ++i) group_call_clear(&g->calls[i]);
  free(g->calls);
  free(g->words);
  free(g);
}

hccl_outcome hccl_group_refuse(hccl_outcome outcome) {
  call_group *g = group_of_thread;
  if (g->failure) return outcome;
  const char *words = fail_take();
  g->failure = outcome;
  g->words = strdup(words);
  fail_words("%s", words);
  return outcome;
}

/* ---- adding calls ---- */

static hccl_outcome no_group_memory(void) {
  return hccl_outcome_of(fail(ST_NO_HOST_MEMORY, "no memory for a call of a group"));
}

static hccl_outcome group_room(call_group *g) {
  if (g->n < g->room) return 0;
  const uint32_t room = g->room ? 2 * g->room : 16;
  group_call *calls = realloc(g->calls, room * sizeof *calls);
  if (!calls) return no_group_memory();
  g->calls = calls;
  g->room = room;
  return 0;
}

/* Appends a call; takes over what it owns, even where it fails. */
static hccl_outcome group_append(hccl_group_kind kind, group_call *added) {
  static const char *const names[] = {"create or destroy communicators", "operations of all ranks", "transfers"};
  call_group *g = group_of_thread;
  context *current;
  hccl_outcome outcome = 0;
  if (g->n && g->kind != kind)
    outcome = HCCL_REFUSE(HCCL_E_PARA, "the group has calls of the kind: %s; expected no call of the kind: %s",
                          names[g->kind], names[kind]);
  if (!outcome) outcome = hccl_outcome_of(context_current(&current));
  if (!outcome) outcome = group_room(g);
  if (outcome) {
    group_call_clear(added);
    return hccl_group_refuse(outcome);
  }
  object_ref(&current->o);
  added->context = current;
  g->kind = kind;
  g->calls[g->n++] = *added;
  return 0;
}

hccl_outcome hccl_group_create(const hccl_creation *call) {
  hccl_creation *kept = malloc(sizeof *kept);
  if (!kept) {
    free(call->table);
    return hccl_group_refuse(no_group_memory());
  }
  *kept = *call;
  return group_append(HCCL_GROUP_MANAGEMENT, &(group_call){.creation = kept});
}

hccl_outcome hccl_group_destroy(HcclComm handle) {
  return group_append(HCCL_GROUP_MANAGEMENT, &(group_call){.handle = handle});
}

hccl_outcome hccl_group_collective(const collective_call *call, HcclComm handle, uint32_t n_ranks, aclrtStream stream) {
  group_call added = {.handle = handle, .stream = stream, .call = *call};
  const uint64_t **const arrays[] = {&added.call.send_counts, &added.call.send_offsets, &added.call.receive_counts,
                                     &added.call.receive_offsets};
  if (call->send_counts || call->receive_counts) {
    added.arrays = malloc(sizeof arrays / sizeof arrays[0] * n_ranks * sizeof(uint64_t));
    if (!added.arrays) return hccl_group_refuse(no_group_memory());
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) {
      if (!*arrays[i]) continue;
      memcpy(added.arrays + i * n_ranks, *arrays[i], n_ranks * sizeof(uint64_t));
      *arrays[i] = added.arrays + i * n_ranks;
    }
  }
  return group_append(HCCL_GROUP_COLLECTIVE, &added);
}

hccl_outcome hccl_group_transfer(const collective_transfer *transfer, HcclComm handle, void *site, aclrtStream stream) {
  return group_append(HCCL_GROUP_P2P,
                      &(group_call){.handle = handle, .stream = stream, .transfer = *transfer, .site = site});
}

/* ---- creating and destroying ---- */

hccl_outcome hccl_create_now(const hccl_creation *call) {
  comm *created;
  const hccl_outcome outcome = hccl_outcome_of(call->create(call, &created));
  free(call->table);
  if (!outcome) {
    *call->out = comm_handle(created);
    if (comm_n_ranks(created) > 1) python_place_start();
    return 0;
  }
  /* A timeout of the creation has a number of its own in the catalogue. */
  return outcome == HCCL_OUTCOME(HCCL_E_TIMEOUT, 6) ? HCCL_OUTCOME(HCCL_E_TIMEOUT, 15) : outcome;
}

hccl_outcome hccl_destroy_now(HcclComm handle) {
  HELD_COMM c = NULL;
  HCCL_TRY(hccl_comm_of(handle, &c));
  const hccl_outcome before = hccl_state_tell(handle, HCCL_COMM_STATE_PHASE_DESTROY_PRE); /* stops nothing */
  HCCL_TRY_CORE(comm_destroy(c));
  hccl_memory_forget(handle);
  const hccl_outcome after = hccl_state_tell(handle, HCCL_COMM_STATE_PHASE_DESTROY_POST);
  return before ? before : after;
}

/* A creation, and how it ended. The thread that runs it writes the last three. */
typedef struct {
  group_call *call;
  HcclComm created;
  pthread_t thread;
  bool runs;
  hccl_outcome outcome;
  char *words;
} group_creation;

static void *creation_run(void *argument) {
  group_creation *g = argument;
  hccl_creation what = *g->call->creation;
  thread_set_context(g->call->context);
  g->call->creation->table = NULL; /* hccl_create_now frees it */
  what.out = &g->created;
  g->outcome = hccl_create_now(&what);
  if (g->outcome) g->words = strdup(fail_take());
  return NULL;
}

static void creation_start(group_creation *g) {
  g->runs = pthread_create(&g->thread, NULL, creation_run, g) == 0;
  if (g->runs) return;
  g->outcome = HCCL_OUTCOME(HCCL_E_SYSCALL, 9999);
  g->words = strdup("no thread could be started to create a communicator of the group");
}

/* All were created, or none stays. */
static hccl_outcome creations_finish(group_creation *g, uint32_t n) {
  const group_creation *failed = NULL;
  for (uint32_t i = 0; i < n && !failed; ++i)
    if (g[i].outcome) failed = &g[i];
  for (uint32_t i = 0; i < n; ++i) {
    if (!failed)
      *g[i].call->creation->out = g[i].created;
    else if (!g[i].outcome)
      (void)hccl_destroy_now(g[i].created);
  }
  if (failed) fail_words("%s", failed->words ? failed->words : "");
  const hccl_outcome outcome = failed ? failed->outcome : 0;
  for (uint32_t i = 0; i < n; ++i) free(g[i].words);
  return outcome;
}

static hccl_outcome run_management(call_group *g) {
  group_creation *creations = calloc(g->n, sizeof *creations);
  uint32_t n = 0;
  hccl_outcome outcome = creations ? 0 : no_group_memory();
  for (uint32_t i = 0; i < g->n && !outcome; ++i) {
    if (g->calls[i].creation)
      creations[n++].call = &g->calls[i];
    else
      outcome = hccl_destroy_now(g->calls[i].handle);
  }
  if (!outcome) {
    for (uint32_t i = 0; i < n; ++i) creation_start(&creations[i]);
    for (uint32_t i = 0; i < n; ++i)
      if (creations[i].runs) pthread_join(creations[i].thread, NULL);
    outcome = creations_finish(creations, n);
  }
  free(creations);
  return outcome;
}

/* ---- operations ---- */

static hccl_outcome run_collective(const group_call *call) {
  HELD_COMM c = NULL;
  stream *s;
  thread_set_context(call->context);
  HCCL_TRY(hccl_comm_of(call->handle, &c));
  HCCL_TRY_CORE(context_stream(call->stream, &s));
  return hccl_outcome_of(collective_submit(c, &call->call, s));
}

static hccl_outcome run_collectives(const call_group *g) {
  for (uint32_t i = 0; i < g->n; ++i) HCCL_TRY(run_collective(&g->calls[i]));
  return 0;
}

/* Submits the transfers of one communicator and stream, from the call `first` on. */
static hccl_outcome run_transfer_batch(call_group *g, uint32_t first, collective_transfer *transfers) {
  const group_call *with = &g->calls[first];
  HELD_COMM c = NULL;
  stream *s;
  uint32_t n = 0;
  for (uint32_t i = first; i < g->n; ++i) {
    group_call *call = &g->calls[i];
    if (call->handle != with->handle || call->stream != with->stream) continue;
    call->is_taken = true;
    transfers[n++] = call->transfer;
  }
  thread_set_context(with->context);
  HCCL_TRY(hccl_comm_of(with->handle, &c));
  HCCL_TRY_CORE(context_stream(with->stream, &s));
  return hccl_outcome_of(collective_submit_batch(c, transfers, n, with->site, s));
}

static hccl_outcome run_transfers(call_group *g) {
  collective_transfer *transfers = malloc(g->n * sizeof *transfers);
  hccl_outcome outcome = transfers ? 0 : no_group_memory();
  for (uint32_t i = 0; i < g->n && !outcome; ++i)
    if (!g->calls[i].is_taken) outcome = run_transfer_batch(g, i, transfers);
  free(transfers);
  return outcome;
}

/* Runs the calls, each in the context in which it was made. */
static hccl_outcome group_run(call_group *g) {
  HELD_CONTEXT current = context_peek();
  hccl_outcome outcome;
  if (current) object_ref(&current->o);
  switch (g->kind) {
  case HCCL_GROUP_MANAGEMENT: outcome = run_management(g); break;
  case HCCL_GROUP_COLLECTIVE: outcome = run_collectives(g); break;
  default: outcome = run_transfers(g);
  }
  thread_set_context(current);
  return outcome;
}

/* ---- entry points ---- */

static hccl_outcome call_group_start(void) {
  HCCL_TRY(hccl_expect_product("HcclGroupStart", HCCL_FROM_A2));
  if (!group_of_thread) group_of_thread = calloc(1, sizeof *group_of_thread);
  if (!group_of_thread) return no_group_memory();
  ++group_of_thread->depth;
  return 0;
}

static hccl_outcome call_group_end(void) {
  call_group *g = group_of_thread;
  if (!g) return HCCL_REFUSE(HCCL_E_PARA, "the thread has no group, expected an HcclGroupStart before");
  if (--g->depth) return 0;
  group_of_thread = NULL; /* the calls are executed now, not collected */
  hccl_outcome outcome = g->failure;
  if (outcome)
    fail_words("nothing of the group was executed, since a call in it was refused: %s", g->words ? g->words : "");
  else if (g->n)
    outcome = group_run(g);
  group_free(g);
  return outcome;
}

HcclResult HcclGroupStart(void) {
  API_ENTER();
  HCCL_RETURN(call_group_start());
}

HcclResult HcclGroupEnd(void) {
  API_ENTER();
  HCCL_RETURN(call_group_end());
}

HcclResult HcclGroupStatusGet(bool *isGroupEnabled) {
  API_ENTER();
  if (!isGroupEnabled) HCCL_RETURN(HCCL_REFUSE(HCCL_E_PTR, "isGroupEnabled is NULL, expected a pointer"));
  *isGroupEnabled = hccl_group_is_open();
  return HCCL_SUCCESS;
}
