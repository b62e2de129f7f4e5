/* The aclnn objects: tensors, scalars, arrays and lists. What a caller sees as opaque handles.
 *
 * A tensor is a description: a view (dims, strides, offset, in elements) of a storage at `data`. It owns no memory of
 * the device. Operators copy what they need in phase one. Not thread-safe for writes; distinct objects may be used from
 * any threads. */
#ifndef CANNON_TENSOR_TENSOR_H
#define CANNON_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "aclnn/acl_meta.h"
#include "tensor/dtype.h"

enum { MAX_RANK = 8 };

/* First member of each; a freed or foreign pointer is told by it. */
typedef enum {
  MAGIC_TENSOR = 0x54e25001,
  MAGIC_SCALAR,
  MAGIC_INT_ARRAY,
  MAGIC_FLOAT_ARRAY,
  MAGIC_BOOL_ARRAY,
  MAGIC_TENSOR_LIST,
  MAGIC_SCALAR_LIST,
  MAGIC_EXECUTOR,
} object_magic;

struct aclTensor {
  uint32_t magic;
  int16_t dtype, format;
  uint8_t rank, storage_rank;
  bool contiguous;       /* the view is row-major without gaps */
  int8_t origin_format;  /* of tensors made of descriptions (desc.h): what dims are; format is the storage's */
  _Atomic uint32_t refs; /* of its owner, and of launches that will set its shape */
  int64_t n;             /* elements */
  int64_t offset;        /* elements */
  void *data;            /* as the user gave it; may be NULL until launch */
  int64_t dims[MAX_RANK], strides[MAX_RANK], storage_dims[MAX_RANK];
};

struct aclScalar {
  uint32_t magic;
  int32_t dtype;
  union {
    double real; /* of floats, and of complex numbers the real part */
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

static inline double scalar_real(const scalar *s) {
  return dtype_class_of(s->dtype) >= CLASS_FLOAT ? s->real : (double)s->integer;
}
/* Truncates towards zero and saturates. */
int64_t scalar_integer(const scalar *s);

/* "[2, 3]", for messages; text must have room for SHAPE_TEXT bytes. Returns text. */
enum { SHAPE_TEXT = 192 };
const char *shape_text(const int64_t *dims, int rank, char *text);

static inline bool same_dims(const tensor *a, const tensor *b) {
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; ++d)
    if (a->dims[d] != b->dims[d]) return false;
  return true;
}

#endif
