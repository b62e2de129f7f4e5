/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points that choose a gear of a model (graph/gears.h). */
#include <string.h>

#include "api/model/mdl.h"
#include "api/op/data_buffer.h"
#include "memory/memory.h"
#include "runtime/dry/dry.h"

/* The memory of the buffer that the dataset has for the added input, and how many bytes a number has there: those of
 * uint64 if there is room, else of uint32. */
static status gear_buffer(const aclmdlDataset *d, const model *m, unsigned access, void **view, size_t *wide) {
  const size_t index = (size_t)model_gear_input(m), n = (size_t)model_gears_of(m)->n_numbers;
  if (index >= d->n || !d->entries[index].buffer->data)
    return fail(ST_MODEL_GEAR_INPUT, "the dataset has no buffer at index %zu, expected that of %s", index,
                MODEL_GEAR_INPUT);
  const aclDataBuffer *b = d->entries[index].buffer;
  *wide = b->size >= n * sizeof(uint64_t) ? sizeof(uint64_t) : sizeof(uint32_t);
  if (b->size < n * *wide)
    return fail(ST_MODEL_GEAR_BYTES, "the buffer of %s has %zu bytes, expected %zu", MODEL_GEAR_INPUT, b->size,
                n * *wide);
  if (memory_view(b->data, n * *wide, access, MODEL_GEAR_INPUT, view) != ST_OK)
    return fail(ST_MODEL_GEAR_INPUT, "%s", strdupa(fail_take()));
  return ST_OK;
}

/* index: the caller's. Writes the numbers for programs that read them back. */
static status write_gear(const aclmdlDataset *d, const model *m, size_t index, const int64_t *numbers) {
  void *view;
  size_t wide;
  if (index != (size_t)model_gear_input(m))
    return fail(ST_MODEL_GEAR_INPUT, "index is %zu, expected %d, that of %s (aclmdlGetInputIndexByName)", index,
                model_gear_input(m), MODEL_GEAR_INPUT);
  TRY(gear_buffer(d, m, VMM_WRITE, &view, &wide));
  for (int i = 0; i < model_gears_of(m)->n_numbers; ++i)
    memcpy((char *)view + (size_t)i * wide, &numbers[i], wide); /* little-endian */
  return ST_OK;
}

static status choose_gear(model *m, uint32_t id, aclmdlDataset *d, size_t index, const int64_t *numbers) {
  int gear;
  TRY(gears_find(model_gears_of(m), numbers, &gear));
  TRY(write_gear(d, m, index, numbers));
  d->gear_of = id;
  d->gear = gear;
  model_choose_gear(m, gear);
  return ST_OK;
}

status mdl_gear(const aclmdlDataset *d, uint32_t id, const model *m, int *gear) {
  const model_gears *g = model_gears_of(m);
  int64_t numbers[ACL_MAX_DIM_CNT] = {0};
  void *view;
  size_t wide;
  *gear = d->gear_of == id ? d->gear : -1;
  /* What a dry run copies is not there, and a dataset of another size is told by whoever counts the buffers. */
  if (*gear >= 0 || !g->kind || dry_is_on() || (size_t)model_gear_input(m) >= d->n) return ST_OK;
  TRY(gear_buffer(d, m, VMM_READ, &view, &wide));
  for (int i = 0; i < g->n_numbers; ++i) memcpy(&numbers[i], (const char *)view + (size_t)i * wide, wide);
  if (gears_find(g, numbers, gear) == ST_OK) return ST_OK;
  return fail(ST_MODEL_GEAR, "no gear was set for this dataset, and %s says: %s", MODEL_GEAR_INPUT,
              strdupa(fail_take()));
}

/* Finds a model that has gears of this kind, with a reference. */
static status find_geared(uint32_t id, gears_kind kind, const char *what, model **out) {
  TRY(mdl_find(id, out));
  if (model_gears_of(*out)->kind == kind) return ST_OK;
  model_unref(*out);
  return fail(ST_MODEL_NOT_DYNAMIC, "model %u was not made with gears for its %s", id, what);
}

aclError aclmdlSetDynamicBatchSize(uint32_t modelId, aclmdlDataset *dataset, size_t index, uint64_t batchSize) {
  API_ENTER();
  model *m;
  const int64_t numbers[] = {(int64_t)batchSize};
  NEED(dataset);
  NEED_OK(find_geared(modelId, GEARS_BATCH, "batch", &m));
  const status st = choose_gear(m, modelId, dataset, index, numbers);
  model_unref(m);
  API_RETURN(st);
}

aclError aclmdlSetDynamicHWSize(uint32_t modelId, aclmdlDataset *dataset, size_t index, uint64_t height,
                                uint64_t width) {
  API_ENTER();
  model *m;
  const int64_t numbers[] = {(int64_t)height, (int64_t)width};
  NEED(dataset);
  NEED_OK(find_geared(modelId, GEARS_IMAGE, "height and width", &m));
  const status st = choose_gear(m, modelId, dataset, index, numbers);
  model_unref(m);
  API_RETURN(st);
}

/* The numbers of a gear in the dims of all inputs in a row. */
static status gear_of_dims(const model *m, const aclmdlIODims *dims, int64_t *numbers) {
  int n_all, n = 0;
  size_t at = 0;
  const model_port *in = model_inputs(m, &n_all);
  for (int i = 0; i < model_gear_input(m); ++i)
    for (int d = 0; d < in[i].rank; ++d, ++at) {
      if (at >= dims->dimCount || at >= ACL_MAX_DIM_CNT || (in[i].dims[d] >= 0 && dims->dims[at] != in[i].dims[d]))
        return fail(ST_MODEL_GEAR, "dims has %zu elements, which do not fit the model's inputs", dims->dimCount);
      if (in[i].dims[d] < 0) numbers[n++] = dims->dims[at];
    }
  return ST_OK;
}

aclError aclmdlSetInputDynamicDims(uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlIODims *dims) {
  API_ENTER();
  model *m;
  int64_t numbers[ACL_MAX_DIM_CNT];
  NEED(dataset);
  NEED(dims);
  NEED_OK(find_geared(modelId, GEARS_DIMS, "dims", &m));
  status st = gear_of_dims(m, dims, numbers);
  if (st == ST_OK) st = choose_gear(m, modelId, dataset, index, numbers);
  model_unref(m);
  API_RETURN(st);
}
