/* SPDX-License-Identifier: Apache-2.0 */
/* Attention that a model has written out, softmax(scale q k + mask) v, becomes the operator that computes it without
 * the scores in memory. Transposes around it are views; the copy that brings the heads together afterwards goes, as
 * the operator writes there. */
#include <limits.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/pass/affine.h"
#include "graph/pass/match.h"
#include "graph/pass/pass.h"

enum { SOFTMAX_SELF, SOFTMAX_DIM, SOFTMAX_OUT };
enum { PRODUCT_SELF, PRODUCT_MAT2, PRODUCT_OUT };
enum { COPY_TO, COPY_FROM };
enum {
  ATTENTION_NODES = 12,
  HEADS_RANK = 4,
  /* The operator reads keys once, without blocks, for so many queries of a head of keys. On Zen 4 it takes 0.3 to 0.9
   * of the time of the nodes. */
  FEW_QUERIES = 4,
  /* Else it is worth it from so many scores times keys on: with 25 to 50 million (12 heads of 128 x 128, 8 times 12 of
   * 64 x 64, 192 of 49 x 49) it takes 1.05 to 1.5 of the nodes' time on Zen 4, with 92 million (12 of 197 x 197) 0.9 to
   * 1.0, with 130 million and more 0.65 to 0.9: the nodes' scores then leave the caches. */
  WORTH_SCORES_BY_KEYS = 64 << 20,
};

typedef struct {
  ir_graph *g;
  graph_uses uses;
  const tensor *scores; /* of which the first two or three dimensions are those of sequences and heads */
  const tensor *q, *k, *v, *mask, *out;
  double scale;
  int nodes[ATTENTION_NODES], n_nodes; /* those that go; the first is the one that is replaced */
} attention_match;

/* ---- heads ------------------------------------------------------------------------------------------------------- */

/* A tensor as [sequences, heads, rows, columns]. */
typedef struct {
  int64_t dims[HEADS_RANK], strides[HEADS_RANK];
} heads_view;

/* Without sequences, or with heads in groups, whose dimensions must be one by their strides. */
static bool heads_view_of(const tensor *t, heads_view *h) {
  const int r = t->rank;
  if (r < 2 || r > HEADS_RANK + 1) return false;
  *h = (heads_view){{1, 1, t->dims[r - 2], t->dims[r - 1]}, {0, 0, t->strides[r - 2], t->strides[r - 1]}};
  if (r == 3) h->dims[1] = t->dims[0], h->strides[1] = t->strides[0];
  if (r > 3) h->dims[0] = t->dims[0], h->strides[0] = t->strides[0];
  if (r == 4) h->dims[1] = t->dims[1], h->strides[1] = t->strides[1];
  if (r < 5) return true;
  const bool first = t->dims[2] == 1, one = first || t->dims[1] == 1 || t->strides[1] == t->strides[2] * t->dims[2];
  h->dims[1] = t->dims[1] * t->dims[2];
  h->strides[1] = t->strides[first ? 1 : 2];
  return one;
}

/* Makes two dimensions of one that is sequences times heads. */
static void split_sequences(heads_view *h, int64_t sequences) {
  if (h->dims[0] == sequences || h->dims[0] != 1) return;
  h->dims[0] = sequences;
  h->dims[1] /= sequences;
  h->strides[0] = h->strides[1] * h->dims[1];
}

/* The view of a tensor that has as many sequences as the scores, maybe in one dimension with the heads. */
static bool heads_view_like(const tensor *t, const heads_view *scores, heads_view *h) {
  if (!heads_view_of(t, h)) return false;
  if (t->rank == 3 && h->dims[1] == scores->dims[0] * scores->dims[1]) split_sequences(h, scores->dims[0]);
  return h->dims[0] == scores->dims[0];
}

static status heads_value(ir_graph *g, const tensor *t, const heads_view *h, int64_t offset, ir_value **out) {
  return ir_view(g, value_of(t), h->dims, h->strides, HEADS_RANK, offset, out);
}

/* The mask, broadcast to the scores. */
static bool mask_view_of(const tensor *mask, const tensor *scores, heads_view *h) {
  tensor t = *scores;
  const int more = scores->rank - mask->rank;
  if (more < 0) return false;
  for (int d = 0; d < t.rank; ++d) {
    const int64_t n = d < more ? 1 : mask->dims[d - more];
    if (n != 1 && n != t.dims[d]) return false;
    t.strides[d] = n == 1 ? 0 : mask->strides[d - more];
  }
  return heads_view_of(&t, h);
}

