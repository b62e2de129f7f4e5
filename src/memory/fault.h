/* A host access to device memory: it faults at once, since users' addresses have nothing behind them, and the handler
 * here says what was touched before the program ends. Faults elsewhere are passed on to whoever was there first; one in
 * a copy of the library's, by a host pointer of the program's that leads nowhere, after words that say which. */
#ifndef CANNON_MEMORY_FAULT_H
#define CANNON_MEMORY_FAULT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A copy of `height` rows of `width` bytes; the pitches are what separates the starts of rows. Flat: height 1. Of one
 * that runs, addresses are as kernels see them. */
typedef struct {
  void *dst;
  const void *src; /* NULL: a fill */
  size_t width, height, dst_pitch, src_pitch;
  void *site;            /* the caller's return address, for advice */
  const char *call;      /* the entry point, for words; NULL: a task of a stream */
  uint32_t stream, task; /* which, where call is NULL */
} fault_copy;

/* Around each copy: a store each. */
extern INTERNAL _Thread_local const fault_copy *volatile fault_running_copy; /* NULL: none */
static inline void fault_copy_begins(const fault_copy *c) {
  fault_running_copy = c;
  atomic_signal_fence(memory_order_seq_cst); /* what c points to is written before the first access that may fault */
}
static inline void fault_copy_ends(void) {
  atomic_signal_fence(memory_order_seq_cst);
  fault_running_copy = NULL;
}

void fault_handler_install(void);

/* A code address as "object(symbol+0x12)", for messages. */
void fault_describe_site(void *site, char *text, size_t bytes);

#endif
