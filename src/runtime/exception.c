/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exception.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/lock.h"

static exception_callback *_Atomic callback_of_program;
static exception_info *_Atomic kept; /* newest first */

void exception_set_callback(exception_callback *callback) { atomic_store(&callback_of_program, callback); }

void exception_keep(uint32_t device, uint32_t stream, uint32_t task, status code) {
  if (!atomic_load(&callback_of_program)) return;
  exception_info *info = malloc(sizeof *info);
  if (!info) return; /* the synchronisation tells the failure anyway */
  *info = (exception_info){
      .task = task, .stream = stream, .device = device, .thread = (uint32_t)gettid(), .code = (uint32_t)code};
  info->next = atomic_load(&kept);
  while (!atomic_compare_exchange_weak(&kept, &info->next, info)) continue;
}

void exception_tell(void) {
  exception_info *oldest = NULL, *next;
  lock_expect_none(NULL);
  for (exception_info *info = atomic_exchange(&kept, NULL); info; info = next) {
    next = info->next;
    info->next = oldest;
    oldest = info;
  }
  for (; oldest; oldest = next) {
    exception_callback *const callback = atomic_load(&callback_of_program);
    next = oldest->next;
    if (callback) callback(oldest);
    free(oldest);
  }
}
