/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum: operands are multiplied one after the other, each time as a batched product of matrices of permuted views. A
 * label is a letter, or a digit for a dimension of "...". */
#include <ctype.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

typedef struct {
  ir_value *value;
  char labels[MAX_RANK + 1]; /* of its dimensions */
} labelled;

static void add_label(char *labels, char label) {
  const size_t n = strlen(labels);
  labels[n] = label;
  labels[n + 1] = 0;
}

/* Reads the labels of one term up to its end; "..." stands for the dimensions that the letters leave, which are
 * labelled from the right: the last one is '0'. */
static status read_term(const char **text, int rank, char *labels) {
  char letters[MAX_RANK + 1];
  int n = 0, dots = -1;
  const char *p = *text;
  for (; *p && *p != ',' && *p != '-'; ++p) {
    if (isspace((unsigned char)*p)) continue;
    if (*p == '.') {
      if (strncmp(p, "...", 3) != 0 || dots >= 0) return OP_FAIL("the equation has a wrong '.'");
      dots = n;
      p += 2;
    } else if (isalpha((unsigned char)*p) && n < MAX_RANK) {
      letters[n++] = *p;
    } else {
      return OP_FAIL("the equation has '%c', expected letters", *p);
    }
  }
  *text = p;
  const int open = rank < 0 ? 0 : rank - n;
  if (rank >= 0 && (open < 0 || (open && dots < 0)))
    return OP_FAIL("a term of the equation has %d letters for %d dimensions", n, rank);
  int at = 0;
  for (int i = 0; i <= n; ++i) {
    if (i == dots)
      for (int k = open; k-- > 0;) labels[at++] = (char)('0' + k);
    if (i == dots && rank < 0) labels[at++] = '.';
    if (i < n) labels[at++] = letters[i];
  }
  labels[at] = 0;
  return ST_OK;
}

/* A label that is there twice means the diagonal: a view with the sum of the strides. */
static status take_diagonals(converter *c, labelled *x) {
  int64_t dims[MAX_RANK], strides[MAX_RANK];
  char labels[MAX_RANK + 1];
  const tensor *t = &x->value->tensor;
  int n = 0;
  for (int d = 0; d < t->rank; ++d) {
    const char *seen = memchr(labels, x->labels[d], (size_t)n);
    if (seen) {
      if (dims[seen - labels] != t->dims[d]) return OP_FAIL("label %c has two sizes", x->labels[d]);
      strides[seen - labels] += t->strides[d];
    } else {
      labels[n] = x->labels[d];
      dims[n] = t->dims[d];
      strides[n++] = t->strides[d];
    }
  }
  labels[n] = 0;
  strcpy(x->labels, labels);
  return ir_view(c->g, x->value, dims, strides, n, 0, &x->value);
}

static int64_t label_size(const labelled *x, char label) {
  const char *at = strchr(x->labels, label);
  return at ? x->value->tensor.dims[at - x->labels] : 1;
}

/* Sums over the labels that are not in `kept`. */
static status sum_rest(converter *c, labelled *x, const char *kept) {
  int64_t axes[MAX_RANK], dims[MAX_RANK];
  char labels[MAX_RANK + 1] = "";
  int n = 0, rank = 0;
  for (int d = 0; x->labels[d]; ++d) {
    if (strchr(kept, x->labels[d])) {
      dims[rank] = x->value->tensor.dims[d];
      labels[rank++] = x->labels[d];
    } else {
      axes[n++] = d;
    }
  }
  if (!n) return ST_OK;
  const aclIntArray *list = ir_int_array(c->g, axes, n);
  ir_value *sum;
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->value->tensor.dtype, dims, rank, &sum));
  TRY(node_ReduceSum(c->g, x->value, list, false, x->value->tensor.dtype, sum));
  x->value = sum;
  strcpy(x->labels, labels);
  return ST_OK;
}

/* The value with dimensions in the order of `labels`; those that it lacks, or has with size 1, are expanded to
 * `sizes`. */
static status arranged(converter *c, const labelled *x, const char *labels, const int64_t *sizes, ir_value **out) {
  int64_t dims[MAX_RANK], strides[MAX_RANK];
  const int n = (int)strlen(labels);
  for (int d = 0; d < n; ++d) {
    const char *at = strchr(x->labels, labels[d]);
    const tensor *t = &x->value->tensor;
    dims[d] = sizes[d];
    strides[d] = !at || t->dims[at - x->labels] == 1 ? 0 : t->strides[at - x->labels];
  }
  return ir_view(c->g, x->value, dims, strides, n, 0, out);
}

static int64_t einsum_sizes(const int64_t *sizes, int n) {
  int64_t p = 1;
  for (int i = 0; i < n; ++i) p *= sizes[i];
  return p;
}

