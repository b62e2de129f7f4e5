/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/format.h"

#include <string.h>

/* The meaning of the dims of a storage, outermost first: a whole axis (N C D H W), the index of a block of
 * channels (c) or of outputs (n), and the position in such a block (x, y). Of matrices, columns count as
 * channels and rows as outputs. */
static const struct {
  int format;
  const char *name, *parts;
} formats[] = {{ACL_FORMAT_ND, "ND", NULL},
               {ACL_FORMAT_NCHW, "NCHW", "NCHW"},
               {ACL_FORMAT_NHWC, "NHWC", "NHWC"},
               {ACL_FORMAT_HWCN, "HWCN", "HWCN"},
               {ACL_FORMAT_NCDHW, "NCDHW", "NCDHW"},
               {ACL_FORMAT_NDHWC, "NDHWC", "NDHWC"},
               {ACL_FORMAT_NCL, "NCL", "NCW"},
               {ACL_FORMAT_NC, "NC", "NC"},
               {ACL_FORMAT_NC1HWC0, "NC1HWC0", "NcHWx"},
               {ACL_FORMAT_NDC1HWC0, "NDC1HWC0", "NDcHWx"},
               {ACL_FORMAT_FRACTAL_Z, "FRACTAL_Z", "cHWnyx"},
               {ACL_FRACTAL_Z_3D, "FRACTAL_Z_3D", "DcHWnyx"},
               {ACL_FORMAT_FRACTAL_NZ, "FRACTAL_NZ", "cnyx"}};
enum { N_FORMATS = sizeof formats / sizeof formats[0], N_PLAIN = 8 };

static int format_find(int format) {
  int i = 0;
  while (i < N_FORMATS && formats[i].format != format) ++i;
  return i;
}

bool format_is_plain(int format) { return format_find(format) < N_PLAIN; }

const char *format_name(int format) {
  return format_find(format) < N_FORMATS ? formats[format_find(format)].name : "an unknown one";
}

const char *format_axes(int format, int rank) {
  static const char *const by_rank[] = {"", "C", "CH", "CHW", "NCHW", "NCDHW"};
  const int i = format_find(format);
  if (i < N_PLAIN && formats[i].parts && strlen(formats[i].parts) == (size_t)rank) return formats[i].parts;
  return rank <= 5 ? by_rank[rank] : NULL;
}

static int64_t storage_elements(const tensor *t) {
  int64_t n = 1;
  for (int d = 0; d < t->storage_rank; ++d) n *= t->storage_dims[d];
  return n;
}

static status check_elements(const tensor *t, const char *name, int64_t expected) {
  char dims[SHAPE_TEXT], storage[SHAPE_TEXT];
  if (storage_elements(t) == expected) return ST_OK;
  return fail(ST_OP_INVALID, "%s of shape %s has storage dims %s in format %s, expected %jd elements", name,
              shape_text(t->dims, t->rank, dims), shape_text(t->storage_dims, t->storage_rank, storage),
              format_name(t->format), (intmax_t)expected);
}

/* ---- plain ------------------------------------------------------------------------------------------------------- */

/* The storage's letters if they are those of the origin in another order; else the origin's,
 * as for a row-major tensor. */
static const char *plain_order(const tensor *t, const char *axes) {
  const char *order = formats[format_find(t->format)].parts;
  if (!order || !axes || t->origin_format == ACL_FORMAT_ND || strlen(order) != (size_t)t->rank ||
      t->storage_rank != t->rank)
    return axes;
  return strspn(order, axes) == (size_t)t->rank ? order : axes;
}

static void plain_layout(const tensor *t, storage_layout *l) {
  const char *order = plain_order(t, l->axes);
  int64_t step = 1;
  for (int i = t->rank - 1; i >= 0; --i) {
    const int d = order ? (int)(strchr(l->axes, order[i]) - l->axes) : i;
    l->axis[d].outer = step;
    step *= t->dims[d];
  }
}

/* ---- blocked ----------------------------------------------------------------------------------------------------- */

