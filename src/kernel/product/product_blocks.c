/* SPDX-License-Identifier: Apache-2.0 */
/* Cache-blocked GEMM on tile_gemm.h's kernels. B is packed in strips of columns, and K is cut into slices. If out can
 * hold the sums (it has the accumulator's dtype), all blocks of rows take one slice of K after the other, so that one
 * slice of a strip stays in L2. Otherwise a block of rows takes all slices and keeps its sums in L2 until they are
 * complete; the packed strip then covers all of K, where that fits in STRIP_BYTES. 16-bit results are rounded by the
 * kernel in the last slice. A factor that the kernel can read in place is not packed; of such a B only the columns
 * beyond a multiple of TILE_GRAIN are. With TILE_F32_PARTS, a block times a slice whose exponents do not allow
 * splitting (float_parts_suffice) is multiplied as TILE_F32. */
#include "base/store/hash.h"
#include "kernel/engine/scratch.h"
#include "kernel/product/product.h"

#include <string.h>

enum {
  /* rows in a block of A: a multiple of the vector kernels' micro-tile rows (14, 6, 4) */
  ROWS = 84,
  GROUP_ROWS = 256,              /* rows for AMX and dot-product kernels: a multiple of two tiles */
  GROUP_BLOCK_BYTES = 512 << 10, /* a block of A: as much as stays in L2 beside the data that streams past it */
  /* a slice of K: deeper than what keeps 32 columns of B in L1, but with fewer passes over the sums */
  DEPTH_BYTES = 4096,
  /* rows if the plan has a finish function: L2 still has the sums when it reads them, which takes a tenth less time */
  FINISHED_ROWS = 128,
  /* For AMX and dot-product kernels with at most this many columns: on AMX they are bound by reading A, whose rows are
   * therefore read in longer runs. */
  NARROW_COLS = 64,
  NARROW_ROWS = 64,
  NARROW_DEPTH = 4096,
  COLS = 512, /* maximum columns of a strip */
  GROUP_COLS = 4096,
  GROUP_SUMS_COLS = 1024, /* maximum columns if sums are kept in a buffer of their own */
  PLAIN_COLS = 256,       /* columns at once, of floats that cannot be split */
  MIN_COLS = 128,         /* minimum columns of a strip */
  /* A B of up to this size is faster read in place than packed, and for FEW_ROWS_AS_IS rows or fewer a B of up to
   * FEW_ROWS_AS_IS_BYTES. Beyond that each row of a panel costs a miss in the TLB and is not prefetched in time:
   * measured on a Zen 4 with AVX-512, 128 x 2048 x 1000 in place takes 1.2 times as long, 25 x 1024 x 8210 twice. */
  AS_IS_BYTES = 512 << 10,
  FEW_ROWS_AS_IS = 256,
  FEW_ROWS_AS_IS_BYTES = 4 << 20,
  /* Rows of B that are a multiple of so many bytes apart share two sets of L1, or one, and few of L2. Such a B is
   * always packed: 256 x 1024 x 1024 then takes half the time. */
  SAME_SET_BYTES = 2048,
  SHALLOW_BYTES = 2048, /* a slice of K for these: rows of B may be pages apart */
  /* From this width on, rows of sums are padded: at a multiple of 1 KB apart they would share few sets of L1. */
  SPREAD_COLS = 256,
  STRIP_BYTES = 16 << 20, /* size of a packed strip, which stays in a shared cache */
  /* A packed slice that only one block of rows reads is made this small, so that it is still in L2: 64 x 4096 x 4096 in
   * bfloat16 takes 10 to 15 % less time than with strips. */
  ONCE_BYTES = 512 << 10,
  LARGE_OUT = 2 << 20, /* number of 16-bit elements from which on out is written past the caches */
};

typedef struct {
  const product_part *part;
  tile_type type;
  int64_t depth, rows, cols;            /* block sizes */
  int64_t pitch;                        /* distance of rows of sums, in elements */
  int64_t slices_per_term, n_slices, k; /* n_slices: over all terms; k: depth of one term */
  int64_t at_once;                      /* slices that a block of out takes before the next block has its turn */
  /* whether packed slices of B are kept; otherwise each block of rows packs them again */
  bool keeps_strip;
  bool a_as_is, b_as_is; /* read in place */
  bool direct;           /* the sums are accumulated in out itself */
  bool adds;             /* they are added to what is there */
  bool rounded;          /* the kernel rounds them to out in the last slice */
  const char *kept;      /* B packed before by product_pack, or NULL */
  char *a, *b, *sums, *plain;
  size_t slice_bytes;          /* size of a packed slice of a strip */
  float_exponents b_exponents; /* exponent range of what is packed of the strip */
} blocks;

