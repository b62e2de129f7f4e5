/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norms and RMS norms that a model has written out become the operators that compute them at once, and a sum
 * before a layer norm goes into it. */
#include <stdio.h>

#include "graph/nodes.h"
#include "graph/pass/match.h"
#include "graph/pass/pass.h"

enum { PATTERN_TEXT = 400 };

/* ---- what the norms have in common ------------------------------------------------------------------------------- */

/* Whether all means of the match are over the same last dimensions, which stay. *n_outer: of the others. */
static bool means_fit(const pattern_match *m, int *n_outer) {
  const int rank = match_value(m, 'x')->tensor.rank;
  *n_outer = -1;
  for (int i = 0; i < m->n_nodes; ++i) {
    const ir_node *n = &m->g->nodes[m->nodes[i]];
    bool reduced[MAX_RANK] = {false};
    int first = 0;
    if (n->op != &op_Mean) continue;
    const aclIntArray *axes = n->args[1].ints;
    if (!n->args[2].boolean) return false;
    for (uint64_t k = 0; k < axes->size; ++k)
      reduced[axes->value[k] < 0 ? axes->value[k] + rank : axes->value[k]] = true;
    while (first < rank && !reduced[first]) ++first;
    for (int d = first; d < rank; ++d)
      if (!reduced[d]) return false;
    if (first == rank || (*n_outer >= 0 && *n_outer != first)) return false;
    *n_outer = first;
  }
  return *n_outer >= 0;
}

/* The parameter as a view that has the last dims of x, from n_outer on; NULL: it has other dims. */
static status norm_parameter(const pattern_match *m, char letter, int n_outer, ir_value **out) {
  const tensor *x = &match_value(m, 'x')->tensor;
  const ir_value *v = match_value(m, letter);
  const tensor *t = &v->tensor;
  const int rank = x->rank - n_outer, more = t->rank - rank;
  int64_t strides[MAX_RANK] = {0};
  *out = NULL;
  if (t->dtype != x->dtype) return ST_OK;
  for (int d = 0; d < t->rank; ++d) {
    if (d >= more && t->dims[d] == x->dims[n_outer + d - more])
      strides[d - more] = t->dims[d] == 1 ? 0 : t->strides[d];
    else if (t->dims[d] != 1)
      return ST_OK;
  }
  return ir_view(m->g, v, x->dims + n_outer, strides, rank, 0, out);
}

static bool operand_fits(const pattern_match *m) {
  const tensor *x = &match_value(m, 'x')->tensor, *y = &match_result(m)->tensor;
  return x->dtype == y->dtype && (x->dtype == ACL_FLOAT || x->dtype == ACL_FLOAT16 || x->dtype == ACL_BF16) &&
         tensor_same_dims(x, y) && x->n;
}

/* A value of a number for each row, which nobody reads. */
static status row_numbers(ir_graph *g, const tensor *x, int n_outer, ir_value **out) {
  int64_t dims[MAX_RANK];
  for (int d = 0; d < x->rank; ++d) dims[d] = d < n_outer ? x->dims[d] : 1;
  return ir_temporary(g, ACL_FLOAT, dims, x->rank, out);
}

/* A pass over the patterns of one operator: joins() replaces a match, and says whether it did. */
typedef status norm_joiner(pattern_match *m, bool has_gamma, bool has_beta, bool *joined);

/* Looks for f(core), f being a product with gamma, and a sum with beta behind it, or less. */
static status recognise_norm(ir_graph *g, const graph_uses *u, int root, const char *core, norm_joiner *join,
                             pattern_match *m, bool *joined) {
  const op *o = g->nodes[root].op;
  char text[PATTERN_TEXT];
  *joined = false;
  for (int k = 0; k < 3 && !*joined; ++k) {
    if ((k == 0 && o != &op_Add) || (k == 1 && o != &op_Mul)) continue;
    if (k < 2) snprintf(text, sizeof text, k == 0 ? "Add(Mul(%s,g),b)" : "Mul(%s,g)", core);
    if (match_pattern(m, g, u, root, k < 2 ? text : core) && operand_fits(m)) TRY(join(m, k < 2, k < 1, joined));
  }
  return ST_OK;
}

