/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes in images: the overlap of pairs of boxes (Iou), computed in double, and NonMaxSuppression as ONNX has it and
 * NMSWithMask by name, computed in float, as frameworks do. */
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "tensor/objects.h"

enum { CORNERS = 4 };

/* ---- Iou --------------------------------------------------------------------------------------------------------- */

typedef struct {
  int64_t n, m;                                   /* rows and columns of overlap */
  int64_t row[2], column[2], out_row, out_column; /* strides in bytes, of the boxes' tensors and of overlap */
  load_loop *load;
  store_loop *store;
  double eps;
  bool aligned, of_second; /* of_second: relative to the second box's area alone */
} iou_plan;

typedef struct {
  const iou_plan *plan;
  const char *boxes[2];
  char *out;
} iou_job;

static double box_length(double begin, double end, double eps) {
  const double length = end - begin + eps;
  return length > 0 || length != length ? length : 0;
}

/* a, b: x0, y0, x1, y1. */
static double iou_overlap(const iou_plan *p, const double *a, const double *b) {
  const double eps = p->eps;
  const double first = (a[2] - a[0] + eps) * (a[3] - a[1] + eps), second = (b[2] - b[0] + eps) * (b[3] - b[1] + eps);
  const double left = a[0] > b[0] ? a[0] : b[0], top = a[1] > b[1] ? a[1] : b[1];
  const double right = a[2] < b[2] ? a[2] : b[2], bottom = a[3] < b[3] ? a[3] : b[3];
  const double both = box_length(left, right, eps) * box_length(top, bottom, eps);
  return both / (p->of_second ? second : first + second - both);
}

static void iou_range(const void *arg, int64_t begin, int64_t end) {
  const iou_job *j = arg;
  const iou_plan *p = j->plan;
  double a[CORNERS], b[CORNERS];
  for (int64_t i = begin; i < end; ++i) {
    p->load(a, j->boxes[0] + i * p->row[0], p->column[0], CORNERS);
    for (int64_t k = 0; k < p->m; ++k) {
      p->load(b, j->boxes[1] + (p->aligned ? i : k) * p->row[1], p->column[1], CORNERS);
      const double overlap = iou_overlap(p, a, b);
      p->store(j->out + i * p->out_row + k * p->out_column, 0, &overlap, 1);
    }
  }
}

static status run_iou(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const iou_plan *p = PLAN(e, iou_plan);
  const iou_job job = {p, {view[IOU_B_BOXES], view[IOU_GT_BOXES]}, view[IOU_OVERLAP]};
  rows_parallel(iou_range, &job, p->n, 1, e->cost_ns);
  return ST_OK;
}

static status expect_boxes(const tensor *t, const char *name, int rank) {
  TRY(op_expect_rank(t, name, rank, rank));
  EXPECT(t->dims[rank - 1] == CORNERS, "%s has shape %s, expected 4 elements in the last dimension", name, SHAPE_OF(t));
  return ST_OK;
}

