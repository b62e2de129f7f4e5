/* SPDX-License-Identifier: Apache-2.0 */
/* cannon model run: runs a model on arrays in files, through the same interface as any program. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "acl/acl.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/model/model_command.h"
#include "cli/model/npy.h"

enum { SLOTS = MODEL_MOST_INPUTS };

typedef struct {
  model_options *o;
  uint32_t id; /* 0: not loaded */
  aclmdlDesc *desc;
  aclmdlDataset *in, *out;
  size_t n_inputs, n_outputs, gear_input; /* gear_input: SLOTS if the model has no gears */
  npy_array inputs[SLOTS], outputs[SLOTS];
  output files[SLOTS]; /* of outputs; path NULL: none */
  uint64_t load_ns, first_ns, median_ns, least_ns;
} run_session;

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static bool run_fail(const run_session *s, const char *words) {
  fprintf(stderr, "cannon model run: %s: %s\n", format_text(s->o->path), format_text(words));
  return false;
}

/* Whether a call of the library succeeded; prints its message if not. */
static bool done(const run_session *s, aclError error) {
  if (error == ACL_SUCCESS) return true;
  const char *words = aclGetRecentErrMsg();
  return run_fail(s, words ? words : "a call of the library failed");
}

static uint64_t session_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static const char *input_name(const run_session *s, size_t i) {
  const char *name = aclmdlGetInputNameByIndex(s->desc, i);
  return name ? name : "";
}

/* The input that "NAME=FILE" or "FILE" is meant for; SLOTS, after a message, if there is none. */
static size_t session_input(const run_session *s, const char *text, const char **path) {
  char words[512];
  const char *equals = strchr(text, '=');
  *path = text;
  for (size_t i = 0; equals && i < s->n_inputs; ++i) {
    const char *name = input_name(s, i);
    if (strlen(name) != (size_t)(equals - text) || strncmp(name, text, strlen(name)) != 0) continue;
    *path = equals + 1;
    if (!s->inputs[i].data) return i;
    snprintf(words, sizeof words, "input %.100s has two files", name);
    return run_fail(s, words), SLOTS;
  }
  for (size_t i = 0; i < s->n_inputs; ++i)
    if (i != s->gear_input && !s->inputs[i].data) return i;
  snprintf(words, sizeof words, "there is no input for %.200s: the model has %zu", text,
           s->n_inputs - (s->gear_input != SLOTS));
  return run_fail(s, words), SLOTS;
}

static bool read_inputs(run_session *s) {
  char error[256], words[512];
  const char *path;
  for (int k = 0; k < s->o->n_inputs; ++k) {
    const size_t i = session_input(s, s->o->inputs[k], &path);
    if (i == SLOTS) return false;
    if (!npy_read(path, &s->inputs[i], error)) {
      snprintf(words, sizeof words, "input %.80s: %.150s: %s", input_name(s, i), path, error);
      return run_fail(s, words);
    }
    const aclDataType wanted = aclmdlGetInputDataType(s->desc, i);
    if (s->inputs[i].dtype != wanted) {
      const char *name = npy_dtype_name(wanted);
      snprintf(words, sizeof words, "input %.80s: %.150s has numbers of type %s, expected %s", input_name(s, i), path,
               npy_dtype_name(s->inputs[i].dtype), name ? name : "another");
      return run_fail(s, words);
    }
  }
  return true;
}

