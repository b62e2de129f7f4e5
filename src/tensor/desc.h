/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor descriptions (aclTensorDesc): what a call of an operator by name says about an operand.
 *
 *   origin     dtype, dims and format of the tensor as the program sees it, given at creation
 *   storage    format and dims of the tensor as it lies in memory, given later; if not given, as those of the origin
 *
 * There are also a name, where the data are, ranges of dims and values, and the bytes of a constant. A description owns
 * no device memory. Called by src/api and op/aclop.c. Distinct objects may be used by any threads at once; writes to
 * one need the caller's serialisation. */
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
  DESC_UNKNOWN_RANK = -2, /* as the only dim: the rank is unknown */
};

typedef struct {
  int rank;
  int64_t dims[DESC_MAX_RANK];
} desc_shape;

/* n pairs of a lower and an upper bound. */
typedef struct {
  size_t n;
  int64_t (*pairs)[2];
} desc_ranges;

struct aclTensorDesc {
  int dtype, format;
  int storage_format; /* ACL_FORMAT_UNDEFINED: as the origin's */
  int placement;      /* aclMemType */
  bool has_storage_shape;
  desc_shape shape, storage_shape;
  desc_ranges shape_range, value_range;
  char *name, *dynamic_input; /* NULL: none */
  void *constant;             /* the bytes of a constant, NULL: none */
  size_t constant_bytes;
};

typedef struct aclTensorDesc tensor_desc;

/* NULL, with a message, on failure. */
tensor_desc *desc_new(int dtype, int rank, const int64_t *dims, int format);
void desc_free(tensor_desc *d);

/* Each of these replaces the former value, which stays on failure. Data are copied. */
status desc_set_shape(desc_shape *s, int rank, const int64_t *dims);
status desc_set_ranges(desc_ranges *r, size_t n, int64_t (*pairs)[2], const char *name);
status desc_set_text(char **to, const char *text); /* NULL: none */
status desc_set_constant(tensor_desc *d, const void *data, size_t bytes);

/* The number of elements of the origin; 0 if a dim is unknown. ST_INVALID_PARAM if the number overflows. */
status desc_elements(const tensor_desc *d, size_t *n);

/* The storage's format and dims. */
static inline int desc_storage_format(const tensor_desc *d) {
  return d->storage_format == ACL_FORMAT_UNDEFINED ? d->format : d->storage_format;
}
static inline const desc_shape *desc_storage_shape(const tensor_desc *d) {
  return d->has_storage_shape ? &d->storage_shape : &d->shape;
}

#endif
