/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norms of [N, C]: rows are samples, columns are channels. Sums over rows are computed in blocks of rows whose
 * size depends on the shape only. Each block sums in double the distances from a point near its values, and the blocks
 * are combined in order. */
#include "kernel/norm/batch_norm.h"

enum { BLOCKS = 16, LEAST_ROWS = 64 };

/* Vectors of floats with one element per column: what is subtracted, the factor of the difference, what is added, and
 * the factor of the gradient. */
enum { ABOUT, SCALE, SHIFT, GRAD_SCALE, N_VECTORS };

/* A block's sums, and the point from which distances are measured. */
typedef struct {
  double *first, *second;
  float *about;
} block_sums;

static uint64_t columns_block_bytes(const batch_args *b) {
  return ((uint64_t)b->channels * (2 * sizeof(double) + sizeof(float)) + 63) & ~UINT64_C(63);
}

void columns_plan(executor *e, batch_args *b, bool needs_sums) {
  b->block_rows = (b->n + BLOCKS - 1) / BLOCKS;
  if (b->block_rows < LEAST_ROWS) b->block_rows = LEAST_ROWS;
  b->n_blocks = (b->n + b->block_rows - 1) / b->block_rows;
  b->vectors = workspace_intermediate(e, (uint64_t)b->channels * N_VECTORS * sizeof(float));
  if (needs_sums) b->partials = workspace_partial(e, (uint64_t)b->n_blocks * columns_block_bytes(b));
}

static float *vector_at(const batch_run *r, int k) {
  return (float *)(void *)((char *)r->scratch + r->args->vectors) + k * r->args->channels;
}

static block_sums columns_block_at(const batch_run *r, int64_t block) {
  double *first =
      (double *)(void *)((char *)r->scratch + r->args->partials + (uint64_t)block * columns_block_bytes(r->args));
  const int64_t n = r->args->channels;
  return (block_sums){.first = first, .second = first + n, .about = (float *)(first + 2 * n)};
}

/* Returns the sums of the block of rows that the panel belongs to; if the panel is its first, they are cleared, and
 * distances are measured from `about`, which has the given dtype. */
static block_sums open_block(const batch_run *r, const panel *p, const void *about, int dtype) {
  const block_sums s = columns_block_at(r, p->row / r->args->block_rows);
  if (p->row % r->args->block_rows == 0) {
    memset(s.first, 0, 2 * (size_t)p->n * sizeof *s.first);
    loops->load[dtype][COMPUTE_F32](s.about, about, (int64_t)dtype_bytes(dtype), p->n);
  }
  return s;
}

static void columns_moments_panel(const void *op, const panel *p) {
  const block_sums s = open_block(op, p, p->at[0], p->dtype);
  const norm_columns c = {.x = p->at[0], .x_pitch = p->pitch[0], .n = p->n, .rows = p->width, .dtype = p->dtype};
  norm->column_sums(&c, s.first, s.second, s.about);
}

/* Operands: the gradient, the input, and the result, which is NULL for the sums. */
static norm_columns grad_columns(const panel *p) {
  return (norm_columns){.dy = p->at[0],
                        .x = p->at[1],
                        .y = p->at[2],
                        .dy_pitch = p->pitch[0],
                        .x_pitch = p->pitch[1],
                        .y_pitch = p->pitch[2],
                        .n = p->n,
                        .rows = p->width,
                        .dtype = p->dtype};
}

static void columns_grad_sums_panel(const void *op, const panel *p) {
  const block_sums s = open_block(op, p, vector_at(op, ABOUT), ACL_FLOAT);
  const norm_columns c = grad_columns(p);
  norm->column_sums(&c, s.first, s.second, s.about);
}

static void columns_apply_panel(const void *op, const panel *p) {
  const norm_columns c = {.x = p->at[0],
                          .y = p->at[1],
                          .x_pitch = p->pitch[0],
                          .y_pitch = p->pitch[1],
                          .n = p->n,
                          .rows = p->width,
                          .dtype = p->dtype};
  norm->column_apply(&c, vector_at(op, ABOUT), vector_at(op, SCALE), vector_at(op, SHIFT), NULL);
}

