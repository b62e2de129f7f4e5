/* SPDX-License-Identifier: Apache-2.0 */
/* Results whose size depends on data, computed on the host while the model is converted: NonMaxSuppression and Unique.
 * Their inputs have to be known (converter_known). */
#include <stdlib.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

/* ---- NonMaxSuppression ------------------------------------------------------------------------------------------- */

typedef struct {
  double y1, x1, y2, x2;
} box;

/* Corners in either order; or centre, width and height. */
static box box_of(const double *b, bool centre) {
  if (centre) return (box){b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return (box){b[0] < b[2] ? b[0] : b[2], b[1] < b[3] ? b[1] : b[3], b[0] < b[2] ? b[2] : b[0],
               b[1] < b[3] ? b[3] : b[1]};
}

static double box_area(const box *b) { return (b->y2 - b->y1) * (b->x2 - b->x1); }

/* Intersection over union. */
static double box_overlap(const box *a, const box *b) {
  const double top = a->y1 > b->y1 ? a->y1 : b->y1, bottom = a->y2 < b->y2 ? a->y2 : b->y2;
  const double left = a->x1 > b->x1 ? a->x1 : b->x1, right = a->x2 < b->x2 ? a->x2 : b->x2;
  if (bottom <= top || right <= left) return 0;
  const double common = (bottom - top) * (right - left);
  return common / (box_area(a) + box_area(b) - common);
}

typedef struct {
  double score;
  int64_t index;
} scored;

/* The highest score first; of equal ones the lower index. */
static int compare_scores(const void *a, const void *b) {
  const scored *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* What a node of NonMaxSuppression selects by. */
typedef struct {
  int64_t most; /* boxes a class */
  double overlap, score;
  bool has_score, centre;
} suppression;

/* Selects boxes of one class of one image: their indices, and how many. */
static int64_t select_boxes(const suppression *s, const double *boxes, const double *scores, int64_t n, scored *order,
                            int64_t *selected) {
  int64_t n_candidates = 0, n_selected = 0;
  for (int64_t i = 0; i < n; ++i)
    if (!s->has_score || scores[i] > s->score) order[n_candidates++] = (scored){scores[i], i};
  qsort(order, (size_t)n_candidates, sizeof *order, compare_scores);
  for (int64_t i = 0; i < n_candidates && n_selected < s->most; ++i) {
    const box candidate = box_of(boxes + 4 * order[i].index, s->centre);
    bool keep = true;
    for (int64_t k = 0; keep && k < n_selected; ++k) {
      const box other = box_of(boxes + 4 * selected[k], s->centre);
      keep = box_overlap(&candidate, &other) <= s->overlap;
    }
    if (keep) selected[n_selected++] = order[i].index;
  }
  return n_selected;
}

/* A number that is an optional input. */
static status optional_number(converter *c, int input, double *number) {
  const double *given;
  int n;
  if (!converter_input(c, input)) return ST_OK;
  TRY(converter_constant_reals(c, input, &given, &n));
  if (n) *number = given[0];
  return ST_OK;
}

static status convert_suppression(converter *c) {
  ir_value *boxes = converter_input(c, 0), *scores = converter_input(c, 1), *y;
  const double *b, *p;
  double most = 0;
  int n;
  suppression s = {.has_score = converter_input(c, 4), .centre = attribute_int(c, "center_point_box", 0)};
  if (boxes->tensor.rank != 3 || scores->tensor.rank != 3 || boxes->tensor.dims[2] != 4)
    return OP_FAIL("boxes and scores have %d and %d dimensions, expected 3", boxes->tensor.rank, scores->tensor.rank);
  const int64_t n_images = scores->tensor.dims[0], n_classes = scores->tensor.dims[1], n_boxes = scores->tensor.dims[2];
  if (boxes->tensor.dims[0] != n_images || boxes->tensor.dims[1] != n_boxes)
    return OP_FAIL("there are %jd boxes, but scores of %jd", (intmax_t)boxes->tensor.dims[1], (intmax_t)n_boxes);
  TRY(converter_constant_reals(c, 0, &b, &n));
  TRY(converter_constant_reals(c, 1, &p, &n));
  TRY(optional_number(c, 2, &most));
  TRY(optional_number(c, 3, &s.overlap));
  TRY(optional_number(c, 4, &s.score));
  s.most = most < (double)n_boxes ? (int64_t)most : n_boxes;
  region *memory = &c->g->memory;
  scored *order = REGION_NEW(memory, scored, n_boxes);
  int64_t *selected = REGION_NEW(memory, int64_t, n_boxes);
  int64_t *rows = REGION_NEW(memory, int64_t, 3 * n_images * n_classes * s.most), n_rows = 0;
  if (!order || !selected || !rows) return fail(ST_NO_HOST_MEMORY, "no host memory for %jd boxes", (intmax_t)n_boxes);
  for (int64_t i = 0; i < n_images; ++i)
    for (int64_t k = 0; k < n_classes; ++k) {
      const int64_t found =
          select_boxes(&s, b + i * n_boxes * 4, p + (i * n_classes + k) * n_boxes, n_boxes, order, selected);
      for (int64_t j = 0; j < found; ++j, ++n_rows) {
        rows[3 * n_rows] = i;
        rows[3 * n_rows + 1] = k;
        rows[3 * n_rows + 2] = selected[j];
      }
    }
  TRY(ir_constant(c->g, ACL_INT64, (const int64_t[]){n_rows, 3}, 2, NULL, &y));
  memcpy(ir_fill(y), rows, (size_t)n_rows * 3 * sizeof *rows);
  return converter_output(c, 0, y);
}

/* ---- Unique ------------------------------------------------------------------------------------------------------ */

/* Slices of a value along an axis, as rows of numbers. */
typedef struct {
  const double *numbers; /* [before][n][after] */
  int64_t before, n, after;
} slices;

static int unique_compare(const slices *s, int64_t a, int64_t b) {
  for (int64_t i = 0; i < s->before; ++i)
    for (int64_t k = 0; k < s->after; ++k) {
      const double x = s->numbers[(i * s->n + a) * s->after + k], y = s->numbers[(i * s->n + b) * s->after + k];
      if (x != y) return x < y ? -1 : 1;
    }
  return 0;
}

static int compare_numbers(const void *a, const void *b, void *of) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  const int order = unique_compare(of, x, y);
  return order ? order : x < y ? -1 : 1;
}

static int compare_firsts(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Finds which slices are equal. first: of each distinct one, in the order of the result; same: for each slice, which of
 * these it is; count: how often each occurs. Returns how many there are. order: room. */
static int64_t find_distinct(slices *s, bool sorted, int64_t *order, int64_t *first, int64_t *same, int64_t *count) {
  int64_t n = 0;
  for (int64_t i = 0; i < s->n; ++i) order[i] = i;
  qsort_r(order, (size_t)s->n, sizeof *order, compare_numbers, s);
  for (int64_t i = 0; i < s->n; ++i)
    if (!i || unique_compare(s, order[i - 1], order[i])) first[n++] = order[i]; /* the lowest of equal ones */
  if (!sorted) qsort(first, (size_t)n, sizeof *first, compare_firsts);
  for (int64_t k = 0; k < n; ++k) count[k] = 0;
  for (int64_t i = 0; i < s->n; ++i) {
    int64_t k = 0;
    while (unique_compare(s, first[k], i)) ++k;
    same[i] = k;
    ++count[k];
  }
  return n;
}

static status give_integers(converter *c, int output, const int64_t *integers, int64_t n) {
  ir_value *y;
  TRY(ir_integers(c->g, integers, (int)n, &y));
  return converter_output(c, output, y);
}

static status convert_unique(converter *c) {
  ir_value *x = converter_input(c, 0), *index, *y;
  int64_t dims[MAX_RANK];
  int n_numbers, axis = 0;
  slices s = {.before = 1, .after = 1};
  TRY(converter_constant_reals(c, 0, &s.numbers, &n_numbers));
  if (converter_attribute(c, "axis"))
    TRY(converter_axis(attribute_int(c, "axis", 0), x->tensor.rank, &axis));
  else
    TRY(ir_reshaped(c->g, x, &x->tensor.n, 1, &x));
  for (int d = 0; d < x->tensor.rank; ++d) *(d < axis ? &s.before : d == axis ? &s.n : &s.after) *= x->tensor.dims[d];
  s.n = x->tensor.dims[axis];
  int64_t *room = REGION_NEW(&c->g->memory, int64_t, 4 * s.n);
  if (!room) return fail(ST_NO_HOST_MEMORY, "no host memory for %jd slices", (intmax_t)s.n);
  int64_t *first = room + s.n, *same = first + s.n, *count = same + s.n;
  const int64_t n = find_distinct(&s, attribute_int(c, "sorted", 1), room, first, same, count);
  memcpy(dims, x->tensor.dims, sizeof dims);
  dims[axis] = n;
  TRY(ir_integers(c->g, first, (int)n, &index));
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, x->tensor.rank, &y));
  TRY(node_IndexSelect(c->g, x, axis, index, y));
  TRY(converter_output(c, 0, y));
  TRY(give_integers(c, 1, first, n));
  TRY(give_integers(c, 2, same, s.n));
  return give_integers(c, 3, count, n);
}

