/* SPDX-License-Identifier: Apache-2.0 */
/* Runs sorts and selections over rows, see sort_rows.h. */
#include "kernel/sort/sort_rows.h"

#include "kernel/engine/level_choice.h"
#include "runtime/parallel.h"

LEVEL_CHOICE(sort_table, sorts, sorts)

enum {
  STACK_BYTES = 16 << 10, /* entries of at most so many bytes are on the stack, with a spare buffer of the same size */
  PARTS_PER_THREAD = 4,
};

typedef struct {
  const sort_plan *plan;
  void *view[SORT_OPERANDS];
  char *scratch;   /* one slot per thread */
  int64_t n_parts; /* number of chunks of rows */
} sort_job;

compute_type sort_compute_of(int dtype) {
  if (dtype_is_float(dtype)) return dtype == ACL_DOUBLE ? COMPUTE_F64 : COMPUTE_F32;
  return dtype_bytes(dtype) == 8 ? COMPUTE_I64 : COMPUTE_I32;
}

bool sort_pack(const sort_plan *p, const char *in, void *entries, int64_t first, int64_t n, bool descending) {
  _Alignas(64) char tile[SORT_BLOCK * sizeof(double)];
  bool odd = false;
  for (int64_t i = 0, block; i < n; i += block) {
    block = i64_min(SORT_BLOCK, n - i);
    const char *x = row_fetch(&p->in, tile, in + (first + i) * p->in.along, 1, block);
    odd |= p->sort->pack((char *)entries + i * p->sort->entry_bytes, x, first + i, block, descending);
  }
  return odd;
}

/* Restores the original bits of NaN and zeros from the input. */
static void sort_restore_odd(const sort_plan *p, const char *in, void *values, const int32_t *numbers, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    char *const to = (char *)values + i * p->in.size;
    const double v = p->compute == COMPUTE_F32 ? *(float *)(void *)to : *(double *)(void *)to;
    if (v == 0 || v != v) p->in.load(to, in + (int64_t)(uint32_t)numbers[i] * p->in.along, 0, 1);
  }
}

/* Writes the index tensor's elements at the given indices. */
static void sort_write_index(const sort_plan *p, const int32_t *numbers, int64_t n, const char *index, char *to) {
  int64_t found[SORT_BLOCK];
  for (int64_t i = 0; i < n; ++i)
    p->index.load(&found[i], index + (int64_t)(uint32_t)numbers[i] * p->index.along, 0, 1);
  loops->store[ACL_INT64][COMPUTE_I64](found, sizeof *found, found, n);
  p->index.store(to, p->numbers.along, found, n);
}

void sort_write(const sort_plan *p, const char *in, const void *entries, int64_t n, bool was_odd, char *const *out) {
  _Alignas(64) char tile[SORT_BLOCK * sizeof(double)];
  _Alignas(64) int32_t numbers[SORT_BLOCK];
  char *const values_out = p->values.store ? out[0] : NULL;
  char *const numbers_out = p->numbers.store ? out[values_out ? 1 : 0] : NULL;
  was_odd &= p->compute == COMPUTE_F32 || p->compute == COMPUTE_F64;
  for (int64_t i = 0, block; i < n; i += block) {
    block = i64_min(SORT_BLOCK, n - i);
    char *to = values_out ? values_out + i * p->values.along : NULL;
    void *const values = to && p->values.direct ? to : tile;
    p->sort->unpack(to ? values : NULL, numbers, (const char *)entries + i * p->sort->entry_bytes, block,
                    p->descending);
    if (to && was_odd) sort_restore_odd(p, in, values, numbers, block);
    if (to && values == tile) p->values.store(to, p->values.along, tile, block);
    if (!numbers_out) continue;
    if (p->has_index)
      sort_write_index(p, numbers, block, out[values_out ? 2 : 1], numbers_out + i * p->numbers.along);
    else
      p->numbers.store(numbers_out + i * p->numbers.along, p->numbers.along, numbers, block);
  }
}

static void sort_part(const void *job, int64_t part, int thread) {
  const sort_job *j = job;
  const sort_plan *p = j->plan;
  _Alignas(64) char stack[2 * STACK_BYTES];
  char *entries = stack, *spare = stack + STACK_BYTES;
  if (!p->on_stack) {
    entries = j->scratch + (uint64_t)thread * p->slot_bytes;
    spare = entries + p->slot_bytes / 2;
  }
  int64_t begin, end;
  parallel_share(p->rows.n, 1, part, j->n_parts, &begin, &end);
  cursor c;
  cursor_start(&c, &p->rows, j->view, begin);
  for (int64_t i = begin; i < end; ++i, cursor_next(&c, 1)) p->row(p, c.at[0], entries, spare, c.at + 1);
}

