/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum: a sum of products over labelled dimensions, as NumPy and PyTorch have it, without ellipses. Operands are
 * joined from left to right. A join is a batch of GEMMs of packed copies: a label of both operands and of the result is
 * a batch dimension, one of an operand and the result is a row or a column, and one that no later operand and not the
 * output needs is summed. Intermediate results of 16-bit floats are floats. */
#include <ctype.h>
#include <string.h>

#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/move/move.h"
#include "kernel/product/product.h"

enum { LABELS = 52, MOST_LABELS = MOVE_RANK, FROM_WORKSPACE = -1, ONES = -2 };

/* A set of labels, one bit each. */
typedef uint64_t label_set;

/* An operand or an intermediate result: where its elements are, by label. */
typedef struct {
  int place; /* index among the executor's operands, FROM_WORKSPACE, or ONES: the number 1 everywhere */
  uint64_t offset;
  int dtype;
  label_set labels;
  int64_t stride[LABELS]; /* bytes; 0 for labels that it lacks */
} einsum_operand;

typedef struct {
  uint64_t to;     /* offset in the workspace */
  int place;       /* of the source */
  uint64_t offset; /* of the source in the workspace */
  int64_t n;       /* elements; for ONES */
  int dtype;
  move_plan move;
} einsum_pack;

typedef struct {
  einsum_pack a, b;
  product_plan product;
  uint64_t result;
  int64_t n; /* elements of the result */
} einsum_step;

typedef struct {
  int n_steps, out;
  move_plan to_out;
  int source; /* of to_out: FROM_WORKSPACE, or an operand if there are no steps */
  uint64_t offset;
  einsum_step step[];
} einsum_plan;

/* What is known while the plan is made. */
typedef struct {
  int64_t size[LABELS]; /* of each label; -1: it does not occur */
  const char *term[MAX_RANK * 4];
  int n_terms;
  const char *output; /* NULL: the labels that occur once, in alphabetical order */
} einsum_equation;

static int label_of(char c) { return c >= 'a' ? c - 'a' + 26 : c - 'A'; }

/* ---- running ----------------------------------------------------------------------------------------------------- */

static const void *einsum_source(int place, uint64_t offset, void *const *view, const char *workspace) {
  return place == FROM_WORKSPACE ? workspace + offset : view[place];
}

static void pack_factor(const einsum_pack *p, void *const *view, char *workspace, uint64_t cost_ns) {
  const double one = 1;
  if (p->place == ONES)
    for (int64_t i = 0; i < p->n; ++i)
      loops->store[p->dtype][COMPUTE_F64](workspace + p->to + (uint64_t)i * dtype_bytes(p->dtype), 0, &one, 1);
  else
    move_run(&p->move, workspace + p->to, einsum_source(p->place, p->offset, view, workspace), cost_ns);
}

static status run_einsum(const executor *e, void *const *view, void *scratch) {
  const einsum_plan *p = e->heap;
  char *const workspace = scratch;
  for (int i = 0; i < p->n_steps; ++i) {
    const einsum_step *s = &p->step[i];
    if (s->n == 0) continue;
    pack_factor(&s->a, view, workspace, e->cost_ns);
    pack_factor(&s->b, view, workspace, e->cost_ns);
    product_call call = {
        .plan = &s->product, .a = workspace + s->a.to, .b = workspace + s->b.to, .out = workspace + s->result};
    TRY(product_run(&call, 1));
  }
  move_run(&p->to_out, view[p->out], einsum_source(p->source, p->offset, view, workspace), e->cost_ns);
  return ST_OK;
}

/* ---- the equation ------------------------------------------------------------------------------------------------ */

/* Splits `text`, a copy of the equation without spaces, which is changed. */
static status split_equation(char *text, uint64_t n_tensors, einsum_equation *q) {
  char *const arrow = strstr(text, "->");
  *q = (einsum_equation){.n_terms = 1, .term = {text}};
  if (arrow) {
    *arrow = 0;
    q->output = arrow + 2;
  }
  for (char *c = text; *c; ++c) {
    if (*c != ',') continue;
    *c = 0;
    EXPECT(q->n_terms < (int)(sizeof q->term / sizeof *q->term), "equation has more than %d terms",
           (int)(sizeof q->term / sizeof *q->term));
    q->term[q->n_terms++] = c + 1;
  }
  EXPECT((uint64_t)q->n_terms == n_tensors, "equation has %d terms, expected %ju, one for each tensor", q->n_terms,
         (uintmax_t)n_tensors);
  for (int l = 0; l < LABELS; ++l) q->size[l] = -1;
  return ST_OK;
}

