/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/objects.h"

#include <stdatomic.h>

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/store/cache.h"

/* More than any memory holds, and small enough for a sum of eight such terms not to overflow. */
static const int64_t MAX_ELEMENTS = INT64_C(1) << 56;

const char *shape_text(const int64_t *dims, int rank, char *text) {
  int n = snprintf(text, SHAPE_TEXT, "[");
  for (int d = 0; d < rank && n < SHAPE_TEXT - 24; ++d)
    n += snprintf(text + n, SHAPE_TEXT - (size_t)n, "%s%jd", d ? ", " : "", (intmax_t)dims[d]);
  snprintf(text + n, SHAPE_TEXT - (size_t)n, "]");
  return text;
}

bool tensor_is_contiguous(const tensor *t) {
  int64_t expected = 1;
  for (int d = t->rank - 1; d >= 0; --d) {
    if (t->dims[d] == 0) return true;
    if (t->dims[d] != 1 && t->strides[d] != expected) return false;
    expected *= t->dims[d];
  }
  return true;
}

static status tensor_check_rank(const char *name, const int64_t *dims, uint64_t rank) {
  if (rank > WIDE_RANK)
    return fail(ST_OP_INVALID, "%sNum is %ju, expected at most %d", name, (uintmax_t)rank, WIDE_RANK);
  if (rank && !dims) return fail(ST_OP_NULL, "%s is NULL, expected %ju dimensions", name, (uintmax_t)rank);
  return ST_OK;
}

static status check_dims(const char *name, const int64_t *dims, uint64_t rank, int64_t *product) {
  *product = 1;
  TRY(tensor_check_rank(name, dims, rank));
  for (uint64_t d = 0; d < rank; ++d) {
    if (dims[d] < 0)
      return fail(ST_OP_INVALID, "%s[%ju] is %jd, expected 0 or more", name, (uintmax_t)d, (intmax_t)dims[d]);
    if (__builtin_mul_overflow(*product, dims[d], product) || *product > MAX_ELEMENTS)
      return fail(ST_OP_INVALID, "%s has more than 2^56 elements", name);
  }
  return ST_OK;
}

static status check_strides(const int64_t *dims, const int64_t *strides, uint64_t rank) {
  for (uint64_t d = 0; strides && d < rank; ++d) {
    int64_t extent;
    if (strides[d] < 0)
      return fail(ST_OP_INVALID, "stride[%ju] is %jd, expected 0 or more", (uintmax_t)d, (intmax_t)strides[d]);
    if (__builtin_mul_overflow(strides[d], dims[d], &extent) || extent > MAX_ELEMENTS)
      return fail(ST_OP_INVALID, "stride[%ju] is %jd, which reaches beyond 2^56 elements", (uintmax_t)d,
                  (intmax_t)strides[d]);
  }
  return ST_OK;
}

#ifdef CANNON_INVARIANTS
bool tensor_is_valid(const tensor *t) {
  int64_t n = 1;
  if (t->magic == MAGIC_WIDE_TENSOR) return t->wide->rank > MAX_RANK || t->wide->storage_rank > MAX_RANK;
  if (t->magic != MAGIC_TENSOR || t->rank > MAX_RANK || t->storage_rank > MAX_RANK || t->offset < 0) return false;
  for (int d = 0; d < t->rank; ++d) {
    if (t->dims[d] < 0 || t->strides[d] < 0) return false;
    n *= t->dims[d];
  }
  return t->n == n && t->contiguous == tensor_is_contiguous(t);
}
#endif

/* MindSpore marks an absent index by nine dimensions without elements, which CANN takes. */
static bool marks_absence(const int64_t *dims, uint64_t rank) {
  if (rank != MAX_RANK + 1 || !dims) return false;
  for (uint64_t d = 0; d < rank; ++d)
    if (dims[d]) return false;
  return true;
}

/* Makes the tensor one of more than MAX_RANK dimensions, with copies of the arrays. */
__attribute__((noinline)) static status set_wide(tensor *t, const int64_t *dims, const int64_t *strides, int rank,
                                                 const int64_t *storage_dims, int storage_rank) {
  tensor_shape *s = malloc(sizeof *s + (size_t)(2 * rank + storage_rank) * sizeof *dims);
  if (!s) return fail(ST_NO_HOST_MEMORY, "no host memory for the shape of a tensor");
  int64_t *const own = (int64_t *)(s + 1), *const own_strides = own + rank, *const own_storage = own_strides + rank;
  uint64_t step = 1; /* wraps around behind a dimension 0 */
  for (int d = rank - 1; d >= 0; --d) {
    own[d] = dims[d];
    own_strides[d] = strides ? strides[d] : (int64_t)step;
    step *= (uint64_t)dims[d];
  }
  for (int d = 0; d < storage_rank; ++d) own_storage[d] = storage_dims[d];
  *s = (tensor_shape){rank, storage_rank, own, own_strides, own_storage};
  t->magic = MAGIC_WIDE_TENSOR;
  t->wide = s;
  return ST_OK;
}