static bool blocks_use_groups(tile_type type) { return type >= TILE_I8 && tile_has(type); }

/* A block size of at most `most` that divides `total` evenly, so that 1025 is not cut into 1024 and 1. */
static int64_t even(int64_t total, int64_t most, int64_t grain) {
  if (total <= most) return total;
  const int64_t n = (total + most - 1) / most;
  return ((total + n - 1) / n + grain - 1) / grain * grain;
}

/* Whether out can hold the sums: it has their dtype and layout. */
static bool out_is_like_sums(const product_plan *p) {
  const int64_t size = (int64_t)tile_c_bytes(p->type);
  return p->out.dtype == (p->type == TILE_F64 ? ACL_DOUBLE : ACL_FLOAT) && !p->finish && p->out.col_stride == size &&
         p->out.row_stride % size == 0 && p->out.row_stride >= 0;
}

/* Whether the product is added to out, which is self. */
static bool out_is_self(const product_part *part) {
  const product_plan *p = part->plan;
  return p->has_self && part->self == part->out && p->alpha == 1 && p->beta == 1 && !p->activation.function &&
         !p->has_residual && p->self.dtype == p->out.dtype && p->self.row_stride == p->out.row_stride &&
         p->self.col_stride == p->out.col_stride;
}

static bool out_takes_rounded(const product_plan *p) {
  return tile_can_round(p->type, p->out.dtype) && product_is_plain(p) && !p->finish && p->out.col_stride == 2;
}

/* The depth of a slice of K. It depends on the whole GEMM rather than on a thread's block, since sums must not depend
 * on the number of threads. */
static int64_t blocks_depth(const product_plan *p) {
  const bool groups = blocks_use_groups(p->type), narrow = groups && p->out.cols <= NARROW_COLS;
  const int64_t element = (int64_t)tile_b_bytes(p->type, 64, 64) / (64 * 64);
  const bool shallow = p->out.rows <= FEW_ROWS_AS_IS || p->made_b;
  return even(p->a.cols,
              narrow   ? NARROW_DEPTH
              : groups ? GROUP_BLOCK_BYTES / (GROUP_ROWS * element) / 64 * 64
                       : (shallow ? SHALLOW_BYTES : DEPTH_BYTES) / element,
              64);
}

static void blocks_choose(blocks *s, const product_part *part) {
  const product_plan *p = part->plan;
  const bool groups = blocks_use_groups(p->type);
  *s = (blocks){.part = part, .type = p->type, .k = p->a.cols};
  const bool narrow = groups && p->out.cols <= NARROW_COLS;
  const int64_t element = (int64_t)tile_b_bytes(p->type, 64, 64) / (64 * 64);
  s->depth = blocks_depth(p);
  const int64_t n_terms = p->n_terms ? p->n_terms : 1;
  s->slices_per_term = (s->k + s->depth - 1) / s->depth;
  s->n_slices = n_terms * s->slices_per_term;
  const int64_t group_rows = narrow ? NARROW_ROWS : p->finish ? FINISHED_ROWS : GROUP_ROWS;
  s->rows = even(part->rows, groups ? group_rows : ROWS, groups ? 32 : 14);
  s->adds = out_is_like_sums(p) && out_is_self(part);
  s->direct = s->adds || (out_is_like_sums(p) && product_is_plain(p));
  s->at_once = s->direct ? 1 : s->n_slices;
  s->rounded = !s->direct && out_takes_rounded(p);
  const int64_t once = i64_max(ONCE_BYTES / (element * s->depth) / 64 * 64, 64);
  const int64_t fits = STRIP_BYTES / (element * s->depth * s->at_once) / 64 * 64;
  const int64_t most = !groups ? COLS : s->direct || s->rounded ? GROUP_COLS : GROUP_SUMS_COLS;
  s->keeps_strip = fits >= MIN_COLS;
  s->cols = even(part->cols, fits < MIN_COLS ? COLS : fits < most ? fits : most, 64);
  if (part->rows <= s->rows && s->cols > once) s->keeps_strip = false, s->cols = even(part->cols, once, 64);
  /* If rows of A are a multiple of a page apart, the micro-kernel takes half as many at a time, which is too slow when
   * B comes from memory. */
  s->a_as_is = (part->rows > FEW_ROWS_AS_IS || p->a.row_stride % 4096 != 0) &&
               tile_takes_a(p->type, p->a.dtype, p->a.row_stride, p->a.col_stride);
  const int64_t as_is_bytes = part->rows <= FEW_ROWS_AS_IS ? FEW_ROWS_AS_IS_BYTES : AS_IS_BYTES;
  s->kept = part->call->packed_b;
  s->b_as_is = !s->kept && !p->made_b && p->b.row_stride % SAME_SET_BYTES != 0 &&
               element * s->k * part->cols <= as_is_bytes &&
               tile_takes_b(p->type, p->b.dtype, p->b.row_stride, p->b.col_stride, TILE_GRAIN);
  s->pitch = s->cols < SPREAD_COLS ? s->cols : s->cols + 16;
}