static status recognise_norms(ir_graph *g, const char *const *cores, norm_joiner *join, int *n_matches) {
  graph_uses u;
  *n_matches = 0;
  TRY(uses_find(g, &u));
  for (int i = g->n_nodes - 1; i >= 0; --i)
    for (const char *const *core = cores; *core; ++core) {
      pattern_match m;
      bool joined;
      TRY(recognise_norm(g, &u, i, *core, join, &m, &joined));
      if (!joined) continue;
      ++*n_matches;
      TRY(uses_find(g, &u));
      i -= m.n_nodes - 1;
      break;
    }
  return ST_OK;
}

/* ---- layer norm -------------------------------------------------------------------------------------------------- */

#define MOVED "Sub(x,Mean(x))"
#define EACH_ROOT(variance)                                                                                            \
  "Div(" MOVED ",Sqrt(Add(Mean(" variance "),#e)))", "Mul(" MOVED ",Reciprocal(Sqrt(Add(Mean(" variance "),#e))))",    \
      "Div(" MOVED ",PowTensorTensor(Add(Mean(" variance "),#e),0.5))"

static const char *const layer_norms[] = {
    EACH_ROOT("PowTensorTensor(" MOVED ",2)"),
    EACH_ROOT("Mul(" MOVED "," MOVED ")"),
    NULL,
};

static status join_layer_norm(pattern_match *m, bool has_gamma, bool has_beta, bool *joined) {
  ir_value *x = match_value(m, 'x'), *gamma = NULL, *beta = NULL;
  int n_outer;
  *joined = false;
  if (!means_fit(m, &n_outer)) return ST_OK;
  if (has_gamma) TRY(norm_parameter(m, 'g', n_outer, &gamma));
  if (has_beta) TRY(norm_parameter(m, 'b', n_outer, &beta));
  if ((has_gamma && !gamma) || (has_beta && !beta)) return ST_OK;
  const aclIntArray *shape = ir_int_array(m->g, x->tensor.dims + n_outer, x->tensor.rank - n_outer);
  if (!shape) return ST_NO_HOST_MEMORY;
  *joined = true;
  return match_replace(m, &op_LayerNorm,
                       (const op_arg[]){{.tensor = &x->tensor},
                                        {.ints = shape},
                                        {.tensor = value_tensor(gamma)},
                                        {.tensor = value_tensor(beta)},
                                        {.real = m->number['e' - 'a']},
                                        {.tensor = &match_result(m)->tensor},
                                        {0},
                                        {0}});
}

status pass_layer_norm(ir_graph *g, int *n_matches) {
  return recognise_norms(g, layer_norms, join_layer_norm, n_matches);
}

/* ---- RMS norm ---------------------------------------------------------------------------------------------------- */

#define EACH_RMS(square)                                                                                               \
  "Div(x,Sqrt(Add(Mean(" square "),#e)))", "Mul(x,Reciprocal(Sqrt(Add(Mean(" square "),#e))))",                        \
      "Mul(x,Div(1,Sqrt(Add(Mean(" square "),#e))))"

static const char *const rms_norms[] = {EACH_RMS("PowTensorTensor(x,2)"), EACH_RMS("Mul(x,x)"), NULL};

static status join_rms_norm(pattern_match *m, bool has_gamma, bool has_beta, bool *joined) {
  ir_value *x = match_value(m, 'x'), *gamma = NULL, *rstd;
  int n_outer;
  *joined = false;
  if (!has_gamma || has_beta || !means_fit(m, &n_outer)) return ST_OK;
  TRY(norm_parameter(m, 'g', n_outer, &gamma));
  if (!gamma) return ST_OK;
  TRY(row_numbers(m->g, &x->tensor, n_outer, &rstd));
  *joined = true;
  return match_replace(m, &op_RmsNorm,
                       (const op_arg[]){{.tensor = &x->tensor},
                                        {.tensor = &gamma->tensor},
                                        {.real = m->number['e' - 'a']},
                                        {.tensor = &match_result(m)->tensor},
                                        {.tensor = &rstd->tensor}});
}

status pass_rms_norm(ir_graph *g, int *n_matches) { return recognise_norms(g, rms_norms, join_rms_norm, n_matches); }
