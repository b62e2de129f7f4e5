/* SPDX-License-Identifier: Apache-2.0 */
/* atc --singleop: an .om file for each operator that a JSON file describes. Members: "op", "name", "input_desc",
 * "output_desc" (each with "format", "shape", "type") and "attr" ("name", "type", "value"). */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "acl/acl.h"
#include "acl/acl_op.h"
#include "cli/atc/atc.h"

enum { MOST_TENSORS = 64, MOST_TENSOR_DIMS = 8, MOST_JSON_BYTES = 1 << 22, MOST_ELEMENTS = 64 };

typedef struct {
  const char *name;
  int value;
} named_value;

static const named_value formats[] = {
    {"UNDEFINED", ACL_FORMAT_UNDEFINED}, {"RESERVED", ACL_FORMAT_UNDEFINED},  {"ND", ACL_FORMAT_ND},
    {"NCHW", ACL_FORMAT_NCHW},           {"NHWC", ACL_FORMAT_NHWC},           {"HWCN", ACL_FORMAT_HWCN},
    {"NC1HWC0", ACL_FORMAT_NC1HWC0},     {"FRACTAL_Z", ACL_FORMAT_FRACTAL_Z}, {"FRACTAL_NZ", ACL_FORMAT_FRACTAL_NZ},
    {"NDHWC", ACL_FORMAT_NDHWC},         {"NCDHW", ACL_FORMAT_NCDHW},         {NULL, 0}};

static const named_value types[] = {{"UNDEFINED", ACL_DT_UNDEFINED},
                                    {"float", ACL_FLOAT},
                                    {"float32", ACL_FLOAT},
                                    {"float16", ACL_FLOAT16},
                                    {"bfloat16", ACL_BF16},
                                    {"bf16", ACL_BF16},
                                    {"double", ACL_DOUBLE},
                                    {"float64", ACL_DOUBLE},
                                    {"int8", ACL_INT8},
                                    {"uint8", ACL_UINT8},
                                    {"int16", ACL_INT16},
                                    {"uint16", ACL_UINT16},
                                    {"int32", ACL_INT32},
                                    {"uint32", ACL_UINT32},
                                    {"int64", ACL_INT64},
                                    {"uint64", ACL_UINT64},
                                    {"bool", ACL_BOOL},
                                    {"complex64", ACL_COMPLEX64},
                                    {"complex128", ACL_COMPLEX128},
                                    {NULL, 0}};

/* An operator of the file. */
typedef struct {
  const char *path; /* of the file, for messages */
  int number;
  const char *type;
  const cJSON *json;
  int n_inputs, n_outputs;
  aclTensorDesc *inputs[MOST_TENSORS], *outputs[MOST_TENSORS];
  aclopAttr *attributes;
} described_operator;

static bool find_value(const named_value *list, const char *name, int *value) {
  for (; name && list->name; ++list)
    if (!strcasecmp(list->name, name)) return *value = list->value, true;
  return false;
}

static const char *member_text(const cJSON *object, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItem(object, name));
}