static status blocks_allocate(blocks *s) {
  const size_t a = s->a_as_is ? 0 : tile_a_bytes(s->type, s->rows, s->depth);
  s->slice_bytes = tile_b_bytes(s->type, s->depth, s->b_as_is ? TILE_GRAIN : s->cols);
  const size_t b = s->kept ? 0 : s->slice_bytes * (size_t)(s->keeps_strip ? s->at_once : 1);
  const bool has_sums = !s->direct && !(s->rounded && s->n_slices == 1);
  const size_t sums = has_sums ? (size_t)(s->rows * s->pitch) * tile_c_bytes(s->type) : 0;
  const bool splits = s->type == TILE_F32_PARTS;
  const size_t plain =
      splits ? tile_a_bytes(TILE_F32, s->rows, s->depth) + tile_b_bytes(TILE_F32, s->depth, PLAIN_COLS) : 0;
  s->a = scratch_take(a + b + sums + plain);
  if (!s->a) return ST_NO_MEMORY;
  s->b = s->a + a;
  s->sums = s->b + b;
  s->plain = s->sums + sums;
  return ST_OK;
}

static int64_t slice_begin(const blocks *s, int64_t slice) { return slice % s->slices_per_term * s->depth; }
static int64_t slice_depth(const blocks *s, int64_t slice) { return i64_min(s->depth, s->k - slice_begin(s, slice)); }

/* Packs a B that is computed on the fly, some columns at a time by way of a buffer. Its pitch is not a multiple of a
 * page, so that the columns do not share sets of L1 while they are transposed. */
static void pack_made_b(const blocks *s, char *to, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  enum { AT_ONCE = 32, PITCH = SHALLOW_BYTES / sizeof(float) + 16 };
  float made[AT_ONCE * PITCH];
  for (int64_t j = 0, n; j < cols; j += n, to += tile_b_bytes(TILE_F32, rows, n)) {
    n = i64_min(AT_ONCE, cols - j);
    s->part->plan->made_b->fetch(s->part, made, PITCH, row, rows, col + j, n);
    tile_pack_b(TILE_F32, to, ACL_FLOAT, made, sizeof *made, PITCH * sizeof *made, rows, n);
  }
}

static const char *b_of(const blocks *s, int64_t slice, int64_t col) {
  const product_plan *p = s->part->plan;
  return s->part->b + slice / s->slices_per_term * p->b_term_stride + slice_begin(s, slice) * p->b.row_stride +
         col * p->b.col_stride;
}

static const char *a_of(const blocks *s, int64_t slice, int64_t row) {
  const product_plan *p = s->part->plan;
  return s->part->a + slice / s->slices_per_term * p->a_term_stride + row * p->a.row_stride +
         slice_begin(s, slice) * p->a.col_stride;
}

/* How many of a strip's columns are read in place; the others are packed. */
static int64_t as_is_cols(const blocks *s, int64_t cols) {
  const matrices *b = &s->part->plan->b;
  if (!s->b_as_is) return 0;
  return tile_takes_b(s->type, b->dtype, b->row_stride, b->col_stride, cols) ? cols : cols / TILE_GRAIN * TILE_GRAIN;
}