/* ---- what the softmax is made of --------------------------------------------------------------------------------- */

static bool is_equal_piece(const ir_value *a, const ir_value *b) {
  return value_same(a, b) || (a->storage == b->storage && value_is_whole(a) && value_is_whole(b));
}

/* The node, which is then one of the attention's, whose only result is the tensor, read by nobody else, or all of its
 * storage in another shape; NULL: there is none. */
static const ir_node *inner_node(attention_match *m, const tensor *t, int written) {
  const ir_node *n = uses_writer_of_one(m->g, &m->uses, value_of(t));
  if (!n || written >= n->op->n_args || n->op->schema[written].kind != ARG_TENSOR ||
      !(n->op->schema[written].flags & ARG_WRITTEN) || !is_equal_piece(value_of(n->args[written].tensor), value_of(t)))
    return NULL;
  return n;
}

static bool take_node(attention_match *m, const ir_node *n) {
  if (m->n_nodes == ATTENTION_NODES) return false;
  m->nodes[m->n_nodes++] = (int)(n - m->g->nodes);
  return true;
}

/* A factor, which goes into the scale. */
static const tensor *without_factor(attention_match *m, const tensor *t) {
  const ir_node *n = uses_writer_of_one(m->g, &m->uses, value_of(t));
  affine a;
  if (!n || !affine_of(n, &a) || a.shift != 0 || !(a.scale > 0) || !is_equal_piece(value_of(a.out), value_of(t)) ||
      uses_of(&m->uses, value_of(a.x))->n_writes > 1 || !take_node(m, n))
    return t;
  m->scale *= a.scale;
  return a.x;
}

/* scale q k */
static bool find_product(attention_match *m, const tensor *t) {
  t = without_factor(m, t);
  const ir_node *n = inner_node(m, t, PRODUCT_OUT);
  if (!n || n->op != &op_Matmul || !take_node(m, n)) return false;
  m->q = n->args[PRODUCT_SELF].tensor;
  m->k = n->args[PRODUCT_MAT2].tensor;
  if (!m->scores) m->scores = n->args[PRODUCT_OUT].tensor;
  return true;
}

static bool find_scores(attention_match *m, const tensor *t) {
  const ir_node *n = inner_node(m, t, 3);
  if (!n || n->op != &op_Add || scalar_real(n->args[2].scalar) != 1) return find_product(m, t);
  if (!take_node(m, n)) return false;
  const attention_match before = *m;
  for (int i = 0; i < 2; ++i) {
    *m = before;
    m->scores = n->args[3].tensor;
    m->mask = n->args[1 - i].tensor;
    const tensor *product = n->args[i].tensor;
    if (tensor_same_dims(product, m->scores) && find_product(m, product)) return true;
  }
  return false;
}

static bool find_attention(attention_match *m, int at) {
  const ir_node *softmax = &m->g->nodes[at];
  if (softmax->op != &op_Softmax) return false;
  const tensor *x = softmax->args[SOFTMAX_SELF].tensor, *p = softmax->args[SOFTMAX_OUT].tensor;
  const int64_t dim = softmax->args[SOFTMAX_DIM].integer;
  const ir_node *last = uses_only_reader(m->g, &m->uses, value_of(p));
  if ((dim != -1 && dim != x->rank - 1) || x->dtype != p->dtype || !last || last->op != &op_Matmul ||
      value_of(p)->storage->kind != STORAGE_TEMPORARY ||
      !is_equal_piece(value_of(last->args[PRODUCT_SELF].tensor), value_of(p)))
    return false;
  m->scale = 1;
  m->n_nodes = 0;
  m->scores = m->mask = NULL;
  m->v = last->args[PRODUCT_MAT2].tensor;
  m->out = last->args[PRODUCT_OUT].tensor;
  return take_node(m, last) && take_node(m, softmax) && find_scores(m, x);
}

/* ---- what comes behind ------------------------------------------------------------------------------------------- */

/* Where a copy of a permuted view puts the elements of the value. */
static bool find_place(const heads_view *of, const tensor *from, const tensor *to, heads_view *place) {
  *place = *of;
  for (int d = 0; d < HEADS_RANK; ++d) {
    if (of->dims[d] == 1) continue;
    int at = 0;
    while (at < from->rank && (from->dims[at] != of->dims[d] || from->strides[at] != of->strides[d])) ++at;
    if (at == from->rank) return false;
    place->strides[d] = to->strides[at];
  }
  return true;
}

