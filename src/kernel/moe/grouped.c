/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/moe/grouped.h"

#include <string.h>

#include "kernel/quant/nibbles.h"

/* ---- execution --------------------------------------------------------------------------------------------------- */

typedef struct {
  quant_weight weight; /* first, where the weight's functions find it */
  scaled_sums sums;
  const char *bias, *row_scale; /* GROUPED_NIBBLES; NULL: none */
  const group_form *form;
  int64_t row_scale_step;
} group_context;

enum { COLUMN_VECTORS = 3 }; /* scale, offset and bias as doubles */

void grouped_plan(executor *e, grouped_product *p, const group_form *forms) {
  const uint64_t n = (uint64_t)p->n_groups;
  uint64_t bytes = e->touched_bytes, ns = 0;
  p->most_cols = 0;
  for (int64_t i = 0; i < p->n_forms; ++i) {
    product_plan whole = forms[i].product;
    p->most_cols = i64_max(p->most_cols, whole.out.cols);
    product_choose(&whole, NULL);
    ns += whole.cost_ns;
    bytes += (uint64_t)(forms[i].product.a.rows * forms[i].product.a.cols) * dtype_bytes(whole.a.dtype) +
             (uint64_t)(forms[i].product.out.rows * forms[i].product.out.cols) * dtype_bytes(whole.out.dtype) +
             (uint64_t)(forms[i].product.b.rows * forms[i].product.b.cols) *
                 (p->n_forms == 1 && !p->along_depth ? n : 1) * dtype_bytes(whole.b.dtype);
    executor_products(e, (double)whole.out.rows * (double)whole.out.cols * (double)whole.a.cols);
  }
  p->calls = workspace_intermediate(e, n * sizeof(product_call));
  p->plans = workspace_intermediate(e, n * sizeof(product_plan));
  p->contexts = workspace_intermediate(e, n * sizeof(group_context));
  if (p->kind == GROUPED_SUMS)
    p->columns = workspace_intermediate(e, n * (uint64_t)p->most_cols * COLUMN_VECTORS * sizeof(double));
  if (p->kind == GROUPED_NIBBLES) {
    p->columns = workspace_intermediate(e, n * (uint64_t)(p->most_cols * forms->weight.n_groups) * sizeof(float));
    p->numbers = workspace_intermediate(e, (uint64_t)(p->x_given.rows * p->x_given.cols) * sizeof(float));
  }
  executor_cost(e, bytes, (ns + e->cost_ns) * 32);
}

static char *group_address(const group_place *p, void *const *view, int64_t group) {
  if (p->operand < 0) return NULL;
  char *const at = view[p->operand + (p->listed ? group : 0)];
  return at && !p->listed ? at + group * p->step : at;
}

/* One group while it is prepared to be run. */
typedef struct {
  const grouped_product *p;
  const group_form *form;
  void *const *view;
  int64_t group;
  group_range range;
  const char *numbers; /* x as floats; or NULL */
} group_run;

static void set_weight_context(const group_run *r, quant_weight *c) {
  *c = (quant_weight){.form = r->form->weight,
                      .scale = group_address(&r->p->scale, r->view, r->group),
                      .offset = group_address(&r->p->offset, r->view, r->group)};
}

static void set_sums_context(const group_run *r, double *columns, scaled_sums *s) {
  const grouped_product *p = r->p;
  const group_form *f = r->form;
  const int64_t n = f->product.out.cols;
  const char *const scale = group_address(&p->scale, r->view, r->group);
  const bool is_int8 = f->product.out.dtype == ACL_INT8;
  const bool words = f->offset.dtype == ACL_INT64 || f->offset.dtype == ACL_UINT64;
  const char *const offset = words ? scale : group_address(&p->offset, r->view, r->group);
  const double *const bias =
      column_values_load(&f->bias, group_address(&p->bias, r->view, r->group), false, columns + 2 * n, n);
  const bool before = is_int8 || f->bias.dtype == ACL_INT32;
  *s = (scaled_sums){.rows = i64_max(r->range.count, 1),
                     .activation = p->activation,
                     .activation_parameter = p->activation_parameter,
                     .row_scale_step = p->row_scale_step};
  s->columns.before = before ? bias : NULL;
  s->columns.scale = column_values_load(&f->scale, scale, false, columns, n);
  s->columns.after = is_int8 ? column_values_load(&f->offset, offset, true, columns + n, n) : before ? NULL : bias;
  if (p->row_scale >= 0) s->row_scale = (const char *)r->view[p->row_scale] + r->range.begin * p->row_scale_step;
}