/* The shape of an input without a file: the model's, with what --shape says of open dimensions. */
static bool session_shape(const run_session *s, size_t i, npy_array *a) {
  aclmdlIODims dims;
  char words[256];
  if (!done(s, aclmdlGetInputDims(s->desc, i, &dims))) return false;
  a->dtype = aclmdlGetInputDataType(s->desc, i);
  a->rank = (int)dims.dimCount;
  memcpy(a->dims, dims.dims, sizeof a->dims);
  for (size_t k = 0; k < s->o->n_shapes; ++k) {
    const cannon_model_shape *given = &s->o->shapes[k];
    if (strcmp(given->name, input_name(s, i)) != 0) continue;
    a->rank = (int)given->n_dims;
    memcpy(a->dims, given->dims, sizeof a->dims);
  }
  a->bytes = aclDataTypeSize(a->dtype);
  for (int d = 0; d < a->rank; ++d) {
    if (a->dims[d] < 0) {
      snprintf(words, sizeof words, "dimension %d of input %.80s is open, expected its shape (--shape)", d,
               input_name(s, i));
      return run_fail(s, words);
    }
    if (__builtin_mul_overflow(a->bytes, (size_t)a->dims[d], &a->bytes)) return run_fail(s, "an input is too large");
  }
  return true;
}

/* Numbers from 0 to 1 by a linear congruential generator (Knuth's MMIX), the same on all machines. */
static void fill_array(npy_array *a, uint64_t *state) {
  for (size_t i = 0; i < a->bytes / aclDataTypeSize(a->dtype); ++i) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    const float value = (float)(*state >> 40) / (float)(1 << 24);
    if (a->dtype == ACL_FLOAT) ((float *)a->data)[i] = value;
    if (a->dtype == ACL_DOUBLE) ((double *)a->data)[i] = (double)value;
    if (a->dtype == ACL_FLOAT16) ((uint16_t *)a->data)[i] = aclFloatToFloat16(value);
  }
}

static bool fill_inputs(run_session *s) {
  uint64_t state = s->o->seed;
  char words[256];
  for (size_t i = 0; i < s->n_inputs; ++i) {
    npy_array *a = &s->inputs[i];
    if (a->data || i == s->gear_input) continue;
    if (!s->o->fill) {
      snprintf(words, sizeof words, "input %.80s has no array, expected --input %.80s=FILE.npy, or --random SEED",
               input_name(s, i), input_name(s, i));
      return run_fail(s, words);
    }
    if (!session_shape(s, i, a)) return false;
    if (!(a->data = calloc(1, a->bytes + 1))) return run_fail(s, "the host has no memory for an input");
    fill_array(a, &state);
  }
  return true;
}

/* ---- files of outputs -------------------------------------------------------------------------------------------- */

/* Path of the file of output i, malloc'ed; the name is that of the value, with _ for what cannot be in file names. */
static char *output_path(const run_session *s, size_t i) {
  const char *full = aclmdlGetOutputNameByIndex(s->desc, i), *name = full ? full : "";
  char *path;
  for (int colons = 0; colons < 2 && strchr(name, ':'); ++colons) name = strchr(name, ':') + 1;
  if (asprintf(&path, "%s/%.200s.npy", s->o->folder, *name ? name : "output") < 0) return NULL;
  for (char *p = path + strlen(s->o->folder) + 1; *p; ++p)
    if (*p == '/' || (unsigned char)*p < ' ' || *p == '\\' || *p == ':') *p = '_';
  return path;
}

/* Checks all files before the model runs. */
static bool check_outputs(run_session *s) {
  if (!s->o->folder) return true;
  if (mkdir(s->o->folder, 0777) && errno != EEXIST) {
    fprintf(stderr, "cannon model run: cannot make the folder %s: %s\n", format_text(s->o->folder), strerror(errno));
    return false;
  }
  for (size_t i = 0; i < s->n_outputs; ++i) {
    s->files[i] = (output){.command = "cannon model run", .kind = OUTPUT_ARRAY, .force = s->o->force};
    s->files[i].path = output_path(s, i);
    if (!s->files[i].path || !output_check(&s->files[i])) return false;
    for (size_t k = 0; k < i; ++k)
      if (!strcmp(s->files[k].path, s->files[i].path)) return run_fail(s, "two outputs have the same name");
  }
  return true;
}