status prepare_iou(executor *e, const iou_args *a) {
  const tensor *first = a->b_boxes, *second = a->gt_boxes, *out = a->overlap;
  const bool iou = a->mode && strcmp(a->mode, "iou") == 0, iof = a->mode && strcmp(a->mode, "iof") == 0;
  TRY(op_expect_dtype(first, "bBoxes", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(second, "gtBoxes", DTYPE_BIT(first->dtype)));
  TRY(op_expect_dtype(out, "overlap", DTYPE_BIT(first->dtype)));
  TRY(expect_boxes(first, "bBoxes", 2));
  TRY(expect_boxes(second, "gtBoxes", 2));
  EXPECT(iou || iof, "mode is \"%.32s\", expected \"iou\" or \"iof\"", a->mode ? a->mode : "");
  EXPECT(a->eps >= 0, "eps is %g, expected 0 or more", a->eps);
  if (a->aligned) TRY(op_expect_same_shape(second, "gtBoxes", first));
  const int64_t dims[] = {first->dims[0], a->aligned ? 1 : second->dims[0]};
  TRY(op_expect_shape(out, "overlap", dims, 2));
  const view v = view_of(first), w = view_of(second), to = view_of(out);
  iou_plan *p = PLAN(e, iou_plan);
  *p = (iou_plan){.n = dims[0],
                  .m = dims[1],
                  .row = {v.strides[0], w.strides[0]},
                  .column = {v.strides[1], w.strides[1]},
                  .out_row = to.strides[0],
                  .out_column = to.strides[1],
                  .load = loops->load[first->dtype][COMPUTE_F64],
                  .store = loops->store[first->dtype][COMPUTE_F64],
                  .eps = a->eps,
                  .aligned = a->aligned,
                  .of_second = iof};
  executor_cost(e, (uint64_t)(first->n + second->n + out->n) * dtype_bytes(first->dtype), (uint64_t)out->n * 64);
  e->run = out->n ? run_iou : move_run_nothing;
  return ST_OK;
}

/* Iou by name, whose result has the second boxes as rows. */
status prepare_graph_iou(executor *e, const graph_iou_args *a) {
  const tensor *first = a->bboxes, *second = a->gtboxes;
  TRY(op_expect_rank(first, "bboxes", 2, 2));
  TRY(op_expect_rank(second, "gtboxes", 2, 2));
  TRY(op_expect_shape(a->overlap, "overlap", (const int64_t[]){second->dims[0], first->dims[0]}, 2));
  tensor turned = *a->overlap;
  turned.dims[0] = first->dims[0];
  turned.dims[1] = second->dims[0];
  turned.strides[0] = a->overlap->strides[1];
  turned.strides[1] = a->overlap->strides[0];
  const iou_args pairs = {.b_boxes = first, .gt_boxes = second, .mode = a->mode, .eps = a->eps, .overlap = &turned};
  return prepare_iou(e, &pairs);
}

/* ---- NonMaxSuppression ------------------------------------------------------------------------------------------- */

typedef struct {
  int64_t batches, classes, n, most, rows; /* rows: room in the output */
  int64_t box[3], score[3];                /* strides in bytes */
  load_loop *load;
  float iou, least_score;
  bool centers;
} nms_plan;

typedef struct {
  float score;
  int32_t index;
} nms_candidate;

static int by_score(const void *x, const void *y) {
  const nms_candidate *a = x, *b = y;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return (a->index > b->index) - (a->index < b->index);
}

/* Reads a box as its lower and upper corners. */
static void read_box(const nms_plan *p, const char *from, float *box) {
  float x[CORNERS];
  p->load(x, from, p->box[2], CORNERS);
  for (int d = 0; d < 2; ++d) {
    const float a = p->centers ? x[d] - x[d + 2] / 2 : x[d], b = p->centers ? x[d] + x[d + 2] / 2 : x[d + 2];
    box[d] = a < b ? a : b;
    box[d + 2] = a < b ? b : a;
  }
}

static bool overlaps(const float *a, const float *b, float most) {
  float length[2], first = 1, second = 1;
  for (int d = 0; d < 2; ++d) {
    const float begin = a[d] > b[d] ? a[d] : b[d], end = a[d + 2] < b[d + 2] ? a[d + 2] : b[d + 2];
    length[d] = end > begin ? end - begin : 0;
    first *= a[d + 2] - a[d];
    second *= b[d + 2] - b[d];
  }
  const float both = length[0] * length[1], all = first + second - both;
  return all > 0 && both / all > most;
}

/* Selects boxes of one class by descending score; `kept` has the boxes that were selected. Returns how many. */
static int64_t nms_select(const nms_plan *p, const char *boxes, nms_candidate *candidates, int64_t n, float *kept,
                          int64_t limit) {
  int64_t found = 0;
  qsort(candidates, (size_t)n, sizeof *candidates, by_score);
  for (int64_t i = 0; i < n && found < limit; ++i) {
    float *const box = kept + CORNERS * found;
    bool hidden = false;
    read_box(p, boxes + candidates[i].index * p->box[1], box);
    for (int64_t k = 0; k < found && !hidden; ++k) hidden = overlaps(kept + CORNERS * k, box, p->iou);
    if (!hidden) candidates[found++] = candidates[i];
  }
  return found;
}

static status run_nms(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const nms_plan *p = PLAN(e, nms_plan);
  int32_t *const out = view[NON_MAX_SUPPRESSION_SELECTED_INDICES];
  int64_t rows = 0;
  char *const room = scratch_take((size_t)(p->n + 1) * (sizeof(nms_candidate) + sizeof(float) * CORNERS));
  if (!room) return ST_NO_MEMORY;
  nms_candidate *const candidates = (nms_candidate *)(void *)room;
  float *const kept = (float *)(void *)(room + (size_t)(p->n + 1) * sizeof *candidates);
  for (int64_t b = 0; b < p->batches; ++b)
    for (int64_t c = 0; c < p->classes; ++c) {
      const char *const scores = (const char *)view[NON_MAX_SUPPRESSION_SCORES] + b * p->score[0] + c * p->score[1];
      const char *const boxes = (const char *)view[NON_MAX_SUPPRESSION_BOXES] + b * p->box[0];
      int64_t n = 0;
      for (int64_t i = 0; i < p->n; ++i) {
        p->load(&candidates[n].score, scores + i * p->score[2], 0, 1);
        candidates[n].index = (int32_t)i;
        n += candidates[n].score >= p->least_score;
      }
      n = nms_select(p, boxes, candidates, n, kept, i64_min(p->most, p->rows - rows));
      for (int64_t i = 0; i < n; ++i, ++rows) {
        out[3 * rows] = (int32_t)b;
        out[3 * rows + 1] = (int32_t)c;
        out[3 * rows + 2] = candidates[i].index;
      }
    }
  tensor_set_shape(e->results[0], (const int64_t[]){rows, 3}, 2);
  return ST_OK;
}

static status expect_threshold(const aclFloatArray *a, const char *name) {
  TRY(op_expect_size(a->size, name, 1));
  EXPECT(a->value[0] >= 0 && a->value[0] <= 1, "%s is %g, expected 0 to 1", name, (double)a->value[0]);
  return ST_OK;
}

/* A box whose overlap with a selected one is more than iouThreshold is left out, and so are scores below
 * scoreThreshold. selectedIndices has room for its rows; its shape becomes that of the rows that were found. */
status prepare_non_max_suppression(executor *e, const non_max_suppression_args *a) {
  const tensor *boxes = a->boxes, *scores = a->scores, *out = a->selected_indices;
  TRY(op_expect_dtype(boxes, "boxes", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_dtype(scores, "scores", DTYPE_BIT(boxes->dtype)));
  TRY(op_expect_dtype(out, "selectedIndices", DTYPE_BIT(ACL_INT32)));
  TRY(expect_boxes(boxes, "boxes", 3));
  TRY(op_expect_rank(scores, "scores", 3, 3));
  TRY(op_expect_rank(out, "selectedIndices", 2, 2));
  EXPECT(scores->dims[0] == boxes->dims[0] && scores->dims[2] == boxes->dims[1],
         "scores has shape %s, expected [%jd, classes, %jd] as boxes has shape %s", SHAPE_OF(scores),
         (intmax_t)boxes->dims[0], (intmax_t)boxes->dims[1], SHAPE_OF(boxes));
  EXPECT(out->dims[1] == 3 && out->contiguous, "selectedIndices has shape %s, expected [rows, 3], without gaps",
         SHAPE_OF(out));
  TRY(op_expect_size(a->max_output_boxes_per_class->size, "maxOutputBoxesPerClass", 1));
  const int64_t most = a->max_output_boxes_per_class->value[0], centers = a->center_point_box;
  EXPECT(most >= 0, "maxOutputBoxesPerClass is %jd, expected 0 or more", (intmax_t)most);
  EXPECT(centers == 0 || centers == 1, "centerPointBox is %jd, expected 0 or 1", (intmax_t)centers);
  TRY(expect_threshold(a->iou_threshold, "iouThreshold"));
  TRY(expect_threshold(a->score_threshold, "scoreThreshold"));
  const view v = view_of(boxes), w = view_of(scores);
  nms_plan *p = PLAN(e, nms_plan);
  *p = (nms_plan){.batches = boxes->dims[0],
                  .classes = scores->dims[1],
                  .n = boxes->dims[1],
                  .most = most,
                  .rows = out->dims[0],
                  .box = {v.strides[0], v.strides[1], v.strides[2]},
                  .score = {w.strides[0], w.strides[1], w.strides[2]},
                  .load = loops->load[boxes->dtype][COMPUTE_F32],
                  .iou = a->iou_threshold->value[0],
                  .least_score = a->score_threshold->value[0],
                  .centers = centers};
  executor_result(e, out, out, 0);
  executor_cost(e, (uint64_t)(boxes->n + scores->n) * dtype_bytes(boxes->dtype), (uint64_t)scores->n * 256);
  e->run = run_nms;
  return ST_OK;
}

/* ---- NMSWithMask, by name ---------------------------------------------------------------------------------------- */

typedef struct {
  int64_t n, row, out_row; /* rows: bytes from box to box */
  int64_t size;            /* bytes of an element */
  int dtype;
  float iou;
} masked_nms_plan;

/* Boxes are taken in their order, whatever their scores. */
static status masked_nms_run(const executor *e, void *const *view, void *scratch) {
  const masked_nms_plan *p = PLAN(e, masked_nms_plan);
  const char *boxes = view[GRAPH_NMS_BOX_SCORES];
  char *out = view[GRAPH_NMS_SELECTED_BOXES], *mask = view[GRAPH_NMS_SELECTED_MASK];
  int32_t *const index = view[GRAPH_NMS_SELECTED_IDX];
  (void)scratch;
  float *const kept = (float *)(void *)scratch_take((size_t)p->n * CORNERS * sizeof(float));
  if (!kept) return ST_NO_MEMORY;
  for (int64_t i = 0, found = 0; i < p->n; ++i) {
    float *const box = kept + CORNERS * found;
    bool hidden = false;
    loops->load[p->dtype][COMPUTE_F32](box, boxes + i * p->row, p->size, CORNERS);
    for (int64_t k = 0; k < found && !hidden; ++k) hidden = overlaps(kept + CORNERS * k, box, p->iou);
    memcpy(out + i * p->out_row, boxes + i * p->row, (size_t)p->out_row);
    index[i] = (int32_t)i;
    mask[i] = !hidden;
    found += !hidden;
  }
  return ST_OK;
}

status prepare_graph_nms(executor *e, const graph_nms_args *a) {
  enum { COLUMNS = 5 };
  const tensor *boxes = a->box_scores;
  TRY(op_expect_dtype(boxes, "box_scores", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16)));
  EXPECT(boxes->rank == 2 && boxes->dims[1] >= COLUMNS, "box_scores has shape %s, expected [n, 5 or more]",
         SHAPE_OF(boxes));
  TRY(op_expect_dtype(a->selected_boxes, "selected_boxes", DTYPE_BIT(boxes->dtype)));
  TRY(op_expect_dtype(a->selected_idx, "selected_idx", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_dtype(a->selected_mask, "selected_mask", DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_UINT8)));
  TRY(op_expect_shape(a->selected_boxes, "selected_boxes", (const int64_t[]){boxes->dims[0], COLUMNS}, 2));
  TRY(op_expect_shape(a->selected_idx, "selected_idx", boxes->dims, 1));
  TRY(op_expect_shape(a->selected_mask, "selected_mask", boxes->dims, 1));
  const int64_t size = (int64_t)dtype_bytes(boxes->dtype);
  *PLAN(e, masked_nms_plan) = (masked_nms_plan){.n = boxes->dims[0],
                                                .row = boxes->dims[1] * size,
                                                .out_row = COLUMNS * size,
                                                .size = size,
                                                .dtype = boxes->dtype,
                                                .iou = (float)a->iou_threshold};
  executor_cost(e, (uint64_t)(2 * boxes->n * size), (uint64_t)boxes->n * 256);
  e->run = boxes->n ? masked_nms_run : move_run_nothing;
  return ST_OK;
}
