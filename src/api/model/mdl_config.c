/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points that load and run models by lists of attributes. */
#include <stdlib.h>
#include <string.h>

#include "api/model/mdl.h"
#include "memory/memory.h"
#include "runtime/context.h"

/* ---- attributes -------------------------------------------------------------------------------------------------- */

typedef enum { VALUE_INT32, VALUE_SIZE, VALUE_POINTER, VALUE_TEXT, VALUE_NONE } value_kind;

typedef struct {
  const char *name; /* NULL: CANN has no such attribute */
  value_kind kind;  /* VALUE_NONE: of queues and of device code, which models here do not have */
} attribute;

static const attribute load_attributes[] = {
    [ACL_MDL_PRIORITY_INT32] = {"ACL_MDL_PRIORITY_INT32", VALUE_INT32},
    [ACL_MDL_LOAD_TYPE_SIZET] = {"ACL_MDL_LOAD_TYPE_SIZET", VALUE_SIZE},
    [ACL_MDL_PATH_PTR] = {"ACL_MDL_PATH_PTR", VALUE_TEXT},
    [ACL_MDL_MEM_ADDR_PTR] = {"ACL_MDL_MEM_ADDR_PTR", VALUE_POINTER},
    [ACL_MDL_MEM_SIZET] = {"ACL_MDL_MEM_SIZET", VALUE_SIZE},
    [ACL_MDL_WEIGHT_ADDR_PTR] = {"ACL_MDL_WEIGHT_ADDR_PTR", VALUE_POINTER},
    [ACL_MDL_WEIGHT_SIZET] = {"ACL_MDL_WEIGHT_SIZET", VALUE_SIZE},
    [ACL_MDL_WORKSPACE_ADDR_PTR] = {"ACL_MDL_WORKSPACE_ADDR_PTR", VALUE_POINTER},
    [ACL_MDL_WORKSPACE_SIZET] = {"ACL_MDL_WORKSPACE_SIZET", VALUE_SIZE},
    [ACL_MDL_INPUTQ_NUM_SIZET] = {"ACL_MDL_INPUTQ_NUM_SIZET", VALUE_NONE},
    [ACL_MDL_INPUTQ_ADDR_PTR] = {"ACL_MDL_INPUTQ_ADDR_PTR", VALUE_NONE},
    [ACL_MDL_OUTPUTQ_NUM_SIZET] = {"ACL_MDL_OUTPUTQ_NUM_SIZET", VALUE_NONE},
    [ACL_MDL_OUTPUTQ_ADDR_PTR] = {"ACL_MDL_OUTPUTQ_ADDR_PTR", VALUE_NONE},
    [ACL_MDL_WORKSPACE_MEM_OPTIMIZE] = {"ACL_MDL_WORKSPACE_MEM_OPTIMIZE", VALUE_SIZE},
    [ACL_MDL_WEIGHT_PATH_PTR] = {"ACL_MDL_WEIGHT_PATH_PTR", VALUE_TEXT},
};

enum { N_LOAD_ATTRIBUTES = sizeof load_attributes / sizeof *load_attributes };

/* A value that was set. */
typedef struct {
  bool set;
  int32_t number;
  size_t size;
  void *pointer;
  char *text; /* a copy */
} value;

enum { MOST_WEIGHT_FILES = 4096 };

/* A file of external weights that the caller has put into device memory. */
typedef struct {
  char *name; /* a copy */
  void *address;
  size_t bytes;
} weight_file;

struct aclmdlConfigHandle {
  value values[N_LOAD_ATTRIBUTES];
  weight_file *files;
  int n_files;
};

