/* SPDX-License-Identifier: Apache-2.0 */
/* What the checker knows of handles: the live ones, with the stacks that made them, and the last that were destroyed.
 * It listens to the hooks of handles and of memory. Shared by the parts for leaks and for usage; both start it. Any
 * thread; takes one lock, under which no other is taken. */
#ifndef CANNON_CHECK_LEAKS_HANDLE_TABLE_H
#define CANNON_CHECK_LEAKS_HANDLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hooks.h"

/* Kinds beyond those of hook_handle_kind: memory. */
enum {
  HANDLE_DEVICE_BLOCK = N_HOOK_HANDLES,
  HANDLE_PINNED_BLOCK,
  HANDLE_MANAGED_BLOCK,
  HANDLE_PHYSICAL, /* whose value is no address */
  N_HANDLE_TYPES
};

/* Handles are kept inverted, so that who looks for them in memory does not find them here. */
typedef struct {
  uint64_t inverted; /* 0: the slot is unused */
  uint32_t kind;
  uint32_t stack;   /* that made it (trace/stack.h) */
  uint64_t bytes;   /* of memory */
  uint64_t owner;   /* of what a list will destroy: the list, inverted; else 0 */
  const char *call; /* that made it */
  bool kept;        /* an executor that launches do not consume */
  bool launched;    /* such an executor was launched */
  bool ended;       /* the library has destroyed it, with its context; the program has not */
} live_handle;

/* How a handle ended. */
typedef struct {
  uint64_t inverted, by;     /* by: the context or list that destroyed it, inverted, or 0 */
  uint32_t kind, made, gone; /* stacks */
  const char *made_by, *gone_by;
} gone_handle;

/* What was wrong with a call's handle. before: how that handle ended, or NULL if it is not known. */
typedef struct {
  hook_handle_act act; /* DESTROYED: by a call that could not tell that it was none; REFUSED; NOT_DESTROYED; ADOPTED: a
                          list destroys what the call destroys now */
  uint32_t kind;
  uintptr_t handle;
  const char *call; /* or NULL */
  const gone_handle *before;
  uint32_t owner_stack; /* of ADOPTED: who made the list */
} handle_problem;

void handle_table_start(void);

/* Sets who is told of problems; called without locks. */
void handle_table_on_problem(void (*listener)(const handle_problem *problem));

/* Sets who is told of each handle that is made. */
void handle_table_on_made(void (*listener)(uint32_t kind));

/* Whether the error that the thread's call is about to return was told as a problem of a handle; asks only once. */
bool handle_table_told_error(void);
void handle_table_tells_error(bool told);

/* How a handle ended that is not live; false if it is not known. */
bool handle_table_gone(uint32_t kind, uintptr_t handle, gone_handle *out);

/* A copy of the handles that the program has not destroyed, in no order, which the caller frees; NULL if there are
 * none, or no memory. */
live_handle *handle_table_copy(size_t *n);

/* Names: "stream"; of several, "streams"; and the call that destroys such. */
const char *handle_word(uint32_t kind);
const char *handle_words(uint32_t kind);
const char *handle_destroyer(uint32_t kind);

#endif
