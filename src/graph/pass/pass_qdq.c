/* SPDX-License-Identifier: Apache-2.0 */
/* Products and convolutions of numbers that were quantised (QDQ: DequantizeLinear in front of both factors) become
 * those of the integers, followed by conversion to float, scale and bias, which pass_int8.c makes their epilogue. The
 * sums are exact then, where those of floats were rounded, so what is quantised again may differ by one step.
 *
 * The converter notes what each DequantizeLinear was made of (ir_dequantised). Runs before passes that replace
 * values. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/pass/pass.h"
#include "graph/uses.h"
#include "tensor/objects.h"

enum { LEAST_WEIGHTS = 2048 }; /* as in convert_quantised.c */

/* Places of the arguments in the schemas. */
enum { CONV_INPUT, CONV_WEIGHT, CONV_BIAS, CONV_STRIDE, CONV_PADDING, CONV_DILATION, CONV_TRANSPOSED };
enum { CONV_GROUPS = 8, CONV_OUTPUT };
enum { MATMUL_SELF, MATMUL_MAT2, MATMUL_OUT };
enum { ADDMM_SELF, ADDMM_MAT1, ADDMM_MAT2, ADDMM_BETA, ADDMM_ALPHA, ADDMM_OUT };

/* What is to be computed: x by w, plus a bias. */
typedef struct {
  ir_graph *g;
  const graph_uses *uses; /* of the graph as it was */
  const ir_node *node;
  const ir_dequantised *x, *w;
  bool is_conv, turned; /* turned: w is the transpose of what was dequantised */
  ir_value *bias, *out;
} qdq_factors;

/* Whether nobody changes the value once it is there. */
static bool qdq_written_once(const qdq_factors *f, const ir_value *v) {
  const int id = v->storage->id;
  return value_is_constant(v) || (id >= 0 && id < f->uses->n && f->uses->of[id].n_writes <= 1);
}

/* What a value was dequantised from; NULL: it was not, or *turned is NULL and it was transposed since. */
static const ir_dequantised *qdq_find(const qdq_factors *f, const tensor *t, bool *turned) {
  const ir_value *v = value_of(t);
  for (int i = 0; i < f->g->n_dequantised; ++i) {
    const ir_dequantised *d = &f->g->dequantised[i];
    const tensor *r = &d->real->tensor;
    if (!qdq_written_once(f, d->real) || !qdq_written_once(f, d->quantised)) continue;
    if (value_same(d->real, v)) return d;
    if (!turned || d->real->storage != v->storage || t->rank != 2 || r->rank != 2 || !r->contiguous) continue;
    *turned = t->offset == r->offset && t->dims[0] == r->dims[1] && t->dims[1] == r->dims[0] &&
              t->strides[0] == r->strides[1] && t->strides[1] == r->strides[0];
    if (*turned) return d;
  }
  return NULL;
}

/* Whether integers, scale and zero point have a form that the kernels take. outputs: the axis of the channels. */
static bool qdq_fits(const ir_dequantised *d, bool is_weight, int outputs) {
  const int dtype = d->quantised->tensor.dtype;
  const int64_t n = is_weight ? d->quantised->tensor.dims[outputs] : 1;
  const bool by_one = d->scale->tensor.n == 1 && (!d->zero || d->zero->tensor.n == 1);
  const bool each = is_weight && d->scale->tensor.n == n && d->axis == outputs && d->scale->tensor.rank == 1 &&
                    (!d->zero || (d->zero->tensor.rank == 1 && d->zero->tensor.n == n));
  if (d->scale->tensor.dtype != ACL_FLOAT || (!by_one && !each)) return false;
  if (is_weight) return dtype == ACL_INT8 && value_is_constant(d->quantised) && d->quantised->tensor.n >= LEAST_WEIGHTS;
  return dtype == ACL_INT8 || dtype == ACL_UINT8;
}

static bool qdq_product(const ir_node *n, qdq_factors *f) {
  const bool adds = n->op == &op_Addmm;
  if (n->op != &op_Matmul && !adds) return false;
  if (adds && (scalar_real(n->args[ADDMM_BETA].scalar) != 1 || scalar_real(n->args[ADDMM_ALPHA].scalar) != 1))
    return false;
  const tensor *a = n->args[adds ? ADDMM_MAT1 : MATMUL_SELF].tensor,
               *b = n->args[adds ? ADDMM_MAT2 : MATMUL_MAT2].tensor;
  f->out = value_of(n->args[adds ? ADDMM_OUT : MATMUL_OUT].tensor);
  f->bias = adds ? value_of(n->args[ADDMM_SELF].tensor) : NULL;
  f->x = qdq_find(f, a, NULL);
  f->w = qdq_find(f, b, &f->turned);
  return f->x && f->w && a->rank >= 2 && b->rank == 2 && f->out->tensor.contiguous && qdq_fits(f->x, false, 0) &&
         qdq_fits(f->w, true, f->turned ? 0 : 1);
}

static bool qdq_convolution(const ir_node *n, qdq_factors *f) {
  if (n->op != &op_Convolution || n->args[CONV_TRANSPOSED].boolean || n->args[CONV_GROUPS].integer != 1) return false;
  const tensor *x = n->args[CONV_INPUT].tensor;
  f->is_conv = true;
  f->out = value_of(n->args[CONV_OUTPUT].tensor);
  f->bias = n->args[CONV_BIAS].tensor ? value_of(n->args[CONV_BIAS].tensor) : NULL;
  f->x = qdq_find(f, x, NULL);
  f->w = qdq_find(f, n->args[CONV_WEIGHT].tensor, NULL);
  return f->x && f->w && x->rank >= 3 && x->rank <= 5 && n->args[CONV_PADDING].ints->size == x->rank - 2u &&
         f->out->tensor.contiguous && f->x->quantised->tensor.contiguous && qdq_fits(f->x, false, 0) &&
         qdq_fits(f->w, true, 0);
}

