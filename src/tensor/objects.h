/* SPDX-License-Identifier: Apache-2.0 */
/* Creating and destroying the aclnn objects of tensor.h. Functions that create one return NULL, with a message, on
 * failure. Called by src/api and op/. Thread-safe for distinct objects; references are counted atomically. */
#ifndef CANNON_TENSOR_OBJECTS_H
#define CANNON_TENSOR_OBJECTS_H

#include "base/status.h"
#include "tensor/tensor.h"

/* Fills in a tensor. strides NULL: contiguous. One with more than MAX_RANK dimensions gets MAGIC_WIDE_TENSOR. On
 * failure (ST_OP_NULL, ST_OP_INVALID, ST_NO_HOST_MEMORY) the tensor is unchanged. */
status tensor_init(tensor *t, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides, int64_t offset,
                   int format, const int64_t *storage_dims, uint64_t storage_rank, void *data);

/* The same for a tensor that has been initialised before. */
status tensor_init_again(tensor *t, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides,
                         int64_t offset, int format, const int64_t *storage_dims, uint64_t storage_rank, void *data);

/* The shape of any tensor, also of one with more than MAX_RANK dimensions; valid until the tensor changes. */
tensor_shape tensor_shape_of(const tensor *t);

/* Whether an object with this magic is of the kind; tensors of more than MAX_RANK dimensions are tensors. */
static inline bool magic_is(uint32_t magic, uint32_t kind) {
  return magic == kind || (kind == MAGIC_TENSOR && magic == MAGIC_WIDE_TENSOR);
}

/* An uninitialised tensor with one reference, the owner's. */
tensor *tensor_new(void);

/* For the owner: the tensor's handle becomes stale, and the owner's reference is dropped. */
void tensor_free(tensor *t);

/* Take and drop a reference. The last one frees the memory. */
void tensor_hold(tensor *t);
void tensor_release(tensor *t);

/* Whether the fields of a tensor are consistent (base/invariant.h). */
bool tensor_is_valid(const tensor *t);

/* Whether dims and strides are those of a row-major view without gaps. */
bool tensor_is_contiguous(const tensor *t);

/* Sets the shape of a result whose shape depends on the data, when it is known. It has no more elements than the tensor
 * had in phase one. The strides of a view with gaps stay. */
void tensor_set_shape(tensor *t, const int64_t *dims, int rank);

scalar *scalar_new(const void *value, int dtype);
void scalar_free(scalar *s);

/* Allocates an array or list object: magic and size, and behind a header of `header` bytes a copy of `size` elements.
 * free() frees it. NULL, with a message, on failure. */
void *array_new(uint32_t magic, size_t header, const void *value, uint64_t size, size_t element);

#endif
