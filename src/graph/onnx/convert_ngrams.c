/* SPDX-License-Identifier: Apache-2.0 */
/* TfIdfVectorizer of integers: how often each of some sequences occurs in each row of the input, also with gaps between
 * its elements that are equally long. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

typedef struct {
  int64_t shortest, longest, gaps; /* gaps: at most */
  const int64_t *pool, *starts, *columns;
  int n_pool, n_lengths, n_grams; /* n_grams: of all lengths */
} ngrams;

static status read_ngrams(converter *c, ngrams *g) {
  g->shortest = attribute_int(c, "min_gram_length", 1);
  g->longest = attribute_int(c, "max_gram_length", 1);
  g->gaps = attribute_int(c, "max_skip_count", 0);
  g->pool = attribute_ints(c, "pool_int64s", &g->n_pool);
  g->starts = attribute_ints(c, "ngram_counts", &g->n_lengths);
  g->columns = attribute_ints(c, "ngram_indexes", &g->n_grams);
  if (g->n_pool < 0) return OP_FAIL("pool_int64s is missing; strings are not supported");
  if (g->shortest < 1 || g->longest < g->shortest || g->longest > g->n_lengths || g->gaps < 0)
    return OP_FAIL("lengths are from %jd to %jd, with %jd gaps, expected 1 to %d", (intmax_t)g->shortest,
                   (intmax_t)g->longest, (intmax_t)g->gaps, g->n_lengths);
  int64_t n = 0;
  for (int i = 0; i < g->n_lengths; ++i) {
    const int64_t end = i + 1 < g->n_lengths ? g->starts[i + 1] : g->n_pool;
    if (g->starts[i] < 0 || end < g->starts[i] || end > g->n_pool || (end - g->starts[i]) % (i + 1))
      return OP_FAIL("ngram_counts[%d] is %jd, which does not fit", i, (intmax_t)g->starts[i]);
    n += (end - g->starts[i]) / (i + 1);
  }
  if (n != g->n_grams) return OP_FAIL("ngram_indexes has %d elements, expected %jd", g->n_grams, (intmax_t)n);
  for (int i = 0; i < g->n_grams; ++i)
    if (g->columns[i] < 0 || g->columns[i] >= g->n_grams)
      return OP_FAIL("ngram_indexes[%d] is %jd, expected 0 to %d", i, (intmax_t)g->columns[i], g->n_grams - 1);
  return ST_OK;
}

/* How often the `n` sequences of a length occur in the rows of x, [rows, elements], with elements `step` apart. */
static status occurrences(converter *c, ir_value *x, const int64_t *grams, int64_t n, int64_t length, int64_t step,
                          ir_value **out) {
  const int64_t *s = x->tensor.strides, rows = x->tensor.dims[0], places = x->tensor.dims[1] - (length - 1) * step;
  ir_value *windows, *wanted, *equal, *all, *ones;
  TRY(ir_view(c->g, x, (const int64_t[]){rows, places, 1, length}, (const int64_t[]){s[0], s[1], 0, s[1] * step}, 4, 0,
              &windows));
  TRY(ir_constant(c->g, ACL_INT64, (const int64_t[]){n, length}, 2, NULL, &wanted));
  memcpy(ir_fill(wanted), grams, (size_t)(n * length) * sizeof *grams);
  TRY(converter_binary(c, &op_EqTensor, windows, wanted, ACL_BOOL, &equal));
  const aclIntArray *last = ir_int_array(c->g, (const int64_t[]){3}, 1);
  const aclIntArray *of_places = ir_int_array(c->g, (const int64_t[]){1}, 1);
  if (!last || !of_places) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, ACL_BOOL, (const int64_t[]){rows, places, n}, 3, &all));
  TRY(node_All(c->g, equal, last, false, all));
  TRY(ir_cast(c->g, all, ACL_FLOAT, &ones));
  TRY(ir_temporary(c->g, ACL_FLOAT, (const int64_t[]){rows, n}, 2, out));
  return node_ReduceSum(c->g, ones, of_places, false, ACL_FLOAT, *out);
}

