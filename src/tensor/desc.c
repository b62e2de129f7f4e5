/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/desc.h"

#include <stdlib.h>
#include <string.h>

status desc_set_shape(desc_shape *s, int rank, const int64_t *dims) {
  if (rank < 0 || rank > DESC_MAX_RANK)
    return fail(ST_INVALID_PARAM, "numDims is %d, expected 0 to %d", rank, DESC_MAX_RANK);
  if (rank && !dims) return fail(ST_INVALID_PARAM, "dims is NULL, expected %d dimensions", rank);
  for (int d = 0; d < rank; ++d)
    if (dims[d] < DESC_UNKNOWN_DIM && !(rank == 1 && dims[d] == DESC_UNKNOWN_RANK))
      return fail(ST_INVALID_PARAM, "dims[%d] is %jd, expected 0 or more, or -1", d, (intmax_t)dims[d]);
  s->rank = rank;
  if (rank) memcpy(s->dims, dims, (size_t)rank * sizeof *dims);
  return ST_OK;
}

tensor_desc *desc_new(int dtype, int rank, const int64_t *dims, int format) {
  tensor_desc *d = calloc(1, sizeof *d);
  if (!d) {
    fail_words("no host memory for a tensor description");
    return NULL;
  }
  d->dtype = dtype;
  d->format = format;
  d->storage_format = ACL_FORMAT_UNDEFINED;
  if (desc_set_shape(&d->shape, rank, dims) == ST_OK) return d;
  free(d);
  return NULL;
}

void desc_free(tensor_desc *d) {
  if (!d) return;
  free(d->shape_range.pairs);
  free(d->value_range.pairs);
  free(d->name);
  free(d->dynamic_input);
  free(d->constant);
  free(d);
}

/* A copy of the bytes, also if there are none; NULL, with a message, without host memory. */
static void *duplicate(const void *from, size_t bytes) {
  void *copy = malloc(bytes ? bytes : 1);
  if (!copy) {
    fail_words("no host memory for %zu bytes of a tensor description", bytes);
  } else if (bytes) {
    memcpy(copy, from, bytes);
  }
  return copy;
}

status desc_set_ranges(desc_ranges *r, size_t n, int64_t (*pairs)[2], const char *name) {
  if (n && !pairs) return fail(ST_INVALID_PARAM, "%s is NULL, expected %zu ranges", name, n);
  if (n > SIZE_MAX / sizeof *pairs) return fail(ST_INVALID_PARAM, "%s has %zu ranges, expected fewer", name, n);
  void *copy = duplicate(pairs, n * sizeof *pairs);
  if (!copy) return ST_NO_HOST_MEMORY;
  free(r->pairs);
  *r = (desc_ranges){n, copy};
  return ST_OK;
}

status desc_set_text(char **to, const char *text) {
  char *copy = text ? duplicate(text, strlen(text) + 1) : NULL;
  if (text && !copy) return ST_NO_HOST_MEMORY;
  free(*to);
  *to = copy;
  return ST_OK;
}

status desc_set_constant(tensor_desc *d, const void *data, size_t bytes) {
  if (!data) return fail(ST_INVALID_PARAM, "dataBuffer is NULL, expected %zu bytes", bytes);
  if (!bytes) return fail(ST_INVALID_PARAM, "length is 0, expected 1 or more");
  void *copy = duplicate(data, bytes);
  if (!copy) return ST_NO_HOST_MEMORY;
  free(d->constant);
  d->constant = copy;
  d->constant_bytes = bytes;
  return ST_OK;
}

status desc_elements(const tensor_desc *d, size_t *n) {
  *n = 1;
  for (int i = 0; i < d->shape.rank; ++i) {
    if (d->shape.dims[i] < 0) {
      *n = 0;
      return ST_OK;
    }
    if (__builtin_mul_overflow(*n, (size_t)d->shape.dims[i], n))
      return fail(ST_INVALID_PARAM, "desc has more elements than can be counted");
  }
  return ST_OK;
}