tensor_shape tensor_shape_of(const tensor *t) {
  if (t->magic == MAGIC_WIDE_TENSOR) return *t->wide;
  return (tensor_shape){t->rank, t->storage_rank, t->dims, t->strides, t->storage_dims};
}

status tensor_init(tensor *t, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides, int64_t offset,
                   int format, const int64_t *storage_dims, uint64_t storage_rank, void *data) {
  int64_t n, unused;
  if (unlikely(marks_absence(dims, rank))) {
    rank = MAX_RANK;
    if (storage_rank > MAX_RANK) storage_rank = MAX_RANK;
  }
  TRY(check_dims("viewDims", dims, rank, &n));
  TRY(check_strides(dims, strides, rank));
  /* For an empty view, clients may compute storage dims below 0, since they treat it as any other view. */
  TRY(n ? check_dims("storageDims", storage_dims, storage_rank, &unused)
        : tensor_check_rank("storageDims", storage_dims, storage_rank));
  if (offset < 0 || offset > MAX_ELEMENTS)
    return fail(ST_OP_INVALID, "offset is %jd, expected 0 to 2^56 elements", (intmax_t)offset);
  if (dtype != ACL_DT_UNDEFINED && !dtype_is_known(dtype))
    return fail(ST_OP_INVALID, "dataType is %d, expected a value of aclDataType", dtype);
  if (unlikely(rank > MAX_RANK || storage_rank > MAX_RANK)) {
    TRY(set_wide(t, dims, strides, (int)rank, storage_dims, (int)storage_rank));
    rank = storage_rank = 0;
  } else {
    t->magic = MAGIC_TENSOR;
  }
  t->dtype = (int16_t)dtype;
  t->format = (int16_t)format;
  t->origin_format = ACL_FORMAT_ND;
  t->rank = (uint8_t)rank;
  t->storage_rank = (uint8_t)storage_rank;
  t->offset = offset;
  t->data = data;
  t->n = n;
  int64_t step = 1;
  for (int d = (int)rank - 1; d >= 0; --d) {
    t->dims[d] = dims[d];
    t->strides[d] = strides ? strides[d] : step;
    step *= dims[d];
  }
  for (uint64_t d = 0; d < storage_rank; ++d) t->storage_dims[d] = storage_dims[d];
  t->contiguous = tensor_is_contiguous(t);
  INVARIANT(tensor_is_valid(t));
  return ST_OK;
}

status tensor_init_again(tensor *t, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides,
                         int64_t offset, int format, const int64_t *storage_dims, uint64_t storage_rank, void *data) {
  tensor_shape *const before = t->magic == MAGIC_WIDE_TENSOR ? t->wide : NULL;
  TRY(tensor_init(t, dims, rank, dtype, strides, offset, format, storage_dims, storage_rank, data));
  free(before);
  return ST_OK;
}

tensor *tensor_new(void) {
  tensor *t = cache_get(CACHE_TENSOR, sizeof *t);
  if (!t) {
    fail(ST_NO_HOST_MEMORY, "no host memory for a tensor");
    return NULL;
  }
  t->magic = 0;
  atomic_store_explicit(&t->refs, 1, memory_order_relaxed);
  return t;
}

void tensor_hold(tensor *t) {
  const uint32_t before = atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  INVARIANT(before >= 1);
}