/* An axis by its letter. An axis that the tensor does not have counts as one with a single element. */
static storage_axis *axis_of(storage_layout *l, const char *axes, char letter, storage_axis *missing) {
  const char *at = strchr(axes, letter);
  *missing = (storage_axis){.dim = 1};
  return at ? &l->axis[at - axes] : missing;
}

static int64_t format_blocks(int64_t n, int64_t block) { return (n + block - 1) / block; }

/* Computes the distances of all axes, from the innermost dim of the storage outwards. */
static int64_t blocked_layout(storage_layout *l, const char *axes, const char *parts, int64_t cube, int64_t rows) {
  int64_t step = 1;
  for (size_t i = strlen(parts); i-- > 0;) {
    storage_axis missing;
    const char part = parts[i];
    const bool of_channels = part == 'c' || part == 'x', of_rows = part == 'n' || part == 'y';
    storage_axis *a = axis_of(l, axes, of_channels ? 'C' : of_rows ? 'N' : part, &missing);
    if (part == 'x' || part == 'y') {
      a->block = part == 'x' ? cube : rows;
      a->inner = step;
      step *= a->block;
    } else {
      a->outer = step;
      step *= of_channels ? format_blocks(a->dim, cube) : of_rows ? format_blocks(a->dim, rows) : a->dim;
    }
  }
  return step;
}

/* FRACTAL_NZ: the last two dims are a matrix. A single dim is a column; without dims there is one element. */
static status matrices_layout(const tensor *t, storage_layout *l, const char *parts, int64_t cube, int64_t rows) {
  char axes[MAX_RANK + 1] = "";
  for (int d = 0; d < t->rank; ++d) axes[d] = d == t->rank - 1 && t->rank > 1 ? 'C' : d >= t->rank - 2 ? 'N' : '-';
  int64_t step = blocked_layout(l, axes, parts, cube, rows);
  for (int d = t->rank - 3; d >= 0; --d) {
    l->axis[d].outer = step;
    step *= t->dims[d];
  }
  l->n_storage = step;
  return ST_OK;
}

status storage_layout_of(const tensor *t, const char *name, storage_layout *l) {
  const int i = format_find(t->format);
  char text[SHAPE_TEXT];
  *l = (storage_layout){.rank = t->rank, .axes = format_axes(t->origin_format, t->rank), .n_storage = t->n};
  for (int d = 0; d < t->rank; ++d) l->axis[d].dim = t->dims[d];
  if (i == N_FORMATS) return fail(ST_OP_INVALID, "%s has format %d, which is not known here", name, t->format);
  if (!format_is_plain(t->origin_format))
    return fail(ST_OP_INVALID, "%s has origin format %s, expected one without blocks", name,
                format_name(t->origin_format));
  if (i < N_PLAIN) {
    plain_layout(t, l);
    return check_elements(t, name, t->n);
  }
  const char *parts = formats[i].parts;
  const int64_t cube = t->storage_rank ? t->storage_dims[t->storage_rank - 1] : 0;
  const int64_t rows = !strchr(parts, 'y') ? 1 : t->storage_rank > 1 ? t->storage_dims[t->storage_rank - 2] : 0;
  if (cube < 1 || rows < 1)
    return fail(ST_OP_INVALID, "%s has storage dims %s, expected those of format %s", name,
                shape_text(t->storage_dims, t->storage_rank, text), formats[i].name);
  if (t->format == ACL_FORMAT_FRACTAL_NZ)
    TRY(matrices_layout(t, l, parts, cube, rows));
  else if (l->axes)
    l->n_storage = blocked_layout(l, l->axes, parts, cube, rows);
  else
    return fail(ST_OP_INVALID, "%s has shape %s, which format %s does not have", name,
                shape_text(t->dims, t->rank, text), formats[i].name);
  return check_elements(t, name, l->n_storage);
}

bool storage_layout_is_origin(const storage_layout *l) {
  int64_t step = 1;
  for (int d = l->rank - 1; d >= 0; --d) {
    if (l->axis[d].block || (l->axis[d].dim != 1 && l->axis[d].outer != step)) return false;
    step *= l->axis[d].dim;
  }
  return true;
}