/* ---- a B that is packed once ------------------------------------------------------------------------------------- */

/* Its first PACKED_HEADER bytes hold the range of exponents of all of B, for TILE_F32_PARTS. The slices follow, each of
 * them packed over all columns: from a multiple of PACKED_GRAIN on, a packed slice is that of the columns from there
 * on. */
enum { PACKED_HEADER = 64, PACKED_GRAIN = TILE_GRAIN };

static int64_t slices_of(const product_plan *p, int64_t depth) { return (p->a.cols + depth - 1) / depth; }

/* Offset of column `col` of a slice; of the end, for the slice after the last one. */
static size_t packed_offset(const product_plan *p, int64_t depth, int64_t slice, int64_t col) {
  const int64_t per_term = slices_of(p, depth), rest = p->a.cols - (per_term - 1) * depth;
  const int64_t i = slice % per_term, n = p->b.cols;
  const size_t whole = tile_b_bytes(p->type, depth, n);
  const size_t term = (size_t)(per_term - 1) * whole + tile_b_bytes(p->type, rest, n);
  return PACKED_HEADER + (size_t)(slice / per_term) * term + (size_t)i * whole +
         tile_b_bytes(p->type, i < per_term - 1 ? depth : rest, col);
}

uint64_t product_packed_bytes(const product_plan *p) {
  if (!product_keeps_b(p)) return 0;
  const int64_t depth = blocks_depth(p);
  return packed_offset(p, depth, (p->n_terms ? p->n_terms : 1) * slices_of(p, depth), 0);
}

uint64_t product_packed_layout(const product_plan *p) {
  const int64_t shape[] = {p->type,         blocks_depth(p), p->b.dtype,       p->b.rows, p->b.cols,
                           p->b.row_stride, p->b.col_stride, p->b_term_stride, p->n_terms};
  return hash_bytes(HASH_START, shape, sizeof shape);
}

/* Floats whose exponents do not allow their parts to be multiplied are multiplied as they are. */
bool product_reads_b(const product_plan *p) { return p->type == TILE_F32_PARTS; }

typedef struct {
  const product_plan *plan;
  const char *b;
  char *packed;
  int64_t first;             /* of the pieces of PACKED_GRAIN columns */
  int64_t slice, slices_end; /* of all terms */
} pack_job;

/* Packs columns from begin * PACKED_GRAIN to end * PACKED_GRAIN, counted from the first, of the job's slices. */
static void pack_cols(const void *of, int64_t begin, int64_t end) {
  const pack_job *job = of;
  const product_plan *p = job->plan;
  const int64_t depth = blocks_depth(p), per_term = slices_of(p, depth), col = (job->first + begin) * PACKED_GRAIN;
  const int64_t cols = i64_min((job->first + end) * PACKED_GRAIN, p->b.cols) - col;
  for (int64_t slice = job->slice; slice < job->slices_end; ++slice) {
    const int64_t row = slice % per_term * depth, rows = i64_min(depth, p->a.cols - row);
    const char *const from =
        job->b + slice / per_term * p->b_term_stride + row * p->b.row_stride + col * p->b.col_stride;
    const float_exponents found = tile_pack_b(p->type, job->packed + packed_offset(p, depth, slice, col), p->b.dtype,
                                              from, p->b.row_stride, p->b.col_stride, rows, cols);
    float_join_exponents((float_exponents *)(void *)job->packed, found);
  }
}

enum { PIECE_BYTES = 8 << 20 }; /* of a B whose reader is told: so much memory matters to nobody, and a team is busy */

/* One term whose columns are contiguous, and so are pieces of columns. */
static void pack_by_columns(pack_job job, int64_t n, const executor_packing *listener) {
  const matrices *b = &job.plan->b;
  const int64_t pitch = b->col_stride * PACKED_GRAIN, step = i64_max(1, PIECE_BYTES / pitch);
  for (; job.first < n; job.first += step) {
    const int64_t m = i64_min(step, n - job.first),
                  cols = i64_min(m * PACKED_GRAIN, b->cols - job.first * PACKED_GRAIN);
    rows_parallel(pack_cols, &job, m, 1, (uint64_t)(b->rows * cols) / 4);
    listener->was_read(listener->listener, job.b + job.first * pitch, (uint64_t)(cols * b->col_stride));
  }
}

