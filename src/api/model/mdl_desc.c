/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for the descriptions of models. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/model/mdl.h"

static void free_ports(model_port *ports, int n) {
  if (!ports) return;
  for (int i = 0; i < n; ++i) {
    free((char *)(uintptr_t)ports[i].name);
    free((char *)(uintptr_t)ports[i].full_name);
  }
  free(ports);
}

static status copy_ports(const model_port *from, int n, model_port **to) {
  model_port *copy = calloc((size_t)n + 1, sizeof *copy);
  bool good = copy;
  for (int i = 0; good && i < n; ++i) {
    copy[i] = from[i];
    copy[i].name = strdup(from[i].name);
    copy[i].full_name = from[i].full_name ? strdup(from[i].full_name) : NULL;
    good = copy[i].name && !from[i].full_name == !copy[i].full_name;
  }
  if (!good) {
    if (copy) free_ports(copy, n);
    return fail(ST_NO_HOST_MEMORY, "no host memory for the description of a model");
  }
  *to = copy;
  return ST_OK;
}

static void free_desc(aclmdlDesc *d) {
  free_ports(d->inputs, d->n_inputs);
  free_ports(d->outputs, d->n_outputs);
  free(d->gears.numbers);
}

static status copy_gears(const model_gears *from, model_gears *to) {
  const size_t bytes = (size_t)from->n * (size_t)from->n_numbers * sizeof *from->numbers;
  *to = *from;
  if (!from->kind) return ST_OK;
  to->numbers = malloc(bytes);
  if (!to->numbers) return fail(ST_NO_HOST_MEMORY, "no host memory for the description of a model");
  memcpy(to->numbers, from->numbers, bytes);
  return ST_OK;
}

status mdl_describe(aclmdlDesc *d, const model *m, uint32_t id) {
  struct aclmdlDesc now = {.id = id};
  const model_port *in = model_inputs(m, &now.n_inputs), *out = model_outputs(m, &now.n_outputs);
  status st = copy_ports(in, now.n_inputs, &now.inputs);
  if (st == ST_OK) st = copy_ports(out, now.n_outputs, &now.outputs);
  if (st == ST_OK) st = copy_gears(model_gears_of(m), &now.gears);
  if (st != ST_OK) {
    free_desc(&now);
    return st;
  }
  free_desc(d);
  *d = now;
  return ST_OK;
}

aclmdlDesc *aclmdlCreateDesc(void) {
  API_ENTER();
  aclmdlDesc *d = calloc(1, sizeof *d);
  if (!d) API_RESULT(fail(ST_NO_HOST_MEMORY, "no host memory for the description of a model"));
  API_TELL_HANDLE(HOOK_MODEL_DESC, HOOK_HANDLE_CREATED, d);
  return d;
}

aclError aclmdlDestroyDesc(aclmdlDesc *modelDesc) {
  API_ENTER();
  NEED(modelDesc);
  API_TELL_HANDLE(HOOK_MODEL_DESC, HOOK_HANDLE_DESTROYED, modelDesc);
  free_desc(modelDesc);
  free(modelDesc);
  return ACL_SUCCESS;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

/* The input or output of an index. */
static status port_at(const aclmdlDesc *d, bool output, size_t index, const model_port **out) {
  const int n = output ? d->n_outputs : d->n_inputs;
  if (index >= (size_t)n)
    return fail(ST_INVALID_PARAM, "index is %zu, expected less than the %d %s", index, n,
                output ? "outputs" : "inputs");
  *out = &(output ? d->outputs : d->inputs)[index];
  return ST_OK;
}

/* As port_at, for functions that return no status: NULL, and the failure is published. */
static const model_port *port_or_null(const aclmdlDesc *d, bool output, size_t index, const api_call *call) {
  const model_port *p = NULL;
  const status st =
      d ? port_at(d, output, index, &p) : fail(ST_INVALID_PARAM, "modelDesc is NULL, expected a description");
  (void)api_result(st, call);
  return p;
}

size_t aclmdlGetNumInputs(aclmdlDesc *modelDesc) {
  API_ENTER();
  return modelDesc ? (size_t)modelDesc->n_inputs : 0;
}

size_t aclmdlGetNumOutputs(aclmdlDesc *modelDesc) {
  API_ENTER();
  return modelDesc ? (size_t)modelDesc->n_outputs : 0;
}

size_t aclmdlGetInputSizeByIndex(aclmdlDesc *modelDesc, size_t index) {
  API_ENTER();
  const model_port *p = port_or_null(modelDesc, false, index, &api_call_);
  return p ? p->bytes : 0;
}

size_t aclmdlGetOutputSizeByIndex(aclmdlDesc *modelDesc, size_t index) {
  API_ENTER();
  const model_port *p = port_or_null(modelDesc, true, index, &api_call_);
  return p ? p->bytes : 0;
}

const char *aclmdlGetInputNameByIndex(const aclmdlDesc *modelDesc, size_t index) {
  API_ENTER();
  const model_port *p = port_or_null(modelDesc, false, index, &api_call_);
  return p ? p->name : NULL;
}

const char *aclmdlGetOutputNameByIndex(const aclmdlDesc *modelDesc, size_t index) {
  API_ENTER();
  const model_port *p = port_or_null(modelDesc, true, index, &api_call_);
  return p ? p->full_name : NULL;
}

static status index_of(const model_port *ports, int n, const char *name, size_t *index) {
  for (int i = 0; i < n; ++i) {
    if (strcmp(ports[i].name, name) != 0 && (!ports[i].full_name || strcmp(ports[i].full_name, name) != 0)) continue;
    *index = (size_t)i;
    return ST_OK;
  }
  return fail(ST_INVALID_PARAM, "name is %s, expected that of one of the model's %d", name, n);
}

aclError aclmdlGetInputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index) {
  API_ENTER();
  NEED(modelDesc);
  NEED(name);
  NEED(index);
  API_RETURN(index_of(modelDesc->inputs, modelDesc->n_inputs, name, index));
}

