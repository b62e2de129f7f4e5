/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of operands, sequences of different lengths and conversions for networks of several layers; see network.h. */
#include "kernel/recurrent/network.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 48 };

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static status sizes_of_fixed(network *n, const tensor *input, const char *name) {
  TRY(op_expect_rank(input, name, 3, 3));
  n->steps = input->dims[n->batch_first], n->batch = input->dims[!n->batch_first];
  n->rows = n->steps * n->batch;
  return ST_OK;
}

static status sizes_of_padded(network *n, const tensor *input, const char *name) {
  TRY(op_expect_rank(input, name, 2, 3));
  if (input->rank == 3) {
    const int64_t steps = n->steps;
    TRY(sizes_of_fixed(n, input, name));
    EXPECT(n->steps == steps, "%s has shape %s, expected %jd steps, as there are batch sizes", name, SHAPE_OF(input),
           (intmax_t)steps);
    return ST_OK;
  }
  n->rows = input->dims[0];
  EXPECT(n->steps > 0 && n->rows % n->steps == 0, "%s has shape %s, expected a multiple of %jd rows, the steps", name,
         SHAPE_OF(input), (intmax_t)n->steps);
  n->batch = n->rows / n->steps;
  return ST_OK;
}

status network_sizes(network *n, const tensor *input, const char *name, const tensor *batch_sizes,
                     const char *sizes_name, int sizes_operand, bool packed) {
  TRY(op_expect_dtype(input, name, DTYPES_FLOAT_TO_32));
  n->dtype = input->dtype;
  n->form = !batch_sizes ? SEQUENCES_FIXED : packed ? SEQUENCES_PACKED : SEQUENCES_PADDED;
  n->batch_sizes = (network_operand){.operand = -1};
  if (batch_sizes) {
    TRY(op_expect_dtype(batch_sizes, sizes_name, DTYPES_INDEX));
    TRY(op_expect_rank(batch_sizes, sizes_name, 1, 1));
    n->steps = batch_sizes->dims[0];
    n->batch_sizes = (network_operand){
        .operand = sizes_operand, .dtype = batch_sizes->dtype, .stride = {0, 0, view_of(batch_sizes).strides[0]}};
  }
  if (n->form == SEQUENCES_PACKED) {
    TRY(op_expect_rank(input, name, 2, 2));
    n->rows = input->dims[0];
  } else {
    TRY(batch_sizes ? sizes_of_padded(n, input, name) : sizes_of_fixed(n, input, name));
  }
  n->inputs = input->dims[input->rank - 1];
  EXPECT(n->inputs > 0, "%s has shape %s, expected columns", name, SHAPE_OF(input));
  return ST_OK;
}

status network_expect(const network *n, const tensor *t, const char *name, int operand, const int64_t *dims, int rank,
                      network_operand *to) {
  *to = (network_operand){.operand = -1};
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(n->dtype)));
  TRY(op_expect_shape(t, name, dims, rank));
  const view v = view_of(t);
  to->operand = operand;
  to->dtype = t->dtype;
  for (int d = 0; d < rank; ++d) to->stride[3 - rank + d] = v.strides[d];
  return ST_OK;
}

status network_expect_states(const network *n, const tensor *t, const char *name, int operand, network_operand *to) {
  return network_expect(n, t, name, operand, (const int64_t[]){n->layers * n->directions, n->batch, n->hidden}, 3, to);
}

status network_expect_sequence(const network *n, const tensor *t, const char *name, int operand, int64_t columns,
                               network_operand *to) {
  const int64_t dims[2][3] = {{n->steps, n->batch, columns}, {n->batch, n->steps, columns}},
                matrix_dims[] = {n->rows, columns};
  if (n->form == SEQUENCES_PACKED || (n->form == SEQUENCES_PADDED && t && t->rank == 2)) {
    TRY(network_expect(n, t, name, operand, matrix_dims, 2, to));
    to->stride[0] = n->batch * to->stride[1];
    return ST_OK;
  }
  TRY(network_expect(n, t, name, operand, dims[n->batch_first], 3, to));
  if (n->batch_first) {
    const int64_t outer = to->stride[0];
    to->stride[0] = to->stride[1], to->stride[1] = outer;
  }
  return ST_OK;
}

status network_expect_list(const network *n, const aclTensorList *list, const char *name, int operand,
                           const int64_t *dims, int rank, network_operand *to, int64_t pitch) {
  const uint64_t size = (uint64_t)(n->layers * n->directions);
  TRY(op_expect_size(list->size, name, size));
  for (uint64_t i = 0; i < size; ++i) {
    char member[NAME_BYTES];
    snprintf(member, sizeof member, "%s[%ju]", name, (uintmax_t)i);
    TRY(network_expect(n, list->value[i], member, operand + (int)i, dims, rank, to + (int64_t)i * pitch));
  }
  return ST_OK;
}

status network_expect_parameters(const network *n, const aclTensorList *list, const char *name, int operand, int gates,
                                 bool biased, network_operand *to, int64_t pitch, int64_t bias) {
  const int each = biased ? 4 : 2;
  TRY(op_expect_size(list->size, name, (uint64_t)(n->layers * n->directions * each)));
  for (int64_t i = 0; i < n->layers * n->directions; ++i, to += pitch) {
    to[bias] = to[bias + 1] = (network_operand){.operand = -1};
    for (int k = 0; k < each; ++k) {
      const int64_t at = i * each + k;
      const int64_t dims[] = {gates * n->hidden, k ? n->hidden : network_inputs(n, i / n->directions)};
      char member[NAME_BYTES];
      snprintf(member, sizeof member, "%s[%jd]", name, (intmax_t)at);
      TRY(network_expect(n, list->value[at], member, operand + (int)at, dims, k < 2 ? 2 : 1,
                         to + (k < 2 ? k : bias + k - 2)));
    }
  }
  return ST_OK;
}