/* One term whose rows are contiguous, and so are its slices. */
static void pack_by_slices(pack_job job, int64_t n, const executor_packing *listener) {
  const matrices *b = &job.plan->b;
  const int64_t depth = blocks_depth(job.plan), n_slices = job.slices_end;
  const int64_t step = i64_max(1, PIECE_BYTES / (depth * b->row_stride));
  for (; job.slice < n_slices; job.slice += step) {
    job.slices_end = i64_min(job.slice + step, n_slices);
    const int64_t row = job.slice * depth, rows = i64_min(job.slices_end * depth, b->rows) - row;
    rows_parallel(pack_cols, &job, n, 1, (uint64_t)(rows * b->cols) / 4);
    listener->was_read(listener->listener, job.b + row * b->row_stride, (uint64_t)(rows * b->row_stride));
  }
}

void product_pack(const product_plan *p, const void *b, void *packed, const executor_packing *listener) {
  const int64_t n = (p->b.cols + PACKED_GRAIN - 1) / PACKED_GRAIN, n_terms = p->n_terms ? p->n_terms : 1;
  const int64_t size = (int64_t)dtype_bytes(p->b.dtype);
  const pack_job job = {.plan = p, .b = b, .packed = packed, .slices_end = n_terms * slices_of(p, blocks_depth(p))};
  memcpy(packed, &float_no_exponents, sizeof float_no_exponents);
  if (listener && listener->was_read && n_terms == 1 && p->b.col_stride == p->b.rows * size)
    pack_by_columns(job, n, listener);
  else if (listener && listener->was_read && n_terms == 1 && p->b.row_stride == p->b.cols * size)
    pack_by_slices(job, n, listener);
  else
    rows_parallel(pack_cols, &job, n, 1, (uint64_t)(p->b.rows * p->b.cols) / 4);
}