/* Reads the value at `from`; the former one stays on failure. */
static status set_value(value *to, const attribute *a, const void *from, size_t bytes) {
  static const size_t sizes[] = {[VALUE_INT32] = sizeof(int32_t),
                                 [VALUE_SIZE] = sizeof(size_t),
                                 [VALUE_POINTER] = sizeof(void *),
                                 [VALUE_TEXT] = sizeof(char *)};
  value now = {.set = true};
  if (bytes != sizes[a->kind])
    return fail(ST_INVALID_PARAM, "valueSize of %s is %zu, expected %zu", a->name, bytes, sizes[a->kind]);
  switch (a->kind) {
  case VALUE_INT32: memcpy(&now.number, from, bytes); break;
  case VALUE_SIZE: memcpy(&now.size, from, bytes); break;
  default: memcpy(&now.pointer, from, bytes); break;
  }
  if (a->kind == VALUE_TEXT) {
    if (!now.pointer) return fail(ST_INVALID_PARAM, "%s is NULL, expected a path", a->name);
    now.text = strdup(now.pointer);
    if (!now.text) return fail(ST_NO_HOST_MEMORY, "no host memory for %s", a->name);
  }
  free(to->text);
  *to = now;
  return ST_OK;
}

aclmdlConfigHandle *aclmdlCreateConfigHandle(void) {
  API_ENTER();
  aclmdlConfigHandle *h = calloc(1, sizeof *h);
  if (!h) API_RESULT(fail(ST_NO_HOST_MEMORY, "no host memory for a configuration"));
  API_TELL_HANDLE(HOOK_MODEL_CONFIG, HOOK_HANDLE_CREATED, h);
  return h;
}

aclError aclmdlDestroyConfigHandle(aclmdlConfigHandle *handle) {
  API_ENTER();
  NEED(handle);
  API_TELL_HANDLE(HOOK_MODEL_CONFIG, HOOK_HANDLE_DESTROYED, handle);
  for (int i = 0; i < N_LOAD_ATTRIBUTES; ++i) free(handle->values[i].text);
  for (int i = 0; i < handle->n_files; ++i) free(handle->files[i].name);
  free(handle->files);
  free(handle);
  return ACL_SUCCESS;
}

static status set_load_value(aclmdlConfigHandle *h, int attr, const void *from, size_t bytes) {
  if (attr < 0 || attr > ACL_MDL_FIFO_SIZET)
    return fail(ST_INVALID_PARAM, "attr is %d, expected a value of aclmdlConfigAttr", attr);
  if (attr >= N_LOAD_ATTRIBUTES || load_attributes[attr].kind == VALUE_NONE)
    return fail(ST_UNSUPPORTED, "attribute %d is of queues or of device code, which models here do not have", attr);
  TRY(set_value(&h->values[attr], &load_attributes[attr], from, bytes));
  const value *v = &h->values[attr];
  if (attr != ACL_MDL_PRIORITY_INT32 || (v->number >= 0 && v->number <= 7)) return ST_OK;
  h->values[attr] = (value){0};
  return fail(ST_INVALID_PARAM, "ACL_MDL_PRIORITY_INT32 is out of its range, expected 0 to 7");
}

aclError aclmdlSetConfigOpt(aclmdlConfigHandle *handle, aclmdlConfigAttr attr, const void *attrValue,
                            size_t valueSize) {
  API_ENTER();
  NEED(handle);
  NEED(attrValue);
  API_RETURN(set_load_value(handle, (int)attr, attrValue, valueSize));
}

/* A later address for the same name wins. */
static status set_weight_file(aclmdlConfigHandle *h, const char *name, void *address, size_t bytes) {
  int i = 0;
  while (i < h->n_files && strcmp(h->files[i].name, name) != 0) ++i;
  if (i == MOST_WEIGHT_FILES) return fail(ST_INVALID_PARAM, "there are more than %d files of weights", i);
  if (i == h->n_files) {
    weight_file *grown = realloc(h->files, ((size_t)i + 1) * sizeof *grown);
    if (grown) h->files = grown;
    char *copy = grown ? strdup(name) : NULL;
    if (!copy) return fail(ST_NO_HOST_MEMORY, "no host memory for the name %s", name);
    h->files[h->n_files++] = (weight_file){.name = copy};
  }
  h->files[i].address = address;
  h->files[i].bytes = bytes;
  return ST_OK;
}