recurrent network_step_sizes(const network *n) {
  return (recurrent){
      .steps = n->form == SEQUENCES_FIXED ? n->steps : 1, .batch = n->batch, .inputs = n->inputs, .hidden = n->hidden};
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

static int64_t batch_size_at(const network *n, void *const *view, int64_t step) {
  const void *const at = (const char *)view[n->batch_sizes.operand] + step * n->batch_sizes.stride[2];
  return n->batch_sizes.dtype == ACL_INT32 ? *(const int32_t *)at : *(const int64_t *)at;
}

status network_find_steps(const network *n, void *const *view, network_step *steps) {
  int64_t first = 0, before = n->batch;
  for (int64_t t = 0; t < n->steps; ++t) {
    const int64_t count = n->form == SEQUENCES_FIXED ? n->batch : batch_size_at(n, view, t);
    if (count < 0 || count > before)
      return fail(ST_DEVICE_EXCEPTION, "the batch size of step %jd is %jd, expected 0 to %jd", (intmax_t)t,
                  (intmax_t)count, (intmax_t)before);
    steps[t] = (network_step){first, count};
    first += n->form == SEQUENCES_PACKED ? count : n->batch;
    before = count;
  }
  if (n->form == SEQUENCES_PACKED && first != n->rows)
    return fail(ST_DEVICE_EXCEPTION, "the sum of the batch sizes is %jd, expected %jd, the rows of x", (intmax_t)first,
                (intmax_t)n->rows);
  return ST_OK;
}

static char *operand_row(const network_operand *o, void *const *view, int64_t outer, int64_t row) {
  return (char *)view[o->operand] + outer * o->stride[0] + row * o->stride[1];
}

void network_load(const network_operand *o, void *const *view, int64_t outer, int64_t row, float *to, int64_t columns) {
  if (o->operand < 0)
    memset(to, 0, (size_t)columns * sizeof *to);
  else
    loops->load[o->dtype][COMPUTE_F32](to, operand_row(o, view, outer, row), o->stride[2], columns);
}

void network_store(const network_operand *o, void *const *view, int64_t outer, int64_t row, const float *from,
                   int64_t columns) {
  if (o->operand >= 0)
    loops->store[o->dtype][COMPUTE_F32](operand_row(o, view, outer, row), o->stride[2], from, columns);
}

/* The indices of the first row of a step in the operand: packed rows are those of one step. */
static int64_t outer_of(const network_sequence *s, int64_t step) { return s->n->form == SEQUENCES_PACKED ? 0 : step; }
static int64_t row_of(const network_sequence *s, int64_t step) {
  return s->n->form == SEQUENCES_PACKED ? s->steps[step].first : 0;
}
static int64_t rows_of_step(const network_sequence *s, int64_t step) {
  return s->n->form == SEQUENCES_PACKED ? s->steps[step].count : s->n->batch;
}

static void load_steps(const void *job, int64_t begin, int64_t end) {
  const network_sequence *s = job;
  for (int64_t t = begin; t < end; ++t)
    for (int64_t row = 0; row < rows_of_step(s, t); ++row) {
      float *const to = s->floats + (s->steps[t].first + row) * s->pitch;
      if (row < s->steps[t].count)
        network_load(s->operand, s->view, outer_of(s, t), row_of(s, t) + row, to, s->columns);
      else
        memset(to, 0, (size_t)s->columns * sizeof *to);
    }
}

static void store_steps(const void *job, int64_t begin, int64_t end) {
  const network_sequence *s = job;
  for (int64_t t = begin; t < end; ++t)
    for (int64_t row = 0; row < rows_of_step(s, t); ++row)
      network_store(s->operand, s->view, outer_of(s, t), row_of(s, t) + row,
                    s->floats + (s->steps[t].first + row) * s->pitch, s->columns);
}

static uint64_t sequence_cost_ns(const network_sequence *s) { return (uint64_t)(s->n->rows * s->columns) / 2; }

void network_load_sequence(const network_sequence *s) {
  rows_parallel(load_steps, s, s->n->steps, 1, sequence_cost_ns(s));
}

void network_store_sequence(const network_sequence *s) {
  rows_parallel(store_steps, s, s->n->steps, 1, sequence_cost_ns(s));
}

void network_load_states(const network *n, const network_operand *o, void *const *view, int64_t outer, float *to) {
  for (int64_t row = 0; row < n->batch; ++row) network_load(o, view, outer, row, to + row * n->hidden, n->hidden);
}

void network_store_states(const network *n, const network_operand *o, void *const *view, int64_t outer,
                          const float *from) {
  for (int64_t row = 0; row < n->batch; ++row) network_store(o, view, outer, row, from + row * n->hidden, n->hidden);
}

matrix network_matrix(const network_operand *o, void *const *view, int64_t rows, int64_t columns) {
  return (matrix){.at = o->operand < 0 ? NULL : view[o->operand],
                  .dtype = o->dtype,
                  .rows = rows,
                  .cols = columns,
                  .row_stride = o->stride[1],
                  .col_stride = o->stride[2]};
}
