/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for datasets: lists of the program's buffers, with shapes. */
#include <stdlib.h>

#include "api/model/mdl.h"

aclmdlDataset *aclmdlCreateDataset(void) {
  API_ENTER();
  aclmdlDataset *d = calloc(1, sizeof *d);
  if (!d) API_RESULT(fail(ST_NO_HOST_MEMORY, "no host memory for a dataset"));
  API_TELL_HANDLE(HOOK_DATASET, HOOK_HANDLE_CREATED, d);
  return d;
}

aclError aclmdlDestroyDataset(const aclmdlDataset *dataset) {
  API_ENTER();
  NEED(dataset);
  API_TELL_HANDLE(HOOK_DATASET, HOOK_HANDLE_DESTROYED, dataset);
  for (size_t i = 0; i < dataset->n; ++i) desc_free(dataset->entries[i].shape);
  free(dataset->entries);
  free((aclmdlDataset *)(uintptr_t)dataset);
  return ACL_SUCCESS;
}

aclError aclmdlAddDatasetBuffer(aclmdlDataset *dataset, aclDataBuffer *dataBuffer) {
  API_ENTER();
  NEED(dataset);
  NEED(dataBuffer);
  if (dataset->n == dataset->room) {
    const size_t more = dataset->room ? 2 * dataset->room : 8;
    dataset_entry *larger = realloc(dataset->entries, more * sizeof *larger);
    if (!larger) API_RETURN(fail(ST_NO_HOST_MEMORY, "no host memory for %zu buffers of a dataset", more));
    dataset->entries = larger;
    dataset->room = more;
  }
  dataset->entries[dataset->n++] = (dataset_entry){.buffer = dataBuffer};
  return ACL_SUCCESS;
}

size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset *dataset) {
  API_ENTER();
  return dataset ? dataset->n : 0;
}

static status check_index(const aclmdlDataset *d, size_t index) {
  if (index < d->n) return ST_OK;
  return fail(ST_INVALID_PARAM, "index is %zu, expected less than the dataset's %zu buffers", index, d->n);
}

aclDataBuffer *aclmdlGetDatasetBuffer(const aclmdlDataset *dataset, size_t index) {
  API_ENTER();
  if (!dataset || API_RESULT(check_index(dataset, index)) != ACL_SUCCESS) return NULL;
  return dataset->entries[index].buffer;
}

status mdl_set_shape(dataset_entry *e, int dtype, int rank, const int64_t *dims) {
  tensor_desc *d = desc_new(dtype, rank, dims, ACL_FORMAT_ND);
  if (!d) return ST_NO_HOST_MEMORY;
  desc_free(e->shape);
  e->shape = d;
  return ST_OK;
}

aclError aclmdlSetDatasetTensorDesc(aclmdlDataset *dataset, aclTensorDesc *tensorDesc, size_t index) {
  API_ENTER();
  NEED(dataset);
  NEED(tensorDesc);
  NEED_OK(check_index(dataset, index));
  API_RETURN(
      mdl_set_shape(&dataset->entries[index], tensorDesc->dtype, tensorDesc->shape.rank, tensorDesc->shape.dims));
}

aclTensorDesc *aclmdlGetDatasetTensorDesc(const aclmdlDataset *dataset, size_t index) {
  API_ENTER();
  if (!dataset || API_RESULT(check_index(dataset, index)) != ACL_SUCCESS) return NULL;
  return dataset->entries[index].shape;
}
