/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points that make .om files (include/cannon/model.h). */
#include "cannon/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static status read_gears(const cannon_model_options *o, model_gears *g) {
  if (o->gears == CANNON_MODEL_NO_GEARS) return ST_OK;
  const size_t wanted = o->gears == CANNON_MODEL_BATCH ? 1 : o->gears == CANNON_MODEL_IMAGE ? 2 : o->n_numbers;
  if (o->gears < 0 || o->gears > CANNON_MODEL_DIMS || !o->numbers || o->n_numbers != wanted || !wanted ||
      wanted > 4 * MAX_RANK)
    return fail(ST_INVALID_PARAM, "gears of kind %d have %zu numbers, expected %zu", (int)o->gears, o->n_numbers,
                wanted);
  if (o->n_gears < 2 || o->n_gears > GEARS_MOST)
    return fail(ST_INVALID_PARAM, "there are %zu gears, expected 2 to %d", o->n_gears, GEARS_MOST);
  *g = (model_gears){.kind = (gears_kind)o->gears,
                     .n = (int)o->n_gears,
                     .n_numbers = (int)o->n_numbers,
                     .numbers = (int64_t *)(uintptr_t)o->numbers};
  for (size_t i = 0; i < o->n_gears * o->n_numbers; ++i)
    if (o->numbers[i] < 1) return fail(ST_INVALID_PARAM, "a gear has %jd, expected 1 or more", (intmax_t)o->numbers[i]);
  return ST_OK;
}

static status build(const void *file, size_t n, const cannon_model_options *o, void **om, size_t *bytes,
                    cannon_model_figures *figures) {
  om_contents c = {.onnx = file, .onnx_bytes = n, .n_shapes = (int)o->n_shapes};
  void *made;
  size_t n_made;
  TRY(read_gears(o, &c.gears));
  TRY(own_shapes(o->shapes, o->n_shapes, &c.shapes));
  char *aipp = o->aipp ? aipp_line(o->aipp) : NULL;
  if (o->aipp && !aipp) {
    free(c.shapes);
    return fail(ST_NO_HOST_MEMORY, "no host memory for the configuration of AIPP");
  }
  c.aipp = aipp;
  status st = om_write(o->name ? o->name : "", &c, &made, &n_made);
  if (st == ST_OK) {
    st = try_model(made, n_made, c.shapes, o->n_shapes, figures);
    if (st == ST_OK)
      *om = made, *bytes = n_made;
    else
      free(made);
  }
  free(c.shapes);
  free(aipp);
  return st;
}

static status build_from(const void *onnx, size_t n, const cannon_model_options *options, void **om, size_t *bytes,
                         cannon_model_figures *figures) {
  static const cannon_model_options none;
  const cannon_model_options *o = options ? options : &none;
  if (o->n_shapes && !o->shapes) return fail(ST_INVALID_PARAM, "shapes is NULL, expected %zu", o->n_shapes);
  return build(onnx, n, o, om, bytes, figures);
}

aclError cannon_model_build(const char *path, const cannon_model_options *options, void **om, size_t *bytes,
                            cannon_model_figures *figures) {
  API_ENTER();
  void *file;
  size_t n;
  NEED(path);
  NEED(om);
  NEED(bytes);
  NEED_OK(mdl_read_file(path, &file, &n));
  const status st = build_from(file, n, options, om, bytes, figures);
  free(file);
  API_RETURN(st);
}

aclError cannon_model_build_from_memory(const void *onnx, size_t n, const cannon_model_options *options, void **om,
                                        size_t *bytes, cannon_model_figures *figures) {
  API_ENTER();
  NEED(onnx);
  NEED(om);
  NEED(bytes);
  API_RETURN(build_from(onnx, n, options, om, bytes, figures));
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static status not_written(const char *path, const char *why) {
  return fail(ST_MODEL_PATH, "%s cannot be written: %s", path, why);
}

/* Whether a file of that name may be replaced: there is none, it is empty, or an .om file. */
static status check_replaceable(const char *path) {
  char head[4];
  struct stat info;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT ? ST_OK : not_written(path, strerror(errno));
  const bool regular = !fstat(fd, &info) && S_ISREG(info.st_mode);
  const ssize_t n = regular ? read(fd, head, sizeof head) : -1;
  close(fd);
  if (n == 0 || (n == sizeof head && om_is(head, sizeof head))) return ST_OK;
  return not_written(path, "there is another file of that name, which is no .om file");
}

static status write_beside(int fd, const char *beside, const char *path, const char *om, size_t bytes) {
  size_t done = 0;
  for (ssize_t n; done < bytes; done += (size_t)n)
    if ((n = write(fd, om + done, bytes - done)) <= 0) break;
  const int error = done < bytes ? errno : 0;
  if (close(fd) || error) return not_written(path, strerror(error ? error : errno));
  return rename(beside, path) ? not_written(path, strerror(errno)) : ST_OK;
}

static status save(const char *path, const void *om, size_t bytes) {
  char *beside;
  TRY(check_replaceable(path));
  if (asprintf(&beside, "%s.%d.XXXXXX", path, (int)getpid()) < 0)
    return fail(ST_NO_HOST_MEMORY, "no host memory for the name %s", path);
  const int fd = mkostemp(beside, O_CLOEXEC);
  const mode_t mask = umask(0);
  umask(mask);
  if (fd >= 0) (void)fchmod(fd, 0666 & ~mask);
  status st = fd < 0 ? not_written(path, strerror(errno)) : write_beside(fd, beside, path, om, bytes);
  if (fd >= 0 && st != ST_OK) unlink(beside);
  free(beside);
  return st;
}

aclError cannon_model_save(const char *path, const void *om, size_t bytes) {
  API_ENTER();
  NEED(path);
  NEED(om);
  API_RETURN(save(path, om, bytes));
}
