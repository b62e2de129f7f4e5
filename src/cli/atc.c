/* SPDX-License-Identifier: Apache-2.0 */
/* atc: makes .om files of ONNX models, with the command line, messages and exit codes of CANN's tool. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "acl/acl.h"
#include "cannon/model.h"
#include "cli/output.h"

enum { MOST_SHAPES = 64, MOST_DIMS = 8, MOST_NUMBERS = 3200, EXIT_ARGUMENTS = 255 };

/* Options with an effect; their values. */
typedef struct {
  const char *mode, *model, *framework, *output, *soc_version, *input_shape, *log, *display;
  const char *batch, *image, *dims; /* gears */
  const char *aipp;                 /* the name of a file */
} atc_options;

typedef struct {
  const char *name;
  size_t offset; /* in atc_options; IGNORED: checked for its presence only */
} atc_option;

#define IGNORED SIZE_MAX
#define OPTION(name)                                                                                                   \
  { #name, offsetof(atc_options, name) }
#define WITHOUT_EFFECT(name)                                                                                           \
  { #name, IGNORED }

/* Those without effect tune an NPU, or permit what is not made use of: 16-bit numbers, other orders, caches. */
static const atc_option known_options[] = {
    OPTION(mode),
    OPTION(model),
    OPTION(framework),
    OPTION(output),
    OPTION(soc_version),
    OPTION(input_shape),
    OPTION(log),
    {"display_model_info", offsetof(atc_options, display)},
    {"dynamic_batch_size", offsetof(atc_options, batch)},
    {"dynamic_image_size", offsetof(atc_options, image)},
    {"dynamic_dims", offsetof(atc_options, dims)},
    {"insert_op_conf", offsetof(atc_options, aipp)},
    WITHOUT_EFFECT(input_format),
    WITHOUT_EFFECT(precision_mode),
    WITHOUT_EFFECT(precision_mode_v2),
    WITHOUT_EFFECT(op_select_implmode),
    WITHOUT_EFFECT(optypelist_for_implmode),
    WITHOUT_EFFECT(fusion_switch_file),
    WITHOUT_EFFECT(optimization_switch),
    WITHOUT_EFFECT(oo_level),
    WITHOUT_EFFECT(oo_constant_folding),
    WITHOUT_EFFECT(oo_dead_code_elimination),
    WITHOUT_EFFECT(deterministic),
    WITHOUT_EFFECT(debug_dir),
    WITHOUT_EFFECT(op_debug_level),
    WITHOUT_EFFECT(enable_small_channel),
    WITHOUT_EFFECT(buffer_optimize),
    WITHOUT_EFFECT(enable_single_stream),
    WITHOUT_EFFECT(ac_parallel_enable),
    WITHOUT_EFFECT(core_type),
    WITHOUT_EFFECT(aicore_num),
    WITHOUT_EFFECT(op_compiler_cache_mode),
    WITHOUT_EFFECT(op_compiler_cache_dir),
    WITHOUT_EFFECT(mdl_bank_path),
    WITHOUT_EFFECT(op_bank_path),
    WITHOUT_EFFECT(virtual_type),
    WITHOUT_EFFECT(host_env_os),
    WITHOUT_EFFECT(host_env_cpu),
    WITHOUT_EFFECT(allow_hf32),
    WITHOUT_EFFECT(jit_compile),
    WITHOUT_EFFECT(topo_sorting_mode),
    WITHOUT_EFFECT(status_check),
    WITHOUT_EFFECT(export_compile_stat),
};

static const char failed[] = "ATC run failed, Please check the detail log, Try 'atc --help' for more information";

/* Prints the last line of a failure and its message. Returns the exit code. */
__attribute__((format(printf, 2, 3))) static int atc_refuse(int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("%s\n", failed);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  return code;
}

static void print_help(void) {
  printf("Usage: atc --model=FILE.onnx --framework=5 --output=NAME --soc_version=NAME [OPTION]...\n"
         "\n"
         "Makes NAME.om, which aclmdlLoadFromFile loads, of an ONNX model.\n"
         "\n"
         "Options:\n"
         "  --model=FILE            The ONNX model, of operator sets 7 to 24.\n"
         "  --framework=5           The kind of the model: 5 is ONNX; others are refused.\n"
         "  --output=NAME           The file to write, without .om.\n"
         "  --soc_version=NAME      The device, such as Ascend910B3. Files run on all of them.\n"
         "  --input_shape=SHAPES    Shapes of inputs, such as \"x:1,3,224,224;y:1,77\". Dimensions of -1, and open\n"
         "                          inputs that are left out, may have another size at each execution.\n"
         "  --dynamic_batch_size=\"1,2,4,8\"\n"
         "                          Gears: sizes of the open first dimension (-1 in --input_shape), of which each\n"
         "                          execution chooses one.\n"
         "  --dynamic_image_size=\"224,224;448,448\"\n"
         "                          Gears of height and width.\n"
         "  --dynamic_dims=\"1,64;8,128\"\n"
         "                          Gears with a number for each open dimension.\n"
         "  --insert_op_conf=FILE   Inputs take pictures of 8-bit values, prepared as FILE says (AIPP).\n"
         "  --mode=0                Make a model; other modes are not supported.\n"
         "  --log=LEVEL             null, debug, info, warning or error; without effect.\n"
         "  --display_model_info=1  Print what the model needs.\n"
         "  --help                  Print this text.\n"
         "\n"
         "Exit status:\n"
         "  0    The file was written.\n"
         "  255  The arguments are wrong.\n"
         "  else The model cannot be read or run; the message says which node.\n"
         "\n"
         "Options are written --name=value or --name value. Those of CANN's atc that tune an NPU are accepted without\n"
         "effect. Numbers are computed in float32 where the model has float32.\n");
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static const atc_option *find_option(const char *name, size_t n) {
  for (size_t i = 0; i < sizeof known_options / sizeof *known_options; ++i)
    if (strlen(known_options[i].name) == n && !strncmp(known_options[i].name, name, n)) return &known_options[i];
  return NULL;
}

/* Returns 0, or the exit code. *help: whether help was asked for. */
static int read_arguments(int argc, char **argv, atc_options *o, bool *help) {
  for (int i = 1; i < argc; ++i) {
    const char *name = argv[i] + strspn(argv[i], "-");
    if (name == argv[i] || name > argv[i] + 2) return atc_refuse(EXIT_ARGUMENTS, "E10001: %s is no option", argv[i]);
    if (!strcmp(name, "help") || !strcmp(name, "h")) {
      *help = true;
      return 0;
    }
    const char *equals = strchr(name, '=');
    const atc_option *option = find_option(name, equals ? (size_t)(equals - name) : strlen(name));
    if (!option) return atc_refuse(EXIT_ARGUMENTS, "E10001: option %s is not supported", argv[i]);
    const bool follows = !equals && i + 1 < argc && argv[i + 1][0] != '-';
    const char *value = equals ? equals + 1 : follows ? argv[++i] : "true";
    if (option->offset != IGNORED) *(const char **)(void *)((char *)o + option->offset) = value;
  }
  return 0;
}

static int check_options(const atc_options *o) {
  static const char *const levels[] = {"null", "debug", "info", "warning", "error"};
  bool known = !o->log;
  for (int i = 0; i < 5 && !known; ++i) known = !strcmp(o->log, levels[i]);
  if (!known)
    return atc_refuse(EXIT_ARGUMENTS,
                      "E10010: invalid value for --log:%s, only support debug, info, warning, error, null", o->log);
  if (o->mode && strcmp(o->mode, "0") != 0)
    return atc_refuse(EXIT_ARGUMENTS, "E10001: --mode is %s, expected 0 (make a model)", o->mode);
  if (!o->model) return atc_refuse(EXIT_ARGUMENTS, "E10004: --model is missing, expected the name of an ONNX file");
  if (!o->output || !*o->output)
    return atc_refuse(EXIT_ARGUMENTS, "E10004: --output is missing, expected the name of the file to write");
  if (!o->framework) return atc_refuse(EXIT_ARGUMENTS, "E10007: --framework is missing, expected 5 (ONNX)");
  if (strcmp(o->framework, "5") != 0)
    return atc_refuse(EXIT_ARGUMENTS,
                      "E10007: --framework is %s, expected 5 (ONNX); Caffe, AIR and TensorFlow are not supported",
                      o->framework);
  if (!o->soc_version || strncasecmp(o->soc_version, "Ascend", 6) != 0)
    return atc_refuse(EXIT_ARGUMENTS, "E10001: --soc_version is %s, expected the name of a device, such as Ascend910B3",
                      o->soc_version ? o->soc_version : "missing");
  if ((o->batch != NULL) + (o->image != NULL) + (o->dims != NULL) > 1)
    return atc_refuse(EXIT_ARGUMENTS, "E10009: only one of --dynamic_batch_size, --dynamic_image_size and "
                                      "--dynamic_dims can be given");
  if (o->dims && o->aipp)
    return atc_refuse(EXIT_ARGUMENTS, "E10009: --dynamic_dims and --insert_op_conf cannot be given both");
  return 0;
}

/* Reads "name:1,3,224,224;name:..."; names may contain colons. The names are parts of text. */
static int atc_shapes(char *text, cannon_model_shape *shapes, size_t *n) {
  char *state = NULL;
  *n = 0;
  for (char *one = strtok_r(text, ";", &state); one; one = strtok_r(NULL, ";", &state)) {
    char *colon = strrchr(one, ':'), *end;
    if (!colon || colon == one || *n == MOST_SHAPES)
      return atc_refuse(EXIT_ARGUMENTS, "E10002: --input_shape has %s, expected \"name:1,3,224,224;name:...\"", one);
    *colon = 0;
    cannon_model_shape *s = &shapes[(*n)++];
    *s = (cannon_model_shape){.name = one};
    for (char *p = colon + 1; *p; p = end + (*end == ',')) {
      errno = 0;
      const long long value = strtoll(p, &end, 10);
      if (end == p || errno || value < -1 || (*end && *end != ',') || s->n_dims == MOST_DIMS)
        return atc_refuse(
            EXIT_ARGUMENTS,
            "E10002: --input_shape of %s has %s, expected up to %d numbers of -1 or more with commas between", one, p,
            MOST_DIMS);
      s->dims[s->n_dims++] = value;
    }
  }
  return 0;
}

/* Reads gears: sizes with commas between, or lists of them with semicolons between. */
static int atc_gears(const atc_options *o, int64_t *numbers, cannon_model_options *to) {
  const char *text = o->batch ? o->batch : o->image ? o->image : o->dims;
  if (!text) return 0;
  to->gears = o->batch ? CANNON_MODEL_BATCH : o->image ? CANNON_MODEL_IMAGE : CANNON_MODEL_DIMS;
  size_t n = 0, in_gear = 0;
  char *end;
  for (const char *p = text; *p; p = end + (*end != 0)) {
    errno = 0;
    const long long value = strtoll(p, &end, 10);
    const bool ends = !*end || *end == ';' || (o->batch && *end == ',');
    if (end == p || errno || value < 1 || (!ends && *end != ',') || n == MOST_NUMBERS)
      return atc_refuse(EXIT_ARGUMENTS, "E10001: gears are %s, expected sizes of 1 or more", text);
    numbers[n++] = value;
    ++in_gear;
    if (!ends) continue;
    if (to->n_numbers && to->n_numbers != in_gear)
      return atc_refuse(EXIT_ARGUMENTS, "E10001: gears are %s, expected equally many numbers in each", text);
    to->n_numbers = in_gear;
    ++to->n_gears;
    in_gear = 0;
  }
  to->numbers = numbers;
  return 0;
}

/* Reads a file of text, which the caller frees; NULL without a name. */
static int atc_text(const char *path, char **text) {
  size_t room = 0;
  *text = NULL;
  if (!path) return 0;
  FILE *f = fopen(path, "re");
  const bool read = f && getdelim(text, &room, 0, f) >= 0;
  if (f) fclose(f);
  return read ? 0 : atc_refuse(EXIT_ARGUMENTS, "E10001: --insert_op_conf: %s cannot be read, or is empty", path);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static void print_figures(int argc, char **argv, const atc_options *o, const cannon_model_figures *f, size_t bytes) {
  printf("============ Display Model Info start ============\nOriginal Atc command line:");
  for (int i = 0; i < argc; ++i) printf(" %s", argv[i]);
  printf("\nsystem   info: atc_version[%s], soc_version[%s], framework_type[%s].\n", CANN_VERSION, o->soc_version,
         o->framework);
  printf("resource info: memory_size[%zu B], weight_size[%zu B], stream_num[1], event_num[0].\n", f->work_bytes,
         f->weight_bytes);
  printf("om       info: modeldef_size[0 B], weight_data_size[0 B], tbe_kernels_size[0 B], "
         "cust_aicpu_kernel_store_size[0 B], task_info_size[%zu B], so_store_size[0 B].\n",
         bytes);
  printf("============ Display Model Info end   ============\n");
}

static bool write_file(const char *path, const void *om, size_t bytes) {
  output o = {.command = "atc", .path = path, .kind = OUTPUT_MODEL};
  FILE *f = output_check(&o) ? output_begin(&o) : NULL;
  if (!f) return false;
  const bool written = fwrite(om, 1, bytes, f) == bytes;
  return output_end(&o, f, written);
}

static int make_model(int argc, char **argv, const atc_options *o) {
  static int64_t numbers[MOST_NUMBERS];
  cannon_model_shape shapes[MOST_SHAPES];
  cannon_model_figures figures;
  size_t bytes;
  void *om;
  char *text = strdup(o->input_shape ? o->input_shape : ""), *path, *aipp = NULL;
  const char *slash = strrchr(o->output, '/');
  cannon_model_options options = {.name = slash ? slash + 1 : o->output, .shapes = shapes};
  if (!text) return atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
  int code = atc_shapes(text, shapes, &options.n_shapes);
  if (!code) code = atc_gears(o, numbers, &options);
  if (!code) code = atc_text(o->aipp, &aipp);
  if (!code) {
    options.aipp = aipp;
    const aclError error = cannon_model_build(o->model, &options, &om, &bytes, &figures);
    const char *words = error ? aclGetRecentErrMsg() : NULL;
    if (error) code = atc_refuse(error & 0xff ? error & 0xff : 1, "%s", words ? words : "E19999: no message");
  }
  free(text);
  free(aipp);
  if (code) return code;
  if (asprintf(&path, "%s.om", o->output) < 0 || !write_file(path, om, bytes)) {
    free(om);
    return atc_refuse(1, "E10003: %s.om cannot be written", o->output);
  }
  if (o->display && !strcmp(o->display, "1")) print_figures(argc, argv, o, &figures, bytes);
  free(path);
  free(om);
  return 0;
}

int main(int argc, char **argv) {
  atc_options o = {0};
  bool help = argc == 1;
  int code = read_arguments(argc, argv, &o, &help);
  if (help) {
    print_help();
    return 0;
  }
  printf("ATC start working now, please wait for a moment.\n");
  if (!code) code = check_options(&o);
  if (!code) code = make_model(argc, argv, &o);
  if (!code) printf("ATC run success, welcome to the next use.\n");
  return code;
}
