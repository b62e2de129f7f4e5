/* SPDX-License-Identifier: Apache-2.0 */
/* Implementations that are chosen by measuring. The kernels' rules (kernel/engine/implementation.h) choose by shapes
 * and processor, from measurements on a few machines; where several implementations fit a node, the true order may
 * differ. A tuning runs each of them on the node's own shapes, once, and keeps which was the fastest.
 *
 * The rules give no times for what they pass over, so all that fit are tried but the reference; those whose first run
 * takes more than 1.5 times as long as the usual one's are not tried again. Another one replaces the usual one if it
 * is faster by 3 %. Results are kept by a hash of the operator, its arguments' types, shapes and strides, and the
 * number of threads, so that equal nodes are measured once; tune_file.h writes them down.
 *
 * Called by program.c and model.c; one thread at a time uses a tuning. */
#ifndef CANNON_GRAPH_TUNE_H
#define CANNON_GRAPH_TUNE_H

#include "graph/ir.h"

enum { TUNE_NAME = 24 };

typedef struct {
  uint64_t key;
  char family[TUNE_NAME], name[TUNE_NAME]; /* of executor_choice */
} tuned_choice;

typedef struct {
  tuned_choice *choices; /* malloc'ed */
  int n;
  bool measures; /* whether nodes that are not in the list are measured; else they are left to the rules */
  bool changed;  /* something was added by measuring */
} tuning;

void tuning_free(tuning *t);

/* Adds what is known from before; a key that is there already keeps its choice. False if the host has no memory. */
bool tuning_add(tuning *t, uint64_t key, const char *family, const char *name);

/* Phase one of a node, as op_prepare_constant, with the implementation that was measured to be the fastest. */
status tuning_prepare(tuning *t, const ir_node *n, uint64_t constants, executor **out);

/* Phase one with an implementation of a family in place of the usual one. *out is NULL, which is no failure, if that
 * does not fit. reason: stays valid. */
status prepare_preferring(const ir_node *n, uint64_t constants, const char *family, const char *name,
                          const char *reason, executor **out);

#endif