static status read_operand(einsum_equation *q, int term, const tensor *t, einsum_operand *o) {
  const char *const labels = q->term[term];
  const view v = view_of(t);
  *o = (einsum_operand){.place = term, .dtype = t->dtype};
  EXPECT((int)strlen(labels) == t->rank, "tensors[%d] has shape %s, expected %d dimensions as its term is \"%s\"", term,
         SHAPE_OF(t), (int)strlen(labels), labels);
  for (int d = 0; d < t->rank; ++d) {
    EXPECT(isalpha((unsigned char)labels[d]), "equation has the character '%c', expected letters (no ellipsis)",
           labels[d]);
    const int l = label_of(labels[d]);
    EXPECT(q->size[l] < 0 || q->size[l] == t->dims[d], "dimension %d of tensors[%d] is %jd, expected %jd, that of '%c'",
           d, term, (intmax_t)t->dims[d], (intmax_t)q->size[l], labels[d]);
    q->size[l] = t->dims[d];
    o->labels |= UINT64_C(1) << l;
    o->stride[l] += v.strides[d];
  }
  return ST_OK;
}

/* The output's labels in order. Without an output in the equation, those that occur once. order: LABELS + 1 bytes. */
static status output_labels(const einsum_equation *q, char *order) {
  int seen[LABELS] = {0}, n = 0;
  for (int k = 0; k < q->n_terms; ++k)
    for (const char *c = q->term[k]; *c; ++c) ++seen[label_of(*c)];
  if (!q->output) {
    for (int l = 0; l < LABELS; ++l)
      if (seen[l] == 1) order[n++] = (char)(l < 26 ? 'A' + l : 'a' + l - 26);
    order[n] = 0;
    return ST_OK;
  }
  bool used[LABELS] = {0};
  for (const char *c = q->output; *c; ++c) {
    EXPECT(isalpha((unsigned char)*c), "equation has the character '%c', expected letters (no ellipsis)", *c);
    EXPECT(seen[label_of(*c)] && !used[label_of(*c)],
           "the output has '%c', expected each label of the terms at most once", *c);
    used[label_of(*c)] = true;
    order[n++] = *c;
  }
  order[n] = 0;
  return ST_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Appends the labels of a set to the space of a packed copy, the last set innermost. Returns the number of elements of
 * the set. */
static int64_t add_labels(move_space *s, const einsum_equation *q, label_set set, const einsum_operand *from) {
  int64_t n = 1;
  for (int l = 0; l < LABELS; ++l) {
    if (!(set >> l & 1)) continue;
    n *= q->size[l];
    if (s->rank < MOVE_RANK) move_space_add(s, q->size[l], 0, from->stride[l]);
  }
  return n;
}

/* Plans the contiguous copy whose dimensions are the labels of three sets. */
static void plan_pack(executor *e, const einsum_equation *q, const einsum_operand *from, const label_set sets[3],
                      einsum_pack *p) {
  move_space s = {.element_bytes = (int64_t)dtype_bytes(from->dtype)};
  int64_t n = 1;
  for (int k = 0; k < 3; ++k) n *= add_labels(&s, q, sets[k], from);
  for (int64_t d = s.rank - 1, stride = s.element_bytes; d >= 0; stride *= s.dims[d--]) s.to[d] = stride;
  p->place = from->place;
  p->offset = from->offset;
  p->dtype = from->dtype;
  p->n = n;
  p->to = workspace_intermediate(e, (uint64_t)(n * s.element_bytes));
  move_plan_init(&p->move, &s);
}

static int64_t einsum_elements(const einsum_equation *q, label_set set) {
  int64_t n = 1;
  for (int l = 0; l < LABELS; ++l)
    if (set >> l & 1) n *= q->size[l];
  return n;
}

static void set_strides(const einsum_equation *q, einsum_operand *o, const label_set sets[3]) {
  int64_t stride = (int64_t)dtype_bytes(o->dtype);
  for (int k = 2; k >= 0; --k)
    for (int l = LABELS - 1; l >= 0; --l) {
      if (!(sets[k] >> l & 1)) continue;
      o->stride[l] = stride;
      stride *= q->size[l];
    }
}

/* Joins a and b; `needed`: the labels that the result keeps. Replaces a by the result. */
static status plan_join(executor *e, const einsum_equation *q, einsum_operand *a, const einsum_operand *b,
                        label_set needed, int result_dtype, einsum_step *s) {
  const label_set all = a->labels | b->labels, summed = all & ~needed, shared = a->labels & b->labels & needed;
  const label_set rows = a->labels & ~b->labels & needed, columns = b->labels & ~a->labels & needed;
  EXPECT(__builtin_popcountll(all) <= MOST_LABELS, "equation has more than %d labels in two operands", MOST_LABELS);
  plan_pack(e, q, a, (const label_set[]){shared, rows, summed}, &s->a);
  plan_pack(e, q, b, (const label_set[]){shared, summed, columns}, &s->b);
  const int64_t m = einsum_elements(q, rows), n = einsum_elements(q, columns), k = einsum_elements(q, summed),
                batch = einsum_elements(q, shared);
  const int64_t of_a = (int64_t)dtype_bytes(a->dtype), of_b = (int64_t)dtype_bytes(b->dtype),
                of_out = (int64_t)dtype_bytes(result_dtype);
  s->product = (product_plan){
      .a = {a->dtype, m, k, k * of_a, of_a, {m * k * of_a}},
      .b = {b->dtype, k, n, n * of_b, of_b, {k * n * of_b}},
      .out = {result_dtype, m, n, n * of_out, of_out, {m * n * of_out}},
      .n_batch_dims = 1,
      .batch_dims = {batch},
      .alpha = 1,
  };
  product_choose(&s->product, NULL);
  s->n = batch * m * n;
  s->result = workspace_intermediate(e, (uint64_t)(s->n * of_out));
  *a = (einsum_operand){
      .place = FROM_WORKSPACE, .offset = s->result, .dtype = result_dtype, .labels = shared | rows | columns};
  set_strides(q, a, (const label_set[]){shared, rows, columns});
  return ST_OK;
}

static label_set set_of(const char *labels) {
  label_set set = 0;
  for (; *labels; ++labels) set |= UINT64_C(1) << label_of(*labels);
  return set;
}

static void plan_output(einsum_plan *p, const einsum_operand *from, const char *order, const tensor *out) {
  const view to = view_of(out);
  move_space s = {.element_bytes = (int64_t)dtype_bytes(out->dtype)};
  for (int d = 0; d < out->rank; ++d) move_space_add(&s, out->dims[d], to.strides[d], from->stride[label_of(order[d])]);
  move_plan_init(&p->to_out, &s);
  p->source = from->place;
  p->offset = from->offset;
}

static status plan_steps(executor *e, const einsum_args *a, einsum_equation *q, einsum_plan *p) {
  const aclTensorList *list = a->tensors;
  const int dtype = list->value[0]->dtype;
  einsum_operand left, right;
  char order[LABELS + 1];
  int64_t dims[LABELS];
  for (int k = q->n_terms - 1; k >= 0; --k) TRY(read_operand(q, k, list->value[k], &left)); /* sizes; left: the first */
  TRY(output_labels(q, order));
  const int rank = (int)strlen(order);
  EXPECT(rank <= MAX_RANK, "the output has %d labels, expected at most %d", rank, MAX_RANK);
  for (int d = 0; d < rank; ++d) dims[d] = q->size[label_of(order[d])];
  TRY(op_expect_shape(a->output, "output", dims, rank));
  const label_set out = set_of(order);
  for (int k = 1; k < q->n_terms; ++k) {
    label_set needed = out;
    for (int later = k + 1; later < q->n_terms; ++later) needed |= set_of(q->term[later]);
    TRY(read_operand(q, k, list->value[k], &right));
    const bool is_last = k == q->n_terms - 1;
    TRY(plan_join(e, q, &left, &right, needed, is_last || dtype == ACL_DOUBLE ? dtype : ACL_FLOAT,
                  &p->step[p->n_steps++]));
  }
  if (q->n_terms == 1 && left.labels & ~out) {
    right = (einsum_operand){.place = ONES, .dtype = dtype};
    TRY(plan_join(e, q, &left, &right, out, dtype, &p->step[p->n_steps++]));
  }
  plan_output(p, &left, order, a->output);
  return ST_OK;
}

status prepare_einsum(executor *e, const einsum_args *a) {
  enum { MOST_TEXT = 256 };
  const aclTensorList *list = a->tensors;
  char text[MOST_TEXT];
  int length = 0;
  einsum_equation q;
  EXPECT(list->size > 0, "tensors has no tensors, expected one or more");
  EXPECT(a->equation, "equation is NULL, expected a text");
  for (const char *c = a->equation; *c; ++c) {
    if (isspace((unsigned char)*c)) continue;
    EXPECT(length < MOST_TEXT - 1, "equation has more than %d characters", MOST_TEXT - 1);
    text[length++] = *c;
  }
  text[length] = 0;
  for (uint64_t k = 0; k < list->size; ++k)
    TRY(op_expect_dtype(list->value[k], "tensors", DTYPES_FLOAT & DTYPE_BIT(list->value[0]->dtype)));
  TRY(op_expect_dtype(a->output, "output", DTYPE_BIT(list->value[0]->dtype)));
  TRY(split_equation(text, list->size, &q));
  HEAP_PLAN(einsum_plan, p, e, sizeof *p + list->size * sizeof *p->step);
  p->out = (int)list->size;
  TRY(plan_steps(e, a, &q, p));
  uint64_t cost = 0;
  for (int i = 0; i < p->n_steps; ++i) cost += p->step[i].product.cost_ns;
  executor_cost(e, (uint64_t)a->output->n * dtype_bytes(a->output->dtype), cost * 32);
  e->run = run_einsum;
  return ST_OK;
}
