/* SPDX-License-Identifier: Apache-2.0 */
/* SignBitsPack and SignBitsUnpack: the signs of floats as bits, 1 where the element is 0 or greater. The first element
 * of eight is the lowest bit. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { TILE_BYTES_OF_BITS = 64, BITS_GRAIN = 1024 }; /* bytes of bits */

/* Describes the matrix that is written, which may have any strides, and the vector that is read. */
typedef struct {
  walk at;           /* operand 0: the matrix that is written */
  load_loop *load;   /* of the vector that is read */
  store_loop *store; /* unpacking: of the matrix */
  int64_t n, stride; /* of the vector: elements, and bytes from one to the next */
} sign_bits_plan;

typedef struct {
  const sign_bits_plan *plan;
  const char *self;
  void *out;
} sign_bits_job;

static void sign_bits_pack_range(const void *job, int64_t begin, int64_t end) {
  const sign_bits_job *j = job;
  const sign_bits_plan *p = j->plan;
  const int64_t step = p->at.strides[0][p->at.rank - 1];
  float x[8 * TILE_BYTES_OF_BITS];
  cursor c;
  cursor_start(&c, &p->at, &j->out, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(TILE_BYTES_OF_BITS, end - i));
    const int64_t present = i64_min(8 * n, p->n - 8 * i);
    p->load(x, j->self + 8 * i * p->stride, p->stride, present);
    for (int64_t k = present; k < 8 * n; ++k) x[k] = -1;
    for (int64_t k = 0; k < n; ++k) {
      unsigned byte = 0;
      for (int bit = 0; bit < 8; ++bit) byte |= (unsigned)(x[8 * k + bit] >= 0) << bit;
      c.at[0][k * step] = (char)byte;
    }
  }
}

static void sign_bits_unpack_range(const void *job, int64_t begin, int64_t end) {
  const sign_bits_job *j = job;
  const sign_bits_plan *p = j->plan;
  const int64_t step = p->at.strides[0][p->at.rank - 1];
  float x[8 * TILE_BYTES_OF_BITS];
  cursor c;
  cursor_start(&c, &p->at, &j->out, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(8 * TILE_BYTES_OF_BITS, end - i));
    for (int64_t k = 0; k < n; ++k) {
      const unsigned byte = *(const unsigned char *)(j->self + (i + k) / 8 * p->stride);
      x[k] = byte >> (i + k) % 8 & 1 ? 1 : -1;
    }
    p->store(c.at[0], step, x, n);
  }
}

static status sign_bits_pack_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const sign_bits_plan *p = PLAN(e, sign_bits_plan);
  const sign_bits_job job = {.plan = p, .self = view[SIGN_BITS_PACK_SELF], .out = view[SIGN_BITS_PACK_OUT]};
  rows_parallel(sign_bits_pack_range, &job, p->at.n, BITS_GRAIN, e->cost_ns);
  return ST_OK;
}

static status sign_bits_unpack_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const sign_bits_plan *p = PLAN(e, sign_bits_plan);
  const sign_bits_job job = {.plan = p, .self = view[SIGN_BITS_UNPACK_SELF], .out = view[SIGN_BITS_UNPACK_OUT]};
  rows_parallel(sign_bits_unpack_range, &job, p->at.n, 8 * BITS_GRAIN, e->cost_ns);
  return ST_OK;
}

/* Checks that self is a vector and out a matrix of `size` rows with n elements in all, and plans both. */
static status sign_bits_plan_init(executor *e, const tensor *self, int64_t size, const tensor *out, int64_t n) {
  sign_bits_plan *p = PLAN(e, sign_bits_plan);
  TRY(op_expect_rank(self, "self", 1, 1));
  EXPECT(size >= 1 && n % size == 0, "size is %jd, expected a divisor of %jd, the number of elements of out",
         (intmax_t)size, (intmax_t)n);
  TRY(op_expect_shape(out, "out", (const int64_t[]){size, n / size}, 2));
  const view in = view_of(self), to = view_of(out);
  walk_init(&p->at, (const view *const[]){&to}, 1, to.rank);
  p->load = loops->load[self->dtype][COMPUTE_F32];
  p->store = loops->store[out->dtype][COMPUTE_F32];
  p->n = self->n;
  p->stride = in.strides[0];
  executor_cost(e, (uint64_t)self->n * dtype_bytes(self->dtype) + (uint64_t)n * dtype_bytes(out->dtype),
                (uint64_t)(self->n + n));
  return ST_OK;
}

/* The last byte has bits of 0 for elements that are missing. */
status prepare_sign_bits_pack(executor *e, const sign_bits_pack_args *a) {
  TRY(op_expect_dtype(a->self, "self", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_dtype(a->out, "out", DTYPE_BIT(ACL_UINT8)));
  TRY(sign_bits_plan_init(e, a->self, a->size, a->out, (a->self->n + 7) / 8));
  e->run = a->out->n ? sign_bits_pack_run : move_run_nothing;
  return ST_OK;
}

/* Bits of 0 become -1. */
status prepare_sign_bits_unpack(executor *e, const sign_bits_unpack_args *a) {
  EXPECT(a->dtype == ACL_FLOAT || a->dtype == ACL_FLOAT16, "dtype is %s, expected FLOAT or FLOAT16",
         dtype_name(a->dtype));
  TRY(op_expect_dtype(a->self, "self", DTYPE_BIT(ACL_UINT8)));
  TRY(op_expect_dtype(a->out, "out", DTYPE_BIT(a->dtype)));
  TRY(sign_bits_plan_init(e, a->self, a->size, a->out, 8 * a->self->n));
  e->run = a->out->n ? sign_bits_unpack_run : move_run_nothing;
  return ST_OK;
}
