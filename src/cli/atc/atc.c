/* SPDX-License-Identifier: Apache-2.0 */
/* atc: makes .om files of ONNX models, with the command line, messages and exit codes of CANN's tool. */
#include "cli/atc/atc.h"
#include "base/text.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "acl/acl.h"

/* values: those that an option may have, with blanks between; NULL: any. */
typedef struct {
  const char *name;
  size_t offset; /* in atc_options; IGNORED: it has no effect */
  const char *values;
  atc_file_kind file; /* what it names, which is checked */
  bool tells;         /* that it has no effect, other than by its default (the first value), is said */
} atc_option;

#define IGNORED SIZE_MAX
#define OPTION(name, values)                                                                                           \
  { #name, offsetof(atc_options, name), values, ATC_NO_FILE, false }
#define NAMED_OPTION(name, member, values)                                                                             \
  { #name, offsetof(atc_options, member), values, ATC_NO_FILE, false }
#define WITHOUT_EFFECT(name, values)                                                                                   \
  { #name, IGNORED, values, ATC_NO_FILE, false }
#define FOR_AN_NPU(name, values)                                                                                       \
  { #name, IGNORED, values, ATC_NO_FILE, true }
#define FILE_FOR_AN_NPU(name, kind)                                                                                    \
  { #name, IGNORED, NULL, kind, true }
#define ZERO_ONE "0 1"

/* Those without effect tune an NPU, or permit what is not made use of: other orders, caches. */
static const atc_option known_options[] = {
    OPTION(mode, NULL),
    OPTION(model, NULL),
    OPTION(om, NULL),
    OPTION(json, NULL),
    OPTION(framework, NULL),
    OPTION(output, NULL),
    OPTION(soc_version, NULL),
    OPTION(input_shape, NULL),
    OPTION(log, NULL),
    OPTION(check_report, NULL),
    OPTION(out_nodes, NULL),
    OPTION(output_type, NULL),
    NAMED_OPTION(display_model_info, display, ZERO_ONE),
    NAMED_OPTION(dynamic_batch_size, batch, NULL),
    NAMED_OPTION(dynamic_image_size, image, NULL),
    NAMED_OPTION(dynamic_dims, dims, NULL),
    NAMED_OPTION(insert_op_conf, aipp, NULL),
    NAMED_OPTION(fusion_switch_file, switch_file, NULL),
    NAMED_OPTION(optimization_switch, switches, NULL),
    NAMED_OPTION(oo_level, level, "O0 O1 O2 O3"),
    NAMED_OPTION(export_compile_stat, statistics, "0 1 2"),
    NAMED_OPTION(
        precision_mode, precision,
        "force_fp16 force_fp32 cube_fp16in_fp32out allow_fp32_to_fp16 must_keep_origin_dtype allow_mix_precision "
        "allow_mix_precision_fp16 allow_mix_precision_bf16"),
    NAMED_OPTION(precision_mode_v2, precision_v2,
                 "fp16 origin cube_fp16in_fp32out mixed_float16 mixed_bfloat16 mixed_hif8 cube_hif8"),
    NAMED_OPTION(optimize, goal, "time memory power"),
    NAMED_OPTION(tune, tune, "true false 0 1"),
    NAMED_OPTION(external_weight, weights, "0 1 2"),
    NAMED_OPTION(input_shape_range, shape_range, NULL),
    NAMED_OPTION(input_fp16_nodes, half_inputs, NULL),
    NAMED_OPTION(is_input_adjust_hw_layout, input_layout, NULL),
    NAMED_OPTION(is_output_adjust_hw_layout, output_layout, NULL),
    NAMED_OPTION(keep_dtype, keep_dtype, NULL),
    NAMED_OPTION(modify_mixlist, mix_list, NULL),
    NAMED_OPTION(customize_dtypes, own_dtypes, NULL),
    NAMED_OPTION(singleop, single_operators, NULL),
    WITHOUT_EFFECT(input_format, "NCHW NHWC NCDHW NDHWC ND"),
    WITHOUT_EFFECT(op_select_implmode,
                   "high_precision high_performance high_precision_for_all high_performance_for_all"),
    WITHOUT_EFFECT(optypelist_for_implmode, NULL),
    WITHOUT_EFFECT(oo_constant_folding, "true false"),
    WITHOUT_EFFECT(oo_dead_code_elimination, "true false"),
    WITHOUT_EFFECT(deterministic, ZERO_ONE),
    WITHOUT_EFFECT(debug_dir, NULL),
    WITHOUT_EFFECT(op_debug_level, "0 1 2 3 4"),
    WITHOUT_EFFECT(enable_small_channel, ZERO_ONE),
    WITHOUT_EFFECT(buffer_optimize, "l1_optimize l2_optimize off_optimize"),
    WITHOUT_EFFECT(enable_single_stream, "true false"),
    WITHOUT_EFFECT(ac_parallel_enable, ZERO_ONE),
    WITHOUT_EFFECT(core_type, NULL),
    WITHOUT_EFFECT(aicore_num, NULL),
    WITHOUT_EFFECT(op_compiler_cache_mode, "enable disable force"),
    WITHOUT_EFFECT(op_compiler_cache_dir, NULL),
    WITHOUT_EFFECT(mdl_bank_path, NULL),
    WITHOUT_EFFECT(op_bank_path, NULL),
    WITHOUT_EFFECT(virtual_type, ZERO_ONE),
    WITHOUT_EFFECT(host_env_os, NULL),
    WITHOUT_EFFECT(host_env_cpu, NULL),
    WITHOUT_EFFECT(allow_hf32, NULL),
    WITHOUT_EFFECT(jit_compile, ZERO_ONE),
    WITHOUT_EFFECT(topo_sorting_mode, "0 1 2 3"),
    WITHOUT_EFFECT(status_check, ZERO_ONE),
    FILE_FOR_AN_NPU(op_precision_mode, ATC_SETTINGS),
    FILE_FOR_AN_NPU(compression_optimize_conf, ATC_SWITCHES_FILE),
    FILE_FOR_AN_NPU(compress_weight_conf, ATC_LINES),
    FILE_FOR_AN_NPU(op_debug_config, ATC_LINES),
    FOR_AN_NPU(sparsity, ZERO_ONE),
    FOR_AN_NPU(enable_compress_weight, "false true"),
    FOR_AN_NPU(disable_reuse_memory, ZERO_ONE),
    FOR_AN_NPU(quant_dumpable, ZERO_ONE),
    FOR_AN_NPU(atomic_clean_policy, ZERO_ONE),
    FOR_AN_NPU(tiling_schedule_optimize, ZERO_ONE),
    FOR_AN_NPU(deterministic_level, "0 1 2"),
    FOR_AN_NPU(is_weight_clip, "1 0"),
    FOR_AN_NPU(save_original_model, "false true"),
    FOR_AN_NPU(enable_scope_fusion_passes, NULL),
    FOR_AN_NPU(exclude_engines, NULL),
    FOR_AN_NPU(shape_generalized_build_mode, "shape_precise shape_generalized"),
    FOR_AN_NPU(auto_tune_mode, NULL),
    FOR_AN_NPU(enable_graph_parallel, ZERO_ONE),
    FILE_FOR_AN_NPU(graph_parallel_option_path, ATC_JSON),
    FILE_FOR_AN_NPU(cluster_config, ATC_JSON),
    FOR_AN_NPU(distributed_cluster_build, ZERO_ONE),
};

static const char failed[] = "ATC run failed, Please check the detail log, Try 'atc --help' for more information";

/* Prints a line, of which a part may be text of a file or an argument. */
static void print_safely(const char *format, va_list arguments) {
  char words[4096];
  vsnprintf(words, sizeof words, format, arguments);
  text_make_safe(words, sizeof words);
  puts(words);
}

int atc_refuse(int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  puts(failed);
  print_safely(format, arguments);
  va_end(arguments);
  return code;
}

void atc_warn(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_safely(format, arguments);
  va_end(arguments);
}

int atc_refuse_error(aclError error) {
  const char *words = aclGetRecentErrMsg(), *end = words ? strchrnul(words, '\n') : NULL;
  const int code = atc_refuse(error & 0xff ? error & 0xff : 1, "%.*s", words ? (int)(end - words) : INT_MAX,
                              words ? words : "E19999: no message");
  for (; end && *end; end = strchrnul(words, '\n')) {
    words = end + 1;
    atc_warn("%.*s", (int)(strchrnul(words, '\n') - words), words);
  }
  return code;
}

static void print_help(void) {
  printf(
      "Usage: atc --model=FILE.onnx --framework=5 --output=NAME --soc_version=NAME [OPTION]...\n"
      "       atc --singleop=FILE.json --output=FOLDER --soc_version=NAME\n"
      "       atc --mode=1 --om=FILE.om --json=FILE\n"
      "       atc --mode=6 --om=FILE.om\n"
      "\n"
      "Makes NAME.om, which aclmdlLoadFromFile loads, of an ONNX model.\n"
      "\n"
      "Other modes look into .om files, those for NPUs, too. Which passes changed the\n"
      "model is written to fusion_result.json in the working directory, unless another\n"
      "file is there.\n"
      "\n"
      "Options:\n"
      "  --model=FILE            The ONNX model, of operator sets 7 to 24.\n"
      "  --framework=5           The kind of the model: 5 is ONNX; others are refused.\n"
      "  --output=NAME           The file to write, without .om.\n"
      "  --soc_version=NAME      The device, such as Ascend910B3. Files run on all of them.\n"
      "  --input_shape=SHAPES    Shapes of inputs, such as \"x:1,3,224,224;y:1,77\". Dimensions of -1, and open\n"
      "                          inputs that are left out, may have another size at each execution; one of 1~8 one\n"
      "                          of these. --input_shape_range=\"x:[1~8,3,224,224]\": the same, its older name.\n"
      "  --input_fp16_nodes=\"x;y\"\n"
      "                          Inputs that are float16, where the model has float32.\n"
      "  --is_input_adjust_hw_layout=\"true,false\"\n"
      "                          Whether these are NC1HWC0, too, with blocks of 16 channels.\n"
      "  --dynamic_batch_size=\"1,2,4,8\"\n"
      "                          Gears: sizes of the open first dimension (-1 in --input_shape), of which each\n"
      "                          execution chooses one.\n"
      "  --dynamic_image_size=\"224,224;448,448\"\n"
      "                          Gears of height and width.\n"
      "  --dynamic_dims=\"1,64;8,128\"\n"
      "                          Gears with a number for each open dimension.\n"
      "  --insert_op_conf=FILE   Inputs take pictures of 8-bit values, prepared as FILE says (AIPP).\n"
      "  --out_nodes=\"NODE:0;NODE:1\"\n"
      "                          Outputs in place of the model's: nodes, each with the number of one of its outputs,\n"
      "                          or names of values.\n"
      "  --is_output_adjust_hw_layout=\"true,false\"\n"
      "                          Whether the outputs of --out_nodes are float16 and NC1HWC0.\n"
      "  --output_type=TYPE      FP32, FP16, UINT8, INT8, INT16, UINT16, INT32, UINT32, INT64, UINT64 or DOUBLE, for\n"
      "                          all outputs, or \"NODE:0:FP16;NAME:INT8\" for some.\n"
      "  --fusion_switch_file=FILE\n"
      "                          Passes that run or do not: lines such as ConvBatchnormFusionPass:off, or JSON as\n"
      "                          CANN's atc takes it. ALL stands for all passes.\n"
      "  --optimization_switch=\"PASS:off;PASS:on\"\n"
      "                          The same; it wins over the file.\n"
      "  --oo_level=O1           O0 and O1: no passes run; O2 and O3: all.\n"
      "  --precision_mode=MODE   force_fp16: compute and store in float16 wherever that is possible.\n"
      "                          allow_fp32_to_fp16, allow_mix_precision_fp16: where it is faster.\n"
      "                          allow_mix_precision_bf16: likewise in bfloat16; allow_mix_precision: in the faster\n"
      "                          of the two. Others, and none: as the model says.\n"
      "                          --precision_mode_v2=fp16, mixed_float16, mixed_bfloat16, origin: the same.\n"
      "  --keep_dtype=FILE       Nodes that stay float32 then: a line for each, NAME or OpType::TYPE.\n"
      "  --customize_dtypes=FILE Likewise, with lines such as OpType::Softmax:InputDtype:float32,OutputDtype:float32.\n"
      "  --modify_mixlist=FILE   Likewise, the operators of black-list's to-add, in mixed modes.\n"
      "  --optimize=GOAL         What the model is made for where there is a choice: time, memory (order of nodes,\n"
      "                          implementations with less workspace, fewer packed weights) or power (implementations\n"
      "                          with fewer operations x bytes moved). An option of Cannon's.\n"
      "  --tune                  Measure implementations of operators on this machine where the rules that choose "
      "them\n"
      "                          may be wrong; the file keeps what was found for this processor and version, and "
      "others\n"
      "                          go by the rules. Needs fixed shapes, or gears. An option of Cannon's.\n"
      "  --external_weight=0     0: constants lie in the .om file. 1: those of 1 KiB or more lie in files of the\n"
      "                          folder `weight` beside it, named by a hash of their contents. 2: likewise, in one\n"
      "                          file, NAME_weight_combined.\n"
      "  --export_compile_stat=0\n"
      "                          Do not write fusion_result.json.\n"
      "  --singleop=FILE         Makes an .om file of each operator that FILE describes in JSON, in the folder of\n"
      "                          --output. aclopExecuteV2 runs these operators, with the files or without.\n"
      "  --mode=MODE             0: make a model. 1: write what an .om file says of its graph as JSON. 3: check only\n"
      "                          whether a model can be made. 6: print what an .om file needs.\n"
      "  --om=FILE               The .om file for modes 1 and 6.\n"
      "  --json=FILE             The file that mode 1 writes.\n"
      "  --check_report=FILE     The file that mode 3 writes (default: check_result.json).\n"
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
      "effect; their files have to be there and of the right form.\n");
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static const atc_option *find_option(const char *name, size_t n) {
  for (size_t i = 0; i < sizeof known_options / sizeof *known_options; ++i)
    if (strlen(known_options[i].name) == n && !strncmp(known_options[i].name, name, n)) return &known_options[i];
  return NULL;
}

/* Whether a word is one of those with blanks between. */
static bool is_word_of(const char *word, const char *words) {
  const size_t n = strlen(word);
  for (const char *at = words; n && (at = strstr(at, word)); at += n)
    if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
  return false;
}

/* Says so of options that only concern an NPU's compilation, where they are not what they are without being given. */
static void tell_without_effect(const atc_option *o, const char *value) {
  const size_t n = strlen(value);
  if (o->values && !strncmp(o->values, value, n) && (!o->values[n] || o->values[n] == ' ')) return;
  atc_warn("Warning: --%s concerns the compilation for an NPU, and has no effect here.", o->name);
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
    if (option->values && !is_word_of(value, option->values))
      return atc_refuse(EXIT_ARGUMENTS, "E10001: --%s is %s, expected one of: %s", option->name, value, option->values);
    if (option->file != ATC_NO_FILE) {
      const int code = atc_check_file(option->name, value, option->file);
      if (code) return code;
    }
    if (option->tells) tell_without_effect(option, value);
    if (option->offset != IGNORED) *(const char **)(void *)((char *)o + option->offset) = value;
  }
  return 0;
}

/* The options that say what is made of which model. */
static int check_model_options(const atc_options *o) {
  if (!o->model) return atc_refuse(EXIT_ARGUMENTS, "E10004: --model is missing, expected the name of an ONNX file");
  if (!o->framework) return atc_refuse(EXIT_ARGUMENTS, "E10007: --framework is missing, expected 5 (ONNX)");
  if (strcmp(o->framework, "5") != 0)
    return atc_refuse(EXIT_ARGUMENTS,
                      "E10007: --framework is %s, expected 5 (ONNX); Caffe, AIR and TensorFlow are not supported",
                      o->framework);
  if ((o->batch != NULL) + (o->image != NULL) + (o->dims != NULL) > 1)
    return atc_refuse(EXIT_ARGUMENTS, "E10009: only one of --dynamic_batch_size, --dynamic_image_size and "
                                      "--dynamic_dims can be given");
  if ((o->batch || o->image || o->dims) && (o->shape_range || (o->input_shape && strchr(o->input_shape, '~'))))
    return atc_refuse(EXIT_ARGUMENTS, "E10009: ranges of shapes and gears (--dynamic_...) cannot be given both");
  if (o->shape_range && o->input_shape)
    return atc_refuse(EXIT_ARGUMENTS, "E10001: only one of --input_shape and --input_shape_range can be given");
  if (o->dims && o->aipp)
    return atc_refuse(EXIT_ARGUMENTS, "E10009: --dynamic_dims and --insert_op_conf cannot be given both");
  if (o->precision && o->precision_v2)
    return atc_refuse(EXIT_ARGUMENTS, "E10001: only one of --precision_mode and --precision_mode_v2 can be given");
  return 0;
}

static int check_output_options(const atc_options *o) {
  if (!o->output || !*o->output)
    return atc_refuse(EXIT_ARGUMENTS, "E10004: --output is missing, expected the name of the file to write");
  if (!o->soc_version || !atc_is_soc(o->soc_version))
    return atc_refuse(
        EXIT_ARGUMENTS,
        "E10001: --soc_version is %s, expected the name of a processor, such as Ascend910B3 or Ascend310P3",
        o->soc_version ? o->soc_version : "missing");
  return 0;
}

static int check_log(const atc_options *o) {
  if (!o->log || is_word_of(o->log, "null debug info warning error")) return 0;
  return atc_refuse(EXIT_ARGUMENTS,
                    "E10010: invalid value for --log:%s, only support debug, info, warning, error, null", o->log);
}

/* All arguments, for the file. Returns NULL if the host has no memory. */
static char *atc_command_line(int argc, char **argv) {
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  if (!f) return NULL;
  for (int i = 0; i < argc; ++i) fprintf(f, "%s%s", i ? " " : "", argv[i]);
  if (!fclose(f)) return text;
  free(text);
  return NULL;
}

static int run_mode(const atc_options *o, int argc, char **argv) {
  const char *mode = o->mode ? o->mode : "0";
  int code = check_log(o);
  if (code) return code;
  const bool looks = !strcmp(mode, "1") || !strcmp(mode, "6");
  if (looks && !o->om) return atc_refuse(EXIT_ARGUMENTS, "E10004: --om is missing, expected the name of an .om file");
  if (!strcmp(mode, "1")) return atc_write_json(o);
  if (!strcmp(mode, "6")) return atc_display(o->om);
  if (strcmp(mode, "0") != 0 && strcmp(mode, "3") != 0)
    return atc_refuse(EXIT_ARGUMENTS,
                      "E10001: --mode is %s, expected 0 (make a model), 1 (write JSON), 3 (check) or 6 (print what a "
                      "file needs)",
                      mode);
  if (o->single_operators) {
    if (o->model || o->framework)
      return atc_refuse(EXIT_ARGUMENTS, "E10001: only one of --singleop and --model can be given");
    return (code = check_output_options(o)) ? code : atc_make_operators(o);
  }
  if ((code = check_model_options(o))) return code;
  if (!strcmp(mode, "3")) return atc_check_model(o);
  if ((code = check_output_options(o))) return code;
  char *words = atc_command_line(argc, argv);
  code = atc_make_model(o, words);
  free(words);
  return code;
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
  if (!code) code = run_mode(&o, argc, argv);
  if (!code) printf("ATC run success, welcome to the next use.\n");
  return code;
}
