/* SPDX-License-Identifier: Apache-2.0 */
/* TransData converts one storage format to another; Identity does the same without arguments that name the formats. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/move/check.h"
#include "tensor/format.h"

enum { SRC, DST };

typedef struct {
  storage_layout layout[2];
  int64_t element_bytes;
  bool pads; /* dst has padding: elements without a source, which are set to 0 */
} trans_plan;

/* ---- phase one --------------------------------------------------------------------------------------------------- */

/* Returns t with the logical shape and format of `other`, if t's description was created in a blocked format and
 * therefore has only its storage shape. */
static tensor with_origin(const tensor *t, const tensor *other) {
  tensor x = *t;
  if (format_is_plain(t->origin_format) || !format_is_plain(other->origin_format)) return x;
  memcpy(x.dims, other->dims, sizeof x.dims);
  x.rank = other->rank;
  x.n = other->n;
  x.origin_format = other->origin_format;
  return x;
}

/* Brings the axes of `l` into the order of `axes`, which has the same letters as l->axes. */
static void layout_reorder(storage_layout *l, const char *axes) {
  const storage_layout old = *l;
  for (int d = 0; d < l->rank; ++d) l->axis[d] = old.axis[strchr(old.axes, axes[d]) - old.axes];
  l->axes = axes;
}

static bool layout_is_flat(const storage_layout *l) { return storage_layout_is_origin(l); }

/* Replaces the layout by one dimension. Two contiguous layouts with equally many elements are the same tensor. */
static void layout_flatten(storage_layout *l) {
  *l = (storage_layout){.rank = 1, .axis = {{.dim = l->n_storage, .outer = 1}}, .n_storage = l->n_storage};
}

static status match_layouts(storage_layout l[2], const tensor *src, const tensor *dst) {
  bool same = l[SRC].rank == l[DST].rank;
  const bool named = src->origin_format != ACL_FORMAT_ND && dst->origin_format != ACL_FORMAT_ND;
  if (same && named && l[SRC].axes && l[DST].axes && strspn(l[SRC].axes, l[DST].axes) == (size_t)l[SRC].rank)
    layout_reorder(&l[SRC], l[DST].axes);
  for (int d = 0; same && d < l[DST].rank; ++d) same = l[SRC].axis[d].dim == l[DST].axis[d].dim;
  if (!same && src->n == dst->n && layout_is_flat(&l[SRC]) && layout_is_flat(&l[DST])) {
    layout_flatten(&l[SRC]);
    layout_flatten(&l[DST]);
    return ST_OK;
  }
  EXPECT(same, "dst has shape %s, expected that of src, %s", SHAPE_OF(dst), SHAPE_OF(src));
  for (int d = 0; d < l[DST].rank; ++d)
    EXPECT(!l[SRC].axis[d].block || !l[DST].axis[d].block || l[SRC].axis[d].block == l[DST].axis[d].block,
           "src has blocks of %jd and dst of %jd along dimension %d, expected the same", (intmax_t)l[SRC].axis[d].block,
           (intmax_t)l[DST].axis[d].block, d);
  return ST_OK;
}

static status expect_format(const char *attribute, const char *name, const tensor *t) {
  EXPECT(!*attribute || !strcmp(attribute, format_name(t->format)), "%s is \"%.32s\", expected the operand's, %s", name,
         attribute, format_name(t->format));
  return ST_OK;
}

static status run_trans(const executor *e, void *const *view, void *scratch);

status prepare_trans_data(executor *e, const trans_data_args *a) {
  const char *const names[] = {a->name.src, a->name.dst};
  const tensor src = with_origin(a->src, a->dst), dst = with_origin(a->dst, a->src);
  const tensor *const both[] = {&src, &dst};
  trans_plan *p = PLAN(e, trans_plan);
  TRY(move_expect_same_dtype(&src, names[SRC], &dst, names[DST]));
  if (a->src_format) {
    TRY(expect_format(a->src_format, "src_format", &src));
    TRY(expect_format(a->dst_format, "dst_format", &dst));
    EXPECT(a->groups == 1, "groups is %jd, expected 1", (intmax_t)a->groups);
  }
  p->element_bytes = (int64_t)dtype_bytes(src.dtype);
  for (int i = 0; i < 2; ++i) {
    TRY(storage_layout_of(both[i], names[i], &p->layout[i]));
    e->operands[i].extent_bytes = (uint64_t)(p->layout[i].n_storage * p->element_bytes);
  }
  TRY(match_layouts(p->layout, &src, &dst));
  p->pads = p->layout[DST].n_storage != dst.n;
  executor_cost(e, e->operands[SRC].extent_bytes + e->operands[DST].extent_bytes, 0);
  e->run = e->operands[DST].extent_bytes ? run_trans : move_run_nothing;
  return ST_OK;
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

/* Steps between blocks, and within a block, along an axis that one or both sides divide into blocks. */
static int64_t layout_block_step(const storage_axis *a, int64_t block) {
  return a->block ? a->outer : a->outer * block;
}
static int64_t layout_element_step(const storage_axis *a) { return a->block ? a->inner : a->outer; }

static int64_t trans_block_of(const trans_plan *p, int d) {
  return p->layout[SRC].axis[d].block ? p->layout[SRC].axis[d].block : p->layout[DST].axis[d].block;
}

/* Moves the axes from d on. An axis with blocks is first moved in whole blocks, then the rest of the last one. */
static void move_axes(const trans_plan *p, int d, move_space s, const char *from, char *to, uint64_t cost_ns) {
  if (d == p->layout[DST].rank) {
    move_now(&s, to, from, cost_ns);
    return;
  }
  const storage_axis *x = &p->layout[SRC].axis[d], *y = &p->layout[DST].axis[d];
  const int64_t block = trans_block_of(p, d), size = p->element_bytes;
  if (!block) {
    move_space_add(&s, x->dim, y->outer * size, x->outer * size);
    move_axes(p, d + 1, s, from, to, cost_ns);
    return;
  }
  const int64_t n = x->dim / block, rest = x->dim % block;
  move_space whole = s;
  move_space_add(&whole, n, layout_block_step(y, block) * size, layout_block_step(x, block) * size);
  move_space_add(&whole, block, layout_element_step(y) * size, layout_element_step(x) * size);
  if (n) move_axes(p, d + 1, whole, from, to, cost_ns);
  move_space_add(&s, rest, layout_element_step(y) * size, layout_element_step(x) * size);
  if (rest)
    move_axes(p, d + 1, s, from + n * layout_block_step(x, block) * size, to + n * layout_block_step(y, block) * size,
              cost_ns);
}

static status run_trans(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const trans_plan *p = PLAN(e, trans_plan);
  if (p->pads) memset(view[TRANS_DATA_DST], 0, e->operands[DST].extent_bytes);
  for (int d = 0; d < p->layout[DST].rank; ++d)
    if (!p->layout[DST].axis[d].dim) return ST_OK;
  move_axes(p, 0, (move_space){.element_bytes = p->element_bytes}, view[TRANS_DATA_SRC], view[TRANS_DATA_DST],
            e->cost_ns);
  return ST_OK;
}
