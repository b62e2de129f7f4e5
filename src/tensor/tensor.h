/* SPDX-License-Identifier: Apache-2.0 */
/* The aclnn objects, whose pointers are opaque handles to programs: tensors, scalars, arrays and lists.
 *
 * A tensor is a description: a view (dims, strides and offset, in elements) of a storage at `data`. It owns no device
 * memory. Operators copy what they need of it in phase one. Distinct objects may be used by any threads at once; writes
 * to one need the caller's serialisation. */
#ifndef CANNON_TENSOR_TENSOR_H
#define CANNON_TENSOR_TENSOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "aclnn/acl_meta.h"
#include "tensor/dtype.h"

/* Operators take tensors of up to MAX_RANK dimensions; tensors may have up to WIDE_RANK, as PyTorch's may. */
enum { MAX_RANK = 8, WIDE_RANK = 64 };

/* The first member of each object, by which freed and foreign pointers are recognised. */
typedef enum {
  MAGIC_TENSOR = 0x54e25001,
  MAGIC_SCALAR,
  MAGIC_INT_ARRAY,
  MAGIC_FLOAT_ARRAY,
  MAGIC_BOOL_ARRAY,
  MAGIC_TENSOR_LIST,
  MAGIC_SCALAR_LIST,
  MAGIC_EXECUTOR,
  MAGIC_WIDE_TENSOR, /* a tensor whose view or storage has more than MAX_RANK dimensions, which all operators refuse */
} object_magic;

/* A shape as the program gave it. */
typedef struct {
  int rank, storage_rank;
  const int64_t *dims, *strides, *storage_dims;
} tensor_shape;

struct aclTensor {
  uint32_t magic;
  int16_t dtype, format;
  uint8_t rank, storage_rank;
  bool contiguous;       /* the view is row-major without gaps */
  int8_t origin_format;  /* for tensors made from descriptions (desc.h): the format of dims, while `format` is the
                            storage's; ND for others */
  _Atomic uint32_t refs; /* the owner's, and those of launches that will set the shape */
  int64_t n;             /* number of elements */
  int64_t offset;        /* of the first element, in elements */
  void *data;            /* the user's address; may be NULL until launch */
  _Atomic uint32_t ends; /* how many tensors have ended in this place of memory */
  int64_t dims[MAX_RANK], strides[MAX_RANK], storage_dims[MAX_RANK];
  tensor_shape *wide; /* only of MAGIC_WIDE_TENSOR, whose ranks above are 0; owned, one allocation with its arrays */
};

struct aclScalar {
  uint32_t magic;
  int32_t dtype;
  union {
    double real; /* a floating-point number, or the real part of a complex one */
    int64_t integer;
  };
  double imaginary;
};

struct aclIntArray {
  uint32_t magic;
  uint64_t size;
  int64_t value[];
};

struct aclFloatArray {
  uint32_t magic;
  uint64_t size;
  float value[];
};

struct aclBoolArray {
  uint32_t magic;
  uint64_t size;
  bool value[];
};

struct aclTensorList {
  uint32_t magic;
  uint64_t size;
  aclTensor *value[]; /* owned */
};

struct aclScalarList {
  uint32_t magic;
  uint64_t size;
  aclScalar *value[]; /* owned */
};

typedef struct aclTensor tensor;
typedef struct aclScalar scalar;

/* The value, or the real part of a complex value. */
static inline double scalar_real(const scalar *s) {
  return dtype_class_of(s->dtype) >= CLASS_FLOAT ? s->real : (double)s->integer;
}

/* The value as an integer: truncated towards zero, saturated; 0 for NaN. */
int64_t scalar_integer(const scalar *s);

/* Writes a shape as "[2, 3]" into text, which has SHAPE_TEXT bytes. Returns text. */
enum { SHAPE_TEXT = 192 };
const char *shape_text(const int64_t *dims, int rank, char *text);

/* The same without a buffer of the caller's: a text for a message, valid until the end of the block. t: a pointer to
 * whatever has dims and a rank. */
#define DIMS_TEXT(dims, rank) shape_text(dims, rank, (char[SHAPE_TEXT]){0})
#define SHAPE_OF(t)           DIMS_TEXT((t)->dims, (t)->rank)

static inline bool tensor_same_dims(const tensor *a, const tensor *b) {
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; ++d)
    if (a->dims[d] != b->dims[d]) return false;
  return true;
}

#endif
