/* SPDX-License-Identifier: Apache-2.0 */
/* Explains segmentation faults that come from misused memory. The addresses that a program has for device memory have
 * nothing mapped there, so a host access faults at once; the handler says what was accessed before the program ends. It
 * also explains a fault in one of the library's copies, caused by a bad host pointer, and one in registered host
 * memory. Faults outside of device memory are then passed on to the handler that was installed before. Used by memory.c
 * and the runtime's copies; calls memory.h. */
#ifndef CANNON_MEMORY_FAULT_H
#define CANNON_MEMORY_FAULT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A copy of `height` rows of `width` bytes; the pitches are the distances between the starts of rows. A contiguous copy
 * has height 1. While it runs, its addresses are those that kernels see. */
typedef struct {
  void *dst;
  const void *src; /* NULL: dst is filled */
  size_t width, height, dst_pitch, src_pitch;
  void *site;            /* return address of the call, for advice */
  const char *call;      /* the entry point, for messages; NULL: a task of a stream */
  uint32_t stream, task; /* if call is NULL: their numbers */
  uint32_t value;        /* of a dry run: of which line the host gets a value (runtime/dry/dry_values.h); 0: of none */
} fault_copy;

/* The copy that the thread executes now, for the handler; NULL: none. Set and cleared around each copy, by a store
 * each. */
extern INTERNAL _Thread_local const fault_copy *volatile fault_running_copy;
static inline void fault_copy_begins(const fault_copy *c) {
  fault_running_copy = c;
  atomic_signal_fence(memory_order_seq_cst); /* what c points to is written before the first access that may fault */
}
static inline void fault_copy_ends(void) {
  atomic_signal_fence(memory_order_seq_cst);
  fault_running_copy = NULL;
}

/* Installs the handler for SIGSEGV and SIGBUS; repeated calls do nothing. */
void fault_handler_install(void);

/* Writes a code address as "object(symbol+0x12)" into `text`, for messages. */
void fault_describe_site(void *site, char *text, size_t bytes);

#endif