/* What was copied only to bring it into another order is read where it came from. */
static void read_through_copy(attention_match *m, const tensor **t, heads_view *v) {
  const ir_node *n = uses_writer_of_one(m->g, &m->uses, value_of(*t));
  heads_view place;
  if (!n || n->op != &op_InplaceCopy) return;
  const ir_value *to = value_of(n->args[COPY_TO].tensor), *from = value_of(n->args[COPY_FROM].tensor);
  if (!value_is_whole(to) || (*t)->offset || (*t)->n != to->tensor.n || from->tensor.dtype != to->tensor.dtype ||
      !tensor_same_dims(&from->tensor, &to->tensor) || uses_of(&m->uses, from)->n_writes > 1 ||
      !find_place(v, &to->tensor, &from->tensor, &place) || !take_node(m, n))
    return;
  *t = &from->tensor;
  *v = place;
}

/* If all that happens to the result is one such copy, it is written there. */
static void find_copy(attention_match *m, heads_view *out) {
  const ir_node *n = uses_only_reader(m->g, &m->uses, value_of(m->out));
  heads_view place;
  if (!n || n->op != &op_InplaceCopy || value_of(m->out)->storage->kind != STORAGE_TEMPORARY) return;
  const ir_value *to = value_of(n->args[COPY_TO].tensor), *from = value_of(n->args[COPY_FROM].tensor);
  if (from->storage != value_of(m->out)->storage || from->tensor.n != m->out->n || !value_is_whole(to) ||
      to->storage->kind != STORAGE_TEMPORARY || uses_of(&m->uses, to)->n_writes != 1 ||
      to->tensor.dtype != m->out->dtype || from->tensor.offset != m->out->offset ||
      !tensor_same_dims(&from->tensor, &to->tensor) || !find_place(out, &from->tensor, &to->tensor, &place) ||
      !take_node(m, n))
    return;
  m->out = &to->tensor;
  *out = place;
}

/* ---- the operator ------------------------------------------------------------------------------------------------ */

typedef struct {
  heads_view q, k, v, mask, out;
  int64_t q_offset; /* of q in m->q, in elements */
} attention_views;

/* Whether heads share keys as the operator has it: those of a group do. */
static bool groups_fit(const tensor *q, const tensor *k) {
  return q->rank < 5 || k->rank < 5 || (k->dims[1] == q->dims[1] && (k->dims[2] == 1 || k->dims[2] == q->dims[2]));
}

/* The scores with as many sequences as what was copied to become the queries. */
static bool scores_view_of(const attention_match *m, heads_view *scores) {
  const ir_node *n = uses_writer_of_one(m->g, &m->uses, value_of(m->q));
  if (!heads_view_of(m->scores, scores)) return false;
  if (m->scores->rank != 3 || !n || n->op != &op_InplaceCopy) return true;
  const tensor *copy = n->args[COPY_TO].tensor;
  if (copy->rank == 4 && copy->dims[0] * copy->dims[1] == scores->dims[1]) split_sequences(scores, copy->dims[0]);
  return true;
}

static bool views_fit(attention_match *m, attention_views *w) {
  heads_view scores;
  const int dtype = m->q->dtype;
  if (!scores_view_of(m, &scores) || !heads_view_like(m->q, &scores, &w->q) || !heads_view_like(m->k, &scores, &w->k) ||
      !heads_view_like(m->v, &scores, &w->v) || !heads_view_like(m->out, &scores, &w->out) ||
      !value_is_whole(value_of(m->out)) || !groups_fit(m->q, m->k) || !groups_fit(m->q, m->v))
    return false;
  const int64_t columns = w->k.dims[2], stride = w->k.strides[2]; /* the keys come as columns */
  w->k.dims[2] = w->k.dims[3], w->k.strides[2] = w->k.strides[3];
  w->k.dims[3] = columns, w->k.strides[3] = stride;
  if (w->q.dims[1] != w->out.dims[1] || w->k.dims[1] != w->v.dims[1] || m->k->dtype != dtype || m->v->dtype != dtype ||
      m->out->dtype != dtype || m->scores->dtype != dtype || !m->scores->n || !m->out->n)
    return false;
  const tensor *read[] = {m->q, m->k, m->v, m->mask};
  for (int i = 0; i < 4; ++i)
    if (read[i] && uses_of(&m->uses, value_of(read[i]))->n_writes > 1) return false;
  if (!m->mask) return true;
  if (m->mask->dtype != dtype || !mask_view_of(m->mask, m->scores, &w->mask)) return false;
  split_sequences(&w->mask, scores.dims[0]);
  return true;
}

