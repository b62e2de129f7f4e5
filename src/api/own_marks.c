/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of Cannon's own by which frameworks tell of a training (include/cannon/marks.h). */
#include "cannon/marks.h"

#include "api/api.h"
#include "trace/record/record_marks.h"

uint32_t cannon_mark_module(const char *name, const char *type, uint32_t parent) {
  API_ENTER();
  return record_mark_module(name, type, parent);
}

void cannon_mark_enter(uint32_t module) {
  API_ENTER();
  record_mark(RECORD_ENTER, module);
}

void cannon_mark_leave(uint32_t module) {
  API_ENTER();
  record_mark(RECORD_LEAVE, module);
}

void cannon_mark_backward(uint32_t module) {
  API_ENTER();
  record_mark(RECORD_BACKWARD, module);
}

void cannon_mark_phase(cannonPhase phase) {
  API_ENTER();
  if ((unsigned)phase < RECORD_N_PHASES) record_mark_phase((record_phase)phase);
}

void cannon_mark_step(void) {
  API_ENTER();
  record_mark(RECORD_STEP, 0);
}

void cannon_mark_memory(cannonUse use, const void *address, uint64_t bytes, uint32_t module) {
  API_ENTER();
  if ((unsigned)use < RECORD_N_USES) record_mark_memory((record_use)use, (uintptr_t)address, bytes, module);
}