static status add_product(const qdq_factors *f, ir_value **sums) {
  ir_graph *g = f->g;
  ir_value *x, *w = f->w->quantised;
  const int order[] = {1, 0};
  if (f->turned) TRY(ir_permuted(g, w, order, &w));
  TRY(ir_contiguous(g, w, &w));
  const int64_t k = w->tensor.dims[0], n = w->tensor.dims[1], rows[] = {f->x->quantised->tensor.n / k, k};
  TRY(ir_reshaped(g, f->x->quantised, rows, 2, &x));
  TRY(ir_temporary(g, ACL_INT32, (const int64_t[]){rows[0], n}, 2, sums));
  TRY(node_MatmulInteger(g, x, w, f->x->zero, f->w->zero, NULL, NULL, *sums));
  return ir_reshaped(g, *sums, f->out->tensor.dims, f->out->tensor.rank, sums);
}

static status add_convolution(const qdq_factors *f, ir_value **sums) {
  ir_graph *g = f->g;
  const op_arg *a = f->node->args;
  const int rank = f->x->quantised->tensor.rank, n = rank - 2;
  int64_t margins[2 * MAX_RANK];
  int order[MAX_RANK];
  ir_value *w;
  for (int d = 0; d < n; ++d) {
    margins[2 * d] = margins[2 * d + 1] = a[CONV_PADDING].ints->value[d];
    order[d] = d + 2;
  }
  order[n] = 1;
  order[n + 1] = 0;
  const aclIntArray *padding = ir_int_array(g, margins, 2 * n);
  if (!padding) return ST_NO_HOST_MEMORY;
  TRY(ir_permuted(g, f->w->quantised, order, &w));
  TRY(ir_contiguous(g, w, &w));
  TRY(ir_temporary(g, ACL_INT32, f->out->tensor.dims, rank, sums));
  return node_ConvolutionInteger(g, f->x->quantised, w, f->x->zero, f->w->zero, NULL, NULL, *sums, a[CONV_STRIDE].ints,
                                 padding, a[CONV_DILATION].ints);
}

/* A number, or a vector along the channels, in a shape that broadcasts with the result. */
static status along_channels(const qdq_factors *f, ir_value *v, ir_value **out) {
  int64_t dims[MAX_RANK] = {v->tensor.n, 1, 1, 1};
  if (v->tensor.n == 1) return ir_reshaped(f->g, v, NULL, 0, out);
  if (v->tensor.rank > 1) return *out = v, ST_OK; /* of Addmm */
  return ir_reshaped(f->g, v, dims, f->is_conv ? f->out->tensor.rank - 1 : 1, out);
}

/* Appends the integers' node and what follows it to the graph. */
static status append_integers(const qdq_factors *f) {
  ir_graph *g = f->g;
  ir_value *sums, *floats, *x_scale, *scale, *both, *scaled = f->out, *bias;
  const scalar *one = ir_scalar(g, ACL_FLOAT, 1);
  g->name = f->node->name;
  g->label = f->node->label;
  g->origin = f->node->origin;
  if (!one) return ST_NO_HOST_MEMORY;
  TRY(f->is_conv ? add_convolution(f, &sums) : add_product(f, &sums));
  TRY(ir_cast(g, sums, ACL_FLOAT, &floats));
  TRY(ir_reshaped(g, f->x->scale, NULL, 0, &x_scale));
  TRY(along_channels(f, f->w->scale, &scale));
  TRY(ir_temporary(g, ACL_FLOAT, scale->tensor.dims, scale->tensor.rank, &both));
  TRY(node_Mul(g, scale, x_scale, both));
  if (f->bias) TRY(ir_temporary(g, ACL_FLOAT, f->out->tensor.dims, f->out->tensor.rank, &scaled));
  TRY(node_Mul(g, floats, both, scaled));
  if (!f->bias) return ST_OK;
  TRY(along_channels(f, f->bias, &bias));
  return node_Add(g, scaled, bias, one, f->out);
}

status pass_qdq(ir_graph *g, int *n_matches) {
  const int n = g->n_nodes;
  const ir_node *nodes = g->nodes;
  graph_uses uses;
  int unused;
  *n_matches = 0;
  if (!g->n_dequantised) return ST_OK;
  TRY(uses_find(g, &uses));
  g->nodes = NULL;
  g->n_nodes = 0;
  for (int i = 0; i < n; ++i) {
    qdq_factors f = {.g = g, .uses = &uses, .node = &nodes[i]}, conv = f;
    const bool product = qdq_product(&nodes[i], &f), is_conv = !product && qdq_convolution(&nodes[i], &conv);
    if (product || is_conv) {
      TRY(append_integers(product ? &f : &conv));
      ++*n_matches;
      continue;
    }
    g->nodes = region_grow(&g->memory, g->nodes, (size_t)g->n_nodes, sizeof *g->nodes);
    if (!g->nodes) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
    g->nodes[g->n_nodes++] = nodes[i];
  }
  g->name = g->origin = NULL;
  return pass_dead_nodes(g, &unused); /* what computed the floats */
}
