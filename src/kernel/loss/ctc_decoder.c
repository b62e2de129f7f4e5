/* SPDX-License-Identifier: Apache-2.0 */
/* CTCGreedyDecoder, which is called by name and means what TensorFlow's operator does: for each sample the likeliest
 * class at each time, without blanks (the last class), and optionally without repetitions that no blank separates. How
 * many there are is known when the task has run; it then sets the shapes of the decoded matrix. Operands are
 * contiguous. */
#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "tensor/objects.h"

typedef struct {
  int64_t n_times, n_samples, n_classes, room;
  int dtype, lengths_dtype;
  bool merges;
  store_loop *store; /* of the sums */
  uint64_t logits;   /* in scratch */
} decoder_plan;

typedef struct {
  const decoder_plan *plan;
  void *const *view;
  double *logits;
  int64_t n, longest; /* decoded so far; of a sample */
} decoder_job;

/* The likeliest class at a time, the first one of several; *most: its logit. */
static int64_t likeliest(const decoder_job *j, int64_t time, int64_t sample, double *most) {
  const decoder_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  const char *const from = j->view[GRAPH_CTC_DECODER_INPUTS];
  int64_t best = 0;
  loops->load[p->dtype][COMPUTE_F64](j->logits, from + (time * p->n_samples + sample) * p->n_classes * size, size,
                                     p->n_classes);
  for (int64_t c = 1; c < p->n_classes; ++c)
    if (j->logits[c] > j->logits[best]) best = c;
  *most = j->logits[best];
  return best;
}

static status decode_sample(decoder_job *j, int64_t sample, int64_t n_times) {
  const decoder_plan *p = j->plan;
  int64_t *const indices = j->view[GRAPH_CTC_DECODER_DECODED_INDICES];
  int64_t *const values = j->view[GRAPH_CTC_DECODER_DECODED_VALUES];
  int64_t last = -1, n = 0;
  double sum = 0;
  for (int64_t t = 0; t < n_times; ++t) {
    double most;
    const int64_t best = likeliest(j, t, sample, &most);
    sum -= most;
    if (best != p->n_classes - 1 && !(p->merges && best == last)) {
      EXPECT(j->n < p->room, "decoded_values has %jd elements, expected more", (intmax_t)p->room);
      indices[2 * j->n] = sample;
      indices[2 * j->n + 1] = n++;
      values[j->n++] = best;
    }
    last = best;
  }
  if (n > j->longest) j->longest = n;
  p->store((char *)j->view[GRAPH_CTC_DECODER_LOG_PROBABILITY] + sample * (int64_t)dtype_bytes(p->dtype), 0, &sum, 1);
  return ST_OK;
}

static status decoder_run(const executor *e, void *const *view, void *scratch) {
  const decoder_plan *p = PLAN(e, decoder_plan);
  decoder_job j = {.plan = p, .view = view, .logits = (double *)(void *)((char *)scratch + p->logits)};
  const int64_t size = (int64_t)dtype_bytes(p->lengths_dtype);
  for (int64_t sample = 0; sample < p->n_samples; ++sample) {
    int64_t n_times;
    loops->load[p->lengths_dtype][COMPUTE_I64](
        &n_times, (const char *)view[GRAPH_CTC_DECODER_SEQUENCE_LENGTH] + sample * size, 0, 1);
    if (n_times < 0 || n_times > p->n_times)
      return fail(ST_DEVICE_EXCEPTION, "sequence_length[%jd] is %jd, expected 0 to %jd", (intmax_t)sample,
                  (intmax_t)n_times, (intmax_t)p->n_times);
    TRY(decode_sample(&j, sample, n_times));
  }
  int64_t *const shape = view[GRAPH_CTC_DECODER_DECODED_SHAPE];
  shape[0] = p->n_samples;
  shape[1] = j.longest;
  tensor_set_shape(e->results[0], (const int64_t[]){j.n, 2}, 2);
  tensor_set_shape(e->results[1], &j.n, 1);
  return ST_OK;
}

status prepare_graph_ctc_decoder(executor *e, const graph_ctc_decoder_args *a) {
  const tensor *inputs = a->inputs, *indices = a->decoded_indices, *values = a->decoded_values;
  decoder_plan *p = PLAN(e, decoder_plan);
  TRY(op_expect_dtype(inputs, "inputs", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_DOUBLE)));
  TRY(op_expect_rank(inputs, "inputs", 3, 3));
  EXPECT(inputs->dims[2] > 0, "inputs has shape %s, expected classes", SHAPE_OF(inputs));
  TRY(op_expect_dtype(a->sequence_length, "sequence_length", DTYPES_INDEX));
  TRY(op_expect_shape(a->sequence_length, "sequence_length", &inputs->dims[1], 1));
  TRY(op_expect_dtype(indices, "decoded_indices", DTYPE_BIT(ACL_INT64)));
  TRY(op_expect_dtype(values, "decoded_values", DTYPE_BIT(ACL_INT64)));
  TRY(op_expect_rank(values, "decoded_values", 1, 1));
  TRY(op_expect_shape(indices, "decoded_indices", (const int64_t[]){values->dims[0], 2}, 2));
  TRY(op_expect_dtype(a->decoded_shape, "decoded_shape", DTYPE_BIT(ACL_INT64)));
  TRY(op_expect_shape(a->decoded_shape, "decoded_shape", (const int64_t[]){2}, 1));
  TRY(op_expect_dtype(a->log_probability, "log_probability", DTYPE_BIT(inputs->dtype)));
  TRY(op_expect_shape(a->log_probability, "log_probability", (const int64_t[]){inputs->dims[1], 1}, 2));
  *p = (decoder_plan){.n_times = inputs->dims[0],
                      .n_samples = inputs->dims[1],
                      .n_classes = inputs->dims[2],
                      .room = values->n,
                      .dtype = inputs->dtype,
                      .lengths_dtype = a->sequence_length->dtype,
                      .merges = a->merge_repeated,
                      .store = loops->store[inputs->dtype][COMPUTE_F64],
                      .logits = workspace_intermediate(e, (uint64_t)inputs->dims[2] * sizeof(double))};
  executor_result(e, indices, indices, 0);
  executor_result(e, values, values, 0);
  e->run = decoder_run;
  executor_cost(e, (uint64_t)inputs->n * dtype_bytes(inputs->dtype), (uint64_t)inputs->n * 16);
  return ST_OK;
}