static tile_operand kept_b(blocks *s, int64_t slice, int64_t col) {
  memcpy(&s->b_exponents, s->kept, sizeof s->b_exponents);
  return (tile_operand){s->kept + packed_offset(s->part->plan, s->depth, slice, col), 0};
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static tile_operand packed_b(blocks *s, int64_t slice, int64_t col, int64_t cols, bool pack_strip) {
  const matrices *b = &s->part->plan->b;
  char *const to = s->b + (s->keeps_strip ? (size_t)(slice % s->at_once) * s->slice_bytes : 0);
  const char *const from = b_of(s, slice, col);
  if (pack_strip && s->part->plan->made_b)
    pack_made_b(s, to, slice_begin(s, slice), slice_depth(s, slice), col, cols);
  else if (pack_strip)
    float_add_exponents(&s->b_exponents, tile_pack_b(s->type, to, b->dtype, from, b->row_stride, b->col_stride,
                                                     slice_depth(s, slice), cols));
  return (tile_operand){to, 0};
}

static char *out_at(const product_part *part, int64_t row, int64_t col) {
  return part->out + row * part->plan->out.row_stride + col * part->plan->out.col_stride;
}

static tile_operand get_a(const blocks *s, int64_t slice, int64_t row, int64_t rows, float_exponents *exponents) {
  const matrices *a = &s->part->plan->a;
  const char *const from = a_of(s, slice, row);
  if (s->a_as_is) return (tile_operand){from, a->row_stride};
  *exponents = tile_pack_a(s->type, s->a, a->dtype, from, a->row_stride, a->col_stride, rows, slice_depth(s, slice));
  return (tile_operand){s->a, 0};
}

typedef struct {
  int64_t row, rows, col, cols;
} block; /* a block of out */

/* A block of rows times a slice of a strip, for floats that cannot be split into parts. */
static void multiply_plain(const blocks *s, int64_t slice, block o, float *c, int64_t ldc) {
  const matrices *a = &s->part->plan->a, *b = &s->part->plan->b;
  const int64_t k = slice_depth(s, slice);
  char *const plain_b = s->plain + tile_a_bytes(TILE_F32, o.rows, k);
  tile_pack_a(TILE_F32, s->plain, a->dtype, a_of(s, slice, o.row), a->row_stride, a->col_stride, o.rows, k);
  for (int64_t j = 0; j < o.cols; j += PLAIN_COLS) {
    const int64_t n = i64_min(PLAIN_COLS, o.cols - j);
    tile_pack_b(TILE_F32, plain_b, b->dtype, b_of(s, slice, o.col + j), b->row_stride, b->col_stride, k, n);
    tile_gemm(TILE_F32, o.rows, n, k, s->plain, plain_b, c + j, ldc, slice > 0 || s->adds);
  }
}

/* A block of rows times a packed slice of a strip. */
static void multiply_packed(const blocks *s, int64_t slice, block o, tile_operand a, float_exponents a_exponents,
                            tile_operand b, char *c, int64_t ldc) {
  const matrices *out = &s->part->plan->out;
  const int64_t k = slice_depth(s, slice);
  if (s->type == TILE_F32_PARTS && !float_parts_suffice(a_exponents, s->b_exponents))
    multiply_plain(s, slice, o, (float *)(void *)c, ldc);
  else if (s->rounded && slice == s->n_slices - 1)
    tile_multiply_rounded(s->type, o.rows, o.cols, k, a, b, c, ldc, slice > 0,
                          (tile_rounded){.dtype = out->dtype,
                                         .at = out_at(s->part, o.row, o.col),
                                         .pitch = out->row_stride,
                                         .large = s->part->rows * s->part->cols > LARGE_OUT});
  else
    tile_multiply(s->type, o.rows, o.cols, k, a, b, c, ldc, slice > 0 || s->adds);
}

/* A block of rows times at_once slices of a strip, from slice `begin` on. */
static void run_block(blocks *s, int64_t begin, block o, bool pack_strip) {
  const matrices *b = &s->part->plan->b;
  const int64_t size = (int64_t)tile_c_bytes(s->type), n = as_is_cols(s, o.cols);
  const int64_t ldc = s->direct ? s->part->plan->out.row_stride / size : o.cols == s->cols ? s->pitch : o.cols;
  char *const c = s->direct ? out_at(s->part, o.row, o.col) : s->sums;
  for (int64_t slice = begin; slice < begin + s->at_once; ++slice) {
    float_exponents a_exponents = float_no_exponents;
    const tile_operand a = get_a(s, slice, o.row, o.rows, &a_exponents);
    if (n > 0)
      tile_multiply(s->type, o.rows, n, slice_depth(s, slice), a, (tile_operand){b_of(s, slice, o.col), b->row_stride},
                    c, ldc, slice > 0 || s->adds);
    if (n < o.cols) {
      const block rest = {o.row, o.rows, o.col + n, o.cols - n};
      const tile_operand packed =
          s->kept ? kept_b(s, slice, rest.col) : packed_b(s, slice, rest.col, rest.cols, pack_strip);
      multiply_packed(s, slice, rest, a, a_exponents, packed, c + n * size, ldc);
    }
  }
  if (!s->direct && !s->rounded) product_finish(s->part, o.row, o.rows, o.col, o.cols, c, ldc);
}

/* K is 0: the sums are 0. */
static void run_empty(const blocks *s) {
  const product_part *part = s->part;
  for (int64_t i = part->row; i < part->row + part->rows; ++i)
    for (int64_t j = part->col, n; j < part->col + part->cols; j += n) {
      _Alignas(64) char zeros[512] = {0};
      n = i64_min((int64_t)(sizeof zeros / tile_c_bytes(s->type)), part->col + part->cols - j);
      product_finish(part, i, 1, j, n, zeros, 0);
    }
}

status product_blocks(const product_part *part) {
  blocks s;
  if (part->plan->a.cols == 0) {
    s = (blocks){.part = part, .type = part->plan->type};
    run_empty(&s);
    return ST_OK;
  }
  blocks_choose(&s, part);
  TRY(blocks_allocate(&s));
  const int64_t row_end = part->row + part->rows, col_end = part->col + part->cols;
  for (int64_t col = part->col; col < col_end; col += s.cols)
    for (int64_t slice = 0; slice < s.n_slices; slice += s.at_once) {
      s.b_exponents = float_no_exponents;
      for (int64_t row = part->row; row < row_end; row += s.rows)
        run_block(&s, slice, (block){row, i64_min(s.rows, row_end - row), col, i64_min(s.cols, col_end - col)},
                  row == part->row || !s.keeps_strip);
    }
  return ST_OK;
}