/* Before version 16 corners are not moved by half an element; since then they are unless an attribute says so. */
static status convert_roi_align(converter *c) {
  ir_value *x = converter_input(c, 0), *boxes = converter_input(c, 1), *index = converter_input(c, 2), *y;
  const char *corners = attribute_string(c, "coordinate_transformation_mode", "half_pixel");
  const bool aligned = c->version >= 16 && !strcmp(corners, "half_pixel");
  const int64_t height = attribute_int(c, "output_height", 1), width = attribute_int(c, "output_width", 1);
  if (x->tensor.rank != 4 || boxes->tensor.rank != 2)
    return OP_FAIL("the inputs have %d and %d dimensions, expected 4 and 2", x->tensor.rank, boxes->tensor.rank);
  const int64_t dims[] = {boxes->tensor.dims[0], x->tensor.dims[1], height, width};
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, 4, &y));
  TRY(node_RoiAlignModel(c->g, x, boxes, index, attribute_string(c, "mode", "avg"), height, width,
                         attribute_int(c, "sampling_ratio", 0), attribute_float(c, "spatial_scale", 1), aligned, y));
  return converter_output(c, 0, y);
}

static status convert_max_roi_pool(converter *c) {
  ir_value *x = converter_input(c, 0), *rois = converter_input(c, 1), *y;
  const int dtype = x->tensor.dtype;
  int n;
  const int64_t *size = attribute_ints(c, "pooled_shape", &n);
  if (n != 2) return OP_FAIL("pooled_shape has %d elements, expected 2", n);
  if (x->tensor.rank != 4 || rois->tensor.rank != 2)
    return OP_FAIL("the inputs have %d and %d dimensions, expected 4 and 2", x->tensor.rank, rois->tensor.rank);
  TRY(ir_cast(c->g, x, ACL_FLOAT, &x));
  TRY(ir_cast(c->g, rois, ACL_FLOAT, &rois));
  TRY(ir_contiguous(c->g, x, &x));
  TRY(ir_contiguous(c->g, rois, &rois));
  TRY(ir_temporary(c->g, ACL_FLOAT, (const int64_t[]){rois->tensor.dims[0], x->tensor.dims[1], size[0], size[1]}, 4,
                   &y));
  TRY(node_MaxRoiPool(c->g, x, rois, size[0], size[1], attribute_float(c, "spatial_scale", 1), y));
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_boxes[] = {
    {"MaxRoiPool", convert_max_roi_pool, 2, NULL, 0},
    {"NonMaxSuppression", convert_suppression, 2, NULL, 0},
    {"RoiAlign", convert_roi_align, 3, NULL, 0},
    {"Unique", convert_unique, 1, NULL, 0},
    {0},
};
