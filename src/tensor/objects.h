/* Making and unmaking the aclnn objects of tensor.h. Creators return NULL after fail(). Any thread. */
#ifndef CANNON_TENSOR_OBJECTS_H
#define CANNON_TENSOR_OBJECTS_H

#include "base/status.h"
#include "tensor/tensor.h"

/* Fills a tensor. strides NULL: contiguous. ST_OP_NULL or ST_OP_INVALID; the tensor is then unchanged. */
status tensor_init(tensor *t, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides, int64_t offset,
                   int format, const int64_t *storage_dims, uint64_t storage_rank, void *data);
tensor *tensor_new(void);
/* The owner's: the tensor is no object any more, and its memory is given back with the last reference. */
void tensor_free(tensor *t);
void tensor_hold(tensor *t);
void tensor_release(tensor *t);

/* Whether the fields of a tensor agree (base/invariant.h). */
bool tensor_is_valid(const tensor *t);

/* Whether the view is row-major without gaps, by its dims and strides. */
bool tensor_is_contiguous(const tensor *t);

/* Gives a result the shape that it turned out to have, of no more elements. Strides stay where there are gaps. */
void tensor_set_shape(tensor *t, const int64_t *dims, int rank);

scalar *scalar_new(const void *value, int dtype);
void scalar_free(scalar *s);

/* An array or a list: its magic, its size, and behind a header of so many bytes a copy of `size` elements. One
 * allocation, which free() gives back. NULL after fail(). */
void *array_new(uint32_t magic, size_t header, const void *value, uint64_t size, size_t element);

#endif
