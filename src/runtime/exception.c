/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exception.h"

#include <stdatomic.h>
#include <unistd.h>

#include "runtime/fpmode.h"

static exception_function *_Atomic told;

void exception_set_function(exception_function *function) {
  atomic_store_explicit(&told, function, memory_order_release);
}

void exception_tell(int device, uint32_t stream, uint32_t task, status code) {
  exception_function *const function = atomic_load_explicit(&told, memory_order_acquire);
  if (!function) return;
  function(&(struct rtExceptionInfo){(uint32_t)device, stream, task, (uint32_t)gettid(), code});
  fp_mode_enter(); /* the user's code may have changed the mode */
}
