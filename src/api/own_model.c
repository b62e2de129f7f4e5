/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point that makes .om files (include/cannon/model.h). */
#include "cannon/model.h"

#include <stdlib.h>
#include <string.h>

#include "api/mdl.h"
#include "graph/om.h"

static status own_shapes(const cannon_model_shape *from, size_t n, onnx_shape **out) {
  onnx_shape *to = calloc(n + 1, sizeof *to);
  if (!to) return fail(ST_NO_HOST_MEMORY, "no host memory for %zu shapes", n);
  for (size_t i = 0; i < n; ++i) {
    if (!from[i].name || from[i].n_dims > MAX_RANK) {
      free(to);
      return fail(ST_INVALID_PARAM, "shapes[%zu] has no name, or %zu dimensions, expected at most %d", i,
                  from[i].n_dims, MAX_RANK);
    }
    to[i].name = from[i].name;
    to[i].n_dims = (int)from[i].n_dims;
    memcpy(to[i].dims, from[i].dims, from[i].n_dims * sizeof *to[i].dims);
  }
  *out = to;
  return ST_OK;
}

/* Whether the shapes name inputs of the model. Whether they fit was seen when it was loaded. */
static status check_shapes(const model *m, const onnx_shape *shapes, size_t n) {
  int n_inputs;
  const model_port *in = model_inputs(m, &n_inputs);
  for (size_t k = 0; k < n; ++k) {
    int i = 0;
    while (i < n_inputs && strcmp(in[i].name, shapes[k].name) != 0) ++i;
    if (i == n_inputs) return fail(ST_INVALID_PARAM, "%s is no input of the model", shapes[k].name);
  }
  return ST_OK;
}

/* Loads what was made, to see whether it can be run, and measures it. */
static status try_model(const void *om, size_t n, const onnx_shape *shapes, size_t n_shapes,
                        cannon_model_figures *figures) {
  model *m;
  TRY(model_load(om, n, NULL, NULL, MODEL_ON_HOST, NULL, &m));
  const status st = check_shapes(m, shapes, n_shapes);
  const model_size sizes = model_sizes(m);
  if (figures)
    *figures = (cannon_model_figures){.work_bytes = sizes.work,
                                      .unshared_bytes = sizes.unshared,
                                      .weight_bytes = sizes.weight,
                                      .n_tasks = sizes.n_tasks};
  model_unref(m);
  return st;
}

aclError cannon_model_build(const char *path, const char *name, const cannon_model_shape *shapes, size_t n_shapes,
                            void **om, size_t *bytes, cannon_model_figures *figures) {
  API_ENTER();
  void *file, *made;
  size_t n, n_made;
  onnx_shape *given;
  NEED(path);
  NEED(om);
  NEED(bytes);
  if (n_shapes) NEED(shapes);
  NEED_OK(mdl_read_file(path, &file, &n));
  status st = own_shapes(shapes, n_shapes, &given);
  if (st == ST_OK) {
    st = om_write(name ? name : "", file, n, given, (int)n_shapes, &made, &n_made);
    if (st == ST_OK) {
      st = try_model(made, n_made, given, n_shapes, figures);
      if (st == ST_OK)
        *om = made, *bytes = n_made;
      else
        free(made);
    }
    free(given);
  }
  free(file);
  API_RETURN(st);
}
