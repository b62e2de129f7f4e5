/* SPDX-License-Identifier: Apache-2.0 */
/* HCCL's entry points for the states of communicators: suspended and resumed, and who is told. */
#include <string.h>

#include "api/hccl/hccl_api.h"
#include "base/forks.h"
#include "base/lock.h"
#include "base/log.h"

/* ---- callbacks ---- */

enum { MOST_CALLBACKS = 32, NAME_BYTES = 161 };

typedef struct {
  char name[NAME_BYTES];
  HcclCommStateCallback call;
  void *argument;
} state_callback;

static mutex callbacks_lock = MUTEX_INITIALIZER(HCCL_CALLBACKS); /* guards both */
FORK_RENEWS(callbacks_lock)
static state_callback callbacks[MOST_CALLBACKS];
static int n_callbacks;

static hccl_outcome add_callback(const state_callback *added) {
  hccl_outcome outcome = 0;
  mutex_lock(&callbacks_lock);
  int i = 0;
  while (i < n_callbacks && strcmp(callbacks[i].name, added->name) != 0) ++i;
  if (i == MOST_CALLBACKS)
    outcome = HCCL_REFUSE(HCCL_E_UNAVAIL, "there are %d callbacks already, which is the most", MOST_CALLBACKS);
  else
    callbacks[i] = *added;
  if (i == n_callbacks && !outcome) ++n_callbacks;
  mutex_unlock(&callbacks_lock);
  return outcome;
}

static hccl_outcome register_callback(const char *regName, HcclCommStateCallback cb, void *argument) {
  state_callback added = {.call = cb, .argument = argument};
  HCCL_NEED(regName);
  HCCL_NEED(cb);
  const size_t length = strnlen(regName, NAME_BYTES);
  if (length == NAME_BYTES) return HCCL_REFUSE(HCCL_E_PARA, "regName has more than %d characters", NAME_BYTES - 1);
  memcpy(added.name, regName, length);
  return add_callback(&added);
}

HcclResult HcclCommRegCommStateCallback(const char *regName, HcclCommStateCallback cb, void *args) {
  API_ENTER();
  HCCL_RETURN(register_callback(regName, cb, args));
}

/* Calls all of them, without the lock. Returns the first failure. */
hccl_outcome hccl_state_tell(HcclComm handle, HcclCommStatePhase phase) {
  hccl_outcome outcome = 0;
  for (int i = 0;; ++i) {
    mutex_lock(&callbacks_lock);
    const bool more = i < n_callbacks;
    const state_callback told = more ? callbacks[i] : (state_callback){.call = NULL};
    mutex_unlock(&callbacks_lock);
    if (!more) return outcome;
    const HcclResult result = told.call(handle, phase, told.argument);
    if (result != HCCL_SUCCESS && !outcome)
      outcome = HCCL_REFUSE(result, "the callback \"%.100s\" returned %d", told.name, (int)result);
  }
}

/* ---- suspending ---- */

static hccl_outcome suspend(HcclComm handle) {
  HELD_COMM c = NULL;
  HCCL_TRY(hccl_expect_product("HcclCommSuspend", HCCL_A2 | HCCL_A3));
  HCCL_TRY(hccl_comm_of(handle, &c));
  return hccl_outcome_of(comm_suspend(c));
}

static hccl_outcome resume(HcclComm handle) {
  HELD_COMM c = NULL;
  HCCL_TRY(hccl_expect_product("HcclCommResume", HCCL_FROM_A2));
  HCCL_TRY(hccl_comm_of(handle, &c));
  HCCL_TRY(hccl_state_tell(handle, HCCL_COMM_STATE_PHASE_RESUME_PRE));
  HCCL_TRY_CORE(comm_resume(c));
  return hccl_state_tell(handle, HCCL_COMM_STATE_PHASE_RESUME_POST);
}

HcclResult HcclCommSuspend(HcclComm comm) {
  API_ENTER();
  HCCL_RETURN(suspend(comm));
}

HcclResult HcclCommResume(HcclComm comm) {
  API_ENTER();
  HCCL_RETURN(resume(comm));
}

static hccl_outcome status_of(const char *commId, HcclCommStatus *status_out) {
  HELD_COMM c = NULL;
  HCCL_NEED(commId);
  if (!status_out) return HCCL_REFUSE(HCCL_E_PTR, "status is NULL, expected a pointer");
  *status_out = HCCL_COMM_STATUS_INVALID;
  if (comm_of_name(commId, &c) != ST_OK) {
    c = NULL;
    return HCCL_REFUSE(HCCL_E_NOT_FOUND, "commId is \"%.*s\", which is no communicator of this device", COMM_NAME_BYTES,
                       commId);
  }
  *status_out = comm_is_suspended(c) ? HCCL_COMM_STATUS_SUSPENDING : HCCL_COMM_STATUS_READY;
  return 0;
}

HcclResult HcclCommGetStatus(const char *commId, HcclCommStatus *status) {
  API_ENTER();
  HCCL_RETURN(status_of(commId, status));
}

/* ---- network interfaces ---- */

static hccl_outcome switch_interfaces(HcclComm handle, const uint32_t *ranks, const bool *useBackup, uint32_t n) {
  HELD_COMM c = NULL;
  HCCL_TRY(hccl_comm_of(handle, &c));
  HCCL_NEED(ranks);
  HCCL_NEED(useBackup);
  if (n < 1 || n > comm_n_ranks(c))
    return HCCL_REFUSE(HCCL_E_PARA, "nRanks is %u, expected 1 to %u", n, comm_n_ranks(c));
  for (uint32_t i = 0; i < n; ++i)
    if (ranks[i] >= comm_n_ranks(c))
      return HCCL_REFUSE(HCCL_E_PARA, "ranks[%u] is %u, expected 0 to %u", i, ranks[i], comm_n_ranks(c) - 1);
  log_line(LOG_WARNING,
           "HcclCommWorkingDevNicSet: the ranks of %s have no other network interface; nothing is switched",
           comm_name(c));
  return 0;
}

HcclResult HcclCommWorkingDevNicSet(HcclComm comm, uint32_t *ranks, bool *useBackup, uint32_t nRanks) {
  API_ENTER();
  HCCL_RETURN(switch_interfaces(comm, ranks, useBackup, nRanks));
}