/* A factor of the queries goes into the scale. */
static void find_query_factor(attention_match *m, attention_views *w) {
  const ir_node *n = uses_writer_of_one(m->g, &m->uses, value_of(m->q));
  affine a;
  heads_view x;
  w->q_offset = 0;
  if (!n || !affine_of(n, &a) || a.shift != 0 || !(a.scale > 0) || !value_is_whole(value_of(a.out)) ||
      uses_of(&m->uses, value_of(a.x))->n_writes > 1)
    return;
  if (a.x->contiguous) {
    if (!take_node(m, n)) return;
    w->q_offset = m->q->offset; /* that of the result is 0 */
  } else {
    if (!value_same(value_of(a.out), value_of(m->q)) || !heads_view_of(a.x, &x) ||
        memcmp(x.dims, w->q.dims, sizeof x.dims) != 0 || !take_node(m, n))
      return;
    w->q = x;
  }
  m->q = a.x;
  m->scale *= a.scale;
}

/* Puts the operator where the last product was, and removes the other nodes. *before: how many of these came before. */
static status put_operator(attention_match *m, const op_arg *args, int at, int *before) {
  ir_graph *g = m->g;
  op_arg *copy = REGION_NEW(&g->memory, op_arg, op_PromptFlashAttention.n_args);
  if (!copy) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  memcpy(copy, args, op_PromptFlashAttention.n_args * sizeof *args);
  g->nodes[m->nodes[0]].op = &op_PromptFlashAttention;
  g->nodes[m->nodes[0]].args = copy;
  g->nodes[m->nodes[0]].origin = "Attention";
  int n = 0;
  *before = 0;
  for (int i = 0; i < g->n_nodes; ++i) {
    bool gone = false;
    for (int k = 1; k < m->n_nodes; ++k) gone |= m->nodes[k] == i;
    if (!gone) g->nodes[n++] = g->nodes[i];
    *before += gone && i <= at;
  }
  g->n_nodes = n;
  return ST_OK;
}

static bool is_worth_it(const attention_match *m, const attention_views *w) {
  const int64_t queries = w->q.dims[2] * (w->q.dims[1] / w->k.dims[1]), keys = w->k.dims[2];
  return queries <= FEW_QUERIES || m->scores->n * keys >= WORTH_SCORES_BY_KEYS;
}

static status join_attention(attention_match *m, int at, int *before, bool *joined) {
  attention_views w;
  ir_value *q, *k, *v, *mask = NULL, *out;
  *joined = false;
  if (!views_fit(m, &w) || !is_worth_it(m, &w)) return ST_OK;
  read_through_copy(m, &m->q, &w.q);
  read_through_copy(m, &m->k, &w.k);
  read_through_copy(m, &m->v, &w.v);
  find_query_factor(m, &w);
  find_copy(m, &w.out);
  TRY(heads_value(m->g, m->q, &w.q, w.q_offset, &q));
  TRY(heads_value(m->g, m->k, &w.k, 0, &k));
  TRY(heads_value(m->g, m->v, &w.v, 0, &v));
  if (m->mask) TRY(heads_value(m->g, m->mask, &w.mask, 0, &mask));
  TRY(heads_value(m->g, m->out, &w.out, 0, &out));
  const op_arg args[] = {{.tensor = &q->tensor},         {.tensor = &k->tensor}, {.tensor = &v->tensor},
                         {.tensor = value_tensor(mask)}, {.tensor = NULL},       {.ints = NULL},
                         {.integer = w.q.dims[1]},       {.real = m->scale},     {.integer = INT_MAX},
                         {.integer = INT_MAX},           {.string = "BNSD"},     {.integer = w.k.dims[1]},
                         {.tensor = &out->tensor}};
  if (!call_is_possible(&op_PromptFlashAttention, args)) return ST_OK;
  *joined = true;
  return put_operator(m, args, at, before);
}

status pass_attention(ir_graph *g, int *n_matches) {
  attention_match m = {.g = g};
  *n_matches = 0;
  TRY(uses_find(g, &m.uses));
  for (int i = g->n_nodes - 1; i >= 0; --i) {
    bool joined;
    int before;
    if (!find_attention(&m, i)) continue;
    TRY(join_attention(&m, i, &before, &joined));
    if (!joined) continue;
    ++*n_matches;
    i -= before - 1;
    TRY(uses_find(g, &m.uses));
  }
  return ST_OK;
}
