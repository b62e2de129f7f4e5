/* Tensor descriptions (aclTensorDesc): what the calls of operators by name are told about an operand.
 *
 *   origin     dtype, dims and format of the tensor as a program sees it, given at creation
 *   storage    format and dims of how it lies in memory, given later; without them it lies as the origin says
 *
 * and a name, where the data is, ranges of dims and values, a constant's bytes. A description owns no memory of the
 * device. Not thread-safe for writes; distinct objects may be used from any threads. */
#ifndef CANNON_TENSOR_DESC_H
#define CANNON_TENSOR_DESC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "base/status.h"

enum {
  DESC_MAX_RANK = 32,
  DESC_UNKNOWN_DIM = -1,
  DESC_UNKNOWN_RANK = -2, /* as the only dim */
};

typedef struct {
  int rank;
  int64_t dims[DESC_MAX_RANK];
} desc_shape;

/* Lower and upper ends, each pair of them. */
typedef struct {
  size_t n;
  int64_t (*pairs)[2];
} desc_ranges;

struct aclTensorDesc {
  int dtype, format;
  int storage_format; /* ACL_FORMAT_UNDEFINED: the origin's */
  int placement;      /* aclMemType */
  bool has_storage_shape;
  desc_shape shape, storage_shape;
  desc_ranges shape_range, value_range;
  char *name, *dynamic_input; /* NULL: none */
  void *constant;             /* the bytes of a constant, NULL: none */
  size_t constant_bytes;
};

typedef struct aclTensorDesc tensor_desc;

/* NULL after fail(). */
tensor_desc *desc_new(int dtype, int rank, const int64_t *dims, int format);
void desc_free(tensor_desc *d);

/* Each replaces what was there; on failure that stays. */
status desc_set_shape(desc_shape *s, int rank, const int64_t *dims);
status desc_set_ranges(desc_ranges *r, size_t n, int64_t (*pairs)[2], const char *name);
status desc_set_text(char **to, const char *text); /* NULL: none */
status desc_set_constant(tensor_desc *d, const void *data, size_t bytes);

/* Elements of the origin; 0 where a dim is unknown. ST_INVALID_PARAM where there are too many to count. */
status desc_elements(const tensor_desc *d, size_t *n);

/* How it lies in memory. */
static inline int desc_storage_format(const tensor_desc *d) {
  return d->storage_format == ACL_FORMAT_UNDEFINED ? d->format : d->storage_format;
}
static inline const desc_shape *desc_storage_shape(const tensor_desc *d) {
  return d->has_storage_shape ? &d->storage_shape : &d->shape;
}

#endif
