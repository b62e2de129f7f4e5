/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for the descriptions of models. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mdl.h"

static void free_ports(model_port *ports, int n) {
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

status mdl_describe(aclmdlDesc *d, const model *m) {
  struct aclmdlDesc now = {0};
  const model_port *in = model_inputs(m, &now.n_inputs), *out = model_outputs(m, &now.n_outputs);
  TRY(copy_ports(in, now.n_inputs, &now.inputs));
  const status st = copy_ports(out, now.n_outputs, &now.outputs);
  if (st != ST_OK) {
    free_ports(now.inputs, now.n_inputs);
    return st;
  }
  free_ports(d->inputs, d->n_inputs);
  free_ports(d->outputs, d->n_outputs);
  *d = now;
  return ST_OK;
}

aclmdlDesc *aclmdlCreateDesc(void) {
  API_ENTER();
  aclmdlDesc *d = calloc(1, sizeof *d);
  if (!d) API_RESULT(fail(ST_NO_HOST_MEMORY, "no host memory for the description of a model"));
  return d;
}

aclError aclmdlDestroyDesc(aclmdlDesc *modelDesc) {
  API_ENTER();
  NEED(modelDesc);
  free_ports(modelDesc->inputs, modelDesc->n_inputs);
  free_ports(modelDesc->outputs, modelDesc->n_outputs);
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
  API_RETURN(dims_of(modelDesc, false, index, dims));
}

aclError aclmdlGetOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims) {
  API_ENTER();
  NEED(modelDesc);
  NEED(dims);
  API_RETURN(dims_of(modelDesc, true, index, dims));
}

aclError aclmdlGetCurOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims) {
  API_ENTER();
  const model_port *p;
  NEED(modelDesc);
  NEED(dims);
  NEED_OK(port_at(modelDesc, true, index, &p));
  for (int d = 0; d < p->rank; ++d)
    if (p->dims[d] < 0)
      API_RETURN(fail(ST_INVALID_PARAM, "output %zu has an open shape, which each execution sets", index));
  API_RETURN(dims_of(modelDesc, true, index, dims));
}

aclError aclmdlGetInputDimsRange(const aclmdlDesc *modelDesc, size_t index, aclmdlIODimsRange *dimsRange) {
  API_ENTER();
  const model_port *p;
  NEED(modelDesc);
  NEED(dimsRange);
  NEED_OK(port_at(modelDesc, false, index, &p));
  memset(dimsRange, 0, sizeof *dimsRange);
  dimsRange->rangeCount = (size_t)p->rank;
  for (int d = 0; d < p->rank; ++d) {
    dimsRange->range[d][0] = p->dims[d] < 0 ? 0 : p->dims[d];
    dimsRange->range[d][1] = p->dims[d];
  }
  return ACL_SUCCESS;
}

static aclFormat format_of(const model_port *p) {
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

/* ---- gears, which models do not have yet ------------------------------------------------------------------------- */

aclError aclmdlGetDynamicBatch(const aclmdlDesc *modelDesc, aclmdlBatch *batch) {
  API_ENTER();
  NEED(modelDesc);
  NEED(batch);
  batch->batchCount = 0;
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
  hw->hwCount = 0;
  return ACL_SUCCESS;
}

aclError aclmdlGetInputDynamicGearCount(const aclmdlDesc *modelDesc, size_t index, size_t *gearCount) {
  API_ENTER();
  NEED(modelDesc);
  NEED(gearCount);
  NEED_OK(check_gear_index(index));
  *gearCount = 0;
  return ACL_SUCCESS;
}