static void columns_grad_panel(const void *op, const panel *p) {
  const norm_columns c = grad_columns(p);
  norm->column_apply(&c, vector_at(op, ABOUT), vector_at(op, SCALE), vector_at(op, SHIFT), vector_at(op, GRAD_SCALE));
}

static status columns_run_phase(const batch_run *r, panel_body *body, uint32_t unused) {
  const panel_job job = {.plan = &r->plan->rows,
                         .view = r->view,
                         .body = body,
                         .op = r,
                         .grain = r->args->block_rows,
                         .unused = unused,
                         .as_stored = true};
  return panels_run(&job, r->e->cost_ns);
}

status columns_moments(const batch_run *r) { return columns_run_phase(r, columns_moments_panel, 1u << 1); }

status columns_grad_sums(const batch_run *r) {
  for (int64_t c = 0; c < r->args->channels; ++c) vector_at(r, ABOUT)[c] = (float)r->step[c].stats.mean;
  return columns_run_phase(r, columns_grad_sums_panel, 1u << 2);
}

/* The mean is split into a float and a remainder: (x - about) * scale + shift. */
status columns_apply(const batch_run *r) {
  float *about = vector_at(r, ABOUT), *scale = vector_at(r, SCALE), *shift = vector_at(r, SHIFT);
  for (int64_t c = 0; c < r->args->channels; ++c) {
    const channel_step *s = &r->step[c];
    about[c] = (float)s->stats.mean;
    scale[c] = (float)(s->stats.rstd * s->gamma);
    shift[c] = (float)(s->beta + (about[c] - s->stats.mean) * s->stats.rstd * s->gamma);
  }
  return columns_run_phase(r, columns_apply_panel, 0);
}

/* (dy * gamma - a - b * xhat) * rstd, rearranged to a linear function of x and dy. */
status columns_grad(const batch_run *r) {
  float *about = vector_at(r, ABOUT), *scale = vector_at(r, SCALE), *shift = vector_at(r, SHIFT);
  for (int64_t c = 0; c < r->args->channels; ++c) {
    const channel_step *s = &r->step[c];
    const double slope = -s->mean.dy_xhat * s->stats.rstd * s->stats.rstd;
    about[c] = (float)s->stats.mean;
    scale[c] = (float)slope;
    shift[c] = (float)(-s->mean.dy * s->stats.rstd + slope * (about[c] - s->stats.mean));
    vector_at(r, GRAD_SCALE)[c] = (float)(s->gamma * s->stats.rstd);
  }
  return columns_run_phase(r, columns_grad_panel, 0);
}

norm_moments columns_channel_moments(const batch_run *r, int64_t channel) {
  const batch_args *b = r->args;
  norm_moments m = {0};
  for (int64_t k = 0; k < b->n_blocks; ++k) {
    const block_sums s = columns_block_at(r, k);
    const double n = (double)i64_min(b->block_rows, b->n - k * b->block_rows), shift = s.first[channel] / n;
    const double m2 = s.second[channel] - s.first[channel] * shift;
    m = norm_moments_join(m, (norm_moments){.n = n, .mean = s.about[channel] + shift, .m2 = m2 < 0 ? 0 : m2});
  }
  return m;
}

norm_sums columns_channel_sums(const batch_run *r, int64_t channel) {
  const norm_stats *stats = &r->step[channel].stats;
  norm_sums sums = {0};
  for (int64_t k = 0; k < r->args->n_blocks; ++k) {
    const block_sums s = columns_block_at(r, k);
    sums.dy += s.first[channel];
    sums.dy_xhat += (s.second[channel] + s.first[channel] * (s.about[channel] - stats->mean)) * stats->rstd;
  }
  return sums;
}