/* Reads the scales of a group, floats in the lower halves of words, into `to`. */
static void set_nibbles_context(const group_run *r, float *to, group_context *c) {
  const grouped_product *p = r->p;
  const int64_t n = r->form->product.out.cols;
  const char *const words = group_address(&p->scale, r->view, r->group);
  for (int64_t part = 0; part < r->form->weight.n_groups; ++part)
    for (int64_t j = 0; j < n; ++j)
      memcpy(&to[part * n + j], words + part * p->words.group_stride + j * p->words.col_stride, sizeof *to);
  c->weight = (quant_weight){.form = r->form->weight, .scale = (const char *)to};
  c->form = r->form;
  c->bias = group_address(&p->bias, r->view, r->group);
  c->row_scale_step = p->row_scale_step;
  c->row_scale = p->row_scale < 0 ? NULL : (const char *)r->view[p->row_scale] + r->range.begin * p->row_scale_step;
}

void grouped_finish_nibbles(const product_part *part, int64_t row, int64_t rows, int64_t col, int64_t cols,
                            const char *sums, int64_t ld) {
  enum { CHUNK = 512 };
  _Alignas(64) float x[CHUNK], bias[CHUNK] = {0};
  const group_context *c = part->call->context;
  const column_values *b = &c->form->bias;
  const matrices *out = &part->plan->out;
  for (int64_t j = 0, n; j < cols; j += n) {
    n = i64_min(CHUNK, cols - j);
    if (c->bias) loops->load[b->dtype][COMPUTE_F32](bias, c->bias + (col + j) * b->step, b->step, n);
    for (int64_t i = 0; i < rows; ++i) {
      const float *const from = (const float *)(const void *)sums + i * ld + j;
      float by = 1;
      if (c->row_scale) memcpy(&by, c->row_scale + (row + i) * c->row_scale_step, sizeof by);
      for (int64_t l = 0; l < n; ++l) x[l] = (from[l] + bias[l]) * by;
      loops->store[out->dtype][COMPUTE_F32](part->out + (row + i) * out->row_stride + (col + j) * out->col_stride,
                                            out->col_stride, x, n);
    }
  }
}

typedef struct {
  const grouped_product *p;
  const char *from;
  float *to;
} numbers_job;

/* Rows of x as floats: int8 less 8, or int4. */
static void nibbles_numbers(const void *job, int64_t begin, int64_t end) {
  enum { CHUNK = 512 };
  const numbers_job *j = job;
  const matrices *x = &j->p->x_given;
  int8_t unpacked[CHUNK];
  for (int64_t row = begin; row < end; ++row)
    for (int64_t col = 0, n; col < x->cols; col += n) {
      n = i64_min(CHUNK, x->cols - col);
      float *const to = j->to + row * x->cols + col;
      if (x->dtype == ACL_INT4) {
        nibbles_unpack(unpacked, j->from + (row * x->cols + col) / 2, n);
        loops->load[ACL_INT8][COMPUTE_F32](to, unpacked, 1, n);
        continue;
      }
      loops->load[ACL_INT8][COMPUTE_F32](to, j->from + row * x->row_stride + col * x->col_stride, x->col_stride, n);
      for (int64_t i = 0; i < n; ++i) to[i] -= 8;
    }
}

/* Fills in the plan of the group and its call, without the context. */
static void set_call(const group_run *r, product_plan *plan, product_call *c) {
  const grouped_product *p = r->p;
  const matrices *a = &r->form->product.a, *b = &r->form->product.b, *out = &r->form->product.out;
  *plan = r->form->product;
  *c = (product_call){.plan = plan};
  if (p->along_depth)
    plan->a.cols = plan->b.rows = r->range.count;
  else
    plan->a.rows = plan->out.rows = plan->self.rows = r->range.count;
  const char *x = r->numbers ? r->numbers : group_address(&p->x, r->view, r->group);
  const char *w = group_address(&p->weight, r->view, r->group);
  char *y = group_address(&p->out, r->view, r->group);
  if (x && !p->x.listed) x += r->range.begin * (p->along_depth ? a->col_stride : a->row_stride);
  if (w && !p->weight.listed && p->along_depth) w += r->range.begin * b->row_stride;
  if (y && !p->out.listed && !p->along_depth) y += r->range.begin * out->row_stride;
  c->a = x, c->b = w, c->out = y;
  if (plan->has_self) c->self = group_address(&p->bias, r->view, r->group);
  product_choose(plan, NULL);
}