static status sort_run(const executor *e, void *const *view, void *scratch) {
  const sort_plan *p = PLAN(e, sort_plan);
  sort_job job = {.plan = p, .scratch = (char *)scratch + p->scratch};
  for (int k = 0; k < p->rows.n_operands; ++k) job.view[k] = view[p->operand[k]];
  if (!p->n || !p->n_results || !p->rows.n) return ST_OK;
  const parallel_team team = parallel_begin(e->cost_ns);
  job.n_parts = i64_min(p->rows.n, team.n_threads == 1 ? 1 : PARTS_PER_THREAD * team.n_threads);
  parallel_run(&team, sort_part, &job, job.n_parts);
  parallel_end(&team);
  return ST_OK;
}

static row_access sort_access_of(const tensor *t, compute_type compute, int64_t along) {
  return row_access_of(t->dtype, compute, along, 0, SORT_BLOCK);
}

/* The walk over the rows of the tensors that there are. along[k]: bytes from one element of a row of tensors[k] to the
 * next. */
static void sort_plan_walk(sort_plan *p, const sort_request *r, const tensor *const tensors[SORT_OPERANDS],
                           int64_t along[SORT_OPERANDS]) {
  view views[SORT_OPERANDS];
  view *used[SORT_OPERANDS];
  int n_used = 0;
  for (int k = 0; k < SORT_OPERANDS; ++k) {
    if (!tensors[k]) continue;
    views[n_used] = view_of(tensors[k]);
    used[n_used] = &views[n_used];
    p->operand[n_used] = r->operand[k];
    along[k] = k == 0 || k == 3 || r->keep_dim ? axis_take_dim(used[n_used], r->dim) : 0;
    ++n_used;
  }
  walk_init_sorted(&p->rows, (const view *const *)used, n_used, views[0].rank);
}

void sort_rows_plan(executor *e, sort_plan *p, const sort_request *r) {
  int64_t along[SORT_OPERANDS];
  p->n = r->in->rank ? r->in->dims[r->dim] : 1;
  sort_plan_walk(p, r, (const tensor *const[]){r->in, r->values, r->numbers, r->index}, along);
  const compute_type compute = sort_compute_of(r->in->dtype);
  p->compute = (uint8_t)compute;
  p->sort = &sorts->of[compute];
  p->in = sort_access_of(r->in, compute, along[0]);
  p->values.store = p->numbers.store = NULL;
  if (r->values) p->values = sort_access_of(r->values, compute, along[1]);
  if (r->numbers) p->numbers = sort_access_of(r->numbers, COMPUTE_I32, along[2]);
  p->has_index = r->index;
  if (r->index) {
    p->index = sort_access_of(r->index, COMPUTE_I64, along[3]);
    p->index.store = loops->store[r->numbers->dtype][COMPUTE_I64];
  }
  p->n_results = r->n_results;
  p->room = r->room;
  p->descending = r->descending;
  const uint64_t bytes = (uint64_t)r->room * (uint64_t)p->sort->entry_bytes;
  p->on_stack = bytes <= STACK_BYTES;
  p->scratch = 0;
  if (!p->on_stack) {
    const int64_t most = parallel_max_threads(UINT64_MAX);
    p->slot_bytes = 2 * ((bytes + 63) / 64 * 64);
    p->scratch = workspace_intermediate(e, p->slot_bytes * (uint64_t)i64_min(most, p->rows.n));
  }
  executor_cost(e, (uint64_t)r->in->n * dtype_bytes(r->in->dtype) + (uint64_t)(p->rows.n * r->n_results) * 12,
                (uint64_t)(p->rows.n * p->n) * (r->room == p->n ? 256 : 16));
  e->run = sort_run;
}

status sort_expect_dtypes(const tensor *self, const tensor *values, const char *values_name, const tensor *numbers,
                          const char *numbers_name) {
  TRY(op_expect_dtype(self, "self", DTYPES_REAL));
  EXPECT(!values || values->dtype == self->dtype, "%s has dtype %s, expected that of self, %s", values_name,
         dtype_name(values->dtype), dtype_name(self->dtype));
  if (numbers) TRY(op_expect_dtype(numbers, numbers_name, DTYPES_INDEX));
  return ST_OK;
}