/* x = x * y, summed over the labels that neither `kept` nor later terms have. */
static status einsum_multiply(converter *c, labelled *x, labelled *y, const char *kept) {
  char groups[4][MAX_RANK + 1] = {"", "", "", ""}; /* batch, rows, columns, inner */
  char all[2 * MAX_RANK + 1];
  enum { BATCH, ROWS, COLUMNS, INNER };
  strcpy(all, x->labels);
  for (const char *p = y->labels; *p; ++p)
    if (!strchr(all, *p)) add_label(all, *p);
  for (const char *p = all; *p; ++p) {
    const bool in_x = strchr(x->labels, *p), in_y = strchr(y->labels, *p), stays = strchr(kept, *p);
    const int group = in_x && in_y ? (stays ? BATCH : INNER) : in_x ? ROWS : COLUMNS;
    if (strlen(groups[group]) < MAX_RANK) add_label(groups[group], *p);
  }
  int64_t sizes[4][MAX_RANK], flat[4];
  for (int k = 0; k < 4; ++k) {
    const int n = (int)strlen(groups[k]);
    for (int i = 0; i < n; ++i) {
      const int64_t a = label_size(x, groups[k][i]), b = label_size(y, groups[k][i]);
      if (a != b && a != 1 && b != 1) return OP_FAIL("label %c has two sizes", groups[k][i]);
      sizes[k][i] = a == 1 ? b : a;
    }
    flat[k] = einsum_sizes(sizes[k], n);
  }
  const int parts[3][3] = {{BATCH, ROWS, INNER}, {BATCH, INNER, COLUMNS}, {BATCH, ROWS, COLUMNS}};
  ir_value *matrices[3];
  int64_t dims[3 * MAX_RANK];
  char labels[3 * MAX_RANK + 1];
  for (int k = 0; k < 3; ++k) {
    labels[0] = 0;
    int rank = 0;
    for (int i = 0; i < 3; ++i) {
      const int group = parts[k][i], n = (int)strlen(groups[group]);
      strcat(labels, groups[group]);
      memcpy(dims + rank, sizes[group], (size_t)n * sizeof *dims);
      rank += n;
    }
    if (rank > MAX_RANK) return OP_FAIL("a product has %d labels, at most %d are supported", rank, MAX_RANK);
    if (k == 2) break;
    TRY(arranged(c, k ? y : x, labels, dims, &matrices[k]));
    TRY(ir_reshaped(c->g, matrices[k], (const int64_t[]){flat[BATCH], flat[parts[k][1]], flat[parts[k][2]]}, 3,
                    &matrices[k]));
  }
  TRY(converter_product(c, matrices[0], matrices[1], &matrices[2]));
  strcpy(x->labels, labels);
  return ir_reshaped(c->g, matrices[2], dims, (int)strlen(labels), &x->value);
}

/* The output's labels: those behind the arrow, or in alphabetical order all that are there once. */
static status read_output(const char *arrow, const char *inputs, char *output) {
  char dots[MAX_RANK + 1] = "", term[MAX_RANK + 2];
  for (char k = '7'; k >= '0'; --k)
    if (strchr(inputs, k)) add_label(dots, k);
  output[0] = 0;
  if (!arrow) {
    strcat(output, dots);
    for (int k = 'A'; k <= 'z'; ++k) {
      const char *first = isalpha(k) ? strchr(inputs, k) : NULL;
      if (first && !strchr(first + 1, k) && strlen(output) < MAX_RANK) add_label(output, *first);
    }
    return ST_OK;
  }
  arrow += 2;
  TRY(read_term(&arrow, -1, term));
  for (const char *p = term; *p; ++p) {
    if (strlen(output) + (*p == '.' ? strlen(dots) : 1) > MAX_RANK) return OP_FAIL("the output has too many labels");
    if (*p == '.') {
      strcat(output, dots);
    } else {
      if (!strchr(inputs, *p)) return OP_FAIL("label %c of the output is in no input", *p);
      add_label(output, *p);
    }
  }
  return ST_OK;
}

status convert_einsum(converter *c) {
  const char *text = attribute_string(c, "equation", ""), *arrow = strstr(text, "->");
  const int n = c->node->n_inputs;
  labelled *x = REGION_NEW(&c->g->memory, labelled, n);
  char *inputs = REGION_NEW(&c->g->memory, char, n *MAX_RANK + 1), output[MAX_RANK + 1], order[2 * MAX_RANK + 1];
  int64_t sizes[MAX_RANK];
  if (!x || !inputs) return fail(ST_NO_HOST_MEMORY, "no host memory for the terms of an equation");
  for (int i = 0; i < n; ++i) {
    x[i].value = converter_input(c, i);
    TRY(read_term(&text, x[i].value->tensor.rank, x[i].labels));
    strcat(inputs, x[i].labels);
    TRY(take_diagonals(c, &x[i]));
    if (i + 1 < n && *text++ != ',') return OP_FAIL("the equation has fewer terms than the %d inputs", n);
  }
  TRY(read_output(arrow, inputs, output));
  for (int i = 1; i < n; ++i) { /* labels that are only in one of the two, and nowhere else, are summed first */
    char *kept = REGION_NEW(&c->g->memory, char, (n + 2) * MAX_RANK);
    if (!kept) return ST_NO_HOST_MEMORY;
    strcpy(kept, output);
    for (int k = i + 1; k < n; ++k) strcat(kept, x[k].labels);
    char *with_y = strcat(strcpy(REGION_NEW(&c->g->memory, char, (n + 4) * MAX_RANK), kept), x[i].labels);
    char *with_x = strcat(strcpy(REGION_NEW(&c->g->memory, char, (n + 4) * MAX_RANK), kept), x[0].labels);
    TRY(sum_rest(c, &x[0], with_y));
    TRY(sum_rest(c, &x[i], with_x));
    TRY(einsum_multiply(c, &x[0], &x[i], kept));
  }
  TRY(sum_rest(c, &x[0], output));
  strcpy(order, output);
  for (int d = 0; output[d]; ++d) sizes[d] = label_size(&x[0], output[d]);
  TRY(arranged(c, &x[0], order, sizes, &x[0].value));
  return converter_output(c, 0, x[0].value);
}
