/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points that load, measure, run and unload models (graph/model.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/model/mdl.h"
#include "api/op/data_buffer.h"
#include "base/lock.h"
#include "base/settings/faults.h"
#include "runtime/context.h"

/* ---- loaded models ----------------------------------------------------------------------------------------------- */

/* The number of a model is its index plus 1, and is not used again. */
static mutex table_lock = MUTEX_INITIALIZER(MODELS);
static model **table;
static uint32_t n_models, room;

static status table_add(model *m, uint32_t *id) {
  mutex_lock(&table_lock);
  if (n_models == room) {
    const uint32_t more = room ? 2 * room : 16;
    model **larger = realloc(table, more * sizeof *larger);
    if (!larger) {
      mutex_unlock(&table_lock);
      return fail(ST_NO_HOST_MEMORY, "no host memory for %u models", more);
    }
    table = larger;
    room = more;
  }
  table[n_models] = m;
  *id = ++n_models;
  mutex_unlock(&table_lock);
  return ST_OK;
}

static status unknown_model(uint32_t id) {
  return fail(ST_MODEL_ID, "modelId is %u, expected the number of a loaded model (unloaded?)", id);
}

status mdl_find(uint32_t id, model **out) {
  mutex_lock(&table_lock);
  *out = id && id <= n_models ? table[id - 1] : NULL;
  if (*out) model_hold(*out);
  mutex_unlock(&table_lock);
  return *out ? ST_OK : unknown_model(id);
}

static status table_remove(uint32_t id) {
  mutex_lock(&table_lock);
  model *m = id && id <= n_models ? table[id - 1] : NULL;
  if (m) table[id - 1] = NULL;
  mutex_unlock(&table_lock);
  if (!m) return unknown_model(id);
  hooks_tell_handle(HOOK_MODEL, HOOK_HANDLE_DESTROYED, (void *)(uintptr_t)id, "aclmdlUnload");
  model_unref(m);
  return ST_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

status mdl_map_file(const char *path, void **bytes, size_t *n) {
  struct stat info;
  FAULT_TRY(FAULT_FILE, NULL, ST_MODEL_PATH, "%s cannot be read", path);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &info)) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return fail(ST_MODEL_PATH, "%s cannot be read: %s", path, strerror(error));
  }
  if (!S_ISREG(info.st_mode) || !info.st_size) {
    close(fd);
    return fail(ST_MODEL_PATH, S_ISREG(info.st_mode) ? "%s is empty" : "%s is not a file", path);
  }
  void *at = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (at == MAP_FAILED) return fail(ST_MODEL_PATH, "%s cannot be read: %s", path, strerror(error));
  *bytes = at;
  *n = (size_t)info.st_size;
  return ST_OK;
}