__attribute__((format(printf, 2, 3))) static int refuse_operator(const described_operator *d, const char *format, ...) {
  char words[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(words, sizeof words, format, arguments);
  va_end(arguments);
  return atc_refuse(EXIT_ARGUMENTS, "E10001: --singleop is %s, whose operator %d (%s) has %s", d->path, d->number,
                    d->type ? d->type : "without \"op\"", words);
}

/* Reads "input_desc" or "output_desc". */
static int read_descs(described_operator *d, const char *name, aclTensorDesc **out, int *n) {
  const cJSON *list = cJSON_GetObjectItem(d->json, name), *one, *dim;
  if (!cJSON_IsArray(list)) return refuse_operator(d, "no list %s", name);
  cJSON_ArrayForEach(one, list) {
    int64_t dims[MOST_TENSOR_DIMS];
    int rank = 0, dtype, format;
    if (*n == MOST_TENSORS) return refuse_operator(d, "more than %d tensors in %s", MOST_TENSORS, name);
    if (!find_value(types, member_text(one, "type"), &dtype))
      return refuse_operator(d, "the type %.40s in %s, expected such as float16",
                             member_text(one, "type") ? member_text(one, "type") : "(none)", name);
    if (!find_value(formats, member_text(one, "format"), &format))
      return refuse_operator(d, "the format %.40s in %s, expected such as ND or NCHW",
                             member_text(one, "format") ? member_text(one, "format") : "(none)", name);
    cJSON_ArrayForEach(dim, cJSON_GetObjectItem(one, "shape")) {
      if (rank == MOST_TENSOR_DIMS || !cJSON_IsNumber(dim) || dim->valuedouble < -2 || dim->valuedouble > 1e12)
        return refuse_operator(d, "a shape in %s that is not of up to %d numbers", name, MOST_TENSOR_DIMS);
      dims[rank++] = (int64_t)dim->valuedouble;
    }
    out[*n] = aclCreateTensorDesc((aclDataType)dtype, rank, dims, (aclFormat)format);
    if (!out[*n]) return atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
    ++*n;
  }
  return 0;
}

/* Numbers of a list attribute; false if they are too many, or none. */
static bool read_number_list(const cJSON *list, double *numbers, int *n) {
  const cJSON *one;
  *n = 0;
  if (!cJSON_IsArray(list)) return false;
  cJSON_ArrayForEach(one, list) {
    if (*n == MOST_ELEMENTS || !(cJSON_IsNumber(one) || cJSON_IsBool(one))) return false;
    numbers[(*n)++] = cJSON_IsBool(one) ? cJSON_IsTrue(one) : one->valuedouble;
  }
  return true;
}

static bool set_number_list(aclopAttr *a, const char *name, const char *type, const cJSON *value) {
  double numbers[MOST_ELEMENTS];
  int64_t integers[MOST_ELEMENTS];
  float floats[MOST_ELEMENTS];
  uint8_t bools[MOST_ELEMENTS];
  int n;
  if (!read_number_list(value, numbers, &n)) return false;
  for (int i = 0; i < n; ++i) {
    integers[i] = (int64_t)numbers[i];
    floats[i] = (float)numbers[i];
    bools[i] = numbers[i] != 0;
  }
  if (!strcmp(type, "list_int")) return !aclopSetAttrListInt(a, name, n, integers);
  if (!strcmp(type, "list_float")) return !aclopSetAttrListFloat(a, name, n, floats);
  return !strcmp(type, "list_bool") && !aclopSetAttrListBool(a, name, n, bools);
}

static bool set_text_list(aclopAttr *a, const char *name, const cJSON *value) {
  const char *texts[MOST_ELEMENTS];
  const cJSON *one;
  int n = 0;
  if (!cJSON_IsArray(value)) return false;
  cJSON_ArrayForEach(one, value) {
    if (n == MOST_ELEMENTS || !cJSON_IsString(one)) return false;
    texts[n++] = one->valuestring;
  }
  return !aclopSetAttrListString(a, name, n, texts);
}

static bool set_operator_attribute(aclopAttr *a, const char *name, const char *type, const cJSON *value) {
  int dtype;
  if (!strcmp(type, "bool")) return cJSON_IsBool(value) && !aclopSetAttrBool(a, name, (uint8_t)cJSON_IsTrue(value));
  if (!strcmp(type, "int")) return cJSON_IsNumber(value) && !aclopSetAttrInt(a, name, (int64_t)value->valuedouble);
  if (!strcmp(type, "float")) return cJSON_IsNumber(value) && !aclopSetAttrFloat(a, name, (float)value->valuedouble);
  if (!strcmp(type, "string")) return cJSON_IsString(value) && !aclopSetAttrString(a, name, value->valuestring);
  if (!strcmp(type, "data_type"))
    return find_value(types, cJSON_GetStringValue(value), &dtype) && !aclopSetAttrDataType(a, name, (aclDataType)dtype);
  if (!strcmp(type, "list_string")) return set_text_list(a, name, value);
  return set_number_list(a, name, type, value);
}

static int read_attributes(described_operator *d) {
  const cJSON *one;
  d->attributes = aclopCreateAttr();
  if (!d->attributes) return atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
  cJSON_ArrayForEach(one, cJSON_GetObjectItem(d->json, "attr")) {
    const char *name = member_text(one, "name"), *type = member_text(one, "type");
    if (!name || !type || !set_operator_attribute(d->attributes, name, type, cJSON_GetObjectItem(one, "value")))
      return refuse_operator(d,
                             "the attribute %.80s, whose type or value is malformed, expected such as "
                             "{\"name\":\"alpha\",\"type\":\"float\",\"value\":1.0}",
                             name ? name : "without a name");
  }
  return 0;
}

/* "0_Add_3_2_3_3_3_2_3_3_3_2_3_3": number, operator, and of each tensor type, format and dims. */
static void put_tensor_names(FILE *f, aclTensorDesc *const *descs, int n) {
  for (int i = 0; i < n; ++i) {
    fprintf(f, "_%d_%d", (int)aclGetTensorDescType(descs[i]), (int)aclGetTensorDescFormat(descs[i]));
    for (size_t k = 0; k < aclGetTensorDescNumDims(descs[i]); ++k) {
      int64_t dim = 0;
      (void)aclGetTensorDescDimV2(descs[i], k, &dim);
      fprintf(f, "_%jd", (intmax_t)dim);
    }
  }
}

/* The file's name, to be freed; NULL without memory. */
static char *operator_path(const described_operator *d, const char *folder) {
  char *text = NULL;
  size_t bytes;
  const char *name = member_text(d->json, "name");
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return NULL;
  fprintf(f, "%s/", folder);
  if (name && *name)
    fprintf(f, "%s", name);
  else {
    fprintf(f, "%d_%s", d->number, d->type);
    put_tensor_names(f, d->inputs, d->n_inputs);
    put_tensor_names(f, d->outputs, d->n_outputs);
  }
  fprintf(f, ".om");
  return fclose(f) ? (free(text), NULL) : text;
}

static int write_operator(const described_operator *d, const char *folder) {
  void *om;
  size_t bytes;
  char *text = cJSON_PrintUnformatted(d->json), *path = operator_path(d, folder);
  int code = 0;
  if (!text || !path)
    code = atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
  else if (cannon_operator_build(d->type, d->n_inputs, (const aclTensorDesc *const *)d->inputs, d->n_outputs,
                                 (const aclTensorDesc *const *)d->outputs, d->attributes, text, &om, &bytes))
    code = atc_refuse(EXIT_ARGUMENTS, "E10001: --singleop is %s, whose operator %d cannot be made: %s", d->path,
                      d->number, aclGetRecentErrMsg());
  else {
    if (cannon_model_save(path, om, bytes)) code = atc_refuse(1, "E10003: %s", aclGetRecentErrMsg());
    free(om);
  }
  cJSON_free(text);
  free(path);
  return code;
}

static int make_operator(const char *path, const cJSON *json, int number, const char *folder) {
  described_operator d = {.path = path, .number = number, .type = member_text(json, "op"), .json = json};
  const char *name = member_text(json, "name");
  int code = 0;
  if (!d.type || !*d.type || strchr(d.type, '/')) code = refuse_operator(&d, "no name of an operator in \"op\"");
  if (!code && name && strchr(name, '/')) code = refuse_operator(&d, "the name %.80s, expected one of a file", name);
  if (!code) code = read_descs(&d, "input_desc", d.inputs, &d.n_inputs);
  if (!code) code = read_descs(&d, "output_desc", d.outputs, &d.n_outputs);
  if (!code) code = read_attributes(&d);
  if (!code) code = write_operator(&d, folder);
  for (int i = 0; i < d.n_inputs; ++i) aclDestroyTensorDesc(d.inputs[i]);
  for (int i = 0; i < d.n_outputs; ++i) aclDestroyTensorDesc(d.outputs[i]);
  if (d.attributes) aclopDestroyAttr(d.attributes);
  return code;
}

/* The file's text, to be freed; NULL after a message. */
static char *read_operators(const char *path) {
  char *text = calloc(1, MOST_JSON_BYTES + 1);
  FILE *f = text ? fopen(path, "re") : NULL;
  const size_t n = f ? fread(text, 1, MOST_JSON_BYTES + 1, f) : 0;
  const bool good = f && !ferror(f) && n <= MOST_JSON_BYTES;
  if (!good) (void)atc_refuse(EXIT_ARGUMENTS, "E10001: --singleop is %s, which cannot be read, or is too large", path);
  if (f) fclose(f);
  if (good) return text;
  free(text);
  return NULL;
}

int atc_make_operators(const atc_options *o) {
  char *text = read_operators(o->single_operators);
  if (!text) return EXIT_ARGUMENTS;
  cJSON *json = cJSON_Parse(text), *one;
  int code = 0, number = 0;
  free(text);
  if (!cJSON_IsArray(json) || !cJSON_GetArraySize(json))
    code = atc_refuse(EXIT_ARGUMENTS, "E10001: --singleop is %s, expected a list of operators in JSON",
                      o->single_operators);
  else if (mkdir(o->output, 0777) && errno != EEXIST)
    code = atc_refuse(1, "E10003: --output is %s, which cannot be made: %s", o->output, strerror(errno));
  cJSON_ArrayForEach(one, json) if (!code) code = make_operator(o->single_operators, one, number++, o->output);
  cJSON_Delete(json);
  return code;
}
