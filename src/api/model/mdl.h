/* SPDX-License-Identifier: Apache-2.0 */
/* What the entry points for models share: descriptions, datasets and the table of loaded models. */
#ifndef CANNON_API_MODEL_MDL_H
#define CANNON_API_MODEL_MDL_H

#include "api/api.h"
#include "graph/model.h"
#include "tensor/desc.h"

/* Belongs to the program. One thread at a time fills it; any number may read it. */
struct aclmdlDesc {
  int n_inputs, n_outputs;
  model_port *inputs, *outputs; /* with names that belong to the description */
  model_gears gears;            /* with numbers of its own */
  uint32_t id;                  /* of the loaded model; 0: it was only looked at */
};

typedef struct {
  aclDataBuffer *buffer; /* the program's */
  tensor_desc *shape;    /* the dataset's; NULL: none */
} dataset_entry;

struct aclmdlDataset {
  size_t n, room;
  dataset_entry *entries;
  uint32_t gear_of; /* the model whose gear was chosen for this dataset; 0: none */
  int gear;
};

/* Replaces what the description has by that of a model. id: 0 if it is not loaded. */
status mdl_describe(aclmdlDesc *d, const model *m, uint32_t id);

/* Sets the shape of a dataset's buffer. */
status mdl_set_shape(dataset_entry *e, int dtype, int rank, const int64_t *dims);

/* A loaded model, with a reference for the caller. ST_MODEL_ID. */
status mdl_find(uint32_t id, model **out);

/* Loads a model onto the device of the current context. folder: of external data, or NULL. given: or NULL. */
status mdl_load(const void *bytes, size_t n, const char *folder, const model_memory *given, void *site, uint32_t *id);
status mdl_load_with(const void *bytes, size_t n, const char *folder, const model_options *o, void *site, uint32_t *id);
status mdl_load_file_with(const char *path, const model_options *o, void *site, uint32_t *id);
status mdl_load_file(const char *path, const model_memory *given, void *site, uint32_t *id);

/* The gear of an execution with this dataset: the one that was set for the model, else the one that the buffer of
 * MODEL_GEAR_INPUT holds, as callers may fill it by themselves; -1: the model has none. ST_MODEL_GEAR. */
status mdl_gear(const aclmdlDataset *d, uint32_t id, const model *m, int *gear);

/* Queues an execution of a model with these datasets. awaited: the caller waits for it at once. work: memory for this
 * execution; NULL: the model's. */
status mdl_submit(uint32_t id, const aclmdlDataset *input, aclmdlDataset *output, stream *s, bool awaited,
                  const model_memory *work, void *site);

/* Maps a whole file for reading; the caller unmaps it. ST_MODEL_PATH. */
status mdl_map_file(const char *path, void **bytes, size_t *n);

/* The folder of a path, malloc'ed; NULL if the host has no memory. */
char *mdl_folder(const char *path);

#endif
