/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/engine/scratch.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/status.h"

/* The memory is kept between tasks, since memory fresh from the allocator would cost page faults each time. */
typedef struct {
  size_t bytes;
  _Alignas(64) char memory[];
} thread_scratch;

static __thread thread_scratch *scratch;
static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static void scratch_make_key(void) { pthread_key_create(&scratch_key, free); }

static char *scratch_grow(size_t bytes) {
  pthread_once(&scratch_once, scratch_make_key);
  const size_t rounded = (sizeof(thread_scratch) + bytes + 4095) / 4096 * 4096;
  free(scratch);
  scratch = aligned_alloc(64, rounded);
  pthread_setspecific(scratch_key, scratch);
  if (!scratch) {
    (void)fail(ST_NO_MEMORY, "no memory for %zu bytes of scratch", bytes);
    return NULL;
  }
  scratch->bytes = rounded - sizeof(thread_scratch);
  return scratch->memory;
}

char *scratch_take(size_t bytes) {
  return likely(scratch && scratch->bytes >= bytes) ? scratch->memory : scratch_grow(bytes);
}
