/* The prepare functions that schema lines name, and the variants that they tell apart by e->op->variant. One file of
 * this folder defines each; arguments come in the order of the schema (ops/), null checks are done. */
#ifndef CANNON_KERNEL_FAMILIES_H
#define CANNON_KERNEL_FAMILIES_H

#include "kernel/loops.h"
#include "op/executor.h"

enum { MATMUL_MM, MATMUL_ANY, MATMUL_BATCH };
enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_AMAX };
enum { RANDOM_NORMAL, RANDOM_UNIFORM };
enum { FILL_VALUE, FILL_ZERO, FILL_ONE };

#define FAMILY(name) status prepare_##name(executor *e, const op_arg *a);
FAMILY(elementwise)              /* op_elementwise.c; variant: EW_... */
FAMILY(copy)                     /* move.c: InplaceCopy */
FAMILY(cast)                     /* move.c */
FAMILY(permute)                  /* move.c */
FAMILY(cat)                      /* move.c */
FAMILY(fill)                     /* fill.c; FILL_... */
FAMILY(arange)                   /* fill.c */
FAMILY(random)                   /* random.c; RANDOM_... */
FAMILY(index_select)             /* index.c */
FAMILY(embedding)                /* index.c */
FAMILY(embedding_dense_backward) /* index.c */
FAMILY(matmul)                   /* matmul.c; MATMUL_... */
FAMILY(addmm)                    /* matmul.c */
FAMILY(reduce)                   /* reduce.c; REDUCE_... */
FAMILY(argmax)                   /* reduce.c */
FAMILY(log_softmax)              /* softmax.c */
FAMILY(log_softmax_backward)     /* softmax.c */
FAMILY(nll_loss)                 /* nll.c */
FAMILY(nll_loss_backward)        /* nll.c */
FAMILY(adamw)                    /* adamw.c */
#undef FAMILY

#endif