void tensor_release(tensor *t) {
  INVARIANT(atomic_load_explicit(&t->refs, memory_order_relaxed) >= 1);
  /* With the only reference, no locked instruction is needed. */
  if (atomic_load_explicit(&t->refs, memory_order_acquire) != 1 &&
      atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
    return;
  cache_put(CACHE_TENSOR, t);
}

void tensor_free(tensor *t) {
  if (unlikely(t->magic == MAGIC_WIDE_TENSOR)) free(t->wide);
  t->magic = 0;
  /* op/unlaunched.c reads it, whenever it likes */
  atomic_store_explicit(&t->ends, atomic_load_explicit(&t->ends, memory_order_relaxed) + 1, memory_order_release);
  tensor_release(t);
}

void tensor_set_shape(tensor *t, const int64_t *dims, int rank) {
  INVARIANT(rank >= 0 && rank <= MAX_RANK);
  int64_t step = 1;
  for (int d = rank - 1; d >= 0; --d) {
    t->dims[d] = dims[d];
    if (t->contiguous) t->strides[d] = step;
    step *= dims[d];
  }
  t->rank = (uint8_t)rank;
  INVARIANT(atomic_load_explicit(&t->refs, memory_order_relaxed) >= 1);
  t->n = step;
  t->contiguous = tensor_is_contiguous(t);
}

/* ---- scalars ----------------------------------------------------------------------------------------------------- */

static void read_value(scalar *s, const void *value) {
  s->imaginary = 0;
  switch (s->dtype) {
#define READ(type, member, expression)                                                                                 \
  {                                                                                                                    \
    type v;                                                                                                            \
    memcpy(&v, value, sizeof v);                                                                                       \
    s->member = expression;                                                                                            \
    break;                                                                                                             \
  }
  case ACL_FLOAT: READ(float, real, v)
  case ACL_DOUBLE: READ(double, real, v)
  case ACL_FLOAT16: READ(uint16_t, real, half_to_float(v))
  case ACL_BF16: READ(uint16_t, real, bf16_to_float(v))
  case ACL_INT8: READ(int8_t, integer, v)
  case ACL_INT16: READ(int16_t, integer, v)
  case ACL_INT32: READ(int32_t, integer, v)
  case ACL_INT64: READ(int64_t, integer, v)
  case ACL_UINT8: READ(uint8_t, integer, v)
  case ACL_UINT16: READ(uint16_t, integer, v)
  case ACL_UINT32: READ(uint32_t, integer, v)
  case ACL_UINT64: READ(uint64_t, integer, (int64_t)v)
  case ACL_BOOL: READ(uint8_t, integer, v != 0)
#undef READ
  case ACL_COMPLEX64: {
    float v[2];
    memcpy(v, value, sizeof v);
    s->real = v[0];
    s->imaginary = v[1];
    break;
  }
  case ACL_COMPLEX128: {
    memcpy(&s->real, value, sizeof s->real);
    memcpy(&s->imaginary, (const char *)value + sizeof s->real, sizeof s->imaginary);
    break;
  }
  case ACL_COMPLEX32: {
    uint16_t v[2];
    memcpy(v, value, sizeof v);
    s->real = half_to_float(v[0]);
    s->imaginary = half_to_float(v[1]);
    break;
  }
  default: break;
  }
}

scalar *scalar_new(const void *value, int dtype) {
  if (!value) {
    fail(ST_OP_NULL, "value is NULL, expected a pointer");
    return NULL;
  }
  if (dtype_class_of(dtype) == CLASS_NONE) {
    fail(ST_OP_INVALID, "dataType is %s (%d), expected a type of numbers", dtype_name(dtype), dtype);
    return NULL;
  }
  scalar *s = cache_get(CACHE_SCALAR, sizeof *s);
  if (!s) {
    fail(ST_NO_HOST_MEMORY, "no host memory for a scalar");
    return NULL;
  }
  s->magic = MAGIC_SCALAR;
  s->dtype = dtype;
  read_value(s, value);
  return s;
}

void scalar_free(scalar *s) {
  INVARIANT(s->magic == MAGIC_SCALAR);
  s->magic = 0;
  cache_put(CACHE_SCALAR, s);
}

int64_t scalar_integer(const scalar *s) {
  if (dtype_class_of(s->dtype) < CLASS_FLOAT) return s->integer;
  if (!(s->real == s->real)) return 0;
  return s->real >= 0x1p63 ? INT64_MAX : s->real <= -0x1p63 ? INT64_MIN : (int64_t)s->real;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

void *array_new(uint32_t magic, size_t header, const void *value, uint64_t size, size_t element) {
  size_t bytes;
  if (!value && size) {
    fail(ST_OP_NULL, "value is NULL, expected %ju elements", (uintmax_t)size);
    return NULL;
  }
  if (__builtin_mul_overflow(size, element, &bytes) || bytes > SIZE_MAX / 2) {
    fail(ST_OP_INVALID, "size is %ju, which overflows", (uintmax_t)size);
    return NULL;
  }
  char *array = malloc(header + bytes);
  if (!array) {
    fail(ST_NO_HOST_MEMORY, "no host memory for %ju elements", (uintmax_t)size);
    return NULL;
  }
  memcpy(array, &magic, sizeof magic);
  memcpy(array + offsetof(aclIntArray, size), &size, sizeof size);
  if (value) memcpy(array + header, value, bytes);
  return array;
}