status grouped_run(const grouped_product *p, const group_form *forms, void *const *view, const group_range *range,
                   void *scratch) {
  char *const at = scratch;
  product_call *const calls = (product_call *)(void *)(at + p->calls);
  product_plan *const plans = (product_plan *)(void *)(at + p->plans);
  group_context *const contexts = (group_context *)(void *)(at + p->contexts);
  double *const columns = (double *)(void *)(at + p->columns);
  const char *numbers = NULL;
  if (p->kind == GROUPED_NIBBLES) {
    const numbers_job job = {p, view[p->x.operand], (float *)(void *)(at + p->numbers)};
    rows_parallel(nibbles_numbers, &job, p->x_given.rows, 1, (uint64_t)(p->x_given.rows * p->x_given.cols) / 4);
    numbers = at + p->numbers;
  }
  int64_t n = 0;
  for (int64_t g = 0; g < p->n_groups; ++g) {
    const group_run r = {p, &forms[p->n_forms > 1 ? g : 0], view, g, range[g], numbers};
    set_call(&r, &plans[n], &calls[n]);
    if (plans[n].n_batches == 0) continue;
    calls[n].context = p->kind == GROUPED_SUMS ? (const void *)&contexts[n].sums : &contexts[n];
    if (p->kind == GROUPED_WEIGHTS) set_weight_context(&r, &contexts[n].weight);
    if (p->kind == GROUPED_SUMS) set_sums_context(&r, columns + n * COLUMN_VECTORS * p->most_cols, &contexts[n].sums);
    if (p->kind == GROUPED_NIBBLES)
      set_nibbles_context(&r, (float *)(void *)columns + n * p->most_cols * r.form->weight.n_groups, &contexts[n]);
    ++n;
  }
  return product_run(calls, n);
}

status grouped_ranges(group_list_form form, const char *list, int64_t stride, int64_t pair_stride, int64_t n,
                      int64_t total, const char *name, status code, group_range *range) {
  memset(range, 0, (size_t)n * sizeof *range);
  int64_t begin = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t group = i, value;
    memcpy(&value, list + i * stride + (form == GROUPS_BY_PAIR ? pair_stride : 0), sizeof value);
    if (form == GROUPS_BY_PAIR) memcpy(&group, list + i * stride, sizeof group);
    if (group < 0 || group >= n)
      return fail(code, "%s[%jd][0] is %jd, expected 0 to %jd", name, (intmax_t)i, (intmax_t)group, (intmax_t)n - 1);
    const int64_t least = form == GROUPS_BY_END ? begin : 0, most = form == GROUPS_BY_END ? total : total - begin;
    if (value < least || value > most)
      return fail(code, "%s[%jd] is %jd, expected %jd to %jd: the axis has %jd elements", name, (intmax_t)i,
                  (intmax_t)value, (intmax_t)least, (intmax_t)most, (intmax_t)total);
    range[group] = (group_range){begin, form == GROUPS_BY_END ? value - begin : value};
    begin += range[group].count;
  }
  return ST_OK;
}

/* ---- preparation ------------------------------------------------------------------------------------------------- */

status grouped_rows(const tensor *t, const char *name, matrices *m) {
  const view v = view_of(t);
  EXPECT(v.rank >= 2, "%s has shape %s, expected 2 or more dimensions", name, SHAPE_OF(t));
  *m = (matrices){.dtype = t->dtype, .rows = 1, .cols = v.dims[v.rank - 1], .col_stride = v.strides[v.rank - 1]};
  for (int d = v.rank - 2; d >= 0; --d) {
    if (v.dims[d] != 1 && m->rows == 1)
      m->row_stride = v.strides[d];
    else
      EXPECT(v.dims[d] == 1 || t->n == 0 || v.strides[d] == m->rows * m->row_stride,
             "%s has shape %s and gaps between its rows, expected rows at equal distances", name, SHAPE_OF(t));
    m->rows *= v.dims[d];
  }
  return ST_OK;
}

/* Sets the operand's offset and extent in bytes, as there are two elements of int4 in a byte. */
static void int4_extent(operand *o, const tensor *t) {
  int64_t last = 0;
  for (int d = 0; d < t->rank; ++d) last += (t->dims[d] - 1) * t->strides[d];
  o->offset_bytes = (uint64_t)t->offset / 2;
  if (o->extent_bytes) o->extent_bytes = o->moved_bytes = (uint64_t)(last + (t->offset & 1)) / 2 + 1;
}