aclError aclmdlSetExternalWeightAddress(aclmdlConfigHandle *handle, const char *weightFileName, void *devPtr,
                                        size_t size) {
  API_ENTER();
  NEED(handle);
  NEED(weightFileName);
  NEED(devPtr);
  if (!size) API_RETURN(fail(ST_INVALID_PARAM, "size is 0, expected that of %s", weightFileName));
  API_RETURN(set_weight_file(handle, weightFileName, devPtr, size));
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static status need_value(const aclmdlConfigHandle *h, int attr) {
  if (h->values[attr].set) return ST_OK;
  return fail(ST_INVALID_PARAM, "attribute %s is missing", load_attributes[attr].name);
}

/* Values of ACL_MDL_LOAD_TYPE_SIZET. */
enum { FROM_FILE = 1, FROM_FILE_WITH_MEM, FROM_MEM, FROM_MEM_WITH_MEM, FROM_FILE_WITH_Q, FROM_MEM_WITH_Q };

static status load_from(const value *v, bool from_file, const model_options *o, void *site, uint32_t *id) {
  if (from_file) return mdl_load_file_with(v[ACL_MDL_PATH_PTR].text, o, site, id);
  return mdl_load_with(v[ACL_MDL_MEM_ADDR_PTR].pointer, v[ACL_MDL_MEM_SIZET].size, NULL, o, site, id);
}

/* Loads with the files of weights that the caller has in device memory. */
static status load_with_files(const aclmdlConfigHandle *h, bool from_file, model_options *o, void *site, uint32_t *id) {
  onnx_mapping *files = calloc((size_t)h->n_files + 1, sizeof *files);
  if (!files) return fail(ST_NO_HOST_MEMORY, "no host memory for a list of files");
  status st = ST_OK;
  for (int i = 0; i < h->n_files && st == ST_OK; ++i) {
    const weight_file *f = &h->files[i];
    files[i] = (onnx_mapping){.path = f->name, .bytes = f->bytes};
    st = memory_view(f->address, f->bytes, VMM_READ, "devPtr", &files[i].memory);
  }
  o->weight_files = files;
  o->n_weight_files = h->n_files;
  if (st == ST_OK) st = load_from(h->values, from_file, o, site, id);
  free(files);
  return st;
}

static status load_configured(const aclmdlConfigHandle *h, void *site, uint32_t *id) {
  const value *v = h->values;
  TRY(need_value(h, ACL_MDL_LOAD_TYPE_SIZET));
  const size_t type = v[ACL_MDL_LOAD_TYPE_SIZET].size;
  if (type == FROM_FILE_WITH_Q || type == FROM_MEM_WITH_Q)
    return fail(ST_UNSUPPORTED, "models with queues (load type %zu) are not supported", type);
  if (type < FROM_FILE || type > FROM_MEM_WITH_MEM)
    return fail(ST_INVALID_PARAM, "ACL_MDL_LOAD_TYPE_SIZET is %zu, expected 1 to 4", type);
  const bool with_memory = type == FROM_FILE_WITH_MEM || type == FROM_MEM_WITH_MEM;
  const model_memory given = {.work = with_memory ? v[ACL_MDL_WORKSPACE_ADDR_PTR].pointer : NULL,
                              .weight = with_memory ? v[ACL_MDL_WEIGHT_ADDR_PTR].pointer : NULL,
                              .work_bytes = v[ACL_MDL_WORKSPACE_SIZET].size,
                              .weight_bytes = v[ACL_MDL_WEIGHT_SIZET].size};
  model_options options = {.memory = &given, .weight_folder = v[ACL_MDL_WEIGHT_PATH_PTR].text};
  if (type == FROM_FILE || type == FROM_FILE_WITH_MEM) {
    TRY(need_value(h, ACL_MDL_PATH_PTR));
    return load_with_files(h, true, &options, site, id);
  }
  TRY(need_value(h, ACL_MDL_MEM_ADDR_PTR));
  TRY(need_value(h, ACL_MDL_MEM_SIZET));
  if (!v[ACL_MDL_MEM_ADDR_PTR].pointer || !v[ACL_MDL_MEM_SIZET].size)
    return fail(ST_INVALID_PARAM, "ACL_MDL_MEM_ADDR_PTR or ACL_MDL_MEM_SIZET is 0");
  return load_with_files(h, false, &options, site, id);
}

aclError aclmdlLoadWithConfig(const aclmdlConfigHandle *handle, uint32_t *modelId) {
  API_ENTER();
  NEED(handle);
  NEED(modelId);
  API_RETURN(load_configured(handle, CALLER, modelId));
}

/* ---- executing --------------------------------------------------------------------------------------------------- */

struct aclmdlExecConfigHandle {
  uint64_t timeout_ns; /* 0: none */
  void *work;          /* of this execution; NULL: the model's */
  size_t work_bytes;
};

aclmdlExecConfigHandle *aclmdlCreateExecConfigHandle(void) {
  API_ENTER();
  aclmdlExecConfigHandle *h = calloc(1, sizeof *h);
  if (!h) API_RESULT(fail(ST_NO_HOST_MEMORY, "no host memory for a configuration"));
  return h;
}

aclError aclmdlDestroyExecConfigHandle(const aclmdlExecConfigHandle *handle) {
  API_ENTER();
  NEED(handle);
  free((aclmdlExecConfigHandle *)(uintptr_t)handle);
  return ACL_SUCCESS;
}

static status set_exec_value(aclmdlExecConfigHandle *h, int attr, const void *from, size_t bytes) {
  static const attribute known[] = {
      [ACL_MDL_STREAM_SYNC_TIMEOUT] = {"ACL_MDL_STREAM_SYNC_TIMEOUT", VALUE_INT32},
      [ACL_MDL_EVENT_SYNC_TIMEOUT] = {"ACL_MDL_EVENT_SYNC_TIMEOUT", VALUE_INT32},
      [ACL_MDL_WORK_ADDR_PTR] = {"ACL_MDL_WORK_ADDR_PTR", VALUE_POINTER},
      [ACL_MDL_WORK_SIZET] = {"ACL_MDL_WORK_SIZET", VALUE_SIZE},
  };
  value v = {0};
  uint64_t ns;
  if (attr < 0 || attr > ACL_MDL_WORK_SIZET)
    return fail(ST_INVALID_PARAM, "attr is %d, expected 0 to %d; the others are reserved", attr, ACL_MDL_WORK_SIZET);
  TRY(set_value(&v, &known[attr], from, bytes));
  if (attr == ACL_MDL_WORK_ADDR_PTR) h->work = v.pointer;
  if (attr == ACL_MDL_WORK_SIZET) h->work_bytes = v.size;
  if (attr > ACL_MDL_EVENT_SYNC_TIMEOUT) return ST_OK;
  if (api_timeout_ns(v.number, &ns) != ST_OK)
    return fail(ST_INVALID_PARAM, "%s: %s", known[attr].name, strdupa(fail_take()));
  if (attr == ACL_MDL_STREAM_SYNC_TIMEOUT) h->timeout_ns = ns; /* models wait for no events of their own */
  return ST_OK;
}

aclError aclmdlSetExecConfigOpt(aclmdlExecConfigHandle *handle, aclmdlExecConfigAttr attr, const void *attrValue,
                                size_t valueSize) {
  API_ENTER();
  NEED(handle);
  NEED(attrValue);
  API_RETURN(set_exec_value(handle, (int)attr, attrValue, valueSize));
}

static model_memory work_of(const aclmdlExecConfigHandle *h) {
  return h ? (model_memory){.work = h->work, .work_bytes = h->work_bytes} : (model_memory){0};
}

aclError aclmdlExecuteV2(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream handle,
                         const aclmdlExecConfigHandle *config) {
  API_ENTER();
  stream *s;
  NEED(input);
  NEED(output);
  NEED_OK(context_stream(handle, &s));
  const model_memory work = work_of(config);
  NEED_OK(mdl_submit(modelId, input, output, s, true, &work, CALLER));
  const status st = stream_synchronize(s, config ? config->timeout_ns : 0);
  if (st == ST_STREAM_TIMEOUT) API_RETURN(fail(ST_MODEL_TIMEOUT, "%s", strdupa(fail_take())));
  API_RETURN(st);
}

aclError aclmdlExecuteAsyncV2(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream handle,
                              const aclmdlExecConfigHandle *config) {
  API_ENTER();
  stream *s;
  NEED(input);
  NEED(output);
  NEED(handle);
  NEED_OK(context_stream(handle, &s));
  const model_memory work = work_of(config);
  API_RETURN(mdl_submit(modelId, input, output, s, false, &work, CALLER));
}