static bool write_outputs(run_session *s) {
  for (size_t i = 0; s->o->folder && i < s->n_outputs; ++i) {
    FILE *f = output_begin(&s->files[i]);
    if (!f || !output_end(&s->files[i], f, npy_write(f, &s->outputs[i]))) return false;
  }
  return true;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static bool load_model(run_session *s) {
  const uint64_t start = session_clock();
  if (s->o->goal) (void)setenv("CANNON_OPTIMIZE", s->o->goal, true);
  if (s->o->tune) (void)setenv("CANNON_TUNE", "1", true); /* before the library reads it, when the model is loaded */
  if (!done(s, aclInit(NULL)) || !done(s, aclrtSetDevice(0))) return false;
  if (!done(s, aclmdlLoadFromFile(s->o->path, &s->id))) return false;
  s->load_ns = session_clock() - start;
  s->desc = aclmdlCreateDesc();
  if (!s->desc || !done(s, aclmdlGetDesc(s->desc, s->id))) return false;
  s->n_inputs = aclmdlGetNumInputs(s->desc);
  s->n_outputs = aclmdlGetNumOutputs(s->desc);
  s->gear_input = SLOTS;
  if (s->n_inputs > SLOTS || s->n_outputs > SLOTS) return run_fail(s, "it has more than 64 inputs or outputs");
  for (size_t i = 0; i < s->n_inputs; ++i)
    if (!strcmp(input_name(s, i), ACL_DYNAMIC_TENSOR_NAME)) s->gear_input = i;
  return true;
}

/* Chooses the gear that fits the shapes of the arrays. */
static bool session_choose_gear(run_session *s) {
  aclmdlBatch batches;
  aclmdlHW sizes;
  aclmdlIODims dims, all = {.dimCount = 0};
  int64_t open[SLOTS * NPY_MOST_DIMS];
  size_t n_open = 0;
  if (s->gear_input == SLOTS) return true;
  for (size_t i = 0; i < s->n_inputs; ++i) {
    if (i == s->gear_input) continue;
    if (!done(s, aclmdlGetInputDims(s->desc, i, &dims))) return false;
    for (int d = 0; d < s->inputs[i].rank; ++d) {
      if ((size_t)d < dims.dimCount && dims.dims[d] < 0) open[n_open++] = s->inputs[i].dims[d];
      if (all.dimCount < ACL_MAX_DIM_CNT) all.dims[all.dimCount++] = s->inputs[i].dims[d];
    }
  }
  if (!done(s, aclmdlGetDynamicBatch(s->desc, &batches))) return false;
  if (batches.batchCount && n_open)
    return done(s, aclmdlSetDynamicBatchSize(s->id, s->in, s->gear_input, (uint64_t)open[0]));
  if (!done(s, aclmdlGetDynamicHW(s->desc, SIZE_MAX, &sizes))) return false;
  if (sizes.hwCount && n_open > 1)
    return done(s, aclmdlSetDynamicHWSize(s->id, s->in, s->gear_input, (uint64_t)open[0], (uint64_t)open[1]));
  return done(s, aclmdlSetInputDynamicDims(s->id, s->in, s->gear_input, &all));
}

static bool add_buffer(const run_session *s, aclmdlDataset *d, void *data, size_t bytes) {
  aclDataBuffer *b = aclCreateDataBuffer(data, bytes);
  return b && done(s, aclmdlAddDatasetBuffer(d, b));
}

/* Copies an array to the device, and says its shape. */
static bool add_input(run_session *s, size_t i) {
  const npy_array *a = &s->inputs[i];
  const size_t bytes = i == s->gear_input ? aclmdlGetInputSizeByIndex(s->desc, i) : a->bytes;
  void *device;
  if (!done(s, aclrtMalloc(&device, bytes ? bytes : 1, ACL_MEM_MALLOC_HUGE_FIRST))) return false;
  if (a->bytes && !done(s, aclrtMemcpy(device, bytes, a->data, a->bytes, ACL_MEMCPY_HOST_TO_DEVICE))) return false;
  if (!add_buffer(s, s->in, device, bytes ? bytes : 1)) return false;
  if (i == s->gear_input || s->gear_input != SLOTS) return true;
  aclTensorDesc *shape = aclCreateTensorDesc(a->dtype, a->rank, a->dims, ACL_FORMAT_ND);
  const bool good = shape && done(s, aclmdlSetDatasetTensorDesc(s->in, shape, i));
  aclDestroyTensorDesc(shape);
  return good;
}

static int compare_times(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* The first run, in which the library allocates the outputs, and the others, which are measured. */
static bool execute(run_session *s) {
  uint64_t *times = calloc(s->o->repeat, sizeof *times), start = session_clock();
  bool good = times && done(s, aclmdlExecute(s->id, s->in, s->out));
  s->first_ns = session_clock() - start;
  for (uint64_t i = 0; good && i < s->o->repeat; ++i) {
    start = session_clock();
    good = done(s, aclmdlExecute(s->id, s->in, s->out));
    times[i] = session_clock() - start;
  }
  if (good) {
    qsort(times, s->o->repeat, sizeof *times, compare_times);
    s->median_ns = times[s->o->repeat / 2];
    s->least_ns = times[0];
  }
  free(times);
  return good;
}

static bool fetch_output(run_session *s, size_t i) {
  npy_array *a = &s->outputs[i];
  const aclTensorDesc *shape = aclmdlGetDatasetTensorDesc(s->out, i);
  const aclDataBuffer *b = aclmdlGetDatasetBuffer(s->out, i);
  if (!shape || !b) return run_fail(s, "an output has no shape");
  a->dtype = aclGetTensorDescType(shape);
  a->rank = (int)aclGetTensorDescNumDims(shape);
  a->bytes = aclGetTensorDescSize(shape);
  for (int d = 0; d < a->rank && d < NPY_MOST_DIMS; ++d)
    if (!done(s, aclGetTensorDescDimV2(shape, (size_t)d, &a->dims[d]))) return false;
  if (!(a->data = malloc(a->bytes + 1))) return run_fail(s, "the host has no memory for an output");
  return !a->bytes ||
         done(s, aclrtMemcpy(a->data, a->bytes, aclGetDataBufferAddr(b), a->bytes, ACL_MEMCPY_DEVICE_TO_HOST));
}

static bool run_session_go(run_session *s) {
  if (!load_model(s) || !read_inputs(s) || !fill_inputs(s) || !check_outputs(s)) return false;
  s->in = aclmdlCreateDataset();
  s->out = aclmdlCreateDataset();
  if (!s->in || !s->out) return run_fail(s, "the host has no memory");
  for (size_t i = 0; i < s->n_inputs; ++i)
    if (!add_input(s, i)) return false;
  for (size_t i = 0; i < s->n_outputs; ++i)
    if (!add_buffer(s, s->out, NULL, 0)) return false;
  if (!session_choose_gear(s) || !execute(s)) return false;
  for (size_t i = 0; i < s->n_outputs; ++i)
    if (!fetch_output(s, i)) return false;
  return write_outputs(s);
}

static void free_dataset(aclmdlDataset *d) {
  for (size_t i = 0; d && i < aclmdlGetDatasetNumBuffers(d); ++i) {
    aclDataBuffer *b = aclmdlGetDatasetBuffer(d, i);
    if (aclGetDataBufferAddr(b)) (void)aclrtFree(aclGetDataBufferAddr(b));
    (void)aclDestroyDataBuffer(b);
  }
  if (d) (void)aclmdlDestroyDataset(d);
}

static void run_session_end(run_session *s) {
  free_dataset(s->in);
  free_dataset(s->out);
  if (s->desc) (void)aclmdlDestroyDesc(s->desc);
  if (s->id) (void)aclmdlUnload(s->id);
  for (int i = 0; i < SLOTS; ++i) {
    npy_free(&s->inputs[i]);
    npy_free(&s->outputs[i]);
    free((void *)(uintptr_t)s->files[i].path);
  }
  (void)aclFinalize();
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static cJSON *array_json(const char *name, const npy_array *a, const char *path) {
  double least, most, mean;
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "name", format_text(name));
  const char *dtype = npy_dtype_name(a->dtype);
  cJSON_AddStringToObject(o, "dtype", dtype ? dtype : "");
  cJSON *shape = cJSON_AddArrayToObject(o, "shape");
  for (int d = 0; d < a->rank; ++d) cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)a->dims[d]));
  if (path) cJSON_AddStringToObject(o, "file", format_text(path));
  if (!npy_survey(a, &least, &most, &mean)) return o;
  cJSON_AddNumberToObject(o, "least", least);
  cJSON_AddNumberToObject(o, "most", most);
  cJSON_AddNumberToObject(o, "mean", mean);
  return o;
}