/* The same with all gaps; sequences that are longer than the rows occur 0 times. */
static status counted_grams(converter *c, const ngrams *g, ir_value *x, int64_t length, ir_value **out) {
  const int64_t end = length < g->n_lengths ? g->starts[length] : g->n_pool, begin = g->starts[length - 1];
  const int64_t n = (end - begin) / length, gaps = length == 1 && g->gaps > 0 ? 0 : g->gaps;
  ir_value *sum;
  TRY(ir_number(c->g, ACL_FLOAT, 0, &sum));
  TRY(ir_expanded(c->g, sum, (const int64_t[]){x->tensor.dims[0], n}, 2, out));
  for (int64_t gap = 0; gap <= gaps && n; ++gap) {
    if (x->tensor.dims[1] <= (length - 1) * (gap + 1)) break;
    TRY(occurrences(c, x, g->pool + begin, n, length, gap + 1, &sum));
    TRY(converter_binary(c, &op_Add, *out, sum, ACL_FLOAT, out));
  }
  return ST_OK;
}

/* The counts of all sequences, as the attributes order them, in the order of the result's columns. */
static status ordered(converter *c, const ngrams *g, ir_value **parts, int n, int64_t rows, ir_value **out) {
  ir_value *joined, *index;
  const int64_t dims[] = {rows, g->n_grams};
  const aclTensorList *list = ir_list(c->g, parts, n);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, ACL_FLOAT, dims, 2, &joined));
  TRY(node_Cat(c->g, list, 1, joined));
  const int64_t n_grams = g->n_grams;
  TRY(ir_constant(c->g, ACL_INT64, &n_grams, 1, NULL, &index));
  for (int64_t i = 0; i < n_grams; ++i) ((int64_t *)ir_fill(index))[g->columns[i]] = i;
  TRY(ir_temporary(c->g, ACL_FLOAT, dims, 2, out));
  return node_IndexSelect(c->g, joined, 1, index, *out);
}

static status weighted(converter *c, const ngrams *g, ir_value *counts, ir_value **out) {
  const char *mode = attribute_string(c, "mode", "TF");
  int n;
  const float *weights = attribute_floats(c, "weights", &n);
  const int64_t n_grams = g->n_grams;
  ir_value *factors;
  *out = counts;
  if (strcmp(mode, "TF") != 0 && strcmp(mode, "IDF") != 0 && strcmp(mode, "TFIDF") != 0)
    return OP_FAIL("mode is %s, expected TF, IDF or TFIDF", mode);
  if (!strcmp(mode, "IDF")) {
    const scalar *one = ir_scalar(c->g, ACL_FLOAT, 1);
    if (!one) return ST_NO_HOST_MEMORY;
    TRY(ir_temporary(c->g, ACL_FLOAT, counts->tensor.dims, 2, out));
    TRY(node_ClampMax(c->g, counts, one, *out));
  }
  if (n < 0 || !strcmp(mode, "TF")) return ST_OK;
  if (n != g->n_grams) return OP_FAIL("weights has %d elements, expected %d", n, g->n_grams);
  TRY(ir_constant(c->g, ACL_FLOAT, &n_grams, 1, NULL, &factors));
  for (int i = 0; i < n; ++i) ((float *)ir_fill(factors))[g->columns[i]] = weights[i];
  return converter_binary(c, &op_Mul, *out, factors, ACL_FLOAT, out);
}

static status convert_tf_idf(converter *c) {
  ir_value *x = converter_input(c, 0), *y;
  ngrams g;
  const int rank = x->tensor.rank;
  TRY(read_ngrams(c, &g));
  if (rank < 1 || rank > 2) return OP_FAIL("the input has %d dimensions, expected 1 or 2", rank);
  const int64_t dims[] = {rank == 2 ? x->tensor.dims[0] : 1, x->tensor.dims[rank - 1]};
  TRY(ir_cast(c->g, x, ACL_INT64, &x));
  TRY(ir_reshaped(c->g, x, dims, 2, &x));
  ir_value **parts = REGION_NEW(&c->g->memory, ir_value *, g.n_lengths);
  if (!parts) return ST_NO_HOST_MEMORY;
  for (int64_t length = 1; length <= g.n_lengths; ++length) {
    ngrams unwanted = g;
    unwanted.gaps = -1; /* counts 0 of each */
    const bool wanted = length >= g.shortest && length <= g.longest;
    TRY(counted_grams(c, wanted ? &g : &unwanted, x, length, &parts[length - 1]));
  }
  TRY(ordered(c, &g, parts, g.n_lengths, dims[0], &y));
  TRY(weighted(c, &g, y, &y));
  if (rank == 1) TRY(ir_reshaped(c->g, y, y->tensor.dims + 1, 1, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_ngrams[] = {
    {"TfIdfVectorizer", convert_tf_idf, 1, NULL, 0},
    {0},
};
