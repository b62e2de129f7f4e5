/* SPDX-License-Identifier: Apache-2.0 */
/* NoRepeatNGram by name: of each sequence, words that would repeat a group of ngram_size words get the least finite
 * logarithm of a probability. Operands are contiguous. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  int64_t sequences, length, words, group;
  int64_t size; /* bytes of a logarithm */
  _Alignas(8) char least[8];
} ngram_plan;

static status ngram_sequence(const ngram_plan *p, const int32_t *state, char *out) {
  const int64_t known = p->group - 1;
  const int32_t *const last = state + p->length - known;
  for (int64_t i = 0; i + known < p->length; ++i) {
    if (known && memcmp(state + i, last, (size_t)known * sizeof *state) != 0) continue;
    const int64_t word = state[i + known];
    if (word < 0 || word >= p->words)
      return fail(ST_DEVICE_EXCEPTION, "state_seq has %jd, expected 0 to %jd", (intmax_t)word, (intmax_t)p->words - 1);
    memcpy(out + word * p->size, p->least, (size_t)p->size);
  }
  return ST_OK;
}

static status ngram_run(const executor *e, void *const *view, void *scratch) {
  const ngram_plan *p = PLAN(e, ngram_plan);
  const int32_t *const state = view[GRAPH_NGRAM_STATE_SEQ];
  char *const out = view[GRAPH_NGRAM_OUT];
  (void)scratch;
  memcpy(out, view[GRAPH_NGRAM_LOG_PROBS], (size_t)(p->sequences * p->words * p->size));
  for (int64_t i = 0; i < p->sequences; ++i)
    TRY(ngram_sequence(p, state + i * p->length, out + i * p->words * p->size));
  return ST_OK;
}

status prepare_graph_ngram(executor *e, const graph_ngram_args *a) {
  const tensor *state = a->state_seq, *probs = a->log_probs;
  ngram_plan *p = PLAN(e, ngram_plan);
  TRY(op_expect_dtype(state, "state_seq", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(state, "state_seq", 3, 3));
  TRY(op_expect_dtype(probs, "log_probs", DTYPES_FLOAT));
  TRY(op_expect_rank(probs, "log_probs", 3, 3));
  TRY(op_expect_shape(probs, "log_probs", (const int64_t[]){state->dims[0], state->dims[1], probs->dims[2]}, 3));
  TRY(op_expect_like(a->out, "out", probs));
  EXPECT(a->ngram_size > 0 && a->ngram_size < state->dims[2], "ngram_size is %jd, expected 1 to %jd",
         (intmax_t)a->ngram_size, (intmax_t)state->dims[2] - 1);
  const double least = -dtype_largest(probs->dtype);
  *p = (ngram_plan){.sequences = state->dims[0] * state->dims[1],
                    .length = state->dims[2],
                    .words = probs->dims[2],
                    .group = a->ngram_size,
                    .size = (int64_t)dtype_bytes(probs->dtype)};
  loops->store[probs->dtype][COMPUTE_F64](p->least, 0, &least, 1);
  executor_cost(e, (uint64_t)(2 * probs->n * p->size) + (uint64_t)state->n * 4, (uint64_t)state->n * 8);
  e->run = probs->n ? ngram_run : move_run_nothing;
  return ST_OK;
}