aclError aclmdlGetOutputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index) {
  API_ENTER();
  NEED(modelDesc);
  NEED(name);
  NEED(index);
  API_RETURN(index_of(modelDesc->outputs, modelDesc->n_outputs, name, index));
}

/* A name that is too long is given as "acl_input_N_" or "acl_output_N_" and its end. */
static void short_name(const model_port *p, bool output, size_t index, char *to) {
  const char *name = output ? p->full_name : p->name;
  const size_t n = strlen(name);
  char begin[32] = "";
  if (n >= ACL_MAX_TENSOR_NAME_LEN) snprintf(begin, sizeof begin, "acl_%s_%zu_", output ? "output" : "input", index);
  const size_t rest = ACL_MAX_TENSOR_NAME_LEN - 1 - strlen(begin);
  snprintf(to, ACL_MAX_TENSOR_NAME_LEN, "%s%s", begin, n > rest ? name + n - rest : name);
}

static status dims_of(const aclmdlDesc *d, bool output, size_t index, aclmdlIODims *to) {
  const model_port *p;
  TRY(port_at(d, output, index, &p));
  memset(to, 0, sizeof *to);
  short_name(p, output, index, to->name);
  to->dimCount = (size_t)p->rank;
  memcpy(to->dims, p->dims, (size_t)p->rank * sizeof *p->dims);
  return ST_OK;
}

aclError aclmdlGetInputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims) {
  API_ENTER();
  NEED(modelDesc);
  NEED(dims);
  API_RETURN(dims_of(modelDesc, false, index, dims));
}

aclError aclmdlGetInputDimsV2(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims) {
  API_ENTER();
  NEED(modelDesc);
  NEED(dims);
  NEED_OK(dims_of(modelDesc, false, index, dims));
  const model_port *p = &modelDesc->inputs[index];
  if (p->pictures && p->dims[1] > 0 && p->bytes * 2 == (uint64_t)(p->dims[0] * p->dims[1] * p->dims[2] * 3)) {
    dims->dims[1] = p->dims[1] * 3 / 2; /* YUV420SP: the product of the dims is the size */
    dims->dims[3] = 1;
  }
  return ACL_SUCCESS;
}

aclError aclmdlGetOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims) {
  API_ENTER();
  NEED(modelDesc);
  NEED(dims);
  API_RETURN(dims_of(modelDesc, true, index, dims));
}

/* The dimensions are those of the gear that was chosen last, if the model is loaded. */
aclError aclmdlGetCurOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims) {
  API_ENTER();
  const model_port *p;
  model_port now;
  model *m;
  NEED(modelDesc);
  NEED(dims);
  NEED_OK(port_at(modelDesc, true, index, &p));
  for (int d = 0; d < p->rank; ++d)
    if (p->dims[d] < 0)
      API_RETURN(fail(ST_INVALID_PARAM, "output %zu has an open shape, which each execution sets", index));
  NEED_OK(dims_of(modelDesc, true, index, dims));
  if (!modelDesc->gears.kind || !modelDesc->id) return ACL_SUCCESS;
  NEED_OK(mdl_find(modelDesc->id, &m));
  const status st = model_current_output(m, (int)index, &now);
  model_unref(m);
  NEED_OK(st);
  memcpy(dims->dims, now.dims, (size_t)now.rank * sizeof *now.dims);
  return ACL_SUCCESS;
}

aclError aclmdlGetInputDimsRange(const aclmdlDesc *modelDesc, size_t index, aclmdlIODimsRange *dimsRange) {
  API_ENTER();
  const model_port *p;
  NEED(modelDesc);
  NEED(dimsRange);
  NEED_OK(port_at(modelDesc, false, index, &p));
  memset(dimsRange, 0, sizeof *dimsRange);
  if (modelDesc->gears.kind) return ACL_SUCCESS; /* no range: the gears say which sizes there are */
  dimsRange->rangeCount = (size_t)p->rank;
  for (int d = 0; d < p->rank; ++d) {
    dimsRange->range[d][0] = p->dims[d] < 0 ? p->least[d] : p->dims[d];
    dimsRange->range[d][1] = p->dims[d] < 0 && p->most[d] > 0 ? p->most[d] : p->dims[d];
  }
  return ACL_SUCCESS;
}