static cJSON *results_json(const run_session *s) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, OUTPUT_JSON_AUTHOR, "cannon model run");
  cJSON_AddStringToObject(o, "model", format_text(s->o->path));
  cJSON_AddNumberToObject(o, "runs", (double)s->o->repeat);
  const uint64_t times[] = {s->load_ns, s->first_ns, s->median_ns, s->least_ns};
  static const char *const names[] = {"load_ns", "first_ns", "median_ns", "least_ns"};
  for (int i = 0; i < 4; ++i) cJSON_AddNumberToObject(o, names[i], (double)times[i]);
  cJSON *inputs = cJSON_AddArrayToObject(o, "inputs"), *outputs = cJSON_AddArrayToObject(o, "outputs");
  for (size_t i = 0; i < s->n_inputs; ++i)
    if (i != s->gear_input) cJSON_AddItemToArray(inputs, array_json(input_name(s, i), &s->inputs[i], NULL));
  for (size_t i = 0; i < s->n_outputs; ++i) {
    const char *name = aclmdlGetOutputNameByIndex(s->desc, i);
    cJSON_AddItemToArray(outputs, array_json(name ? name : "", &s->outputs[i], s->files[i].path));
  }
  return o;
}

static void print_arrays(const char *title, const cJSON *arrays) {
  const cJSON *a;
  printf("%s\n", title);
  cJSON_ArrayForEach(a, arrays) {
    const cJSON *least = cJSON_GetObjectItem(a, "least"), *file = cJSON_GetObjectItem(a, "file");
    printf("  %-32s %-28s", cJSON_GetStringValue(cJSON_GetObjectItem(a, "name")), model_value_text(a));
    if (least)
      printf(" %.6g to %.6g, mean %.6g", least->valuedouble, cJSON_GetObjectItem(a, "most")->valuedouble,
             cJSON_GetObjectItem(a, "mean")->valuedouble);
    if (file) printf("  %s", cJSON_GetStringValue(file));
    printf("\n");
  }
}

/* Prints the results, and writes them if that was asked for. */
static bool tell_results(run_session *s) {
  cJSON *o = results_json(s);
  print_arrays("inputs", cJSON_GetObjectItem(o, "inputs"));
  print_arrays("outputs", cJSON_GetObjectItem(o, "outputs"));
  printf("load %s, first run %s, then %ju: median %s, least %s\n", format_ns(s->load_ns), format_ns(s->first_ns),
         (uintmax_t)s->o->repeat, format_ns(s->median_ns), format_ns(s->least_ns));
  bool good = true;
  if (s->o->json.path) {
    char *text = cJSON_Print(o);
    FILE *f = output_begin(&s->o->json);
    good = f && output_end(&s->o->json, f, text && fprintf(f, "%s\n", text) > 0);
    cJSON_free(text);
  }
  cJSON_Delete(o);
  return good;
}

int model_run(model_options *o) {
  run_session *s = calloc(1, sizeof *s);
  if (!s) abort();
  s->o = o;
  const bool good = run_session_go(s) && tell_results(s);
  run_session_end(s);
  free(s);
  return good ? 0 : 1;
}