char *mdl_folder(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

status mdl_load_with(const void *bytes, size_t n, const char *folder, const model_options *o, void *site,
                     uint32_t *id) {
  context *c;
  model *m;
  TRY(context_current(&c));
  TRY(model_load(bytes, n, folder, o, c->device, site, &m));
  const status st = table_add(m, id);
  if (st != ST_OK)
    model_unref(m);
  else
    hooks_tell_handle(HOOK_MODEL, HOOK_HANDLE_CREATED, (void *)(uintptr_t)*id, "aclmdlLoad");
  return st;
}

status mdl_load(const void *bytes, size_t n, const char *folder, const model_memory *given, void *site, uint32_t *id) {
  return mdl_load_with(bytes, n, folder, &(model_options){.memory = given}, site, id);
}

status mdl_load_file_with(const char *path, const model_options *o, void *site, uint32_t *id) {
  void *bytes;
  size_t n;
  bool taken = false;
  TRY(mdl_map_file(path, &bytes, &n));
  char *folder = mdl_folder(path);
  model_options options = *o;
  options.mapping_taken = &taken;
  const status st = folder ? mdl_load_with(bytes, n, folder, &options, site, id)
                           : fail(ST_NO_HOST_MEMORY, "no host memory for the folder of %s", path);
  free(folder);
  if (!taken) munmap(bytes, n);
  return st;
}

status mdl_load_file(const char *path, const model_memory *given, void *site, uint32_t *id) {
  return mdl_load_file_with(path, &(model_options){.memory = given}, site, id);
}

aclError aclmdlLoadFromFile(const char *modelPath, uint32_t *modelId) {
  API_ENTER();
  NEED(modelPath);
  NEED(modelId);
  API_RETURN(mdl_load_file(modelPath, NULL, CALLER, modelId));
}

static status check_size(size_t size) {
  return size ? ST_OK : fail(ST_INVALID_PARAM, "modelSize is 0, expected the bytes of a model");
}

aclError aclmdlLoadFromMem(const void *model, size_t modelSize, uint32_t *modelId) {
  API_ENTER();
  NEED(model);
  NEED(modelId);
  NEED_OK(check_size(modelSize));
  API_RETURN(mdl_load(model, modelSize, NULL, NULL, CALLER, modelId));
}

aclError aclmdlLoadFromFileWithMem(const char *modelPath, uint32_t *modelId, void *workPtr, size_t workSize,
                                   void *weightPtr, size_t weightSize) {
  API_ENTER();
  NEED(modelPath);
  NEED(modelId);
  const model_memory given = {workPtr, weightPtr, workSize, weightSize};
  API_RETURN(mdl_load_file(modelPath, &given, CALLER, modelId));
}

aclError aclmdlLoadFromMemWithMem(const void *model, size_t modelSize, uint32_t *modelId, void *workPtr,
                                  size_t workSize, void *weightPtr, size_t weightSize) {
  API_ENTER();
  NEED(model);
  NEED(modelId);
  NEED_OK(check_size(modelSize));
  const model_memory given = {workPtr, weightPtr, workSize, weightSize};
  API_RETURN(mdl_load(model, modelSize, NULL, &given, CALLER, modelId));
}

aclError aclmdlUnload(uint32_t modelId) { API(table_remove(modelId)); }

/* ---- measuring --------------------------------------------------------------------------------------------------- */

/* What aclmdlQuerySize and aclmdlGetDescFrom... want of a model: it is loaded for nothing but this. */
static status mdl_look_at(const void *bytes, size_t n, const char *folder, aclmdlDesc *d, size_t *work,
                          size_t *weight) {
  model *m;
  TRY(model_load(bytes, n, folder, NULL, MODEL_ON_HOST, NULL, &m));
  const model_size sizes = model_sizes(m);
  status st = d ? mdl_describe(d, m, 0) : ST_OK;
  if (!d && !sizes.work && !sizes.weight) {
    int k;
    const model_port *in = model_inputs(m, &k);
    for (int i = 0; i < k; ++i)
      if (!in[i].bytes)
        st = fail(ST_MODEL_PARAM, "the shape of input %s is open, so sizes are known only when it runs", in[i].name);
  }
  if (work) *work = sizes.work;
  if (weight) *weight = sizes.weight;
  model_unref(m);
  return st;
}

static status look_at_file(const char *path, aclmdlDesc *d, size_t *work, size_t *weight) {
  void *bytes;
  size_t n;
  TRY(mdl_map_file(path, &bytes, &n));
  char *folder = mdl_folder(path);
  const status st = mdl_look_at(bytes, n, folder, d, work, weight);
  free(folder);
  munmap(bytes, n);
  return st;
}

aclError aclmdlQuerySize(const char *fileName, size_t *workSize, size_t *weightSize) {
  API_ENTER();
  NEED(fileName);
  NEED(workSize);
  NEED(weightSize);
  API_RETURN(look_at_file(fileName, NULL, workSize, weightSize));
}

aclError aclmdlQuerySizeFromMem(const void *model, size_t modelSize, size_t *workSize, size_t *weightSize) {
  API_ENTER();
  NEED(model);
  NEED(workSize);
  NEED(weightSize);
  NEED_OK(check_size(modelSize));
  API_RETURN(mdl_look_at(model, modelSize, NULL, NULL, workSize, weightSize));
}

aclError aclmdlGetDescFromFile(aclmdlDesc *modelDesc, const char *modelPath) {
  API_ENTER();
  NEED(modelDesc);
  NEED(modelPath);
  API_RETURN(look_at_file(modelPath, modelDesc, NULL, NULL));
}

aclError aclmdlGetDescFromMem(aclmdlDesc *modelDesc, const void *model, size_t modelSize) {
  API_ENTER();
  NEED(modelDesc);
  NEED(model);
  NEED_OK(check_size(modelSize));
  API_RETURN(mdl_look_at(model, modelSize, NULL, modelDesc, NULL, NULL));
}

aclError aclmdlGetDesc(aclmdlDesc *modelDesc, uint32_t modelId) {
  API_ENTER();
  model *m;
  NEED(modelDesc);
  NEED_OK(mdl_find(modelId, &m));
  const status st = mdl_describe(modelDesc, m, modelId);
  model_unref(m);
  API_RETURN(st);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static status read_buffers(const aclmdlDataset *d, const char *name, model_buffer **out) {
  model_buffer *b = calloc(d->n + 1, sizeof *b);
  if (!b) return fail(ST_NO_HOST_MEMORY, "no host memory for the buffers of %s", name);
  for (size_t i = 0; i < d->n; ++i) {
    const dataset_entry *e = &d->entries[i];
    b[i] = (model_buffer){.address = e->buffer->data, .bytes = e->buffer->size, .rank = -1};
    if (!e->shape || e->shape->shape.rank > MAX_RANK) continue;
    b[i].rank = e->shape->shape.rank;
    memcpy(b[i].dims, e->shape->shape.dims, (size_t)b[i].rank * sizeof *b[i].dims);
  }
  *out = b;
  return ST_OK;
}

/* Writes back what an execution says of its outputs: shapes, and memory that was allocated for them. */
static status write_back(const model *m, const model_buffer *b, aclmdlDataset *d) {
  int n;
  const model_port *ports = model_outputs(m, &n);
  for (size_t i = 0; i < d->n; ++i) {
    d->entries[i].buffer->data = b[i].address;
    d->entries[i].buffer->size = b[i].bytes;
    TRY(mdl_set_shape(&d->entries[i], ports[i].dtype, b[i].rank, b[i].dims));
  }
  return ST_OK;
}

status mdl_submit(uint32_t id, const aclmdlDataset *input, aclmdlDataset *output, stream *s, bool awaited,
                  const model_memory *work, void *site) {
  int gear;
  model_buffer *in = NULL, *out = NULL;
  model *m;
  TRY(mdl_find(id, &m));
  status st = mdl_gear(input, id, m, &gear);
  if (st == ST_OK) st = read_buffers(input, "input", &in);
  if (st == ST_OK) st = read_buffers(output, "output", &out);
  if (st == ST_OK) st = model_submit(m, s, in, (int)input->n, out, (int)output->n, gear, awaited, work, site);
  if (st == ST_OK) st = write_back(m, out, output);
  free(in);
  free(out);
  model_unref(m);
  return st;
}

aclError aclmdlExecute(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output) {
  API_ENTER();
  stream *s;
  NEED(input);
  NEED(output);
  NEED_OK(context_stream(NULL, &s));
  NEED_OK(mdl_submit(modelId, input, output, s, true, NULL, CALLER));
  API_RETURN(stream_synchronize(s, 0));
}

aclError aclmdlExecuteAsync(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED(input);
  NEED(output);
  NEED_OK(context_stream(handle, &s));
  API_RETURN(mdl_submit(modelId, input, output, s, false, NULL, CALLER));
}