static aclFormat format_of(const model_port *p) {
  if (p && p->pictures) return ACL_FORMAT_NHWC;
  return !p ? ACL_FORMAT_UNDEFINED : p->rank == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_ND;
}

aclFormat aclmdlGetInputFormat(const aclmdlDesc *modelDesc, size_t index) {
  API_ENTER();
  return format_of(port_or_null(modelDesc, false, index, &api_call_));
}

aclFormat aclmdlGetOutputFormat(const aclmdlDesc *modelDesc, size_t index) {
  API_ENTER();
  return format_of(port_or_null(modelDesc, true, index, &api_call_));
}

aclDataType aclmdlGetInputDataType(const aclmdlDesc *modelDesc, size_t index) {
  API_ENTER();
  const model_port *p = port_or_null(modelDesc, false, index, &api_call_);
  return p ? (aclDataType)p->dtype : ACL_DT_UNDEFINED;
}

aclDataType aclmdlGetOutputDataType(const aclmdlDesc *modelDesc, size_t index) {
  API_ENTER();
  const model_port *p = port_or_null(modelDesc, true, index, &api_call_);
  return p ? (aclDataType)p->dtype : ACL_DT_UNDEFINED;
}

const char *aclmdlGetTensorRealName(const aclmdlDesc *modelDesc, const char *name) {
  API_ENTER();
  if (!modelDesc || !name) return NULL;
  for (int output = 0; output < 2; ++output)
    for (int i = 0; i < (output ? modelDesc->n_outputs : modelDesc->n_inputs); ++i) {
      const model_port *p = &(output ? modelDesc->outputs : modelDesc->inputs)[i];
      char cut[ACL_MAX_TENSOR_NAME_LEN];
      short_name(p, output, (size_t)i, cut);
      if (!strcmp(cut, name)) return output ? p->full_name : p->name;
    }
  return name;
}

/* ---- gears ------------------------------------------------------------------------------------------------------- */

aclError aclmdlGetDynamicBatch(const aclmdlDesc *modelDesc, aclmdlBatch *batch) {
  API_ENTER();
  NEED(modelDesc);
  NEED(batch);
  const model_gears *g = &modelDesc->gears;
  batch->batchCount = g->kind == GEARS_BATCH ? (size_t)g->n : 0;
  for (size_t i = 0; i < batch->batchCount; ++i) batch->batch[i] = (uint64_t)g->numbers[i];
  return ACL_SUCCESS;
}

static status check_gear_index(size_t index) {
  return index == SIZE_MAX ? ST_OK : fail(ST_INVALID_PARAM, "index is %zu, expected -1", index);
}

aclError aclmdlGetDynamicHW(const aclmdlDesc *modelDesc, size_t index, aclmdlHW *hw) {
  API_ENTER();
  NEED(modelDesc);
  NEED(hw);
  NEED_OK(check_gear_index(index));
  const model_gears *g = &modelDesc->gears;
  hw->hwCount = g->kind == GEARS_IMAGE ? (size_t)g->n : 0;
  for (size_t i = 0; i < 2 * hw->hwCount; ++i) hw->hw[i / 2][i % 2] = (uint64_t)g->numbers[i];
  return ACL_SUCCESS;
}

aclError aclmdlGetInputDynamicGearCount(const aclmdlDesc *modelDesc, size_t index, size_t *gearCount) {
  API_ENTER();
  NEED(modelDesc);
  NEED(gearCount);
  NEED_OK(check_gear_index(index));
  *gearCount = modelDesc->gears.kind == GEARS_DIMS ? (size_t)modelDesc->gears.n : 0;
  return ACL_SUCCESS;
}

/* The dims of all inputs but the added one in a row, with the gear's numbers in place of the open ones. */
static status gear_dims(const aclmdlDesc *d, int gear, aclmdlIODims *to) {
  const int64_t *number = d->gears.numbers + gear * d->gears.n_numbers;
  memset(to, 0, sizeof *to);
  for (int i = 0; i < d->n_inputs - 1; ++i)
    for (int k = 0; k < d->inputs[i].rank; ++k) {
      if (to->dimCount == ACL_MAX_DIM_CNT)
        return fail(ST_INVALID_PARAM, "the inputs have more than %d dimensions", ACL_MAX_DIM_CNT);
      const int64_t size = d->inputs[i].dims[k];
      to->dims[to->dimCount++] = size < 0 ? *number++ : size;
    }
  return ST_OK;
}

aclError aclmdlGetInputDynamicDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims, size_t gearCount) {
  API_ENTER();
  NEED(modelDesc);
  NEED(dims);
  NEED_OK(check_gear_index(index));
  const model_gears *g = &modelDesc->gears;
  const size_t n = g->kind == GEARS_DIMS ? (size_t)g->n : 0;
  if (gearCount < n) API_RETURN(fail(ST_INVALID_PARAM, "gearCount is %zu, expected %zu or more", gearCount, n));
  for (size_t i = 0; i < n; ++i) NEED_OK(gear_dims(modelDesc, (int)i, &dims[i]));
  return ACL_SUCCESS;
}