status grouped_weight(executor *e, int operand, const tensor *t, const char *name, int64_t k, group_weight *w) {
  const int r = t->rank;
  EXPECT(r == 2 || r == 3, "%s has shape %s, expected 2 or 3 dimensions", name, DIMS_TEXT(t->dims, r));
  *w = (group_weight){.dtype = t->dtype, .n_groups = r == 3 ? t->dims[0] : 0, .k = t->dims[r - 2], .n = t->dims[r - 1]};
  int64_t unit = (int64_t)dtype_bytes(t->dtype);
  w->step = r == 3 ? t->strides[0] : 0;
  w->row_stride = t->strides[r - 2], w->col_stride = t->strides[r - 1];
  if (t->dtype == ACL_INT32) {
    const bool along_k = w->k != k;
    int64_t *const packed = along_k ? &w->row_stride : &w->col_stride, *const other =
                                                                           along_k ? &w->col_stride : &w->row_stride;
    EXPECT(*packed == 1 || t->n == 0, "%s has shape %s and gaps between the words of 8 int4, expected none", name,
           DIMS_TEXT(t->dims, r));
    *(along_k ? &w->k : &w->n) *= 8;
    w->dtype = ACL_INT4;
    *other *= 8, w->step *= 8;
    *packed = unit = 1;
  } else if (t->dtype == ACL_INT4) {
    int4_extent(&e->operands[operand], t);
    w->first_half = (int)(t->offset & 1);
    EXPECT(w->step % 2 == 0, "%s has shape %s, expected matrices of an even number of int4", name,
           DIMS_TEXT(t->dims, r));
  }
  EXPECT(w->k == k, "%s has shape %s, expected a depth of %jd, that of x", name, DIMS_TEXT(t->dims, r), (intmax_t)k);
  if (w->dtype == ACL_INT4) {
    w->step /= 2;
    return ST_OK;
  }
  w->step *= unit, w->row_stride *= unit, w->col_stride *= unit;
  return ST_OK;
}

void grouped_set_weight(const group_weight *w, group_form *f) {
  product_plan *p = &f->product;
  const bool is_int4 = w->dtype == ACL_INT4;
  p->b = (matrices){.dtype = is_int4 ? ACL_INT8 : w->dtype,
                    .rows = w->k,
                    .cols = w->n,
                    .row_stride = w->row_stride,
                    .col_stride = w->col_stride};
  if (!f->weight.n_groups) return;
  f->weight.is_int4 = is_int4;
  f->weight.row_stride = w->row_stride, f->weight.col_stride = w->col_stride;
  f->weight.first_half = w->first_half;
  p->made_b = weight_quant_factor(&f->weight, p);
}

/* Splits off the dimension of groups, and drops one of size 1 in the middle. Returns false if the shape has none. */
static bool columns_view(const tensor *t, int64_t n_groups, view *v, int64_t *step) {
  *v = view_of(t);
  *step = 0;
  if (n_groups) {
    if (v->rank == 0 || v->dims[0] != n_groups) return n_groups == 1 && v->rank == 1;
    *step = v->strides[0];
    --v->rank;
    memmove(v->dims, v->dims + 1, (size_t)v->rank * sizeof *v->dims);
    memmove(v->strides, v->strides + 1, (size_t)v->rank * sizeof *v->strides);
  }
  if (v->rank == 2 && v->dims[0] == 1) {
    v->rank = 1;
    v->dims[0] = v->dims[1], v->strides[0] = v->strides[1];
  }
  return true;
}

status grouped_columns(const tensor *t, const char *name, uint64_t dtypes, int64_t n_groups, int64_t n, bool one,
                       column_values *c, int64_t *step) {
  view v;
  TRY(op_expect_dtype(t, name, dtypes));
  bool fits = columns_view(t, n_groups, &v, step);
  const bool single = v.rank == 0 || v.dims[0] == 1;
  fits = fits && v.rank <= 1 && ((v.rank == 1 && v.dims[0] == n) || (single && one));
  EXPECT(fits, "%s has shape %s, expected %s%jd]%s", name, SHAPE_OF(t), n_groups ? "the number of groups and [" : "[",
         (intmax_t)n, one ? " or [1]" : "");
  *c = (column_values){(int8_t)t->dtype, single ? 0 : v.strides[0]};
  return ST_OK;
}

status grouped_parameters(const tensor *t, const char *name, uint64_t dtypes, int64_t n_groups, int64_t n,
                          weight_parameters *x, int64_t *parts, int64_t *step) {
  view v;
  TRY(op_expect_dtype(t, name, dtypes));
  const bool fits = columns_view(t, n_groups, &v, step);
  EXPECT(fits && (v.rank == 1 || v.rank == 2) && v.dims[v.rank - 1] == n, "%s has shape %s, expected %s%jd]", name,
         SHAPE_OF(t), n_groups ? "the number of groups, that of parts of the depth, and [" : "[", (intmax_t)n);
  *parts = v.rank == 2 ? v.dims[0] : 1;
  *x = (weight_parameters){
      .dtype = t->dtype, .group_stride = v.rank == 2 ? v.strides[0] : 0, .col_stride = v.strides[v.rank - 1]};
  return ST_OK;
}

elementwise_loop *grouped_activation(int64_t number, compute_value *parameter) {
  static const int16_t loop_of[] = {[1] = EW_relu, [2] = EW_gelu_tanh, [4] = EW_swish, [5] = EW_silu};
  if (number < 1 || number > 5 || number == 3) return NULL;
  parameter[0].f32 = 1.702F; /* the slope of FastGelu, x * sigmoid(1.702 x) */
  return loops->elementwise[loop_of[number]][COMPUTE_F32];
}
